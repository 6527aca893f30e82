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
	contention := [][]string{{"clients", "policy", "calls", "ms"}}
	for _, row := range storm.PublishedContention.Run() {
		if row.Clients == 20 || row.Clients == 50 {
			continue // TestContentionAsPublished compares them too
		}
		p := publishedContention[row.Policy][row.Clients]
		contention = append(contention, cells(row.Clients, row.Policy, fmt.Sprintf("%.1f / %v", row.Calls, p.calls), fmt.Sprintf("%.0f / %v", row.TimeMS, p.ms)))
	}

	amplification := [][]string{{"failure", "policy", "load", "success"}}
	for _, row := range storm.Amplification(storm.PublishedAmplification, []float64{.1, .5, 1}, 4, .1) {
		f := row.Failure
		want := map[string]string{
			"none":       fmt.Sprintf("1 | %.3f", 1-f),
			"unbudgeted": fmt.Sprintf("%.3f | %.3f", 1+f+f*f+f*f*f, 1-f*f*f*f),
			"ratio":      fmt.Sprintf("≤ 1.11 | %.3f", (1-f)*ratioLoad(f, .1)),
		}[row.Policy]
		load, success, _ := strings.Cut(want, " | ")
		amplification = append(amplification, cells(f, row.Policy, fmt.Sprintf("%.3f / %s", row.Load, load), strings.TrimSuffix(fmt.Sprintf("%.3f / %s", row.Success, success), " / ")))
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

	herd := [][]string{{"policy", "1st retry", "2nd", "3rd", "4th", "5th"}}
	for _, row := range storm.DocumentedHerd.Run() {
		if row.Retry == 1 {
			herd = append(herd, cells(row.Policy, fmt.Sprintf("%.0f / %v", row.Peak, publishedHerd[row.Policy])))
			continue
		}
		herd[len(herd)-1] = append(herd[len(herd)-1], fmt.Sprintf("%.0f", row.Peak))
	}

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

	text := readExperiments(t)
	for name, table := range map[string][][]string{"contention": contention, "amplification": amplification, "collapse": collapse, "herd": herd, "layers": layers} {
		before, rest, ok := strings.Cut(text, "<!-- "+name+" -->\n")
		old, after, found := strings.Cut(rest, "<!-- end -->")
		if !ok || !found {
			t.Fatalf("%s has no place for the table %q", experiments, name)
		}
		if old != markdown(table) {
			if !*update {
				t.Errorf("%s: the table %q is not what the experiment gives: run go test ./retrysim/internal/storm -update", experiments, name)
			}
			text = before + "<!-- " + name + " -->\n" + markdown(table) + "<!-- end -->" + after
		}
	}
	if *update {
		if err := os.WriteFile(experiments, []byte(text), 0o644); err != nil {
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
