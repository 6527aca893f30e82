package migrate

import (
	"go/ast"
	"go/constant"
	"go/types"

	"golang.org/x/tools/go/types/typeutil"
)

// avast is avast/retry-go. Its versions 4 and 5 are rewritten.
var avast = family{"github.com/avast/retry-go", func(version int) *library {
	l := &library{
		title:   "avast/retry-go",
		entries: []string{"Do", "DoWithData"},
		read:    readAvast,
		aside:   []string{"Context", "OnRetry", "LastErrorOnly"},
		becomes: map[string]string{
			"Delay": "Backoff", "MaxDelay": "Backoff", "MaxJitter": "Backoff", "DelayType": "Backoff",
			"Attempts": "MaxAttempts", "UntilSucceeded": "MaxAttempts", "OnRetry": "Hooks", "RetryIf": "Classify",
		},
		marks:  []string{"Unrecoverable"},
		marked: "!%s.IsRecoverable(err)",
		errors: map[string]string{
			"Error":         "e, ok := errors.AsType[*retry.Error](err), and e.Errs, which has the first error and the latest seven",
			"IsRecoverable": "e, ok := errors.AsType[*retry.Error](err), and !e.Marked. In Classify a mark need not be looked for",
			"ErrThrottled":  "e, ok := errors.AsType[*retry.Error](err), and e.Reason == retry.ReasonBudget",
		},
		zero:  true,
		alias: "avast",
		others: map[string]string{
			"AttemptsForError":              "a counter into the operation, which returns retry.Stop(err) for the nth such error",
			"WithTimer":                     "Policy.Clock",
			"WrapContextErrorWithLastError": "nothing: a *retry.Error always has both",
			"WithFixedTokenBucketThrottle":  "Policy.Budget, with a budget.Token that all calls share",
			"WithThrottle":                  "Policy.Budget, with a budget.Token that all calls share, or a retry.Budget of your own",
		},
	}
	switch version {
	case 0, 3:
		l.instead = "update to github.com/avast/retry-go/v4 first: there the waits begin with twice Delay up to v4.6, and Attempts(0) sets no limit"
	case 4:
	case 5:
		l.entries, l.methods = nil, []string{"Do"}
	default:
		return nil
	}
	return l
}}

// avastDelays is what the options of a call say about its waits.
type avastDelays struct {
	delay, most, jitter amount
	kind                string // "default", or a DelayType of the library; "": something else
}

func readAvast(c *foreignCall) string {
	options, reason := c.avastOptions()
	if reason != "" {
		return reason
	}
	c.attempts, c.limit = "10", 10
	delays := avastDelays{delay: milliseconds(100), jitter: milliseconds(100), kind: "default"}
	for _, option := range options {
		call, ok := ast.Unparen(c.Value(option)).(*ast.CallExpr)
		if !ok {
			return notWritten(option)
		}
		path, name := c.Callee(call)
		if c.libraryOf(path) == nil {
			return "an option comes from another function: " + types.ExprString(call.Fun) + ": let it return a retry.Policy"
		}
		before := len(c.origin.reads)
		if reason := c.avastOption(name, call, &delays); reason != "" {
			return reason
		}
		c.origin.option(c, option, call, name, before)
	}
	if c.retries != nil && c.opMarks() {
		return "its operation marks errors with Unrecoverable, and its RetryIf may repeat them: return them unmarked, because here a mark overrules Classify"
	}
	if c.retries != nil && c.mayBeZero {
		c.told = append(c.told, "RetryIf now decides about marked errors with Attempts(0), too: they ended it")
	}
	return c.avastWaits(delays)
}

// avastOptions finds the operation, and returns the options of the call, or of the
// retrier that version 5 makes first.
func (c *foreignCall) avastOptions() (options []ast.Expr, reason string) {
	const elsewhere = "the retrier is made elsewhere: make a retry.Policy there, and call retry.Run or retry.Do with it"
	c.op = c.call.Args[0]
	options, spread := c.call.Args[1:], c.call.Ellipsis.IsValid()
	if c.lib.version == 5 {
		sel, ok := ast.Unparen(c.call.Fun).(*ast.SelectorExpr)
		if !ok {
			return nil, elsewhere
		}
		made, ok := ast.Unparen(sel.X).(*ast.CallExpr)
		if !ok {
			return nil, elsewhere
		}
		if path, name := c.Callee(made); c.libraryOf(path) == nil || name != "New" && name != "NewWithData" {
			return nil, elsewhere
		}
		options, spread = made.Args, made.Ellipsis.IsValid()
	}
	if !spread {
		return options, ""
	}
	last := options[len(options)-1]
	if options, ok := c.spread(options); ok {
		return options, ""
	}
	if v := c.Variable(last); v != nil && v.Kind() == types.ParamVar {
		return nil, "its options are passed in, as the parameter " + v.Name() + ": let callers pass a retry.Policy"
	}
	return nil, "not all of its options are written in the call, or in a literal that nothing changes: make a retry.Policy of them"
}

