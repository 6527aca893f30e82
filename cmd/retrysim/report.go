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
	Experiment string `json:"experiment"`
	Seed       uint64 `json:"seed"`
	Rows       any    `json:"rows"`

	title  string
	header []string
	table  [][]string
	notes  []string
	chart  chart
}

// add adds a line to the table.
func (r *report) add(cells ...any) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = fmt.Sprint(c)
	}
	r.table = append(r.table, line)
}

func (r *report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// text writes the table and, if chart, a picture in characters.
func (r *report) text(w io.Writer, chart bool) {
	fmt.Fprintf(w, "%s (seed %d)\n\n", r.title, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, line := range append([][]string{r.header}, r.table...) {
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	t.Flush()
	if len(r.notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes, "\n"))
	}
	if chart {
		r.chart.text(w)
	}
}

// html writes a page that needs nothing else.
func (r *report) html(w io.Writer) {
	fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%[1]s</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em }
svg { width: 100%%; height: auto }
table { border-collapse: collapse } th, td { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid #8884 }
</style>
<h1>%[1]s</h1>
`, html.EscapeString(r.title))
	r.chart.svg(w, r.title)
	fmt.Fprintln(w, "<table>")
	for i, line := range append([][]string{r.header}, r.table...) {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		fmt.Fprint(w, "<tr>")
		for _, c := range line {
			fmt.Fprintf(w, "<%s>%s</%[1]s>", cell, html.EscapeString(c))
		}
		fmt.Fprintln(w, "</tr>")
	}
	fmt.Fprintf(w, "</table>\n")
	for _, note := range r.notes {
		fmt.Fprintf(w, "<p><code>%s</code></p>\n", html.EscapeString(note))
	}
	fmt.Fprintf(w, "<p>Seed %d. The same seed gives the same page.</p>\n</html>\n", r.Seed)
}
