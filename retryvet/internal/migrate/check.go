package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file decides whether one call can be rewritten, and how its errors are judged then.

// What to write, for reasons that more than one place gives.
const (
	oneRetries = ": let one of the two retry"
	useIts     = ": use the context that the operation of a run is given"
)

// check looks for what a rewritten call would do differently, or what this package
// would report about it. It fills in literal and the context.
func (m *migration) check(all []*migration) string {
	p := m.pass
	for _, other := range all {
		if other != m && (code.Within(other.call, m.call) || code.Within(m.call, other.call)) {
			return "it is within another retry, or has one in its operation" + oneRetries
		}
	}
	for _, r := range p.Runs() {
		for _, op := range r.Ops {
			if lit := p.OpLiteral(op); lit != nil && code.Within(m.call, lit) {
				return "it is within a run of package retry" + oneRetries
			}
		}
	}
	switch m.cursor.Parent().Node().(type) {
	case *ast.GoStmt, *ast.DeferStmt:
		return "it is a go or defer statement, which drops its error: call it in a func literal, and look at the error there"
	}
	if reason := m.comparesError(); reason != "" {
		m.judge = append(m.judge, reason)
	}
	if m.ctx == nil {
		if name := p.ContextAt(m.cursor); name != "" {
			_, obj := p.Pkg.Scope().Innermost(m.call.Pos()).LookupParent(name, m.call.Pos())
			if v, ok := obj.(*types.Var); ok && code.IsContext(v.Type()) {
				m.ctx = &ast.Ident{NamePos: token.NoPos, Name: name}
				m.told = append(m.told, "it now ends when "+name+" does")
			}
		}
	}
	if m.attempts == "" && m.elapsed == "" && (m.ctx == nil || m.ctx.Pos().IsValid() && p.Endless(m.ctx)) {
		return "nothing would end it: set a limit, or pass a context"
	}
	if reason := m.checkOp(); reason != "" {
		return reason
	}
	m.keepComments()
	if reason := m.blocked(all); reason != "" {
		return reason
	}
	if m.lib.zero && m.verb() == "Do" && m.mayReturnBoth() {
		m.told = append(m.told, "after a failure its value is that of the last attempt: there was none")
	}
	switch {
	case m.retries != nil && m.attempts == "" && m.mayReturnMarks(all):
		return "without a limit on attempts a mark ends it whatever its " + m.retries.option + " says, and its operation may return a marked error: set MaxAttempts, or let Classify return retry.Permanent for marked ones"
	case m.attempts == "1":
	case m.lib.inverse:
		return m.turnMarks()
	case m.repeatsAnyway():
	case m.retries != nil:
		m.told = append(m.told, obeysWaits)
	case m.mayReturnMarks(all):
		m.repeats = unmarked
		m.told = append(m.told, "Classify repeats every error that "+m.lib.marks[0]+" has not marked, as before", obeysWaits)
	default:
		m.repeats = more
		m.told = append(m.told, "Classify repeats every error, as before: delete it to let retry.DefaultClassifier decide", obeysWaits)
	}
	return ""
}

// comparesError tells if the caller does with the error what works on the
// operation's own error only.
func (m *migration) comparesError() string {
	assign, ok := m.cursor.Parent().Node().(*ast.AssignStmt)
	if !ok {
		return ""
	}
	v := m.Variable(assign.Lhs[len(assign.Lhs)-1])
	around := code.Body(m.cursor)
	if v == nil || around == nil {
		return ""
	}
	reason := ""
	is := func(e ast.Expr) bool { return m.Variable(e) == v }
	ast.Inspect(around, func(n ast.Node) bool {
		found := false
		switch n := n.(type) {
		case *ast.BinaryExpr:
			found = (n.Op == token.EQL || n.Op == token.NEQ) && (is(n.X) && !m.IsNil(n.Y) || is(n.Y) && !m.IsNil(n.X))
		case *ast.TypeAssertExpr:
			found = is(n.X)
		case *ast.SwitchStmt:
			found = n.Tag != nil && is(n.Tag)
		case *ast.CallExpr:
			found = m.IsCall(n, "os", "IsExist", "IsNotExist", "IsPermission", "IsTimeout") && is(n.Args[0]) ||
				m.IsCall(n, "errors", "Unwrap") && is(n.Args[0])
		}
		if found {
			reason = fmt.Sprintf("the caller compares or asserts %s, which is then a *retry.Error: use errors.Is and errors.As", v.Name())
		}
		return reason == ""
	})
	return reason
}

