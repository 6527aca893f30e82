package code

import (
	"go/ast"
	"strings"
)

// The paths of this project's packages whose calls are read.
const (
	RetryPath      = "github.com/goretry/retry"
	RetryHTTPPath  = RetryPath + "/retryhttp"
	RetryTestPath  = RetryPath + "/retrytest"
	RetrySQLPath   = RetryPath + "/retrysql"
	RetryBatchPath = RetryPath + "/retrybatch"
	BudgetPath     = RetryPath + "/budget"
	HedgePath      = RetryPath + "/hedge"
	LimitPath      = RetryPath + "/limit"
	PacePath       = RetryPath + "/pace"
)

// Runs returns the calls that run a policy, in the order of the source.
func (p *Package) Runs() []Run {
	if p.scanned {
		return p.runs
	}
	p.scanned = true
	for c := range p.Root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		path, name := p.Callee(call)
		if len(call.Args) < 2 {
			continue
		}
		r := Run{Cursor: c, Call: call, Pkg: path[strings.LastIndex(path, "/")+1:], Name: name, Ctx: call.Args[0], Policy: call.Args[1]}
		switch path + "." + name {
		case RetryPath + ".Do", RetryPath + ".Run", RetryPath + ".Supervise",
			RetryBatchPath + ".Do", RetryBatchPath + ".Run":
			r.Op = call.Args[len(call.Args)-1]
			p.runs = append(p.runs, r)
		case HedgePath + ".Do", HedgePath + ".DoValue", HedgePath + ".Race":
			r.Op = call.Args[3]
			p.runs = append(p.runs, r)
		case RetryPath + ".NewTicker":
			p.runs = append(p.runs, r)
		}
	}
	return p.runs
}

// OpLiteral returns the literal that is run as the operation e, or nil.
func (p *Package) OpLiteral(e ast.Expr) *ast.FuncLit {
	e = p.Value(e)
	if p.IsCall(e, RetryPath, "Until") {
		return p.OpLiteral(e.(*ast.CallExpr).Args[0])
	}
	lit, _ := e.(*ast.FuncLit)
	return lit
}

// Endless reports whether a context is known never to end.
func (p *Package) Endless(ctx ast.Expr) bool {
	return p.IsCall(p.Value(ctx), "context", "Background", "TODO")
}
