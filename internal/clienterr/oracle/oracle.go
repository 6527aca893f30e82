// Package oracle reads the tables of vendors' codes in its folder. The generator of package
// clienterr's tables uses it, and the tests that compare them with clients' real errors: no
// program links it. README.md says what a table looks like.
package oracle

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.tsv
var files embed.FS

// A Table is one file.
type Table struct {
	Name                           string // of the file, without .tsv
	Source, Version, Licence, Date string
	Under                          string // the table that decides if this one does not, such as "http": the first word of a row's Name is its code there
	Alone                          string // a type that has the code without what is under it, such as "bigquery.Error"
	Database                       bool   // the codes are a database's
	Rows                           []Row
}

// Vendor is the name of the table that t is a part of: "mysql" for mysql-tidb.
func (t *Table) Vendor() string {
	vendor, _, _ := strings.Cut(t.Name, "-")
	return vendor
}

// A Row is what a vendor says of a code, or of several: see [Row.Pattern].
type Row struct {
	Code, Name, Verdict, Source string
	Given                       string // the column facts
}

// Facts are what a code means: see README.md.
type Facts struct {
	Class                                 string
	Session, Message, RolledBack, Demoted bool
}

var verdicts = map[string]Facts{
	"retry":    {Class: "transient"},
	"doc":      {Class: "transient"},
	"throttle": {Class: "throttled"},
	"renew":    {Class: "permanent", Session: true},
	"never":    {Class: "permanent"},
	"no":       {Class: "permanent"},
	"unknown":  {Class: "unknown"},
}

// Classes are the names of classes, in the order of their numbers in package clienterr.
var Classes = []string{"unknown", "permanent", "transient", "timed_out", "throttled", "unprocessed"}

// Judged returns the class that the vendor's verdict alone stands for.
func (r Row) Judged() string { return verdicts[r.Verdict].Class }

// Facts returns what r says, by its verdict and its facts.
func (r Row) Facts() (Facts, error) {
	f, ok := verdicts[r.Verdict]
	if !ok {
		return f, fmt.Errorf("verdict %q", r.Verdict)
	}
	if r.Given == "" {
		return f, nil
	}
	for word := range strings.SplitSeq(r.Given, ",") {
		switch word {
		case "session":
			f.Session = true
		case "message":
			f.Message = true
		case "rolledback":
			f.RolledBack = true
		case "demoted":
			f.Demoted = true
		default:
			if !slices.Contains(Classes, word) {
				return f, fmt.Errorf("fact %q", word)
			}
			f.Class = word
		}
	}
	f.Session = f.Session && f.Class == "permanent"
	if f.Message && f.Class != "permanent" {
		return f, errors.New("only a permanent error is a message's fault")
	}
	return f, nil
}

// OfNumbers reports whether all codes of rows are numbers. Otherwise they are texts, as
// those of SQLSTATE are, of which most have nothing but digits.
func OfNumbers(rows []Row) bool {
	return !slices.ContainsFunc(rows, func(r Row) bool { _, _, ok := r.Numbers(); return !ok })
}

// Pattern reports whether r is for all codes with a beginning, or of a range, that have no
// row.
func (r Row) Pattern() bool {
	from, to, ok := r.Numbers()
	return strings.HasSuffix(r.Code, "*") || ok && from != to
}

// Numbers returns the first and the last number of r, if it is for numbers.
func (r Row) Numbers() (from, to int32, ok bool) {
	first, last := r.Code, r.Code
	if i := strings.IndexByte(r.Code[1:], '-'); i >= 0 { // not the sign
		first, last = r.Code[:i+1], r.Code[i+2:]
	}
	a, ok := parseNumber(first)
	b, okToo := parseNumber(last)
	return a, b, ok && okToo && a <= b
}

// parseNumber returns a number of 32 bits. One that has a sign only as an int32, as a status of
// Windows has, is one.
func parseNumber(s string) (int32, bool) {
	n, err := strconv.ParseInt(s, 0, 64)
	return int32(n), err == nil && -1<<31 <= n && n < 1<<32
}

// Tables returns all tables, by name.
func Tables() ([]*Table, error) {
	names, err := fs.Glob(files, "*.tsv")
	if err != nil {
		return nil, err
	}
	var tables []*Table
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t, err := parse(strings.TrimSuffix(name, ".tsv"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if name != "explained.tsv" {
			tables = append(tables, t)
		}
	}
	return tables, nil
}

func parse(name, text string) (*Table, error) {
	t := &Table{Name: name}
	if name == "explained" {
		return t, nil
	}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			if i == 0 {
				parts := strings.Split(comment, "; ")
				if len(parts) < 4 {
					return nil, errors.New(`the first line is not "# source; version; licence; date"`)
				}
				n := len(parts)
				t.Source, t.Version, t.Licence, t.Date = strings.Join(parts[:n-3], "; "), parts[n-3], parts[n-2], parts[n-1]
			} else if under, ok := strings.CutPrefix(comment, "under: "); ok {
				t.Under = under
			} else if alone, ok := strings.CutPrefix(comment, "alone: "); ok {
				t.Alone = alone
			}
			t.Database = t.Database || comment == "a database"
			continue
		}
		if i == 0 {
			return nil, errors.New("the first line is no comment")
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 4 && len(columns) != 5 || columns[0] == "" {
			return nil, fmt.Errorf("line %d has %d columns", i+1, len(columns))
		}
		r := Row{Code: columns[0], Name: columns[1], Verdict: columns[2], Source: columns[3]}
		if len(columns) == 5 {
			r.Given = columns[4]
		}
		if _, err := r.Facts(); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if seen[r.Code] {
			return nil, fmt.Errorf("line %d: %s stands twice", i+1, r.Code)
		}
		if f, _ := r.Facts(); f.RolledBack && !t.Database {
			return nil, fmt.Errorf("line %d: only a database rolls back, and no line says # a database", i+1)
		}
		seen[r.Code] = true
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

// An Explanation says why the class of a code is not the one that its vendor's verdict
// stands for.
type Explanation struct{ Table, Code, Reason string }

// Explained returns all explanations.
func Explained() ([]Explanation, error) {
	text, err := files.ReadFile("explained.tsv")
	if err != nil {
		return nil, err
	}
	var all []Explanation
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 3 || columns[2] == "" {
			return nil, fmt.Errorf("explained.tsv: line %d has %d columns", i+1, len(columns))
		}
		all = append(all, Explanation{columns[0], columns[1], columns[2]})
	}
	return all, nil
}
