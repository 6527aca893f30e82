package retryvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file says which way a function goes once its context has ended.

// goesOn reports whether the function may come from a wait to the same wait again although its
// context has ended, and call something on the way. In tests a wait makes a server slow.
func (p *pass) goesOn(wait inspector.Cursor) bool {
	if p.InTest(wait.Node()) || !p.concerns(wait) {
		return false
	}
	return p.leads(wait, func(n ast.Node) bool { return code.Within(n, wait.Node()) }, false)
}

// comesTo reports whether the function may come from a call in the loop to a wait although its
// context has ended meanwhile.
func (p *pass) comesTo(wait inspector.Cursor, loop ast.Node) bool {
	return p.leads(wait, func(n ast.Node) (tries bool) {
		if !code.Within(n, loop) {
			return false
		}
		callsIn(n, func(call *ast.CallExpr) { tries = tries || p.tries(call) })
		return tries
	}, true)
}

// leads reports whether a way leads to a wait from a node of its function that from accepts. It
// leads past a call, unless one was called.
func (p *pass) leads(wait inspector.Cursor, from func(ast.Node) bool, called bool) bool {
	around, body := function(wait)
	if body == nil {
		return false
	}
	g := p.flow(body)
	w := &walk{pass: p, around: around, wait: wait.Node(), entry: g.Blocks[0], seen: map[step]bool{}}
	for _, b := range g.Blocks {
		for i, n := range b.Nodes {
			if from(n) && w.from(b, i+1, called) {
				return true
			}
		}
	}
	return false
}

// concerns reports whether the end of the context that is in scope should end the function
// around c: a goroutine that does not use it may be meant to outlive what has started it.
func (p *pass) concerns(c inspector.Cursor) bool {
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if p.Parameter(f.Node(), isContext) != "" || p.contextOfParameter(f.Node()) != "" {
			return true
		}
		if isStarted(f) {
			uses := false
			ast.Inspect(f.Node(), func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				uses = uses || ok && p.hasEnded(e)
				return !uses
			})
			return uses
		}
	}
	return false
}

// A walk follows a function in which nothing waits for its context any more.
type walk struct {
	*pass
	around ast.Node
	wait   ast.Node
	entry  *cfg.Block
	seen   map[step]bool
}

// A step is a block, and whether something was called on the way to it.
type step struct {
	block  *cfg.Block
	called bool
}

// from reports whether a way from the node of a block leads to the wait, past a call.
func (w *walk) from(b *cfg.Block, node int, called bool) bool {
	for _, n := range b.Nodes[node:] {
		if code.Within(n, w.wait) {
			return called
		}
		again := false
		callsIn(n, func(call *ast.CallExpr) {
			called = called || w.tries(call)
			again = again || w.isItself(call)
		})
		if again {
			return w.next(w.entry, called)
		}
	}
	for _, next := range w.ways(b) {
		if w.next(next, called) {
			return true
		}
	}
	return false
}

func (w *walk) next(b *cfg.Block, called bool) bool {
	if w.seen[step{b, called}] {
		return false
	}
	w.seen[step{b, called}] = true
	return w.from(b, 0, called)
}

// isItself reports whether call calls the function that is followed.
func (w *walk) isItself(call *ast.CallExpr) bool {
	decl, ok := w.around.(*ast.FuncDecl)
	return ok && typeutil.Callee(w.TypesInfo, call) == w.TypesInfo.Defs[decl.Name]
}

// tries reports whether call may fail, or waits for something that may not have happened: it
// returns an error, gets a context, or returns only a bool. What only looks at values, tells
// or waits does not count.
func (p *pass) tries(call *ast.CallExpr) bool {
	if p.TypesInfo.Types[call.Fun].IsType() {
		return false
	}
	f, isFunc := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if isFunc && f.Pkg() != nil && staysInside(f.Pkg().Path()) {
		return false
	}
	t := p.TypesInfo.TypeOf(call.Fun)
	if t == nil {
		return false // of an import that is missing
	}
	sig, ok := t.Underlying().(*types.Signature)
	if !ok {
		return false // a builtin
	}
	results := sig.Results()
	if results.Len() > 0 && code.IsError(results.At(results.Len()-1).Type()) || p.isGiven(call) {
		return true
	}
	return results.Len() == 1 && isBool(results.At(0).Type())
}

