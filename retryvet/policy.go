package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// freshbudget finds budgets that are made for one run. In tests a run may be all
// there is.
func freshbudget(p *pass) {
	for c := range p.root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)) {
		name := p.newBudget(c.Node().(ast.Expr))
		if name == "" || p.inTest(c.Node()) {
			continue
		}
		budget := c.Node()
		for _, r := range p.runs() {
			if lit := p.policyLiteral(r.policy); lit != nil && p.holds(lit, budget) && body(r.cursor) == body(c) && !p.shared(r, budget) {
				p.report(budget, fmt.Sprintf("this %s is new for each run, so it limits nothing: make one, in a package variable, for all calls to the same dependency", name))
				break
			}
		}
	}
	for c := range p.root.Preorder((*ast.CompositeLit)(nil)) {
		transport := p.literal(c.Node().(ast.Expr), retryhttpPath, "Transport")
		if transport == nil || p.inTest(transport) {
			continue
		}
		perHost, ok := p.value(field(transport, "Budget")).(*ast.FuncLit)
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
						p.report(e, fmt.Sprintf("Transport.Budget is called for every request, and this %s is new each time: use retryhttp.BudgetPerHost", name))
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
	for _, name := range []string{"EarnedBudget", "TokenBudget", "RatioBudget", "ConcurrencyBudget"} {
		if isNamed(t, retryPath, name) {
			return name
		}
	}
	return ""
}

// holds reports whether the budget of the policy is the one that e makes.
func (p *pass) holds(policy *ast.CompositeLit, e ast.Node) bool {
	budget := p.value(field(policy, "Budget"))
	if u, ok := budget.(*ast.UnaryExpr); ok && u.Op == token.AND {
		budget = p.value(u.X)
	}
	return budget == e
}

// shared reports whether several runs may share what is made at node: r is in a
// loop or in a literal, and node is outside of it.
func (p *pass) shared(r run, node ast.Node) bool {
	for c := range r.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if !within(node, c.Node()) {
			return true
		}
	}
	if p.uses(r.policy) > 1 {
		return true
	}
	lit := p.policyLiteral(r.policy)
	return lit != nil && p.uses(field(lit, "Budget")) > 1
}

// uses returns how often the variable that e names is used, 0 if e names none.
func (p *pass) uses(e ast.Expr) int {
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok {
		e = u.X
	}
	v := p.variable(e)
	if v == nil {
		return 0
	}
	n := 0
	for _, used := range p.TypesInfo.Uses {
		if used == v {
			n++
		}
	}
	return n
}

// neverstops finds runs that nothing ends. Tests count ticks.
func neverstops(p *pass) {
	for _, r := range p.runs() {
		switch r.name {
		case "Do", "Run":
			if p.unlimited(r.policy) && p.endless(r.ctx) {
				p.report(r.call, "nothing ends this run while the operation fails: set MaxAttempts or MaxElapsed, or pass a context that ends")
			}
		case "Ticks":
			loop, ok := r.cursor.Parent().Node().(*ast.RangeStmt)
			if ok && loop.X == r.call && !p.inTest(loop) && !p.unlimited(r.policy) && !leaves(p, loop) {
				p.report(r.call, "this loop goes on after a success, until the policy gives up: break or return when the work is done")
			}
		}
	}
}

// unlimited reports whether a policy is known to set no limit.
func (p *pass) unlimited(policy ast.Expr) bool {
	lit := p.policyLiteral(policy)
	if lit == nil {
		return false
	}
	n, known := p.number(field(lit, "MaxAttempts"))
	return known && n < 0 && field(lit, "MaxElapsed") == nil
}

// endless reports whether a context is known never to end.
func (p *pass) endless(ctx ast.Expr) bool {
	return p.isCall(p.value(ctx), "context", "Background", "TODO")
}

// leaves reports whether something in the loop leaves it: break, return, goto, a
// continue of a loop around it, a panic, or a call that does not return.
func leaves(p *pass, loop *ast.RangeStmt) bool {
	found := false
	var walk func(n ast.Node, inner bool)
	walk = func(n ast.Node, inner bool) { // inner: a break without a label leaves something else
		ast.Inspect(n, func(m ast.Node) bool {
			if m == n || found {
				return !found
			}
			switch m := m.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt:
				found = true
			case *ast.BranchStmt:
				switch {
				case m.Label != nil && m.Tok != token.FALLTHROUGH, m.Tok == token.BREAK && !inner:
					found = true
				}
			case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
				walk(m, true)
				return false
			case *ast.CallExpr:
				found = found || p.exits(m)
			}
			return !found
		})
	}
	walk(loop.Body, false)
	return found
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
	{retryPath, "Policy"}:       {"MaxElapsed", "AttemptTimeout", "MaxRetryAfter"},
	{retryPath, "Exponential"}:  {"Base", "Max"},
	{retryPath, "Linear"}:       {"Base", "Max"},
	{retryPath, "Fibonacci"}:    {"Base", "Max"},
	{retryPath, "Decorrelated"}: {"Base", "Max"},
	{retryPath, "RatioBudget"}:  {"Window"},
	{hedgePath, "Hedge"}:        {"Delay", "MinDelay", "MaxDelay"},
}

// nanoseconds finds durations without a unit: Constant(5) waits for 5 ns. Tests
// write such waits when they want them short.
func nanoseconds(p *pass) {
	flag := func(e ast.Expr, what string) {
		if e == nil || p.inTest(e) {
			return
		}
		if n, ok := p.number(e); ok && 1 <= n && n <= 999 && p.untyped(e) {
			p.report(e, fmt.Sprintf("%s is %d ns here: write the unit, such as %d*time.Millisecond", what, n, n))
		}
	}
	for c := range p.root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.CompositeLit:
			for name, fields := range durations {
				if isNamed(p.TypesInfo.TypeOf(n), name[0], name[1]) {
					for _, f := range fields {
						flag(field(n, f), f)
					}
				}
			}
			if isNamed(p.TypesInfo.TypeOf(n), retryPath, "Schedule") {
				for _, e := range n.Elts {
					flag(e, "this wait")
				}
			}
		case *ast.CallExpr:
			switch {
			case len(n.Args) == 1 && p.TypesInfo.Types[n.Fun].IsType() && isNamed(p.TypesInfo.TypeOf(n.Fun), retryPath, "Constant"):
				flag(n.Args[0], "Constant")
			case len(n.Args) == 2 && p.isCall(n, retryPath, "After"):
				flag(n.Args[1], "After's wait")
			}
		}
	}
}

// untyped reports whether nothing in the constant e has a unit: literals, untyped
// constants and what is computed from them.
func (p *pass) untyped(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		c, ok := p.TypesInfo.Uses[e].(*types.Const)
		if !ok {
			return false
		}
		b, ok := c.Type().(*types.Basic)
		return ok && b.Info()&types.IsUntyped != 0
	case *ast.BinaryExpr:
		return p.untyped(e.X) && p.untyped(e.Y)
	case *ast.UnaryExpr:
		return p.untyped(e.X)
	}
	return false
}
