package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet/internal/both"
)

// options are what the command line asks for.
type options struct {
	fix, diff, json, tests bool
	context                int // lines around a finding, less than 0 for none
	patterns               []string
	checks                 []string // the flags that turn checks on or off
	partly                 bool     // some packages are not checked
}

// parse reads a command line. The flags of the checks set those of a.
func parse(a *analysis.Analyzer, args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet(a.Name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.fix, "fix", false, "rewrite calls of other retry libraries")
	fs.BoolVar(&o.diff, "diff", false, "with -fix, print the changes and leave the files as they are")
	fs.BoolVar(&o.json, "json", false, "print the findings as JSON")
	fs.BoolVar(&o.tests, "test", true, "look at tests, too")
	fs.IntVar(&o.context, "c", -1, "print the finding's line, and so many `lines` around it; -1: none")
	a.Flags.VisitAll(func(f *flag.Flag) { fs.Var(f.Value, f.Name, f.Usage) })
	fs.Usage = func() {
		fmt.Fprintf(stderr, "%s\n\nUsage: %s [flags] packages, such as ./...\n\nFlags:\n", a.Doc, a.Name)
		var checks []*flag.Flag
		others := flag.NewFlagSet(a.Name, flag.ContinueOnError)
		others.SetOutput(stderr)
		fs.VisitAll(func(f *flag.Flag) {
			if a.Flags.Lookup(f.Name) != nil {
				checks = append(checks, f)
			} else {
				others.Var(f.Value, f.Name, f.Usage)
				others.Lookup(f.Name).DefValue = f.DefValue
			}
		})
		others.PrintDefaults()
		fmt.Fprint(stderr, "\nChecks:\n")
		for _, f := range checks {
			fmt.Fprintf(stderr, "  -%s\n    \t%s\n", f.Name, f.Usage)
		}
		fmt.Fprintf(stderr, "\n%s\n", a.URL)
	}
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.patterns = fs.Args(); len(o.patterns) == 0 {
		fmt.Fprintf(stderr, "%[1]s: name the packages to look at, such as %[1]s ./...\n%[1]s -h lists the flags\n", a.Name)
		return o, errors.New("no packages")
	}
	fs.Visit(func(f *flag.Flag) {
		if a.Flags.Lookup(f.Name) != nil {
			o.checks = append(o.checks, "-"+f.Name+"="+f.Value.String())
		}
	})
	return o, nil
}

// command looks at the packages that args name, and reports or rewrites. It returns the
// exit status: 1 if something could not be checked, 3 if there are findings to report.
func command(args []string, stdout, stderr io.Writer) int {
	a := both.Analyzer()
	o, err := parse(a, args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule | packages.NeedForTest, Tests: o.tests}, o.patterns...)
	if err == nil && len(pkgs) == 0 {
		err = fmt.Errorf("%s matches no packages", strings.Join(o.patterns, " "))
	}
	if err != nil {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	status := 0
	for _, line := range unchecked(pkgs) {
		fmt.Fprintln(stderr, "retryvet:", line)
		status, o.partly = 1, true
	}
	if !o.json { // which has an entry for each package that is not checked
		pkgs = compiling(pkgs)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{a}, pkgs, nil)
	if err != nil {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	switch {
	case o.fix:
		return max(status, fix(o, graph.Roots, stdout, stderr))
	case o.json:
		err = graph.PrintJSON(stdout)
	default:
		err = graph.PrintText(stderr, o.context)
		for _, action := range graph.Roots {
			if len(action.Diagnostics) > 0 && status == 0 {
				status = 3
			}
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	return status
}