// checkOp finds the operation and what must not be in it.
func (m *migration) checkOp() string {
	e := ast.Unparen(m.op)
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 && m.TypesInfo.Types[call.Fun].IsType() {
		e = ast.Unparen(call.Args[0]) // backoff.Operation(op)
	}
	m.op = e
	lit, isLiteral := e.(*ast.FuncLit)
	if v := m.Variable(e); v != nil {
		lit, isLiteral = m.Value(e).(*ast.FuncLit)
		if !isLiteral {
			return m.checkPassed(v)
		}
		if v.Parent() == m.Pkg.Scope() || m.Uses(e) > 1 || !m.defined(lit) {
			m.kept = append(m.kept, e)
			return m.sleeps(lit)
		}
	}
	if !isLiteral {
		return m.checkNamed(e)
	}
	if reason := m.sleeps(lit); reason != "" {
		return reason
	}
	m.literal = lit
	m.kept = append(m.kept, lit)
	return m.checkContexts(lit)
}

// checkPassed looks at an operation that is a variable: only one that is passed to the
// function is known to be the same for all attempts.
func (m *migration) checkPassed(v *types.Var) string {
	if v.Kind() != types.ParamVar || m.Changes(v) {
		return "its operation is a variable that may change: " + v.Name() + ": call it in a func literal"
	}
	m.kept = append(m.kept, m.op)
	if !slices.ContainsFunc(m.told, func(text string) bool { return strings.HasPrefix(text, wrapsError) }) {
		m.told = append(m.told, wrapsError)
	}
	return ""
}

// checkNamed looks at an operation that is a function, a method or a field, which is
// wrapped.
func (m *migration) checkNamed(op ast.Expr) string {
	if !isPath(op) {
		return "its operation is made by a call: " + types.ExprString(op) + ": make it before, and call it in a func literal"
	}
	m.kept = append(m.kept, op)
	f := m.declared(op)
	if f != nil && f.Pkg() == m.Pkg && !isOfInterface(f) {
		return ""
	}
	if sel, ok := op.(*ast.SelectorExpr); ok && m.TypesInfo.Selections[sel] != nil {
		if v := m.Variable(sel.X); f == nil || v == nil || m.Changes(v) || v.Kind() == types.PackageVar {
			m.told = append(m.told, types.ExprString(op)+" is now read before each attempt: it was read once")
		}
	}
	return ""
}

// isPath reports whether e is a name, or a field or a method of what is one.
func isPath(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return isPath(e.X)
	}
	return false
}

func (p *pass) sleeps(lit *ast.FuncLit) string {
	reason := ""
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.IsCall(call, "time", "Sleep") {
			reason = "the operation sleeps: return the error, and let the policy's Backoff wait"
		}
		_, inner := n.(*ast.FuncLit)
		return reason == "" && !inner
	})
	return reason
}

// checkContexts looks at the contexts in the operation. The one that the run is given
// becomes the operation's parameter; another would outlive its attempt.
func (m *migration) checkContexts(lit *ast.FuncLit) (reason string) {
	given := m.givenContext()
	var own *ast.Ident // a context of the operation that has the given one's name
	captured := false  // a literal in the operation uses the given one
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			captured = captured || given != nil && m.mentions(n, given)
		case *ast.Ident:
			v := m.Variable(n)
			if v == nil || !code.IsContext(v.Type()) || v.IsField() {
				break
			}
			switch {
			case v == given:
				m.renamed = true
			case m.TypesInfo.Defs[n] == v && v.Parent() == m.TypesInfo.Scopes[lit.Type] && given != nil && v.Name() == given.Name():
				own = n
			case v.Pos() < lit.Pos() || v.Pos() > lit.End():
				reason = "the operation uses " + v.Name() + ", which is not the context of the run" + useIts
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if n.Tok != token.DEFINE && given != nil && m.Variable(left) == given {
					reason = "the operation assigns to " + given.Name() + useIts
				}
			}
		}
		return reason == ""
	})
	if name := lit.Type.Params; m.takesContext() && m.renamed && len(name.List[0].Names) == 1 && name.List[0].Names[0].Name != "_" {
		return "the operation is given a context, and uses " + given.Name() + " from outside as well" + useIts
	}
	if own != nil && m.renamed && reason == "" && (captured || !m.redeclares(own)) {
		return "the operation declares a " + own.Name + " of its own" + useIts
	}
	return reason
}

// redeclares reports whether the declaration of id may set a parameter of the same name
// instead: it declares something else as well.
func (m *migration) redeclares(id *ast.Ident) bool {
	c, ok := m.Root.FindNode(id)
	if !ok {
		return false
	}
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	return ok && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
		other, ok := e.(*ast.Ident)
		return ok && other != id && m.TypesInfo.Defs[other] != nil
	})
}

// givenContext returns the variable that is the context of the run, nil if that is none.
func (m *migration) givenContext() *types.Var {
	if m.ctx == nil {
		return nil
	}
	if id, ok := m.ctx.(*ast.Ident); ok && !id.Pos().IsValid() { // the function's own
		_, obj := m.Pkg.Scope().Innermost(m.call.Pos()).LookupParent(id.Name, m.call.Pos())
		v, _ := obj.(*types.Var)
		return v
	}
	return m.Variable(m.ctx)
}
