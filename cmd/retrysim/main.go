// Retrysim shows what a retry policy does to a service, in virtual time:
//
//	retrysim run contention|amplification|collapse|herd|layers [flags]
//	retrysim try -policy 'attempts=4 backoff=exponential(100ms,10s) budget=ratio(0.1)' [flags]
//
// run repeats an experiment whose results are known; try has clients of yours meet
// an outage or a spike, with your policy, without retries, with retries at once
// and without the budget. Each has its own flags: see retrysim run collapse -help.
// It writes a table, JSON, a picture (SVG) or a page (HTML), to -o or to standard
// output. The same seed gives the same output on every machine.
//
// It exits with code 2 if it cannot read its arguments.
//
// What may live here: flags, tables and pictures. What is simulated is in package
// storm.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

const usage = `usage: retrysim run contention|amplification|collapse|herd|layers [flags]
       retrysim try -policy 'attempts=4 backoff=exponential(100ms,10s) jitter=full budget=ratio(0.1)' [flags]
       add -help for the flags of each
`

func main() {
	os.Exit(run(os.Args[1:], open(os.Stdout), open(os.Stderr)))
}

// stream is something to write to, and whether a person watches.
type stream struct {
	io.Writer
	terminal bool
}

func open(f *os.File) stream {
	info, err := f.Stat()
	return stream{f, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// command is a thing to run: define adds its flags to a set, and returns what to
// do once they are read.
type command struct {
	define  func(o *options) func() (*report, error)
	example string
}

// options are what all commands share.
type options struct {
	*flag.FlagSet
	seed     uint64
	progress func(done float64)
}

// run is the program. It returns the exit code.
func run(args []string, stdout, stderr stream) int {
	err := execute(args, stdout, stderr)
	if wrong, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "retrysim: %v; for example: retrysim %s\n", wrong.err, wrong.example)
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "retrysim:", err)
		return 1
	}
	return 0
}

// usageError is an argument that cannot be used, and how it is done right.
type usageError struct {
	err     error
	example string
}

func (e usageError) Error() string { return e.err.Error() }

// execute runs one command.
func execute(args []string, stdout, stderr stream) error {
	if len(args) == 0 {
		args = []string{""}
	}
	name, args := args[0], args[1:]
	help := []string{"-h", "-help", "--help", "help"}
	if slices.Contains(help, name) || name == "run" && (len(args) == 0 || slices.Contains(help, args[0])) {
		_, err := io.WriteString(stdout, usage)
		return err
	}
	c, known := tryCommand, name == "try"
	if name == "run" {
		name, args = args[0], args[1:]
		c, known = experiments[name]
	}
	if !known {
		return usageError{fmt.Errorf("want run and an experiment, or try, not %q", name), "run collapse"}
	}
	o := &options{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), seed: 1}
	o.SetOutput(io.Discard)
	var format, file string
	value(o, &o.seed, "seed", "`number` that all chance follows from (default 1)", seed)
	value(o, &format, "format", "`kind` of output: text, json, svg or html (default text)", oneOf("text", "json", "svg", "html"))
	o.StringVar(&file, "o", "", "`file` to write to instead of standard output")
	do := c.define(o)
	switch err := o.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "for example: retrysim %s\n", c.example)
		o.SetOutput(stdout)
		o.PrintDefaults()
		return nil
	case err != nil:
		return usageError{err, c.example}
	case o.NArg() > 0:
		return usageError{fmt.Errorf("want flags only, not %q", o.Arg(0)), c.example}
	}
	if file != "" { // rather now than after the simulation
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	finish := o.showProgress(stderr, name)
	r, err := do()
	finish()
	if err != nil {
		return usageError{err, c.example}
	}
	r.Experiment, r.Seed = name, o.seed
	var out bytes.Buffer
	switch format {
	case "json":
		err = r.json(&out)
	case "svg":
		r.chart.svg(&out, r.title)
	case "html":
		r.html(&out)
	default:
		r.text(&out, stdout.terminal && file == "")
	}
	if err != nil {
		return err
	}
	if file != "" {
		return os.WriteFile(file, out.Bytes(), 0o644)
	}
	_, err = stdout.Write(out.Bytes())
	return err
}

// showProgress writes how much is done, from the first second on: twice a second
// to a terminal, in a line that it removes in the end, else each time that twice as
// long has passed.
func (o *options) showProgress(w stream, name string) (finish func()) {
	start := time.Now()
	next, shown := start.Add(time.Second), false
	o.progress = func(done float64) {
		now := time.Now()
		if !now.After(next) {
			return
		}
		line := fmt.Sprintf("retrysim: %s %3.0f %%", name, 100*done)
		if w.terminal {
			fmt.Fprint(w, "\r"+line)
			next, shown = now.Add(time.Second/2), true
		} else {
			fmt.Fprintln(w, line)
			next = now.Add(now.Sub(start))
		}
	}
	return func() {
		if shown {
			fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", 40))
		}
	}
}
