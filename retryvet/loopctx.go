package retryvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"time"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry/retryvet/internal/code"
)

// shortWait is the longest constant wait that loopctx lets pass: nobody notices a
// cancel that is so little late.
const shortWait = 100 * time.Millisecond

// loopctx finds loops written by hand that wait although their context has ended: those that
// go on then, and those that wait after a failure, even if they look at the context before they
// try again.
func loopctx(p *pass) {
	for c := range p.Root.Preorder((*ast.ExprStmt)(nil), (*ast.SelectStmt)(nil)) {
		if kind, _ := c.ParentEdge(); kind == edge.CommClause_Comm || !p.waits(c.Node()) {
			continue // a part of a select, or no wait
		}
		ctx := p.endsWith(c)
		if ctx != "" && (p.goesOn(c) || p.waitsForNext(c)) {
			p.report(c.Node(), "this wait goes on after "+ctx+" has ended: let retry.Run or Policy.Attempts wait, or select on "+ctx+".Done() as well")
		}
	}
}

// waits reports whether a statement does nothing but wait for longer than shortWait.
func (p *pass) waits(stmt ast.Node) bool {
	switch n := stmt.(type) {
	case *ast.ExprStmt:
		return p.isLongWait(n.X)
	case *ast.SelectStmt:
		if len(n.Body.List) == 1 {
			comm, ok := n.Body.List[0].(*ast.CommClause).Comm.(*ast.ExprStmt)
			return ok && p.isLongWait(comm.X)
		}
	}
	return false
}

// waitsForNext reports whether a wait comes after a failure of what the loop around it tries, and
// a success leaves the loop.
func (p *pass) waitsForNext(wait inspector.Cursor) bool {
	for c := range wait.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil), (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		switch loop := c.Node().(type) {
		case *ast.ForStmt:
			return code.Within(wait.Node(), loop.Body) && p.afterFailure(c, wait, loop.Body, loop.Cond) && p.comesTo(wait, loop)
		case *ast.RangeStmt:
			return code.Within(wait.Node(), loop.Body) && p.afterFailure(c, wait, loop.Body, nil) && p.comesTo(wait, loop)
		default:
			return false
		}
	}
	return false
}

// endsWith returns the context whose end should end what happens at c, as an expression:
// one that a function around c gets, or the one of a request, a stream or the like that it
// gets. It is "" if there is none.
func (p *pass) endsWith(c inspector.Cursor) string {
	carried := ""
	outlives := false // a request ends when its handler returns, and what that started goes on
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if name := p.Parameter(f.Node(), isContext); name != "" {
			return name
		}
		if carried == "" && !outlives {
			carried = p.contextOfParameter(f.Node())
		}
		outlives = outlives || isStarted(f)
	}
	return carried
}

// isContext reports whether t is context.Context, or an interface with more methods.
func isContext(t types.Type) bool {
	return code.IsContext(t) || types.IsInterface(t) && hasContextMethods(t)
}

// hasContextMethods reports whether t embeds context.Context.
func hasContextMethods(t types.Type) bool {
	for m := range t.Underlying().(*types.Interface).Methods() {
		if pkg := m.Pkg(); pkg != nil && pkg.Path() == "context" {
			return true
		}
	}
	return false
}

// isStarted reports whether the function at f is started by a go statement.
func isStarted(f inspector.Cursor) bool {
	_, started := f.Parent().Parent().Node().(*ast.GoStmt)
	return started
}

// contextOfParameter returns the context of the first parameter of f that has one, as an
// expression, "" if none has.
func (p *pass) contextOfParameter(f ast.Node) (expr string) {
	name := p.Parameter(f, func(t types.Type) bool {
		expr = contextOf(t)
		return expr != ""
	})
	return name + expr
}

// contextOf returns how to get the context of a value of type t, "" if it has none: an
// *http.Request and a stream have a method Context, and what web frameworks pass has a request.
// Those of package testing end after the test.
func contextOf(t types.Type) string {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "Context")
	if f, ok := obj.(*types.Func); ok && f.Pkg().Path() != "testing" && code.IsContext(getter(f)) {
		return ".Context()"
	}
	switch obj, _, _ := types.LookupFieldOrMethod(t, true, nil, "Request"); obj := obj.(type) {
	case *types.Var:
		if code.IsNamed(code.Deref(obj.Type()), "net/http", "Request") && !code.IsNamed(code.Deref(t), "net/http", "Response") {
			return ".Request.Context()"
		}
	case *types.Func:
		if result := getter(obj); result != nil && code.IsNamed(code.Deref(result), "net/http", "Request") {
			return ".Request().Context()"
		}
	}
	return ""
}

