package retry

// May call: gates.go, end.go, stopwatch.go, hooks.go, loop.go, verdict.go, policy.go, errors.go.

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry/internal/readings"
	"github.com/goretry/retry/internal/timers"
)

// run is one run of Do, Run, Supervise or Attempts: its decisions, and the state for
// attempts and waits. These are its phases, with the calls in between:
//
//	unbegun ── Hooks.Start ──▶ between ── Hooks.Attempt ──▶ attempting ── op
//	attempting ── Budget.Withdraw, Hooks.AttemptDone, Hooks.Wait ──▶ waiting ──▶ between, and so on
//	attempting ── Budget.End, Hooks.AttemptDone, Hooks.Done ──▶ over
//
// On the system's clock a run is asleep in place of waiting. Before an attempt the guards of
// the policy are asked, and one may have it wait, or refuse it: then all are asked again.
//
//	between ── Guard.Enter, Hooks.Guard ──▶ waiting ──▶ between
//
// They are left at the end of the attempt, before Budget.Withdraw or Budget.End.
//
// Supervise goes on after a run in which op was up for long enough, with a pause:
//
//	over ──▶ unbegun ── Hooks.Start, Hooks.Wait ──▶ waiting ──▶ between, and so on
//
// Three rules keep a run cheap. Each method gets the policy as a parameter, since a
// pointer to it in a run would move it to the heap. A run is on the stack until an
// attempt fails. And a goroutine that waits in a run needs no more than the 2 KiB of
// stack that it started with. So the frames for making an attempt, judging an error and
// calling a hook are not below a sleep. They are small for the errors of most calls, since
// a stack that has grown stays large for long. Functions marked noinline are for that.
type run struct {
	decisions
	stopwatch
	caller  context.Context    // the argument of Do
	ctx     context.Context    // the caller's, or what Hooks.Start returned
	opCtx   context.Context    // what op gets
	expire  context.CancelFunc // ends the attempt's timeout; nil if it has none
	home    *home              // nil before the first failure
	healthy time.Duration      // how long op must be up for its failure to start a new run; 0: it never does
	number  int                // of the attempt underway or the last one; 0 before the first
	wake    <-chan struct{}    // ends the sleep early
	gates   *gates             // nil before a guard was asked

	// Readings of the stopwatch. After a wait, began is the time up to which all time counts as
	// that of attempts or as waited. It moves on with each guard that is asked, see lap, and the
	// attempt begins there.
	began  time.Duration // when the attempt underway or the last one began
	up     time.Duration // when its op was called, if healthy is set: the hooks before it may be slow
	ended  time.Duration // when it ended, if anybody can see it, or when a guard had the next one wait: a wait begins there
	paused time.Duration // when the pause before the first attempt ended: see renew

	phase   phase
	untimed bool // Policy.AttemptTimeout is the caller's
	resumed bool // the first attempt was made before: see Attempts.Resumed
}

// phase says what a run still has to call when a panic or Goexit passes through it.
type phase uint8

const (
	unbegun    phase = iota // nothing
	between                 // Hooks.Done, Budget.End
	attempting              // and Hooks.AttemptDone
	waiting                 // Hooks.Done, Budget.End, and the wait has to be counted as it was
	asleep                  // nothing: it waits on the system's clock, where no code of others is called
	over
)

// home is what outlives the stack frame of a run once an attempt has failed: one
// allocation, with room for the first errors and for the contexts of the first
// retries.
type home struct {
	run
	errs     [4]error
	contexts [3]attemptContext
}

// finish sleeps and makes attempts until the run is over, and returns its error. A nil r is a
// run that succeeded at once. It sleeps on the system's clock itself, since the frame of a func
// that did it would be below the select: see type run.
//
//go:noinline
func (r *run) finish(p *Policy, op func(context.Context) error) error {
	if r == nil {
		return nil
	}
	for r.phase != over {
		switch wake := r.waker(); {
		case wake != nil:
			r.sleepUntilWoken(p, r.wait, wake, r.wake)
		case r.wake == nil || r.wait <= 0:
			time.Sleep(r.wait)
		default:
			t, fired := timers.Start(r.wait), false
			select {
			case <-t.C:
				fired = true
			case <-r.wake:
			}
			timers.Free(t, fired)
		}
		r.proceed(p, op)
	}
	return r.result()
}

// newFailedRun returns the run whose first attempt, a plain one, has failed with err.
//
//go:noinline
func newFailedRun(ctx context.Context, p *Policy, since time.Duration, err error) *run {
	h := new(home)
	r := &h.run
	r.home, r.caller, r.ctx, r.opCtx = h, ctx, ctx, ctx
	r.stopwatch = stopwatch{since: since, relative: true}
	r.number, r.stage, r.phase = 1, opened, attempting
	r.errs = h.errs[:0]
	if r.settle(p, err, nil) {
		r.fallAsleep()
	}
	return r
}

