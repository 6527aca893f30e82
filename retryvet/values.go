package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"github.com/goretry/retry/retryvet/internal/code"
)

// harness finds tests that run the policy they gave to retrytest.New: its waits
// are real, and the harness sees nothing.
func harness(p *pass) {
	type given struct {
		policy *types.Var
		name   string // of the harness
		call   *ast.CallExpr
		body   *ast.BlockStmt
	}
	var all []given
	for c := range p.Root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if !p.IsCall(call, code.RetryTestPath, "New") || len(call.Args) < 2 {
			continue
		}
		v := p.Variable(call.Args[1])
		assign, ok := c.Parent().Node().(*ast.AssignStmt)
		if v == nil || !ok || len(assign.Lhs) != 1 {
			continue
		}
		if id, ok := assign.Lhs[0].(*ast.Ident); ok && p.Variable(id) != v {
			all = append(all, given{v, id.Name, call, code.Body(c)})
		}
	}
	for _, g := range all {
		for _, r := range p.Runs() {
			if r.Call.Pos() > g.call.End() && code.Body(r.Cursor) == g.body && p.Variable(r.Policy) == g.policy && !p.setBetween(g.policy, g.call.End(), r.Call.Pos()) {
				p.report(r.Policy, fmt.Sprintf("the harness does not see this run, and its waits are real: run %s.Policy", g.name))
			}
		}
	}
}

// setBetween reports whether v gets another value between two places.
func (p *pass) setBetween(v *types.Var, from, to token.Pos) bool {
	for c := range p.Root.Preorder((*ast.AssignStmt)(nil)) {
		n := c.Node().(*ast.AssignStmt)
		if n.Pos() < from || n.Pos() > to {
			continue
		}
		for _, left := range n.Lhs {
			if p.Variable(left) == v {
				return true
			}
		}
	}
	return false
}

// copied finds copies of what has state: each of the two goes on without the other.
// Tests keep copies to try a Loop twice.
func copied(p *pass) {
	flag := func(e ast.Expr, how string) {
		t, name := p.TypesInfo.TypeOf(e), ""
		switch {
		case code.IsNamed(t, code.RetryPath, "Loop"):
			name = "retry.Loop"
		case code.IsNamed(t, code.RetryPath, "Pace"):
			name = "retry.Pace"
		case code.IsNamed(t, code.RetryPath, "PerKey"):
			name = "retry.PerKey"
		case code.IsNamed(t, code.HedgePath, "Hedge"):
			name = "hedge.Hedge"
		case code.IsNamed(t, code.LimitPath, "Limit"):
			name = "limit.Limit"
		default:
			return
		}
		if p.InTest(e) || p.TypesInfo.Types[e].IsType() {
			return
		}
		switch e := ast.Unparen(e).(type) {
		case *ast.CompositeLit, *ast.CallExpr:
			return // a new one
		default:
			p.report(e, fmt.Sprintf("%s copies a %s, and the copies do not share their state: use a pointer", how, name))
		}
	}
	for c := range p.Root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.CallExpr)(nil), (*ast.ReturnStmt)(nil),
		(*ast.CompositeLit)(nil), (*ast.RangeStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for i, e := range n.Rhs {
				if len(n.Lhs) == len(n.Rhs) {
					if id, ok := n.Lhs[i].(*ast.Ident); ok && id.Name == "_" {
						continue
					}
				}
				flag(e, "this assignment")
			}
		case *ast.ValueSpec:
			for _, e := range n.Values {
				flag(e, "this declaration")
			}
		case *ast.CallExpr:
			for _, e := range n.Args {
				flag(e, "this call")
			}
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				if v := p.Variable(e); v != nil && v.Kind() == types.LocalVar {
					continue // it is moved
				}
				flag(e, "this return")
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Value
				}
				flag(e, "this literal")
			}
		case *ast.RangeStmt:
			if n.Value != nil {
				flag(n.Value, "this range")
			}
		}
	}
}
