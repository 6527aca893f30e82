package retrygrpc

import (
	"math"
	"sync/atomic"

	"github.com/goretry/retry"
)

// Throttle is the retryThrottling of gRFC A6 as a [retry.Budget]: a bucket of tokens.
// Each failed attempt takes one, and a success gives TokenRatio. A retry is granted
// only if more than half of MaxTokens is left after the failure's token is taken. With
// 10 tokens the fifth failure in a row is not retried.
//
// Two things differ from A6. An error that is the server's answer, such as NOT_FOUND,
// counts as a success, as it does for every budget. A run that its caller cancels in a
// wait counts as one more failure.
//
// The zero value has MaxTokens 10 and TokenRatio 0.1. A negative number or NaN counts
// as zero tokens. A bucket without tokens grants no retry. Tokens are counted in
// thousandths. A nil pointer grants everything. Set the fields before the first use
// and do not copy it after.
type Throttle struct {
	MaxTokens, TokenRatio float64

	missing atomic.Int64 // thousandths of a token
}

// Begin does nothing: a first attempt is free.
func (t *Throttle) Begin(retry.Opening) {}

// Withdraw takes a token for the failed attempt, if a retry may follow it.
func (t *Throttle) Withdraw(retry.Withdrawal) bool {
	if t == nil {
		return true
	}
	for full := t.full(); ; {
		missing := t.missing.Load()
		if left := full - missing - token; left <= full/2 {
			return false
		}
		if t.missing.CompareAndSwap(missing, missing+token) {
			return true
		}
	}
}

// End takes a token for a last attempt that failed, or gives TokenRatio for one that
// did not.
func (t *Throttle) End(o retry.Outcome) {
	if t == nil {
		return
	}
	change := int64(token)
	if o.OK {
		change = -thousandths(t.TokenRatio, .1)
	}
	for full := t.full(); ; {
		missing := t.missing.Load()
		next := min(max(missing+change, 0), full)
		if next == missing || t.missing.CompareAndSwap(missing, next) {
			return // mostly it is full: then nobody writes, and cores do not wait for each other
		}
	}
}

// Balance returns the fraction of MaxTokens that is left, in [0,1].
func (t *Throttle) Balance() float64 {
	if t == nil {
		return 1
	}
	full := t.full()
	if full == 0 {
		return 0
	}
	return float64(full-t.missing.Load()) / float64(full)
}

func (t *Throttle) full() int64 { return thousandths(t.MaxTokens, 10) }

const token = 1000

// thousandths returns tokens in thousandths, or the default if tokens is 0, or 0 if
// tokens is negative or NaN.
func thousandths(tokens, byDefault float64) int64 {
	if tokens == 0 {
		tokens = byDefault
	}
	if !(tokens > 0) {
		return 0
	}
	return int64(min(math.Round(tokens*token), 1<<53))
}
