package budget

import (
	"math"
	"sync/atomic"

	"github.com/goretry/retry"
)

// GRPC is the retryThrottling of gRFC A6 (github.com/grpc/proposal): a bucket of tokens.
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
type GRPC struct {
	MaxTokens, TokenRatio float64

	missing atomic.Int64 // thousandths of a token
}

// Begin does nothing: a first attempt is free.
func (b *GRPC) Begin(retry.Opening) {}

// Withdraw takes a token for the failed attempt, if a retry may follow it.
func (b *GRPC) Withdraw(retry.Withdrawal) bool {
	if b == nil {
		return true
	}
	for {
		missing := b.missing.Load()
		if b.spare(missing) < perToken {
			return false
		}
		if b.missing.CompareAndSwap(missing, missing+perToken) {
			return true
		}
	}
}

// End takes a token for a last attempt that failed, or gives TokenRatio for one that
// did not.
func (b *GRPC) End(o retry.Outcome) {
	if b == nil {
		return
	}
	change := int64(perToken)
	if o.OK {
		change = -thousandths(b.TokenRatio, .1)
	}
	for full := b.full(); ; {
		missing := b.missing.Load()
		next := min(max(missing+change, 0), full)
		if next == missing || b.missing.CompareAndSwap(missing, next) {
			return // mostly it is full: then nobody writes, and cores do not wait for each other
		}
	}
}

// Price returns one token, and how many there are besides the half that must remain.
func (b *GRPC) Price(retry.Withdrawal) (price, left float64) {
	if b == nil {
		return 0, math.Inf(1)
	}
	return 1, float64(max(b.spare(b.missing.Load()), 0)) / perToken
}

// Balance returns the fraction of MaxTokens that is left, in [0,1].
func (b *GRPC) Balance() float64 {
	if b == nil {
		return 1
	}
	full := b.full()
	if full == 0 {
		return 0
	}
	return float64(full-b.missing.Load()) / float64(full)
}

// spare returns how much may be taken, in thousandths: more than half must be left.
func (b *GRPC) spare(missing int64) int64 {
	full := b.full()
	return full - missing - (full/2 + 1)
}

func (b *GRPC) full() int64 { return thousandths(b.MaxTokens, 10) }

const perToken = 1000 // thousandths

// thousandths returns tokens in thousandths, or the default if tokens is 0, or 0 if
// tokens is negative or NaN.
func thousandths(tokens, byDefault float64) int64 {
	if tokens == 0 {
		tokens = byDefault
	}
	if !(tokens > 0) {
		return 0
	}
	return int64(min(math.Round(tokens*perToken), 1<<53))
}
