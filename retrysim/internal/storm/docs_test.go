package storm_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim/internal/storm"
)

var update = flag.Bool("update", false, "write the tables of bench/EXPERIMENTS.md")

const experiments = "../../../bench/EXPERIMENTS.md"

// readExperiments returns the page, which is not there where only the root module is.
func readExperiments(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("../../../bench/go.mod"); err != nil {
		t.Skip("without the nested modules")
	}
	page, err := os.ReadFile(experiments)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The tables of bench/EXPERIMENTS.md are these experiments, beside what was published.
func TestTablesOfTheDocumentation(t *testing.T) {
	notUnderRace(t)
	long(t)
	contention := [][]string{{"policy", "calls", "ms"}}
	for _, row := range storm.PublishedContention.Run() {
		if row.Clients != 100 {
			continue // TestContentionAsPublished compares them too
		}
		p := publishedContention[row.Policy][row.Clients]
		contention = append(contention, cells(row.Policy, fmt.Sprintf("%.1f / %v", row.Calls, p.calls), fmt.Sprintf("%.0f / %v", row.TimeMS, p.ms)))
	}

	collapse := [][]string{{"goodput"}}
	for i, row := range storm.PublishedCollapse.Run() {
		line := []string{row.Policy}
		for j, w := range row.Windows {
			if i == 0 {
				collapse[0] = append(collapse[0], fmt.Sprintf("%v–%v s", w.FromS, w.ToS))
			}
			published := fmt.Sprint(publishedCollapse[row.Policy][j])
			if row.Policy == "token" && j > 1 {
				published = "≥ " + published
			}
			line = append(line, fmt.Sprintf("%.2f / %s", w.Goodput, published))
		}
		collapse = append(collapse, append(line, fmt.Sprintf("%.0f %%", 100*row.Down)))
	}
	collapse[0] = append(collapse[0], "trials that stay down")

	layers := [][]string{{"layers", "requests for a call", "guarded", "relayed", "calls that succeed if 30 % of the requests fail", "the same, relayed"}}
	for n := 1; n <= 3; n++ {
		line := cells(n)
		guarded := retry.Policy{MaxAttempts: 3, Classify: retry.AlreadyRetried}
		x := storm.Layers{Policy: retry.Policy{MaxAttempts: 3}, Depth: n, Fails: 1}
		for _, x := range []storm.Layers{x, {Policy: guarded, Depth: n, Fails: 1}, {Policy: x.Policy, Depth: n, Fails: 1, Relayed: true}} {
			requests, _ := x.Run()
			line = append(line, fmt.Sprint(requests))
		}
		for _, relayed := range []bool{false, true} {
			x.Fails, x.Calls, x.Seed, x.Relayed = .3, 10_000, 1, relayed
			_, success := x.Run()
			line = append(line, fmt.Sprintf("%.2f %%", 100*success))
		}
		layers = append(layers, line)
	}

	for name, table := range map[string][][]string{"contention": contention, "collapse": collapse, "layers": layers} {
		compareTable(t, name, table)
	}
}

// tableOf returns a table of bench/EXPERIMENTS.md, and the page before and after it.
func tableOf(t *testing.T, name string) (before, table, after string) {
	t.Helper()
	before, rest, ok := strings.Cut(readExperiments(t), "<!-- "+name+" -->\n")
	table, after, found := strings.Cut(rest, "<!-- end -->")
	if !ok || !found {
		t.Fatalf("%s has no place for the table %q", experiments, name)
	}
	return before + "<!-- " + name + " -->\n", table, "<!-- end -->" + after
}

// compareTable reports a table of bench/EXPERIMENTS.md that is not what the experiment gives, or
// writes it.
func compareTable(t *testing.T, name string, want [][]string) {
	t.Helper()
	before, table, after := tableOf(t, name)
	switch {
	case table == markdown(want):
	case !*update:
		t.Errorf("%s: the table %q is not what the experiment gives, which is\n%s\nrun RETRY_LONG=1 go test ./retrysim/internal/storm -run %s -update", experiments, name, markdown(want), t.Name())
	default:
		if err := os.WriteFile(experiments, []byte(before+markdown(want)+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func cells(values ...any) (line []string) {
	for _, v := range values {
		line = append(line, fmt.Sprint(v))
	}
	return line
}

func markdown(table [][]string) string {
	var b strings.Builder
	for i, line := range table {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(line)))
		}
	}
	return b.String()
}

// What bench/EXPERIMENTS.md says in words.
func TestWordsOfTheDocumentation(t *testing.T) {
	notUnderRace(t)
	long(t)
	x := storm.PublishedCollapse
	x.Base = 10 * time.Millisecond
	for _, row := range x.Run() {
		if row.Policy == "backoff" && row.Down < .5 {
			t.Errorf("with a base of 10 ms the backoff is down in %v of the trials", row.Down)
		}
	}
	y := storm.PublishedContention
	y.Clients = []int{100}
	rows := y.Run()
	if least := slices.MinFunc(rows, func(a, b storm.ContentionRow) int { return int(a.Calls - b.Calls) }); least.Policy != "full" {
		t.Errorf("%s makes the fewest calls, want full", least.Policy)
	}
}
