package migrate

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"time"

	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file reads what stands in a call or is named there: a time, a number, a context.

// given returns the argument that the call of a helper gives for e, if e is one of the
// helper's parameters, else e.
func (c *foreignCall) given(e ast.Expr) ast.Expr {
	for {
		argument := c.arguments[c.Variable(e)]
		if argument == nil {
			return e
		}
		e = argument
	}
}

func (c *foreignCall) isConstant(e ast.Expr) bool { return c.TypesInfo.Types[c.given(e)].Value != nil }

// duration returns the text of a duration: a constant, or a variable that has the
// same value where the text will stand.
func (c *foreignCall) duration(e ast.Expr) (text, reason string) {
	e = c.given(e)
	tv := c.TypesInfo.Types[e]
	if tv.Value == nil {
		return c.stable(e, "a duration is neither a constant nor a variable that keeps its value: make the policy where it has the value")
	}
	n, exact := constant.Int64Val(constant.ToInt(tv.Value))
	switch {
	case !exact || n < 0:
		return "", "a duration is negative: set the policy's field to what you mean"
	case n == 0:
		return "0", ""
	case c.mentionsLibrary(e) || c.Untyped(e) || !c.readable(e):
		return duration(time.Duration(n)), ""
	}
	return c.sourceOf(e)
}

// written returns the time that e is, as it is written.
func (c *foreignCall) written(e ast.Expr) (a amount, reason string) {
	text, reason := c.duration(e)
	n, isConstant := c.Number(e)
	switch {
	case reason != "":
		return amount{}, reason
	case !isConstant:
		return amount{text, 0, varies}, ""
	case c.hasNames(e):
		return amount{text, time.Duration(n), named}, ""
	}
	return amount{text, time.Duration(n), plain}, ""
}

// amount returns the time that e is, in its own words if nothing in e has a name.
func (c *foreignCall) amount(e ast.Expr) (a amount, reason string) {
	a, reason = c.written(e)
	if a.is == plain && a.d != 0 {
		a.text = duration(a.d)
	}
	return a, reason
}

// limitElapsed understands a limit on the time of a run: zero is none.
func (c *foreignCall) limitElapsed(e ast.Expr) (reason string) {
	if c.elapsed, reason = c.duration(e); c.elapsed == "0" {
		c.elapsed = ""
	}
	c.elapsedVaries = !c.isConstant(e)
	return reason
}

// limitedTwice is why a second limit on attempts is refused.
const limitedTwice = "it limits retries twice: set Policy.MaxAttempts to the lesser"

// limitAttempts understands the only limit on attempts: e and more.
func (c *foreignCall) limitAttempts(e ast.Expr, more int64) (reason string) {
	if c.attempts != "" {
		return limitedTwice
	}
	c.attempts, reason = c.count(e, more)
	return reason
}

// count returns the text of a number of attempts: e and more. Zero stands for no
// limit if more is zero.
func (c *foreignCall) count(e ast.Expr, more int64) (text, reason string) {
	e = c.unconverted(e)
	n, isConstant := c.Number(e)
	if c.limit = c.known(e); isConstant || c.limit > 0 {
		c.limit += more
	}
	switch _, isLiteral := e.(*ast.BasicLit); {
	case isConstant && (n < 0 || n > 1<<30):
		return "", "its limit is negative, or very large: set Policy.MaxAttempts to what you mean, such as retry.Unlimited"
	case isConstant && n+more == 0:
		return "", ""
	case isConstant && (isLiteral || c.mentionsLibrary(e) || !c.readable(e)):
		return strconv.FormatInt(n+more, 10), ""
	case isConstant:
		text, reason = c.sourceOf(e)
	default:
		c.mayBeZero = more == 0 && c.known(e) == 0
		text, reason = c.stable(e, "its limit is neither a constant nor a variable that keeps its value: make the policy where it has the value")
	}
	if b, ok := c.TypesInfo.TypeOf(e).(*types.Basic); !c.Untyped(e) && (!ok || b.Kind() != types.Int && b.Kind() != types.UntypedInt) {
		text = "int(" + text + ")"
	}
	if more > 0 {
		text = plusOne(text)
	}
	return text, reason
}

// unconverted returns what is given for e, without conversions such as uint64(n).
func (c *foreignCall) unconverted(e ast.Expr) ast.Expr {
	for {
		e = ast.Unparen(c.given(e))
		call, ok := e.(*ast.CallExpr)
		if !ok || !c.TypesInfo.Types[call.Fun].IsType() {
			return e
		}
		e = call.Args[0]
	}
}

// known returns the value of a constant, or of a variable that only this package can
// set and that it sets once, to a constant; else 0. A variable that is read when the
// program begins has its first value.
func (c *foreignCall) known(e ast.Expr) int64 {
	e = c.unconverted(e)
	switch v := c.Variable(e); {
	case v == nil:
	case c.atStart(e) && c.First(v) != nil:
		e = c.First(v)
	case !v.Exported():
		e = c.Value(e)
	}
	n, _ := c.Number(c.unconverted(e))
	return n
}

