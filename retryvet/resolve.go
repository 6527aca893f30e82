package retryvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// A run is a call that runs a policy.
type run struct {
	cursor inspector.Cursor
	call   *ast.CallExpr
	pkg    string // retry, retrybatch or hedge
	name   string // Do, Run, Supervise, Ticks or NewTicker
	ctx    ast.Expr
	policy ast.Expr
	op     ast.Expr // nil for Ticks and NewTicker
}

// runs returns the calls that run a policy, in the order of the source.
func (p *pass) runs() []run {
	if p.scanned {
		return p.calls
	}
	p.scanned = true
	for c := range p.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		path, name := p.callee(call)
		if len(call.Args) < 2 {
			continue
		}
		r := run{cursor: c, call: call, pkg: path[strings.LastIndex(path, "/")+1:], name: name, ctx: call.Args[0], policy: call.Args[1]}
		switch path + "." + name {
		case retryPath + ".Do", retryPath + ".Run", retryPath + ".Supervise",
			retrybatchPath + ".Do", retrybatchPath + ".Run", hedgePath + ".Do":
			r.op = call.Args[len(call.Args)-1]
			p.calls = append(p.calls, r)
		case retryPath + ".Ticks", retryPath + ".NewTicker":
			p.calls = append(p.calls, r)
		}
	}
	return p.calls
}

// callee returns the path of the package and the name of the function that call
// calls; "" and "" unless it is a function of a package.
func (p *pass) callee(call *ast.CallExpr) (path, name string) {
	f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || f.Signature().Recv() != nil {
		return "", ""
	}
	return f.Pkg().Path(), f.Name()
}

// isCall reports whether e is a call of one of the functions.
func (p *pass) isCall(e ast.Expr, path string, names ...string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	gotPath, gotName := p.callee(call)
	for _, name := range names {
		if gotPath == path && gotName == name {
			return true
		}
	}
	return false
}

// variables says what is known of the package's variables.
type variables struct {
	init    map[*types.Var]ast.Expr // the only value
	changed map[*types.Var]bool     // has another value at times, or may have
}

// value returns what e stands for: the literal or call that a variable is set to
// once, else e itself.
func (p *pass) value(e ast.Expr) ast.Expr {
	if e == nil {
		return nil
	}
	e = ast.Unparen(e)
	vars := p.variables()
	for range 4 { // var a = b; a cycle does not compile, a longer chain is nobody's
		v := p.variable(e)
		if v == nil || vars.changed[v] || vars.init[v] == nil {
			return e
		}
		e = ast.Unparen(vars.init[v])
	}
	return e
}

// changes reports whether the package gives v another value, or may do so.
func (p *pass) changes(v *types.Var) bool {
	return p.variables().changed[v]
}

func (p *pass) variables() *variables {
	if p.vars == nil {
		p.vars = p.scanVariables()
	}
	return p.vars
}

// variable returns the variable that e names, or nil.
func (p *pass) variable(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := p.TypesInfo.ObjectOf(id).(*types.Var)
	return v
}

// rootVariable returns the variable whose field, element or self e is, or nil.
func (p *pass) rootVariable(e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			if v := p.variable(x.Sel); v != nil && p.TypesInfo.Selections[x] == nil {
				return v // of another package
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return p.variable(e)
		}
	}
}

func (p *pass) scanVariables() *variables {
	vars := &variables{map[*types.Var]ast.Expr{}, map[*types.Var]bool{}}
	define := func(id *ast.Ident, value ast.Expr) {
		if v, ok := p.TypesInfo.Defs[id].(*types.Var); ok {
			vars.init[v] = value
		} else if v := p.variable(id); v != nil {
			vars.changed[v] = true
		}
	}
	change := func(e ast.Expr) {
		if v := p.rootVariable(e); v != nil {
			vars.changed[v] = true
		}
	}
	for c := range p.root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.RangeStmt)(nil),
		(*ast.IncDecStmt)(nil), (*ast.UnaryExpr)(nil)) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					if len(n.Lhs) == len(n.Rhs) {
						define(id, n.Rhs[i])
					} else {
						define(id, nil)
					}
				} else {
					change(left)
				}
			}
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if len(n.Values) == len(n.Names) {
					define(id, n.Values[i])
				} else if len(n.Values) == 0 {
					define(id, nil)
				}
			}
		case *ast.IncDecStmt:
			change(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				change(n.X)
			}
		}
	}
	return vars
}

// policyLiteral returns the literal that e stands for, or nil.
func (p *pass) policyLiteral(e ast.Expr) *ast.CompositeLit {
	e = p.value(e)
	if call, ok := e.(*ast.CallExpr); ok {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Named" && isNamed(p.TypesInfo.TypeOf(sel.X), retryPath, "Policy") {
			return p.policyLiteral(sel.X)
		}
	}
	return p.literal(e, retryPath, "Policy")
}

// literal returns e, or what it points to, if that is a literal of the type, else
// nil.
func (p *pass) literal(e ast.Expr, path, name string) *ast.CompositeLit {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		e = ast.Unparen(u.X)
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok || !isNamed(p.TypesInfo.TypeOf(lit), path, name) {
		return nil
	}
	return lit
}

// field returns what a keyed literal sets the field to, or nil.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, element := range lit.Elts {
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && id.Name == name {
				return kv.Value
			}
		}
	}
	return nil
}

// opLiteral returns the literal that is run as the operation e, or nil.
func (p *pass) opLiteral(e ast.Expr) *ast.FuncLit {
	e = p.value(e)
	if p.isCall(e, retryPath, "Until") {
		return p.opLiteral(e.(*ast.CallExpr).Args[0])
	}
	if p.isCall(e, hedgePath, "Op") || p.isCall(e, limitPath, "Op") {
		return p.opLiteral(e.(*ast.CallExpr).Args[2])
	}
	lit, _ := e.(*ast.FuncLit)
	return lit
}

// isNamed reports whether t is the named type, or an instance of it.
func isNamed(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// number returns the value of a constant expression.
func (p *pass) number(e ast.Expr) (value int64, ok bool) {
	if e == nil {
		return 0, false
	}
	tv := p.TypesInfo.Types[e]
	if tv.Value == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(tv.Value))
}

// body returns the body of the outermost function around c, nil outside of any.
func body(c inspector.Cursor) *ast.BlockStmt {
	var outer *ast.BlockStmt
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch f := f.Node().(type) {
		case *ast.FuncDecl:
			outer = f.Body
		case *ast.FuncLit:
			outer = f.Body
		}
	}
	return outer
}

func within(inner, outer ast.Node) bool {
	return outer.Pos() <= inner.Pos() && inner.End() <= outer.End()
}
