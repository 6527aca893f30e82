package migrate

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

// This file understands the functions that a call is given: one that hears of a failure
// becomes the body of a hook, and one that judges an error a condition.

// heard is what a function that is told of a failure is given: a field of the Attempt,
// or attemptFrom0.
type heard string

const (
	lastError    heard = "Err"
	nextWait     heard = "Delay"
	attemptFrom0 heard = "" // a uint: the attempt's number, counted from 0
)

// text returns what is given, in a hook whose parameter has the name.
func (h heard) text(attempt string) string {
	if h == attemptFrom0 {
		return "uint(" + attempt + ".Number-1)"
	}
	return attempt + "." + string(h)
}

// callInHook says what to write where a function that is notified is not understood.
const callInHook = ": call it in Policy.Hooks.Wait"

// hears makes a hook of a function that is called before each wait.
func (c *foreignCall) hears(f ast.Expr, given ...heard) (reason string) {
	f = ast.Unparen(f)
	if c.mentionsLibrary(f) {
		return "the function that it notifies uses " + c.lib.title + callInHook
	}
	if c.elsewhere(f) {
		return "the function that it notifies is made elsewhere" + callInHook
	}
	if !c.readable(f) {
		return "the function that it notifies has names that mean something else where the call stands" + callInHook
	}
	attempt := freeName(f, "a", "attempt", "retried")
	if attempt == "a" && c.isNamed("a") {
		attempt = cmp.Or(freeName(f, "attempt"), "a")
	}
	if attempt == "" {
		return "the function that it notifies uses variables named a, attempt and retried" + callInHook
	}
	c.hook.attempt = attempt
	c.kept = append(c.kept, f)
	switch x := f.(type) {
	case *ast.FuncLit:
		c.hook.body, reason = c.hookBody(x, given)
		return reason
	case *ast.Ident, *ast.SelectorExpr:
		if sel, ok := x.(*ast.SelectorExpr); ok && c.RootVariable(sel.X) == nil && c.TypesInfo.Selections[sel] != nil {
			break
		}
		var values []string
		for _, h := range given {
			values = append(values, h.text(attempt))
		}
		text, reason := c.sourceOf(f)
		c.hook.body = "{ " + text + "(" + strings.Join(values, ", ") + ") }"
		if v := c.Variable(f); v != nil && v.Kind() == types.ParamVar { // the libraries let it be nil
			c.hook.body = "{\nif " + text + " != nil {\n" + text + "(" + strings.Join(values, ", ") + ")\n}\n}"
		}
		return reason
	}
	return "the function that it notifies is not understood" + callInHook
}

// isNamed reports whether something that the package declares has the name where the call
// stands: a receiver, say.
func (c *foreignCall) isNamed(name string) bool {
	_, obj := c.Pkg.Scope().Innermost(c.call.Pos()).LookupParent(name, c.call.Pos())
	return obj != nil
}

