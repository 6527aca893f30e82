package harm

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Check measures the subjects in all worlds, or without long a sample of them. It fails the test if
// one is out of bound and the file of what is owed does not have the row, or if it has one that is within.
// With update it writes the file instead, and the summary into page, between the marks of that
// name. It logs the whole table.
func Check(t *testing.T, subjects []Subject, long, update bool, file, page, mark string) {
	owed, err := readOwed(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	lab := NewLab(t, !long)
	for _, w := range Worlds() {
		if !long && !w.quick {
			continue
		}
		for _, s := range subjects {
			r := row{world: w.ID(), subject: s.Name}
			if _, ok := owed[r.key()]; ok && !long {
				delete(owed, r.key())
				continue
			}
			r.figures = lab.Measure(w, s)
			r.harm = r.figures.Harm(!long)
			t.Log(r)
			rows = append(rows, r)
		}
		clear(lab.without)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Compare(slices.IndexFunc(subjects, a.of), slices.IndexFunc(subjects, b.of))
	})
	if update {
		if !long {
			t.Fatal("only all worlds say what is owed: set RETRY_LONG=1")
		}
		var text strings.Builder
		for _, r := range rows {
			if r.harm != "" {
				fmt.Fprintln(&text, r)
			}
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := replace(page, mark, summary(subjects, rows)); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, r := range rows {
		_, ok := owed[r.key()]
		switch delete(owed, r.key()); {
		case r.harm != "" && !ok:
			t.Errorf("out of bound: %v", r)
		case r.figures.well() && ok:
			t.Errorf("within the bound, so it is owed no more: %v", r)
		}
	}
	for _, line := range owed {
		if long {
			t.Errorf("%s has a row that is not measured: %s", file, line)
		}
	}
}

// row is one subject in one world.
type row struct {
	world, subject string
	figures        Figures
	harm           string
}

func (r row) key() string       { return r.subject + " | " + r.world }
func (r row) of(s Subject) bool { return r.subject == s.Name }

func (r row) String() string {
	line := r.key() + " | " + r.figures.String()
	if r.harm != "" {
		line += " | " + r.harm
	}
	return line
}

// readOwed returns the lines of a file by their first two columns, the subject and the world.
func readOwed(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	owed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		columns := strings.SplitN(line, " | ", 3)
		if len(columns) < 3 {
			return nil, fmt.Errorf("%s: %q has not three columns", file, line)
		}
		owed[columns[0]+" | "+columns[1]] = strings.TrimSpace(line)
	}
	return owed, err
}

// summary is a table for a page: of each subject, how many rows are out of bound, and the three in which most
// calls are lost.
func summary(subjects []Subject, rows []row) string {
	var text strings.Builder
	text.WriteString("| | out of bound | calls lost with and without, first 30 s, p99, in the three worst worlds |\n|---|--:|---|\n")
	for _, s := range subjects {
		var of, bad []row
		for _, r := range rows {
			if r.of(s) {
				of = append(of, r)
			}
			if r.of(s) && r.harm != "" {
				bad = append(bad, r)
			}
		}
		worst := func(f Figures) float64 { all, early := f.lost(); return max(all, early) }
		slices.SortStableFunc(bad, func(a, b row) int { return cmp.Compare(worst(b.figures), worst(a.figures)) })
		var cells []string
		for _, r := range bad[:min(3, len(bad))] {
			_, name, _ := strings.Cut(r.world, ": ")
			a, b := r.figures.With, r.figures.Without
			cells = append(cells, fmt.Sprintf("%s: %.1f and %.1f %%, %.1f and %.1f %%, %.3g and %.3g s", name,
				percent(a.Lost, a.Calls), percent(b.Lost, b.Calls), percent(a.EarlyLost, a.EarlyCalls), percent(b.EarlyLost, b.EarlyCalls),
				a.P99.Seconds(), b.P99.Seconds()))
		}
		fmt.Fprintf(&text, "| %s | %d of %d | %s |\n", s.Name, len(bad), len(of), cmp.Or(strings.Join(cells, "<br>"), "none"))
	}
	return text.String()
}

// replace replaces what stands on a page between <!-- mark --> and <!-- end -->.
func replace(page, mark, with string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	between := regexp.MustCompile(`(?s)(<!-- ` + mark + ` -->\n).*?(<!-- end -->\n)`)
	if !between.Match(text) {
		return fmt.Errorf("%s has no <!-- %s -->", page, mark)
	}
	return os.WriteFile(page, between.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(with, "$", "$$")+"${2}")), 0o666)
}
