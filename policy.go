package retry

// May call: backoff.go.

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/readings"
)

// Unlimited as [Policy].MaxAttempts sets no limit on attempts.
const Unlimited = -1

// What the zero values of a [Policy] stand for.
const (
	defaultMaxAttempts   = 3
	defaultMaxRetryAfter = 5 * time.Minute
)

// Policy says when a failed call is made again. Write it as a keyed literal and share it. A run
// never writes to it, so one Policy serves any number of goroutines: its funcs must be safe for
// concurrent use. The zero Policy makes three attempts with full jitter. Every value of every
// field has a meaning. Negative durations count as zero.
type Policy struct {
	// Name names the operation in errors, logs, spans and metrics. Keep its cardinality low:
	// "fetch-user", not the user's number.
	Name string

	// MaxAttempts limits the attempts, the first included. A negative number means no limit. 0 means
	// 3, or one per millisecond of MaxElapsed if that is more: then time is the limit.
	MaxAttempts int

	// MaxElapsed limits the run: a retry is not made if its wait would end more than MaxElapsed
	// after the run began. Zero means no limit. It does not cut an attempt short.
	MaxElapsed time.Duration

	// AttemptTimeout is each attempt's own deadline, with the cause [ErrAttemptTimeout]. Zero means
	// none. With it op's context is canceled as soon as op returns, even on success: do not return
	// an unread resp.Body or open sql.Rows.
	AttemptTimeout time.Duration

	// Backoff returns how long to wait before a retry. Nil means Exponential{}: full jitter between
	// zero and 100 ms, 200 ms, 400 ms, … up to 20 s.
	Backoff Backoff

	// ThrottleBackoff replaces Backoff after a [Throttled] error. Nil means Backoff.
	ThrottleBackoff Backoff

	// MaxRetryAfter is the longest wait a server may ask for, else the run ends. Zero means 5 minutes.
	MaxRetryAfter time.Duration

	// Classify returns what an error of op means. Nil and Unknown leave that to [DefaultClassifier].
	Classify Classifier

	// NonIdempotent says that op must not run twice. Then a retry needs proof that op did nothing: a
	// mark of [Undone], an error that Classify calls Unprocessed, or the word of a package such as
	// retryhttp, which saw the one request that was made. A server's wait is no proof, nor is what
	// [DefaultClassifier] finds by itself: op may have made another call before. If op makes
	// one call only, say so by Classify: retry.DefaultClassifier.
	NonIdempotent bool

	// Budget limits the retries of all runs that share it, so that retries do not make an outage
	// worse. Use an [EarnedBudget] unless you know better, kept in a package variable, or a [PerKey]
	// of them: see [Budget]. Nil means no limit, and so does a nil *EarnedBudget.
	Budget Budget

	// Guards admit each attempt, first attempts too, in this order, before its AttemptTimeout
	// begins, and are left in reverse order. Put those that have attempts wait first, and those that
	// hold a place last, so that no place is held in a wait. A [Loop] and package retryqueue ignore
	// guards: in the handler of a message, guard the calls that it makes. A nil Guard admits all.
	Guards []Guard

	Clock clockx.Clock   // measures waits and deadlines, also the caller's: its WithTimeoutCause makes those; nil means clockx.System()
	Hooks Hooks          // called when something happens in a run
	Rand  func() float64 // random numbers for jitter, uniform in [0,1); nil means math/rand/v2
}

// Named returns the policy with another name.
func (p Policy) Named(name string) Policy {
	p.Name = name
	return p
}

// AttemptLimit returns how many attempts a run makes at most, given MaxAttempts and
// MaxElapsed. math.MaxInt means no limit.
func (p Policy) AttemptLimit() int { return p.attemptLimit() }

func (p *Policy) attemptLimit() int {
	switch {
	case p.MaxAttempts > 0:
		return p.MaxAttempts
	case p.MaxAttempts < 0:
		return math.MaxInt
	}
	return int(min(max(int64(p.MaxElapsed/time.Millisecond), defaultMaxAttempts), math.MaxInt)) // the default without MaxElapsed
}

// Longest returns how long a run of [Do] with p lasts at most, if op returns when its context
// ends, without hooks and timers that are late. Let a program check at its start that it gives up
// before its callers do. Without MaxRetryAfter and MaxElapsed three attempts may last eleven
// minutes, since a server may ask for five before each retry. math.MaxInt64 means that there is no
// bound: without AttemptTimeout, without a limit on attempts or time, or with Guards and no
// MaxElapsed.
//
// A [Backoff] that is not of this package is called with the smallest and the largest Rand, Hint
// and Prev: if values in between give a longer delay, the bound is too low. If p allows more than
// a hundred thousand attempts, only MaxElapsed counts.
func (p Policy) Longest() time.Duration {
	if p.AttemptTimeout <= 0 {
		return math.MaxInt64
	}
	latest := time.Duration(math.MaxInt64) // that an attempt may start: no wait passes MaxElapsed
	if p.MaxElapsed > 0 {
		latest = p.MaxElapsed
	}
	if len(p.Guards) > 0 { // whose waits may be long, but not longer
		return sum(latest, p.AttemptTimeout)
	}
	var starts, prev time.Duration // of the attempt that a retry follows, and of its backoff
	for retry := 1; retry < p.attemptLimit() && starts < latest; retry++ {
		if retry == 100_000 {
			starts = latest
			break
		}
		var delay, wait time.Duration
		for _, class := range []Class{Transient, Throttled} {
			for _, hint := range []time.Duration{0, p.maxRetryAfter()} {
				for _, random := range []float64{0, clampUnit(1)} {
					for _, prev := range []time.Duration{0, prev} {
						d, w := p.delay(class, Step{Retry: retry, Prev: prev, Rand: random, Hint: hint})
						delay, wait = max(delay, d), max(wait, w)
					}
				}
			}
		}
		starts, prev = sum(sum(starts, p.AttemptTimeout), wait), delay
	}
	return sum(min(starts, latest), p.AttemptTimeout)
}

func (p *Policy) maxRetryAfter() time.Duration {
	if p.MaxRetryAfter <= 0 {
		return defaultMaxRetryAfter
	}
	return p.MaxRetryAfter
}

// backoff returns the backoff for a retry that follows an error of class c.
func (p *Policy) backoff(c Class) Backoff {
	switch {
	case c == Throttled && p.ThrottleBackoff != nil:
		return p.ThrottleBackoff
	case p.Backoff != nil:
		return p.Backoff
	}
	return defaultBackoff
}

// delay returns the backoff's part of the wait before a retry that follows an error of
// class c, and the whole wait.
func (p *Policy) delay(c Class, s Step) (delay, wait time.Duration) {
	delay = max(p.backoff(c).Delay(s), 0)
	if s.Now {
		return delay, 0
	}
	// Added, so that jitter never shortens what the server asked for. It may have asked
	// many callers for the same wait, so a long one spreads them further.
	return delay, sum(s.Hint, max(delay, time.Duration(s.Rand/10*float64(s.Hint))))
}

var defaultBackoff Backoff = Exponential{}

func (p *Policy) random() float64 {
	if p.Rand == nil {
		return rand.Float64()
	}
	return clampUnit(p.Rand())
}

func (p *Policy) clock() clockx.Clock { return readings.Clock(p.Clock) }
