package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
	"text/tabwriter"
)

// report is what a command has found out, for people and for programs.
type report struct {
	title   string
	header  []string
	table   [][]any
	legend  string   // what its columns mean
	notes   []string // below the table
	remarks []string // the notes of try, without its choice
	figure  figure

	command string         // all inputs, as a command line that repeats them
	inputs  map[string]any // the same for programs
	doc     map[string]any // the fields of the JSON, beside the inputs
}

// add adds a line to the table.
func (r *report) add(cells ...any) { r.table = append(r.table, cells) }

// write writes the report as text, json, svg or html.
func (r *report) write(w io.Writer, format string) error {
	r.figure.title, r.figure.footer = r.title, r.command
	switch format {
	case "json":
		r.doc["inputs"] = r.inputs
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r.doc)
	case "svg":
		if len(r.figure.panels) == 0 {
			return wrong("-format: this has no picture: want text, json or html")
		}
		r.figure.svg(w)
		return nil
	case "html":
		return r.html(w)
	}
	fmt.Fprintf(w, "%s\n\n", r.title)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(r.header, "\t"))
	for _, line := range r.table {
		fmt.Fprintf(t, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.legend != "" {
		fmt.Fprintf(w, "\n%s\n", r.legend)
	}
	for _, note := range r.notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.command)
	return err
}

// html writes a page that needs nothing else.
func (r *report) html(w io.Writer) error {
	var b strings.Builder
	cells := func(tag string, texts ...any) {
		b.WriteString("<tr>")
		for _, text := range texts {
			fmt.Fprintf(&b, "<%s>%s</%s>", tag, html.EscapeString(fmt.Sprint(text)), tag)
		}
		b.WriteString("</tr>\n")
	}
	title := html.EscapeString(r.title)
	fmt.Fprintf(&b, pageHead, title, title)
	if len(r.figure.panels) > 0 {
		r.figure.svg(&b)
	}
	b.WriteString("<table>\n")
	header := make([]any, len(r.header))
	for i, name := range r.header {
		header[i] = name
	}
	cells("th", header...)
	for _, line := range r.table {
		cells("td", line...)
	}
	b.WriteString("</table>\n")
	if r.legend != "" {
		fmt.Fprintf(&b, "<p><small>%s</small></p>\n", html.EscapeString(r.legend))
	}
	for _, note := range r.notes {
		fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(note))
	}
	fmt.Fprintf(&b, "<p>All inputs: <code>%s</code></p>\n</html>\n", html.EscapeString(r.command))
	_, err := io.WriteString(w, b.String())
	return err
}

const pageHead = `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%s</title>
<style>
:root { color-scheme: light dark } body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em }
svg { width: 100%%; height: auto } code { overflow-wrap: anywhere }
table { border-collapse: collapse } th, td { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid #8884; vertical-align: top }
td:first-child { min-width: 9rem; overflow-wrap: anywhere }
</style>
<h1>%s</h1>
`
