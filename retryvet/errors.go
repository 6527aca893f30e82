package retryvet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

var verbs = regexp.MustCompile(`%(?:%|[-+# 0]*[0-9]*(?:\.[0-9]*)?([a-zA-Z]))`)

// mark returns the function of this project that call marks an error with, or nil: it gets an
// error, and returns that error and what it says.
func (p *pass) mark(call *ast.CallExpr) *types.Func {
	f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || !code.Ours(f.Pkg().Path()) {
		return nil
	}
	sig := f.Signature()
	if sig.Recv() != nil || sig.Params().Len() == 0 || sig.Results().Len() != 1 ||
		!code.IsError(sig.Params().At(0).Type()) || !code.IsError(sig.Results().At(0).Type()) {
		return nil
	}
	return f
}

// lostmark finds marks that fmt.Errorf turns into text.
func lostmark(p *pass) {
	for c := range p.Root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if !p.IsCall(call, "fmt", "Errorf") || len(call.Args) < 2 || call.Ellipsis.IsValid() {
			continue
		}
		format := p.TypesInfo.Types[call.Args[0]].Value
		if format == nil || format.Kind() != constant.String {
			continue
		}
		arg := 1
		for _, m := range verbs.FindAllStringSubmatch(constant.StringVal(format), -1) {
			if m[1] == "" {
				continue // %%
			}
			if arg == len(call.Args) {
				break
			}
			e := call.Args[arg]
			arg++
			if m[1] == "w" {
				continue
			}
			if call, ok := p.Value(e).(*ast.CallExpr); ok {
				if mark := p.mark(call); mark != nil {
					p.report(e, fmt.Sprintf("%%%s turns the error that %s.%s marked into text, so the mark is lost: use %%w", m[1], mark.Pkg().Name(), mark.Name()))
				}
			}
		}
	}
}

// nilmark finds marks of nil, which are nil: the operation has succeeded. Who compares one
// knows that.
func nilmark(p *pass) {
	for c := range p.Root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		mark := p.mark(call)
		if _, compared := c.Parent().Node().(*ast.BinaryExpr); mark == nil || compared || !p.isNilError(call.Args[0]) {
			continue
		}
		p.report(call, fmt.Sprintf("%[1]s.%[2]s of nil is nil, which says that all is well: give it an error, such as errors.New(\"busy\")", mark.Pkg().Name(), mark.Name()))
	}
}

// isNilError reports whether e is nil, written as error(nil) maybe.
func (p *pass) isNilError(e ast.Expr) bool {
	e = p.Value(e)
	if call, ok := e.(*ast.CallExpr); ok && p.TypesInfo.Types[call.Fun].IsType() && code.IsError(p.TypesInfo.TypeOf(call)) {
		return p.isNilError(call.Args[0])
	}
	return p.IsNil(e)
}

// errorignored finds runs whose error nobody looks at. In tests hooks and counts
// may be all that matters.
func errorignored(p *pass) {
	for _, r := range p.Runs() {
		if !r.ReturnsError() || p.InTest(r.Call) {
			continue
		}
		switch r.Cursor.Parent().Node().(type) {
		case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
			p.report(r.Call, fmt.Sprintf("the error of %s is ignored: check it, or write _ = if that is intended", r.Name()))
		}
	}
}

