package retryvet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// planBackoff understands a call of cenkalti/backoff, or says why not.
func planBackoff(m *migration) string {
	args := m.call.Args
	if m.call.Ellipsis.IsValid() {
		return "its options are not written in the call"
	}
	switch m.name {
	case "NextBackOff":
		for range m.cursor.Enclosing((*ast.ForStmt)(nil)) {
			return "it is a loop of its own: range over retry.Ticks, or, where something else waits, let a retry.Loop return the waits"
		}
		return "its waits are taken one by one: Next of a retry.Loop returns them"
	case "NewTicker", "NewTickerWithTimer":
		return "a ticker has other rules here: see retry.Ticks"
	case "RetryNotifyWithTimer", "RetryNotifyWithTimerAndData":
		return "it has a timer of its own: see Policy.Clock"
	}
	if m.lib.version == 4 {
		m.op = args[0]
		if reason := m.backOff(args[1]); reason != "" {
			return reason
		}
		if len(args) == 3 && !m.isNil(args[2]) {
			return m.notify(args[2])
		}
		return ""
	}
	m.ctx, m.op = args[0], args[1]
	m.kept = append(m.kept, m.ctx)
	m.elapsed = duration(15 * time.Minute)
	m.exponential(nil)
	for _, option := range args[2:] {
		call, ok := ast.Unparen(option).(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return "an option is not written in the call: " + types.ExprString(option)
		}
		reason := ""
		_, name := m.callee(call)
		m.origin.own = m.origin.own || name != "WithBackOff" && name != "WithNotify"
		switch name {
		case "WithBackOff":
			reason = m.backOff(call.Args[0])
		case "WithMaxTries":
			if m.attempts != "" {
				return "it limits retries twice"
			}
			m.attempts, reason = m.count(call.Args[0], 0)
		case "WithMaxElapsedTime":
			reason = m.limitElapsed(call.Args[0])
		case "WithNotify":
			if !m.isNil(call.Args[0]) {
				reason = m.notify(call.Args[0])
			}
		default:
			reason = "an option is not understood"
		}
		if reason != "" {
			return reason
		}
	}
	return ""
}

// backOff understands the making of a BackOff.
func (m *migration) backOff(e ast.Expr) string {
	e = ast.Unparen(e)
	if v := m.variable(e); v != nil {
		if made, ok := m.made[v]; ok {
			return m.madeBefore(v, made)
		}
		return m.backOffVariable(m.given(e))
	}
	switch x := e.(type) {
	case *ast.UnaryExpr:
		if lit, ok := x.X.(*ast.CompositeLit); ok && x.Op == token.AND {
			return m.backOffLiteral(lit)
		}
	case *ast.CallExpr:
		if !x.Ellipsis.IsValid() {
			return m.backOffCall(x)
		}
	}
	return "the backoff is not made here"
}

// backOffLiteral understands a literal of one of the library's types.
func (m *migration) backOffLiteral(lit *ast.CompositeLit) string {
	path := m.lib.path
	switch t := m.TypesInfo.TypeOf(lit); {
	case isNamed(t, path, "ZeroBackOff"):
		m.backoff, m.told = qualifier+".Constant(0)", nil
		return ""
	case isNamed(t, path, "StopBackOff"):
		if m.attempts != "" {
			return "it limits retries twice"
		}
		m.backoff, m.attempts, m.told = "", "1", nil
		return ""
	case isNamed(t, path, "ConstantBackOff") && keyed(lit) && field(lit, "Interval") != nil:
		return m.constant(field(lit, "Interval"))
	case isNamed(t, path, "ExponentialBackOff") && keyed(lit):
		return m.exponentialLiteral(lit)
	}
	return "the backoff is a literal that may leave fields zero"
}

