package migrate

import (
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry/retryvet/internal/code"
)

// cenkalti is cenkalti/backoff. Its versions 4 to 7 are rewritten.
var cenkalti = family{"github.com/cenkalti/backoff", func(version int) *library {
	l := &library{
		title: "cenkalti/backoff",
		entries: []string{"Retry", "RetryNotify", "RetryWithData", "RetryNotifyWithData", "RetryNotifyWithTimer",
			"RetryNotifyWithTimerAndData", "NewTicker", "NewTickerWithTimer"},
		methods: []string{"NextBackOff"},
	}
	switch version {
	case 0, 3:
		l.instead = "update to github.com/cenkalti/backoff/v4 first: its calls are the same, but it finds a wrapped Permanent, and a canceled wait returns the context's error"
		return l
	case 4, 5, 6, 7:
	default:
		return nil
	}
	l.read, l.makes, l.sets, l.literal = readCenkalti, cenkaltiMakes, cenkaltiSets, cenkaltiLiteral
	l.aside = []string{"WithContext", "WithBackOff", "WithNotify"}
	l.becomes = map[string]string{
		"InitialInterval": "Backoff", "MaxInterval": "Backoff", "Multiplier": "Backoff", "RandomizationFactor": "Backoff",
		"WithInitialInterval": "Backoff", "WithMaxInterval": "Backoff", "WithMultiplier": "Backoff", "WithRandomizationFactor": "Backoff",
		"WithBackOff": "Backoff", "MaxElapsedTime": "MaxElapsed", "WithMaxElapsedTime": "MaxElapsed",
		"WithMaxTries": "MaxAttempts", "WithMaxRetries": "MaxAttempts", "WithNotify": "Hooks",
	}
	l.marks = []string{"Permanent"}
	const asError = "e, ok := errors.AsType[*retry.Error](err)"
	l.errors = map[string]string{
		"PermanentError":    "retry.Stop(err) to mark an error. Of the run's error, " + asError + ", e.Marked says that a mark ended the run",
		"RetryAfter":        "retry.After(errors.New(\"what went wrong\"), d). After(nil, d) would be a success, and the backoff is added to d",
		"RetryAfterError":   "retry.After(err, d) to make one. A hook gets d as Attempt.Hint",
		"RetryError":        asError + ". Its LastErr is e.Last(), its Cause is e.Reason or, of a context, e.Cause",
		"AsRetryError":      asError,
		"ErrPermanent":      asError + ", and e.Reason == retry.ReasonPermanent",
		"ErrExhausted":      asError + ", and e.Reason == retry.ReasonMaxAttempts",
		"ErrMaxElapsedTime": asError + ", and e.Reason == retry.ReasonMaxElapsed",
	}
	l.others = map[string]string{
		"WithClockProvider":     "Policy.Clock",
		"WithRetryStopDuration": "nothing: what its BackOff returns to stop means nothing here",
	}
	l.marked = errorsQualifier + ".Is(err, %s.ErrPermanent)"
	if version < 6 {
		l.markType, l.marked = "PermanentError", "_, ok := "+errorsQualifier+".AsType[*%s.PermanentError](err); ok"
	}
	return l
}}

func readCenkalti(c *foreignCall) string {
	args := c.call.Args
	if c.call.Ellipsis.IsValid() {
		return "its options are made elsewhere: make a retry.Policy there"
	}
	switch c.name {
	case "NextBackOff":
		for range c.cursor.Enclosing((*ast.ForStmt)(nil)) {
			return "it is in a loop written by hand: let Policy.Attempts wait or, if something else waits, get the waits from Next of a retry.Loop"
		}
		return "its waits are taken one by one: get them from Next of a retry.Loop"
	case "NewTicker", "NewTickerWithTimer":
		return "retry.Ticker has other rules: use it, or Policy.Attempts, after reading https://pkg.go.dev/github.com/goretry/retry#Ticker"
	case "RetryNotifyWithTimer", "RetryNotifyWithTimerAndData":
		return "it is given a timer: set Policy.Clock, https://pkg.go.dev/github.com/goretry/retry#Policy"
	}
	if c.lib.version == 4 {
		c.op = args[0]
		if reason := c.backOff(args[1]); reason != "" {
			return reason
		}
		if len(args) == 3 {
			return c.cenkaltiNotifies(args[2])
		}
		return ""
	}
	c.ctx, c.op = args[0], args[1]
	c.kept = append(c.kept, c.ctx)
	c.elapsed = duration(15 * time.Minute)
	c.cenkaltiExponential(nil, false)
	for _, option := range args[2:] {
		call, ok := ast.Unparen(option).(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return notWritten(option)
		}
		if reason := c.cenkaltiOption(call); reason != "" {
			return reason
		}
	}
	return ""
}

