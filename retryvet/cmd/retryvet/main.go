// Command retryvet finds mistakes that compile in programs that retry, and rewrites calls
// of other retry libraries.
//
//	retryvet ./...                            report
//	retryvet -fix ./...                       rewrite calls of other libraries
//	retryvet -fix -diff ./...                 show what that would change
//	retryvet -json ./...                      report as JSON
//	retryvet -loopctx=false ./...             without one of the checks
//	go vet -vettool=$(which retryvet) ./...   beside go vet's cache
//
// What may live here: a main function, and what the command says of its work. The checks
// are in package retryvet, and what rewrites calls is package migrate.
package main

import (
	"flag"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/migrate"
)

// inner is set in the environment of the run that this command makes of itself to apply
// fixes: only singlechecker can merge, format and compare them.
const inner = "RETRYVET_INNER"

func main() {
	args := os.Args[1:]
	if os.Getenv(inner) != "" || ofVet(args) {
		singlechecker.Main(both())
	}
	os.Exit(command(args, os.Stdout, os.Stderr))
}

// ofVet reports whether args are those of go vet -vettool, whose protocol singlechecker
// speaks.
func ofVet(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && (name == "V" || name == "flags") || strings.HasSuffix(arg, ".cfg")
	})
}

// both returns the two analyzers as one: each check has a flag of its own name.
func both() *analysis.Analyzer {
	checks, calls := retryvet.Analyzer, migrate.Analyzer
	a := &analysis.Analyzer{
		Name: checks.Name,
		Doc: "find mistakes that compile in code that retries\n\n" +
			"Each check has a flag. -fix rewrites calls of other retry libraries where everything about the call is understood.",
		URL:      checks.URL,
		Requires: []*analysis.Analyzer{inspect.Analyzer},
	}
	checks.Flags.VisitAll(func(f *flag.Flag) { a.Flags.Var(f.Value, f.Name, f.Usage) })
	foreign := a.Flags.Bool(calls.Name, true, calls.Doc)
	a.Run = func(pass *analysis.Pass) (any, error) {
		if _, err := checks.Run(pass); err != nil {
			return nil, err
		}
		if !*foreign {
			return nil, nil
		}
		return calls.Run(pass)
	}
	return a
}
