package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// freshstate finds what counts for all calls that share it, such as a budget, a limit or a
// hedge, and is made for one call. It follows the value from where it is made to what uses
// it, and is silent as soon as something else may have it too. In tests a call may be all
// there is.
func freshstate(p *pass) {
	for c := range p.Root.Preorder((*ast.CompositeLit)(nil), (*ast.CallExpr)(nil), (*ast.ValueSpec)(nil)) {
		t := &trace{pass: p, made: c, seen: map[types.Object]bool{}}
		var what types.Type
		switch n := c.Node().(type) {
		case *ast.ValueSpec: // var b budget.Token
			if what = p.TypesInfo.TypeOf(n.Type); n.Type == nil || len(n.Values) > 0 || len(n.Names) > 1 || !p.remembers(what) {
				continue
			}
			t.variable(p.Variable(n.Names[0]))
		default:
			if what = p.newState(c.Node().(ast.Expr)); what == nil || p.withinState(c) {
				continue
			}
			t.follow(c)
		}
		if t.kept || p.InTest(c.Node()) {
			continue
		}
		name := typeName(what)
		switch {
		case t.asked:
			p.report(c.Node(), fmt.Sprintf("the function that makes this %s is called for each call, so it is new each time: keep one in a variable, or one for each key in a retry.PerKey", name))
		case t.calls == 1 && t.others == 0, t.calls+t.others > 0 && p.perRequest(c):
			p.report(c.Node(), fmt.Sprintf("this %s is new for each call, so it knows nothing of the others: make one, in a package variable, for all calls to the same part of a system", name))
		}
	}
}

// typeName returns the name of a type with those of packages, and not their paths.
func typeName(t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string { return pkg.Name() })
}

// newState returns the type of the state that e makes, nil if it makes none.
func (p *pass) newState(e ast.Expr) types.Type {
	t := p.TypesInfo.TypeOf(e)
	if call, ok := e.(*ast.CallExpr); ok {
		t = p.made(call)
	}
	if lit, ok := e.(*ast.CompositeLit); ok && lit.Type == nil { // {…} in a []*T
		t = code.Deref(t)
	}
	if t == nil || !p.remembers(t) {
		return nil
	}
	return t
}

// made returns the type of which call makes a new one, nil if it is no call of new.
func (p *pass) made(call *ast.CallExpr) types.Type {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if !ok || p.TypesInfo.Uses[id] != types.Universe.Lookup("new") {
		return nil
	}
	return p.TypesInfo.TypeOf(call).Underlying().(*types.Pointer).Elem()
}

// remembers reports whether t is a type that counts for those that share it: one of this
// project, or a guard or a budget of somebody else.
func (p *pass) remembers(t types.Type) bool {
	return code.HoldsState(t) && (code.IsOurs(t) || p.Implements(t, "Guard") || p.Implements(t, "Budget"))
}

// withinState reports whether the literal at c is a part of another that is state, as the
// budget of a hedge is.
func (p *pass) withinState(c inspector.Cursor) bool {
	for around := range c.Enclosing((*ast.CompositeLit)(nil), (*ast.FuncLit)(nil)) {
		if _, isFunc := around.Node().(*ast.FuncLit); isFunc {
			return false
		}
		if around != c && p.newState(around.Node().(ast.Expr)) != nil {
			return true
		}
	}
	return false
}

// perRequest reports whether c is in a function that is called for each request.
func (p *pass) perRequest(c inspector.Cursor) bool {
	for f := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if p.Parameter(f.Node(), isRequest) != "" {
			return true
		}
		if isStarted(f) {
			return false
		}
	}
	return false
}

// isRequest reports whether a value of type t is a request or a message: it has a context, is
// a message of Protocol Buffers, or is acknowledged.
func isRequest(t types.Type) bool {
	return contextOf(t) != "" || hasMethod(t, "ProtoReflect") || hasMethod(t, "Ack")
}

func hasMethod(t types.Type, name string) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
	_, ok := obj.(*types.Func)
	return ok
}

// A trace follows a state from where it is made.
type trace struct {
	*pass
	made inspector.Cursor
	seen map[types.Object]bool // variables and functions that are followed

	kept   bool // others may have it too
	asked  bool // it is what a function returns that is called for each call
	calls  int  // that use it: runs, and requests of an http.Client
	others int  // uses that may last for longer, such as a subscription
}

