// Compare plays stories of examples/payments with this library and with failsafe-go in
// turns, and prints a table for each. From the root of the repository:
//
//	go run ./examples/payments/compare -runs 5              # all
//	go run ./examples/payments/compare -runs 5 stall outage # some
//
// Shops make each payment once, so that a story ends though the system stays down.
// Each cell has the median of the runs, and the lowest and the highest. The load average
// shows whether other work was underway: compare runs that began at the same one.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// story is a row: what to play, by flags of examples/payments.
type story struct{ name, text, flags string }

// With -slow 100ms the ledgers do at most 160 payments per second.
var stories = []story{
	{"first", "the first minute of all processes, at three quarters of the capacity", "-trouble= -slow 100ms -rate 120 -for 1m"},
	{"overload", "three times the capacity", "-trouble= -slow 100ms -rate 480 -for 1m"},
	{"stall", "PostgreSQL freezes for 3 s", "-trouble stall=3s -rate 60 -for 12s"},
	{"restart", "PostgreSQL is restarted", "-trouble restart -rate 100 -for 14s"},
	{"outage", "PostgreSQL is away for 30 s", "-trouble outage=30s -rate 60 -for 1m"},
	{"freeze", "one of two ledgers freezes for 6 s", "-trouble freeze=6s -rate 100 -for 14s"},
	{"kill", "ledgers are killed four times", "-trouble kill,kill,kill,kill -rate 100 -for 12s"},
}

var clients []string

func main() {
	runs := flag.Int("runs", 1, "how often each story is played with each client")
	who := flag.String("clients", "retry,failsafe,failsafe-own", "which play; there is also retry-unlimited")
	flag.Parse()
	clients = strings.Split(*who, ",")
	if err := compare(*runs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(runs int, names []string) error {
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "payments")
	build := exec.Command("go", "build", "-tags", "failsafe", "-o", program, "github.com/goretry/retry/examples/payments")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for _, s := range stories {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		t := &table{cells: map[string]map[string][]float64{}}
		for run := range runs {
			for i := range clients { // another one first each time
				client := clients[(run+i)%len(clients)]
				if err := t.play(program, client, s.flags); err != nil {
					return fmt.Errorf("%s with %s: %w", s.name, client, err)
				}
			}
		}
		fmt.Printf("%s\n\n    go run -tags failsafe ./examples/payments -once -client … %s\n\n%s\n", s.text, s.flags, t)
	}
	return nil
}

// table has the figures of a story, in the order in which they came.
type table struct {
	names []string
	cells map[string]map[string][]float64 // by name and client
}

func (t *table) play(program, client, flags string) error {
	cmd := exec.Command(program, append(strings.Fields(flags), "-once", "-json", "-client", client)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var figures []struct {
		Name  string
		Value float64
	}
	if err := json.Unmarshal(out, &figures); err != nil {
		return err
	}
	for _, f := range figures {
		if t.cells[f.Name] == nil {
			t.names = append(t.names, f.Name)
			t.cells[f.Name] = map[string][]float64{}
		}
		t.cells[f.Name][client] = append(t.cells[f.Name][client], f.Value)
	}
	return nil
}

func (t *table) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "| | %s |\n|---%s|\n", strings.Join(clients, " | "), strings.Repeat("|--:", len(clients)))
	for _, name := range t.names {
		if !slices.ContainsFunc(clients, func(client string) bool { return slices.Max(t.cells[name][client]) > 0 }) {
			continue // nothing of that kind happened
		}
		fmt.Fprintf(&b, "| %s", name)
		for _, client := range clients {
			fmt.Fprintf(&b, " | %s", cell(t.cells[name][client]))
		}
		fmt.Fprintln(&b, " |")
	}
	return b.String()
}

func cell(values []float64) string {
	slices.Sort(values)
	n := len(values)
	low, high := text(values[0]), text(values[n-1])
	if low == high {
		return low
	}
	return fmt.Sprintf("%s (%s–%s)", text((values[(n-1)/2]+values[n/2])/2), low, high)
}

func text(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
