package harm

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Table has the figures of subjects in worlds, ordered by subject.
type Table struct {
	Long     bool // all seeds of all worlds, and not a sample
	subjects []Subject
	rows     []row
}

// Measure measures the subjects, and logs the rows of the table. If it is not Long it has ten worlds, and not
// what is owed by the file, if one is named.
func Measure(t *testing.T, subjects []Subject, long bool, owed string) *Table {
	table := &Table{Long: long, subjects: subjects}
	known, err := readOwed(owed)
	if err != nil {
		t.Fatal(err)
	}
	lab := NewLab(t, !long)
	for _, w := range Worlds() {
		if !long && !w.quick {
			continue
		}
		for _, s := range subjects {
			r := row{world: w.ID(), subject: s.Name}
			if _, ok := known[r.key()]; ok && !long {
				continue
			}
			r.figures = lab.Measure(w, s)
			r.harm = r.figures.Harm(!long)
			if testing.Verbose() {
				t.Log(r)
			}
			table.rows = append(table.rows, r)
		}
		clear(lab.without)
	}
	slices.SortStableFunc(table.rows, func(a, b row) int {
		return cmp.Compare(slices.IndexFunc(subjects, a.of), slices.IndexFunc(subjects, b.of))
	})
	return table
}

// Check fails the test if a row is out of bound and not in the file of what is owed, or if one is within and there.
func (b *Table) Check(t *testing.T, file string) {
	owed, err := readOwed(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range b.compare(owed) {
		t.Error(problem)
	}
}

func (b *Table) compare(owed map[string]string) (problems []string) {
	for _, r := range b.rows {
		_, ok := owed[r.key()]
		switch delete(owed, r.key()); {
		case r.harm != "" && !ok:
			problems = append(problems, "out of bound: "+r.String())
		case r.figures.well() && ok:
			problems = append(problems, "within the bound, so it is owed no more: "+r.String())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(owed)) {
		if b.Long {
			problems = append(problems, "owed, but not measured: "+owed[key])
		}
	}
	return problems
}

// Update writes what is out of bound into the file of what is owed.
func (b *Table) Update(t *testing.T, file string) {
	if !b.Long {
		t.Fatal("only the whole table says what is owed: set RETRY_LONG=1")
	}
	var text strings.Builder
	for _, r := range b.rows {
		if r.harm != "" {
			fmt.Fprintln(&text, r)
		}
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
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
	if file == "" {
		return nil, nil
	}
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

// Summarize writes onto a page, between <!-- mark --> and <!-- end -->, how many rows of each subject are
// out of bound, and the one in which most calls are lost. Subjects without any share a line.
func (b *Table) Summarize(t *testing.T, page, mark string) {
	var text strings.Builder
	text.WriteString("| | out of bound | the worst world | lost | of the first 30 s | p99 |\n|---|--:|---|--:|--:|--:|\n")
	var harmless []string
	worlds := 0
	for _, s := range b.subjects {
		var of, bad []row
		for _, r := range b.rows {
			if r.of(s) {
				of = append(of, r)
			}
			if r.of(s) && r.harm != "" {
				bad = append(bad, r)
			}
		}
		worst := func(f Figures) float64 { all, early := f.lost(); return max(all, early) }
		slices.SortStableFunc(bad, func(a, b row) int { return cmp.Compare(worst(b.figures), worst(a.figures)) })
		if worlds = len(of); len(bad) == 0 {
			harmless = append(harmless, s.Name)
			continue
		}
		a, b := bad[0].figures.With, bad[0].figures.Without
		fmt.Fprintf(&text, "| %s | %d of %d | %s | %.1f, %.1f %% | %.1f, %.1f %% | %.3g, %.3g s |\n", s.Name, len(bad), worlds, bad[0].world,
			percent(a.Lost, a.Calls), percent(b.Lost, b.Calls), percent(a.EarlyLost, a.EarlyCalls), percent(b.EarlyLost, b.EarlyCalls),
			a.P99.Seconds(), b.P99.Seconds())
	}
	if len(harmless) > 0 {
		fmt.Fprintf(&text, "| %s | 0 of %d | | | | |\n", strings.Join(harmless, "; "), worlds)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`(?s)(<!-- ` + mark + ` -->\n).*?(<!-- end -->\n)`)
	if !between.Match(old) {
		t.Fatalf("%s has no <!-- %s -->", page, mark)
	}
	with := strings.ReplaceAll(text.String(), "$", "$$")
	if err := os.WriteFile(page, between.ReplaceAll(old, []byte("${1}"+with+"${2}")), 0o666); err != nil {
		t.Fatal(err)
	}
}
