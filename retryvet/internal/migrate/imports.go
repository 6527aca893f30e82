package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file decides what a file calls the packages that the fix needs.

// importer decides how a file names the packages that a fix needs, and what
// becomes of its imports.
type importer struct {
	*pass
	file  *ast.File
	fixed []*migration
	plan  *plan      // of the package
	dead  []ast.Node // declarations that the fix removes

	retry, context string            // names in the file
	std            map[string]string // names of the standard packages; "": there is none
	needs          map[string]bool   // standard packages that the fix uses
	names          map[string]string // of what the file imports, by path
	has            map[string]bool   // paths that the file imports
	libraries      []*ast.ImportSpec // that are used still
	renamed        *ast.ImportSpec   // one of them, which only the fix uses: package retry gets its name
	alias          string            // what renamed is named then
	old            []*ast.ImportSpec // that nothing uses any more
}

// choose fills in the names, or says why there are none.
func (im *importer) choose() string {
	declared := map[string]bool{} // in the file, or in the package
	for _, file := range im.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := im.TypesInfo.Defs[id]
			_, isImport := obj.(*types.PkgName)
			if v, ok := obj.(*types.Var); obj == nil || isImport || ok && v.IsField() {
				return true
			}
			if file == im.file || obj.Parent() == im.Pkg.Scope() {
				declared[id.Name] = true
			}
			return true
		})
	}
	for _, name := range im.declaredInTests() {
		declared[name] = true
	}
	names := map[string]string{} // of what the file imports, by path
	taken := map[string]bool{}
	im.has = map[string]bool{}
	for _, spec := range im.file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := im.TypesInfo.PkgNameOf(spec)
		if name == nil || name.Name() == "." || name.Name() == "_" {
			if im.libraryOf(path) != nil || path == "time" || path == "context" || path == code.RetryPath {
				return "an import has no name: give it one"
			}
			continue
		}
		if lib := im.libraryOf(path); lib != nil {
			switch unused := im.unused(name); {
			case unused && !im.asks(lib):
				im.old = append(im.old, spec)
				continue
			case unused && name.Name() == "retry":
				im.renamed, im.alias = spec, lib.alias
			}
			im.libraries = append(im.libraries, spec)
		}
		im.has[path] = true
		names[path] = name.Name()
		taken[name.Name()] = true
	}
	free := func(name string) bool { return !declared[name] && !taken[name] }
	if im.renamed != nil && !declared["retry"] && names[code.RetryPath] == "" && im.alias != "" && free(im.alias) {
		path, _ := strconv.Unquote(im.renamed.Path.Value)
		names[path], taken[im.alias], taken["retry"] = im.alias, true, false
	} else {
		im.renamed = nil
	}
	std := func(path string) string {
		name := names[path]
		switch {
		case name != "" && !declared[name]:
			return name
		case name == "" && free(path):
			return path
		case name == "" && free("std"+path):
			return "std" + path
		}
		return ""
	}
	im.names, im.std = names, map[string]string{}
	for _, s := range standard {
		im.std[s.path] = std(s.path)
	}
	if im.context = std("context"); im.context == "" {
		return "something else is named context here: rename it"
	}
	im.std["context"] = im.context
	if im.retry = names[code.RetryPath]; im.retry != "" {
		if declared[im.retry] {
			return "something else is named " + im.retry + " here: rename it"
		}
		return ""
	}
	for _, name := range []string{"retry", "goretry"} {
		if free(name) {
			im.retry = name
			return ""
		}
	}
	return "no name is free for package retry: rename what is named retry and goretry"
}

// asks reports whether what is written in the file calls the library to recognize marks.
func (im *importer) asks(lib *library) bool {
	if c := im.plan.classifiers[lib.path]; c != nil {
		return c.file == im.file
	}
	return slices.ContainsFunc(im.fixed, func(m *migration) bool { return im.plan.policyOf(m) == nil && m.lib == lib && m.repeats == unmarked }) ||
		slices.ContainsFunc(im.plan.policies, func(s *sharedPolicy) bool {
			return s.file == im.file && s.first.lib == lib && s.repeats == unmarked
		})
}

// resolve returns text with the names of the standard packages, or says which of them
// has none in the file.
func (im *importer) resolve(text string) (resolved, reason string) {
	for _, std := range standard {
		if !strings.Contains(text, std.qualifier) {
			continue
		}
		name := im.std[std.path]
		if name == "" {
			return "", "something else is named " + std.path + " here: rename it"
		}
		im.needs[std.path] = true
		text = strings.ReplaceAll(text, std.qualifier, name)
	}
	return text, ""
}