func isBool(t types.Type) bool { return types.Identical(t.Underlying(), types.Typ[types.Bool]) }

// staysInside reports whether path is that of a package of the standard library whose functions
// look only at values, or tell, or wait.
func staysInside(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	switch first {
	case "bytes", "cmp", "compress", "context", "encoding", "errors", "fmt", "hash", "html", "log", "maps", "math", "mime", "path", "reflect",
		"regexp", "runtime", "slices", "sort", "strconv", "strings", "sync", "text", "time", "unicode":
		return true
	}
	return path == "net/url" || path == "net/netip"
}

// ways returns the blocks that may follow b when the context has ended.
func (p *pass) ways(b *cfg.Block) []*cfg.Block {
	if len(b.Succs) != 2 {
		return b.Succs
	}
	is := 0
	switch then := b.Succs[0]; {
	case then.Kind == cfg.KindSelectCaseBody:
		is = p.selects(then.Stmt)
	case len(b.Nodes) == 0:
	case then.Kind == cfg.KindSwitchCaseBody:
		is = p.matches(then.Stmt, b.Nodes[len(b.Nodes)-1])
	case then.Kind != cfg.KindRangeBody:
		if cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr); ok {
			is = p.holds(cond)
		}
	}
	switch {
	case is > 0:
		return b.Succs[:1]
	case is < 0:
		return b.Succs[1:]
	}
	return b.Succs
}

// selects says whether a select takes a clause: 1 for yes, -1 for no, 0 if that is not known.
// One that waits for the context as well takes that.
func (p *pass) selects(clause ast.Stmt) int {
	c, ok := p.Root.FindNode(clause)
	if !ok {
		return 0
	}
	for other := range c.Parent().Children() {
		comm, ok := other.Node().(*ast.CommClause).Comm.(*ast.ExprStmt)
		if !ok {
			continue
		}
		receive, ok := ast.Unparen(comm.X).(*ast.UnaryExpr)
		if ok && receive.Op == token.ARROW && p.isDone(receive.X) {
			if other == c {
				return 1
			}
			return -1
		}
	}
	return 0
}

// matches says so of a case of a switch and one of its expressions.
func (p *pass) matches(clause ast.Stmt, e ast.Node) int {
	c, ok := p.Root.FindNode(clause)
	if !ok {
		return 0
	}
	value, ok := e.(ast.Expr)
	if !ok {
		return 0
	}
	s, ok := c.Parent().Parent().Node().(*ast.SwitchStmt)
	switch {
	case !ok:
		return 0
	case s.Tag == nil:
		return p.holds(value)
	}
	return p.equals(s.Tag, value)
}

// holds says whether a condition is true when the context has ended: 1 for yes, -1 for no, 0 if
// that is not known.
func (p *pass) holds(cond ast.Expr) int {
	switch e := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return -p.holds(e.X)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			return min(p.holds(e.X), p.holds(e.Y))
		case token.LOR:
			return max(p.holds(e.X), p.holds(e.Y))
		case token.EQL:
			return p.equals(e.X, e.Y)
		case token.NEQ:
			return -p.equals(e.X, e.Y)
		}
	case *ast.CallExpr:
		switch {
		case p.IsCall(e, "errors", "Is") && p.fails(e.Args[0]) && p.isEnd(e.Args[1]):
			return 1
		case p.isGiven(e) && p.TypesInfo.TypeOf(e) != nil && isBool(p.TypesInfo.TypeOf(e)):
			return -1 // what it waits for has not come
		}
	case *ast.Ident:
		if p.isZero(e) {
			return -1
		}
	}
	return 0
}

// equals says so of x == y.
func (p *pass) equals(x, y ast.Expr) int {
	if p.IsNil(x) {
		x, y = y, x
	}
	switch {
	case p.IsNil(y) && (p.fails(x) || p.isDone(x)):
		return -1
	case p.IsNil(y) && p.isZero(x):
		return 1
	case p.fails(x) && p.isEnd(y), p.fails(y) && p.isEnd(x):
		return 1
	}
	return 0
}

// isEnd reports whether e is what a context's end is called.
func (p *pass) isEnd(e ast.Expr) bool {
	v := p.RootVariable(e)
	return v != nil && v.Pkg() != nil && v.Pkg().Path() == "context" && (v.Name() == "Canceled" || v.Name() == "DeadlineExceeded")
}

