package retry

// May call: verdict.go, policy.go, budget.go, backoff.go, errors.go.

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// Loop makes one run's decisions. It never sleeps, reads a clock or starts a goroutine: its method
// Next takes the time at which an attempt ended, and the error, and returns the wait before the
// next attempt, or that there is none. [Do] is a Loop that sleeps; a queue drives one otherwise.
//
// A Loop ignores Policy.AttemptTimeout, Guards and Hooks, because it makes no attempts: see
// [Attempts] for a run that does. Only the Budget reads Policy.Clock. Error.Waited counts the
// waits as Next returned them. A Loop is not safe for concurrent use. With a Policy.Budget, end
// every Loop, at the latest by Close.
type Loop struct {
	policy Policy
	start  time.Time
	waited time.Duration
	decisions
}

// decisions is a Loop without its policy, which each method gets as a parameter.
type decisions struct {
	wait     time.Duration // the latest that Next returned
	prev     time.Duration // the backoff's part of it
	hint     time.Duration // what the server asked for with the latest error; hint.Now for a retry at once
	errs     []error       // see Error.Errs
	err      *Error        // set once the run gives up; fail completes it
	attempts int
	granted  int32 // retries that the budget has granted so far
	refusals int32 // of guards: attempts that were not made
	retried  Class // the class that the last granted retry followed, Unknown before the first
	stage    stage
	acted    bool // an attempt may have done something: see Error.Undone
	meaning
}

// meaning is what the latest error means. It is zero until that is judged.
type meaning struct {
	class    Class
	ends     Reason // why it ends the run by itself
	answered bool   // it is an Answer
	marked   bool   // a mark says what it means
	polled   bool   // it says that the dependency has answered
}

// stage says how far the decisions have come.
type stage uint8

const (
	unopened stage = iota // the run has not begun
	opened                // Budget.End is owed, if there is a budget
	granted               // and the retry that the budget has granted last is not made yet
	decided               // the run is over
)

// moment is when an attempt failed.
type moment struct {
	elapsed time.Duration // since the run began
	left    time.Duration // until the caller's deadline; math.MaxInt64 if there is none
	healthy bool          // op was up for long enough: the run counts as a success
	lasting bool          // the run is Supervise's, which waits where others give up
	refusal error         // of a guard: the attempt was not made
	paced   bool          // a guard limits the retries that follow a Throttled attempt
}

// Start starts a run at now. Make the first attempt before the first Next.
func (p Policy) Start(now time.Time) *Loop { return p.Resume(now, 0, 0) }

// Resume continues a run that started elsewhere, has made the given number of attempts, and has
// waited for the given time. The waits count as elapsed time; the time of the attempts does not.
// Negative numbers count as zero.
func (p Policy) Resume(now time.Time, attempts int, waited time.Duration) *Loop {
	l := new(Loop) // on the stack of a caller that keeps it there: Start and Resume are inlined
	l.resume(&p, now, attempts, max(waited, 0))
	return l
}

func (l *Loop) resume(p *Policy, now time.Time, attempts int, waited time.Duration) {
	l.policy, l.start = *p, now.Add(-waited)
	l.waited, l.attempts, l.acted, l.stage = waited, max(attempts, 0), attempts > 0, opened
}

// Attempts returns how many attempts have been made.
func (l *Loop) Attempts() int { return l.attempts }

// Err returns the *[Error] once the run has given up, else nil.
func (l *Loop) Err() error { return l.result() }

// Next takes the error of the attempt that ended at now. It returns how long to wait before the
// next attempt, or false if there is none: after a nil err, which is a success, and when the run
// gives up. If only the budget refused the attempt, Next returns the wait that would have come,
// and false. After the end it returns 0 and false.
func (l *Loop) Next(now time.Time, err error) (wait time.Duration, ok bool) {
	var v Verdict
	if err != nil && l.stage != decided {
		v.judge(l.policy.Classify, err, false)
	}
	return l.settle(now, v)
}

// Judged is Next for a caller that has a Verdict: see [Attempts.Judged].
func (l *Loop) Judged(now time.Time, v Verdict) (wait time.Duration, ok bool) {
	if v != (Verdict{}) && l.stage != decided {
		v = v.checked()
	}
	return l.settle(now, v)
}

func (l *Loop) settle(now time.Time, v Verdict) (wait time.Duration, ok bool) {
	elapsed := now.Sub(l.start)
	switch {
	case l.stage == decided:
		return 0, false
	case v.Err == nil:
		l.succeed(&l.policy)
		return 0, false
	}
	l.record(v.Err)
	l.judged(&l.policy, &v)
	ok = l.next(&l.policy, &moment{elapsed: elapsed, left: math.MaxInt64})
	if ok {
		l.waited = sum(l.waited, l.wait)
	} else {
		l.fail(&l.policy, elapsed, l.waited)
	}
	if ok || l.refusedByBudget() {
		wait = l.wait
	}
	return wait, ok
}

