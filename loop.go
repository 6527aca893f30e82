package retry

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry/internal/engine"
)

// Loop makes one run's decisions, and is the engine of this package. Its method Next
// takes the time at which an attempt ended, and the error. It returns how long to wait
// before the next attempt, or that there is none. A Loop never sleeps, reads a clock
// or starts a goroutine. [Do] is a Loop that sleeps; a message queue or a simulator
// drives one its own way:
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
// A Loop ignores Policy.AttemptTimeout, Hooks and Clock, because it makes no attempts.
// Error.Waited counts the waits as Next returned them. A Loop is not safe for
// concurrent use, and must not be copied after the first call of Next. With a
// Policy.Budget, end every Loop: to abandon one early, call Next(now, Stop(err)).
type Loop struct {
	policy Policy
	start  time.Time
	decisions
}

// decisions is a Loop without its policy, which each method gets as a parameter.
type decisions struct {
	waited   time.Duration // with no attempt running
	wait     time.Duration // the latest that Next returned
	prev     time.Duration // the backoff's part of it
	hint     time.Duration // what the server asked for with the latest error
	errs     []error       // see Error.Errs
	err      *Error        // set once the run gives up; fail completes it
	attempts int
	granted  int32 // retries that the budget has granted so far
	class    Class // of the latest error
	retried  Class // the class that the last granted retry followed, Unknown before the first
	budgeted bool  // Budget.End is owed
	over     bool
}

// moment is when an attempt failed.
type moment struct {
	elapsed time.Duration // since the run began; not needed without Policy.MaxElapsed
	left    time.Duration // until the caller's deadline; math.MaxInt64 if there is none
	healthy bool          // op was up for long enough: the run counts as a success
}

// Start starts a run at now. Make the first attempt before the first call of Next.
func (p Policy) Start(now time.Time) Loop { return p.Resume(now, 0, 0) }

// Resume continues a run that started elsewhere. Until now it has made the given
// number of attempts, and has waited for the given time. The waits count as elapsed
// time. The attempts' own time is not known, and does not count. Negative numbers
// count as zero.
func (p Policy) Resume(now time.Time, attempts int, waited time.Duration) Loop {
	waited = max(waited, 0)
	l := Loop{p, now.Add(-waited), decisions{waited: waited, attempts: max(attempts, 0)}}
	l.open(&p)
	return l
}

// Attempts returns how many attempts have been made.
func (l *Loop) Attempts() int { return l.attempts }

// Err returns the *[Error] once the run has given up, else nil.
func (l *Loop) Err() error { return l.result() }

// Next takes the error of the attempt that ended at now. It returns how long to wait
// before the next attempt, or false if there is none: after a nil err, which is a
// success, and when the run gives up. After the end it keeps returning false.
func (l *Loop) Next(now time.Time, err error) (wait time.Duration, ok bool) {
	elapsed := now.Sub(l.start)
	switch {
	case l.over:
		return 0, false
	case err == nil:
		l.succeed(&l.policy)
		return 0, false
	}
	l.record(err)
	end := l.judge(&l.policy, err)
	if !l.next(&l.policy, end, moment{elapsed: elapsed, left: math.MaxInt64}) {
		l.fail(&l.policy, elapsed)
		return 0, false
	}
	return l.wait, true
}

// judge records what err means, and returns why that ends the run, or ReasonNone if it
// does not.
func (d *decisions) judge(p *Policy, err error) (end Reason) {
	v := p.judge(err)
	d.class, d.hint = v.class, v.hint
	return v.end
}

