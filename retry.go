package retry

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry/clockx"
)

// Do calls op until it succeeds or p says to stop, and returns op's value. When
// it gives up it returns the last value op gave and an *[Error].
//
// op is called on the caller's goroutine, with a context that ends with ctx and,
// if the policy has one, with the attempt's timeout: an op that ignores its
// context is not cut short. A panic or runtime.Goexit in op passes through. The
// package documentation lists the rules of a run. Do panics if ctx or op is nil.
func Do[T any](ctx context.Context, p Policy, op func(context.Context) (T, error)) (v T, err error) {
	if op == nil {
		panic("retry: nil op")
	}
	r := run{ctx: ctx}
	for attempt(&r, &p, op, &v) {
		r.woke(clockx.System().Sleep(r.ctx, r.pause()))
	}
	return v, r.err()
}

// Run is [Do] for an op without a value.
func Run(ctx context.Context, p Policy, op func(context.Context) error) error {
	if op == nil {
		panic("retry: nil op")
	}
	valued := func(ctx context.Context) (struct{}, error) { return struct{}{}, op(ctx) }
	r := run{ctx: ctx}
	for attempt(&r, &p, valued, new(struct{})) {
		r.woke(clockx.System().Sleep(r.ctx, r.pause()))
	}
	return r.err()
}

// Until turns a value that accept refuses into a failed attempt with the error
// [ErrRejected]; the value is still returned beside it. Use it to poll. A nil
// accept takes every value. Until panics if op is nil.
func Until[T any](op func(context.Context) (T, error), accept func(T) bool) func(context.Context) (T, error) {
	if op == nil {
		panic("retry: nil op")
	}
	return func(ctx context.Context) (T, error) {
		v, err := op(ctx)
		if err == nil && accept != nil && !accept(v) {
			err = ErrRejected
		}
		return v, err
	}
}

// AttemptNumber returns the number of the attempt that ctx was made for: 1 for
// the first, and outside of any run.
func AttemptNumber(ctx context.Context) int {
	if c, ok := ctx.Value(attemptKey{}).(*attemptContext); ok {
		return c.number
	}
	return 1
}

// WithAttemptNumber returns a context for attempt n, for code that drives a
// [Loop] itself: [AttemptNumber] returns n for it. An n below 1 counts as 1.
// WithAttemptNumber panics if ctx is nil.
func WithAttemptNumber(ctx context.Context, n int) context.Context {
	if ctx == nil {
		panic("retry: nil context")
	}
	return &attemptContext{ctx, max(n, 1)}
}

type attemptKey struct{}

// attemptContext carries an attempt's number: one allocation per retry, none for
// a first attempt.
type attemptContext struct {
	context.Context
	number int
}

func (c *attemptContext) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// epoch is what [time.Since] counts from where only differences matter: at half
// the price of [time.Now].
var epoch = time.Now()

// attempt makes a run's attempts. It returns true when the caller must sleep on
// the system clock and call it again, and false when the run has ended. It is all
// that the doors which wait share:
//
//	r := run{ctx: ctx}
//	for attempt(&r, &p, op, &v) {
//		r.woke(clockx.System().Sleep(r.ctx, r.pause()))
//	}
//	return v, r.err()
//
// Whatever may panic is called below attempt, which then closes the run. The
// system's Sleep cannot panic. The door calls it directly, so that a waiting
// goroutine still fits its initial stack of 2 KiB. On any other clock attempt
// sleeps itself: there a timer may run anything.
func attempt[T any](r *run, p *Policy, op func(context.Context) (T, error), v *T) (sleep bool) {
	defer r.close(p)
	for r.enter(p) {
		var err error
		*v, err = op(r.attempt)
		if !r.leave(p, err) {
			return false
		}
		if p.Clock == nil || p.Clock == clockx.System() {
			r.failure.asleep = true
			return true
		}
		r.woke(p.Clock.Sleep(r.ctx, r.pause()))
	}
	return false
}

// run is one run's state. Its shape comes from what it costs: p is handed to each
// method instead of being kept, since beside fields that end up on the heap it
// would end up there too; what only a failed attempt needs is in failure; and
// hooks are called from functions of their own, to keep what they need off the
// stack when there are none.
type run struct {
	ctx     context.Context    // the caller's, or what Hooks.Start made of it
	attempt context.Context    // for op
	cancel  context.CancelFunc // ends the attempt's timeout; nil if it has none
	failure *failure           // nil before the first
	start   time.Time          // not known if lazy
	since   time.Duration      // time.Since(epoch) at the start, if lazy
	lazy    bool               // nobody wants to know when it is, only how long it takes
	open    bool               // Hooks.Done and Budget.End are owed
	running bool               // Hooks.AttemptDone is owed
}

