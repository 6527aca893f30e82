package migrate

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"unicode"
)

// This file keeps at one place what the calls of a package shared before: a policy that
// is made by a function, or of options in variables of the package.

// A sharedPolicy is declared where its origin is, and stands in each call by its name.
type sharedPolicy struct {
	name    string
	waits   bool       // calls add a hook
	first   *migration // whose policy it is
	users   []*migration
	file    *ast.File // in which it is declared
	after   ast.Node  // the declaration behind which it is declared
	repeats repeats
}

// policyOf returns the one of the policies that m has, nil if m has its own.
func policyOf(m *migration, policies []*sharedPolicy) *sharedPolicy {
	for _, s := range policies {
		if slices.Contains(s.users, m) {
			return s
		}
	}
	return nil
}

// sharedPolicies returns the policies that calls have in common. Calls in tests do not count, unless the origin is there as well: they are not
// seen where the package is analyzed without them, and both must come to one result.
func (p *pass) sharedPolicies(all []*migration) []*sharedPolicy {
	var found []*sharedPolicy
	byKey := map[string]*sharedPolicy{}
	for _, m := range all {
		key := m.origin.key()
		if m.refusal != "" || key == "" || m.hasNotes() {
			continue
		}
		s := byKey[key]
		if s == nil {
			s = &sharedPolicy{}
			byKey[key] = s
			found = append(found, s)
		}
		s.users = append(s.users, m)
	}
	names := map[string]bool{}
	found = slices.DeleteFunc(found, func(s *sharedPolicy) bool {
		if !p.declarable(s) || names[s.name] {
			return true
		}
		names[s.name] = true
		return false
	})
	return found
}

// declarable completes s, and reports whether it is worth declaring: more than one
// call has it, or it depends on variables that have other values later.
func (p *pass) declarable(s *sharedPolicy) bool {
	o := &s.users[0].origin
	origin := o.objects[len(o.objects)-1]
	home, decl := p.declarationOf(origin)
	if decl == nil || ast.IsGenerated(home) || !importsPath(home, s.users[0].lib.path) {
		return false
	}
	var counted []*migration
	for _, m := range s.users {
		if !p.InTest(m.file) || p.InTest(home) {
			counted = append(counted, m)
			s.repeats = max(s.repeats, m.repeats)
		}
	}
	if len(counted) == 0 || len(counted) == 1 && o.early == nil {
		return false
	}
	s.waits = slices.ContainsFunc(counted, func(m *migration) bool { return m.hook.body != "" })
	s.users = slices.DeleteFunc(s.users, func(m *migration) bool { return m.repeats > s.repeats || m.hook.body != "" && !s.waits })
	s.first, s.file, s.after = counted[0], home, decl
	if i := slices.IndexFunc(counted, func(m *migration) bool { return m.file == home }); i >= 0 {
		s.first = counted[i]
	} else if o.named {
		s.file, s.after = s.first.file, nil
	}
	s.name = policyName(o.objects)
	return p.isFree(s.name) && (!s.waits || p.isFree(withWait))
}

// withWait is the name of the function that adds a hook to a shared policy.
const withWait = "withWait"

// policyName names a policy after what it is made of: newUploadBackOff becomes
// uploadPolicy, rtyAtt and rtyDel become rtyPolicy.
func policyName(objects []types.Object) string {
	name := objects[0].Name()
	if len(objects) > 1 {
		for _, obj := range objects[1:] {
			name = commonWords(name, obj.Name())
		}
	}
	for _, prefix := range []string{"New", "new", "Get", "get", "Make", "make"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || unicode.IsUpper(rune(rest[0]))) {
			name = rest
		}
	}
	for _, suffix := range []string{"BackOff", "Backoff", "backOff", "backoff", "Options", "options", "Opts", "opts", "Policy", "policy"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if name == "" {
		return "retryPolicy"
	}
	return lowerFirst(name) + "Policy"
}

// commonWords returns the words that both names begin with.
func commonWords(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	wordEnds := func(s string) bool { return n == len(s) || unicode.IsUpper(rune(s[n])) }
	for n > 0 && !(wordEnds(a) && wordEnds(b)) {
		n--
	}
	return a[:n]
}

// lowerFirst returns name as that of something unexported: URLWait becomes urlWait.
func lowerFirst(name string) string {
	n := 0
	for n < len(name) && unicode.IsUpper(rune(name[n])) {
		n++
	}
	if n > 1 && n < len(name) {
		n-- // the last begins the next word
	}
	return strings.ToLower(name[:n]) + name[n:]
}
