package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"iter"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// harness finds tests that run the policy they gave to retrytest.New, or give it to what
// they test: its waits are real, and the harness sees nothing.
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
	if len(all) == 0 {
		return
	}
	for use := range p.handedOnPolicies() {
		for _, g := range all {
			if use.policy.Pos() > g.call.End() && code.Body(use.at) == g.body && p.plainPolicy(use.policy) == g.policy && !p.setBetween(g.policy, g.call.End(), use.policy.Pos()) {
				p.report(use.policy, fmt.Sprintf("the harness does not see %s, and its waits are real: %s", use.what, fmt.Sprintf(use.instead, g.name)))
			}
		}
	}
}

// A policyUse is a place that keeps a policy, or runs it.
type policyUse struct {
	at            inspector.Cursor
	policy        ast.Expr
	what, instead string
}

// handedOnPolicies returns the places that run a policy or give it to what may: runs, calls
// of others, fields. It leaves out retrytest, which is to get the policy, and calls of
// retryqueue, which do not wait.
func (p *pass) handedOnPolicies() iter.Seq[policyUse] {
	return func(yield func(policyUse) bool) {
		runs := map[*ast.CallExpr]ast.Expr{}
		for _, r := range p.Runs() {
			if r.Ctx != nil { // others do not wait
				runs[r.Call] = r.Policy
			}
		}
		for c := range p.Root.Preorder((*ast.CallExpr)(nil), (*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil)) {
			var values []ast.Expr
			what, instead := "runs of this policy", "give it %s.Policy"
			switch n := c.Node().(type) {
			case *ast.CallExpr:
				f, ok := typeutil.Callee(p.TypesInfo, n).(*types.Func)
				if !ok || f.Pkg() == nil || f.Pkg().Path() == code.RetryTestPath || f.Pkg().Path() == code.QueuePath {
					continue
				}
				if policy := runs[n]; policy != nil {
					what, instead, values = "this run", "run %s.Policy", []ast.Expr{policy}
					break
				}
				for i, arg := range n.Args {
					if takesPolicy(f.Signature(), i) {
						values = append(values, arg)
					}
				}
			case *ast.CompositeLit:
				if _, ok := p.TypesInfo.TypeOf(n).Underlying().(*types.Struct); !ok {
					continue // a list of policies may be for anything
				}
				values = n.Elts
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if _, field := left.(*ast.SelectorExpr); field && len(n.Lhs) == len(n.Rhs) {
						values = append(values, n.Rhs[i])
					}
				}
			}
			for _, v := range values {
				if kv, ok := v.(*ast.KeyValueExpr); ok {
					v = kv.Value
				}
				if !yield(policyUse{c, v, what, instead}) {
					return
				}
			}
		}
	}
}

// takesPolicy reports whether the parameter that argument i is for is a policy, and not
// anything.
func takesPolicy(f *types.Signature, i int) bool {
	params := f.Params()
	if i >= params.Len() {
		return false
	}
	t := types.Unalias(params.At(i).Type())
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	return code.IsNamed(t, code.RetryPath, "Policy")
}

// plainPolicy returns the variable whose policy e is, under another name maybe, or nil.
func (p *pass) plainPolicy(e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return p.plainPolicy(e.X)
		}
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Named" {
			return p.plainPolicy(sel.X)
		}
	}
	return p.Variable(e)
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
		t := p.TypesInfo.TypeOf(e)
		if t == nil || p.InTest(e) || p.TypesInfo.Types[e].IsType() || !code.IsOurs(t) ||
			!code.HoldsState(t) && !code.IsNamed(t, code.RetryPath, "Loop") { // a Loop is one goroutine's, and has no lock
			return
		}
		switch e := ast.Unparen(e).(type) {
		case *ast.CompositeLit, *ast.CallExpr:
			return // a new one
		default:
			p.report(e, fmt.Sprintf("%s copies a %s, and the copies do not share their state: use a pointer", how, typeName(t)))
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