// newRun starts a run and makes attempts until the run must sleep or is over. It
// returns nil for a run that has succeeded.
//
//go:noinline
func newRun(ctx context.Context, p *Policy, healthy time.Duration, op func(context.Context) error) *run {
	var r run
	r.caller, r.ctx, r.healthy = ctx, ctx, healthy
	r.proceed(p, op)
	if r.phase == over && r.err == nil {
		return nil
	}
	h := r.home
	if h == nil {
		h = new(home)
	}
	h.run = r
	return &h.run
}

// proceed makes attempts until the run is over or must sleep on the system clock. All
// code that may panic is called below it. So it also sleeps on other clocks, whose
// methods may run any code.
//
//go:noinline
func (r *run) proceed(p *Policy, op func(context.Context) error) {
	defer r.close(p)
	var slept error // ends the run
	for {
		if r.ready(p, slept) {
			r.settle(p, op(r.opCtx), nil)
		}
		switch {
		case r.phase == over:
			return
		case !readings.System(p.Clock):
			slept = r.sleepFor(p, r.wait)
		case r.wait > 0:
			r.fallAsleep()
			return
		}
	}
}

// fallAsleep prepares the sleep on the system clock. It calls Done of the caller's
// context, which may panic: in sleep nothing would close the run.
func (r *run) fallAsleep() {
	r.wake = r.ctx.Done()
	r.phase = asleep
}

// sleepFor sleeps for d on any clock, or until a guard wakes r. It may call code of others.
func (r *run) sleepFor(p *Policy, d time.Duration) error {
	switch wake, system := r.waker(), readings.System(p.Clock); {
	case !system && wake == nil:
		return p.Clock.Sleep(r.ctx, d)
	case !system:
		return r.sleepOrWake(p, d, wake)
	case wake != nil:
		r.sleepUntilWoken(p, d, wake, r.ctx.Done())
	default:
		timers.Sleep(r.ctx.Done(), d)
	}
	return nil
}

// ready starts the run or ends its wait, and prepares the next attempt. slept is what
// the clock's Sleep returned. ready reports whether the attempt is to be made. If not,
// the run is over, or has to wait for a guard.
func (r *run) ready(p *Policy, slept error) bool {
	if r.phase == unbegun {
		r.begin(p)
	} else {
		r.resume(p)
	}
	if slept != nil || r.ctx.Err() != nil {
		return r.canceled(p, slept)
	}
	if r.stage == unopened {
		r.paused, r.errs = r.began, nil // the error of the run before is not this run's
		r.stage = opened
	}
	if len(p.Guards) > 0 && !r.enter(p) {
		return false
	}
	if r.number < math.MaxInt {
		r.number++
	}
	r.opCtx = r.numbered()
	return r.prepare(p) || r.canceled(p, nil)
}

// prepare calls Hooks.Attempt and starts the attempt's timeout. It reports whether to
// call op: not if the run's context has ended meanwhile.
func (r *run) prepare(p *Policy) bool {
	if p.Hooks.Attempt != nil {
		r.attemptHook(p)
	}
	r.phase = attempting // from here on Hooks.AttemptDone is owed, also if op is not called
	if p.Hooks.Attempt != nil && r.ctx.Err() != nil {
		return false
	}
	timed := p.AttemptTimeout > 0 && !r.untimed
	if timed {
		r.opCtx, r.expire = p.clock().WithTimeoutCause(r.opCtx, p.AttemptTimeout, ErrAttemptTimeout)
	}
	if r.healthy > 0 {
		r.up = r.elapsed(p)
	}
	if (timed || r.healthy > 0) && r.ctx.Err() != nil { // a clock's methods may run any code
		return false
	}
	return true
}

func (r *run) begin(p *Policy) {
	if r.ctx == nil {
		panic("retry: nil context")
	}
	r.stopwatch.begin(p)
	if p.Hooks.Start != nil {
		r.startHook(p)
	}
	r.phase = between
}

// resume ends a wait, and counts the time that it took.
func (r *run) resume(p *Policy) {
	r.began = r.ended
	if r.wait > 0 || p.Hooks.Wait != nil { // else no time has passed
		r.began = r.elapsed(p)
	}
	r.correctWait(r.began - r.ended)
	r.phase = between
}

// numbered returns the context for the attempt underway.
func (r *run) numbered() context.Context {
	n, number := r.number, int32(min(r.number, math.MaxInt32))
	switch {
	case n == 1 && AttemptNumber(r.ctx) == 1:
		return r.ctx
	case n == 1 || n-2 >= len(r.home.contexts):
		return &attemptContext{r.ctx, number, r.class}
	}
	c := &r.home.contexts[n-2]
	*c = attemptContext{r.ctx, number, r.class}
	return c
}

