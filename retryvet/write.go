package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// This file writes what takes the place of a call that is understood.

// policyField is one field of the policy's literal.
type policyField struct{ name, text string }

// fields returns the policy that takes the place of the call's backoff and options.
func (m *migration) fields(im *importer, repeats repeats) []policyField {
	var fields []policyField
	add := func(name, text string) { fields = append(fields, policyField{name, text}) }
	switch {
	case m.mayBeZero && (m.elapsed == "" || m.elapsedVaries): // zero would be three attempts
		add("MaxAttempts", fmt.Sprintf("%s.Or(%s, %s.Unlimited)", cmpQualifier, m.attempts, qualifier))
	case m.attempts != "":
		add("MaxAttempts", m.attempts)
	case m.elapsed == "", m.elapsedVaries: // zero of both would be three attempts
		add("MaxAttempts", qualifier+".Unlimited")
	}
	if m.elapsed != "" {
		add("MaxElapsed", m.elapsed)
	}
	if m.backoff != "" {
		add("Backoff", m.backoff)
	}
	switch c := im.plan.classifiers[m.classifies(repeats)]; {
	case c != nil:
		add("Classify", c.name)
	case m.retries != nil:
		add("Classify", fmt.Sprintf("func(%s error) %s", m.retries.name, m.retries.body()))
	case repeats == more:
		add("Classify", fmt.Sprintf("func(error) %s.Class { return %s.Transient }", qualifier, qualifier))
	case repeats == unmarked:
		add("Classify", "func(err error) "+im.unlessMarked(m.lib))
	}
	return fields
}

// hookLiteral returns the function that is called before each wait.
func (m *migration) hookLiteral(im *importer) string {
	return fmt.Sprintf("func(_ %s.Context, %s %s.Attempt) %s", im.context, m.attempt, qualifier, m.wait)
}

// inline returns a policy with these fields on one line.
func inline(fields []policyField) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name+": "+f.text)
	}
	return qualifier + ".Policy{" + strings.Join(all, ", ") + "}"
}

// broken returns a policy with a line for each field, and the comments that belong to
// it.
func broken(fields []policyField, notes []note) string {
	notes = settle(notes, fields)
	var b strings.Builder
	b.WriteString(qualifier + ".Policy{\n")
	for _, f := range fields {
		above, beside := notesAt(notes, f)
		b.WriteString(above + f.name + ": " + f.text + "," + beside + "\n")
	}
	b.WriteString("}")
	return b.String()
}

// verb returns the function that takes the place of the call.
func (m *migration) verb() string {
	if _, ok := m.TypesInfo.TypeOf(m.call).(*types.Tuple); ok {
		return "Do"
	}
	return "Run"
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
		refuseAll("its file cannot be read")
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

func refuse(all []*migration, reason string) {
	for _, m := range all {
		m.refusal = reason
	}
}

func refused(m *migration) bool { return m.refusal != "" }

// rewrite returns the edits of the file, but none of a call that it refuses.
func (im *importer) rewrite(tokens *token.File, source []byte) []analysis.TextEdit {
	var edits []analysis.TextEdit
	for _, m := range im.fixed {
		m.edits = nil
		m.inner(im)
	}
	for _, m := range im.fixed {
		s := &sources{tokens, source, m.edits}
		text, reason := m.text(im, s)
		if m.refusal = reason; reason != "" {
			continue
		}
		edits = append(edits, analysis.TextEdit{Pos: m.call.Pos(), End: m.call.End(), NewText: []byte(text)})
		for _, e := range m.edits {
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

// goes reports whether the use of a library is gone after the fix.
func (p *pass) goes(id *ast.Ident, fixed []*migration) bool {
	for _, m := range fixed {
		for _, n := range m.kept {
			if within(id, n) {
				return m.literal == n && p.isMark(id)
			}
		}
		if within(id, m.call) {
			return true
		}
		for _, s := range m.removed {
			if within(id, s) {
				return true
			}
		}
	}
	return false
}

// isMark reports whether id is the package name in a call that marks an error.
func (p *pass) isMark(id *ast.Ident) bool {
	c, ok := p.root.FindNode(id)
	if !ok {
		return false
	}
	sel, ok := c.Parent().Node().(*ast.SelectorExpr)
	if !ok {
		return false
	}
	lib, name := p.of(sel.Sel)
	return lib != nil && slices.Contains(lib.marks, name)
}

// inner fills in the edits within the operation.
func (m *migration) inner(im *importer) {
	if m.literal == nil {
		return
	}
	params := im.context + ".Context"
	if m.renamed {
		params = ast.Unparen(m.ctx).(*ast.Ident).Name + " " + params
	}
	list := m.literal.Type.Params
	if !m.lib.inverse || m.renamed {
		m.edits = append(m.edits, analysis.TextEdit{Pos: list.Opening + 1, End: list.Closing, NewText: []byte(params)})
	}
	if m.lib.inverse {
		m.edits = append(m.edits, m.turned...)
		return
	}
	ast.Inspect(m.literal.Body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if lib, name := m.of(sel.Sel); lib != nil && slices.Contains(lib.marks, name) {
				m.edits = append(m.edits, analysis.TextEdit{Pos: sel.Pos(), End: sel.End(), NewText: []byte(qualifier + ".Stop")})
			}
		}
		return true
	})
}

// policy returns the policy of the call, in lines if it is long where it begins at a
// column.
func (m *migration) policy(im *importer, column int) string {
	if m.shared != nil {
		return m.shared.in(m, im)
	}
	fields := m.fields(im, m.repeats)
	if m.wait != "" {
		fields = append(fields, policyField{"Hooks", fmt.Sprintf("%s.Hooks{Wait: %s}", qualifier, m.hookLiteral(im))})
	}
	notes := append(slices.Clone(m.notes), notesFrom(im.plan.leftovers, m)...)
	policy := inline(fields)
	if column+len(strings.ReplaceAll(policy, qualifier, im.retry)) > 100 || strings.Contains(policy, "\n") ||
		slices.ContainsFunc(notes, func(n note) bool { return n.field != opField }) {
		policy = broken(fields, notes)
	}
	return policy
}

// text returns the call that takes the place of the old one.
func (m *migration) text(im *importer, s *sources) (string, string) {
	ctx := im.context + ".Background()"
	if m.ctx != nil {
		if ctx = s.text(m.ctx); !m.ctx.Pos().IsValid() {
			ctx = m.ctx.(*ast.Ident).Name
		}
	}
	op := s.text(m.op)
	if m.literal == nil {
		results, ok := im.results(m.TypesInfo.TypeOf(m.op))
		if !ok {
			return "", "the type of its value has no name in this file"
		}
		op = fmt.Sprintf("func(%s.Context) %s { return %s() }", im.context, results, op)
	}
	op = m.aboveOp() + op
	policy := m.policy(im, s.column(m.call)+len(im.retry+"."+m.verb()+"("+ctx+", , "))
	text := fmt.Sprintf("%s.%s(%s, %s, %s)", qualifier, m.verb(), ctx, policy, op)
	text, reason := im.resolve(text)
	if _, ok := m.cursor.Parent().Node().(*ast.ExprStmt); ok {
		if m.verb() == "Do" {
			text = "_, _ = " + text
		} else {
			text = "_ = " + text
		}
	}
	return text, reason
}