// float returns the value of a constant.
func (c *foreignCall) float(e ast.Expr) (float64, bool) {
	v := c.TypesInfo.Types[e].Value
	if v == nil {
		return 0, false
	}
	f, _ := constant.Float64Val(constant.ToFloat(v))
	return f, true
}

// libraryName returns the name of the library's that e is, "" if it is something else.
func (c *foreignCall) libraryName(e ast.Expr) string {
	var id *ast.Ident
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return ""
	}
	if lib, name := c.of(id); lib == c.lib {
		return name
	}
	return ""
}

// keepContext understands the context of the run, which stands in e.
func (c *foreignCall) keepContext(e ast.Expr) (reason string) {
	const changed = "its context has another value, or its name means something else, where the call stands: pass the context that you mean"
	c.ctx = e
	if c.elsewhere(e) {
		return "its context is made in another function: pass it to the call"
	}
	if !c.readable(e) {
		return changed
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !code.Within(e, c.call) {
			if v := c.Variable(id); v != nil && !v.IsField() && c.changedSince(v, e) {
				reason = changed
			}
		}
		return reason == ""
	})
	c.kept = append(c.kept, e)
	return reason
}

// stable returns the text of an expression of variables, parameters, fields and
// constants, if nothing gives them other values between its place and the call.
func (c *foreignCall) stable(e ast.Expr, otherwise string) (text, reason string) {
	if c.mentionsLibrary(e) || !c.isStable(e) {
		return "", otherwise
	}
	return c.sourceOf(e)
}

func (c *foreignCall) isStable(e ast.Expr) bool {
	readable := c.readable(e)
	switch x := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return c.isStable(x.X) && c.isStable(x.Y)
	case *ast.CallExpr: // a conversion
		return c.TypesInfo.Types[x.Fun].IsType() && readable && c.isStable(x.Args[0])
	case *ast.Ident, *ast.SelectorExpr:
		if c.isConstant(e) {
			return readable
		}
		v := c.RootVariable(e)
		switch {
		case v == nil || v.Pkg() == nil || c.arguments[v] != nil:
			return false
		case v.Parent() == v.Pkg().Scope():
			c.origin.reads = append(c.origin.reads, v)
			return readable
		}
		c.origin.local = true
		return readable && !c.changedSince(v, e)
	}
	return false
}

// readable reports whether the names in the text of e mean the same where the call stands:
// another file may not have the imports, and a block may have other variables.
func (c *foreignCall) readable(e ast.Node) bool {
	scope := c.Pkg.Scope().Innermost(c.call.Pos())
	readable := true
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return readable
		}
		obj := c.TypesInfo.Uses[id]
		imported, isImport := obj.(*types.PkgName)
		if obj == nil || !isImport && (obj.Parent() == nil || obj.Pkg() != c.Pkg) || e.Pos() <= obj.Pos() && obj.Pos() < e.End() {
			return readable // a field, what another package or Go itself declares, or e
		}
		_, there := scope.LookupParent(id.Name, c.call.Pos())
		if other, ok := there.(*types.PkgName); ok && isImport {
			readable = readable && other.Imported() == imported.Imported()
		} else {
			readable = readable && there == obj
		}
		return readable
	})
	return readable
}

// changedSince reports whether v, or a part of it, may have another value when the call is
// made than where e stands.
func (c *foreignCall) changedSince(v *types.Var, e ast.Expr) bool {
	to := c.call.Pos()
	for around := range c.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if n := around.Node(); code.Within(e, n) {
			break
		} else if _, isLiteral := n.(*ast.FuncLit); isLiteral { // it may be called later
			to = code.Body(c.cursor).End()
		} else {
			to = max(to, n.End())
		}
	}
	is := func(e ast.Expr) bool { return c.RootVariable(e) == v }
	for at := range c.Root.Preorder((*ast.AssignStmt)(nil), (*ast.IncDecStmt)(nil), (*ast.UnaryExpr)(nil)) {
		if n := at.Node(); n.Pos() < e.End() || n.Pos() > to {
			continue
		}
		switch n := at.Node().(type) {
		case *ast.AssignStmt:
			if slices.ContainsFunc(n.Lhs, is) {
				return true
			}
		case *ast.IncDecStmt:
			if is(n.X) {
				return true
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && is(n.X) {
				return true
			}
		}
	}
	return false
}

// elsewhere reports whether n stands outside of the function that makes the call: its
// text may mean something else there.
func (c *foreignCall) elsewhere(n ast.Node) bool {
	around := code.Body(c.cursor)
	return around == nil || !code.Within(n, around)
}

// repeated reports whether the call may be made more than once for one run of the
// statement stmt: it is in a loop or a literal, and that is not.
func (c *foreignCall) repeated(stmt inspector.Cursor) bool {
	for around := range c.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if !code.Within(stmt.Node(), around.Node()) {
			return true
		}
	}
	return false
}

// sourceOf returns the text of e as it stands.
func (c *foreignCall) sourceOf(e ast.Expr) (text, reason string) {
	tokens := c.Fset.File(e.Pos())
	source, err := c.ReadFile(tokens.Name())
	if err != nil || len(source) != tokens.Size() {
		return "", "its file cannot be read: make it readable"
	}
	return (&sources{tokens: tokens, source: source}).text(e), ""
}