// backOffCall understands a call of the library, or of a helper of the package.
func (m *migration) backOffCall(call *ast.CallExpr) string {
	path, name := m.callee(call)
	if path != m.lib.path {
		return m.helper(call)
	}
	m.origin.own = m.origin.own || name != "WithContext" && !m.elsewhere(call)
	if m.lib.waits != nil {
		return m.lib.waits(m, name, call)
	}
	switch name {
	case "NewConstantBackOff":
		return m.constant(call.Args[0])
	case "NewExponentialBackOff":
		return m.exponentialOptions(call.Args)
	case "WithMaxRetries":
		if reason := m.backOff(call.Args[0]); reason != "" {
			return reason
		}
		if m.attempts != "" {
			return "it limits retries twice"
		}
		var reason string
		m.attempts, reason = m.count(call.Args[1], 1)
		return reason
	case "WithContext":
		if m.ctx != nil {
			return "it has two contexts"
		}
		if reason := m.keepContext(m.given(call.Args[1])); reason != "" {
			return reason
		}
		return m.backOff(call.Args[0])
	}
	return "the backoff is not understood"
}

// exponentialOptions understands the options of NewExponentialBackOff.
func (m *migration) exponentialOptions(options []ast.Expr) string {
	sets := map[string]string{"WithInitialInterval": "InitialInterval", "WithMaxInterval": "MaxInterval", "WithMultiplier": "Multiplier",
		"WithRandomizationFactor": "RandomizationFactor", "WithMaxElapsedTime": "MaxElapsedTime"}
	fields := map[string]ast.Expr{}
	for _, option := range options {
		with, ok := ast.Unparen(option).(*ast.CallExpr)
		if !ok || len(with.Args) != 1 {
			return "an option is not written in the call: " + types.ExprString(option)
		}
		_, name := m.callee(with)
		if sets[name] == "" {
			return "clocks and timers, and other options of the backoff, are not understood"
		}
		fields[sets[name]] = with.Args[0]
	}
	return m.exponential(fields)
}

// making is how a variable that holds a backoff gets a value.
type making struct {
	value  ast.Expr
	fields map[string]ast.Expr // that are set afterwards
}

// helper understands a call of a function of the package that makes a backoff, sets
// its fields and returns it.
func (m *migration) helper(call *ast.CallExpr) string {
	unknown := "the backoff comes from another function: " + types.ExprString(call.Fun)
	f, ok := typeutil.Callee(m.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() != m.Pkg || f.Signature().Variadic() {
		return unknown
	}
	decl := m.functions().decls[f]
	if decl == nil || m.inlined[decl] { // inlined: it calls itself, or is called twice with other arguments
		return unknown
	}
	last, ok := decl.Body.List[len(decl.Body.List)-1].(*ast.ReturnStmt)
	if !ok || len(last.Results) != 1 {
		return unknown
	}
	if len(m.inlined) == 0 {
		m.origin.helper(m, f, call.Args)
	}
	m.inlined[decl] = true
	for i, param := range slices.Collect(f.Signature().Params().Variables()) {
		m.arguments[param] = call.Args[i]
	}
	var v *types.Var
	for _, stmt := range decl.Body.List[:len(decl.Body.List)-1] {
		if v == nil {
			v = m.defines(stmt)
		}
		if v == nil || !m.step(stmt, v) {
			return unknown
		}
	}
	return m.backOff(last.Results[0])
}

// defines returns the variable that stmt declares and sets, nil if there is none.
func (m *migration) defines(stmt ast.Stmt) *types.Var {
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || assign.Tok != token.DEFINE || len(assign.Lhs) != 1 {
		return nil
	}
	return m.variable(assign.Lhs[0])
}

// step notes what stmt does to the backoff that v holds: it makes it, makes another of
// it, sets a field, or resets it. It reports false for anything else.
func (m *migration) step(stmt ast.Stmt, v *types.Var) bool {
	if m.resets(stmt, v) {
		return true
	}
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return false
	}
	sel, isField := assign.Lhs[0].(*ast.SelectorExpr)
	made := m.made[v]
	switch {
	case assign.Tok == token.DEFINE && m.defines(stmt) == v, assign.Tok == token.ASSIGN && m.variable(assign.Lhs[0]) == v && len(made) > 0:
		m.made[v] = append(made, making{assign.Rhs[0], map[string]ast.Expr{}})
	case assign.Tok == token.ASSIGN && isField && m.variable(sel.X) == v && len(made) > 0 && !m.mentions(assign.Rhs[0], v):
		made[len(made)-1].fields[sel.Sel.Name] = assign.Rhs[0]
	default:
		return false
	}
	return true
}

