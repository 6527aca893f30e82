package retryvet

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// This file makes the body of a hook of a function that the old library called.

// notify understands a func(error, time.Duration).
func (m *migration) notify(f ast.Expr) string { return m.hook(f, "Err", "Delay") }

// hook makes the body of Hooks.Wait of a function that gets the given expressions of
// an Attempt, whose name stands in them as attemptQualifier unless they are fields.
func (m *migration) hook(f ast.Expr, given ...string) (reason string) {
	f = ast.Unparen(f)
	if m.mentionsLibrary(f) {
		return "what it notifies uses " + m.lib.title
	}
	if m.elsewhere(f) {
		return "what it notifies is written elsewhere"
	}
	if !m.readable(f) {
		return "what it notifies has names that mean something else where the call stands"
	}
	m.attempt = freeName(f, "a", "attempt", "retried")
	if m.attempt == "a" && m.isNamed("a") {
		m.attempt = cmp.Or(freeName(f, "attempt"), "a")
	}
	if m.attempt == "" {
		return "what it notifies uses variables named a, attempt and retried"
	}
	for i, g := range given {
		if !strings.Contains(g, attemptQualifier) {
			g = attemptQualifier + "." + g
		}
		given[i] = strings.ReplaceAll(g, attemptQualifier, m.attempt)
	}
	m.kept = append(m.kept, f)
	switch x := f.(type) {
	case *ast.FuncLit:
		m.wait, reason = m.hookBody(x, given)
		return reason
	case *ast.Ident, *ast.SelectorExpr:
		if sel, ok := x.(*ast.SelectorExpr); ok && m.rootVariable(sel.X) == nil && m.TypesInfo.Selections[sel] != nil {
			break
		}
		text, reason := m.sourceOf(f)
		m.wait = "{ " + text + "(" + strings.Join(given, ", ") + ") }"
		return reason
	}
	return "what it notifies is not understood"
}

// isNamed reports whether something that the package declares has the name where the call
// stands: a receiver, say.
func (m *migration) isNamed(name string) bool {
	_, obj := m.Pkg.Scope().Innermost(m.call.Pos()).LookupParent(name, m.call.Pos())
	return obj != nil
}

// attemptQualifier stands for the name of the Attempt in a hook.
const attemptQualifier = "\x03"

// freeName returns the first name that no identifier in n has, "" if there is none.
func freeName(n ast.Node, names ...string) string {
	taken := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			taken[id.Name] = true
		}
		return true
	})
	for _, name := range names {
		if !taken[name] {
			return name
		}
	}
	return ""
}

// hookBody returns the body of lit as that of a hook: what is given stands in place of
// its parameters. One that is set, or whose address is taken, stays a variable.
func (m *migration) hookBody(lit *ast.FuncLit, given []string) (text, reason string) {
	tokens := m.Fset.File(lit.Pos())
	source, err := m.ReadFile(tokens.Name())
	if err != nil || len(source) != tokens.Size() {
		return "", "its file cannot be read"
	}
	s := &sources{tokens: tokens, source: source}
	var kept, values []string
	i := 0
	for _, field := range lit.Type.Params.List {
		for _, name := range field.Names {
			v, _ := m.TypesInfo.Defs[name].(*types.Var)
			uses, changed := m.usesIn(lit.Body, v)
			switch {
			case changed:
				kept, values = append(kept, name.Name), append(values, given[i])
			default:
				for _, id := range uses {
					s.edits = append(s.edits, m.replace(id, given[i]))
				}
			}
			i++
		}
	}
	text = s.text(lit.Body)
	if len(kept) > 0 {
		text = "{\n" + strings.Join(kept, ", ") + " := " + strings.Join(values, ", ") + "\n" + strings.TrimPrefix(text[1:], "\n")
	}
	return text, ""
}

// replace returns the edit that writes given in the place of id.
func (m *migration) replace(id *ast.Ident, given string) analysis.TextEdit {
	if given == m.count0() {
		return m.replaceCount(id)
	}
	return analysis.TextEdit{Pos: id.Pos(), End: id.End(), NewText: []byte(given)}
}

