package retryvet

import (
	"go/ast"
	"go/types"

	"github.com/goretry/retry/retryvet/internal/code"
)

// pass is what the checks share while they look at one package.
type pass struct {
	*code.Package
	check string // the one that is running

	calls map[*types.Var][]*ast.CallExpr // see setBy
}

// report tells what happens at node and what to write instead.
func (p *pass) report(node ast.Node, message string) { p.Find(p.check, node, message) }

// policyLiteral returns the literal that e stands for, or nil.
func (p *pass) policyLiteral(e ast.Expr) *ast.CompositeLit {
	e = p.Value(e)
	if call, ok := e.(*ast.CallExpr); ok {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Named" && code.IsNamed(p.TypesInfo.TypeOf(sel.X), code.RetryPath, "Policy") {
			return p.policyLiteral(sel.X)
		}
	}
	return p.Literal(e, code.RetryPath, "Policy")
}
