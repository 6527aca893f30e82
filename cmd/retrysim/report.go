package main

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"
)

// report is what a command has found out, for people and for programs.
type report struct {
	title  string
	header []string
	table  [][]any
	notes  []string // below the table
	figure figure

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
		var b strings.Builder
		if len(r.figure.panels) > 0 {
			r.figure.svg(&b)
		}
		return page.Execute(w, map[string]any{
			"Title": r.title, "SVG": template.HTML(b.String()), "Header": r.header, "Table": r.table, "Notes": r.notes, "Command": r.command,
		})
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
	for _, note := range r.notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.command)
	return err
}

// page needs nothing else.
var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>
:root { color-scheme: light dark } body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em }
svg { width: 100%; height: auto } code { overflow-wrap: anywhere }
table { border-collapse: collapse } th, td { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid #8884; vertical-align: top }
</style>
<h1>{{.Title}}</h1>
{{.SVG}}
<table>
<tr>{{range .Header}}<th>{{.}}</th>{{end}}</tr>
{{range .Table}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{range .Notes}}<p>{{.}}</p>
{{end}}<p>All inputs: <code>{{.Command}}</code></p>
</html>
`))