// failure is what a run needs once an attempt has failed: one allocation.
type failure struct {
	loop   state
	errs   [keep]error
	second attemptContext
	number int           // of the attempt underway, or the last one
	began  time.Duration // when that attempt began, since the run did; 0 for the first
	ended  time.Duration // when it ended
	sleep  error         // what the latest Sleep returned

	waiting bool // the wait after the latest attempt is not over
	asleep  bool // the same, and the door sleeps
}

// pause returns how long to sleep now.
func (r *run) pause() time.Duration { return r.failure.loop.wait }

// woke takes what the sleep returned.
func (r *run) woke(err error) { r.failure.sleep = err }

// enter begins the run, or goes on after a wait, and prepares the next attempt.
// It reports whether that is to be made.
func (r *run) enter(p *Policy) bool {
	if r.failure == nil {
		if !r.begin(p) {
			return false
		}
	} else if !r.resume(p) {
		return false
	}
	switch n := r.number(); {
	case n == 2:
		r.failure.second = attemptContext{r.ctx, 2}
		r.attempt = &r.failure.second
	case n > 2 || AttemptNumber(r.ctx) != 1: // a first attempt, but within another run's retry
		r.attempt = &attemptContext{r.ctx, n}
	default:
		r.attempt = r.ctx
	}
	if p.Hooks.Attempt != nil && !r.attemptHook(p) {
		return false
	}
	r.running = true
	if p.AttemptTimeout > 0 {
		r.attempt, r.cancel = p.clock().WithTimeoutCause(r.attempt, p.AttemptTimeout, ErrAttemptTimeout)
	}
	return true
}

// begin starts the run.
func (r *run) begin(p *Policy) bool {
	if r.ctx == nil {
		panic("retry: nil context")
	}
	if r.lazy = p.Clock == nil && p.Hooks.Wait == nil && p.Hooks.silent(); r.lazy {
		r.since = time.Since(epoch)
	} else {
		r.start = p.clock().Now()
	}
	if p.Hooks.Start != nil {
		r.startHook(p)
	}
	r.open = true
	if r.ctx.Err() != nil {
		p.Budget = nil // it was not told of this run; p is a copy of the caller's
		return r.canceled(p, r.elapsed(p), nil)
	}
	if p.Budget != nil {
		p.Budget.Begin()
	}
	return true
}

// resume goes on after a wait.
func (r *run) resume(p *Policy) bool {
	f := r.failure
	f.began = f.ended
	if f.loop.wait > 0 || p.Hooks.Wait != nil { // else no time has passed
		f.began = r.elapsed(p)
	}
	f.number++
	f.asleep, f.waiting = false, false
	f.loop.slept(f.began - f.ended)
	if f.sleep != nil || r.ctx.Err() != nil {
		return r.canceled(p, f.began, f.sleep)
	}
	return true
}

// leave takes what op returned, and reports whether a retry is to follow a wait.
func (r *run) leave(p *Policy, err error) bool {
	if err == nil && r.failure == nil {
		return r.succeed(p)
	}
	loop, more := r.loop(), false
	if err != nil || !p.Hooks.silent() { // else nobody wants to know the time
		r.failure.ended = r.elapsed(p)
	}
	if err != nil && r.ctx.Err() != nil {
		loop.record(err)
		loop.cancel(p, r.ctx, r.failure.ended, nil)
	} else {
		_, more = loop.next(p, r.failure.ended, r.left(p), err)
	}
	r.failure.waiting = more
	r.attemptDone(p, r.failure.ended, err)
	if !more {
		return r.done(p, r.failure.ended)
	}
	if p.Hooks.Wait != nil && r.ctx.Err() == nil {
		r.waitHook(p, err)
	}
	return true
}

//go:noinline
func (r *run) startHook(p *Policy) { r.ctx = either(p.Hooks.Start(r.ctx, *p), r.ctx) }

//go:noinline
func (r *run) waitHook(p *Policy, err error) {
	p.Hooks.Wait(r.ctx, r.describe(p, r.failure.ended, err))
}

// canceled ends the run because its context did, or the clock could not sleep.
func (r *run) canceled(p *Policy, elapsed time.Duration, sleep error) bool {
	r.loop().cancel(p, r.ctx, elapsed, sleep)
	if r.running {
		r.attemptDone(p, elapsed, context.Cause(r.ctx))
	}
	return r.done(p, elapsed)
}

// succeed ends a run whose first attempt succeeded, without a Loop.
func (r *run) succeed(p *Policy) bool {
	if b := p.Budget; b != nil {
		p.Budget = nil // told once, whatever hooks do; p is a copy of the caller's
		b.End(Unknown, true)
	}
	var elapsed time.Duration
	if !p.Hooks.silent() { // else nobody wants to know the time
		elapsed = r.elapsed(p)
	}
	r.attemptDone(p, elapsed, nil)
	return r.done(p, elapsed)
}

