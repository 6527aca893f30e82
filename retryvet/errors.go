package retryvet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"github.com/goretry/retry/retryvet/internal/code"
)

var verbs = regexp.MustCompile(`%(?:%|[-+# 0]*[0-9]*(?:\.[0-9]*)?([a-zA-Z]))`)

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
			if mark := p.Value(e); p.IsCall(mark, code.RetryPath, "Stop", "Answer", "Refuse", "After") {
				_, name := p.Callee(mark.(*ast.CallExpr))
				p.report(e, fmt.Sprintf("%%%s turns the error that retry.%s marked into text, so the mark is lost: use %%w", m[1], name))
			}
		}
	}
}

// errorignored finds runs whose error nobody looks at. In tests hooks and counts
// may be all that matters.
func errorignored(p *pass) {
	for c := range p.Root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		path, name := p.Callee(call)
		switch path + "." + name {
		case code.RetryPath + ".Do", code.RetryPath + ".Run", code.RetryPath + ".Supervise", code.HedgePath + ".Do",
			code.RetryBatchPath + ".Do", code.RetryBatchPath + ".Run", code.RetrySQLPath + ".Tx", code.RetrySQLPath + ".TxOf":
		default:
			continue
		}
		switch c.Parent().Node().(type) {
		case *ast.ExprStmt, *ast.GoStmt, *ast.DeferStmt:
			if !p.InTest(call) {
				p.report(call, fmt.Sprintf("the error of %s.%s is ignored: check it, or write _ = if that is intended", path[strings.LastIndex(path, "/")+1:], name))
			}
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
		if v := p.Variable(e); v != nil && p.fromRun(assigned, v, e.Pos()) {
			p.report(c, fmt.Sprintf("%s is a *retry.Error that wraps what the operation returned: use %s", v.Name(), instead))
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

func (p *pass) isRetryError(e ast.Expr) bool {
	pointer, ok := p.TypesInfo.TypeOf(e).(*types.Pointer)
	return ok && code.IsNamed(pointer.Elem(), code.RetryPath, "Error")
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
	run   bool     // the value is the error of a run
}

// errorsOfRuns returns all assignments to the variables that hold the error of a
// run at some time.
func (p *pass) errorsOfRuns() map[*types.Var][]assignment {
	all := map[*types.Var][]assignment{}
	holds := map[*types.Var]bool{}
	for c := range p.Root.Preorder((*ast.AssignStmt)(nil)) {
		n := c.Node().(*ast.AssignStmt)
		isRun := len(n.Rhs) == 1 && (p.IsCall(n.Rhs[0], code.RetryPath, "Do", "Run", "Supervise") || p.IsCall(n.Rhs[0], code.HedgePath, "Do"))
		for i, left := range n.Lhs {
			v := p.Variable(left)
			if v == nil || !code.IsError(v.Type()) {
				continue
			}
			a := assignment{n.End(), c.Parent().Node(), isRun && i == len(n.Lhs)-1}
			all[v] = append(all[v], a)
			if a.run {
				holds[v] = true
			}
		}
	}
	for v := range all {
		if !holds[v] {
			delete(all, v)
		}
	}
	return all
}

// fromRun reports whether v holds the error of a run at pos: its latest assignment
// before is one, and it is in a block around pos.
func (p *pass) fromRun(all map[*types.Var][]assignment, v *types.Var, pos token.Pos) bool {
	var latest *assignment
	for i, a := range all[v] {
		if a.pos <= pos && (latest == nil || a.pos > latest.pos) {
			latest = &all[v][i]
		}
	}
	return latest != nil && latest.run && latest.block.Pos() <= pos && pos < latest.block.End()
}
