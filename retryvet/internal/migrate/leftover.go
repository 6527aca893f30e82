package migrate

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/goretry/retry/retryvet/internal/code"
)

// A leftover made the policies of calls that are rewritten: a function that made the
// backoff, or a variable that holds an option.
type leftover struct {
	object types.Object
	file   *ast.File
	decl   ast.Decl
	spec   *ast.ValueSpec // nil for a function
	users  []*migration
	tested bool // its tests name it, and it is not theirs
	unused bool // nothing in the package uses it after the fix, but for tests that name it
	goes   bool // it is deleted
}

// leftovers returns what made the policies of calls that are rewritten, in the order of
// the source.
func (p *pass) leftovers(all []*migration) []*leftover {
	found := map[types.Object]*leftover{}
	add := func(obj types.Object, m *migration) {
		l := found[obj]
		if l == nil {
			file, decl := p.declarationOf(obj)
			if decl == nil {
				return
			}
			l = &leftover{object: obj, file: file, decl: decl, spec: specOf(decl, obj)}
			found[obj] = l
		}
		l.users = append(l.users, m)
	}
	for _, m := range all {
		if m.refusal != "" {
			continue
		}
		for decl := range m.inlined {
			if decl.Recv == nil {
				add(p.TypesInfo.Defs[decl.Name], m)
			}
		}
		for _, v := range m.origin.options {
			add(v, m)
		}
	}
	var sorted []*leftover
	for _, l := range found {
		l.tested = !p.InTest(l.decl) && p.namedInTests(l.object.Name())
		l.unused, l.goes = true, p.deletable(l)
		sorted = append(sorted, l)
	}
	slices.SortFunc(sorted, func(a, b *leftover) int { return cmp.Compare(a.object.Pos(), b.object.Pos()) })
	p.keepUsed(sorted, all)
	return sorted
}

// keepUsed finds those that something uses still: a call that stays, or another one that
// stays.
func (p *pass) keepUsed(leftovers []*leftover, all []*migration) {
	rewritten := slices.DeleteFunc(slices.Clone(all), refused)
	gone := func(id *ast.Ident) bool {
		return p.goes(id, rewritten) || slices.ContainsFunc(leftovers, func(l *leftover) bool { return l.goes && code.Within(id, l.node()) })
	}
	for again := true; again; {
		again = false
		for _, l := range leftovers {
			if !l.unused {
				continue
			}
			for id, used := range p.TypesInfo.Uses {
				if used == l.object && !gone(id) && !(l.tested && p.InTest(id)) {
					again = again || l.goes
					l.unused, l.goes = false, false
					break
				}
			}
		}
	}
}

// specOf returns the part of a declaration that declares a variable, nil if it does
// something else as well.
func specOf(decl ast.Decl, obj types.Object) *ast.ValueSpec {
	d, ok := decl.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range d.Specs {
		if spec, ok := spec.(*ast.ValueSpec); ok && spec.Names[0].Pos() == obj.Pos() && len(spec.Names) == 1 {
			return spec
		}
	}
	return nil
}

// deletable reports whether nobody else can name l, and it can be cut out. A variable whose
// value comes from a call of something else than a library stays: that may do more.
func (p *pass) deletable(l *leftover) bool {
	_, isFunc := l.object.(*types.Func)
	return (isFunc || l.spec != nil && p.onlyMakes(l.spec)) && !l.object.Exported() && !ast.IsGenerated(l.file) && !l.tested
}

// onlyMakes reports whether n calls nothing but functions of retry libraries.
func (p *pass) onlyMakes(n ast.Node) bool {
	only := true
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && !p.TypesInfo.Types[call.Fun].IsType() {
			path, _ := p.Callee(call)
			only = only && p.libraryOf(path) != nil
		}
		return only
	})
	return only
}

// comments returns those that explain a part of l, but not all of it.
func (l *leftover) comments() []*ast.CommentGroup {
	var all []*ast.CommentGroup
	var in ast.Node
	if f, ok := l.decl.(*ast.FuncDecl); ok {
		in = f.Body
	} else if l.spec != nil {
		in = l.node()
	}
	for _, group := range l.file.Comments {
		if in != nil && code.Within(group, in) {
			all = append(all, group)
		}
	}
	return all
}

// node returns what is deleted.
func (l *leftover) node() ast.Node {
	if f, ok := l.decl.(*ast.FuncDecl); ok {
		return span{start(f.Doc, f), f.End()}
	}
	s := span{start(l.spec.Doc, l.spec), l.spec.End()}
	if l.spec.Comment != nil {
		s.end = l.spec.Comment.End()
	}
	if d := l.decl.(*ast.GenDecl); !d.Lparen.IsValid() {
		s.pos = start(d.Doc, d)
	}
	return s
}

// start returns where n begins, with its comment.
func start(doc *ast.CommentGroup, n ast.Node) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return n.Pos()
}

// notesFrom returns the comments that go to the policy of m.
func notesFrom(leftovers []*leftover, m *migration) []note {
	var all []note
	for _, l := range leftovers {
		if !l.goes || !slices.Contains(l.users, m) {
			continue
		}
		var places []place
		if f, ok := l.decl.(*ast.FuncDecl); ok {
			places = m.places(nil, f.Body.List)
		} else {
			places = m.places([]ast.Node{l.spec}, nil)
		}
		for _, group := range l.comments() {
			all = append(all, m.note(group, places))
		}
	}
	return all
}

// deletions returns what is deleted of a file: declarations of which nothing is left as a
// whole.
func deletions(leftovers []*leftover, file *ast.File) []ast.Node {
	var all []ast.Node
	done := map[ast.Decl]bool{}
	for _, l := range leftovers {
		if !l.goes || l.file != file || done[l.decl] {
			continue
		}
		n := 0
		for _, other := range leftovers {
			if other.goes && other.decl == l.decl {
				n++
			}
		}
		if d, ok := l.decl.(*ast.GenDecl); ok && n == len(d.Specs) {
			done[d] = true
			all = append(all, span{start(d.Doc, d), d.End()})
			continue
		}
		all = append(all, l.node())
	}
	return all
}