// Close ends a Loop that is not over. Err is nil then. To the budget the retry that Next has
// allowed last is made: by another process, such as one that gets the message next.
func (l *Loop) Close() {
	if l.stage != decided {
		l.made()
		l.end(&l.policy, false)
	}
}

// judged takes what the latest error means.
func (d *decisions) judged(p *Policy, v *Verdict) {
	d.class, d.hint = v.Class, v.asked()
	d.ends, d.answered, d.polled, d.marked = p.ends(v), v.IsAnswer(), v.Answered, v.Marked
	d.act(v)
}

// act notes what an attempt may have done: anything, if nobody has judged it.
func (d *decisions) act(v *Verdict) {
	d.acted = d.acted || v == nil || !v.Undone || v.Partial
}

// next reports whether another attempt follows the one that was judged, after d.wait. It is
// the only place where that is decided.
func (d *decisions) next(p *Policy, now *moment) bool {
	if d.answered {
		d.err = &Error{Reason: ReasonPermanent, Answered: true, Marked: d.marked}
		d.end(p, true)
		return false
	}
	delay, wait, reason := d.plan(p, now)
	switch {
	case reason != ReasonNone && now.refusal != nil: // whichever limit it was
		return d.stop(p, ReasonGuard, now.refusal)
	case reason == ReasonDeadline:
		return d.stopEarly(p, wait > 0)
	case reason == ReasonRetryAfter && d.hint > p.maxRetryAfter():
		return d.stop(p, reason, tooLong{d.hint, p.maxRetryAfter()})
	case reason != ReasonNone:
		return d.stop(p, reason, nil)
	case now.healthy:
		d.wait = wait
		d.end(p, true)
		return true
	case p.Budget == nil, now.refusal != nil: // the retry, if it is one, has been paid for
	case d.polled, // the next poll is no extra load
		d.class == Throttled && now.paced: // a guard limits it
	case d.withdraw(p): // last: a retry that is not made costs nothing
		d.retried, d.stage = d.class, granted
		if d.granted < math.MaxInt32-1 {
			d.granted++
		}
	case now.lasting:
		return d.postpone(p, now, delay, wait)
	default:
		d.stop(p, ReasonBudget, d.shortage(p))
		d.wait = wait
		return false
	}
	d.prev, d.wait = delay, wait
	return true
}

// sessionHint is the longest wait of a server that a session obeys, unless Policy.MaxRetryAfter is
// set. Servers mean less: a Retry-After of a day is a mistake.
const sessionHint = time.Hour

// postpone has a session wait whose budget has refused a retry after wait, of which delay is the
// backoff's part: for that twice, and a second, but within MaxElapsed.
//
//go:noinline
func (d *decisions) postpone(p *Policy, now *moment, delay, wait time.Duration) bool {
	if d.hint == hint.Now {
		wait = delay // it would have come at once
	}
	wait = sum(sum(wait, delay), time.Second)
	if p.MaxElapsed > 0 {
		if wait = min(wait, p.MaxElapsed-max(now.elapsed, 0)); wait <= 0 {
			return d.stop(p, ReasonMaxElapsed, nil)
		}
	}
	if now.left < math.MaxInt64 && wait >= now.left {
		return d.stopEarly(p, true)
	}
	d.prev, d.wait = delay, wait
	return true
}

// plan returns the backoff's part of the wait before another attempt, and the whole wait, or
// why none may follow, whatever the budget says: with ReasonDeadline the wait that would pass it,
// or 0 if it has passed.
func (d *decisions) plan(p *Policy, now *moment) (delay, wait time.Duration, reason Reason) {
	made := min(d.attempts, math.MaxInt-int(d.refusals)) + int(d.refusals)
	step := Step{Retry: made, Prev: d.prev, Hint: max(d.hint, 0), Now: d.hint == hint.Now}
	limit, ends := p.attemptLimit(), d.ends
	if ends == ReasonRetryAfter && now.lasting && p.MaxRetryAfter <= 0 {
		ends, step.Hint = ReasonNone, min(step.Hint, sessionHint)
	}
	switch {
	case ends != ReasonNone && ends != ReasonRetryAfter:
		return 0, 0, ends
	case now.healthy:
		step.Retry, step.Prev = 1, 0
	case now.left <= 0:
		return 0, 0, ReasonDeadline
	case made >= limit && limit < math.MaxInt:
		return 0, 0, ReasonMaxAttempts
	}
	if ends != ReasonNone { // ReasonRetryAfter: the limits above go before it
		return 0, 0, ends
	}
	if _, fixed := p.backoff(d.class).(Constant); !fixed || d.hint > 0 { // without these a random number is not needed, a tenth of a retry's time
		step.Rand = p.random()
	}
	if delay, wait = p.delay(d.class, step); now.refusal != nil {
		wait = max(wait, time.Millisecond) // nothing else limits how often a full guard is asked
	}
	switch {
	case p.MaxElapsed > 0 && !now.healthy && sum(max(now.elapsed, 0), wait) > p.MaxElapsed:
		return 0, 0, ReasonMaxElapsed
	case now.left < math.MaxInt64 && wait >= now.left:
		return 0, wait, ReasonDeadline
	}
	return delay, wait, ReasonNone
}