// count0 returns the number of an attempt as avast/retry-go counts, from 0.
func (m *migration) count0() string { return "uint(" + m.attempt + ".Number-1)" }

// replaceCount returns the edit that writes the number of the attempt in the place of id,
// which counts from 0. It takes in what is added to id or compared with it, and leaves the
// conversion out where any integer will do.
func (m *migration) replaceCount(id *ast.Ident) analysis.TextEdit {
	var n ast.Expr = id
	off := int64(-1) // n is the attempt's number and off
	if sum, more, ok := m.operation(n, token.ADD); ok {
		n, off = sum, off+more
	}
	number := func(off int64) string {
		if off == 0 {
			return m.attempt + ".Number"
		}
		return fmt.Sprintf("%s.Number%+d", m.attempt, off)
	}
	text := "uint(" + number(off) + ")"
	c, _ := m.root.FindNode(n)
	if call, ok := c.Parent().Node().(*ast.CallExpr); ok && m.takesAnything(call, n) {
		text = number(off)
	}
	if compared, with, ok := m.operation(n, comparisons...); ok && with >= off {
		n, text = compared, fmt.Sprintf("%s %s %d", number(0), compared.Op, with-off)
	}
	if rest, _, ok := m.operation(n, token.REM, token.QUO); ok {
		if _, _, ok := m.operation(rest, comparisons...); ok {
			text = number(off)
			if off != 0 {
				text = "(" + text + ")"
			}
		}
	}
	return analysis.TextEdit{Pos: n.Pos(), End: n.End(), NewText: []byte(text)}
}

var comparisons = []token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ}

// operation returns the operation on n, as its left side, and a number without a type,
// if that stands around n.
func (m *migration) operation(n ast.Expr, operators ...token.Token) (e *ast.BinaryExpr, with int64, ok bool) {
	c, ok := m.root.FindNode(n)
	if !ok {
		return nil, 0, false
	}
	e, ok = c.Parent().Node().(*ast.BinaryExpr)
	if !ok || e.X != n || !slices.Contains(operators, e.Op) || !m.untyped(e.Y) {
		return nil, 0, false
	}
	with, ok = m.number(e.Y)
	return e, with, ok && with >= 0
}

// takesAnything reports whether call takes arg as one of any number of values of any type,
// as fmt.Printf does.
func (m *migration) takesAnything(call *ast.CallExpr, arg ast.Expr) bool {
	sig, ok := m.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok || !sig.Variadic() || call.Ellipsis.IsValid() || slices.Index(call.Args, arg) < sig.Params().Len()-1 {
		return false
	}
	slice, ok := sig.Params().At(sig.Params().Len() - 1).Type().(*types.Slice)
	return ok && types.IsInterface(slice.Elem()) && slice.Elem().Underlying().(*types.Interface).Empty()
}

// usesIn returns where n names v, and whether it gives it another value or takes its
// address.
func (p *pass) usesIn(n ast.Node, v *types.Var) (uses []*ast.Ident, changed bool) {
	is := func(e ast.Expr) bool { return v != nil && p.variable(e) == v }
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if is(n) {
				uses = append(uses, n)
			}
		case *ast.AssignStmt:
			changed = changed || slices.ContainsFunc(n.Lhs, is)
		case *ast.IncDecStmt:
			changed = changed || is(n.X)
		case *ast.UnaryExpr:
			changed = changed || n.Op == token.AND && is(n.X)
		case *ast.RangeStmt:
			changed = changed || n.Key != nil && is(n.Key) || n.Value != nil && is(n.Value)
		}
		return true
	})
	return uses, changed
}

// sourceOf returns the text of e as it stands.
func (m *migration) sourceOf(e ast.Expr) (text, reason string) {
	tokens := m.Fset.File(e.Pos())
	source, err := m.ReadFile(tokens.Name())
	if err != nil || len(source) != tokens.Size() {
		return "", "its file cannot be read"
	}
	return (&sources{tokens: tokens, source: source}).text(e), ""
}
