package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
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
	for c := range p.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if !p.isCall(call, retrytestPath, "New") || len(call.Args) < 2 {
			continue
		}
		v := p.variable(call.Args[1])
		assign, ok := c.Parent().Node().(*ast.AssignStmt)
		if v == nil || !ok || len(assign.Lhs) != 1 {
			continue
		}
		if id, ok := assign.Lhs[0].(*ast.Ident); ok && p.variable(id) != v {
			all = append(all, given{v, id.Name, call, body(c)})
		}
	}
	for _, g := range all {
		for _, r := range p.runs() {
			if r.call.Pos() > g.call.End() && body(r.cursor) == g.body && p.variable(r.policy) == g.policy && !p.setBetween(g.policy, g.call.End(), r.call.Pos()) {
				p.report(r.policy, fmt.Sprintf("the harness does not see this run, and its waits are real: run %s.Policy", g.name))
			}
		}
	}
}

// setBetween reports whether v gets another value between two places.
func (p *pass) setBetween(v *types.Var, from, to token.Pos) bool {
	for c := range p.root.Preorder((*ast.AssignStmt)(nil)) {
		n := c.Node().(*ast.AssignStmt)
		if n.Pos() < from || n.Pos() > to {
			continue
		}
		for _, left := range n.Lhs {
			if p.variable(left) == v {
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
		case isNamed(t, retryPath, "Loop"):
			name = "retry.Loop"
		case isNamed(t, hedgePath, "Hedge"):
			name = "hedge.Hedge"
		case isNamed(t, limitPath, "Limit"):
			name = "limit.Limit"
		default:
			return
		}
		if p.inTest(e) || p.TypesInfo.Types[e].IsType() {
			return
		}
		switch e := ast.Unparen(e).(type) {
		case *ast.CompositeLit, *ast.CallExpr:
			return // a new one
		default:
			p.report(e, fmt.Sprintf("%s copies a %s, and the copies do not share their state: use a pointer", how, name))
		}
	}
	for c := range p.root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.CallExpr)(nil), (*ast.ReturnStmt)(nil),
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
				if v := p.variable(e); v != nil && v.Kind() == types.LocalVar {
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
