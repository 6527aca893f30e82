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
	policy Policy
	start  time.Time
	state
}

// state is a Loop without its policy, which is handed to each method: a run has
// the policy already.
type state struct {
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
	granted  int32 // retries so far; with those above in one word
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
	return Loop{p, now.Add(-waited), state{waited: waited, attempts: max(attempts, 0)}}
}

// Attempts returns how many attempts have been made.
func (l *Loop) Attempts() int { return l.state.attempts }

// Err returns the *[Error] once the run has given up, else nil.
func (l *Loop) Err() error { return l.result() }

func (l *state) result() error {
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
	return l.next(&l.policy, now.Sub(l.start), math.MaxInt64, err)
}

// next is Next when the run is elapsed old and its caller will wait for less than
// left, math.MaxInt64 for as long as it takes.
func (l *state) next(p *Policy, elapsed, left time.Duration, err error) (wait time.Duration, ok bool) {
	if l.ended {
		return 0, false
	}
	if err == nil {
		l.count()
		l.end(p, true)
		return 0, false
	}
	l.record(err)
	l.class, l.hint = p.judge(err)

	switch {
	case l.class == Permanent:
		return l.stop(p, elapsed, ReasonPermanent, nil)
	case p.NonIdempotent && l.class != Unprocessed && !(l.class == Throttled && l.hint > 0):
		return l.stop(p, elapsed, ReasonNotIdempotent, nil)
	case l.attempts >= p.attemptLimit():
		return l.stop(p, elapsed, ReasonMaxAttempts, nil)
	case l.hint > p.maxRetryAfter():
		return l.stop(p, elapsed, ReasonRetryAfter, nil)
	}
	delay := p.backoff(l.class, Step{Retry: l.attempts, Prev: l.prev, Rand: p.random(), Hint: l.hint})
	wait = sum(l.hint, delay) // added, so that jitter never shortens what the server asked for
	switch {
	case p.MaxElapsed > 0 && sum(max(elapsed, 0), wait) > p.MaxElapsed:
		return l.stop(p, elapsed, ReasonMaxElapsed, nil)
	case left < math.MaxInt64 && wait >= left:
		return l.stop(p, elapsed, ReasonDeadline, context.DeadlineExceeded)
	case !l.withdraw(p):
		return l.stop(p, elapsed, ReasonBudget, nil)
	}
	l.retried = l.class
	l.granted += min(1, math.MaxInt32-1-l.granted)
	l.prev, l.wait = delay, wait
	l.waited = sum(l.waited, wait)
	return wait, true
}

// withdraw asks the budget, last of all: a retry that is not made costs nothing.
func (l *state) withdraw(p *Policy) bool {
	return p.Budget == nil || p.Budget.Withdraw(l.class, int(l.granted)+1)
}

// cancel ends the run because the caller's context did, or else because the
// clock could not sleep.
func (l *state) cancel(p *Policy, ctx context.Context, elapsed time.Duration, sleep error) {
	l.class, l.hint = Unknown, 0
	reason, cause := ReasonCanceled, context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = ReasonDeadline
	}
	if cause == nil {
		cause = sleep
	}
	l.stop(p, elapsed, reason, cause)
}

// count counts an attempt.
func (l *state) count() { l.attempts += min(1, math.MaxInt-l.attempts) }

// record counts a failed attempt and keeps the first error and the latest,
// without marks on top. By itself it is for errors that need no judgement, because
// the run ends anyway.
func (l *state) record(err error) {
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
func (l *state) slept(took time.Duration) { l.waited = sum(l.waited-l.wait, max(took, 0)) }

func unmarked(err error) error {
	for {
		m, ok := err.(*mark)
		if !ok {
			return err
		}
		err = m.err
	}
}

func (l *state) stop(p *Policy, elapsed time.Duration, reason Reason, cause error) (time.Duration, bool) {
	l.err = &Error{
		Name:     p.Name,
		Reason:   reason,
		Attempts: l.attempts,
		Elapsed:  max(elapsed, 0),
		Waited:   l.waited,
		Errs:     slices.Clone(l.errs), // which may lie in something larger: an error can live long
		Cause:    cause,
	}
	l.end(p, false)
	return 0, false
}

func (l *state) end(p *Policy, ok bool) {
	l.ended = true
	if p.Budget != nil {
		p.Budget.End(l.retried, ok)
	}
}
