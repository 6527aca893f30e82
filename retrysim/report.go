package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
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

// write writes the report as text, json, svg or html. A text has so many columns, or any number if
// width is 0.
func (r *report) write(w io.Writer, format string, width int) error {
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
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.title)
	cells := [][]string{r.header}
	for _, line := range r.table {
		var row []string
		for _, cell := range line {
			row = append(row, fmt.Sprint(cell))
		}
		cells = append(cells, row)
	}
	rows(&b, cells, width)
	if r.legend != "" {
		fmt.Fprintf(&b, "\n%s\n", r.legend)
	}
	for _, note := range r.notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	fmt.Fprintf(&b, "\n%s\n", r.command)
	_, err := io.WriteString(w, fitted(b.String(), width))
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
	b.WriteString("<div class=\"wide\"><table>\n")
	header := make([]any, len(r.header))
	for i, name := range r.header {
		header[i] = name
	}
	cells("th", header...)
	for _, line := range r.table {
		cells("td", line...)
	}
	b.WriteString("</table></div>\n")
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
.wide { /* with a shadow where it goes on */
--paper: Canvas; --shade: color-mix(in srgb, CanvasText 30%%, transparent);
overflow-x: auto; background-repeat: no-repeat; background-attachment: local, local, scroll, scroll;
background-image: linear-gradient(90deg, var(--paper) 50%%, transparent), linear-gradient(-90deg, var(--paper) 50%%, transparent),
linear-gradient(90deg, var(--shade), transparent), linear-gradient(-90deg, var(--shade), transparent);
background-position: 0, 100%%, 0, 100%%; background-size: 2.4rem, 2.4rem, .8rem, .8rem }
table { border-collapse: collapse } th, td { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid #8884; vertical-align: top }
td:first-child { min-width: 9rem; overflow-wrap: anywhere }
</style>
<h1>%s</h1>
`
