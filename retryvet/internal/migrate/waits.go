package migrate

import (
	"strings"
	"time"
)

// This file writes the waits of a call as a policy's Backoff.

// fullJitter is the text of the jitter that a policy has if it names none.
const fullJitter = qualifier + ".FullJitter"

// text returns the Backoff, "" for none. attempts is how many there are, 0 if that is
// not known.
func (w waits) text(attempts int64) string {
	switch w.kind {
	case noWaits:
		return ""
	case constantWaits:
		return qualifier + ".Constant(" + w.cut() + ")"
	case listedWaits:
		return qualifier + ".Schedule{" + strings.Join(w.list, ", ") + "}"
	case fibonacciWaits:
		panic("unreachable: a library's file lists such waits or refuses the call")
	}
	fields := []string{"Base: " + w.base.text}
	most := w.most.text
	if w.most.is == unset {
		most = w.unreached(attempts)
	}
	jitter := w.jitter.text
	switch jitter {
	case "":
		jitter = qualifier + ".NoJitter"
	case fullJitter:
		jitter = ""
	}
	for _, f := range []struct{ name, text string }{{"Max", most}, {"Factor", w.factor}, {"Jitter", jitter}} {
		if f.text != "" {
			fields = append(fields, f.name+": "+f.text)
		}
	}
	return qualifier + ".Exponential{" + strings.Join(fields, ", ") + "}"
}

// cut returns the first wait, or the longest if that is shorter.
func (w waits) cut() string {
	switch {
	case w.most.is == unset:
	case w.base.is == varies, w.most.is == varies:
		return "min(" + w.base.text + ", " + w.most.text + ")"
	case w.most.d < w.base.d:
		return w.most.text
	}
	return w.base.text
}

// unreached returns a longest wait that exponential ones without a longest do not reach
// in so many attempts, "" if Exponential's own is that.
func (w waits) unreached(attempts int64) string {
	endless := mathQualifier + ".MaxInt64"
	if w.factor == "1" {
		attempts = 2
	}
	if w.base.is == varies || w.jitter.adds.is == varies || attempts == 0 {
		return endless
	}
	largest := w.base.d
	if w.jitter.doubles {
		largest *= 2
	}
	for i := int64(2); i < attempts && largest < 24*time.Hour; i++ {
		largest *= 2
	}
	if largest += w.jitter.adds.d; largest <= 20*time.Second {
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

// milliseconds returns an amount of so many.
func milliseconds(n time.Duration) amount {
	return amount{duration(n * time.Millisecond), n * time.Millisecond, plain}
}

// twice returns twice the amount.
func (a amount) twice() amount {
	if a.is == plain {
		return amount{duration(2 * a.d), 2 * a.d, plain}
	}
	return amount{"2 * " + operand(a.text), 2 * a.d, a.is}
}

// isZero reports whether the amount is known to be zero.
func (a amount) isZero() bool { return a.is != unset && a.is != varies && a.d == 0 }