// attemptHook calls Hooks.Attempt, and ends the run if its context ended in there.
//
//go:noinline
func (r *run) attemptHook(p *Policy) bool {
	a := Attempt{Name: p.Name, Number: r.number(), Start: r.start}
	if r.failure != nil {
		a.Start, a.Elapsed = r.start.Add(r.failure.began), r.failure.began
	}
	r.attempt = either(p.Hooks.Attempt(r.attempt, a), r.attempt)
	r.running = true
	return r.ctx.Err() == nil || r.canceled(p, r.elapsed(p), nil)
}

// attemptDone closes the attempt that ended with err when the run was elapsed old.
func (r *run) attemptDone(p *Policy, elapsed time.Duration, err error) {
	r.running = false
	if p.Hooks.AttemptDone != nil {
		r.attemptDoneHook(p, elapsed, err)
	}
	r.expire()
}

//go:noinline
func (r *run) attemptDoneHook(p *Policy, elapsed time.Duration, err error) {
	p.Hooks.AttemptDone(r.attempt, r.describe(p, elapsed, err))
}

// expire frees the attempt's timeout.
func (r *run) expire() {
	if r.cancel != nil {
		r.cancel()
	}
}

// describe returns what hooks are told of the attempt that ended with err when
// the run was elapsed old.
func (r *run) describe(p *Policy, elapsed time.Duration, err error) Attempt {
	a := Attempt{
		Name:     p.Name,
		Number:   r.number(),
		Start:    r.start,
		Duration: elapsed,
		Elapsed:  elapsed,
		Err:      unmarked(err),
	}
	if r.failure != nil {
		a.Start, a.Duration = r.start.Add(r.failure.began), elapsed-r.failure.began
	}
	if err != nil {
		loop := r.loop()
		a.Class, a.Hint = loop.class, loop.hint
		if !loop.ended {
			a.Delay = loop.wait
		}
	}
	return a
}

// done closes the run. It returns false: no attempt is to follow.
func (r *run) done(p *Policy, elapsed time.Duration) bool {
	r.open = false
	if p.Hooks.Done != nil {
		r.doneHook(p, elapsed)
	}
	return false
}

//go:noinline
func (r *run) doneHook(p *Policy, elapsed time.Duration) {
	s := Summary{Name: p.Name, Attempts: 1, Elapsed: elapsed}
	if r.failure != nil {
		loop := r.loop()
		s.Attempts, s.Waited, s.Err = loop.attempts, loop.waited, loop.result()
		if loop.err != nil {
			s.Reason = loop.err.Reason
		}
	}
	p.Hooks.Done(r.ctx, s)
}

// close makes up for what a panic or Goexit in op or in a hook has skipped.
func (r *run) close(p *Policy) {
	if r.open && (r.failure == nil || !r.failure.asleep) {
		r.abort(p)
	}
}

func (r *run) abort(p *Policy) {
	elapsed := r.elapsed(p)
	loop := r.loop()
	defer r.done(p, elapsed)
	if r.failure.waiting {
		loop.slept(elapsed - r.failure.ended)
	}
	if !loop.ended {
		if r.running && loop.attempts < r.failure.number {
			loop.record(errPanic)
		}
		loop.stop(p, elapsed, ReasonPanic, errPanic)
	}
	if r.running {
		r.attemptDone(p, elapsed, errPanic)
	}
	r.expire()
}

// err returns what Do returns: a nil interface after a success.
func (r *run) err() error {
	if r.failure == nil {
		return nil
	}
	return r.failure.loop.result()
}

// number returns the number of the attempt underway, or of the last one.
func (r *run) number() int {
	if r.failure == nil {
		return 1
	}
	return r.failure.number
}

// elapsed reads the clock, and returns how old the run is.
func (r *run) elapsed(p *Policy) time.Duration {
	switch {
	case r.lazy:
		return time.Since(epoch) - r.since
	case p.Clock == nil:
		return time.Since(r.start) // at half the price of time.Now
	}
	return p.Clock.Now().Sub(r.start)
}

// left returns how long it is to the caller's deadline.
func (r *run) left(p *Policy) time.Duration {
	deadline, ok := r.ctx.Deadline()
	switch {
	case !ok:
		return math.MaxInt64
	case p.Clock == nil:
		return time.Until(deadline)
	}
	return deadline.Sub(p.Clock.Now())
}

// loop returns the run's Loop, which is made when an attempt first fails.
func (r *run) loop() *state {
	if r.failure == nil {
		f := &failure{number: 1}
		f.loop.errs = f.errs[:0]
		r.failure = f
	}
	return &r.failure.loop
}
