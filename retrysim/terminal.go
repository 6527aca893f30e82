package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file fits texts into the width of a terminal. What goes elsewhere has lines of any
// length.

// terminal reports whether w is one, or another device, such as the null device.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// width returns how many columns a text for w may have: $COLUMNS, else 80, on a terminal, and 0,
// for any number, elsewhere.
func width(w io.Writer) int {
	if !terminal(w) {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
		return n
	}
	return 80
}

// fitted breaks the lines of a text that are longer than a width. A command stays one to a
// shell. What follows the last gap of a line, or its indentation, stays below itself.
func fitted(text string, width int) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, newline := strings.CutSuffix(line, "\n")
		line = strings.ReplaceAll(line, "\t", "    ")
		if utf8.RuneCountInString(line) > width {
			line = broken(line, width)
		}
		b.WriteString(line)
		if newline {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// broken breaks one line.
func broken(line string, width int) string {
	text := strings.TrimLeft(line, " ")
	if command := strings.TrimPrefix(text, "for example: "); strings.HasPrefix(command, "retrysim ") && len(flagsOf(command)) > 1 {
		return continued(line, width)
	}
	hang := len(line) - len(text)
	if gap := strings.LastIndex(text, "  "); gap >= 0 {
		hang += gap + 2
	}
	if hang > width/2 {
		hang = 0
	}
	const together = "\x00%" // a number and its unit
	lines := wrap(strings.ReplaceAll(line[hang:], " %", together), width-utf8.RuneCountInString(line[:hang]))
	return line[:hang] + strings.ReplaceAll(strings.Join(lines, "\n"+strings.Repeat(" ", hang)), together, " %")
}

// continued breaks a command before its flags, with what a shell needs.
func continued(line string, width int) string {
	var b strings.Builder
	at, indent := 0, len(line)-len(strings.TrimLeft(line, " "))+4
	for i, flag := range flagsOf(line) {
		n := utf8.RuneCountInString(flag)
		switch {
		case i == 0:
		case at+1+n > width-2:
			b.WriteString(" \\\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(flag)
		at += n
	}
	return b.String()
}

// flagsOf splits a command before each flag: a quoted text stays whole.
func flagsOf(line string) (parts []string) {
	quoted, from := false, 0
	for i := range len(line) {
		switch {
		case line[i] == '\'':
			quoted = !quoted
		case !quoted && strings.HasPrefix(line[i:], " -"):
			parts, from = append(parts, line[from:i]), i+1
		}
	}
	return append(parts, line[from:])
}

// rows writes a table, the header first. If it is wider than a width, the columns that do not
// fit stand below those before them.
func rows(b *strings.Builder, table [][]string, width int) {
	wide := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	const indent, gap = 4, 3
	var lines [][]int // columns
	left := 0
	for i, n := range wide {
		if i == 0 || width > 0 && n > left {
			lines, left = append(lines, nil), width
			if i > 0 {
				left -= indent
			}
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], i)
		left -= n + gap
	}
	for i, row := range table {
		if i > 0 && len(lines) > 1 {
			b.WriteByte('\n')
		}
		for j, columns := range lines {
			if j > 0 {
				b.WriteString(strings.Repeat(" ", indent))
			}
			for k, column := range columns {
				if k < len(columns)-1 {
					fmt.Fprintf(b, "%-*s", wide[column]+gap, row[column])
				} else {
					b.WriteString(row[column] + "\n")
				}
			}
		}
	}
}
