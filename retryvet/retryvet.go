package retryvet

import (
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"

	"github.com/goretry/retry/retryvet/internal/code"
)

// Analyzer reports calls that retry in a way that their author cannot mean. The
// package documentation describes its checks; each has a flag, which is on.
var Analyzer = newAnalyzer()

// A check looks at one package.
type check struct {
	name  string
	doc   string
	needs func(path string) bool // says which import makes the check worth running
	run   func(*pass)
}

// checks are all there are, in the order of their reports.
func checks() []check {
	return []check{
		{"outerctx", "find operations that do not use the context that they are given", code.Ours, outerctx},
		{"timeoutbody", "find values that need the context of an attempt which has ended", code.Ours, timeoutbody},
		{"freshstate", "find budgets, guards and hedges that are made for one call", code.Ours, freshstate},
		{"guardorder", "find limits that hold a place while the attempt waits for its turn", code.Ours, guardorder},
		{"idleguard", "find limits and paces that limit nothing", code.Ours, idleguard},
		{"neverstops", "find runs that nothing ends", code.Ours, neverstops},
		{"lostmark", "find marks such as Stop and After that fmt.Errorf loses", code.Ours, lostmark},
		{"nilmark", "find marks such as Stop and After of a nil error", code.Ours, nilmark},
		{"untimed", "find targets of a failover that nothing keeps from hanging", code.Ours, untimed},
		{"nanoseconds", "find durations written without a unit", code.Ours, nanoseconds},
		{"sleepinop", "find operations that sleep", code.Ours, sleepinop},
		{"unreadstatus", "find operations that return a response and do not look at its status", code.Ours, unreadstatus},
		{"nested", "find retries around retries, which multiply", code.Ours, nested},
		{"errorignored", "find runs whose error is ignored", code.Ours, errorignored},
		{"compared", "find errors of a run compared with ==, or asserted", code.Ours, compared},
		{"harness", "find tests that run the policy they gave to retrytest.New", code.Ours, harness},
		{"severalcalls", "find several calls in an operation whose errors are taken for proof", code.Ours, severalcalls},
		{"freshtoken", "find writes of which each attempt has another idempotency token", code.Ours, freshtoken},
		{"forgottendone", "find loops that leave an attempt without Done", code.Ours, forgottendone},
		{"copied", "find copies of what has state, such as a Loop or a Limit", code.Ours, copied},
		{"loopctx", "find loops that sleep through the end of their context", waiting, loopctx},
	}
}

func waiting(path string) bool { return path == "time" }

func newAnalyzer() *analysis.Analyzer {
	a := &analysis.Analyzer{
		Name: "retryvet",
		Doc: "find mistakes that compile in code that retries\n\n" +
			"Each check has a flag, and is on unless it is false.",
		URL:      "https://github.com/goretry/retry/blob/main/docs/vet.md",
		Requires: []*analysis.Analyzer{inspect.Analyzer},
	}
	all := checks()
	enabled := make([]*bool, len(all))
	for i, c := range all {
		enabled[i] = a.Flags.Bool(c.name, true, c.doc)
	}
	a.Run = func(ap *analysis.Pass) (any, error) {
		var p *pass
		for i, c := range all {
			if !*enabled[i] || !code.Imports(ap.Pkg, c.needs) {
				continue
			}
			if p == nil {
				p = &pass{Package: code.New(ap)}
			}
			p.check = c.name
			c.run(p)
		}
		return nil, nil
	}
	return a
}
