package retryvet

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// neverstops finds runs that nothing ends.
func neverstops(p *pass) {
	for _, r := range p.Runs() {
		if r.Whole() && !r.Supervises() && p.unlimited(r.Policy) && p.Endless(r.Ctx) {
			p.report(r.Call, "nothing ends this run while it fails: set MaxAttempts or MaxElapsed, or pass a context that ends")
		}
	}
}

// guardorder finds guards in the order in which a place is held while an attempt waits. Tests
// show what that costs.
func guardorder(p *pass) {
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil)) {
		lit := c.Node().(*ast.CompositeLit)
		if p.InTest(lit) {
			continue
		}
		if limit := p.guard(lit, code.LimitPath); limit != nil {
			if pace := p.guard(lit, code.PacePath); pace != nil && limit.Pos() < pace.Pos() {
				p.report(limit, fmt.Sprintf("each attempt holds a place of this %s while it waits for its turn at the Pace: put the Pace first", p.pointsTo(limit).Obj().Name()))
			}
		}
		transport := p.Literal(lit, code.RetryHTTPPath, "Transport")
		if transport == nil {
			continue
		}
		perRequest, ok := p.Value(code.Field(transport, "Guards")).(*ast.FuncLit)
		policy := p.policyLiteral(code.Field(transport, "Policy"))
		if !ok || policy == nil || p.guard(p.Value(code.Field(policy, "Guards")), code.PacePath) == nil {
			continue
		}
		ast.Inspect(perRequest.Body, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if limit := p.guard(e, code.LimitPath); limit != nil {
					p.report(limit, fmt.Sprintf("Transport.Guards come before Policy.Guards, so each attempt holds a place of this %s while it waits for its turn at the Pace: put the Pace before it", p.pointsTo(limit).Obj().Name()))
				}
			}
			return true
		})
	}
}

// untimed finds runs over several targets whose attempts have no timeout: the first target that hangs
// eats the deadline of its callers, and no attempt is made elsewhere.
func untimed(p *pass) {
	for _, r := range p.Runs() {
		if r.Func.Pkg().Path() != code.FailoverPath || r.Func.Name() != "Do" || p.InTest(r.Call) {
			continue
		}
		policy := p.policyLiteral(r.Policy)
		if policy == nil || !code.Keyed(policy) || code.Field(policy, "AttemptTimeout") != nil {
			continue
		}
		for _, arg := range r.Call.Args {
			if p.untimedSet(arg) {
				p.report(r.Call, "a target that hangs eats the deadline of its callers, and nothing is tried elsewhere: set Policy.AttemptTimeout, or Target.Timeout")
			}
		}
	}
}

// untimedSet reports whether e is a Set of several targets, one of which is known to have no timeout.
func (p *pass) untimedSet(e ast.Expr) bool {
	if address, ok := ast.Unparen(e).(*ast.UnaryExpr); ok {
		if v := p.Variable(address.X); v != nil { // Do does not change it
			e = p.First(v)
		}
	}
	set := p.Literal(p.Value(e), code.FailoverPath, "Set")
	if set == nil {
		return false
	}
	targets, ok := p.Value(code.Field(set, "Targets")).(*ast.CompositeLit)
	if !ok || len(targets.Elts) < 2 {
		return false
	}
	for _, e := range targets.Elts {
		e = p.Value(e)
		if lit, ok := e.(*ast.CompositeLit); ok && lit.Type == nil && code.Keyed(lit) && code.Field(lit, "Timeout") == nil {
			return true // {Name: "a"} in a []*Target
		}
		if lit := p.Literal(e, code.FailoverPath, "Target"); lit != nil && code.Keyed(lit) && code.Field(lit, "Timeout") == nil {
			return true
		}
	}
	return false
}

// guard returns the guard of a package in a literal of guards: the first limit or the last pace.
// It is nil if there is none, or if e is something else.
func (p *pass) guard(e ast.Expr, path string) (found ast.Expr) {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	list, ok := p.TypesInfo.TypeOf(lit).Underlying().(*types.Slice)
	if !ok || !code.IsNamed(list.Elem(), code.RetryPath, "Guard") {
		return nil
	}
	for _, e := range lit.Elts {
		if t := p.pointsTo(e); t != nil && t.Obj().Pkg() != nil && t.Obj().Pkg().Path() == path && (found == nil || path == code.PacePath) {
			found = e
		}
	}
	return found
}

// pointsTo returns the named type that e is known to point to, even if it is a variable of an
// interface type. It is nil if there is none.
func (p *pass) pointsTo(e ast.Expr) *types.Named {
	named, _ := types.Unalias(code.Deref(p.TypesInfo.TypeOf(p.Value(e)))).(*types.Named)
	return named
}

// unlimited reports whether a policy is known to set no limit.
func (p *pass) unlimited(policy ast.Expr) bool {
	lit := p.policyLiteral(policy)
	if lit == nil {
		return false
	}
	n, known := p.Number(code.Field(lit, "MaxAttempts"))
	return known && n < 0 && code.Field(lit, "MaxElapsed") == nil
}

// exits reports whether call is known not to return.
func (p *pass) exits(call *ast.CallExpr) bool {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return p.TypesInfo.Uses[f] == types.Universe.Lookup("panic")
	case *ast.SelectorExpr:
		switch f.Sel.Name {
		case "Exit", "Goexit", "Fatal", "Fatalf", "Fatalln", "FailNow", "Skip", "Skipf", "SkipNow", "Panic", "Panicf", "Panicln":
			return true
		}
	}
	return false
}

// nanoseconds finds durations without a unit: Constant(5) waits for 5 ns. Tests
// write such waits when they want them short.
func nanoseconds(p *pass) {
	flag := func(e ast.Expr, what string) {
		if p.InTest(e) {
			return
		}
		if n, ok := p.Number(e); ok && 1 <= n && n <= 999 && p.Untyped(e) {
			p.report(e, fmt.Sprintf("%s is %d ns here: write the unit, such as %d*time.Millisecond", what, n, n))
		}
	}
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			if !code.IsOurs(p.TypesInfo.TypeOf(n)) {
				continue
			}
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); !ok { // retry.Schedule{…}
					if isDuration(p.TypesInfo.TypeOf(e)) {
						flag(e, "this wait")
					}
				} else if field, ok := kv.Key.(*ast.Ident); ok && isDuration(p.TypesInfo.TypeOf(kv.Value)) {
					flag(kv.Value, field.Name)
				}
			}
		case *ast.CallExpr:
			if p.TypesInfo.Types[n.Fun].IsType() {
				if code.IsNamed(p.TypesInfo.TypeOf(n.Fun), code.RetryPath, "Constant") {
					flag(n.Args[0], "Constant")
				}
				continue
			}
			f, ok := typeutil.Callee(p.TypesInfo, n).(*types.Func)
			if !ok || !f.Exported() || f.Pkg() == nil || !code.Ours(f.Pkg().Path()) {
				continue
			}
			for i, arg := range n.Args {
				if i < f.Signature().Params().Len() && isDuration(f.Signature().Params().At(i).Type()) {
					flag(arg, f.Name()+"'s wait")
				}
			}
		}
	}
}

func isDuration(t types.Type) bool { return code.IsNamed(t, "time", "Duration") }