// cenkaltiOption understands an option of Retry, from version 5 on.
func (c *foreignCall) cenkaltiOption(call *ast.CallExpr) string {
	_, name := c.Callee(call)
	c.origin.sets(c.lib, name)
	switch name {
	case "WithBackOff":
		return c.backOff(call.Args[0])
	case "WithMaxTries":
		return c.limitAttempts(call.Args[0], 0)
	case "WithMaxElapsedTime":
		return c.limitElapsed(call.Args[0])
	case "WithNotify":
		return c.cenkaltiNotifies(call.Args[0])
	}
	return notUnderstood(name)
}

// cenkaltiNotifies understands the func(error, time.Duration) that is called before each
// wait.
func (c *foreignCall) cenkaltiNotifies(f ast.Expr) string {
	if c.IsNil(f) {
		return ""
	}
	return c.hears(f, lastError, nextWait)
}

// cenkaltiMakes understands a call that makes a BackOff, or one of another.
func cenkaltiMakes(c *foreignCall, name string, made *ast.CallExpr) string {
	switch name {
	case "NewConstantBackOff":
		return c.cenkaltiConstant(made.Args[0])
	case "NewExponentialBackOff":
		return c.cenkaltiOptions(made.Args)
	case "WithMaxRetries":
		if reason := c.backOff(made.Args[0]); reason != "" {
			return reason
		}
		return c.limitAttempts(made.Args[1], 1)
	case "WithContext":
		if c.ctx != nil {
			return "it has two contexts: pass one that ends with both"
		}
		if reason := c.keepContext(c.given(made.Args[1])); reason != "" {
			return reason
		}
		return c.backOff(made.Args[0])
	}
	return notUnderstood(name)
}

// cenkaltiSets understands an ExponentialBackOff with fields that are set.
func cenkaltiSets(c *foreignCall, name string, made *ast.CallExpr, fields map[string]ast.Expr) string {
	if name != "NewExponentialBackOff" || len(made.Args) > 0 {
		return notSettable
	}
	return c.cenkaltiExponential(fields, false)
}

// cenkaltiLiteral understands a literal of one of the library's types.
func cenkaltiLiteral(c *foreignCall, lit *ast.CompositeLit) string {
	path := c.lib.path
	switch t := c.TypesInfo.TypeOf(lit); {
	case code.IsNamed(t, path, "ZeroBackOff"):
		c.waits = waits{kind: constantWaits, base: amount{text: "0", is: plain}}
		return ""
	case code.IsNamed(t, path, "StopBackOff"):
		if c.attempts != "" {
			return limitedTwice
		}
		c.waits, c.attempts = waits{}, "1"
		return ""
	case code.IsNamed(t, path, "ConstantBackOff") && code.Keyed(lit) && code.Field(lit, "Interval") != nil:
		return c.cenkaltiConstant(code.Field(lit, "Interval"))
	case code.IsNamed(t, path, "ExponentialBackOff") && code.Keyed(lit):
		return c.cenkaltiFields(lit)
	}
	return partlyZero
}

func (c *foreignCall) cenkaltiConstant(e ast.Expr) (reason string) {
	c.waits = waits{kind: constantWaits}
	c.waits.base, reason = c.written(e)
	return reason
}