// getter returns the type of the only result of a function without parameters, or nil.
func getter(f *types.Func) types.Type {
	sig := f.Signature()
	if sig.Params().Len() != 0 || sig.Results().Len() != 1 {
		return nil
	}
	return sig.Results().At(0).Type()
}

// isLongWait reports whether e is time.Sleep(d) or <-time.After(d).
func (p *pass) isLongWait(e ast.Expr) bool {
	e = ast.Unparen(e)
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		if !p.IsCall(u.X, "time", "After") {
			return false
		}
		e = ast.Unparen(u.X)
	} else if !p.IsCall(e, "time", "Sleep") {
		return false
	}
	d, constant := p.Number(e.(*ast.CallExpr).Args[0])
	return !constant || time.Duration(d) > shortWait
}

// afterFailure reports whether wait comes after a failure of what the loop tries,
// and a success leaves the loop.
func (p *pass) afterFailure(loop, wait inspector.Cursor, loopBody *ast.BlockStmt, cond ast.Expr) bool {
	last := loopBody.List[len(loopBody.List)-1]
	leavesAtEnd := terminates(last)
	for c := wait; c != loop; c = c.Parent() {
		var list []ast.Stmt
		switch n := c.Parent().Node().(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		}
		// if err == nil { return } before.
		for _, s := range list {
			if s == c.Node() {
				break
			}
			if i, ok := s.(*ast.IfStmt); ok && p.compares(i.Cond, token.EQL) && blockLeaves(i.Body) {
				return true
			}
		}
		i, ok := c.Parent().Node().(*ast.IfStmt)
		if !ok {
			continue
		}
		switch {
		case i.Body == c.Node() && p.compares(i.Cond, token.NEQ):
			// if err != nil { wait } and then, or else, out.
			if cond != nil && p.compares(cond, token.NEQ) {
				return true
			}
			if block, ok := i.Else.(*ast.BlockStmt); ok && blockLeaves(block) {
				return true
			}
			if leavesAtEnd && last != ast.Stmt(i) && blockContinues(i.Body) {
				return true
			}
			if leavesLater(p, loopBody, i) {
				return true
			}
		case i.Else == c.Node() && p.compares(i.Cond, token.EQL) && blockLeaves(i.Body):
			return true
		}
	}
	return p.beforeTheNext(loopBody, wait) || cond != nil && p.compares(cond, token.NEQ) && p.onlyAfterFailure(loopBody, wait)
}

// beforeTheNext reports whether wait is at the top of the loop's body, and what the
// loop tries after it leaves the loop if it succeeds:
//
//	if n > 0 { wait }
//	if err = try(); err == nil { return }
func (p *pass) beforeTheNext(loopBody *ast.BlockStmt, wait inspector.Cursor) bool {
	last := loopBody.List[len(loopBody.List)-1]
	for _, s := range loopBody.List {
		i, ok := s.(*ast.IfStmt)
		if !ok || s.Pos() < wait.Node().End() {
			continue
		}
		if p.compares(i.Cond, token.EQL) && blockLeaves(i.Body) ||
			p.compares(i.Cond, token.NEQ) && blockContinues(i.Body) && terminates(last) {
			return true
		}
	}
	return false
}

// onlyAfterFailure is for loops such as for err != nil { wait; err = try() }.
func (p *pass) onlyAfterFailure(loopBody *ast.BlockStmt, wait inspector.Cursor) bool {
	return wait.Parent().Node() == loopBody
}

// compares reports whether cond compares an error with nil by op: alone, as a part
// of &&, or err == nil as a part of ||.
func (p *pass) compares(cond ast.Expr, op token.Token) bool {
	e, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	if e.Op == token.LAND || e.Op == token.LOR && op == token.EQL {
		return p.compares(e.X, op) || p.compares(e.Y, op)
	}
	return e.Op == op && p.IsNil(e.Y) && code.IsError(p.TypesInfo.TypeOf(e.X))
}

// leavesLater reports whether if err == nil { return }, or the same as an else,
// stands beside or after i in the loop's body.
func leavesLater(p *pass, loopBody *ast.BlockStmt, i *ast.IfStmt) bool {
	for _, s := range loopBody.List {
		other, ok := s.(*ast.IfStmt)
		if ok && other != i && p.compares(other.Cond, token.EQL) && blockLeaves(other.Body) {
			return true
		}
	}
	return false
}

func blockLeaves(block *ast.BlockStmt) bool {
	return len(block.List) > 0 && terminates(block.List[len(block.List)-1])
}

func blockContinues(block *ast.BlockStmt) bool {
	if len(block.List) == 0 {
		return false
	}
	b, ok := block.List[len(block.List)-1].(*ast.BranchStmt)
	return ok && b.Tok == token.CONTINUE
}

// terminates reports whether s leaves the loop it is in.
func terminates(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.GOTO
	}
	return false
}
