// Retrysim shows what a retry policy does to a service, in virtual time:
//
//	retrysim try -policy 'attempts=4 backoff=exponential(100ms,10s) budget=ratio(0.1)' [flags]
//	retrysim find -policy … [flags]
//	retrysim live -policy … [flags]
//	retrysim fit -log access.log
//	retrysim run contention|amplification|collapse|herd|layers [flags]
//
// try has your processes meet an outage or a spike, with your policies, without
// retries and with each budget, over twenty seeds, and says which policy to choose.
// find searches for the largest outage, load or ratio that a policy survives. live
// does in real time, against a real server, what try simulates, and draws both. fit
// reads the flags that try wants from an access log. run repeats an experiment whose
// results are published.
//
// Each has its own flags: see retrysim help try. It writes a table, JSON, a picture
// (SVG) or a page (HTML), to -o or to standard output, always with all inputs. The
// same seed gives the same output on every machine, but for live. An interrupt ends
// try, find and live early: they write what is done by then.
//
// It exits with code 2 if it cannot read its arguments.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

const usage = `usage: retrysim try -policy 'attempts=4 backoff=exponential(100ms,10s) budget=ratio(0.1)' [flags]
       retrysim find -policy … [flags]
       retrysim live -policy … [flags]
       retrysim fit -log access.log
       retrysim run contention|amplification|collapse|herd|layers [flags]
       add -help for the flags of each
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], open(os.Stdout), open(os.Stderr))
	stop()
	os.Exit(code)
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

// command is a thing to run: define adds its flags to a set, and returns what checks
// them once they are read. That returns what to do.
type command struct {
	define  func(o *options) func() (job, error)
	example string
}

// job does what a command is for.
type job func(ctx context.Context) (*report, error)

var commands = map[string]command{
	"try":  tryCommand,
	"find": findCommand,
	"live": liveCommand,
	"fit":  fitCommand,
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr stream) int {
	err := execute(ctx, args, stdout, stderr)
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
func execute(ctx context.Context, args []string, stdout, stderr stream) error {
	help := []string{"-h", "-help", "--help", "help"}
	if len(args) > 1 && slices.Contains(help, args[0]) {
		args = append(args[1:], "-help") // help try is try -help
	}
	name, path := "", ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if slices.Contains(help, name) || name == "run" && (len(args) == 0 || slices.Contains(help, args[0])) {
		_, err := io.WriteString(stdout, usage)
		return err
	}
	c, known := commands[name]
	if path = name; name == "run" {
		name, args = args[0], args[1:]
		path = "run " + name
		c, known = experiments[name]
	}
	if !known {
		return usageError{fmt.Errorf("want try, find, live, fit, or run and an experiment, not %q", path), tryCommand.example}
	}
	if len(args) > 0 && args[0] == "help" {
		args = []string{"-help"}
	}
	o := &options{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), progress: func(float64) {}}
	o.SetOutput(io.Discard)
	check := c.define(o)
	format, file := "text", ""
	o.Func("format", "`kind` of output: text, json, svg, html (default text)", param{value: &format, words: "text json svg html"}.set)
	o.StringVar(&file, "o", "", "`file` to write to instead of standard output")
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
	do, err := check()
	if err != nil {
		return usageError{err, c.example}
	}
	out, done := stdout.Writer, func(bool) error { return nil }
	if file != "" { // rather now than after the simulation
		if out, done, err = create(file); err != nil {
			return err
		}
	}
	finish := o.showProgress(stderr, name)
	r, err := do(ctx)
	finish()
	var b bytes.Buffer
	if err == nil {
		r.command = "retrysim " + path + " " + o.line()
		if r.inputs == nil {
			r.inputs = o.inputs()
		}
		err = r.write(&b, format)
	}
	if err == nil {
		_, err = out.Write(b.Bytes())
	}
	return errors.Join(err, done(err == nil))
}

// create opens a file to write to. done closes it: it removes a new file that got
// nothing.
func create(file string) (w io.Writer, done func(ok bool) error, err error) {
	_, exists := os.Stat(file)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	return writer(func(b []byte) (int, error) {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				if err := f.Truncate(0); err != nil {
					return 0, err
				}
			}
			return f.Write(b)
		}), func(ok bool) error {
			err := f.Close()
			if !ok && exists != nil {
				err = errors.Join(err, os.Remove(file))
			}
			return err
		}, nil
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// showProgress writes how much is done, from the first second on: twice a second
// to a terminal, in a line that it removes in the end, else each time that twice as
// long has passed.
func (o *options) showProgress(w stream, name string) (finish func()) {
	start := time.Now()
	next, shown := start.Add(time.Second), false
	var lock sync.Mutex
	o.progress = func(done float64) {
		lock.Lock()
		defer lock.Unlock()
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
