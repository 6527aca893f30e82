package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"time"
)

// avastConfig is what the options of a call set; attempts is 0 if there is no limit, or
// if only the program knows it.
type avastConfig struct {
	attempts            int64
	delay, most, jitter time.Duration
	kind                string // of delay: "default", or a DelayType of the library
}

// planAvast understands a call of avast/retry-go, or says why not.
func planAvast(m *migration) string {
	options, reason := m.avastOptions()
	if reason != "" {
		return reason
	}
	m.attempts = "10"
	config := avastConfig{attempts: 10, delay: 100 * time.Millisecond, jitter: 100 * time.Millisecond, kind: "default"}
	for _, option := range options {
		call, ok := ast.Unparen(m.value(option)).(*ast.CallExpr)
		if !ok {
			return "an option is not written in the call"
		}
		path, name := m.callee(call)
		if libraryOf(path) == nil {
			return "an option comes from another function"
		}
		if reason := m.avastOption(name, call, &config); reason != "" {
			return reason
		}
	}
	return m.delays(config.kind, config.attempts, config.delay, config.most, config.jitter)
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
		config.attempts = m.known(call.Args[0])
	case "UntilSucceeded":
		m.attempts, config.attempts = "", 0
	case "Delay":
		config.delay, reason = m.wanted(call.Args[0])
	case "MaxDelay":
		config.most, reason = m.wanted(call.Args[0])
	case "MaxJitter":
		config.jitter, reason = m.wanted(call.Args[0])
	case "DelayType":
		config.kind = m.delayType(call.Args[0])
	case "Context":
		m.ctx = call.Args[0]
		if m.elsewhere(m.ctx) {
			return "its context is made in another function"
		}
		m.kept = append(m.kept, m.ctx)
	case "OnRetry":
		if m.isNil(call.Args[0]) {
			break
		}
		reason = m.hook(call.Args[0], "uint("+attemptQualifier+".Number-1)", "Err")
		m.told = append(m.told, "OnRetry is not told of the last failure any more")
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
	if v.Parent() != m.Pkg.Scope() {
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

// wanted returns the value of a constant duration, which arithmetic needs.
func (m *migration) wanted(e ast.Expr) (time.Duration, string) {
	n, ok := m.number(e)
	if !ok || n < 0 {
		return 0, "a duration is no constant, or negative"
	}
	return time.Duration(n), ""
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

// delays writes the backoff. The first wait of version 4 is twice the delay where
// it doubles.
func (m *migration) delays(kind string, attempts int64, delay, most, jitter time.Duration) string {
	if kind == "FixedDelay" {
		if most > 0 {
			delay = min(delay, most)
		}
		m.backoff = qualifier + ".Constant(" + zeroOr(delay) + ")"
		return ""
	}
	if delay == 0 {
		if kind != "default" || jitter > 0 || m.lib.version == 4 {
			return "its delay is zero"
		}
		m.backoff = qualifier + ".Constant(0)"
		return ""
	}
	base := delay
	if m.lib.version == 4 || kind == "FullJitterBackoffDelay" {
		base = 2 * delay
	}
	// The cap of Exponential is 20 s unless set; theirs is none.
	limit := ""
	largest, known := base, attempts > 0
	for i := int64(2); i < attempts && known; i++ {
		largest *= 2
		known = largest < 24*time.Hour
	}
	switch {
	case most > 0:
		limit = ", Max: " + duration(most)
	case !known:
		limit = ", Max: 1 << 62"
	case largest > 20*time.Second:
		limit = ", Max: " + duration(largest)
	}
	exponential := fmt.Sprintf("%s.Exponential{Base: %s%s, Jitter: %s.NoJitter}", qualifier, duration(base), limit, qualifier)
	switch kind {
	case "BackOffDelay":
		m.backoff = exponential
	case "FullJitterBackoffDelay":
		m.backoff = fmt.Sprintf("%s.Exponential{Base: %s%s}", qualifier, duration(base), limit)
	case "default":
		if jitter == 0 {
			if m.lib.version == 4 {
				return "its MaxJitter is zero, which panics there"
			}
			m.backoff = exponential
			break
		}
		wait := fmt.Sprintf("%s.Delay(s) + %s.Duration(s.Rand*float64(%s))", exponential, timeQualifier, duration(jitter))
		if most > 0 {
			wait = fmt.Sprintf("min(%s, %s)", wait, duration(most))
		}
		m.backoff = fmt.Sprintf("%s.BackoffFunc(func(s %s.Step) %s.Duration { return %s })", qualifier, qualifier, timeQualifier, wait)
	default:
		return "its DelayType is not understood"
	}
	return ""
}

func zeroOr(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return duration(d)
}
