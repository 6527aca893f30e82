package retryvet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/goretry/retry/retryvet/internal/code"
)

// idleguard finds guards that limit nothing: Limits without Max, and Paces without a Quota that
// nothing tells one. Tests want such guards.
func idleguard(p *pass) {
	if !p.sets(code.LimitPath, "Limit", "Max") {
		p.idleLimits()
	}
	if p.sets(code.RetryHTTPPath, "Transport", "PaceByHeaders") || p.names(code.PacePath, "Pace", "Quota", "Tell", "Hold") {
		return
	}
	for _, r := range p.Runs() {
		p.idlePaces(p.policyLiteral(r.Policy))
	}
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil)) {
		if t := p.Literal(c.Node().(*ast.CompositeLit), code.RetryHTTPPath, "Transport"); t != nil {
			p.idlePaces(p.policyLiteral(code.Field(t, "Policy")))
		}
	}
}

func (p *pass) idleLimits() {
	flag := func(node ast.Node, t types.Type, lit *ast.CompositeLit) {
		named, _ := types.Unalias(t).(*types.Named)
		switch {
		case p.InTest(node):
		case code.IsNamed(t, code.LimitPath, "Limit"):
			most := code.Field(orNone(lit), "Max")
			if n, known := p.Number(most); most == nil || known && n == 0 {
				p.report(node, "this Limit limits nothing: set Max")
			}
		case code.IsNamed(t, code.RetryPath, "PerKey") && named.TypeArgs().Len() == 1 && code.IsNamed(named.TypeArgs().At(0), code.LimitPath, "Limit"):
			if code.Field(orNone(lit), "New") == nil && !p.sets(code.RetryPath, "PerKey", "New") {
				p.report(node, "these Limits limit nothing: set New, which sets their Max")
			}
		}
	}
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil), (*ast.ValueSpec)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			flag(n, p.TypesInfo.TypeOf(n), n)
		case *ast.ValueSpec:
			if n.Type != nil && len(n.Values) == 0 {
				flag(n, p.TypesInfo.TypeOf(n.Type), nil)
			}
		case *ast.CallExpr:
			if t := p.zeroValue(n); t != nil {
				flag(n, t, nil)
			}
		}
	}
}

func orNone(lit *ast.CompositeLit) *ast.CompositeLit {
	if lit == nil {
		return &ast.CompositeLit{}
	}
	return lit
}

// idlePaces reports the Paces among the guards of a policy.
func (p *pass) idlePaces(policy *ast.CompositeLit) {
	if policy == nil || p.InTest(policy) {
		return
	}
	guards, ok := p.Value(code.Field(policy, "Guards")).(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, e := range guards.Elts {
		if p.idlePace(e) {
			p.report(e, "this Pace limits nothing: set Quota, or PaceByHeaders of a Transport, or call Tell")
		}
	}
}

// idlePace reports whether e is a Pace that has no quota, and that only this package can tell one.
func (p *pass) idlePace(e ast.Expr) bool {
	v := p.Value(e)
	if call, ok := v.(*ast.CallExpr); ok {
		return code.IsNamed(p.zeroValue(call), code.PacePath, "Pace")
	}
	u, ok := v.(*ast.UnaryExpr)
	if !ok || u.Op != token.AND || !code.IsNamed(p.TypesInfo.TypeOf(u.X), code.PacePath, "Pace") {
		return false
	}
	x := ast.Unparen(u.X)
	if held := p.Variable(x); held != nil {
		if held.Exported() && held.Parent() == held.Pkg().Scope() || held.IsField() {
			return false
		}
		if x = p.First(held); x == nil {
			return held.Kind() == types.LocalVar || held.Kind() == types.PackageVar
		}
	}
	lit := p.Literal(x, code.PacePath, "Pace")
	return lit != nil && code.Field(lit, "Quota") == nil
}

// zeroValue returns the type of which call makes a zero value, nil if it is no new(T).
func (p *pass) zeroValue(call *ast.CallExpr) types.Type {
	t := p.made(call)
	if t == nil || !p.TypesInfo.Types[call.Args[0]].IsType() {
		return nil
	}
	return t
}

// sets reports whether the package sets a field of the type, in a literal or later, or may do so.
func (p *pass) sets(path, name, field string) bool {
	of := func(e ast.Expr) bool {
		sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
		return ok && sel.Sel.Name == field && isOf(p.TypesInfo.TypeOf(sel.X), path, name)
	}
	for c := range p.Root.Preorder((*ast.AssignStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.CompositeLit)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if of(left) {
					return true
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && of(n.X) {
				return true
			}
		case *ast.CompositeLit:
			if field == "PaceByHeaders" && p.Literal(n, path, name) != nil && code.Field(n, field) != nil {
				return true
			}
		}
	}
	return false
}

// names reports whether the package names one of the fields or methods of the type.
func (p *pass) names(path, name string, members ...string) bool {
	for c := range p.Root.Preorder((*ast.SelectorExpr)(nil)) {
		sel := c.Node().(*ast.SelectorExpr)
		for _, n := range members {
			if sel.Sel.Name == n && isOf(p.TypesInfo.TypeOf(sel.X), path, name) {
				return true
			}
		}
	}
	return false
}

// isOf reports whether t is the named type, a pointer to it, or may hold it: what embeds it.
func isOf(t types.Type, path, name string) bool {
	t = types.Unalias(t)
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	if code.IsNamed(t, path, name) {
		return true
	}
	s, ok := underlying(t).(*types.Struct)
	if !ok {
		return false
	}
	for i := range s.NumFields() {
		if f := s.Field(i); f.Embedded() && isOf(f.Type(), path, name) {
			return true
		}
	}
	return false
}

func underlying(t types.Type) types.Type {
	if t == nil {
		return nil
	}
	return t.Underlying()
}
