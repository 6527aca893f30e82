package retry

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// Loop is the engine of this package, one run's decisions: it is told when an
// attempt ended and how, and tells how long to wait for the next or that there
// is none. It never sleeps, reads a clock or starts a goroutine. [Do] is a Loop
// that sleeps; a message queue or a simulator drives one its own way:
//
//	loop := policy.Start(time.Now())
//	for {
//		err := attempt()
//		wait, ok := loop.Next(time.Now(), err)
//		if !ok {
//			return loop.Err() // nil after a success
//		}
//		comeBackAfter(wait)
//	}
//
// Policy.AttemptTimeout, Hooks and Clock are for doors that make the attempts
// themselves; a Loop does not use them. The waits it counts in Error.Waited are
// the planned ones. A Loop is one run's: it is not safe for concurrent use, and
// must not be copied once Next was called. With a Policy.Budget, end every Loop:
// to abandon one early, call Next(now, Stop(err)).
type Loop struct {
	policy   Policy
	start    time.Time
	deadline time.Time     // the caller's, zero if none
	waited   time.Duration // with no attempt running
	wait     time.Duration // the one now asked for
	prev     time.Duration // the backoff's part of it
	hint     time.Duration // what the server asked for with the latest error
	errs     []error       // see Error.Errs
	err      *Error        // set once stopped
	attempts int
	class    Class // of the latest error
	retried  Class // the class that the last granted retry followed, Unknown before the first
	ended    bool
}

// Start begins a run at now. The first attempt needs no permission.
func (p Policy) Start(now time.Time) Loop { return p.Resume(now, 0, 0) }

// Resume continues at now a run that began elsewhere and has made so many
// attempts and waited for so long. The waits count as elapsed time, the attempts'
// own time is not known. Negative numbers count as zero.
func (p Policy) Resume(now time.Time, attempts int, waited time.Duration) Loop {
	if p.Budget != nil {
		p.Budget.Begin()
	}
	waited = max(waited, 0)
	return Loop{policy: p, start: now.Add(-waited), waited: waited, attempts: max(attempts, 0)}
}

// Attempts returns how many attempts have been made.
func (l *Loop) Attempts() int { return l.attempts }

// Err returns the *[Error] once the run has given up, else nil.
func (l *Loop) Err() error {
	if l.err == nil {
		return nil
	}
	return l.err
}

// Next takes what the attempt that ended at now returned, and returns how long
// to wait before the next one, or false if there is none: after a nil err, which
// is a success, and when the run gives up. After the end it keeps returning
// false.
func (l *Loop) Next(now time.Time, err error) (wait time.Duration, ok bool) {
	if l.ended {
		return 0, false
	}
	p := &l.policy
	if err == nil {
		l.count()
		l.end(true)
		return 0, false
	}
	l.record(err)
	l.class, l.hint = p.judge(err)

	switch {
	case l.class == Permanent:
		return l.stop(now, ReasonPermanent, nil)
	case p.NonIdempotent && l.class != Unprocessed && !(l.class == Throttled && l.hint > 0):
		return l.stop(now, ReasonNotIdempotent, nil)
	case l.attempts >= p.maxAttempts():
		return l.stop(now, ReasonMaxAttempts, nil)
	case l.hint > p.maxRetryAfter():
		return l.stop(now, ReasonRetryAfter, nil)
	}
	delay := p.backoff(l.class, Step{Retry: l.attempts, Prev: l.prev, Rand: p.random()})
	wait = sum(l.hint, delay) // added, so that jitter never shortens what the server asked for
	switch {
	case p.MaxElapsed > 0 && sum(l.elapsed(now), wait) > p.MaxElapsed:
		return l.stop(now, ReasonMaxElapsed, nil)
	case !l.deadline.IsZero() && wait >= l.deadline.Sub(now):
		return l.stop(now, ReasonDeadline, context.DeadlineExceeded)
	case !l.granted():
		return l.stop(now, ReasonBudget, nil)
	}
	l.retried = l.class
	l.prev, l.wait = delay, wait
	l.waited = sum(l.waited, wait)
	return wait, true
}

// granted asks the budget, last of all: a retry that is not made costs nothing.
func (l *Loop) granted() bool {
	b := l.policy.Budget
	if b == nil {
		return true
	}
	if b, ok := b.(interface{ Again(Class) bool }); ok && l.retried != Unknown {
		return b.Again(l.class)
	}
	return b.Withdraw(l.class)
}

// cancel ends the run because the caller's context did, or else because the
// clock could not sleep.
func (l *Loop) cancel(ctx context.Context, now time.Time, sleep error) {
	l.class, l.hint = Unknown, 0
	reason, cause := ReasonCanceled, context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = ReasonDeadline
	}
	if cause == nil {
		cause = sleep
	}
	l.stop(now, reason, cause)
}

// count counts an attempt.
func (l *Loop) count() { l.attempts += min(1, math.MaxInt-l.attempts) }

// record counts a failed attempt and keeps the first error and the latest,
// without marks on top. By itself it is for errors that need no judgement, because
// the run ends anyway.
func (l *Loop) record(err error) {
	l.count()
	l.class, l.hint = Unknown, 0 // until it is judged
	err = unmarked(err)
	if len(l.errs) < keep {
		l.errs = append(l.errs, err)
		return
	}
	copy(l.errs[1:], l.errs[2:])
	l.errs[keep-1] = err
}

// slept replaces the planned wait by the time it really took.
func (l *Loop) slept(took time.Duration) { l.waited = sum(l.waited-l.wait, max(took, 0)) }

func unmarked(err error) error {
	for {
		m, ok := err.(*mark)
		if !ok {
			return err
		}
		err = m.err
	}
}

func (l *Loop) stop(now time.Time, reason Reason, cause error) (time.Duration, bool) {
	l.err = &Error{
		Name:     l.policy.Name,
		Reason:   reason,
		Attempts: l.attempts,
		Elapsed:  l.elapsed(now),
		Waited:   l.waited,
		Errs:     slices.Clone(l.errs), // which may lie in something larger: an error can live long
		Cause:    cause,
	}
	l.end(false)
	return 0, false
}

func (l *Loop) end(ok bool) {
	l.ended = true
	if l.policy.Budget != nil {
		l.policy.Budget.End(l.retried, ok)
	}
}

func (l *Loop) elapsed(now time.Time) time.Duration { return max(now.Sub(l.start), 0) }
