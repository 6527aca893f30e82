package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/analysis"
)

// A classifier is a function that a fix declares because more than one call of the
// package needs it.
type classifier struct {
	name string
	lib  *library
	file *ast.File // which declares it
}

// sharedClassifiers returns the functions that the package's calls share, by the path
// of the library whose marks they find. Calls in tests do not count: they are not seen
// where the package is analyzed without them, and both must come to one result.
func (p *pass) sharedClassifiers(all []*migration) map[string]*classifier {
	shared := map[string]*classifier{}
	first := map[string]*ast.File{}
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
		if m.refusal != "" || m.retries != nil || repeats != unmarked || p.inTest(file) || shared[m.lib.path] != nil {
			continue
		}
		path, name := m.lib.path, "unless"+m.lib.marks[0]
		if first[path] == nil {
			first[path] = file
			continue
		}
		if !names[name] && p.isFree(name) {
			names[name] = true
			shared[path] = &classifier{name, m.lib, first[path]}
		}
	}
	return shared
}

// declare returns the edits that declare the classifiers of the file, behind all else.
func (im *importer) declare(tokens *token.File) []analysis.TextEdit {
	var edits []analysis.TextEdit
	for _, c := range im.plan.classifiers {
		if c.file != im.file {
			continue
		}
		text, reason := im.resolve(fmt.Sprintf("\n// %s repeats every error but those that %s.%s has marked.\nfunc %s(err error) %s\n",
			c.name, im.libraryName(c.lib), c.lib.marks[0], c.name, im.unlessMarked(c.lib)))
		if reason != "" {
			refuse(im.plan.users(im.file), reason)
			return nil
		}
		end := tokens.Pos(tokens.Size())
		edits = append(edits, analysis.TextEdit{Pos: end, End: end, NewText: []byte(text)})
	}
	return edits
}

// unlessMarked returns the result and the body of a Classify that finds a library's
// marks.
func (im *importer) unlessMarked(lib *library) string {
	return fmt.Sprintf("%s.Class {\nif %s {\nreturn %s.Permanent\n}\nreturn %s.Transient\n}",
		qualifier, fmt.Sprintf(lib.marked, im.libraryName(lib)), qualifier, qualifier)
}
