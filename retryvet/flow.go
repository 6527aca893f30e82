package retryvet

import (
	"go/ast"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
)

// flow returns the ways through a function's body. None goes on after a call that is
// known not to return.
func (p *pass) flow(body *ast.BlockStmt) *cfg.CFG {
	return cfg.New(body, func(call *ast.CallExpr) bool { return !p.exits(call) })
}

// function returns the innermost function around c, and its body; nil outside of any.
func function(c inspector.Cursor) (node ast.Node, body *ast.BlockStmt) {
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch f := f.Node().(type) {
		case *ast.FuncDecl:
			return f, f.Body
		case *ast.FuncLit:
			return f, f.Body
		}
	}
	return nil, nil
}

// callsIn calls do for the calls that n makes itself: not for those in literals, which are
// made at another time.
func callsIn(n ast.Node, do func(*ast.CallExpr)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			do(n)
		}
		return true
	})
}