// follow follows the value of the expression at c.
func (t *trace) follow(c inspector.Cursor) {
	if t.kept {
		return
	}
	up := c.Parent()
	switch n := up.Node().(type) {
	case *ast.ParenExpr, *ast.UnaryExpr, *ast.StarExpr, *ast.CompositeLit, *ast.KeyValueExpr, *ast.TypeAssertExpr, *ast.SliceExpr:
		t.follow(up)
	case *ast.SelectorExpr:
		t.selected(up, n)
	case *ast.CallExpr:
		t.passed(up, n)
	case *ast.AssignStmt:
		t.assigned(c, n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		t.assigned(c, exprs(n.Names), n.Values)
	case *ast.ReturnStmt:
		t.returned(up)
	case *ast.BinaryExpr, *ast.ExprStmt:
	default:
		t.kept = true
	}
}

func exprs(names []*ast.Ident) (all []ast.Expr) {
	for _, name := range names {
		all = append(all, name)
	}
	return all
}

// selected follows a field or method of the value.
func (t *trace) selected(c inspector.Cursor, sel *ast.SelectorExpr) {
	if call, ok := c.Parent().Node().(*ast.CallExpr); ok && call.Fun == sel {
		t.method(c.Parent(), call)
	} else if !plain(t.TypesInfo.TypeOf(sel)) {
		t.follow(c)
	}
}

// method follows the value into a call of one of its methods, or of what it is in.
func (t *trace) method(c inspector.Cursor, call *ast.CallExpr) {
	f, ok := typeutil.Callee(t.TypesInfo, call).(*types.Func)
	if !ok {
		t.kept = true
		return
	}
	sig := f.Signature()
	switch {
	case t.isRun(call):
		t.use(c, &t.calls)
	case sig.Results().Len() == 2 && code.IsNamed(code.Deref(sig.Results().At(0).Type()), "net/http", "Response"): // (*http.Client).Do
		t.use(c, &t.calls)
	case f.Pkg() != nil && code.Ours(f.Pkg().Path()) && !takesContext(sig):
		if sig.Results().Len() > 0 && !plain(sig.Results().At(0).Type()) { // Policy.Named, Client.DialOptions
			t.follow(c)
		}
	case sig.Params().Len() == 0 && (sig.Results().Len() == 0 || plain(sig.Results().At(0).Type())): // Close
	default:
		t.use(c, &t.others)
	}
}

// passed follows the value into a call that gets it.
func (t *trace) passed(c inspector.Cursor, call *ast.CallExpr) {
	if t.TypesInfo.Types[call.Fun].IsType() {
		t.follow(c)
		return
	}
	switch f := typeutil.Callee(t.TypesInfo, call).(type) {
	case *types.Builtin:
		if f.Name() == "append" {
			t.follow(c)
		}
	case *types.Func:
		results := f.Signature().Results()
		switch {
		case t.isRun(call):
			t.use(c, &t.calls)
		case f.Pkg() != nil && code.Ours(f.Pkg().Path()) && results.Len() == 1 && !plain(results.At(0).Type()): // JoinHooks
			t.follow(c)
		case makers.MatchString(f.Name()) && results.Len() > 0 && !plain(results.At(0).Type()):
			t.follow(c)
		default:
			t.kept = true
		}
	default:
		t.kept = true
	}
}

// makers matches the names of functions whose result has what they get.
var makers = regexp.MustCompile(`^(New|Dial|With)`)

// plain reports whether a value of type t has no state.
func plain(t types.Type) bool {
	_, basic := t.Underlying().(*types.Basic)
	return basic || code.IsError(t)
}

func takesContext(sig *types.Signature) bool {
	return sig.Params().Len() > 0 && code.IsContext(sig.Params().At(0).Type())
}

func (t *trace) isRun(call *ast.CallExpr) bool {
	return slices.ContainsFunc(t.Runs(), func(r code.Run) bool { return r.Call == call })
}

// use counts a call that uses the value: many calls share it in a loop that it is not made in.
func (t *trace) use(c inspector.Cursor, count *int) {
	*count++
	for loop := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		t.kept = t.kept || !code.Within(t.made.Node(), loop.Node())
	}
}

// assigned follows the value at c to where an assignment stores it.
func (t *trace) assigned(c inspector.Cursor, left, right []ast.Expr) {
	if kind, _ := c.ParentEdge(); kind == edge.AssignStmt_Lhs {
		return // it gets another value, or one more
	}
	for i, to := range left {
		id, whole := ast.Unparen(to).(*ast.Ident)
		if len(left) == len(right) && right[i] != c.Node() || whole && id.Name == "_" || plain(t.TypesInfo.TypeOf(to)) {
			continue
		}
		v := t.RootVariable(to)
		switch {
		case v == nil, !whole && isPointer(v.Type()) && !t.madeHere(v):
			t.kept = true
		default:
			t.variable(v)
		}
	}
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// madeHere reports whether what v points to is made where v is declared.
func (t *trace) madeHere(v *types.Var) bool {
	switch made := t.First(v).(type) {
	case *ast.UnaryExpr:
		return made.Op == token.AND
	case *ast.CallExpr:
		return t.TypesInfo.Types[made.Fun].IsBuiltin()
	}
	return false
}

// variable follows the value of a variable to its uses.
func (t *trace) variable(v *types.Var) {
	if v == nil || t.seen[v] {
		return
	}
	t.seen[v] = true
	for loop := range t.made.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		t.kept = t.kept || v.Pos() < loop.Node().Pos() // it may be the one of the turn before
	}
	if v.Kind() != types.LocalVar && v.Kind() != types.ParamVar {
		t.kept = true
		return
	}
	around, _ := function(t.made)
	for id, used := range t.TypesInfo.Uses {
		if used != v || t.kept {
			continue
		}
		c, ok := t.Root.FindNode(id)
		if !ok {
			t.kept = true
			return
		}
		if user, _ := function(c); user == around {
			t.follow(c)
		} else {
			t.captured(c, around)
		}
	}
}

