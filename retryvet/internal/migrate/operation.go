package migrate

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file says what an operation does, and what it may return.

// opBody returns the body of the operation, nil if this package does not have it.
func (c *foreignCall) opBody() ast.Node {
	switch e := c.Value(c.unconverted(c.op)).(type) {
	case *ast.FuncLit:
		return e.Body
	case *ast.Ident, *ast.SelectorExpr:
		if f := c.declared(e); f != nil {
			if decl := c.functions().decls[f.Origin()]; decl != nil {
				return decl.Body
			}
		}
	}
	return nil
}

// takesContext reports whether the operation is given a context.
func (c *foreignCall) takesContext() bool {
	sig, ok := c.TypesInfo.TypeOf(c.op).Underlying().(*types.Signature)
	return ok && sig.Params().Len() == 1 && code.IsContext(sig.Params().At(0).Type())
}

// opMarks reports whether the operation, or a function of the package that it reaches,
// is seen to mark an error.
func (c *foreignCall) opMarks() bool {
	body := c.opBody()
	return body != nil && slices.ContainsFunc(c.reachable(body), func(n ast.Node) bool {
		found := false
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				lib, name := c.of(id)
				found = found || lib == c.lib && slices.Contains(lib.marks, name)
			}
			return !found
		})
		return found
	})
}

// mayReturnBoth reports whether the operation may return an error with a value that is
// not zero.
func (c *foreignCall) mayReturnBoth() bool {
	body := c.opBody()
	if body == nil {
		return true
	}
	both := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			both = both || len(n.Results) != 2 || !c.IsNil(n.Results[1]) && !c.isZero(n.Results[0])
		}
		return !both
	})
	return both
}

// isZero reports whether e is written as a zero value.
func (c *foreignCall) isZero(e ast.Expr) bool {
	e = ast.Unparen(e)
	if lit, ok := e.(*ast.CompositeLit); ok {
		_, isStruct := c.TypesInfo.TypeOf(lit).Underlying().(*types.Struct)
		return isStruct && len(lit.Elts) == 0
	}
	v := c.TypesInfo.Types[e].Value
	switch {
	case c.IsNil(e):
		return true
	case v == nil:
		return false
	case v.Kind() == constant.String:
		return constant.StringVal(v) == ""
	case v.Kind() == constant.Bool:
		return !constant.BoolVal(v)
	}
	return constant.Sign(v) == 0
}

// dependencyImports reports whether a package that this one imports, directly or
// not, imports the library: it may mark errors, too. What tests alone import counts
// for calls in tests.
func (c *foreignCall) dependencyImports() bool {
	seen := map[*types.Package]bool{}
	var imports func(pkg *types.Package) bool
	imports = func(pkg *types.Package) bool {
		if seen[pkg] {
			return false
		}
		seen[pkg] = true
		return slices.ContainsFunc(pkg.Imports(), func(imported *types.Package) bool {
			return c.libraryOf(imported.Path()) == c.lib || imports(imported)
		})
	}
	for _, file := range c.Files {
		if c.InTest(file) && !c.InTest(c.file) {
			continue
		}
		for _, spec := range file.Imports {
			name := c.TypesInfo.PkgNameOf(spec)
			if name != nil && c.libraryOf(name.Imported().Path()) != c.lib && imports(name.Imported()) {
				return true
			}
		}
	}
	return false
}

// callsUnknown reports whether the operation, or a function of the package that it
// reaches, calls what may be anybody's, or is that: a func value, a method of an interface,
// or a method of a type of another module. The standard library's are nobody's.
func (c *foreignCall) callsUnknown() bool {
	body := c.opBody()
	if body == nil {
		f := c.declared(c.unconverted(c.op))
		return f == nil || f.Pkg() == nil || isOfInterface(f) || !isStandard(f.Pkg().Path())
	}
	unknown := false
	for _, n := range c.reachable(body) {
		ast.Inspect(n, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				unknown = unknown || c.isUnknown(call)
			}
			return !unknown
		})
	}
	return unknown
}

func isOfInterface(f *types.Func) bool {
	recv := f.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type())
}

func (c *foreignCall) isUnknown(call *ast.CallExpr) bool {
	if c.TypesInfo.Types[call.Fun].IsType() || !returnsError(c.TypesInfo.TypeOf(call)) {
		return false
	}
	switch f := typeutil.Callee(c.TypesInfo, call).(type) {
	case *types.Builtin:
		return false
	case *types.Func:
		recv := f.Signature().Recv()
		switch {
		case f.Pkg() == nil || f.Pkg() != c.Pkg && isStandard(f.Pkg().Path()): // nil: error's method
			return false
		case recv == nil, c.libraryOf(f.Pkg().Path()) != nil:
			return false
		case types.IsInterface(recv.Type()):
			return true
		}
		return f.Pkg() != c.Pkg
	}
	_, isLiteral := ast.Unparen(c.Value(call.Fun)).(*ast.FuncLit)
	return !isLiteral
}

// returnsError reports whether a result of type t is, or has, an error.
func returnsError(t types.Type) bool {
	if all, ok := t.(*types.Tuple); ok {
		for v := range all.Variables() {
			if returnsError(v.Type()) {
				return true
			}
		}
		return false
	}
	return t != nil && types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
}

// isStandard reports whether path is one of the standard library: its first part has
// no dot.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
