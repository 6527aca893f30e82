package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/types/typeutil"
)

// avastConfig is what the options of a call set. Its attempts are 0 if there is no
// limit, or if only the program knows it.
type avastConfig struct {
	attempts            int64
	delay, most, jitter amount
	kind                string // of delay: "default", or a DelayType of the library
}

// An amount is a time that an option sets.
type amount struct {
	text string
	d    time.Duration // unless it varies
	is   amountKind
}

type amountKind int

const (
	unset  amountKind = iota
	plain             // a constant written without names
	named             // a constant with a name
	varies            // only the program knows it
)

// millis returns an amount of n milliseconds.
func millis(n time.Duration) amount {
	return amount{duration(n * time.Millisecond), n * time.Millisecond, plain}
}

// twice returns twice the amount.
func (a amount) twice() amount {
	if a.is == plain {
		return amount{duration(2 * a.d), 2 * a.d, plain}
	}
	return amount{"2 * " + operand(a.text), 2 * a.d, a.is}
}

// operand returns the text of an expression as it stands in a product.
func operand(text string) string {
	if strings.ContainsAny(text, " +-*/") && !strings.HasSuffix(text, ")") {
		return "(" + text + ")"
	}
	return text
}

// planAvast understands a call of avast/retry-go, or says why not.
func planAvast(m *migration) string {
	options, reason := m.avastOptions()
	if reason != "" {
		return reason
	}
	m.attempts = "10"
	config := avastConfig{attempts: 10, delay: millis(100), jitter: millis(100), kind: "default"}
	for _, option := range options {
		call, ok := ast.Unparen(m.value(option)).(*ast.CallExpr)
		if !ok {
			return "an option is not written in the call: " + types.ExprString(option)
		}
		path, name := m.callee(call)
		if libraryOf(path) == nil {
			return "an option comes from another function: " + types.ExprString(call.Fun)
		}
		before := len(m.origin.reads)
		if reason := m.avastOption(name, call, &config); reason != "" {
			return reason
		}
		m.origin.option(m, option, call, name, before)
	}
	if m.retries != nil && m.opMarks() {
		return "its operation marks errors, and its RetryIf overrules the marks"
	}
	if m.retries != nil && m.mayBeZero {
		m.told = append(m.told, "with Attempts(0) a marked error ended it, whatever RetryIf said")
	}
	return m.delays(config)
}

// avastOptions finds the operation, and returns the options of the call, or of the
// retrier that version 5 makes first.
func (m *migration) avastOptions() (options []ast.Expr, reason string) {
	const elsewhere, unwritten = "the retrier is made elsewhere", "its options are not written in the call"
	m.op = m.call.Args[0]
	options, spread := m.call.Args[1:], m.call.Ellipsis.IsValid()
	if m.lib.version == 5 {
		sel, ok := ast.Unparen(m.call.Fun).(*ast.SelectorExpr)
		if !ok {
			return nil, elsewhere
		}
		made, ok := ast.Unparen(sel.X).(*ast.CallExpr)
		if !ok {
			return nil, elsewhere
		}
		if path, name := m.callee(made); libraryOf(path) == nil || name != "New" && name != "NewWithData" {
			return nil, elsewhere
		}
		options, spread = made.Args, made.Ellipsis.IsValid()
	}
	if !spread {
		return options, ""
	}
	options, ok := m.spread(options)
	if !ok {
		return nil, unwritten
	}
	return options, ""
}

// avastOption understands one option.
func (m *migration) avastOption(name string, call *ast.CallExpr, config *avastConfig) (reason string) {
	switch name {
	case "Attempts":
		m.attempts, reason = m.count(call.Args[0], 0)
		config.attempts = m.limit
	case "UntilSucceeded":
		m.attempts, config.attempts = "", 0
	case "Delay":
		config.delay, reason = m.amount(call.Args[0])
	case "MaxDelay":
		config.most, reason = m.amount(call.Args[0])
	case "MaxJitter":
		config.jitter, reason = m.amount(call.Args[0])
	case "DelayType":
		config.kind = m.delayType(call.Args[0])
	case "Context":
		reason = m.keepContext(call.Args[0])
	case "OnRetry":
		if m.isNil(call.Args[0]) {
			break
		}
		reason = m.hook(call.Args[0], "uint("+attemptQualifier+".Number-1)", "Err")
		m.told = append(m.told, "OnRetry is no longer called for the last failure")
	case "RetryIf":
		reason = m.retryIf(call.Args[0])
	case "LastErrorOnly":
		m.told = append(m.told, "the error is a *retry.Error, whose method Last returns the last error")
	default:
		reason = name + " has no exact counterpart"
	}
	return reason
}

// spread returns the options of a call whose last argument is a slice: a variable of
// the package, or one of the function that nothing else uses, which then goes.
func (m *migration) spread(options []ast.Expr) (all []ast.Expr, ok bool) {
	last := options[len(options)-1]
	lit, ok := m.value(last).(*ast.CompositeLit)
	v := m.variable(last)
	if !ok || v == nil {
		return nil, false
	}
	if v.Parent() == m.Pkg.Scope() {
		m.origin.add(v)
		m.origin.options = append(m.origin.options, v)
	} else {
		c, found := m.root.FindNode(lit)
		if !found || m.uses(last) > 1 {
			return nil, false
		}
		assign, isAssign := c.Parent().Node().(*ast.AssignStmt)
		if !isAssign || assign.Tok != token.DEFINE || len(assign.Lhs) != 1 {
			return nil, false
		}
		m.removed = append(m.removed, assign)
	}
	return append(slices.Clone(options[:len(options)-1]), lit.Elts...), true
}