// avastOption understands one option.
func (c *foreignCall) avastOption(name string, call *ast.CallExpr, delays *avastDelays) (reason string) {
	switch name {
	case "Attempts":
		c.attempts, reason = c.count(call.Args[0], 0)
	case "UntilSucceeded":
		c.attempts, c.limit = "", 0
	case "Delay":
		delays.delay, reason = c.amount(call.Args[0])
	case "MaxDelay":
		delays.most, reason = c.amount(call.Args[0])
	case "MaxJitter":
		delays.jitter, reason = c.amount(call.Args[0])
	case "DelayType":
		delays.kind = c.libraryName(call.Args[0])
	case "Context":
		reason = c.keepContext(call.Args[0])
	case "OnRetry":
		if c.IsNil(call.Args[0]) {
			break
		}
		reason = c.hears(call.Args[0], attemptFrom0, lastError)
		c.told = append(c.told, "OnRetry is no longer called for the last failure")
	case "RetryIf":
		reason = c.repeatsIf(call.Args[0], name)
	case "LastErrorOnly":
		if v := c.TypesInfo.Types[call.Args[0]].Value; v == nil || constant.BoolVal(v) {
			c.told = append(c.told, wrapsError+": its method Last returns the last one")
		}
	default:
		reason = "it has the option " + c.lib.byHand(name)
	}
	return reason
}

// avastWaits understands the waits. The first one of version 4 is twice the delay where
// it doubles.
func (c *foreignCall) avastWaits(d avastDelays) string {
	if d.most.is != unset && d.most.d == 0 {
		return "its MaxDelay is zero, or a variable that may be, which means none there: set Exponential.Max, to math.MaxInt64 for none"
	}
	w := waits{kind: exponentialWaits, base: d.delay, most: d.most}
	if d.kind == "FixedDelay" {
		w.kind = constantWaits
		c.waits = w
		return ""
	}
	jittered := d.kind == "default" && (d.jitter.is == varies || d.jitter.d > 0)
	if d.delay.isZero() {
		if d.kind != "default" || jittered || c.lib.version == 4 {
			return "its Delay is zero: write retry.Constant(0), or with MaxJitter j a retry.BackoffFunc that returns time.Duration(s.Rand * float64(j))"
		}
		c.waits = waits{kind: constantWaits, base: d.delay}
		return ""
	}
	if d.delay.is == varies {
		w.told = append(w.told, "a zero Delay would now mean the default")
	}
	if c.avastBeginsWithTwice() || d.kind == "FullJitterBackoffDelay" {
		w.base = d.delay.twice()
	}
	switch {
	case jittered:
		w.jitter = jitter{text: qualifier + ".Plus(" + d.jitter.text + ")", adds: d.jitter}
		if d.most.is != unset {
			w.told = append(w.told, "waits at MaxDelay are now spread below it: they were cut to it")
		}
	case d.kind == "default" && c.lib.version == 4:
		return "its MaxJitter is zero, which panics in that library: write retry.Exponential{Base: d, Jitter: retry.NoJitter}"
	case d.kind == "default", d.kind == "BackOffDelay":
	case d.kind == "FullJitterBackoffDelay":
		w.jitter.text = fullJitter
	default:
		return "its DelayType has no counterpart: write a retry.BackoffFunc"
	}
	c.waits = w
	return ""
}

// avastBeginsWithTwice reports whether the library's waits begin with twice Delay. Those
// of v4 do up to v4.6. FullJitterBackoffDelay came with v4.7, where the first wait is
// Delay, as in v5.
func (c *foreignCall) avastBeginsWithTwice() bool {
	f, ok := typeutil.Callee(c.TypesInfo, c.call).(*types.Func)
	return ok && c.lib.version == 4 && f.Pkg().Scope().Lookup("FullJitterBackoffDelay") == nil
}
