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
// them once they are read, and what to do then. check may be nil.
type command struct {
	define  func(o *options) (check func() error, do job)
	example string
}

// job does what a command is for.
type job func(ctx context.Context) (*report, error)

var commands = map[string]command{"try": tryCommand, "find": findCommand, "live": liveCommand, "fit": fitCommand}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr stream) int {
	code, err := execute(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "retrysim:", err)
		code = max(code, 1)
	}
	return code
}

// wrong says of an argument that cannot be used how it is done right.
func (c command) wrong(err error) (code int, _ error) {
	return 2, fmt.Errorf("%w; for example: retrysim %s", err, c.example)
}

// execute runs one command. Its code is 2 if the arguments cannot be used, else 0.
func execute(ctx context.Context, args []string, stdout, stderr stream) (code int, err error) {
	help := []string{"-h", "-help", "--help", "help"}
	if len(args) > 1 && slices.Contains(help, args[0]) {
		args = append(args[1:], "-help") // help try is try -help
	}
	path, table := "", commands
	if len(args) > 0 && args[0] == "run" {
		if path, table, args = "run ", experiments, args[1:]; len(args) == 0 {
			args = help[:1]
		}
	}
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if slices.Contains(help, name) {
		_, err := io.WriteString(stdout, usage)
		return 0, err
	}
	path += name
	c, known := table[name]
	if !known {
		return tryCommand.wrong(fmt.Errorf("want try, find, live, fit, or run and an experiment, not %q", path))
	}
	if len(args) > 0 && args[0] == "help" {
		args = []string{"-help"}
	}
	o := &options{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	o.SetOutput(io.Discard)
	check, do := c.define(o)
	format, file := "text", ""
	o.Func("format", "`kind` of output: text, json, svg, html (default text)", param{value: &format, words: "text json svg html"}.set)
	o.StringVar(&file, "o", "", "`file` to write to instead of standard output")
	switch err := o.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "for example: retrysim %s\n", c.example)
		o.SetOutput(stdout)
		o.PrintDefaults()
		return 0, nil
	case err != nil:
		return c.wrong(err)
	case o.NArg() > 0:
		return c.wrong(fmt.Errorf("want flags only, not %q", o.Arg(0)))
	}
	if check != nil {
		if err := check(); err != nil {
			return c.wrong(err)
		}
	}
	if file != "" { // rather now than after the simulation
		_, missing := os.Stat(file)
		f, failed := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
		if failed != nil {
			return 0, failed
		}
		defer func() {
			f.Close()
			if err != nil && missing != nil { // it would stay empty, or half written
				os.Remove(file)
			}
		}()
	}
	finish := o.showProgress(stderr, name)
	r, err := do(ctx)
	finish()
	if err != nil {
		return 0, err
	}
	r.command = "retrysim " + path + " " + o.line()
	if r.inputs == nil {
		r.inputs = o.inputs()
	}
	var b bytes.Buffer
	if err = r.write(&b, format); err == nil && file != "" {
		err = os.WriteFile(file, b.Bytes(), 0o644)
	} else if err == nil {
		_, err = stdout.Write(b.Bytes())
	}
	return 0, err
}

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