// cenkaltiOptions understands the options of NewExponentialBackOff.
func (c *foreignCall) cenkaltiOptions(options []ast.Expr) string {
	sets := map[string]string{"WithInitialInterval": "InitialInterval", "WithMaxInterval": "MaxInterval", "WithMultiplier": "Multiplier",
		"WithRandomizationFactor": "RandomizationFactor", "WithMaxElapsedTime": "MaxElapsedTime"}
	fields := map[string]ast.Expr{}
	for _, option := range options {
		with, ok := ast.Unparen(option).(*ast.CallExpr)
		if !ok || len(with.Args) != 1 {
			return notWritten(option)
		}
		_, name := c.Callee(with)
		if sets[name] == "" {
			return "its backoff has the option " + c.lib.byHand(name)
		}
		fields[sets[name]] = with.Args[0]
	}
	return c.cenkaltiExponential(fields, false)
}

// cenkaltiFields understands a literal that sets every field by which a run would go
// wrong if it were zero.
func (c *foreignCall) cenkaltiFields(lit *ast.CompositeLit) string {
	needed := []string{"InitialInterval", "MaxInterval", "Multiplier"}
	if c.lib.version == 4 {
		needed = append(needed, "Stop", "Clock")
	}
	for _, name := range needed {
		if code.Field(lit, name) == nil {
			return "the backoff is a literal that leaves " + name + " zero: write the retry.Exponential that you mean"
		}
	}
	fields := map[string]ast.Expr{}
	for _, e := range lit.Elts {
		kv := e.(*ast.KeyValueExpr)
		fields[kv.Key.(*ast.Ident).Name] = kv.Value
	}
	return c.cenkaltiExponential(fields, true)
}

// cenkaltiExponential understands the fields of an ExponentialBackOff. Those that are not
// set are zero, or else have their defaults.
func (c *foreignCall) cenkaltiExponential(fields map[string]ast.Expr, zero bool) string {
	w := waits{
		kind:   exponentialWaits,
		base:   amount{text: duration(500 * time.Millisecond), is: plain},
		most:   amount{text: duration(time.Minute), is: plain},
		factor: "1.5",
		jitter: jitter{text: qualifier + ".PlusMinus(0.5)"},
	}
	if zero {
		w.jitter.text = ""
	}
	if c.lib.version == 4 {
		c.elapsed = duration(15 * time.Minute)
		if zero {
			c.elapsed = ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		e, reason := fields[name], ""
		switch name {
		case "InitialInterval":
			if w.base, reason = c.written(e); w.base.text == "0" {
				reason = "its first wait is zero, and so are all: write retry.Constant(0) if you mean that"
			}
		case "MaxInterval":
			if w.most, reason = c.written(e); w.most.text == "0" {
				reason = "its longest wait is zero: write retry.Constant(0) if you mean that"
			}
		case "MaxElapsedTime":
			if c.lib.version != 4 {
				reason = notUnderstood(name)
			} else {
				reason = c.limitElapsed(e)
			}
		case "Multiplier":
			f, ok := c.float(e)
			if !ok || f < 1 {
				reason = "its multiplier is not a constant of at least 1: set Exponential.Factor to what it is"
			}
			w.factor = strconv.FormatFloat(f, 'g', -1, 64)
		case "RandomizationFactor":
			f, ok := c.float(e)
			if !ok || f < 0 || f > 1 {
				reason = "its randomization factor is not a constant from 0 to 1: set Exponential.Jitter to retry.PlusMinus of it"
			}
			w.jitter.text = ""
			if f != 0 {
				w.jitter.text = qualifier + ".PlusMinus(" + strconv.FormatFloat(f, 'g', -1, 64) + ")"
			}
		case "Clock", "Stop":
			if c.libraryName(e) != map[string]string{"Clock": "SystemClock", "Stop": "Stop"}[name] {
				reason = "the backoff has a " + name + " of its own: set Policy.Clock to a clock, and leave out a Stop"
			}
		default:
			reason = notUnderstood(name)
		}
		if reason != "" {
			return reason
		}
	}
	if w.jitter.text != "" {
		w.told = append(w.told, "waits at the cap may be shorter: their jitter exceeded it")
	}
	for _, name := range []string{"InitialInterval", "MaxInterval"} {
		if e := fields[name]; e != nil && !c.isConstant(e) {
			w.told = append(w.told, "a zero "+name+" would now mean the default")
		}
	}
	c.waits = w
	return ""
}
