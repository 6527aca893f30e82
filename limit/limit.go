package limit

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/goretry/retry"
)

// ErrLimited is the error with which a [Limit] and an [Adaptive] refuse an attempt that finds no
// place free. To [retry.DefaultClassifier] it is Unprocessed: nothing was sent.
var ErrLimited error = limited{}

type limited struct{}

func (limited) Error() string     { return "limit: too many attempts in flight" }
func (limited) SafeToRetry() bool { return true }            // nothing was sent
func (limited) ErrorType() string { return "limit.limited" } // the error.type of telemetry

// Limit is a bulkhead: it admits Max attempts at a time, first attempts included, and refuses any
// other at once with [ErrLimited]. It measures nothing. With a Max of zero or less it limits nothing.
//
// Limit is a [retry.Guard]: set it in Policy.Guards, after those that have attempts wait. Use it by
// pointer, one for all attempts that share the number. Set the fields before the first use, and do
// not copy a Limit after it. It is safe for concurrent use. A nil Limit limits nothing.
type Limit struct {
	Max int

	flight atomic.Int64
}

// Enter takes a place for an attempt, or refuses it with [ErrLimited].
func (l *Limit) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	for l != nil {
		n := l.flight.Load()
		if l.Max > 0 && n >= int64(l.Max) {
			return retry.Pass{}, ErrLimited
		}
		if l.flight.CompareAndSwap(n, n+1) {
			break
		}
	}
	return retry.Pass{}, nil
}

// Leave gives the place of an attempt back, however it has ended. It panics without an Enter.
func (l *Limit) Leave(retry.Pass, retry.Exit) {
	if l != nil && l.flight.Add(-1) < 0 {
		l.flight.Add(1)
		panic("limit: Leave without Enter")
	}
}

// InFlight returns how many attempts are in flight; 0 for a nil Limit.
func (l *Limit) InFlight() int {
	if l == nil {
		return 0
	}
	return int(l.flight.Load())
}

// Places returns Max, or [math.MaxInt] if nothing is limited.
func (l *Limit) Places() int {
	if l == nil || l.Max <= 0 {
		return math.MaxInt
	}
	return l.Max
}
