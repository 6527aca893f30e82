package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/tools/go/analysis"
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
func (p *pass) sharedClassifiers(all []*migration) map[string]*classifier {
	shared := map[string]*classifier{}
	type need struct {
		m    *migration
		file *ast.File
	}
	first := map[string]need{}
	names := map[string]bool{} // Unrecoverable is a name in two versions
	policies := map[*sharedPolicy]bool{}
	for _, m := range all {
		file, repeats := m.file, m.repeats
		if s := m.shared; s != nil {
			if policies[s] {
				continue
			}
			policies[s] = true
			file, repeats = s.file, s.repeats
		}
		key := m.classifies(repeats)
		if m.refusal != "" || key == "" || p.inTest(file) || shared[key] != nil {
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

// declare returns the edits that declare the classifiers of the file, behind all else.
func (im *importer) declare(tokens *token.File) []analysis.TextEdit {
	var edits []analysis.TextEdit
	end := tokens.Pos(tokens.Size())
	for _, key := range slices.Sorted(maps.Keys(im.plan.classifiers)) {
		c := im.plan.classifiers[key]
		if c.file != im.file {
			continue
		}
		text, reason := im.resolve("\n" + c.text(im))
		if reason != "" {
			refuse(im.plan.users(im.file), reason)
			return nil
		}
		edits = append(edits, analysis.TextEdit{Pos: end, End: end, NewText: []byte(text)})
	}
	return edits
}

// text returns the declaration.
func (c *classifier) text(im *importer) string {
	m := c.first
	if m.retries != nil {
		return fmt.Sprintf("// %s repeats an error if %s returns true.\nfunc %s(err error) %s\n",
			c.name, strings.TrimSuffix(m.retries.text, "(err)"), c.name, m.retries.body())
	}
	return fmt.Sprintf("// %s repeats every error but those that %s.%s has marked.\nfunc %s(err error) %s\n",
		c.name, im.libraryName(m.lib), m.lib.marks[0], c.name, im.unlessMarked(m.lib))
}

// body returns the result and the body of a Classify that repeats errors on a condition.
func (c *condition) body() string {
	return fmt.Sprintf("%s.Class {\nif %s {\nreturn %s.Transient\n}\nreturn %s.Permanent\n}", qualifier, c.text, qualifier, qualifier)
}

// unlessMarked returns the result and the body of a Classify that finds a library's
// marks.
func (im *importer) unlessMarked(lib *library) string {
	return fmt.Sprintf("%s.Class {\nif %s {\nreturn %s.Permanent\n}\nreturn %s.Transient\n}",
		qualifier, fmt.Sprintf(lib.marked, im.libraryName(lib)), qualifier, qualifier)
}
