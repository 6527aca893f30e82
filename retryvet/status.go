package retryvet

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// unreadstatus finds operations that return the response of an http.Client and do not look at its
// status: to their run a 503 is a success.
func unreadstatus(p *pass) {
	for r, op := range p.operations() {
		results, ok := p.TypesInfo.TypeOf(r.Call).(*types.Tuple)
		if !ok || results.Len() != 2 || !isResponse(results.At(0).Type()) || p.InTest(op) || !p.mayRetry(r.Policy) ||
			slices.ContainsFunc(r.Ops, func(op ast.Expr) bool { return p.IsCall(p.Value(op), code.RetryPath, "Until") }) {
			continue
		}
		if call := p.sends(op); call != nil && !p.usesRetryingClient(call) && !p.looksAt(op) {
			p.report(call, fmt.Sprintf("to %s a 503 is a success: return retryhttp.Failure(resp) for a status that is none, or use a retryhttp.Transport, JSON or Once", r.Name()))
		}
	}
}

func isResponse(t types.Type) bool {
	pointer, ok := types.Unalias(t).(*types.Pointer)
	return ok && code.IsNamed(pointer.Elem(), "net/http", "Response")
}

// sends returns the call in op of an http.Client, or of a func of net/http that uses one; nil if
// there is none.
func (p *pass) sends(op *ast.FuncLit) (found *ast.CallExpr) {
	ast.Inspect(op.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found != nil {
			return found == nil
		}
		f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
		if !ok || f.Pkg() == nil || f.Pkg().Path() != "net/http" {
			return true
		}
		if recv := f.Signature().Recv(); recv != nil && !code.IsNamed(code.Deref(recv.Type()), "net/http", "Client") {
			return true
		}
		if results := f.Signature().Results(); results.Len() == 2 && isResponse(results.At(0).Type()) {
			found = call
		}
		return true
	})
	return found
}

// looksAt reports whether op may look at the status of a response: it uses one otherwise than to
// return it, to compare it with nil or to use its body, its header, or the request.
func (p *pass) looksAt(op *ast.FuncLit) bool {
	plain := map[ast.Expr]bool{}
	found := false
	ast.Inspect(op.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				plain[left] = true
			}
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				plain[e] = true
			}
		case *ast.BinaryExpr:
			plain[n.X], plain[n.Y] = true, true
		case *ast.SelectorExpr:
			plain[n.X] = n.Sel.Name == "Body" || n.Sel.Name == "Header" || n.Sel.Name == "Request"
		case *ast.Ident:
			v := p.Variable(n)
			found = found || v != nil && isResponse(v.Type()) && !plain[n]
		}
		return !found
	})
	return found
}