//go:noinline
func (d *decisions) withdraw(p *Policy) bool { return p.Budget.Withdraw(d.withdrawal(p)) }

// shortage returns why the budget has refused, as far as it says.
//
//go:noinline
func (d *decisions) shortage(p *Policy) error { return shortageOf(p.Budget, d.withdrawal(p)) }

func (d *decisions) withdrawal(p *Policy) Withdrawal {
	return Withdrawal{Name: p.Name, Class: d.class, Retry: int(d.granted) + 1, Clock: p.clock()}
}

// refusedByBudget reports whether the run is over only because its budget refused the
// attempt that would have come after d.wait.
func (d *decisions) refusedByBudget() bool { return d.err != nil && d.err.Reason == ReasonBudget }

// stopCanceled ends the run because the caller's context has ended, or because the
// clock could not sleep.
func (d *decisions) stopCanceled(p *Policy, ctx context.Context, sleep error) {
	asked := d.hint // of the latest attempt, for a run around this one
	if d.stage == unopened {
		asked = 0 // it was of the run before
	}
	d.class, d.hint = Unknown, 0
	cause := context.Cause(ctx)
	if cause == nil {
		cause = sleep
	}
	d.stop(p, endOf(ctx), cause)
	d.err.hint = asked
}

// endOf returns why a run ends whose context has ended, or that could not sleep.
func endOf(ctx context.Context) Reason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ReasonDeadline
	}
	return ReasonCanceled
}

// record counts a failed attempt and keeps the first error and the latest,
// without marks on top.
//
//go:noinline
func (d *decisions) record(err error) {
	d.count()
	d.meaning, d.hint = meaning{}, 0 // until it is judged
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
	d.made()
	if d.attempts < math.MaxInt {
		d.attempts++
	}
}

// made notes that the retry that was granted last is made.
func (d *decisions) made() {
	if d.stage == granted {
		d.stage = opened
	}
}

// stop ends the run as one that gives up. It returns false: nothing follows.
func (d *decisions) stop(p *Policy, reason Reason, cause error) bool {
	d.err = &Error{Reason: reason, hint: d.hint, Cause: cause}
	d.err.Marked = d.marked && (reason == ReasonPermanent || reason == ReasonRefused)
	d.wait = 0 // of the attempt before: see refusedByBudget
	d.end(p, false)
	return false
}

// stopEarly ends the run because of the caller's deadline: ahead says that it has not passed, but
// that the next wait would pass it.
func (d *decisions) stopEarly(p *Policy, ahead bool) bool {
	d.stop(p, ReasonDeadline, context.DeadlineExceeded)
	d.err.ahead = ahead
	return false
}

// succeed ends the run after an attempt that succeeded.
func (d *decisions) succeed(p *Policy) {
	d.count()
	d.end(p, true)
}

func (d *decisions) end(p *Policy, ok bool) {
	was := d.stage
	d.stage = decided
	if p.Budget != nil && (was == opened || was == granted) {
		d.endBudget(p, ok, was == granted)
	}
}

//go:noinline
func (d *decisions) endBudget(p *Policy, ok, unsent bool) {
	o := Outcome{Name: p.Name, Retried: d.retried, Retries: int(d.granted), Sent: int(d.granted), OK: ok, Clock: p.clock()}
	if unsent {
		o.Sent--
	}
	p.Budget.End(o)
}

// fail completes the error of a run that gave up when it was elapsed old, and had waited for so long.
func (d *decisions) fail(p *Policy, elapsed, waited time.Duration) {
	if e := d.err; e != nil {
		e.Name, e.Attempts, e.Elapsed, e.Waited, e.Undone = p.Name, d.attempts, max(elapsed, 0), waited, !d.acted
		e.Errs = slices.Clone(d.errs) // a copy: d.errs may be part of a larger object, and an error can live long
	}
}

func (d *decisions) result() error {
	if d.err == nil {
		return nil
	}
	return d.err
}
