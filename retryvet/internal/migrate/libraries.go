package migrate

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// This file says which library a name belongs to.

// libraryOf returns what is known of the package at path, nil if that is no retry
// library. It is the same for the same path.
func (p *pass) libraryOf(path string) *library {
	l, ok := p.byPath[path]
	if !ok {
		l = find(p.families, path)
		p.byPath[path] = l
	}
	return l
}

// find returns what is known of the package at path, nil if no family has it.
func find(families []family, path string) *library {
	version, base := 0, path
	if i := strings.LastIndex(path, "/v"); i >= 0 {
		if n, err := strconv.Atoi(path[i+2:]); err == nil {
			base, version = path[:i], n
		}
	}
	for _, f := range families {
		if f.path != base {
			continue
		}
		l := f.of(version)
		if l != nil {
			l.path, l.version = path, version
		}
		return l
	}
	return nil
}

// of returns the library and the name of the thing that id names, nil if it is not
// a library's.
func (p *pass) of(id *ast.Ident) (*library, string) {
	obj := p.TypesInfo.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Pkg() == p.Pkg || obj.Parent() != obj.Pkg().Scope() {
		return nil, ""
	}
	return p.libraryOf(obj.Pkg().Path()), obj.Name()
}

// mentionsLibrary reports whether n names something of a library.
func (p *pass) mentionsLibrary(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			lib, _ := p.of(id)
			found = found || lib != nil
		}
		return !found
	})
	return found
}

// runs reports whether a call of f, at c, runs something. A method that calls the
// same one of another value passes it on: a backoff made of another.
func (l *library) runs(f *types.Func, c inspector.Cursor) bool {
	if f.Signature().Recv() == nil {
		return slices.Contains(l.entries, f.Name())
	}
	for around := range c.Enclosing((*ast.FuncDecl)(nil)) {
		if decl := around.Node().(*ast.FuncDecl); decl.Recv != nil && decl.Name.Name == f.Name() {
			return false
		}
	}
	return slices.Contains(l.methods, f.Name())
}

// isMark reports whether id is the package name in a call that marks an error.
func (p *pass) isMark(id *ast.Ident) bool {
	c, ok := p.Root.FindNode(id)
	if !ok {
		return false
	}
	sel, ok := c.Parent().Node().(*ast.SelectorExpr)
	if !ok {
		return false
	}
	lib, name := p.of(sel.Sel)
	return lib != nil && slices.Contains(lib.marks, name)
}

// importsInTests reports whether a test in the package's folder imports the
// library.
func (p *pass) importsInTests(lib *library) bool {
	for _, file := range p.testFiles() {
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); p.libraryOf(path) == lib {
				return true
			}
		}
	}
	return false
}
