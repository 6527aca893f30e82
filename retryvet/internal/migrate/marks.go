package migrate

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file says which errors an operation may return: those that were marked, and those
// that are repeated.

// obeysWaits is said of a call whose operation may return an error that asks for a wait: the
// other libraries do not look for one.
const obeysWaits = "waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter"

// repeatsAnyway reports whether [retry.DefaultClassifier] is known to repeat every
// error of the operation: those that errors.New and fmt.Errorf make, without
// wrapping. Marks in a rewritten literal become ours.
func (m *migration) repeatsAnyway() bool {
	body := m.opBody()
	if body == nil {
		return false
	}
	all := true
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			all = all && len(n.Results) > 0 && m.isPlain(n.Results[len(n.Results)-1])
		}
		return all
	})
	return all
}

// isPlain reports whether e is nil, a mark in a rewritten literal, or an error that
// nothing but its text tells from others.
func (m *migration) isPlain(e ast.Expr) bool {
	if m.IsNil(e) {
		return true
	}
	call, ok := ast.Unparen(m.Value(e)).(*ast.CallExpr)
	if !ok {
		return false
	}
	switch {
	case m.IsCall(call, "errors", "New"):
		return true
	case m.IsCall(call, "fmt", "Errorf"):
		format := m.TypesInfo.Types[call.Args[0]].Value
		return format != nil && !strings.Contains(constant.StringVal(format), "%w")
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && m.literal != nil && code.Within(call, m.literal) && m.isMark(identOf(sel.X))
}

func identOf(e ast.Expr) *ast.Ident {
	id, _ := ast.Unparen(e).(*ast.Ident)
	return id
}

// mayReturnMarks reports whether the operation may return an error that the old
// library marks as permanent, though not in the literal that is rewritten: then only
// the old library can tell.
func (m *migration) mayReturnMarks(all []*migration) bool {
	return len(m.lib.marks) > 0 && (m.marksElsewhere(all) || m.importsInTests(m.lib) || m.dependencyImports() || m.callsUnknown())
}

// marksElsewhere reports whether the package marks errors anywhere but in m.literal
// and in the operations of other calls.
func (m *migration) marksElsewhere(all []*migration) bool {
	for c := range m.Root.Preorder((*ast.Ident)(nil)) {
		id := c.Node().(*ast.Ident)
		lib, name := m.of(id)
		if lib != m.lib || !slices.Contains(lib.marks, name) && name != lib.markType {
			continue
		}
		inRewritten := m.literal != nil && code.Within(id, m.literal) && slices.Contains(lib.marks, name)
		if !inRewritten && (m.hasOperation(id) || !inOperation(id, all)) {
			return true
		}
	}
	return false
}

// inOperation reports whether id stands in the operation of one of the calls.
func inOperation(id *ast.Ident, all []*migration) bool {
	return slices.ContainsFunc(all, func(m *migration) bool { return m.hasOperation(id) })
}

// hasOperation reports whether id stands in the literal that m runs.
func (m *migration) hasOperation(id *ast.Ident) bool {
	if m.op == nil {
		return code.Within(id, m.call) // not understood
	}
	lit, ok := ast.Unparen(m.Value(m.op)).(*ast.FuncLit)
	return ok && code.Within(id, lit)
}

// turnElsewhere says what is to be done where -fix cannot turn the marks round.
const turnElsewhere = "there RetryableError(err) must become err, and each other error retry.Stop(err)"

// turnMarks turns the marks of the operation round: there an error is repeated if it is
// marked, here unless it is.
func (m *migration) turnMarks() string {
	if m.literal == nil {
		m.judge = append(m.judge, "its operation is not a literal in the call, and "+turnElsewhere)
		m.repeatsMarked(false)
		return ""
	}
	count := m.TypesInfo.TypeOf(m.literal).(*types.Signature).Results().Len()
	turned := map[*ast.Ident]bool{}
	known, reason := true, "" // known: DefaultClassifier repeats what is marked
	unmarked := false
	ast.Inspect(m.literal.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) != count {
				reason = "its operation has a return that does not name the error: name it"
				return false
			}
			e := n.Results[count-1]
			mark, arg := m.marked(e)
			switch {
			case m.IsNil(e):
			case mark != nil:
				known = known && mark == ast.Unparen(e) && m.isPlain(arg)
				turned[mark.Fun.(*ast.SelectorExpr).Sel] = true
				m.turned = append(m.turned, analysis.TextEdit{Pos: mark.Pos(), End: arg.Pos()}, analysis.TextEdit{Pos: arg.End(), End: mark.End()})
			default:
				unmarked = unmarked || !m.isPlain(e)
				m.turned = append(m.turned, analysis.TextEdit{Pos: e.Pos(), End: e.Pos(), NewText: []byte(qualifier + ".Stop(")},
					analysis.TextEdit{Pos: e.End(), End: e.End(), NewText: []byte(")")})
			}
		}
		return true
	})
	ast.Inspect(m.literal.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && reason == "" && !turned[id] {
			if lib, _ := m.of(id); lib == m.lib {
				reason = "its operation does not return a RetryableError at once: return it where it is made"
			}
		}
		return true
	})
	switch {
	case reason != "":
		return reason
	case unmarked && m.mayBeMarked():
		m.judge = append(m.judge, "its operation may return an error that other code marks, and "+turnElsewhere)
		known = false
	}
	m.repeatsMarked(known)
	return ""
}

