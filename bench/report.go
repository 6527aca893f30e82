package bench

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Report is one run of everything.
type Report struct {
	Date    time.Time
	Rounds  int
	Items   []Measured
	Waiting []Waiting
}

// Measured is an item with its results, in the order of its cases.
type Measured struct {
	Item
	Results []Result
}

// Markdown returns the whole report.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Speed and memory beside other libraries

Written by `+"`go run ./bench/cmd/table`"+` on %s: %s, GOMAXPROCS %d, %s/%s, %s. The load average
of the machine at the end was %s. The rows of a column took turns in %d short rounds, which other processes rarely interrupt.
A cell has the medians: nanoseconds, and allocations in brackets. “±” is half the distance between the quartiles of the times, in the median
row: if it is large, other processes did matter. Compare the cells of one column only.
[BEHAVIOUR.md](BEHAVIOUR.md) shows what the libraries do besides being fast.

`, r.Date.Format(time.DateOnly), processor(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), loadAverage(), r.Rounds)
	for _, v := range versions() {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	fmt.Fprintf(&b, "\n## Goals\n\n“×” is the median of the ratios within each round.\n\n| goal | measured | |\n|---|---|---|\n")
	for _, g := range r.goals() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", g.text, g.measured, g.verdict())
	}
	for items := r.Items; len(items) > 0; {
		n := 1
		for n < len(items) && items[n].Table == items[0].Table {
			n++
		}
		writeTable(&b, items[:n])
		items = items[n:]
	}
	r.writeWaiting(&b)
	return b.String()
}

// writeTable writes items side by side. The rows are in the order of the first column; cases
// that are not in it come last.
func writeTable(b *strings.Builder, items []Measured) {
	fmt.Fprintf(b, "\n## %s\n\n", items[0].Table)
	for _, m := range items {
		fmt.Fprintf(b, "- %s: %s\n", m.Name, m.About)
	}
	var names []string
	results := make([]map[string]Result, len(items)) // of each column, by the names of the cases
	for i, m := range items {
		results[i] = map[string]Result{}
		for _, r := range slices.SortedStableFunc(slices.Values(m.Results), func(a, b Result) int { return cmp.Compare(a.NS, b.NS) }) {
			if r.Run != nil {
				results[i][r.Name] = r
			}
			if !slices.Contains(names, r.Name) && r.Run != nil {
				names = append(names, r.Name)
			}
		}
	}
	b.WriteString("\n| |")
	for _, m := range items {
		fmt.Fprintf(b, " %s |", m.Name)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("--:|", len(items)))
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", emphasized(name))
		for _, of := range results {
			if r, ok := of[name]; ok {
				fmt.Fprintf(b, " %s (%.0f) |", number(r.NS), r.Allocs)
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("| ± |")
	for _, of := range results {
		var spreads []float64
		for _, r := range of {
			spreads = append(spreads, r.Spread)
		}
		fmt.Fprintf(b, " %.0f %% |", 100*median(spreads))
	}
	b.WriteString("\n")
	writeNotes(b, items)
}

// writeNotes writes what a reader of a table must know of its rows, and why cells are empty.
func writeNotes(b *strings.Builder, items []Measured) {
	var lines []string
	of := map[string][]string{} // the names of the rows, by what is to be said of them
	note := func(line, name string) {
		switch {
		case line == "":
			return
		case of[line] == nil:
			lines = append(lines, line)
		case slices.Contains(of[line], name):
			return
		}
		of[line] = append(of[line], name)
	}
	for _, m := range items {
		for _, r := range m.Results {
			note(r.Missing, r.Name)
			note(r.Note, r.Name)
		}
	}
	for i, line := range lines {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s: %s\n", strings.Join(of[line], ", "), line)
	}
}

// emphasized returns a name, which is bold if it is this library's.
func emphasized(name string) string {
	if name == ours.Name || name == HTTPPeers[library].Name || name == GRPCPeers[library].Name || name == OpenTelemetry {
		return "**" + name + "**"
	}
	return name
}

func (r Report) writeWaiting(b *strings.Builder) {
	fmt.Fprintf(b, `
## 100 000 calls that wait

Each call is made by the first function of its own goroutine, and waits an hour for its first retry. Each library has a process of its
own. Memory is the stack and heap in use. Time is from the cancel to the end of the last call, in the quickest of five rounds. Both are per call. A goroutine starts
with a stack of 2 KiB, and gets 4 KiB if these do not suffice. In a server, where calls are made from deeper frames, a goroutine needs
more than 2 KiB with any of the libraries.

| | B | of stack | of heap | ns to cancel |
|---|--:|--:|--:|--:|
`)
	for _, w := range slices.SortedFunc(slices.Values(r.Waiting), func(a, b Waiting) int { return cmp.Compare(a.Bytes(), b.Bytes()) }) {
		fmt.Fprintf(b, "| %s | %.0f | %.0f | %.0f | %s |\n", emphasized(w.Name), w.Bytes(), w.Stack, w.Heap, number(w.Cancel))
	}
}

func (r Report) find(item, peer string) (Result, bool) {
	for _, m := range r.Items {
		for _, x := range m.Results {
			if m.Name == item && x.Name == peer && x.Run != nil {
				return x, true
			}
		}
	}
	return Result{}, false
}

func number(x float64) string {
	switch {
	case x >= 100 || x == float64(int(x)):
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// processor returns what the system calls the machine.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}

// versions returns the modules that were measured.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var all []string
	measured := []string{"go.opentelemetry.io/otel"}
	for _, p := range Peers {
		measured = append(measured, p.Module)
	}
	for _, p := range HTTPPeers {
		measured = append(measured, p.Module)
	}
	for _, p := range GRPCPeers {
		measured = append(measured, p.Module)
	}
	for _, m := range info.Deps {
		switch {
		case m.Path == ours.Module:
			all = append(all, m.Path+" as it is in this repository")
		case slices.Contains(measured, m.Path):
			all = append(all, m.Path+" "+m.Version)
		}
	}
	return all
}
