package code

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Callee returns the path of the package and the name of the function that call
// calls; "" and "" unless it is a function of a package.
func (p *Package) Callee(call *ast.CallExpr) (path, name string) {
	f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || f.Signature().Recv() != nil {
		return "", ""
	}
	return f.Pkg().Path(), f.Name()
}

// IsCall reports whether e is a call of one of the functions.
func (p *Package) IsCall(e ast.Expr, path string, names ...string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	gotPath, gotName := p.Callee(call)
	for _, name := range names {
		if gotPath == path && gotName == name {
			return true
		}
	}
	return false
}

// Value returns what e stands for: the literal or call that a variable is set to
// once, else e itself.
func (p *Package) Value(e ast.Expr) ast.Expr {
	if e == nil {
		return nil
	}
	e = ast.Unparen(e)
	vars := p.variables()
	for range 4 { // var a = b; a cycle does not compile, a longer chain is nobody's
		v := p.Variable(e)
		if v == nil || vars.changed[v] || vars.init[v] == nil {
			return e
		}
		e = ast.Unparen(vars.init[v])
	}
	return e
}

// Changes reports whether the package gives v another value, or may do so.
func (p *Package) Changes(v *types.Var) bool {
	return p.variables().changed[v]
}

// First returns the value that v is declared with, nil if it has none of its own.
func (p *Package) First(v *types.Var) ast.Expr { return p.variables().init[v] }

func (p *Package) variables() *variables {
	if p.vars == nil {
		p.vars = p.scanVariables()
	}
	return p.vars
}

// Variable returns the variable that e names, or nil.
func (p *Package) Variable(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := p.TypesInfo.ObjectOf(id).(*types.Var)
	return v
}

// RootVariable returns the variable whose field, element or self e is, or nil.
func (p *Package) RootVariable(e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			if v := p.Variable(x.Sel); v != nil && p.TypesInfo.Selections[x] == nil {
				return v // of another package
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return p.Variable(e)
		}
	}
}

func (p *Package) scanVariables() *variables {
	vars := &variables{map[*types.Var]ast.Expr{}, map[*types.Var]bool{}}
	define := func(id *ast.Ident, value ast.Expr) {
		if v, ok := p.TypesInfo.Defs[id].(*types.Var); ok {
			vars.init[v] = value
		} else if v := p.Variable(id); v != nil {
			vars.changed[v] = true
		}
	}
	change := func(e ast.Expr) {
		if v := p.RootVariable(e); v != nil {
			vars.changed[v] = true
		}
	}
	for c := range p.Root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.RangeStmt)(nil),
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

// Uses returns how often the variable that e names is used, 0 if e names none.
func (p *Package) Uses(e ast.Expr) int {
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok {
		e = u.X
	}
	v := p.Variable(e)
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

// Literal returns e, or what it points to, if that is a literal of the type, else
// nil.
func (p *Package) Literal(e ast.Expr, path, name string) *ast.CompositeLit {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		e = ast.Unparen(u.X)
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok || !IsNamed(p.TypesInfo.TypeOf(lit), path, name) {
		return nil
	}
	return lit
}

// Field returns what a keyed literal sets the field to, or nil.
func Field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, element := range lit.Elts {
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && id.Name == name {
				return kv.Value
			}
		}
	}
	return nil
}

// Keyed reports whether lit has no elements without keys.
func Keyed(lit *ast.CompositeLit) bool {
	for _, e := range lit.Elts {
		if _, ok := e.(*ast.KeyValueExpr); !ok {
			return false
		}
	}
	return true
}

// Number returns the value of a constant expression.
func (p *Package) Number(e ast.Expr) (value int64, ok bool) {
	if e == nil {
		return 0, false
	}
	tv := p.TypesInfo.Types[e]
	if tv.Value == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(tv.Value))
}

// IsNil reports whether e is nil.
func (p *Package) IsNil(e ast.Expr) bool { return p.TypesInfo.Types[e].IsNil() }

// Untyped reports whether nothing in the constant e has a unit: literals, untyped
// constants and what is computed from them.
func (p *Package) Untyped(e ast.Expr) bool {
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
		return p.Untyped(e.X) && p.Untyped(e.Y)
	case *ast.UnaryExpr:
		return p.Untyped(e.X)
	}
	return false
}

// IsNamed reports whether t is the named type, or an instance of it.
func IsNamed(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

// IsContext reports whether t is context.Context.
func IsContext(t types.Type) bool { return IsNamed(t, "context", "Context") }

// IsError reports whether t is error.
func IsError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// Body returns the body of the outermost function around c, nil outside of any.
func Body(c inspector.Cursor) *ast.BlockStmt {
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

// Within reports whether inner is a part of outer, or all of it.
func Within(inner, outer ast.Node) bool {
	return outer.Pos() <= inner.Pos() && inner.End() <= outer.End()
}

// ContextAt returns the name of a context that the functions around c get, "" if
// there is none.
func (p *Package) ContextAt(c inspector.Cursor) string {
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if name := p.Parameter(f.Node(), IsContext); name != "" {
			return name
		}
	}
	return ""
}

// Parameter returns the name of the first parameter of a function whose type is wanted, ""
// if there is none. The function is a declaration or a literal.
func (p *Package) Parameter(f ast.Node, wanted func(types.Type) bool) string {
	var params *ast.FieldList
	switch f := f.(type) {
	case *ast.FuncDecl:
		params = f.Type.Params
	case *ast.FuncLit:
		params = f.Type.Params
	}
	for _, param := range params.List {
		for _, name := range param.Names {
			if name.Name != "_" && wanted(p.TypesInfo.TypeOf(param.Type)) {
				return name.Name
			}
		}
	}
	return ""
}