// fails reports whether e is an error because the context has ended: that of the context, or of
// a call that gets it. A variable is one if nothing else sets it.
func (p *pass) fails(e ast.Expr) bool {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok {
		return code.IsError(p.TypesInfo.TypeOf(call)) && p.isFailed(call)
	}
	v := p.Variable(e)
	if v == nil || v.IsField() || !code.IsError(v.Type()) {
		return false
	}
	calls := p.setBy(v)
	for _, call := range calls {
		if call == nil || !p.isFailed(call) {
			return false
		}
	}
	return len(calls) > 0
}

// isZero reports whether e is a variable that only calls set that have failed, beside an error.
func (p *pass) isZero(e ast.Expr) bool {
	v := p.Variable(e)
	if v == nil || v.IsField() || code.IsError(v.Type()) {
		return false
	}
	calls := p.setBy(v)
	for _, call := range calls {
		if call == nil || !p.isFailed(call) {
			return false
		}
		results, ok := p.TypesInfo.TypeOf(call).(*types.Tuple)
		if !ok || !code.IsError(results.At(results.Len()-1).Type()) {
			return false
		}
	}
	return len(calls) > 0
}

// isDone reports whether e is the channel of a context that has ended, maybe in a variable.
func (p *pass) isDone(e ast.Expr) bool { return p.isMethodOfEnded(p.Value(e), "Done") }

// isMethodOfEnded reports whether e calls the method of a context that has ended.
func (p *pass) isMethodOfEnded(e ast.Expr, method string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == method && p.hasEnded(sel.X)
}

// isFailed reports whether the error of a call says that the context has ended: it is the
// context's own, or that of something done under it. To make a request needs no context yet.
func (p *pass) isFailed(call *ast.CallExpr) bool {
	if p.isMethodOfEnded(call, "Err") || p.IsCall(call, "context", "Cause") {
		return true
	}
	t := p.TypesInfo.TypeOf(call)
	if results, ok := t.(*types.Tuple); ok && results.Len() > 0 {
		t = results.At(0).Type()
	}
	return p.isGiven(call) && t != nil && !carries(t)
}

// carries reports whether a value of type t is a context, or has one.
func carries(t types.Type) bool { return isContext(t) || contextOf(t) != "" }

// isGiven reports whether a call gets a context that has ended, or a request that has one, or is
// a method of such a request.
func (p *pass) isGiven(call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		if p.hasEnded(arg) {
			return true
		}
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && p.TypesInfo.Selections[sel] != nil && p.hasEnded(sel.X)
}

// hasEnded reports whether e is a context that ends with that of the function, or a request
// that has one: a parameter, or what a call makes of one.
func (p *pass) hasEnded(e ast.Expr) bool {
	t := p.TypesInfo.TypeOf(e)
	if t == nil || !carries(t) {
		return false
	}
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok {
		return !p.IsCall(call, "context", "WithoutCancel") && p.isGiven(call)
	}
	v := p.Variable(e)
	if v == nil || v.IsField() {
		return false
	}
	if v.Kind() == types.ParamVar {
		return true
	}
	calls := p.setBy(v)
	return len(calls) > 0 && calls[0] != nil && !p.IsCall(calls[0], "context", "WithoutCancel") && p.isGiven(calls[0])
}

// setBy returns what sets v, also with other variables: the calls, in the order of the source,
// and nil for each that is none. A declaration without a value does not count.
func (p *pass) setBy(v *types.Var) []*ast.CallExpr {
	if p.calls == nil {
		p.calls = map[*types.Var][]*ast.CallExpr{}
		for c := range p.Root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)) {
			var left, right []ast.Expr
			switch n := c.Node().(type) {
			case *ast.AssignStmt:
				left, right = n.Lhs, n.Rhs
			case *ast.ValueSpec:
				left, right = exprs(n.Names), n.Values
			}
			for i, to := range left {
				v := p.Variable(to)
				if v == nil || len(right) == 0 {
					continue
				}
				from := right[0]
				if len(left) == len(right) {
					from = right[i]
				}
				call, _ := ast.Unparen(from).(*ast.CallExpr)
				p.calls[v] = append(p.calls[v], call)
			}
		}
	}
	return p.calls[v]
}
