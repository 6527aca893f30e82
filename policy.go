package retry

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry/clockx"
)

// Unlimited as [Policy].MaxAttempts sets no limit on attempts.
const Unlimited = -1

// What the zero values of a [Policy] and of the backoffs stand for.
const (
	DefaultMaxAttempts   = 3
	DefaultBase          = 100 * time.Millisecond
	DefaultMax           = 20 * time.Second
	DefaultMaxRetryAfter = 5 * time.Minute
)

// Policy says when a failed call is made again. Write it as a keyed literal and
// share it: a run never writes to it, so one Policy serves any number of
// goroutines, and a second run behaves as the first did. The zero Policy makes
// three attempts with full jitter. Every value of every field has a meaning;
// negative durations count as zero.
type Policy struct {
	// Name names the operation in errors, logs, spans and metrics. Keep its
	// cardinality low: "fetch-user", not the user's number.
	Name string

	// MaxAttempts limits the attempts, the first included. 0 means
	// DefaultMaxAttempts, or no limit if MaxElapsed is set. A negative number means
	// no limit.
	MaxAttempts int

	// MaxElapsed limits the run: a retry is not made if its wait would end more
	// than MaxElapsed after the run began. Zero means no limit. It does not cut an
	// attempt short; AttemptTimeout and the caller's context do.
	MaxElapsed time.Duration

	// AttemptTimeout is each attempt's own deadline, with the cause
	// [ErrAttemptTimeout]. Zero means none. op's context is canceled as soon as op
	// returns, even on success: do not return an unread resp.Body or open sql.Rows.
	// Once it has passed, an error that is [Transient] counts as [TimedOut].
	AttemptTimeout time.Duration

	// Backoff tells how long to wait before a retry. Nil means Exponential{}:
	// full jitter between zero and 100 ms, 200 ms, 400 ms, … up to 20 s.
	Backoff Backoff

	// ThrottleBackoff takes Backoff's place after a Throttled error: a server
	// that is too busy needs longer waits than one that failed for a moment. Nil
	// means Backoff.
	ThrottleBackoff Backoff

	// MaxRetryAfter is the longest wait a server may ask for. A longer one ends
	// the run, since retrying sooner than asked would only add load. Zero means
	// DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration

	// Classify says what an error means, before [DefaultClassifier] is asked.
	// Nil, or Unknown from it, leaves the answer to DefaultClassifier. Must be
	// safe for concurrent use.
	Classify Classifier

	// NonIdempotent says that op must not run twice: only errors that prove it
	// never ran are retried, which are the Unprocessed ones, and the Throttled
	// ones that carry a server's hint.
	NonIdempotent bool

	// Budget limits the retries of all runs that share it, so that retries do not
	// make an outage worse. Make it once per dependency, in a package variable say: a
	// budget made for each call limits nothing. Take an [EarnedBudget] unless you know
	// better. Nil means no limit, and so does a nil pointer to one of this package's
	// budgets.
	Budget Budget

	// Hooks are told what happens. Nil funcs are skipped.
	Hooks Hooks

	// Clock is what waits and deadlines are measured on. Nil means
	// clockx.System(). The deadline of the caller's context is compared with this
	// clock's time.
	Clock clockx.Clock

	// Rand gives the random numbers for jitter, uniform in [0,1). Must be safe
	// for concurrent use. Nil means math/rand/v2.
	Rand func() float64
}

// Named returns the policy with another name.
func (p Policy) Named(name string) Policy {
	p.Name = name
	return p
}

// AttemptLimit returns how many attempts a run makes at most, which is what
// MaxAttempts means beside MaxElapsed; math.MaxInt means no limit.
func (p Policy) AttemptLimit() int { return p.attemptLimit() }

func (p *Policy) attemptLimit() int {
	switch {
	case p.MaxAttempts > 0:
		return p.MaxAttempts
	case p.MaxAttempts == 0 && p.MaxElapsed <= 0:
		return DefaultMaxAttempts
	}
	return math.MaxInt
}

func (p *Policy) maxRetryAfter() time.Duration {
	if p.MaxRetryAfter <= 0 {
		return DefaultMaxRetryAfter
	}
	return p.MaxRetryAfter
}

// backoff returns what tells the wait before a retry that follows an error of
// class c.
func (p *Policy) backoff(c Class) Backoff {
	switch {
	case c == Throttled && p.ThrottleBackoff != nil:
		return p.ThrottleBackoff
	case p.Backoff != nil:
		return p.Backoff
	}
	return defaultBackoff
}

var defaultBackoff Backoff = Exponential{}

func (p *Policy) random() float64 {
	if p.Rand == nil {
		return rand.Float64()
	}
	return clampUnit(p.Rand())
}

// plain reports whether a first attempt needs no run: nothing is called before it or
// closed after it, whatever op does, and op gets ctx as it is.
func (p *Policy) plain(ctx context.Context) bool {
	h := &p.Hooks
	return p.Budget == nil && p.AttemptTimeout <= 0 && p.Clock == nil &&
		h.Start == nil && h.Attempt == nil && h.AttemptDone == nil && h.Wait == nil && h.Done == nil &&
		ctx != nil && ctx.Err() == nil && AttemptNumber(ctx) == 1
}

func (p *Policy) clock() clockx.Clock {
	if p.Clock == nil {
		return clockx.System()
	}
	return p.Clock
}
