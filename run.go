package retry

// May call: gates.go, end.go, number.go, stopwatch.go, hooks.go, loop.go, policy.go.

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
//	unbegun ── Hooks.Start ──▶ between ── Guard.Enter, Hooks.Attempt ──▶ attempting
//	attempting ── op, Guard.Leave, Budget.Withdraw, Hooks.AttemptDone ──▶ between ── Hooks.Wait, sleep, and so on
//	attempting ── op, Guard.Leave, Budget.End, Hooks.AttemptDone ──▶ between ──▶ over ── Hooks.Done
//
// A guard may have the attempt wait, or refuse it, in which case all are asked again after the wait.
// So every wait is between two attempts. Supervise goes on after a run in which op was up for long
// enough, with a pause:
//
//	over ──▶ unbegun ── Hooks.Start ──▶ between ── Hooks.Wait, sleep, and so on
//
// Three rules keep a run cheap. Each method gets the policy as a parameter, since a
// pointer to it in a run would move it to the heap. A run is on the stack until an
// attempt fails: newRun copies it, so nothing may point into it, and what is pointed to, the errors
// and the contexts of attempts, is in its home. And a goroutine that waits in a run needs no more
// than the 2 KiB of stack that it started with. So the frames for making an attempt, judging an error
// and calling a hook are not below a sleep: finish and sleepOrWake call no code of others, and nobody
// would close the run there. Frames are small for the errors of most calls, since a stack that has
// grown stays large for long. Functions marked noinline are for that.
//
// Whatever may panic is called last in its step, or after the state says that it was: phase, step,
// stage and gates then say what is still owed.
type run struct {
	decisions
	stopwatch
	caller  context.Context    // the argument of Do
	ctx     context.Context    // the caller's, or what Hooks.Start returned
	opCtx   context.Context    // what op gets
	expire  context.CancelFunc // ends the attempt's timeout, also if it has ended; nil if the run has had none
	home    *home              // nil before the first failure
	healthy time.Duration      // how long op must be up for its failure to start a new run; 0: it never does
	number  int                // of the attempt underway or the last one; 0 before the first
	ctxDone <-chan struct{}    // of ctx, for the sleep in finish
	gates   *gates             // nil before a guard was asked
	phase   phase
	op      opState
	ending  Ending // of the latest attempt, should it have failed: see endAttempt
	late    bool   // its own deadline had passed
	untimed bool   // Policy.AttemptTimeout is the caller's
	resumed bool   // the first attempt was made before: see Attempts.Resumed
}

// phase says what a run still has to call when a panic or Goexit passes through it.
type phase uint8

const (
	unbegun    phase = iota // nothing
	between                 // Guard.Leave, Budget.End, Hooks.Done
	attempting              // and Hooks.AttemptDone
	over                    // nothing
)

// opState says how far op has come in the attempt underway.
type opState uint8

const (
	uncalled opState = iota // the attempt is announced, and is not made if the run ends now
	called
	returned // and its end was read from the clock
	recorded // and its error is the latest of the run's
	assessed // and that is judged, as far as it will be
	counted  // it has returned no error
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
	r.since, r.base = since, unseen
	r.number, r.stage, r.phase, r.op = 1, opened, attempting, called
	r.errs = h.errs[:0]
	if r.settle(p, err, nil) {
		r.ctxDone = ctx.Done()
		r.wait = r.left(p)
	}
	return r
}

// finish sleeps on the system's clock and makes attempts until the run is over, and returns its
// error. A nil r is a run that succeeded at once. The select for a sleep without a guard is
// written out, as in timers.Sleep, since the frame of timers.Sleep would be below it: see type run.
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
	returned := false
	defer func() {
		if !returned {
			r.close(p)
		}
	}()
	var slept error // ends the run
	for {
		if r.startAttempt(p, slept) {
			r.settle(p, op(r.opCtx), nil)
		}
		switch {
		case r.phase == over:
			returned = true
			return
		case !readings.System(p.Clock):
			slept = r.sleepFor(p, r.left(p))
		case r.wait > 0 || r.waker() != nil: // which may be there already
			r.ctxDone = r.ctx.Done()
			r.wait = r.left(p)
			returned = true
			return
		} // else the next attempt follows at once
	}
}

// left returns what is left of the wait, which began when the run was idle last: the policy's funcs and
// hooks may have taken a part of it.
func (r *run) left(p *Policy) time.Duration {
	if r.wait <= 0 {
		return 0
	}
	return max(r.wait-max(r.elapsed(p)-r.idle, 0), 0)
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

// startAttempt begins the run or ends its wait, and starts the next attempt. slept is what the
// clock's Sleep returned. It reports whether to call op. If not, the phase says whether the run
// has to wait for a guard or is over.
func (r *run) startAttempt(p *Policy, slept error) bool {
	if r.phase == unbegun {
		r.begin(p)
	} else {
		r.lap(p)
	}
	if slept != nil || r.ctx.Err() != nil {
		r.cancel(p, slept)
		return false
	}
	if r.stage == unopened {
		r.origin, r.errs, r.acted = r.idle, nil, false // the error of the run before is not this run's
		r.stage = opened
	}
	if len(p.Guards) > 0 && !r.enter(p) {
		return false
	}
	if r.number < math.MaxInt {
		r.number++
	}
	r.began = r.idle
	r.opCtx = r.numbered(r.number)
	if !r.prepare(p) {
		r.cancel(p, nil)
		return false
	}
	return true
}

// numbered returns the context for the attempt underway, which is the number-th of this process.
func (r *run) numbered(number int) context.Context {
	if number == 1 && r.class == Unknown && AttemptNumber(r.ctx) == 1 {
		return r.ctx
	}
	n := int32(min(number, math.MaxInt32))
	if i := number - 2; i >= 0 && i < len(r.home.contexts) { // there is a home, since an attempt has failed
		c := &r.home.contexts[i]
		*c = attemptContext{r.ctx, n, r.class}
		return c
	}
	return &attemptContext{r.ctx, n, r.class}
}

// prepare calls Hooks.Attempt and starts the attempt's timeout. It reports whether to
// call op: not if the run's context has ended meanwhile.
func (r *run) prepare(p *Policy) bool {
	readsClock := r.healthy > 0
	if p.Hooks.Attempt != nil {
		r.attemptHook(p)
		readsClock = readsClock || len(p.Guards) > 0 // else nobody can tell the time of the hook from op's
	}
	r.phase, r.op = attempting, uncalled // from here on Hooks.AttemptDone is owed, also if op is not called
	if p.Hooks.Attempt != nil && r.ctx.Err() != nil {
		return false
	}
	timed := p.AttemptTimeout > 0 && !r.untimed
	if timed {
		r.opCtx, r.expire = p.clock().WithTimeoutCause(r.opCtx, p.AttemptTimeout, ErrAttemptTimeout)
	}
	if r.up = r.began; readsClock {
		r.up = r.elapsed(p)
	}
	if (timed || readsClock) && r.ctx.Err() != nil { // a clock's methods may run any code
		return false
	}
	r.op = called
	return true
}
