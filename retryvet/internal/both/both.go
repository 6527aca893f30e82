package both

import (
	"flag"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/migrate"
)

// Analyzer returns the two analyzers as one: each check has a flag of its own name. The
// flags of the checks are those of [retryvet.Analyzer].
func Analyzer() *analysis.Analyzer {
	checks, calls := retryvet.Analyzer, migrate.Analyzer
	a := &analysis.Analyzer{
		Name: checks.Name,
		Doc: "find mistakes that compile in code that retries\n\n" +
			"-fix rewrites those calls of other retry libraries that it understands.\n" +
			"Each check has a flag, and is on unless that is false: -loopctx=false.",
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