// next reports whether another attempt follows the one whose error judge has recorded,
// after d.wait. It is the only place where that is decided.
func (d *decisions) next(p *Policy, end Reason, now moment) bool {
	step := Step{Retry: d.attempts, Prev: d.prev, Hint: d.hint}
	limit := p.attemptLimit()
	switch {
	case end == ReasonPermanent, end == ReasonRefused, end == ReasonNotIdempotent:
		return d.stop(p, end, nil)
	case now.healthy:
		step.Retry, step.Prev = 1, 0
	case now.left <= 0:
		return d.stop(p, ReasonDeadline, context.DeadlineExceeded)
	case d.attempts >= limit && limit < math.MaxInt:
		return d.stop(p, ReasonMaxAttempts, nil)
	}
	if end != ReasonNone {
		return d.stop(p, end, nil)
	}
	backoff := p.backoff(d.class)
	if _, fixed := backoff.(Constant); !fixed { // which needs no random number, a tenth of a retry's time
		step.Rand = p.random()
	}
	delay := max(backoff.Delay(step), 0)
	wait := sum(d.hint, delay) // added, so that jitter never shortens what the server asked for
	switch {
	case p.MaxElapsed > 0 && !now.healthy && sum(max(now.elapsed, 0), wait) > p.MaxElapsed:
		return d.stop(p, ReasonMaxElapsed, nil)
	case now.left < math.MaxInt64 && wait >= now.left:
		return d.stop(p, ReasonDeadline, context.DeadlineExceeded)
	case now.healthy:
		d.wait = wait
		d.end(p, true)
		return true
	case p.Budget == nil:
	case d.rejected():
		if b, ok := p.Budget.(engine.Follower); ok {
			b.Follow()
		}
	case !p.Budget.Withdraw(d.class, int(d.granted)+1): // last: a retry that is not made costs nothing
		return d.stop(p, ReasonBudget, nil)
	default:
		d.retried = d.class
		if d.granted < math.MaxInt32-1 {
			d.granted++
		}
	}
	d.prev, d.wait = delay, wait
	d.waited = sum(d.waited, wait)
	return true
}

// ends returns why an error of class c ends a run, whatever else has happened in the
// run, or ReasonNone if it does not.
func (p *Policy) ends(c Class, hint time.Duration, turnedAway bool) Reason {
	switch {
	case c == Permanent:
		return ReasonPermanent
	case p.NonIdempotent && c != Unprocessed && !(c == Throttled && (hint > 0 || turnedAway)):
		return ReasonNotIdempotent
	case hint > p.maxRetryAfter():
		return ReasonRetryAfter
	}
	return ReasonNone
}

// rejected reports whether the latest error holds ErrRejected. Then the dependency has
// answered, and a budget does not count the next attempt as a retry. The ErrRejected
// of an inner run does not count: for this run it is a failure.
func (d *decisions) rejected() bool {
	return within(d.errs[len(d.errs)-1], func(err error) bool { return err == ErrRejected })
}

// stopCanceled ends the run because the caller's context has ended, or because the
// clock could not sleep.
func (d *decisions) stopCanceled(p *Policy, ctx context.Context, sleep error) {
	d.class, d.hint = Unknown, 0
	reason, cause := ReasonCanceled, context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = ReasonDeadline
	}
	if cause == nil {
		cause = sleep
	}
	d.stop(p, reason, cause)
}

// record counts a failed attempt and keeps the first error and the latest,
// without marks on top.
//
//go:noinline
func (d *decisions) record(err error) {
	d.count()
	d.class, d.hint = Unknown, 0 // until it is judged
	err = unmarked(err)
	if len(d.errs) < keep {
		d.errs = append(d.errs, err)
		return
	}
	copy(d.errs[1:], d.errs[2:])
	d.errs[keep-1] = err
}

// count counts an attempt.
func (d *decisions) count() {
	if d.attempts < math.MaxInt {
		d.attempts++
	}
}

// correctWait replaces the planned wait by the time that it took.
func (d *decisions) correctWait(took time.Duration) { d.waited = sum(d.waited-d.wait, max(took, 0)) }

func unmarked(err error) error {
	for {
		m, ok := err.(*mark)
		if !ok {
			return err
		}
		err = m.err
	}
}

// open calls the budget's Begin.
func (d *decisions) open(p *Policy) {
	if p.Budget != nil {
		p.Budget.Begin()
		d.budgeted = true
	}
}

// stop ends the run as one that gives up. It returns false: nothing follows.
func (d *decisions) stop(p *Policy, reason Reason, cause error) bool {
	d.err = &Error{Reason: reason, hint: d.hint, Cause: cause}
	d.end(p, false)
	return false
}

// succeed ends the run after an attempt that succeeded.
func (d *decisions) succeed(p *Policy) {
	d.count()
	d.end(p, true)
}

func (d *decisions) end(p *Policy, ok bool) {
	d.over = true
	if d.budgeted {
		p.Budget.End(d.retried, ok)
	}
}

// fail completes the error of a run that gave up when it was elapsed old.
func (d *decisions) fail(p *Policy, elapsed time.Duration) {
	if e := d.err; e != nil {
		e.Name, e.Attempts, e.Elapsed, e.Waited = p.Name, d.attempts, max(elapsed, 0), d.waited
		e.Errs = slices.Clone(d.errs) // a copy: d.errs may be part of a larger object, and an error can live long
	}
}

func (d *decisions) result() error {
	if d.err == nil {
		return nil
	}
	return d.err
}
