package migrate

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// This file makes one fix of what is decided about all calls of a package.

// fixes returns the edits of each file, with those of all files without which it would not
// compile, and what the calls share. A call that turns out to have no edits is refused,
// and what becomes of the others is found again.
func (p *pass) fixes(all []*migration) (map[*ast.File][]analysis.TextEdit, *plan) {
	for {
		before := count(all)
		plan := p.newPlan(all)
		edits := map[*ast.File][]analysis.TextEdit{}
		for _, file := range p.Files {
			var fixed []*migration
			for _, m := range all {
				if m.file == file && m.refusal == "" {
					fixed = append(fixed, m)
				}
			}
			if len(fixed) > 0 || plan.changes(file) {
				edits[file] = p.rewrite(file, fixed, plan)
			}
		}
		if count(all) == before {
			return plan.join(edits), plan
		}
	}
}

// join gives each file the edits of all files that it needs, and that need it.
func (pl *plan) join(edits map[*ast.File][]analysis.TextEdit) map[*ast.File][]analysis.TextEdit {
	group := map[*ast.File]*ast.File{}
	var find func(*ast.File) *ast.File
	find = func(file *ast.File) *ast.File {
		if group[file] == nil || group[file] == file {
			return file
		}
		return find(group[file])
	}
	for file := range edits {
		for _, m := range pl.users(file) {
			group[find(m.file)] = find(file)
		}
	}
	for _, l := range pl.leftovers {
		for _, m := range l.users {
			if l.goes {
				group[find(m.file)] = find(l.file)
			}
		}
	}
	joined := map[*ast.File][]analysis.TextEdit{}
	for file := range edits {
		for other, more := range edits {
			if find(file) == find(other) {
				joined[file] = append(joined[file], more...)
			}
		}
		slices.SortStableFunc(joined[file], byPlace)
	}
	return joined
}

// rewrite returns the edits of a file. It refuses calls that have none.
func (p *pass) rewrite(file *ast.File, fixed []*migration, plan *plan) []analysis.TextEdit {
	tokens := p.Fset.File(file.FileStart)
	refuseAll := func(reason string) {
		refuse(fixed, reason)
		refuse(plan.users(file), reason)
	}
	source, err := p.ReadFile(tokens.Name())
	if err != nil || len(source) != tokens.Size() {
		refuseAll("its file cannot be read: make it readable")
		return nil
	}
	im := &importer{pass: p, file: file, fixed: fixed, plan: plan, dead: deletions(plan.leftovers, file), needs: map[string]bool{}}
	im.needs["context"] = len(fixed) > 0 || plan.waiting() == file
	if reason := im.choose(); reason != "" {
		refuseAll(reason)
		return nil
	}
	return im.rewrite(tokens, source)
}

// rewrite returns the edits of the file, but none of a call that it refuses.
func (im *importer) rewrite(tokens *token.File, source []byte) []analysis.TextEdit {
	var edits []analysis.TextEdit
	for _, m := range im.fixed {
		inner := m.inner(im)
		s := &sources{tokens, source, inner}
		text, reason := m.text(im, s)
		if m.refusal = reason; reason != "" {
			continue
		}
		edits = append(edits, analysis.TextEdit{Pos: m.call.Pos(), End: m.call.End(), NewText: []byte(text)})
		for _, e := range inner {
			if e.Pos < m.call.Pos() || e.Pos >= m.call.End() {
				edits = append(edits, e)
			}
		}
		edits = append(edits, s.lines(m.dropped())...)
	}
	edits = append(edits, (&sources{tokens: tokens, source: source}).lines(im.dead)...)
	edits = append(edits, im.declarePolicies(tokens, source)...)
	edits = append(edits, im.declare(tokens)...)
	edits = append(edits, im.edits()...)
	for i := range edits {
		edits[i].NewText = []byte(strings.ReplaceAll(string(edits[i].NewText), qualifier, im.retry))
	}
	slices.SortStableFunc(edits, byPlace)
	return edits
}
