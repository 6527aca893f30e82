package retry

// May call: run.go.

import (
	"context"
	"time"
)

// Supervise keeps a long-lived op running, such as one that connects and then consumes. It calls
// op again whenever op fails, after the policy's wait. It returns nil when op does, and an
// *[Error] when ctx ends or the policy gives up. Here a MaxAttempts of 0 means no limit. Supervise
// panics if ctx or op is nil.
//
// healthy is how long op must be up to count as healthy: choose it longer than a broken op usually
// stays up. Zero or less means a minute, on Policy.Clock. If a healthy op fails, the run counts as
// a success, and that failure costs the budget nothing. Then a new run starts, which counts
// attempts, elapsed time and waits from zero. It starts with a pause, the backoff's first wait,
// which Policy.MaxElapsed does not count. If ctx ends in the pause, the *Error has no attempts,
// and its Errs hold that failure. An op that fails sooner stays within its run, and the waits
// grow.
//
// Supervise waits where Do gives up. A retry that only the budget refuses comes later: after the
// server's wait, twice the backoff, and a second, but within MaxElapsed. And if MaxRetryAfter is
// zero, Supervise waits as long as a server asks, an hour at most. An outage thus makes no busy
// loop, and ends nothing; set MaxElapsed or MaxAttempts if it should.
//
// An error is judged as in Do, except that a name which DNS does not find is Transient, and so is
// a certificate that is not valid yet. The failure of a healthy op is judged like any other. It
// ends Supervise if it is [Permanent], if Policy.NonIdempotent forbids a retry, if the server asks
// for more than a Policy.MaxRetryAfter that is set, or if the wait would outlast the caller's
// deadline. A certificate of an unknown authority, or of another host, is Permanent: a device that
// roams behind captive portals sets Policy.Classify, as the example does. Policy.AttemptTimeout
// limits how long op may stay up: leave it zero unless you want that.
func Supervise(ctx context.Context, p Policy, healthy time.Duration, op func(context.Context) error) error {
	if op == nil {
		panic("retry: nil op")
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = Unlimited
	}
	if healthy <= 0 {
		healthy = time.Minute
	}
	return newRun(ctx, &p, healthy, op).finish(&p, op)
}
