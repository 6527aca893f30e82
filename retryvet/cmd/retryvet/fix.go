package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/checker"

	"github.com/goretry/retry/retryvet/internal/migrate"
)

// fix makes the fixes, or prints them as a diff, and says for each call of another library
// what changes, or why it stays. What it says of a diff goes to stderr, so that stdout has
// the diff alone. It returns the exit status.
func fix(o options, actions []*checker.Action, stdout, stderr io.Writer) int {
	fixable := map[string]bool{} // packages
	for _, action := range actions {
		for _, d := range action.Diagnostics {
			if len(d.SuggestedFixes) > 0 {
				fixable[action.Package.PkgPath] = true
			}
		}
	}
	if len(fixable) > 0 {
		if status := apply(o, slices.Sorted(maps.Keys(fixable)), stdout, stderr); status != 0 {
			return status
		}
	}
	says, now, count := stdout, "now a ", "%s rewritten, %d left as they are\n"
	if o.diff {
		says, now, count = stderr, "-fix makes this a ", "%s to rewrite, %d to leave as they are\n"
	}
	findings := foreign(actions)
	rewritten := 0
	for _, f := range findings {
		if f.rewritten {
			rewritten++
		}
		fmt.Fprintf(says, "%s: %s\n", f.at, strings.Replace(f.text, "-fix makes this a ", now, 1))
	}
	if len(findings) == 0 {
		fmt.Fprintln(says, "nothing to rewrite: no calls of the retry libraries that -fix knows")
		return 0
	}
	fmt.Fprintf(says, count, calls(rewritten), len(findings)-rewritten)
	if rewritten > 0 && !o.diff && exec.Command("go", "list", "-m", "github.com/goretry/retry").Run() != nil {
		fmt.Fprintln(says, "next: go get github.com/goretry/retry")
	}
	return 0
}

func calls(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// apply runs this command again on packages that have fixes. It returns the exit status. What
// the run says of tests that do not compile has been said.
func apply(o options, pkgs []string, stdout, stderr io.Writer) int {
	if slices.Contains(pkgs, "command-line-arguments") { // the command was given files
		pkgs = o.patterns
	}
	args := []string{"-fix", fmt.Sprintf("-test=%v", o.tests)}
	if o.diff {
		args = append(args, "-diff")
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	c := exec.Command(self, slices.Concat(args, o.checks, pkgs)...)
	var said strings.Builder
	c.Stdout, c.Stderr = stdout, &said
	c.Env = append(os.Environ(), inner+"=1")
	err = c.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	failed := err != nil && !o.partly || strings.Contains(said.String(), "panic: ")
	for line := range strings.Lines(said.String()) {
		failed = failed || strings.HasPrefix(line, "retryvet: ") // a fix could not be made
		if failed {
			fmt.Fprint(stderr, line)
		}
	}
	if failed {
		return 1
	}
	return 0
}

// finding is what the report says of one call.
type finding struct {
	at        token.Position
	text      string
	rewritten bool
}

// foreign returns the findings of the migration, in the order of the source. A package and
// its test variant report the same.
func foreign(actions []*checker.Action) []finding {
	all := map[finding]bool{}
	for _, action := range actions {
		for _, d := range action.Diagnostics {
			if d.Category == migrate.Analyzer.Name {
				at := action.Package.Fset.Position(d.Pos)
				all[finding{at, d.Message, strings.Contains(d.Message, ": -fix makes this a ")}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
}
