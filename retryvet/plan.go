package retryvet

import (
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// This file decides at once for all calls of a package what is rewritten.

// A plan is what the calls of a package that are rewritten share.
type plan struct {
	all         []*migration
	policies    []*sharedPolicy
	classifiers map[string]*classifier // by what migration.classifies returns
	leftovers   []*leftover
}

// fixes returns the edits of each file, with those of all files without which it would not
// compile, and what the calls share. A call that turns out to have no edits is refused,
// and what becomes of the others is found again.
func (p *pass) fixes(all []*migration) (map[*ast.File][]analysis.TextEdit, *plan) {
	for {
		plan := &plan{all: all, policies: p.sharedPolicies(all)}
		before := count(all)
		for _, m := range all {
			if v := m.origin.early; m.refusal == "" && m.shared == nil && v != nil {
				m.refusal = "its options were made with the first value of " + v.Name() + ", which may change"
			}
		}
		plan.classifiers = p.sharedClassifiers(all)
		plan.leftovers = p.leftovers(all)
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

// count returns how many calls are refused.
func count(all []*migration) int {
	n := 0
	for _, m := range all {
		if refused(m) {
			n++
		}
	}
	return n
}

// changes reports whether something is declared in the file, or deleted.
func (pl *plan) changes(file *ast.File) bool {
	return pl.declares(file) || len(deletions(pl.leftovers, file)) > 0
}

// declares reports whether a policy is declared in the file.
func (pl *plan) declares(file *ast.File) bool {
	return slices.ContainsFunc(pl.policies, func(s *sharedPolicy) bool { return s.file == file })
}

// users returns the calls that need what is declared in the file.
func (pl *plan) users(file *ast.File) []*migration {
	var users []*migration
	for _, m := range pl.all {
		if m.refusal != "" {
			continue
		}
		repeats, uses := m.repeats, false
		if s := m.shared; s != nil {
			repeats = s.repeats
			uses = s.file == file || m.wait != "" && pl.waiting() == file
		}
		if c := pl.classifiers[m.classifies(repeats)]; uses || c != nil && c.file == file {
			users = append(users, m)
		}
	}
	return users
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

// waiting returns the file that declares the function which adds a hook, nil if no call
// needs it.
func (pl *plan) waiting() *ast.File {
	var file *ast.File
	for _, s := range pl.policies {
		if s.waits && (file == nil || s.first.inTest(file)) {
			file = s.file
		}
	}
	return file
}

// told says where the policy of a call is, and what is left of the old one.
func (pl *plan) told(m *migration) []string {
	var all, left, tested []string
	if m.shared != nil {
		all = append(all, "its policy is "+m.shared.name)
	}
	for _, l := range pl.leftovers {
		switch {
		case !l.unused || l.goes || l.users[0] != m:
		case l.tested:
			tested = append(tested, l.object.Name())
		default:
			left = append(left, l.object.Name())
		}
	}
	if len(left) > 0 {
		all = append(all, "its package no longer uses "+strings.Join(left, ", "))
	}
	if len(tested) > 0 {
		all = append(all, "only its package's tests name "+strings.Join(tested, ", ")+" now")
	}
	return all
}
