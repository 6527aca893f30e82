package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/goretry/retry/retryvet/internal/migrate"
)

// inner is set in the environment of the runs that fix makes of this command.
const inner = "RETRYVET_INNER"

// speaks reports whether args ask for fixes to be made: singlechecker makes them
// without a word.
func speaks(args []string) bool {
	asks := false
	for _, arg := range args {
		switch strings.TrimLeft(arg, "-") {
		case "fix", "fix=true":
			asks = true
		case "diff", "diff=true", "json", "json=true":
			return false
		}
	}
	return asks
}

// fix makes the fixes, and says for each call of another library what changes, or why
// it stays. It returns the exit code.
func fix(args []string, stdout, stderr io.Writer) int {
	report := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "fix") })
	var out strings.Builder
	if code := run(append([]string{"-json"}, report...), &out, stderr); code != 0 {
		return code
	}
	findings, err := foreign(out.String())
	if err != nil {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	if code := run(args, stdout, stderr); code != 0 {
		return code
	}
	rewritten := 0
	for _, f := range findings {
		if f.rewritten {
			rewritten++
		}
		fmt.Fprintf(stdout, "%s: %s\n", f.at, f.text)
	}
	fmt.Fprintf(stdout, "%s rewritten, %d left as they are\n", calls(rewritten), len(findings)-rewritten)
	if rewritten > 0 && exec.Command("go", "list", "-m", "github.com/goretry/retry").Run() != nil {
		fmt.Fprintln(stdout, "next: go get github.com/goretry/retry")
	}
	return 0
}

func calls(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// run runs this command again, and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	c := exec.Command(self, args...)
	c.Stdout, c.Stderr = stdout, stderr
	c.Env = append(os.Environ(), inner+"=1")
	if err := c.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		fmt.Fprintln(stderr, "retryvet:", err)
		return 1
	}
	return 0
}

// finding is what the report says of one call.
type finding struct {
	at, text  string
	rewritten bool
}

// foreign returns the findings of the migration in a report as JSON, in the order
// of the source. A package and its test variant report the same.
func foreign(report string) ([]finding, error) {
	var tree map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(report), &tree); err != nil {
		return nil, err
	}
	all := map[finding]bool{}
	for _, pkg := range tree {
		var diagnostics []struct{ Category, Posn, Message string }
		if json.Unmarshal(pkg["retryvet"], &diagnostics) != nil {
			continue // the package has an error, which the run with -fix reports
		}
		for _, d := range diagnostics {
			if d.Category == migrate.Analyzer.Name {
				text := strings.Replace(d.Message, "-fix makes this a ", "now a ", 1)
				all[finding{d.Posn, text, text != d.Message}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b finding) int {
		fileA, lineA, columnA := place(a.at)
		fileB, lineB, columnB := place(b.at)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB), cmp.Compare(columnA, columnB))
	}), nil
}

// place divides a position such as dir/name.go:12:3.
func place(at string) (file string, line, column int) {
	file, rest, _ := strings.Cut(at, ".go:")
	_, _ = fmt.Sscanf(rest, "%d:%d", &line, &column)
	return file, line, column
}