// settle takes what op returned, and reports whether another attempt is to follow
// after r.wait. If no verdict is given, the policy judges err.
//
// An attempt ends in this order, in every shape of a run, also where it is written once more for a
// reason: [run.part], which decides by its caller's funcs, and abort, after a panic.
//
//  1. The error is recorded, and judged: Policy.Classify.
//  2. The guards are left: Guard.Leave, the last one first.
//  3. What follows is decided: Policy.Backoff, then Budget.Withdraw or Budget.End.
//  4. Hooks.AttemptDone is called, and the attempt's context ends.
//  5. Hooks.Wait is called, or Hooks.Done.
//
// TestEveryRunEndsAnAttemptInTheSameOrder compares them.
func (r *run) settle(p *Policy, err error, given *Verdict) bool {
	if err == nil {
		if p.Hooks.timesFirstTry() || r.gates != nil {
			r.ended = r.elapsed(p)
		}
		guardsLeft := r.ended
		if r.gates != nil {
			r.attemptLeaves(p, nil)
			if p.Hooks.Done != nil { // which sees the time that the guards have taken
				guardsLeft = r.elapsed(p)
			}
		}
		r.succeed(p)
		r.attemptDone(p, nil)
		r.ended = guardsLeft
		return r.done(p)
	}
	if r.home == nil {
		r.home = new(home)
		r.errs = r.home.errs[:0]
	}
	needsTime := p.MaxElapsed > 0 || r.healthy > 0 || len(p.Guards) > 0 || p.Hooks.timesFirstTry()
	if needsTime {
		r.ended = r.elapsed(p)
	}
	r.record(err)
	// What follows: nothing; more attempts of this run; or, if op was up for long enough, those of
	// a new one, which renews r.
	more, renews := false, false
	judged := r.judge(p, err, given)
	guardsLeft := r.ended
	if len(p.Guards) > 0 {
		guardsLeft = r.elapsed(p) // Leave may have taken its time
	}
	if !judged {
		r.stopCanceled(p, r.ctx, nil)
	} else {
		renews = r.healthy > 0 && r.ended-r.up >= r.healthy
		ctx := r.ctx
		if renews {
			ctx = r.caller // the pause is part of the new run, to which the context of this one means nothing
		}
		more = r.next(p, &moment{elapsed: guardsLeft - r.paused, left: untilDeadline(ctx, p.Clock), healthy: renews, paced: r.gates != nil && r.gates.paces})
	}
	if !needsTime && (!more || r.wait > 0 || p.Hooks.Wait != nil) {
		r.ended = r.elapsed(p) // read only now: nobody sees the time of a retry without a wait
	}
	r.attemptDone(p, err)
	switch {
	case !more:
		r.ended = max(r.ended, guardsLeft)
		return r.done(p)
	case renews: // next has ended this run as a success
		r.done(p)
		return r.renew(p, err)
	case p.Hooks.Wait != nil && r.ctx.Err() == nil:
		r.waitHook(p, err)
	}
	return true
}

// judge judges the error of an attempt, unless a verdict is given, and tells the guards. It
// reports false if the caller's context has ended: then the error says nothing.
//
//go:noinline
func (r *run) judge(p *Policy, err error, given *Verdict) bool {
	if r.ctx.Err() != nil {
		r.act(given)
		if len(p.Guards) > 0 {
			r.attemptLeaves(p, unjudged(err, given))
		}
		return false
	}
	v := given
	if v == nil {
		v = new(Verdict) // it does not escape
		v.judge(p, err, r.healthy > 0)
	}
	if v.Class == Transient && r.late(p) {
		v.Class = TimedOut // whatever error op returned; it decides as Transient does
	}
	r.judged(p, v)
	if len(p.Guards) > 0 {
		r.attemptLeaves(p, v)
	}
	return true
}

// renew makes r the run that follows the one that err has ended, and starts it. It
// reports whether its pause is to follow. Until the pause is over, err is all that is
// known about the run.
//
//go:noinline
func (r *run) renew(p *Policy, err error) bool {
	before := r.decisions
	*r = run{caller: r.caller, ctx: r.caller, healthy: r.healthy}
	r.errs = []error{unmarked(err)}
	r.begin(p)
	if r.ctx.Err() != nil {
		return r.canceled(p, nil)
	}
	r.class, r.hint = before.class, before.hint
	r.wait, r.waited = before.wait, before.wait
	r.phase = waiting
	if p.Hooks.Wait != nil {
		r.waitHook(p, err)
	}
	return true
}

// AttemptNumber returns the number of the attempt that ctx belongs to: 1 for a run's
// first attempt, 2 for the first retry. It returns 1 for a context that belongs to no
// run.
func AttemptNumber(ctx context.Context) int {
	if c, ok := ctx.Value(attemptKey{}).(*attemptContext); ok {
		return int(c.number)
	}
	return 1
}

type attemptKey struct{}

type attemptContext struct {
	context.Context
	number int32 // at most that many, to be small: a run has room for three of these
	class  Class // of the latest error before it: see Entry.Class
}

func (c *attemptContext) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return c
	}
	return c.Context.Value(key)
}
