// Retrysim shows what a retry policy does to a service, in virtual time:
//
//	retrysim try -policy 'attempts=4 backoff=exponential(100ms,10s) budget=earned' [flags]
//	retrysim find -policy … [flags]
//	retrysim live -policy … [flags]
//	retrysim serve [-listen 127.0.0.1:8080]
//	retrysim fit -log access.log
//	retrysim run contention|amplification|collapse|herd|layers|budgets|quotas [flags]
//
// try simulates an outage or a spike for your processes, with your policies, without
// retries and with each budget, over twenty seeds. It says which policy to choose.
// find searches for the largest outage, load or ratio that a policy survives. live
// does in real time, with a real server, what try simulates, and draws both. serve is
// try on a page with sliders, for a browser on this machine. A link to it may ask for
// at most 16 KiB, 20 seeds, 6 policies, 10 000 processes, 150 000 calls in a run,
// 10 simulated minutes and 30 s of simulation. fit derives the flags for
// try from an access log. run repeats a published experiment, or compares budgets or
// what clients make of a server's quotas. Each command has its own
// flags: see retrysim help try.
//
// All but serve write a table, JSON, a picture (SVG) or a page (HTML), to -o or to
// standard output, always with all inputs. The same seed gives the same output, except
// for live. On a terminal a text has as many columns as $COLUMNS says, or else 80. While a command works, a line on a terminal's standard error says how far it
// is. An interrupt ends serve. It ends try, find and live early: they write what
// is done by then. A second interrupt ends the program. The exit code is 2 if the
// arguments are invalid.
//
// # JSON
//
// The JSON of try is
//
//	{"inputs": {…}, "rows": [{"policy", "text", "seeds", "stays_down",
//	 "recovery_s": {"p5", "p50", "p95"}, "lost", "lost_share", "load", "peak", "p50_ms",
//	 "p99_ms", "verdict", "recovers", "why", "others": [{"disturbance", "seeds",
//	 "stays_down", "lost_share"}, …]}, …], "choose": "…"}
//
// where
//
//   - stays_down is a fraction of the seeds. recovery_s covers the seeds that recover,
//     and is null if none does.
//   - lost is the number of calls that fail in an average run.
//   - load is attempts per call. peak is the most attempts in a second, as a multiple of
//     the normal load.
//   - p50_ms and p99_ms cover all calls; a failed call counts with the time until it
//     failed.
//   - recovers says whether the verdict is good: the server is back in all runs.
//   - why is present only if some run stays down.
//
// live has two such rows, measured and simulated. find has for, unit, value (null if
// there is none), tried, map, and after an interrupt interrupted. fit has rate,
// capacity, latency_p50_ms, latency_p99_ms, failure, flags and inputs. run has
// experiment, inputs and rows. Of the experiments only collapse has a picture.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goretry/retry/internal/nearest"
)

// command is a thing to run: define adds its flags to a set, and returns what to do
// once they are read. live and serve add themselves.
type command struct {
	define  func(o *options) action
	does    string // in a line
	example string
}

// action does what a command is for, and writes to standard output. It returns a
// usageError if the flags cannot be used.
type action func(ctx context.Context, stdout io.Writer) error

// job is an action that finds something out.
type job func(ctx context.Context) (*report, error)

var commands = map[string]command{
	"try": {reported(try), "simulate an outage or a spike, with your policies and with each budget; say which to choose",
		"try -policy '" + policyExample + "' -processes 30 -rate 150/s -workers 10 -service 50ms -outage 3s"},
	"find": {reported(find), "search for the longest outage, the least spare capacity or the largest ratio that a policy survives",
		"find -for outage -policy 'attempts=4 budget=earned' -rate 150/s -workers 10 -service 50ms"},
	"fit": {reported(fit), "derive the flags of try from an access log", "fit -log access.log"},
	"run contention": {reported(contention), "clients update the same row: which backoff ends that soonest, and with the fewest calls?",
		"run contention -clients 10,100 -trials 100 -seed 1"},
	"run amplification": {reported(amplification), "a share of the requests fails: how many more do retries send?",
		"run amplification -failure 0.1,0.5 -clients 100 -rate 10"},
	"run budgets": {reported(budgets), "rules of budgets in many set-ups; -every 7: in a seventh of them", "run budgets -every 7"},
	"run collapse": {reported(collapse), "a spike overloads a server, and retries keep it down",
		"run collapse -spike 80/s -format svg -o collapse.svg"},
	"run herd": {reported(herd), "all clients fail at once: how many retry at once?", "run herd -clients 1000 -base 100ms"},
	"run layers": {reported(layers), "each layer of services retries: how many requests reach the last?",
		"run layers -attempts 3,4 -depth 1,2,3"},
	"run quotas": {reported(quotas), "a server with quotas, and what clients of several kinds get from it",
		"run quotas -processes 1,12,200 -load 1.5"},
}

// usageError says what is wrong with an argument.
type usageError struct{ error }