// amount returns the time that e is.
func (m *migration) amount(e ast.Expr) (a amount, reason string) {
	text, reason := m.duration(e)
	n, isConstant := m.number(e)
	switch {
	case reason != "":
		return amount{}, reason
	case !isConstant:
		return amount{text, 0, varies}, ""
	case m.hasNames(e):
		return amount{text, time.Duration(n), named}, ""
	}
	return amount{zeroOr(time.Duration(n)), time.Duration(n), plain}, ""
}

// hasNames reports whether e names something but the units of package time.
func (p *pass) hasNames(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			obj := p.TypesInfo.Uses[id]
			_, isPackage := obj.(*types.PkgName)
			found = found || !isPackage && (obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != "time")
		}
		return !found
	})
	return found
}

// A condition is an expression about an error that has a name.
type condition struct {
	name, text string
	f          *types.Func // nil unless it is a call of f with the error
}

// retryIf understands the function that says which errors are repeated.
func (m *migration) retryIf(f ast.Expr) (reason string) {
	const unknown = "its RetryIf is neither a function with a name nor a literal with one return"
	f = ast.Unparen(f)
	if m.mentionsLibrary(f) {
		return "its RetryIf uses " + m.lib.title
	}
	if m.elsewhere(f) || !m.readable(f) {
		return unknown
	}
	switch x := f.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		if m.declared(x) == nil {
			return unknown
		}
		text, reason := m.sourceOf(f)
		m.retries = &condition{"err", text + "(err)", nil}
		if f := m.declared(x); f.Signature().Recv() == nil {
			m.retries.f = f
		}
		m.kept = append(m.kept, f)
		return reason
	case *ast.FuncLit:
		names := x.Type.Params.List[0].Names
		last, ok := x.Body.List[len(x.Body.List)-1].(*ast.ReturnStmt)
		if !ok || len(x.Body.List) > 1 || len(names) != 1 {
			return unknown
		}
		text, reason := m.sourceOf(last.Results[0])
		m.retries = &condition{names[0].Name, text, nil}
		m.kept = append(m.kept, last)
		return reason
	}
	return unknown
}

// delayType returns the name of the library's function that e is, "" if it is
// something else.
func (m *migration) delayType(e ast.Expr) string {
	var id *ast.Ident
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return ""
	}
	if lib, name := m.of(id); lib != nil {
		return name
	}
	return ""
}

// beginsWithTwice reports whether the library's waits begin with twice Delay. Those of
// v4 do up to v4.6. FullJitterBackoffDelay came with v4.7, where the first wait is
// Delay, as in v5.
func (m *migration) beginsWithTwice() bool {
	f, ok := typeutil.Callee(m.TypesInfo, m.call).(*types.Func)
	return ok && m.lib.version == 4 && f.Pkg().Scope().Lookup("FullJitterBackoffDelay") == nil
}

// delays writes the backoff. The first wait of version 4 is twice the delay where
// it doubles.
func (m *migration) delays(c avastConfig) string {
	if c.most.is != unset && c.most.d == 0 {
		return "its MaxDelay is zero, or only the program knows it"
	}
	if c.kind == "FixedDelay" {
		m.backoff = qualifier + ".Constant(" + c.fixed() + ")"
		return ""
	}
	jittered := c.kind == "default" && (c.jitter.is == varies || c.jitter.d > 0)
	if c.delay.is != varies && c.delay.d == 0 {
		if c.kind != "default" || jittered || m.lib.version == 4 {
			return "its delay is zero"
		}
		m.backoff = qualifier + ".Constant(0)"
		return ""
	}
	if c.delay.is == varies {
		m.told = append(m.told, "a zero Delay would mean the default")
	}
	base := c.delay
	if m.beginsWithTwice() || c.kind == "FullJitterBackoffDelay" {
		base = base.twice()
	}
	jitter := ""
	switch {
	case jittered:
		jitter = ", Jitter: " + qualifier + ".Plus(" + c.jitter.text + ")"
		if c.most.is != unset {
			m.told = append(m.told, "waits at MaxDelay are spread below it: theirs are cut to it")
		}
	case c.kind == "default" && m.lib.version == 4:
		return "its MaxJitter is zero, which panics there"
	case c.kind == "default", c.kind == "BackOffDelay":
		jitter = ", Jitter: " + qualifier + ".NoJitter"
	case c.kind != "FullJitterBackoffDelay":
		return "its DelayType is not understood"
	}
	limit := c.most.text
	if c.most.is == unset {
		if !jittered {
			c.jitter = amount{}
		}
		limit = unreached(c.attempts, base, c.jitter)
	}
	if limit != "" {
		limit = ", Max: " + limit
	}
	m.backoff = fmt.Sprintf("%s.Exponential{Base: %s%s%s}", qualifier, base.text, limit, jitter)
	return ""
}

// fixed returns the wait of FixedDelay.
func (c avastConfig) fixed() string {
	switch {
	case c.most.is == unset:
	case c.delay.is == varies, c.most.is == varies:
		return "min(" + c.delay.text + ", " + c.most.text + ")"
	case c.most.d < c.delay.d:
		return c.most.text
	}
	return c.delay.text
}

// unreached returns a longest wait that one which doubles does not reach in so many
// attempts, "" if Exponential's own is that.
func unreached(attempts int64, base, jitter amount) string {
	endless := mathQualifier + ".MaxInt64"
	if base.is == varies || jitter.is == varies || attempts == 0 {
		return endless
	}
	largest := base.d
	for i := int64(2); i < attempts && largest < 24*time.Hour; i++ {
		largest *= 2
	}
	if largest += jitter.d; largest <= 20*time.Second {
		return ""
	}
	for _, most := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if largest <= most {
			return duration(most)
		}
	}
	return endless
}

func zeroOr(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return duration(d)
}
