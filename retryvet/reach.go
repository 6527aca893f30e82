package retryvet

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// This file says what an operation may return: which errors, and whose marks.

// functions are the functions and methods that the package declares.
type functions struct {
	decls map[*types.Func]*ast.FuncDecl
	names map[*ast.FuncDecl][]*types.Func // that its body names
}

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
		if within(n, decl) {
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

// opBody returns the body of the operation, nil if this package does not have it.
func (m *migration) opBody() ast.Node {
	switch e := ast.Unparen(m.value(m.op)).(type) {
	case *ast.FuncLit:
		return e.Body
	case *ast.Ident, *ast.SelectorExpr:
		if f := m.declared(e); f != nil {
			if decl := m.functions().decls[f.Origin()]; decl != nil {
				return decl.Body
			}
		}
	}
	return nil
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

// repeatsAnyway reports whether [retry.DefaultClassifier] is known to repeat every
// error of the operation: those that errors.New and fmt.Errorf make, without
// wrapping. Marks in a rewritten literal become ours.
func (m *migration) repeatsAnyway() bool {
	body := m.opBody()
	if body == nil {
		return false
	}
	all := true
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			all = all && len(n.Results) > 0 && m.isPlain(n.Results[len(n.Results)-1])
		}
		return all
	})
	return all
}

// isPlain reports whether e is nil, a mark in a rewritten literal, or an error that
// nothing but its text tells from others.
func (m *migration) isPlain(e ast.Expr) bool {
	if m.isNil(e) {
		return true
	}
	call, ok := ast.Unparen(m.value(e)).(*ast.CallExpr)
	if !ok {
		return false
	}
	switch {
	case m.isCall(call, "errors", "New"):
		return true
	case m.isCall(call, "fmt", "Errorf"):
		format := m.TypesInfo.Types[call.Args[0]].Value
		return format != nil && !strings.Contains(constant.StringVal(format), "%w")
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && m.literal != nil && within(call, m.literal) && m.isMark(identOf(sel.X))
}

func identOf(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}

// mayReturnMarks reports whether the operation may return an error that the old
// library marks as permanent, though not in the literal that is rewritten: then only
// the old library can tell.
func (m *migration) mayReturnMarks(all []*migration) bool {
	return m.marksElsewhere(all) || m.importsInTests(m.lib) || m.dependencyImports() || m.callsUnknown()
}

// opMarks reports whether the operation, or a function of the package that it reaches,
// marks an error.
func (m *migration) opMarks() bool {
	body := m.opBody()
	if body == nil {
		return true
	}
	return slices.ContainsFunc(m.reachable(body), func(n ast.Node) bool {
		found := false
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				lib, name := m.of(id)
				found = found || lib.is(m.lib) && slices.Contains(lib.marks, name)
			}
			return !found
		})
		return found
	})
}

// marksElsewhere reports whether the package marks errors anywhere but in m.literal
// and in the operations of other calls.
func (m *migration) marksElsewhere(all []*migration) bool {
	for c := range m.root.Preorder((*ast.Ident)(nil)) {
		id := c.Node().(*ast.Ident)
		lib, name := m.of(id)
		if !lib.is(m.lib) || !slices.Contains(lib.marks, name) && name != lib.markType {
			continue
		}
		inRewritten := m.literal != nil && within(id, m.literal) && slices.Contains(lib.marks, name)
		if !inRewritten && (m.hasOperation(id) || !inOperation(id, all)) {
			return true
		}
	}
	return false
}

// inOperation reports whether id stands in the operation of one of the calls.
func inOperation(id *ast.Ident, all []*migration) bool {
	return slices.ContainsFunc(all, func(m *migration) bool { return m.hasOperation(id) })
}

// hasOperation reports whether id stands in the literal that m runs.
func (m *migration) hasOperation(id *ast.Ident) bool {
	if m.op == nil {
		return within(id, m.call) // not understood
	}
	lit, ok := ast.Unparen(m.value(m.op)).(*ast.FuncLit)
	return ok && within(id, lit)
}

// mayReturnBoth reports whether the operation may return an error with a value that is
// not zero.
func (m *migration) mayReturnBoth() bool {
	body := m.opBody()
	if body == nil {
		return true
	}
	both := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			both = both || len(n.Results) != 2 || !m.isNil(n.Results[1]) && !m.isZero(n.Results[0])
		}
		return !both
	})
	return both
}