func (p *pass) mentions(n ast.Node, v *types.Var) bool {
	uses, _ := p.usesIn(n, v)
	return len(uses) > 0
}

// madeBefore understands the last of the values that v got. Where it is made of v, that
// is the value before it.
func (m *migration) madeBefore(v *types.Var, made []making) string {
	if len(made) == 0 {
		return "the backoff is made of itself"
	}
	m.made[v] = made[:len(made)-1]
	last := made[len(made)-1]
	return m.makes(last.value, last.fields)
}

// resets reports whether stmt resets the backoff v, as every run does when it begins.
func (m *migration) resets(stmt ast.Stmt, v *types.Var) bool {
	s, ok := stmt.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Reset" && m.variable(sel.X) == v
}

// backOffVariable understands a variable that only this call uses, with the
// assignments to it and its fields. All of it goes with the call.
func (m *migration) backOffVariable(e ast.Expr) string {
	v := m.variable(e)
	const passed = "the backoff is used elsewhere too, or comes from there"
	if v.Kind() != types.LocalVar {
		return passed
	}
	for c := range m.root.Preorder((*ast.AssignStmt)(nil)) {
		block, ok := c.Parent().Node().(*ast.BlockStmt)
		if !ok || m.defines(c.Node().(ast.Stmt)) != v {
			continue
		}
		if m.lib.inverse && m.repeated(c) {
			return "the backoff goes on where the call before stopped"
		}
		for _, stmt := range block.List {
			if stmt.Pos() < m.call.Pos() && !within(m.call, stmt) && m.step(stmt, v) {
				m.removed = append(m.removed, stmt)
			}
		}
	}
	for id, used := range m.TypesInfo.Uses {
		if used == v && id != e && !slices.ContainsFunc(m.removed, func(s ast.Stmt) bool { return within(id, s) }) {
			return passed
		}
	}
	if len(m.made[v]) == 0 {
		return passed
	}
	return m.madeBefore(v, m.made[v])
}

// repeated reports whether the call may be made more than once for one run of the
// statement at c: it is in a loop or a literal, and that is not.
func (m *migration) repeated(c inspector.Cursor) bool {
	for around := range m.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if !within(c.Node(), around.Node()) {
			return true
		}
	}
	return false
}

// makes understands the making of a backoff whose fields are set afterwards.
func (m *migration) makes(made ast.Expr, fields map[string]ast.Expr) string {
	if len(fields) == 0 {
		return m.backOff(made)
	}
	call, ok := ast.Unparen(made).(*ast.CallExpr)
	if !ok {
		return "the backoff is not made here"
	}
	if path, name := m.callee(call); path != m.lib.path || name != "NewExponentialBackOff" || len(call.Args) > 0 {
		return "fields are set on a backoff that is not understood"
	}
	return m.exponential(fields)
}

// constant understands a constant wait.
func (m *migration) constant(e ast.Expr) string {
	d, reason := m.duration(e)
	m.backoff, m.told = qualifier+".Constant("+d+")", nil
	return reason
}