func wrong(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// interruptedAfter is the error of a job that an interrupt ended before there was anything
// to report.
func interruptedAfter(done, all int, of string) error {
	return fmt.Errorf("interrupted after %d of %d %s", done, all, of)
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	example, err := execute(ctx, args, stdout, stderr)
	if err == nil {
		return 0
	}
	code = 1
	if _, ok := errors.AsType[usageError](err); ok {
		code, err = 2, fmt.Errorf("%w\nfor example: retrysim %s", err, example)
	}
	fmt.Fprintln(stderr, fitted("retrysim: "+err.Error(), width(stderr)))
	return code
}

// execute runs one command, and returns an example of it.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) (example string, err error) {
	isHelp := func(word string) bool { return strings.TrimLeft(word, "-") == "help" || word == "-h" }
	if len(args) > 1 && isHelp(args[0]) { // help try
		args = append(slices.Clone(args[1:]), "-help")
	}
	n := min(1, len(args))
	if n > 0 && args[0] == "run" {
		n = min(2, len(args))
	}
	name := strings.Join(args[:n], " ")
	c, known := commands[name]
	switch args = slices.Clone(args[n:]); {
	case name == "run" || isHelp(strings.TrimPrefix(name, "run ")):
		return "", help(stdout)
	case !known:
		return commands["try"].example, unknown(name)
	case len(args) > 0 && isHelp(args[0]):
		args = []string{"-help"}
	}
	o := &options{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), stderr: stderr}
	o.SetOutput(io.Discard)
	do := c.define(o)
	switch err := o.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		var b strings.Builder
		fmt.Fprintf(&b, "retrysim %s: %s\n\nfor example: retrysim %s\n", name, c.does, c.example)
		o.printFlags(&b)
		_, err := io.WriteString(stdout, fitted(b.String(), width(stdout)))
		return "", err
	case err != nil:
		return c.example, usageError{o.explained(err)}
	case o.NArg() > 0:
		return c.example, wrong("want flags only, not %q", o.Arg(0))
	}
	return c.example, do(ctx, stdout)
}

// help writes what each command does, with an example.
func help(w io.Writer) error {
	var b strings.Builder
	b.WriteString("retrysim simulates what a retry policy does to a service, in virtual time. Begin with:\n\n  retrysim try\n\nThe commands:\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	names := slices.SortedFunc(maps.Keys(commands), func(a, b string) int {
		return cmp.Or(strings.Count(a, " ")-strings.Count(b, " "), strings.Compare(a, b)) // experiments last
	})
	for _, name := range names {
		fmt.Fprintf(t, "  %s\t%s\n", name, commands[name].does)
	}
	_ = t.Flush()
	b.WriteString("\nFor example:\n\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  retrysim %s\n", commands[name].example)
	}
	b.WriteString("\nretrysim help try explains the flags of try, and so on.\n")
	_, err := io.WriteString(w, fitted(b.String(), width(w)))
	return err
}

// unknown is the error of a command that is none. An experiment may stand without run.
func unknown(name string) error {
	var names []string
	for _, known := range slices.Sorted(maps.Keys(commands)) {
		if experiment, ok := strings.CutPrefix(known, "run "); ok && experiment == strings.TrimPrefix(name, "run ") {
			return wrong("no command %q; did you mean %s?", name, known)
		}
		names = append(names, known)
	}
	if name == "" {
		return wrong("want a command: see retrysim help")
	}
	if strings.HasPrefix(name, "run ") {
		return wrong("no experiment %q: see retrysim help%s", name, nearest.Hint(name, "", names...))
	}
	return wrong("no command %q: see retrysim help%s", name, nearest.Hint(name, "", append(names, "help")...))
}

// reported makes a job an action, which has flags for its report, and writes it.
func reported(define func(o *options) job) func(o *options) action {
	return func(o *options) action {
		do := define(o)
		format, file := "text", ""
		o.Var(param{value: &format, words: "text json svg html"}, "format", "`kind` of output: text, json, svg, html")
		o.StringVar(&file, "o", "", "`file` to write to instead of standard output")
		return func(ctx context.Context, stdout io.Writer) error {
			// Rather now than after the simulation.
			if folder, err := os.Stat(filepath.Dir(file)); err != nil {
				return fmt.Errorf("-o %s: %w", file, err)
			} else if !folder.IsDir() {
				return fmt.Errorf("-o %s: not in a folder", file)
			}
			hide := o.progress.show(o.stderr, o.Name())
			r, err := do(ctx)
			hide() // before anything is written
			if err != nil {
				return err
			}
			r.command = "retrysim " + o.Name() + " " + o.line(true)
			if r.inputs == nil {
				r.inputs = o.inputs()
			}
			var b bytes.Buffer
			columns := 0
			if file == "" {
				columns = width(stdout)
			}
			if err := r.write(&b, format, columns); err != nil {
				return err
			}
			if file != "" {
				return os.WriteFile(file, b.Bytes(), 0o644)
			}
			_, err = stdout.Write(b.Bytes())
			return err
		}
	}
}
