package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file follows a backoff, and a slice of options, to where it is made: through
// variables, fields that are set and functions of the package. What a library's own
// functions make, the library's file understands.

// Reasons that more than one place gives.
const (
	notSettable = "fields are set on a backoff that is not understood: set those of a retry.Policy"
	partlyZero  = "the backoff is a literal that may leave fields zero: write the Backoff that you mean, a retry.Exponential or a retry.BackoffFunc"
	goesOn      = "each call goes on with the backoff where the call before stopped: make a retry.Policy if each should begin anew"
	usedByOther = "other code uses its backoff, too: make a retry.Policy, and let that code use it"
)

// notWritten is why an option that stands elsewhere is refused.
func notWritten(option ast.Expr) string {
	return "an option is not written in the call: " + types.ExprString(option) + ": set the field of a retry.Policy there"
}

// notUnderstood is why an option, or a function that makes a backoff, is refused.
func notUnderstood(name string) string {
	return name + " is not understood: set the field of a retry.Policy that takes its place, or write a retry.BackoffFunc"
}

// backOff understands the making of a BackOff.
func (c *foreignCall) backOff(e ast.Expr) string {
	e = ast.Unparen(e)
	if v := c.Variable(e); v != nil {
		if made, ok := c.made[v]; ok {
			return c.madeBefore(v, made)
		}
		return c.backOffVariable(c.given(e))
	}
	switch x := e.(type) {
	case *ast.UnaryExpr:
		if lit, ok := x.X.(*ast.CompositeLit); ok && x.Op == token.AND {
			if c.lib.literal == nil {
				return partlyZero
			}
			return c.lib.literal(c, lit)
		}
	case *ast.CallExpr:
		if !x.Ellipsis.IsValid() {
			return c.backOffCall(x)
		}
	}
	return "the backoff is made elsewhere: " + types.ExprString(e) + ": make a retry.Policy there"
}

// backOffCall understands a call of the library, or of a helper of the package.
func (c *foreignCall) backOffCall(call *ast.CallExpr) string {
	path, name := c.Callee(call)
	if path != c.lib.path {
		return c.helper(call)
	}
	if !c.elsewhere(call) {
		c.origin.sets(c.lib, name)
	}
	return c.lib.makes(c, name, call)
}

// backOffVariable understands a variable that only this call uses, with the
// assignments to it and its fields. All of it goes with the call.
func (c *foreignCall) backOffVariable(e ast.Expr) string {
	v := c.Variable(e)
	passed := usedByOther
	if c.resetInOperation(v) {
		passed = "its operation resets the backoff: call retry.Supervise, which begins with short waits again after a healthy run"
	}
	switch v.Kind() {
	case types.LocalVar:
	case types.PackageVar:
		if v.Pkg() == c.Pkg {
			return c.backOffOfPackage(v)
		}
		return "its backoff is a variable of another package: " + types.ExprString(e) + ": make a retry.Policy there"
	case types.ParamVar:
		return "its backoff is passed in, as the parameter " + v.Name() + ": let callers pass a retry.Policy"
	default:
		return "its backoff is a variable that calls may share: " + v.Name() + ": make it a retry.Policy, which they can share"
	}
	for at := range c.Root.Preorder((*ast.AssignStmt)(nil)) {
		block, ok := at.Parent().Node().(*ast.BlockStmt)
		if !ok || c.defines(at.Node().(ast.Stmt)) != v {
			continue
		}
		if c.lib.resumes && c.repeated(at) {
			return goesOn
		}
		for _, stmt := range block.List {
			if stmt.Pos() < c.call.Pos() && !code.Within(c.call, stmt) && c.step(stmt, v) {
				c.removed = append(c.removed, stmt)
			}
		}
	}
	for id, used := range c.TypesInfo.Uses {
		if used == v && id != e && !slices.ContainsFunc(c.removed, func(s ast.Stmt) bool { return code.Within(id, s) }) {
			return passed
		}
	}
	if len(c.made[v]) == 0 {
		return passed
	}
	return c.madeBefore(v, c.made[v])
}

// backOffOfPackage understands a backoff in a variable of the package that keeps its first
// value. Calls begin with it anew, as each resets it.
func (c *foreignCall) backOffOfPackage(v *types.Var) string {
	made := c.First(v)
	switch {
	case made == nil || c.Changes(v):
		return "its backoff is a variable that may change: " + v.Name() + ": make it a retry.Policy"
	case c.lib.resumes:
		return goesOn
	}
	for at := range c.Root.Preorder((*ast.Ident)(nil)) {
		if id := at.Node().(*ast.Ident); c.TypesInfo.Uses[id] == v && !c.isArgument(at) {
			return usedByOther
		}
	}
	before := len(c.origin.reads)
	if reason := c.backOff(made); reason != "" {
		return reason
	}
	if len(c.origin.reads) > before {
		return "its backoff was made with the first value of " + c.origin.reads[before].Name() + ": make a retry.Policy of that"
	}
	c.origin.add(v)
	c.origin.options = append(c.origin.options, v)
	return ""
}

// isArgument reports whether the library is given what stands at, and nobody else.
func (c *foreignCall) isArgument(at inspector.Cursor) bool {
	call, ok := at.Parent().Node().(*ast.CallExpr)
	if !ok {
		return false
	}
	path, _ := c.Callee(call)
	return c.libraryOf(path) == c.lib
}