// exponentialLiteral understands a literal that sets every field by which a run would
// go wrong if it were zero.
func (m *migration) exponentialLiteral(lit *ast.CompositeLit) string {
	needed := []string{"InitialInterval", "MaxInterval", "Multiplier"}
	if m.lib.version == 4 {
		needed = append(needed, "Stop", "Clock")
	}
	for _, name := range needed {
		if field(lit, name) == nil {
			return "the backoff is a literal that leaves " + name + " zero"
		}
	}
	fields := map[string]ast.Expr{}
	for _, e := range lit.Elts {
		kv := e.(*ast.KeyValueExpr)
		fields[kv.Key.(*ast.Ident).Name] = kv.Value
	}
	reason := m.exponential(fields)
	if fields["RandomizationFactor"] == nil && reason == "" {
		m.backoff, m.told = strings.Replace(m.backoff, "PlusMinus(0.5)", "NoJitter", 1), m.told[1:]
	}
	if m.lib.version == 4 && fields["MaxElapsedTime"] == nil {
		m.elapsed = ""
	}
	return reason
}

// exponential understands the fields of an ExponentialBackOff.
func (m *migration) exponential(fields map[string]ast.Expr) string {
	base, most := duration(500*time.Millisecond), duration(time.Minute)
	factor, jitter := "1.5", qualifier+".PlusMinus(0.5)"
	if m.lib.version == 4 {
		m.elapsed = duration(15 * time.Minute)
	}
	capped := "waits at the cap may be shorter: theirs exceed it"
	for name, e := range fields {
		reason := ""
		switch name {
		case "InitialInterval":
			if base, reason = m.duration(e); base == "0" {
				reason = "its first wait is zero"
			}
		case "MaxInterval":
			if most, reason = m.duration(e); most == "0" {
				reason = "its longest wait is zero"
			}
		case "MaxElapsedTime":
			if m.lib.version != 4 {
				reason = "the backoff has a field that is not understood"
			} else {
				reason = m.limitElapsed(e)
			}
		case "Multiplier":
			f, ok := m.float(e)
			if !ok || f < 1 {
				reason = "its multiplier is not a constant of at least 1"
			}
			factor = strconv.FormatFloat(f, 'g', -1, 64)
		case "RandomizationFactor":
			f, ok := m.float(e)
			if !ok || f < 0 || f > 1 {
				reason = "its randomization factor is not a constant from 0 to 1"
			}
			jitter = qualifier + ".PlusMinus(" + strconv.FormatFloat(f, 'g', -1, 64) + ")"
			if f == 0 {
				jitter, capped = qualifier+".NoJitter", ""
			}
		case "Clock", "Stop":
			if !m.names(e, map[string]string{"Clock": "SystemClock", "Stop": "Stop"}[name]) {
				reason = "the backoff has a " + name + " of its own: clocks are Policy.Clock here"
			}
		default:
			reason = "the backoff has a field that is not understood: clocks and timers are Policy.Clock here"
		}
		if reason != "" {
			return reason
		}
	}
	m.backoff = fmt.Sprintf("%s.Exponential{Base: %s, Max: %s, Factor: %s, Jitter: %s}", qualifier, base, most, factor, jitter)
	m.told = nil
	if capped != "" {
		m.told = append(m.told, capped)
	}
	for _, name := range []string{"InitialInterval", "MaxInterval"} {
		if e := fields[name]; e != nil && !m.isConstant(e) {
			m.told = append(m.told, "a zero "+name+" would mean the default")
		}
	}
	return ""
}

// names reports whether e is a name that the library declares.
func (m *migration) names(e ast.Expr, name string) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	lib, got := m.of(sel.Sel)
	return lib.is(m.lib) && got == name
}

// limitElapsed understands a limit on the time of a run: zero is none.
func (m *migration) limitElapsed(e ast.Expr) (reason string) {
	if m.elapsed, reason = m.duration(e); m.elapsed == "0" {
		m.elapsed = ""
	}
	m.elapsedVaries = !m.isConstant(e)
	return reason
}

func (m *migration) isConstant(e ast.Expr) bool { return m.TypesInfo.Types[m.given(e)].Value != nil }

