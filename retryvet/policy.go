package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"github.com/goretry/retry/retryvet/internal/code"
)

// freshbudget finds budgets that are made for one run. In tests a run may be all
// there is.
func freshbudget(p *pass) {
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)) {
		name := p.newBudget(c.Node().(ast.Expr))
		if name == "" || p.InTest(c.Node()) {
			continue
		}
		budget := c.Node()
		for _, r := range p.Runs() {
			if lit := p.policyLiteral(r.Policy); lit != nil && p.holds(lit, budget) && code.Body(r.Cursor) == code.Body(c) && !p.shared(r, budget) {
				p.report(budget, fmt.Sprintf("this %s is new for each run, so it limits nothing: make one, in a package variable, for all calls to the same part of a system", name))
				break
			}
		}
	}
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil)) {
		transport := p.Literal(c.Node().(ast.Expr), code.RetryHTTPPath, "Transport")
		if transport == nil || p.InTest(transport) {
			continue
		}
		perHost, ok := p.Value(code.Field(transport, "Budget")).(*ast.FuncLit)
		if !ok {
			continue
		}
		ast.Inspect(perHost.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt:
				for _, result := range n.Results {
					e := ast.Unparen(result)
					if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
						e = u.X
					}
					if name := p.newBudget(e); name != "" {
						p.report(e, fmt.Sprintf("Transport.Budget is called for every request, and this %s is new each time: use a retry.PerKey in a variable", name))
					}
				}
			}
			return true
		})
	}
}

// newBudget returns the name of the budget that e makes, "" if it makes none.
func (p *pass) newBudget(e ast.Expr) string {
	t := p.TypesInfo.TypeOf(e)
	if call, ok := e.(*ast.CallExpr); ok {
		id, ok := ast.Unparen(call.Fun).(*ast.Ident)
		if !ok || p.TypesInfo.Uses[id] != types.Universe.Lookup("new") {
			return ""
		}
		if pointer, ok := t.(*types.Pointer); ok {
			t = pointer.Elem()
		}
	}
	if code.IsNamed(t, code.RetryPath, "EarnedBudget") {
		return "EarnedBudget"
	}
	for _, name := range []string{"Token", "Ratio"} {
		if code.IsNamed(t, code.BudgetPath, name) {
			return "budget." + name
		}
	}
	return ""
}

// holds reports whether the budget of the policy is the one that e makes.
func (p *pass) holds(policy *ast.CompositeLit, e ast.Node) bool {
	budget := p.Value(code.Field(policy, "Budget"))
	if u, ok := budget.(*ast.UnaryExpr); ok && u.Op == token.AND {
		budget = p.Value(u.X)
	}
	return budget == e
}

// shared reports whether several runs may share what is made at node: r is in a
// loop or in a literal, and node is outside of it.
func (p *pass) shared(r code.Run, node ast.Node) bool {
	for c := range r.Cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if !code.Within(node, c.Node()) {
			return true
		}
	}
	if p.Uses(r.Policy) > 1 {
		return true
	}
	lit := p.policyLiteral(r.Policy)
	return lit != nil && p.Uses(code.Field(lit, "Budget")) > 1
}

// neverstops finds runs that nothing ends.
func neverstops(p *pass) {
	for _, r := range p.Runs() {
		switch r.Name {
		case "Do", "DoValue", "Run":
			if p.unlimited(r.Policy) && p.Endless(r.Ctx) {
				p.report(r.Call, "nothing ends this run while the operation fails: set MaxAttempts or MaxElapsed, or pass a context that ends")
			}
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
		if limit := p.guard(lit, code.LimitPath, "Limit"); limit != nil {
			if pace := p.guard(lit, code.PacePath, "Pace"); pace != nil && limit.Pos() < pace.Pos() {
				p.report(limit, "each attempt holds a place of this Limit while it waits for its turn at the Pace: put the Pace first")
			}
		}
		transport := p.Literal(lit, code.RetryHTTPPath, "Transport")
		if transport == nil {
			continue
		}
		perRequest, ok := p.Value(code.Field(transport, "Guards")).(*ast.FuncLit)
		policy := p.policyLiteral(code.Field(transport, "Policy"))
		if !ok || policy == nil || p.guard(p.Value(code.Field(policy, "Guards")), code.PacePath, "Pace") == nil {
			continue
		}
		ast.Inspect(perRequest.Body, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if limit := p.guard(e, code.LimitPath, "Limit"); limit != nil {
					p.report(limit, "Transport.Guards come before Policy.Guards, so each attempt holds a place of this Limit while it waits for its turn at the Pace: put the Pace before it")
				}
			}
			return true
		})
	}
}

// guard returns the guard of a type in a literal of guards: the first Limit or the last Pace.
// It is nil if there is none, or if e is something else.
func (p *pass) guard(e ast.Expr, path, name string) (found ast.Expr) {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	list, ok := p.TypesInfo.TypeOf(lit).Underlying().(*types.Slice)
	if !ok || !code.IsNamed(list.Elem(), code.RetryPath, "Guard") {
		return nil
	}
	for _, e := range lit.Elts {
		if p.pointsTo(e, path, name) && (found == nil || name == "Pace") {
			found = e
		}
	}
	return found
}

// pointsTo reports whether e is known to point to the named type, even if it is a variable of
// an interface type.
func (p *pass) pointsTo(e ast.Expr, path, name string) bool {
	pointer, ok := types.Unalias(p.TypesInfo.TypeOf(p.Value(e))).(*types.Pointer)
	return ok && code.IsNamed(pointer.Elem(), path, name)
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

// durations are the fields that take a duration, by type.
var durations = map[[2]string][]string{
	{code.RetryPath, "Policy"}:       {"MaxElapsed", "AttemptTimeout", "MaxRetryAfter"},
	{code.RetryPath, "Exponential"}:  {"Base", "Max"},
	{code.RetryPath, "Linear"}:       {"Base", "Max"},
	{code.RetryPath, "Decorrelated"}: {"Base", "Max"},
	{code.BudgetPath, "Ratio"}:       {"Window"},
	{code.HedgePath, "Hedge"}:        {"Delay", "MinDelay", "MaxDelay"},
}

// nanoseconds finds durations without a unit: Constant(5) waits for 5 ns. Tests
// write such waits when they want them short.
func nanoseconds(p *pass) {
	flag := func(e ast.Expr, what string) {
		if e == nil || p.InTest(e) {
			return
		}
		if n, ok := p.Number(e); ok && 1 <= n && n <= 999 && p.Untyped(e) {
			p.report(e, fmt.Sprintf("%s is %d ns here: write the unit, such as %d*time.Millisecond", what, n, n))
		}
	}
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			for name, fields := range durations {
				if code.IsNamed(p.TypesInfo.TypeOf(n), name[0], name[1]) {
					for _, f := range fields {
						flag(code.Field(n, f), f)
					}
				}
			}
			if code.IsNamed(p.TypesInfo.TypeOf(n), code.RetryPath, "Schedule") {
				for _, e := range n.Elts {
					flag(e, "this wait")
				}
			}
		case *ast.CallExpr:
			switch {
			case len(n.Args) == 1 && p.TypesInfo.Types[n.Fun].IsType() && code.IsNamed(p.TypesInfo.TypeOf(n.Fun), code.RetryPath, "Constant"):
				flag(n.Args[0], "Constant")
			case len(n.Args) == 2 && p.IsCall(n, code.RetryPath, "After"):
				flag(n.Args[1], "After's wait")
			}
		}
	}
}