// hookBody returns the body of lit as that of a hook: what is given stands in place of
// its parameters. One that is set, or whose address is taken, stays a variable.
func (c *foreignCall) hookBody(lit *ast.FuncLit, given []heard) (text, reason string) {
	tokens := c.Fset.File(lit.Pos())
	source, err := c.ReadFile(tokens.Name())
	if err != nil || len(source) != tokens.Size() {
		return "", "its file cannot be read"
	}
	s := &sources{tokens: tokens, source: source}
	var kept, values []string
	i := 0
	for _, field := range lit.Type.Params.List {
		for _, name := range field.Names {
			v, _ := c.TypesInfo.Defs[name].(*types.Var)
			uses, changed := c.usesIn(lit.Body, v)
			switch {
			case changed:
				kept, values = append(kept, name.Name), append(values, given[i].text(c.hook.attempt))
			default:
				for _, id := range uses {
					s.edits = append(s.edits, c.replace(id, given[i]))
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
func (c *foreignCall) replace(id *ast.Ident, given heard) analysis.TextEdit {
	if given == attemptFrom0 {
		return c.replaceCount(id)
	}
	return analysis.TextEdit{Pos: id.Pos(), End: id.End(), NewText: []byte(given.text(c.hook.attempt))}
}

// replaceCount returns the edit that writes the number of the attempt in the place of id,
// which counts from 0. It takes in what is added to id or compared with it, and leaves the
// conversion out where any integer will do.
func (c *foreignCall) replaceCount(id *ast.Ident) analysis.TextEdit {
	var n ast.Expr = id
	off := int64(-1) // n is the attempt's number and off
	if sum, more, ok := c.operation(n, token.ADD); ok {
		n, off = sum, off+more
	}
	number := func(off int64) string {
		if off == 0 {
			return c.hook.attempt + ".Number"
		}
		return fmt.Sprintf("%s.Number%+d", c.hook.attempt, off)
	}
	text := "uint(" + number(off) + ")"
	at, _ := c.Root.FindNode(n)
	if call, ok := at.Parent().Node().(*ast.CallExpr); ok && c.takesAnything(call, n) {
		text = number(off)
	}
	if compared, with, ok := c.operation(n, comparisons...); ok && with >= off {
		n, text = compared, fmt.Sprintf("%s %s %d", number(0), compared.Op, with-off)
	}
	if rest, _, ok := c.operation(n, token.REM, token.QUO); ok {
		if _, _, ok := c.operation(rest, comparisons...); ok {
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
func (c *foreignCall) operation(n ast.Expr, operators ...token.Token) (e *ast.BinaryExpr, with int64, ok bool) {
	at, ok := c.Root.FindNode(n)
	if !ok {
		return nil, 0, false
	}
	e, ok = at.Parent().Node().(*ast.BinaryExpr)
	if !ok || e.X != n || !slices.Contains(operators, e.Op) || !c.Untyped(e.Y) {
		return nil, 0, false
	}
	with, ok = c.Number(e.Y)
	return e, with, ok && with >= 0
}

// takesAnything reports whether call takes arg as one of any number of values of any type,
// as fmt.Printf does.
func (c *foreignCall) takesAnything(call *ast.CallExpr, arg ast.Expr) bool {
	sig, ok := c.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok || !sig.Variadic() || call.Ellipsis.IsValid() || slices.Index(call.Args, arg) < sig.Params().Len()-1 {
		return false
	}
	slice, ok := sig.Params().At(sig.Params().Len() - 1).Type().(*types.Slice)
	return ok && types.IsInterface(slice.Elem()) && slice.Elem().Underlying().(*types.Interface).Empty()
}

// callInClassify says what to write where a function that judges errors is not understood.
const callInClassify = ": call it in Policy.Classify, which returns retry.Transient for true and retry.Permanent for false"

// repeatsIf understands the function, given by an option, that says which errors are
// repeated.
func (c *foreignCall) repeatsIf(f ast.Expr, option string) (reason string) {
	unknown := "its " + option + " is neither a function with a name nor a literal with one return" + callInClassify
	f = ast.Unparen(f)
	if c.mentionsLibrary(f) {
		return "its " + option + " uses " + c.lib.title + callInClassify
	}
	if c.elsewhere(f) || !c.readable(f) {
		return unknown
	}
	switch x := f.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		named := c.declared(x)
		if named == nil {
			return unknown
		}
		text, reason := c.sourceOf(f)
		c.retries = &condition{option: option, name: "err", text: text + "(err)"}
		if named.Signature().Recv() == nil {
			c.retries.f = named
		}
		c.kept = append(c.kept, f)
		return reason
	case *ast.FuncLit:
		names := x.Type.Params.List[0].Names
		last, ok := x.Body.List[len(x.Body.List)-1].(*ast.ReturnStmt)
		if !ok || len(x.Body.List) > 1 || len(names) != 1 {
			return unknown
		}
		text, reason := c.sourceOf(last.Results[0])
		c.retries = &condition{option: option, name: names[0].Name, text: text}
		c.kept = append(c.kept, last)
		return reason
	}
	return unknown
}