// duration returns the text of a duration: a constant, or a variable that has the
// same value where the text will stand.
func (m *migration) duration(e ast.Expr) (text, reason string) {
	e = m.given(e)
	tv := m.TypesInfo.Types[e]
	if tv.Value == nil {
		return m.stable(e, "a duration is neither a constant nor a variable that keeps its value")
	}
	n, exact := constant.Int64Val(constant.ToInt(tv.Value))
	switch {
	case !exact || n < 0:
		return "", "a duration is negative"
	case n == 0:
		return "0", ""
	case m.mentionsLibrary(e) || m.untyped(e) || !m.readable(e):
		return duration(time.Duration(n)), ""
	}
	return m.sourceOf(e)
}

// elsewhere reports whether n stands outside of the function that makes the call: its
// text may mean something else there.
func (m *migration) elsewhere(n ast.Node) bool {
	around := body(m.cursor)
	return around == nil || !within(n, around)
}

// given returns the argument that the call of a helper gives for e, if e is one of the
// helper's parameters, else e.
func (m *migration) given(e ast.Expr) ast.Expr {
	for {
		argument := m.arguments[m.variable(e)]
		if argument == nil {
			return e
		}
		e = argument
	}
}

// stable returns the text of an expression of variables, parameters, fields and
// constants, if nothing gives them other values between its place and the call.
func (m *migration) stable(e ast.Expr, otherwise string) (text, reason string) {
	if m.mentionsLibrary(e) || !m.isStable(e) {
		return "", otherwise
	}
	return m.sourceOf(e)
}

func (m *migration) isStable(e ast.Expr) bool {
	readable := m.readable(e)
	switch x := ast.Unparen(e).(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return m.isStable(x.X) && m.isStable(x.Y)
	case *ast.CallExpr: // a conversion
		return m.TypesInfo.Types[x.Fun].IsType() && readable && m.isStable(x.Args[0])
	case *ast.Ident, *ast.SelectorExpr:
		if m.isConstant(e) {
			return readable
		}
		v := m.rootVariable(e)
		switch {
		case v == nil || v.Pkg() == nil || m.arguments[v] != nil:
			return false
		case v.Parent() == v.Pkg().Scope():
			m.origin.reads = append(m.origin.reads, v)
			return readable
		}
		m.origin.local = true
		return readable && !m.changedSince(v, e)
	}
	return false
}