// captured follows a variable into a literal of the function around its value. Other literals
// than those that this project is given may be called at any time.
func (t *trace) captured(c inspector.Cursor, around ast.Node) {
	for lit := range c.Enclosing((*ast.FuncLit)(nil)) {
		if outer, _ := function(lit.Parent()); outer != around {
			continue
		}
		if t.isAsked(lit) {
			t.follow(lit)
			return
		}
	}
	t.kept = true
}

// returned follows the value out of the function around c.
func (t *trace) returned(c inspector.Cursor) {
	around, _ := function(c)
	at, _ := t.Root.FindNode(around)
	decl, ok := around.(*ast.FuncDecl)
	switch {
	case !ok && t.isAsked(at):
		t.asked = true
	case !ok || decl.Recv != nil || decl.Name.IsExported() && t.Pkg.Name() != "main":
		t.kept = true
	default:
		t.result(t.TypesInfo.Defs[decl.Name])
	}
}

// result follows what a function of the package makes to all of its callers. Each of them gets
// its own.
func (t *trace) result(f types.Object) {
	if f == nil || t.seen[f] {
		t.kept = true
		return
	}
	t.seen[f] = true
	n := 0
	for id, used := range t.TypesInfo.Uses {
		if used != f {
			continue
		}
		c, ok := t.Root.FindNode(id)
		if !ok || t.kept {
			t.kept = true
			return
		}
		n++
		if t.isAsked(c) {
			t.asked = true
			continue
		}
		call, ok := c.Parent().Node().(*ast.CallExpr)
		if !ok || call.Fun != id {
			t.kept = true
			return
		}
		each := &trace{pass: t.pass, made: c.Parent(), seen: t.seen}
		each.follow(c.Parent())
		t.kept = each.kept || each.calls+each.others > 1
		t.asked = t.asked || each.asked
		t.calls, t.others = max(t.calls, each.calls), max(t.others, each.others)
	}
	t.kept = t.kept || n == 0
}

// isAsked reports whether the function at c, or the variable that it is set to, is given to
// this project, which calls it for each call to get what limits it.
func (t *trace) isAsked(c inspector.Cursor) bool {
	up := c.Parent()
	switch n := up.Node().(type) {
	case *ast.KeyValueExpr:
		lit, ok := up.Parent().Node().(*ast.CompositeLit)
		field, isField := n.Key.(*ast.Ident)
		return ok && isField && code.IsOurs(t.TypesInfo.TypeOf(lit)) && givesState(t.Variable(field))
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if len(n.Lhs) != len(n.Rhs) || n.Rhs[i] != c.Node() {
				continue
			}
			if sel, ok := left.(*ast.SelectorExpr); ok {
				return code.IsOurs(code.Deref(t.TypesInfo.TypeOf(sel.X))) && givesState(t.Variable(sel.Sel))
			}
			if v := t.Variable(left); v != nil && n.Tok == token.DEFINE && !t.Changes(v) {
				return t.anyAsked(v)
			}
		}
	case *ast.CallExpr:
		f, ok := typeutil.Callee(t.TypesInfo, n).(*types.Func)
		i := slices.Index(n.Args, c.Node().(ast.Expr))
		return ok && f.Pkg() != nil && code.Ours(f.Pkg().Path()) && i >= 0 && i < f.Signature().Params().Len() && givesState(f.Signature().Params().At(i))
	}
	return false
}

// anyAsked reports whether isAsked holds for a use of v.
func (t *trace) anyAsked(v *types.Var) bool {
	for id, used := range t.TypesInfo.Uses {
		if used == v {
			if c, ok := t.Root.FindNode(id); ok && t.isAsked(c) {
				return true
			}
		}
	}
	return false
}

// givesState reports whether a field or parameter is a function that returns what limits a
// call, or its policy. That of a retry.PerKey is called once for each key: its result is of
// the type that it keeps.
func givesState(v *types.Var) bool {
	if v == nil {
		return false
	}
	f, ok := v.Origin().Type().Underlying().(*types.Signature)
	if !ok {
		return false
	}
	for result := range f.Results().Variables() {
		of := types.Unalias(result.Type())
		if list, ok := of.(*types.Slice); ok {
			of = list.Elem()
		}
		of = code.Deref(of)
		if code.IsPolicy(of) || code.IsNamed(of, code.RetryPath, "Guard") || code.IsNamed(of, code.RetryPath, "Budget") || code.IsOurs(of) && code.HoldsState(of) {
			return true
		}
	}
	return false
}
