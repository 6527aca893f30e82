package migrate

import (
	"go/ast"
	"slices"
	"strings"
)

// This file decides at once for all calls of a package what is rewritten.

// A plan is what the calls of a package that are rewritten share.
type plan struct {
	all         []*migration
	policies    []*sharedPolicy
	classifiers map[string]*classifier // by what migration.classifies returns
	leftovers   []*leftover
}

// newPlan returns what the calls share. It refuses those whose options must be shared, and
// cannot.
func (p *pass) newPlan(all []*migration) *plan {
	pl := &plan{all: all, policies: p.sharedPolicies(all)}
	for _, m := range all {
		if v := m.origin.early; m.refusal == "" && pl.policyOf(m) == nil && v != nil {
			m.refusal = "its options were made with the first value of " + v.Name() + ", which may change: make the policy of that"
		}
	}
	pl.classifiers = p.sharedClassifiers(all, pl.policies)
	pl.leftovers = p.leftovers(all)
	return pl
}

// policyOf returns the shared policy that m has, nil if m has its own.
func (pl *plan) policyOf(m *migration) *sharedPolicy { return policyOf(m, pl.policies) }

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
		if s := pl.policyOf(m); s != nil {
			repeats = s.repeats
			uses = s.file == file || m.hook.body != "" && pl.waiting() == file
		}
		if c := pl.classifiers[m.classifies(repeats)]; uses || c != nil && c.file == file {
			users = append(users, m)
		}
	}
	return users
}

// waiting returns the file that declares the function which adds a hook, nil if no call
// needs it.
func (pl *plan) waiting() *ast.File {
	var file *ast.File
	for _, s := range pl.policies {
		if s.waits && (file == nil || s.first.InTest(file)) {
			file = s.file
		}
	}
	return file
}

// told says where the policy of a call is, and what is left of the old one.
func (pl *plan) told(m *migration) []string {
	var all, left, tested []string
	if s := pl.policyOf(m); s != nil {
		all = append(all, "its policy is "+s.name)
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
		all = append(all, "nothing in its package uses these any more: "+strings.Join(left, ", "))
	}
	if len(tested) > 0 {
		all = append(all, "only tests of its package still use "+strings.Join(tested, ", "))
	}
	return all
}