// readable reports whether the names in the text of e mean the same where the call stands:
// another file may not have the imports, and a block may have other variables.
func (m *migration) readable(e ast.Node) bool {
	scope := m.Pkg.Scope().Innermost(m.call.Pos())
	readable := true
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return readable
		}
		obj := m.TypesInfo.Uses[id]
		imported, isImport := obj.(*types.PkgName)
		if obj == nil || !isImport && (obj.Parent() == nil || obj.Pkg() != m.Pkg) || e.Pos() <= obj.Pos() && obj.Pos() < e.End() {
			return readable // a field, what another package or Go itself declares, or e
		}
		_, there := scope.LookupParent(id.Name, m.call.Pos())
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
func (m *migration) changedSince(v *types.Var, e ast.Expr) bool {
	to := m.call.Pos()
	for around := range m.cursor.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		if n := around.Node(); within(e, n) {
			break
		} else if _, isLiteral := n.(*ast.FuncLit); isLiteral { // it may be called later
			to = body(m.cursor).End()
		} else {
			to = max(to, n.End())
		}
	}
	is := func(e ast.Expr) bool { return m.rootVariable(e) == v }
	for c := range m.root.Preorder((*ast.AssignStmt)(nil), (*ast.IncDecStmt)(nil), (*ast.UnaryExpr)(nil)) {
		if n := c.Node(); n.Pos() < e.End() || n.Pos() > to {
			continue
		}
		switch n := c.Node().(type) {
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

// keepContext understands the context of the run, which stands in e.
func (m *migration) keepContext(e ast.Expr) (reason string) {
	const changed = "its context has another value, or its name means something else, where the call stands"
	m.ctx = e
	if m.elsewhere(e) {
		return "its context is made in another function"
	}
	if !m.readable(e) {
		return changed
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !within(e, m.call) {
			if v := m.variable(id); v != nil && !v.IsField() && m.changedSince(v, e) {
				reason = changed
			}
		}
		return reason == ""
	})
	m.kept = append(m.kept, e)
	return reason
}

// count returns the text of a number of attempts: e and more. Zero stands for no
// limit if more is zero.
func (m *migration) count(e ast.Expr, more int64) (text, reason string) {
	e = m.unconverted(e)
	n, isConstant := m.number(e)
	if m.limit = m.known(e); isConstant || m.limit > 0 {
		m.limit += more
	}
	switch _, isLiteral := e.(*ast.BasicLit); {
	case isConstant && (n < 0 || n > 1<<30):
		return "", "its limit is negative, or very large"
	case isConstant && n+more == 0:
		return "", ""
	case isConstant && (isLiteral || m.mentionsLibrary(e) || !m.readable(e)):
		return strconv.FormatInt(n+more, 10), ""
	case isConstant:
		text, reason = m.sourceOf(e)
	default:
		m.mayBeZero = more == 0 && m.known(e) == 0
		text, reason = m.stable(e, "its limit is neither a constant nor a variable that keeps its value")
	}
	if b, ok := m.TypesInfo.TypeOf(e).(*types.Basic); !m.untyped(e) && (!ok || b.Kind() != types.Int && b.Kind() != types.UntypedInt) {
		text = "int(" + text + ")"
	}
	if more > 0 {
		text = plusOne(text)
	}
	return text, reason
}

// plusOne returns the text of a sum of a number and 1.
func plusOne(text string) string {
	for _, less := range []string{"-1", " - 1"} {
		if before, ok := strings.CutSuffix(text, less); ok {
			return before
		}
	}
	return text + " + 1"
}

// unconverted returns what is given for e, without conversions such as uint64(n).
func (m *migration) unconverted(e ast.Expr) ast.Expr {
	for {
		e = ast.Unparen(m.given(e))
		call, ok := e.(*ast.CallExpr)
		if !ok || !m.TypesInfo.Types[call.Fun].IsType() {
			return e
		}
		e = call.Args[0]
	}
}

// known returns the value of a constant, or of a variable that only this package can
// set and that it sets once, to a constant; else 0. A variable that is read when the
// program begins has its first value.
func (m *migration) known(e ast.Expr) int64 {
	e = m.unconverted(e)
	switch v := m.variable(e); {
	case v == nil:
	case m.atStart(e) && m.variables().init[v] != nil:
		e = m.variables().init[v]
	case !v.Exported():
		e = m.value(e)
	}
	n, _ := m.number(m.unconverted(e))
	return n
}

// atStart reports whether e is computed when the program begins: it is in no function.
func (p *pass) atStart(e ast.Expr) bool {
	for _, file := range p.Files {
		for _, decl := range file.Decls {
			if _, ok := decl.(*ast.GenDecl); ok && within(e, decl) {
				return true
			}
		}
	}
	return false
}

// float returns the value of a constant.
func (m *migration) float(e ast.Expr) (float64, bool) {
	v := m.TypesInfo.Types[e].Value
	if v == nil {
		return 0, false
	}
	f, _ := constant.Float64Val(constant.ToFloat(v))
	return f, true
}

// duration writes d as a person would.
func duration(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"},
		{time.Microsecond, "Microsecond"}, {1, "Nanosecond"}} {
		if d%unit.d != 0 {
			continue
		}
		if d == unit.d {
			return timeQualifier + "." + unit.name
		}
		return fmt.Sprintf("%d * %s.%s", d/unit.d, timeQualifier, unit.name)
	}
	panic("unreachable: every duration is so many nanoseconds")
}
