package migrate

import (
	"go/ast"
	"strings"
	"unicode"
)

// A classifier is a function that a fix declares because more than one call of the
// package needs it.
type classifier struct {
	name  string
	first *migration
	file  *ast.File // which declares it
}

// classifies tells the functions apart by which calls classify errors: it is the path of
// the library whose marks they find, or the name of the condition. It is "" if there is
// none that calls could share.
func (m *migration) classifies(repeats repeats) string {
	switch {
	case m.retries != nil && m.retries.f != nil:
		return m.retries.f.FullName()
	case m.retries == nil && repeats == unmarked:
		return m.lib.path
	}
	return ""
}

// sharedClassifiers returns the functions that the package's calls share, by what
// classifies returns. Calls in tests do not count: they are not seen where the package is
// analyzed without them, and both must come to one result.
func (p *pass) sharedClassifiers(all []*migration, policies []*sharedPolicy) map[string]*classifier {
	shared := map[string]*classifier{}
	type need struct {
		m    *migration
		file *ast.File
	}
	first := map[string]need{}
	names := map[string]bool{} // Unrecoverable is a name in two versions
	seen := map[*sharedPolicy]bool{}
	for _, m := range all {
		file, repeats := m.file, m.repeats
		if s := policyOf(m, policies); s != nil {
			if seen[s] {
				continue
			}
			seen[s] = true
			file, repeats = s.file, s.repeats
		}
		key := m.classifies(repeats)
		if m.refusal != "" || key == "" || p.InTest(file) || shared[key] != nil {
			continue
		}
		if first[key].m == nil {
			first[key] = need{m, file}
			continue
		}
		if name := m.classifierName(); !names[name] && p.isFree(name) {
			names[name] = true
			shared[key] = &classifier{name, first[key].m, first[key].file}
		}
	}
	return shared
}

// classifierName names a shared classifier: unlessPermanent, or ifTransient for the
// condition isTransient.
func (m *migration) classifierName() string {
	if m.retries == nil {
		return "unless" + m.lib.marks[0]
	}
	name := m.retries.f.Name()
	for _, prefix := range []string{"Is", "is"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && unicode.IsUpper(rune(rest[0])) {
			name = rest
		}
	}
	return "if" + strings.ToUpper(name[:1]) + name[1:]
}