// libraryName returns what the file calls a library that it imports still.
func (im *importer) libraryName(lib *library) string {
	for path, name := range im.names {
		if im.libraryOf(path) == lib {
			return name
		}
	}
	panic("unreachable: a call of the library stands in the file")
}

// unused reports whether the fix removes all uses of an import. One that has none, since
// its package is missing, is not the fix's to remove.
func (im *importer) unused(name *types.PkgName) bool {
	used, removed := false, false
	ast.Inspect(im.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && im.TypesInfo.Uses[id] == name {
			inDead := slices.ContainsFunc(im.dead, func(n ast.Node) bool { return code.Within(id, n) })
			goes := inDead || im.goes(id, im.fixed)
			used, removed = used || !goes, removed || goes
		}
		return !used
	})
	return removed && !used
}

// edits returns what becomes of the imports. One of something else that loses its
// last use, such as time, is removed by the driver that applies the fix.
func (im *importer) edits() []analysis.TextEdit {
	var edits []analysis.TextEdit
	if !im.has[code.RetryPath] && (len(im.fixed) > 0 || im.plan.declares(im.file)) {
		spec := strconv.Quote(code.RetryPath)
		if im.retry != "retry" {
			spec = im.retry + " " + spec
		}
		if len(im.old) > 0 {
			edits = append(edits, analysis.TextEdit{Pos: im.old[0].Pos(), End: im.old[0].End(), NewText: []byte(spec)})
			im.old = im.old[1:]
		} else {
			edits = append(edits, im.beside(im.libraries[0].End(), im.libraries[0], "\n\t"+spec, "\nimport "+spec))
		}
	}
	for _, old := range im.old {
		edits = append(edits, im.drop(old))
	}
	if spec := im.renamed; spec != nil {
		edits = append(edits, analysis.TextEdit{Pos: spec.Pos(), End: spec.End(), NewText: []byte(im.alias + " " + spec.Path.Value)})
	}
	first := im.file.Imports[0]
	for _, path := range []string{"cmp", "context", "errors", "math", "time"} {
		if !im.has[path] && im.needs[path] {
			spec := strconv.Quote(path)
			if im.std[path] != path {
				spec = im.std[path] + " " + spec
			}
			edits = append(edits, im.beside(im.start(first), first, spec+"\n\t", "import "+spec+"\n"))
		}
	}
	return edits
}

// beside inserts one of two texts at pos: the first if spec is in parentheses.
func (im *importer) beside(pos token.Pos, spec *ast.ImportSpec, inside, outside string) analysis.TextEdit {
	text := inside
	if d := im.declaration(spec); !d.Lparen.IsValid() {
		text = outside
	}
	return analysis.TextEdit{Pos: pos, End: pos, NewText: []byte(text)}
}

// start returns where an import begins, its keyword included if it has its own.
func (im *importer) start(spec *ast.ImportSpec) token.Pos {
	if d := im.declaration(spec); !d.Lparen.IsValid() {
		return d.Pos()
	}
	return spec.Pos()
}

// declaration returns the declaration that spec is a part of.
func (im *importer) declaration(spec *ast.ImportSpec) *ast.GenDecl {
	for _, decl := range im.file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && code.Within(spec, d) {
			return d
		}
	}
	return nil
}

// drop deletes an import.
func (im *importer) drop(spec *ast.ImportSpec) analysis.TextEdit {
	return analysis.TextEdit{Pos: im.start(spec), End: spec.End()}
}

// results returns the results of a function of type t as they are written in the
// file.
func (im *importer) results(t types.Type) (text string, ok bool) {
	sig, isFunc := t.Underlying().(*types.Signature)
	if !isFunc {
		return "", false
	}
	ok = true
	qualify := func(pkg *types.Package) string {
		if pkg == im.Pkg {
			return ""
		}
		for _, spec := range im.file.Imports {
			if name := im.TypesInfo.PkgNameOf(spec); name != nil && name.Imported() == pkg && name.Name() != "." && name.Name() != "_" {
				return name.Name()
			}
		}
		ok = false
		return pkg.Name()
	}
	if sig.Results().Len() == 1 {
		return types.TypeString(sig.Results().At(0).Type(), qualify), ok
	}
	var all []string
	for v := range sig.Results().Variables() {
		all = append(all, types.TypeString(v.Type(), qualify))
	}
	return "(" + strings.Join(all, ", ") + ")", ok
}