// compared finds errors of a run that are compared or asserted. A run wraps what
// the operation returned in an *Error.
func compared(p *pass) {
	assigned := p.errorsOfRuns()
	if len(assigned) == 0 {
		return
	}
	flag := func(c ast.Node, e ast.Expr, instead string) {
		if v := p.Variable(e); v != nil {
			if of := fromRun(assigned[v], e.Pos()); of != "" {
				p.report(c, fmt.Sprintf("%s is a *%s that wraps what the operation returned: use %s", v.Name(), of, instead))
			}
		}
	}
	for c := range p.Root.Preorder((*ast.BinaryExpr)(nil), (*ast.TypeAssertExpr)(nil), (*ast.TypeSwitchStmt)(nil), (*ast.SwitchStmt)(nil)) {
		switch n := c.Node().(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && !p.IsNil(n.X) && !p.IsNil(n.Y) {
				flag(n, n.X, "errors.Is")
				flag(n, n.Y, "errors.Is")
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && !p.isRetryError(n.Type) && !p.isInterface(n.Type) {
				flag(n, n.X, "errors.AsType")
			}
		case *ast.TypeSwitchStmt:
			var assert *ast.TypeAssertExpr
			switch s := n.Assign.(type) {
			case *ast.ExprStmt:
				assert, _ = s.X.(*ast.TypeAssertExpr)
			case *ast.AssignStmt:
				assert, _ = s.Rhs[0].(*ast.TypeAssertExpr)
			}
			if assert != nil && p.anyCase(n.Body, func(e ast.Expr) bool { return !p.isRetryError(e) && !p.isInterface(e) }) {
				flag(assert, assert.X, "errors.AsType")
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && p.anyCase(n.Body, func(ast.Expr) bool { return true }) {
				flag(n.Tag, n.Tag, "errors.Is")
			}
		}
	}
}

// isRetryError reports whether e is a type of the errors that runs return.
func (p *pass) isRetryError(e ast.Expr) bool {
	pointer, ok := p.TypesInfo.TypeOf(e).(*types.Pointer)
	return ok && (code.IsNamed(pointer.Elem(), code.RetryPath, "Error") || code.IsNamed(pointer.Elem(), code.RetryBatchPath, "Error"))
}

// errorOf returns the name of the type that the error of a run has: that of its package, if
// it has one.
func errorOf(r code.Run) string {
	if r.Func.Pkg().Scope().Lookup("Error") != nil {
		return r.Func.Pkg().Name() + ".Error"
	}
	return "retry.Error"
}

// isInterface reports whether e is an interface type, which an *Error may
// implement: Timeout() bool, say.
func (p *pass) isInterface(e ast.Expr) bool {
	t := p.TypesInfo.TypeOf(e)
	return t != nil && types.IsInterface(t)
}

// anyCase reports whether a case other than nil satisfies f.
func (p *pass) anyCase(body *ast.BlockStmt, f func(ast.Expr) bool) bool {
	for _, s := range body.List {
		for _, e := range s.(*ast.CaseClause).List {
			if !p.IsNil(e) && f(e) {
				return true
			}
		}
	}
	return false
}

// assignment is a place where an error variable gets a value.
type assignment struct {
	pos   token.Pos
	block ast.Node // in which the value holds
	of    string   // the type of the error of a run that the value is, or ""
}

// errorsOfRuns returns all assignments to the variables that hold the error of a
// run at some time.
func (p *pass) errorsOfRuns() map[*types.Var][]assignment {
	all := map[*types.Var][]assignment{}
	holds := map[*types.Var]bool{}
	calls := map[ast.Expr]string{}
	for _, r := range p.Runs() {
		if r.Whole() {
			calls[r.Call] = errorOf(r)
		}
	}
	for c := range p.Root.Preorder((*ast.AssignStmt)(nil)) {
		n := c.Node().(*ast.AssignStmt)
		for i, left := range n.Lhs {
			v := p.Variable(left)
			if v == nil || !code.IsError(v.Type()) {
				continue
			}
			a := assignment{pos: n.End(), block: c.Parent().Node()}
			if len(n.Rhs) == 1 && i == len(n.Lhs)-1 {
				a.of = calls[ast.Unparen(n.Rhs[0])]
			}
			all[v] = append(all[v], a)
			holds[v] = holds[v] || a.of != ""
		}
	}
	for v := range all {
		if !holds[v] {
			delete(all, v)
		}
	}
	return all
}

// fromRun returns the type of the error of a run that a variable holds at pos: its latest
// assignment before is one, and it is in a block around pos. It is "" if there is none.
func fromRun(all []assignment, pos token.Pos) string {
	var latest assignment
	for _, a := range all {
		if a.pos <= pos && a.pos > latest.pos {
			latest = a
		}
	}
	if latest.of == "" || pos < latest.block.Pos() || latest.block.End() <= pos {
		return ""
	}
	return latest.of
}
