package retryvet

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/cfg"

	"github.com/goretry/retry/retryvet/internal/code"
)

// forgottendone finds loops over the attempts of a run that may leave an attempt without
// Done or Judged: the next Next panics, and Close takes it for a panic of the caller.
func forgottendone(p *pass) {
	for c := range p.Root.Preorder((*ast.ForStmt)(nil)) {
		loop := c.Node().(*ast.ForStmt)
		a, method := p.ofAttempts(loop.Cond)
		if method != "Next" {
			continue
		}
		around, body := function(c)
		if a.Kind() != types.LocalVar || p.handedOn(a, around) {
			continue
		}
		for _, block := range p.flow(body).Blocks {
			if block.Kind == cfg.KindForBody && block.Stmt == loop {
				p.followAttempt(a, loop, block)
			}
		}
	}
}

// followAttempt reports the ways from the body of the loop that leave an attempt of a.
func (p *pass) followAttempt(a *types.Var, loop *ast.ForStmt, from *cfg.Block) {
	const asPanic = "and the run ends as after a panic: call Done first, with nil for a success"
	told := map[ast.Node]bool{}
	tell := func(n ast.Node, message string) {
		if !told[n] {
			told[n] = true
			p.report(n, message)
		}
	}
	seen := map[*cfg.Block]bool{}
	var follow func(*cfg.Block)
	follow = func(b *cfg.Block) {
		if seen[b] {
			return
		}
		seen[b] = true
		for _, n := range b.Nodes {
			switch p.does(n, a) {
			case "Done":
				return
			case "Next":
				tell(loop.Cond, fmt.Sprintf("an attempt of this loop may come to the next Next without %[1]s.Done, which panics: call %[1]s.Done or %[1]s.Judged on every way", a.Name()))
				return
			}
			ret, ok := n.(*ast.ReturnStmt)
			switch {
			case !ok:
			case loop.Body.Pos() < ret.Pos() && ret.Pos() < loop.Body.End():
				tell(ret, fmt.Sprintf("this return leaves an attempt without %s.Done, %s", a.Name(), asPanic))
				return
			default:
				tell(loop.Cond, fmt.Sprintf("this loop may leave an attempt without %s.Done, %s", a.Name(), asPanic))
				return
			}
		}
		for _, next := range b.Succs {
			follow(next)
		}
	}
	follow(from)
}

// does returns what n does to the attempts of a: "Done" if it says how one has ended, by
// Done, Judged or a Close that is not deferred; "Next", or "".
func (p *pass) does(n ast.Node, a *types.Var) (what string) {
	_, deferred := n.(*ast.DeferStmt)
	callsIn(n, func(call *ast.CallExpr) {
		v, method := p.ofAttempts(call)
		switch {
		case v != a || what != "":
		case method == "Done", method == "Judged", method == "Close" && !deferred:
			what = "Done"
		case method == "Next":
			what = "Next"
		}
	})
	return what
}

// ofAttempts returns the variable and the method if e calls one of a *retry.Attempts.
func (p *pass) ofAttempts(e ast.Expr) (a *types.Var, method string) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil, ""
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	v := p.Variable(sel.X)
	if v == nil || !isAttempts(v.Type()) {
		return nil, ""
	}
	return v, sel.Sel.Name
}

func isAttempts(t types.Type) bool {
	pointer, ok := types.Unalias(t).(*types.Pointer)
	return ok && code.IsNamed(pointer.Elem(), code.RetryPath, "Attempts")
}

// handedOn reports whether other code than the function may end the attempts of a: it is
// used for something else than calls of its methods, or in a literal.
func (p *pass) handedOn(a *types.Var, around ast.Node) bool {
	for id, used := range p.TypesInfo.Uses {
		if used != a {
			continue
		}
		c, ok := p.Root.FindNode(id)
		if !ok {
			return true
		}
		sel, isSelector := c.Parent().Node().(*ast.SelectorExpr)
		call, isCall := c.Parent().Parent().Node().(*ast.CallExpr)
		if user, _ := function(c); !isSelector || !isCall || call.Fun != sel || user != around {
			return true
		}
	}
	return false
}
