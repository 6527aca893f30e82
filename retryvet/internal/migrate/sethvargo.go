package migrate

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
	"time"
)

// sethvargo is sethvargo/go-retry.
var sethvargo = family{"github.com/sethvargo/go-retry", func(int) *library {
	return &library{
		title:   "sethvargo/go-retry",
		entries: []string{"Do", "DoValue", "Constant", "Exponential", "Fibonacci"},
		read:    readSethvargo,
		makes:   sethvargoMakes,
		becomes: map[string]string{"WithMaxRetries": "MaxAttempts"},
		marks:   []string{"RetryableError"},
		inverse: true,
		zero:    true,
		resumes: true,
		others: map[string]string{
			"WithJitter":  "a retry.BackoffFunc that adds time.Duration((2*s.Rand - 1) * float64(j)) to the wait",
			"BackoffFunc": "a retry.BackoffFunc, which gets the number of the retry and the wait before it",
		},
	}
}}

func readSethvargo(c *foreignCall) (reason string) {
	c.ctx, c.op = c.call.Args[0], c.call.Args[2]
	c.kept = append(c.kept, c.ctx)
	if c.name == "Do" || c.name == "DoValue" {
		reason = c.backOff(c.call.Args[1])
	} else {
		reason = c.sethvargoWaits(c.name, c.call.Args[1])
	}
	if reason != "" {
		return reason
	}
	return c.sethvargoFinish()
}

// sethvargoMakes understands a call that makes a backoff, or one of another.
func sethvargoMakes(c *foreignCall, name string, made *ast.CallExpr) (reason string) {
	if kind, makes := strings.CutPrefix(name, "New"); makes {
		return c.sethvargoWaits(kind, made.Args[0])
	}
	if reason := c.backOff(made.Args[len(made.Args)-1]); reason != "" {
		return reason
	}
	w := &c.waits
	jittered := w.jitter.text != ""
	switch name {
	case "WithMaxRetries":
		return c.limitAttempts(made.Args[0], 1)
	case "WithCappedDuration":
		if w.most.is != unset || jittered {
			return "it caps its waits twice, or after their jitter: set Exponential.Max to the least of the caps"
		}
		w.most, reason = c.amount(made.Args[0])
		if reason == "" && w.most.isZero() {
			reason = "its longest wait is zero: write retry.Constant(0) if you mean that"
		}
		return reason
	case "WithJitterPercent":
		percent, isConstant := c.Number(made.Args[0])
		if !isConstant || percent < 1 || percent > 100 {
			return "its jitter is not a constant from 1 to 100: set Exponential.Jitter to retry.PlusMinus of a hundredth of it"
		}
		w.jitter.text = qualifier + ".PlusMinus(" + strconv.FormatFloat(float64(percent)/100, 'g', -1, 64) + ")"
		if w.most.is != unset {
			w.told = append(w.told, "waits at the cap may be shorter: their jitter exceeded it")
		}
	case "WithFullJitter":
		w.jitter.text = fullJitter
	case "WithMaxDuration":
		c.judge = append(c.judge, "WithMaxDuration cuts the last wait short for one more call, and MaxElapsed does not")
		if reason = c.limitElapsed(made.Args[0]); reason == "" && c.elapsed == "" { // in the other libraries zero is no limit
			reason = "its WithMaxDuration is zero, which makes one attempt: write MaxAttempts: 1"
		}
		return reason
	default:
		return "it has " + c.lib.byHand(name)
	}
	if jittered {
		return "it has two jitters: set Exponential.Jitter to one"
	}
	return ""
}

// sethvargoWaits understands the kind and the first of the waits.
func (c *foreignCall) sethvargoWaits(kind string, base ast.Expr) (reason string) {
	kinds := map[string]waitKind{"Constant": constantWaits, "Exponential": exponentialWaits, "Fibonacci": fibonacciWaits}
	c.waits.kind = kinds[kind]
	c.waits.base, reason = c.amount(base)
	if reason == "" && c.waits.base.isZero() {
		reason = "its first wait is zero, which panics in that library: write retry.Constant(0) if you mean that"
	}
	return reason
}

// sethvargoFinish says what only all of the backoff can tell.
func (c *foreignCall) sethvargoFinish() string {
	w := &c.waits
	jittered := w.jitter.text != ""
	if (w.base.is == varies || w.most.is == varies) && (w.kind != constantWaits || jittered) {
		w.told = append(w.told, "a zero wait would now mean the default")
	}
	switch {
	case w.kind == fibonacciWaits:
		list := w.sethvargoList(c.limit - 1)
		if list == nil || jittered {
			return "Fibonacci waits become a Schedule only if they are at most eight, with known times: write a retry.BackoffFunc for others"
		}
		w.kind, w.list = listedWaits, list
		return ""
	case w.kind == constantWaits && !jittered:
		return ""
	case w.kind == constantWaits:
		w.kind, w.factor = exponentialWaits, "1"
	}
	w.jitter.doubles = true // PlusMinus(1) does
	return ""
}

// sethvargoList returns the waits of a Fibonacci backoff before so many retries, or all up
// to the longest, nil if these are more than eight or only the program knows them.
func (w *waits) sethvargoList(retries int64) []string {
	if w.base.is == varies || w.most.is == varies || w.most.is == unset && retries < 1 {
		return nil
	}
	var all []string
	for n, next := int64(1), int64(2); ; n, next = next, n+next {
		wait := time.Duration(n) * w.base.d
		if w.most.is != unset && wait >= w.most.d {
			return append(all, w.most.text)
		}
		switch {
		case w.base.is == plain:
			all = append(all, duration(wait))
		case n == 1:
			all = append(all, w.base.text)
		default:
			all = append(all, fmt.Sprintf("%d * %s", n, operand(w.base.text)))
		}
		if retries > 0 && int64(len(all)) == retries {
			return all
		}
		if len(all) == 8 {
			return nil
		}
	}
}