// repeatsMarked repeats what was marked before, unless DefaultClassifier is known to do so.
func (m *migration) repeatsMarked(known bool) {
	if known || m.attempts == "1" {
		return
	}
	m.repeats = more
	m.told = append(m.told, "Classify repeats every error, as before those that were marked: delete it to let retry.DefaultClassifier decide", obeysWaits)
}

// marked returns the call that marks the error e, and what it marks: e is that call, or
// wraps it.
func (m *migration) marked(e ast.Expr) (mark *ast.CallExpr, arg ast.Expr) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil, nil
	}
	if path, name := m.Callee(call); path == m.lib.path && slices.Contains(m.lib.marks, name) {
		if _, ok := call.Fun.(*ast.SelectorExpr); ok {
			return call, call.Args[0]
		}
	}
	if m.IsCall(call, "fmt", "Errorf") && len(call.Args) > 1 && m.wraps(call) {
		return m.marked(call.Args[len(call.Args)-1])
	}
	return nil, nil
}

// wraps reports whether %w is the last verb of a call of fmt.Errorf.
func (p *pass) wraps(call *ast.CallExpr) bool {
	format := p.TypesInfo.Types[call.Args[0]].Value
	if format == nil {
		return false
	}
	text := format.ExactString()
	return strings.LastIndex(text, "%") == strings.LastIndex(text, "%w")
}

// mayBeMarked reports whether an error that the operation gets may be marked already.
func (m *migration) mayBeMarked() bool {
	for _, n := range m.reachable(m.literal.Body)[1:] {
		if m.mentionsLibrary(n) {
			return true
		}
	}
	return m.dependencyImports() || m.callsUnknown()
}

// blocked returns why the old library's errors are needed, "" if they are not: the
// operation makes one that has no counterpart, or a function that the call's error
// may reach looks for one.
func (m *migration) blocked(all []*migration) string {
	if body := m.opBody(); body != nil {
		for _, n := range m.reachable(body) {
			if name := m.namesError(n, func(id *ast.Ident, name string) bool { return name != m.lib.markType }); name != "" {
				return "its operation uses " + m.lib.byHand(name)
			}
		}
	}
	for _, decl := range m.callers(m.call) {
		if name := m.namesError(decl, func(id *ast.Ident, _ string) bool { return !inOperation(id, all) }); name != "" {
			return "code that its error may reach uses " + m.lib.byHand(name)
		}
	}
	return ""
}

// namesError returns the first of the library's errors in n that counts, "" if there
// is none.
func (m *migration) namesError(n ast.Node, counts func(id *ast.Ident, name string) bool) (found string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if lib, name := m.of(id); lib == m.lib && lib.errors[name] != "" && counts(id, name) {
				found = name
			}
		}
		return found == ""
	})
	return found
}
