package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// This file writes what the calls of a package share.

// text returns the declaration of the policy.
func (s *sharedPolicy) text(im *importer, notes []note) string {
	fields := s.first.fields(im, s.repeats)
	value := inline(fields)
	if len(value) > 80 || strings.Contains(value, "\n") || len(notes) > 0 {
		value = broken(fields, notes)
	}
	if s.first.origin.isHelper() && len(s.first.origin.reads) > 0 { // which may have other values later
		return fmt.Sprintf("func %s() %s.Policy {\nreturn %s\n}", s.name, qualifier, value)
	}
	return fmt.Sprintf("var %s = %s", s.name, value)
}

// withWaitText returns the declaration of that function.
func withWaitText(im *importer) string {
	return fmt.Sprintf("\n// %[1]s returns the policy with a hook that is called before each wait.\n"+
		"func %[1]s(p %[2]s.Policy, wait func(%[3]s.Context, %[2]s.Attempt)) %[2]s.Policy {\np.Hooks.Wait = wait\nreturn p\n}\n",
		withWait, qualifier, im.context)
}

// declarePolicies returns the edits that declare the shared policies of the file. Such a
// one takes the place of its origin if that goes.
func (im *importer) declarePolicies(tokens *token.File, source []byte) []analysis.TextEdit {
	var edits []analysis.TextEdit
	s := &sources{tokens: tokens, source: source}
	deleted := s.lines(im.dead)
	withHook := im.plan.waiting() == im.file
	for _, shared := range im.plan.policies {
		if shared.file != im.file {
			continue
		}
		text := shared.text(im, notesFrom(im.plan.leftovers, shared.first))
		if withHook {
			text, withHook = text+"\n"+withWaitText(im), false
		}
		text, reason := im.resolve(text)
		if reason != "" {
			refuse(im.plan.users(im.file), reason)
			return nil
		}
		at := tokens.Pos(tokens.Size())
		if shared.after != nil {
			at = s.lineEnd(shared.after.End())
		}
		i := slices.IndexFunc(deleted, func(e analysis.TextEdit) bool {
			return shared.after != nil && e.Pos <= shared.after.Pos() && shared.after.End() <= e.End
		})
		if i >= 0 {
			at, text = deleted[i].Pos, shared.doc()+text+"\n"
		} else {
			text = "\n\n" + text
		}
		edits = append(edits, analysis.TextEdit{Pos: at, End: at, NewText: []byte(text)})
	}
	return edits
}

// doc returns the comment of the origin, for what takes its place.
func (s *sharedPolicy) doc() string {
	var group *ast.CommentGroup
	old := s.first.origin.objects[0].Name()
	switch d := s.after.(type) {
	case *ast.FuncDecl:
		group = d.Doc
	case *ast.GenDecl:
		group = d.Doc
	}
	if group == nil {
		return ""
	}
	text := note{group: group}.text() + "\n"
	if rest, ok := strings.CutPrefix(text, "// "+old+" "); ok {
		if what, ok := strings.CutPrefix(rest, "returns "); ok && len(s.first.origin.reads) == 0 {
			rest = "has " + what
		}
		text = "// " + s.name + " " + rest
	}
	return text
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
