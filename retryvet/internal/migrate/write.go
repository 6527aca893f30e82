package migrate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// This file writes what takes the place of a call that is understood.

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
	if text := m.waits.text(m.limit); text != "" {
		add("Backoff", text)
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
	return fmt.Sprintf("func(_ %s.Context, %s %s.Attempt) %s", im.context, m.hook.attempt, qualifier, m.hook.body)
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

// inner returns the edits within the operation.
func (m *migration) inner(im *importer) []analysis.TextEdit {
	if m.literal == nil {
		return nil
	}
	var edits []analysis.TextEdit
	params := im.context + ".Context"
	if m.renamed {
		params = ast.Unparen(m.ctx).(*ast.Ident).Name + " " + params
	}
	list := m.literal.Type.Params
	if !m.takesContext() || m.renamed {
		edits = append(edits, analysis.TextEdit{Pos: list.Opening + 1, End: list.Closing, NewText: []byte(params)})
	}
	if m.lib.inverse {
		return append(edits, m.turned...)
	}
	ast.Inspect(m.literal.Body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if lib, name := m.of(sel.Sel); lib != nil && slices.Contains(lib.marks, name) {
				edits = append(edits, analysis.TextEdit{Pos: sel.Pos(), End: sel.End(), NewText: []byte(qualifier + ".Stop")})
			}
		}
		return true
	})
	return edits
}

// policy returns the policy of the call, in lines if it is long where it begins at a
// column.
func (m *migration) policy(im *importer, column int) string {
	if s := im.plan.policyOf(m); s != nil {
		return s.in(m, im)
	}
	fields := m.fields(im, m.repeats)
	if m.hook.body != "" {
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
	if m.literal == nil && !m.takesContext() {
		results, ok := im.results(m.TypesInfo.TypeOf(m.op))
		if !ok {
			return "", "the type of its value has no name in this file: import its package"
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

// byHand returns the call that takes the place of the old one, for the user to judge: with
// the usual names of packages, and a literal operation as op.
func (m *migration) byHand() string {
	im := &importer{pass: m.pass, file: m.file, plan: &plan{}, retry: "retry", context: "context", std: map[string]string{}, needs: map[string]bool{},
		names: map[string]string{m.lib.path: cmp.Or(m.lib.alias, m.usualName())}}
	for _, s := range standard {
		im.std[s.path] = s.path
	}
	ctx, op := "context.Background()", "op"
	if m.ctx != nil {
		ctx = types.ExprString(m.ctx)
	}
	if m.literal == nil {
		op = types.ExprString(m.op)
		if !m.takesContext() {
			results, _ := im.results(m.TypesInfo.TypeOf(m.op))
			op = fmt.Sprintf("func(context.Context) %s { return %s() }", results, op)
		}
	}
	fields := m.fields(im, m.repeats)
	if m.hook.body != "" {
		fields = append(fields, policyField{"Hooks", fmt.Sprintf("%s.Hooks{Wait: %s}", qualifier, m.hookLiteral(im))})
	}
	policy := inline(fields)
	if len(policy) > 60 || strings.Contains(policy, "\n") {
		policy = broken(fields, nil)
	}
	text, _ := im.resolve(fmt.Sprintf("%s.%s(%s, %s, %s)", qualifier, m.verb(), ctx, policy, op))
	return formatted(strings.ReplaceAll(text, qualifier, im.retry))
}

// usualName returns the name of the library's package.
func (m *migration) usualName() string {
	f, _ := typeutil.Callee(m.TypesInfo, m.call).(*types.Func)
	return f.Pkg().Name()
}

// policyField is one field of the policy's literal.
type policyField struct{ name, text string }

// settle finds another field for notes whose field the policy does not have.
func settle(notes []note, fields []policyField) []note {
	notes = slices.Clone(notes)
	has := func(name string) bool {
		return slices.ContainsFunc(fields, func(f policyField) bool { return f.name == name })
	}
	for i, n := range notes {
		if n.field == opField || has(n.field) {
			continue
		}
		notes[i].field, notes[i].beside = fields[0].name, false
		if has("Backoff") && n.field != "MaxElapsed" {
			notes[i].field = "Backoff"
		}
	}
	return notes
}

// notesAt returns the comments above a field, each with its newline, and the one beside
// it, with a space before.
func notesAt(notes []note, f policyField) (above, beside string) {
	for _, n := range notes {
		switch {
		case n.field != f.name:
		case n.beside && beside == "" && len(f.text) < 60 && !strings.Contains(f.text, "\n"): // gofmt aligns all fields with the longest
			beside = " " + n.text()
		default:
			above += n.text() + "\n"
		}
	}
	return above, beside
}

// in returns what stands in a call of m, in the place of a policy.
func (s *sharedPolicy) in(m *migration, im *importer) string {
	text := s.name
	if s.first.origin.isHelper() && len(s.first.origin.reads) > 0 {
		text += "()"
	}
	if m.hook.body == "" {
		return text
	}
	return fmt.Sprintf("%s(%s, %s)", withWait, text, m.hookLiteral(im))
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
