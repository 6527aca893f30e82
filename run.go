package retry

// May call: gates.go, end.go, number.go, stopwatch.go, hooks.go, loop.go, verdict.go, policy.go, errors.go.

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
	ctxDone <-chan struct{}    // of ctx, while the run is asleep
	gates   *gates             // nil before a guard was asked
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

// finish sleeps on the system's clock and makes attempts until the run is over, and returns its
// error. A nil r is a run that succeeded at once. The select for a sleep without a guard is
// written out, since the frame of timers.Sleep would be below it: see type run.
//
//go:noinline
func (r *run) finish(p *Policy, op func(context.Context) error) error {
	if r == nil {
		return nil
	}
	for r.phase != over {
		switch wake := r.waker(); {
		case wake != nil:
			r.sleepOrWake(p, r.wait, wake, r.ctxDone)
		case r.ctxDone == nil || r.wait <= 0:
			time.Sleep(r.wait)
		default:
			t, fired := timers.Start(r.wait), false
			select {
			case <-t.C:
				fired = true
			case <-r.ctxDone:
			}
			timers.Free(t, fired)
		}
		r.proceed(p, op)
	}
	return r.result()
}

// proceed makes attempts until the run is over or must sleep on the system's clock. All
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

// fallAsleep prepares the sleep on the system's clock. It calls Done of the caller's
// context, which may panic: in sleep nothing would close the run.
func (r *run) fallAsleep() {
	r.ctxDone = r.ctx.Done()
	r.phase = asleep
}

// sleepFor sleeps for d on any clock, or until a guard wakes r or the run's context ends. It may
// call code of others.
func (r *run) sleepFor(p *Policy, d time.Duration) error {
	wake := r.waker()
	switch system := readings.System(p.Clock); {
	case system && wake == nil:
		timers.Sleep(r.ctx.Done(), d)
	case system:
		r.sleepOrWake(p, d, wake, r.ctx.Done())
	case wake == nil:
		return p.Clock.Sleep(r.ctx, d)
	default:
		return r.sleepOrWakeOn(p, d, wake)
	}
	return nil
}

// ready starts the run or ends its wait, and prepares the next attempt. slept is what
// the clock's Sleep returned. ready reports whether the attempt is to be made. If not, the
// phase says whether the run has to wait for a guard or is over.
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
		r.origin, r.errs = r.began, nil // the error of the run before is not this run's
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

// begin starts a run.
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

// settle takes what op returned, and reports whether another attempt is to follow
// after r.wait. If no verdict is given, the policy judges err.
//
// An attempt ends in these steps, in every shape of a run. Those of a success, of an attempt that
// panics and of a part that a queue counts are in settleSuccess, abort and part.
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
		return r.settleSuccess(p)
	}
	if r.home == nil {
		r.home = new(home)
		r.errs = r.home.errs[:0]
	}
	// If nothing that follows depends on when op ended, and no hook sees it, the clock is read
	// after step 3, and not at all for a retry without a wait.
	early := p.MaxElapsed > 0 || r.healthy > 0 || len(p.Guards) > 0 || p.Hooks.timesFirstTry()
	if early {
		r.ended = r.elapsed(p)
	}
	r.record(err)                    // 1
	judged := r.judge(p, err, given) // 1, 2
	now := r.ended
	if len(p.Guards) > 0 {
		now = r.elapsed(p) // Leave may have taken its time
	}
	more, renews := false, false // renews: what follows is a new run, since op was up for long enough
	if judged {                  // 3
		renews = r.healthy > 0 && r.ended-r.up >= r.healthy
		ctx := r.ctx
		if renews {
			ctx = r.caller // the pause is part of the new run, to which the context of this one means nothing
		}
		more = r.next(p, &moment{elapsed: now - r.origin, left: untilDeadline(ctx, p.Clock), healthy: renews, paced: r.gates != nil && r.gates.paces})
	} else {
		r.stopCanceled(p, r.ctx, nil)
	}
	if !early && (!more || r.wait > 0 || p.Hooks.Wait != nil) {
		r.ended = r.elapsed(p)
	}
	r.attemptDone(p, err) // 4
	switch {              // 5
	case !more:
		r.ended = max(r.ended, now)
		return r.done(p)
	case renews: // next has ended this run as a success
		r.done(p)
		return r.renew(p, err)
	case p.Hooks.Wait != nil && r.ctx.Err() == nil:
		r.waitHook(p, err)
	}
	return true
}

// settleSuccess takes the success of op. It returns false: no attempt follows.
func (r *run) settleSuccess(p *Policy) bool {
	if p.Hooks.timesFirstTry() || r.gates != nil {
		r.ended = r.elapsed(p)
	}
	now := r.ended
	if r.gates != nil { // 2
		r.attemptLeaves(p, nil)
		if p.Hooks.Done != nil { // which sees the time that Leave has taken
			now = r.elapsed(p)
		}
	}
	r.succeed(p)          // 3
	r.attemptDone(p, nil) // 4
	r.ended = now
	return r.done(p) // 5
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
