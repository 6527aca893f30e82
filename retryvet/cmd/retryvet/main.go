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
// What may live here: a main function, and what -fix says. The checks are in package
// retryvet, and what rewrites calls is package migrate.
package main

import (
	"flag"
	"os"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/migrate"
)

// singlechecker also speaks the protocol of go vet -vettool.
func main() {
	if args := os.Args[1:]; os.Getenv(inner) == "" && speaks(args) {
		os.Exit(fix(args, os.Stdout, os.Stderr))
	}
	singlechecker.Main(both())
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