// resetInOperation reports whether the operation resets the backoff v.
func (c *foreignCall) resetInOperation(v *types.Var) bool {
	body := c.opBody()
	if body == nil {
		return false
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if stmt, ok := n.(ast.Stmt); ok {
			found = found || c.resets(stmt, v)
		}
		return !found
	})
	return found
}

// madeBefore understands the last of the values that v got. Where it is made of v, that
// is the value before it.
func (c *foreignCall) madeBefore(v *types.Var, made []making) string {
	if len(made) == 0 {
		return "the backoff is made of itself: make a retry.Policy"
	}
	c.made[v] = made[:len(made)-1]
	last := made[len(made)-1]
	return c.making(last.value, last.fields)
}

// making understands the making of a backoff whose fields are set afterwards.
func (c *foreignCall) making(made ast.Expr, fields map[string]ast.Expr) string {
	if len(fields) == 0 {
		return c.backOff(made)
	}
	call, ok := ast.Unparen(made).(*ast.CallExpr)
	if !ok {
		return "the backoff is made elsewhere: make a retry.Policy there"
	}
	path, name := c.Callee(call)
	if path != c.lib.path || c.lib.sets == nil {
		return notSettable
	}
	return c.lib.sets(c, name, call, fields)
}

// helper understands a call of a function of the package that makes a backoff, sets
// its fields and returns it.
func (c *foreignCall) helper(call *ast.CallExpr) string {
	unknown := "the backoff comes from another function: " + types.ExprString(call.Fun) + ": let it return a retry.Policy"
	f, ok := typeutil.Callee(c.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() != c.Pkg || f.Signature().Variadic() {
		return unknown
	}
	decl := c.functions().decls[f]
	if decl == nil || c.inlined[decl] { // inlined: it calls itself, or is called twice with other arguments
		return unknown
	}
	last, ok := decl.Body.List[len(decl.Body.List)-1].(*ast.ReturnStmt)
	if !ok || len(last.Results) != 1 {
		return unknown
	}
	if len(c.inlined) == 0 {
		c.origin.helper(c, f, call.Args)
	}
	c.inlined[decl] = true
	for i, param := range slices.Collect(f.Signature().Params().Variables()) {
		c.arguments[param] = call.Args[i]
	}
	var v *types.Var
	for _, stmt := range decl.Body.List[:len(decl.Body.List)-1] {
		if v == nil {
			v = c.defines(stmt)
		}
		if v == nil || !c.step(stmt, v) {
			return unknown
		}
	}
	return c.backOff(last.Results[0])
}

// defines returns the variable that stmt declares and sets, nil if there is none.
func (c *foreignCall) defines(stmt ast.Stmt) *types.Var {
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || assign.Tok != token.DEFINE || len(assign.Lhs) != 1 {
		return nil
	}
	return c.Variable(assign.Lhs[0])
}

// step notes what stmt does to the backoff that v holds: it makes it, makes another of
// it, sets a field, or resets it. It reports false for anything else.
func (c *foreignCall) step(stmt ast.Stmt, v *types.Var) bool {
	if c.resets(stmt, v) {
		return true
	}
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return false
	}
	sel, isField := assign.Lhs[0].(*ast.SelectorExpr)
	made := c.made[v]
	switch {
	case assign.Tok == token.DEFINE && c.defines(stmt) == v, assign.Tok == token.ASSIGN && c.Variable(assign.Lhs[0]) == v && len(made) > 0:
		c.made[v] = append(made, making{assign.Rhs[0], map[string]ast.Expr{}})
	case assign.Tok == token.ASSIGN && isField && c.Variable(sel.X) == v && len(made) > 0 && !c.mentions(assign.Rhs[0], v):
		made[len(made)-1].fields[sel.Sel.Name] = assign.Rhs[0]
	default:
		return false
	}
	return true
}

// resets reports whether stmt resets the backoff v, as every run does when it begins.
func (c *foreignCall) resets(stmt ast.Stmt, v *types.Var) bool {
	s, ok := stmt.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Reset" && c.Variable(sel.X) == v
}

// spread returns the options of a call whose last argument is a slice: a variable of
// the package, or one of the function that nothing else uses, which then goes.
func (c *foreignCall) spread(options []ast.Expr) (all []ast.Expr, ok bool) {
	last := options[len(options)-1]
	lit, ok := c.Value(last).(*ast.CompositeLit)
	v := c.Variable(last)
	if !ok || v == nil {
		return nil, false
	}
	if v.Parent() == c.Pkg.Scope() {
		c.origin.add(v)
		c.origin.options = append(c.origin.options, v)
	} else {
		at, found := c.Root.FindNode(lit)
		if !found || c.Uses(last) > 1 {
			return nil, false
		}
		assign, isAssign := at.Parent().Node().(*ast.AssignStmt)
		if !isAssign || assign.Tok != token.DEFINE || len(assign.Lhs) != 1 {
			return nil, false
		}
		c.removed = append(c.removed, assign)
	}
	return append(slices.Clone(options[:len(options)-1]), lit.Elts...), true
}
