package migrate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file says what the package declares, what its functions name, and what its tests do.

func (p *pass) functions() *functions {
	if p.funcs != nil {
		return p.funcs
	}
	p.funcs = &functions{map[*types.Func]*ast.FuncDecl{}, map[*ast.FuncDecl][]*types.Func{}}
	for _, file := range p.Files {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil {
				continue
			}
			if f, ok := p.TypesInfo.Defs[decl.Name].(*types.Func); ok {
				p.funcs.decls[f] = decl
			}
			p.funcs.names[decl] = p.named(decl.Body)
		}
	}
	return p.funcs
}

// named returns the package's functions that n names.
func (p *pass) named(n ast.Node) []*types.Func {
	var all []*types.Func
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if f, ok := p.TypesInfo.Uses[id].(*types.Func); ok && f.Pkg() == p.Pkg {
				all = append(all, f.Origin())
			}
		}
		return true
	})
	return all
}

// reachable returns n and the bodies of the package's functions that it names, and
// that these name.
func (p *pass) reachable(n ast.Node) []ast.Node {
	all := []ast.Node{n}
	seen := map[*ast.FuncDecl]bool{}
	var add func(names []*types.Func)
	add = func(names []*types.Func) {
		for _, f := range names {
			if decl := p.functions().decls[f]; decl != nil && !seen[decl] {
				seen[decl] = true
				all = append(all, decl.Body)
				add(p.functions().names[decl])
			}
		}
	}
	add(p.named(n))
	return all
}

// callers returns the declaration around n, and those that name it, and that name
// these.
func (p *pass) callers(n ast.Node) []*ast.FuncDecl {
	var all []*ast.FuncDecl
	for decl := range p.functions().names {
		if code.Within(n, decl) {
			all = append(all, decl)
		}
	}
	for i := 0; i < len(all); i++ {
		f, _ := p.TypesInfo.Defs[all[i].Name].(*types.Func)
		for decl, names := range p.functions().names {
			if f != nil && slices.Contains(names, f) && !slices.Contains(all, decl) {
				all = append(all, decl)
			}
		}
	}
	return all
}

// declared returns the function or method that e names, nil if it names none.
func (p *pass) declared(e ast.Expr) *types.Func {
	var id *ast.Ident
	switch e := e.(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return nil
	}
	f, _ := p.TypesInfo.Uses[id].(*types.Func)
	return f
}

// declarationOf returns the declaration of a function or variable of the package, and
// its file.
func (p *pass) declarationOf(obj types.Object) (*ast.File, ast.Decl) {
	for _, file := range p.Files {
		for _, decl := range file.Decls {
			if decl.Pos() <= obj.Pos() && obj.Pos() < decl.End() {
				return file, decl
			}
		}
	}
	return nil, nil
}

// importsPath reports whether the file imports the package at path.
func importsPath(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == strconv.Quote(path) })
}

// defined reports whether lit is the value of a := statement.
func (p *pass) defined(lit *ast.FuncLit) bool {
	c, ok := p.Root.FindNode(lit)
	if !ok {
		return false
	}
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	return ok && assign.Tok == token.DEFINE
}

// atStart reports whether e is computed when the program begins: it is in no function.
func (p *pass) atStart(e ast.Expr) bool {
	for _, file := range p.Files {
		for _, decl := range file.Decls {
			if _, ok := decl.(*ast.GenDecl); ok && code.Within(e, decl) {
				return true
			}
		}
	}
	return false
}

// mentions reports whether n names v.
func (p *pass) mentions(n ast.Node, v *types.Var) bool {
	uses, _ := p.usesIn(n, v)
	return len(uses) > 0
}

// usesIn returns where n names v, and whether it gives it another value or takes its
// address.
func (p *pass) usesIn(n ast.Node, v *types.Var) (uses []*ast.Ident, changed bool) {
	is := func(e ast.Expr) bool { return v != nil && p.Variable(e) == v }
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if is(n) {
				uses = append(uses, n)
			}
		case *ast.AssignStmt:
			changed = changed || slices.ContainsFunc(n.Lhs, is)
		case *ast.IncDecStmt:
			changed = changed || is(n.X)
		case *ast.UnaryExpr:
			changed = changed || n.Op == token.AND && is(n.X)
		case *ast.RangeStmt:
			changed = changed || n.Key != nil && is(n.Key) || n.Value != nil && is(n.Value)
		}
		return true
	})
	return uses, changed
}

// hasNames reports whether e names something but the units of package time.
func (p *pass) hasNames(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			obj := p.TypesInfo.Uses[id]
			_, isPackage := obj.(*types.PkgName)
			found = found || !isPackage && (obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != "time")
		}
		return !found
	})
	return found
}

// testFiles returns the tests in the package's folder. The package is analyzed twice,
// without its tests and with them, and both must come to the same result.
func (p *pass) testFiles() []*ast.File {
	if p.tests != nil {
		return *p.tests
	}
	p.tests = new([]*ast.File)
	names, _ := filepath.Glob(filepath.Join(filepath.Dir(p.Fset.Position(p.Files[0].Package).Filename), "*_test.go"))
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err == nil {
			*p.tests = append(*p.tests, file)
		}
	}
	return *p.tests
}

// declaredInTests returns the names that tests declare in the package.
func (p *pass) declaredInTests() []string {
	var all []string
	for _, file := range p.testFiles() {
		if file.Name.Name != p.Pkg.Name() {
			continue
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					all = append(all, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						all = append(all, spec.Name.Name)
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							all = append(all, id.Name)
						}
					}
				}
			}
		}
	}
	return all
}

// namedInTests reports whether a test in the package's folder has the name.
func (p *pass) namedInTests(name string) bool {
	return slices.ContainsFunc(p.testFiles(), func(file *ast.File) bool { return freeName(file, name) == "" })
}

// isFree reports whether no identifier of the package has the name.
func (p *pass) isFree(name string) bool {
	taken := func(file *ast.File) bool { return freeName(file, name) == "" }
	return !slices.ContainsFunc(p.Files, taken) && !p.namedInTests(name)
}