// isZero reports whether e is written as a zero value.
func (m *migration) isZero(e ast.Expr) bool {
	e = ast.Unparen(e)
	if lit, ok := e.(*ast.CompositeLit); ok {
		_, isStruct := m.TypesInfo.TypeOf(lit).Underlying().(*types.Struct)
		return isStruct && len(lit.Elts) == 0
	}
	v := m.TypesInfo.Types[e].Value
	switch {
	case m.isNil(e):
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

// importsInTests reports whether a test in the package's folder imports the
// library.
func (p *pass) importsInTests(lib *library) bool {
	for _, file := range p.testFiles() {
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); libraryOf(path).is(lib) {
				return true
			}
		}
	}
	return false
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

// dependencyImports reports whether a package that this one imports, directly or
// not, imports the library: it may mark errors, too. What tests alone import counts
// for calls in tests.
func (m *migration) dependencyImports() bool {
	seen := map[*types.Package]bool{}
	var imports func(pkg *types.Package) bool
	imports = func(pkg *types.Package) bool {
		if seen[pkg] {
			return false
		}
		seen[pkg] = true
		return slices.ContainsFunc(pkg.Imports(), func(imported *types.Package) bool {
			return libraryOf(imported.Path()).is(m.lib) || imports(imported)
		})
	}
	for _, file := range m.Files {
		if m.inTest(file) && !m.inTest(m.file) {
			continue
		}
		for _, spec := range file.Imports {
			name := m.TypesInfo.PkgNameOf(spec)
			if name != nil && !libraryOf(name.Imported().Path()).is(m.lib) && imports(name.Imported()) {
				return true
			}
		}
	}
	return false
}

// callsUnknown reports whether the operation, or a function of the package that it
// reaches, calls what may be anybody's: a func value, a method of an interface, or a
// method of a type of another module. The standard library's are nobody's.
func (m *migration) callsUnknown() bool {
	body := m.opBody()
	if body == nil {
		return true
	}
	unknown := false
	for _, n := range m.reachable(body) {
		ast.Inspect(n, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				unknown = unknown || m.isUnknown(call)
			}
			return !unknown
		})
	}
	return unknown
}

func (m *migration) isUnknown(call *ast.CallExpr) bool {
	if m.TypesInfo.Types[call.Fun].IsType() || !returnsError(m.TypesInfo.TypeOf(call)) {
		return false
	}
	switch f := typeutil.Callee(m.TypesInfo, call).(type) {
	case *types.Builtin:
		return false
	case *types.Func:
		recv := f.Signature().Recv()
		switch {
		case f.Pkg() == nil || f.Pkg() != m.Pkg && isStandard(f.Pkg().Path()): // nil: error's method
			return false
		case recv == nil, libraryOf(f.Pkg().Path()) != nil:
			return false
		case types.IsInterface(recv.Type()):
			return true
		}
		return f.Pkg() != m.Pkg
	}
	_, isLiteral := ast.Unparen(m.value(call.Fun)).(*ast.FuncLit)
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

// blocked returns why the old library's errors are needed, "" if they are not: the
// operation makes one that has no counterpart, or a function that the call's error
// may reach looks for one.
func (m *migration) blocked(all []*migration) string {
	if body := m.opBody(); body != nil {
		for _, n := range m.reachable(body) {
			if name := m.namesError(n, func(id *ast.Ident, name string) bool { return name != m.lib.markType }); name != "" {
				return "its operation uses " + name + ", which has no exact counterpart"
			}
		}
	}
	for _, decl := range m.callers(m.call) {
		if name := m.namesError(decl, func(id *ast.Ident, _ string) bool { return !inOperation(id, all) }); name != "" {
			return name + ", which has no exact counterpart, is used where its error may come"
		}
	}
	return ""
}

// namesError returns the first of the library's errors in n that counts, "" if there
// is none.
func (m *migration) namesError(n ast.Node, counts func(id *ast.Ident, name string) bool) (found string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if lib, name := m.of(id); lib.is(m.lib) && slices.Contains(lib.errors, name) && counts(id, name) {
				found = name
			}
		}
		return found == ""
	})
	return found
}
