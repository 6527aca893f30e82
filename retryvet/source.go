package retryvet

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// sources gives the text of a file with edits made.
type sources struct {
	tokens *token.File
	source []byte
	edits  []analysis.TextEdit
}

// text returns the text of n, with the edits that are within it.
func (s *sources) text(n ast.Node) string {
	if !n.Pos().IsValid() {
		return ""
	}
	var b strings.Builder
	at := n.Pos()
	edits := slices.Clone(s.edits)
	slices.SortStableFunc(edits, byPlace)
	for _, e := range edits {
		if n.Pos() <= e.Pos && e.End <= n.End() {
			b.Write(s.source[s.tokens.Offset(at):s.tokens.Offset(e.Pos)])
			b.Write(e.NewText)
			at = e.End
		}
	}
	b.Write(s.source[s.tokens.Offset(at):s.tokens.Offset(n.End())])
	return b.String()
}

// byPlace compares edits in the order of the source: what is inserted before what is
// deleted.
func byPlace(a, b analysis.TextEdit) int {
	return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.End, b.End))
}

// column returns how far n stands from the start of its line, a tab as four columns.
func (s *sources) column(n ast.Node) int {
	at := s.tokens.Offset(n.Pos())
	line := s.source[bytes.LastIndexByte(s.source[:at], '\n')+1 : at]
	return len(line) + 3*bytes.Count(line, []byte("\t"))
}

// line returns the edit that deletes a statement or comment and, if nothing else is on it, its
// line.
func (s *sources) line(stmt ast.Node) analysis.TextEdit {
	from, to := s.tokens.Offset(stmt.Pos()), s.tokens.Offset(stmt.End())
	start, end := from, to
	for start > 0 && (s.source[start-1] == ' ' || s.source[start-1] == '\t') {
		start--
	}
	for end < len(s.source) && (s.source[end] == ' ' || s.source[end] == '\t' || s.source[end] == '\r') {
		end++
	}
	if (start == 0 || s.source[start-1] == '\n') && end < len(s.source) && s.source[end] == '\n' {
		from, to = start, end+1
	}
	return analysis.TextEdit{Pos: s.tokens.Pos(from), End: s.tokens.Pos(to)}
}

// lineEnd returns where the line of pos ends.
func (s *sources) lineEnd(pos token.Pos) token.Pos {
	at := s.tokens.Offset(pos)
	if n := bytes.IndexByte(s.source[at:], '\n'); n >= 0 {
		return s.tokens.Pos(at + n)
	}
	return s.tokens.Pos(s.tokens.Size())
}

// lines returns the edits that delete statements and comments, which are sorted. Where they opened a block, the blank
// line after them goes as well.
func (s *sources) lines(nodes []ast.Node) []analysis.TextEdit {
	var all []analysis.TextEdit
	for _, n := range nodes {
		e := s.line(n)
		if i := len(all) - 1; i >= 0 && all[i].End == e.Pos {
			all[i].End = e.End
		} else {
			all = append(all, e)
		}
	}
	for i, e := range all {
		before := bytes.TrimSpace(s.source[:s.tokens.Offset(e.Pos)])
		line, _, _ := bytes.Cut(before[bytes.LastIndexByte(before, '\n')+1:], []byte(" //"))
		if end := s.tokens.Offset(e.End); bytes.HasSuffix(line, []byte("{")) && end < len(s.source) && s.source[end] == '\n' {
			all[i].End++
		}
	}
	return all
}

// These stand for the names of standard packages until they are known.
const (
	timeQualifier   = "\x01"
	errorsQualifier = "\x02"
	cmpQualifier    = "\x04"
	mathQualifier   = "\x05"
)

// standard are the standard packages that a rewritten call may need.
var standard = []struct{ path, qualifier string }{{"cmp", cmpQualifier}, {"errors", errorsQualifier}, {"math", mathQualifier}, {"time", timeQualifier}}

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
			if libraryOf(path) != nil || path == "time" || path == "context" || path == retryPath {
				return "an import has no name"
			}
			continue
		}
		if libraryOf(path) != nil {
			switch unused := im.unused(name); {
			case unused && !im.asks(libraryOf(path)):
				im.old = append(im.old, spec)
				continue
			case unused && name.Name() == "retry":
				im.renamed = spec
			}
			im.libraries = append(im.libraries, spec)
		}
		im.has[path] = true
		names[path] = name.Name()
		taken[name.Name()] = true
	}
	free := func(name string) bool { return !declared[name] && !taken[name] }
	if im.renamed != nil && !declared["retry"] && names[retryPath] == "" && free("avast") {
		path, _ := strconv.Unquote(im.renamed.Path.Value)
		names[path], taken["avast"], taken["retry"] = "avast", true, false
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
		return "something else is named context here"
	}
	im.std["context"] = im.context
	if im.retry = names[retryPath]; im.retry != "" {
		if declared[im.retry] {
			return "something else is named " + im.retry + " here"
		}
		return ""
	}
	for _, name := range []string{"retry", "goretry"} {
		if free(name) {
			im.retry = name
			return ""
		}
	}
	return "no name is free for package retry"
}

// asks reports whether what is written in the file calls the library to recognize marks.
func (im *importer) asks(lib *library) bool {
	if c := im.plan.classifiers[lib.path]; c != nil {
		return c.file == im.file
	}
	return slices.ContainsFunc(im.fixed, func(m *migration) bool { return m.shared == nil && m.lib.is(lib) && m.repeats == unmarked }) ||
		slices.ContainsFunc(im.plan.policies, func(s *sharedPolicy) bool {
			return s.file == im.file && s.first.lib.is(lib) && s.repeats == unmarked
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
			return "", "something else is named " + std.path + " here"
		}
		im.needs[std.path] = true
		text = strings.ReplaceAll(text, std.qualifier, name)
	}
	return text, ""
}

// libraryName returns what the file calls a library that it imports still.
func (im *importer) libraryName(lib *library) string {
	for path, name := range im.names {
		if libraryOf(path).is(lib) {
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
			inDead := slices.ContainsFunc(im.dead, func(n ast.Node) bool { return within(id, n) })
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
	if !im.has[retryPath] && (len(im.fixed) > 0 || im.plan.declares(im.file)) {
		spec := strconv.Quote(retryPath)
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
		edits = append(edits, analysis.TextEdit{Pos: spec.Pos(), End: spec.End(), NewText: []byte("avast " + spec.Path.Value)})
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
		if d, ok := decl.(*ast.GenDecl); ok && within(spec, d) {
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
