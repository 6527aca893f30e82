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

Written by `+"`go run ./bench/cmd/table`"+` on %s: %s, GOMAXPROCS %d, %s/%s, %s.
Medians of %d rounds, in which the rows take turns. “×” is the time relative to the row with 1.00 in the same round. “±” is half
the distance between the quartiles: if it is large, the machine was busy. Compare rows of one table only: times of two runs differ.
[BEHAVIOUR.md](BEHAVIOUR.md) shows what the libraries do besides being fast.

`, r.Date.Format(time.DateOnly), processor(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), r.Rounds)
	for _, v := range versions() {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	fmt.Fprintf(&b, "\n## Goals\n\n| goal | measured | |\n|---|---|---|\n")
	for _, g := range r.goals() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", g.text, g.measured, g.verdict())
	}
	for _, m := range r.Items {
		m.write(&b)
	}
	r.writeWaiting(&b)
	return b.String()
}

func (m Measured) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| | ns | ± | × | B | allocs |\n|---|--:|--:|--:|--:|--:|\n", title(m.Name), m.About)
	byTime := slices.SortedStableFunc(slices.Values(m.Results), func(a, b Result) int {
		if a.Run == nil || b.Run == nil {
			return cmp.Compare(len(a.Missing), len(b.Missing)) // those that cannot come last
		}
		return cmp.Compare(a.NS, b.NS)
	})
	var notes []string
	for _, r := range byTime {
		if r.Run == nil {
			notes = append(notes, fmt.Sprintf("%s: — %s", r.Name, r.Missing))
			continue
		}
		name := r.Name
		if name == ours.Name {
			name = "**" + name + "**"
		}
		if r.Note != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", r.Name, r.Note))
		}
		fmt.Fprintf(b, "| %s | %s | %.0f %% | %.2f | %.0f | %.0f |\n", name, number(r.NS), 100*r.Spread, r.Ratio, r.Bytes, r.Allocs)
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "\n- %s\n", strings.Join(notes, "\n- "))
	}
}

func (r Report) writeWaiting(b *strings.Builder) {
	fmt.Fprintf(b, `
## 100 000 calls that wait

Each call is made by the first function of its own goroutine, and waits an hour for its first retry. Each library has a process of its
own. Memory is the stack and heap in use. Time is from the cancel to the end of the last call. Both are per call. A goroutine starts
with a stack of 2 KiB, and gets 4 KiB if these do not suffice. In a server, where calls are made from deeper frames, a goroutine needs
more than 2 KiB with any of the libraries.

| | B | of stack | of heap | ns to cancel |
|---|--:|--:|--:|--:|
`)
	for _, w := range slices.SortedFunc(slices.Values(r.Waiting), func(a, b Waiting) int { return cmp.Compare(a.Bytes(), b.Bytes()) }) {
		name := w.Name
		if name == ours.Name {
			name = "**" + name + "**"
		}
		fmt.Fprintf(b, "| %s | %.0f | %.0f | %.0f | %s |\n", name, w.Bytes(), w.Stack, w.Heap, number(w.Cancel))
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

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

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
