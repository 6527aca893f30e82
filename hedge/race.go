package hedge

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ending"
	"github.com/goretry/retry/internal/hedging"
)

// race is one call. The first attempt runs on the caller's goroutine, each further one
// on the goroutine of the timer that started it. So no goroutine starts before a delay
// has passed.
type race[T any] struct {
	*hedged[T]
	ctx  context.Context
	open sync.WaitGroup // timers that may still fire, and the attempts that they have started

	mu       sync.Mutex // of what follows
	call     hedging.Call
	timer    timer // nil if there is none
	first    attempt[T]
	chosen   *attempt[T] // that has decided the call, or else failed last
	errs     []error     // of those that failed before any decided, in that order
	panicked *panicValue // of a hedge; with recovered nil it has called runtime.Goexit
}

// guarded is what an attempt has to do with the policy's guards.
type guarded struct {
	leave func(retry.Exit) // nil for the first attempt, which the run has admitted
	began time.Time
	exit  retry.Exit // what the attempt came to
}

// attempt is one attempt, and the context it gets.
type attempt[T any] struct {
	context.Context
	cancel   context.CancelCauseFunc
	next     *attempt[T] // of the call, in no order
	guarded  *guarded    // nil without guards
	value    T
	err      error
	number   int32
	entering bool // the guards are asked for it
	returned bool // op has, with value and err
	judged   bool // and all is known that decides what it means to the call: nothing has panicked
	freed    bool // its value is discarded, or being so
}

func (a *attempt[T]) attemptNumber() int { return int(a.number) }

func (a *attempt[T]) Value(key any) any {
	if _, ok := key.(numberKey); ok {
		return a
	}
	return a.Context.Value(key)
}

// call makes one call.
func (o *hedged[T]) call(ctx context.Context) (value T, err error) {
	r := &race[T]{hedged: o, ctx: ctx, call: o.Begin(now(o.policy.Clock))}
	defer r.settle(&value, &err) // a panic or Goexit in the first attempt comes by here as well
	r.begin(&r.first, 1)
	if len(o.policy.Guards) > 0 {
		r.first.guarded = new(guarded)
	}
	if deadline, ok := ctx.Deadline(); !ok || !r.call.Within(deadline) {
		r.armFirst()
	}
	r.run(&r.first)
	return // what settle sets
}

func (r *race[T]) begin(a *attempt[T], number int) {
	a.Context, a.cancel = context.WithCancelCause(r.ctx)
	a.number = int32(number)
}

func (r *race[T]) armFirst() {
	r.mu.Lock()
	defer r.mu.Unlock() // also if a clock panics
	r.arm()
}

// arm starts the timer for the next hedge, with the mutex held: one that fires at once
// waits for it.
func (r *race[T]) arm() {
	r.timer = after(r.policy.Clock, r.call.Delay, r.hedge)
	r.open.Add(1)
}

// hedge is what the timer calls. A panic in here becomes the caller's.
func (r *race[T]) hedge() {
	ended := false
	defer r.open.Done()
	defer func() {
		if !ended {
			r.catch(recover())
		}
	}()
	if a := r.next(); a != nil {
		r.run(a)
	}
	ended = true
}

// next returns the attempt to make now that the delay has passed, or nil.
func (r *race[T]) next() *attempt[T] {
	a, ready := new(attempt[T]), false
	defer func() {
		if a.guarded != nil && !ready { // without the mutex, as in admit
			a.guarded.leave(retry.Exit{})
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.Stop() // it has fired; a clock may want to know that it is not needed any more
	wanted, refused := r.call.Passed(now(r.policy.Clock), r.ctx.Err() != nil)
	if !wanted {
		return nil
	}
	r.begin(a, r.call.Started+1)
	a.next, r.first.next = r.first.next, a
	if refused == nil {
		refused = r.admit(a)
	}
	starts, again := r.call.Start(refused, r.ctx.Err() != nil)
	defer func() {
		if starts && !ready { // the clock has panicked
			r.call.Abort(r.call.Started)
		}
	}()
	if again {
		r.arm()
	}
	if ready = starts; !ready {
		return nil
	}
	return a
}

// admit asks the guards for a, and returns why they refuse it. It unlocks the mutex meanwhile:
// guards may take their time, and end with a's context.
func (r *race[T]) admit(a *attempt[T]) error {
	if len(r.policy.Guards) == 0 {
		return nil
	}
	a.entering = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		a.entering = false
	}()
	leave, err := r.policy.Admit(a, retry.Entry{Number: retry.AttemptNumber(r.ctx), Hedge: true})
	if err != nil {
		return &hedging.Guarded{Err: err}
	}
	a.guarded = &guarded{leave: leave}
	return nil
}

// run makes an attempt and takes what it returns.
func (r *race[T]) run(a *attempt[T]) {
	defer func() {
		if !a.judged {
			r.abort(a)
		}
	}()
	if g := a.guarded; g != nil {
		g.began, g.exit.Ending = now(r.policy.Clock), retry.Panicked
	}
	a.value, a.err = r.op(a)
	a.returned = true
	v := r.policy.Judge(a.err)
	if g := a.guarded; g != nil {
		g.exit = exitOf(a, v, g.began, now(r.policy.Clock))
	}
	if lost := r.done(a, hedging.EndingOf(v), v.Hint); lost && a.number > 1 && a.guarded != nil {
		a.guarded.leave(a.guarded.exit)
	}
}

// exitOf returns what guards get about an attempt.
func exitOf(ctx context.Context, v retry.Verdict, began, ended time.Time) retry.Exit {
	x := retry.Exit{Ending: retry.Returned, Verdict: v, Took: max(ended.Sub(began), 0)}
	deadline, timed := ctx.Deadline()
	if timed {
		x.Allowed = max(deadline.Sub(began), 1)
	}
	switch how := ending.Of(ctx); {
	case how == retry.Canceled:
		x.Ending = retry.Canceled
	case v.Err == nil, v.IsAnswer():
	case how == retry.Expired, timed && !deadline.After(ended):
		x.Ending = retry.Expired
	}
	return x
}

// done takes what the end of an attempt means. It reports whether the attempt has nothing
// more to do with what the race comes to.
func (r *race[T]) done(a *attempt[T], how hedging.Ending, hint time.Duration) (lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, canceled := now(r.policy.Clock), r.ctx.Err() != nil
	a.judged = true
	open := !r.call.Decided
	decides := r.call.Done(int(a.number), at, how, hint, canceled)
	switch {
	case decides:
		r.chosen = a
		r.end(a)
	case open:
		r.chosen = a
		r.errs = append(r.errs, a.err)
		r.bar()
	}
	return !decides && (!open || r.call.Running())
}

// bar ends the context of an attempt that is not made yet, with the mutex held: none starts
// after a failure.
func (r *race[T]) bar() {
	for a := r.first.next; a != nil; a = a.next {
		if a.entering {
			a.cancel(ErrLost)
		}
	}
}

// abort ends the call because an attempt has panicked or exited.
func (r *race[T]) abort(a *attempt[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call.Abort(int(a.number))
	r.chosen = nil
	r.end(nil)
}

// end ends the contexts of all attempts but one, with the mutex held.
func (r *race[T]) end(winner *attempt[T]) {
	for a := &r.first; a != nil; a = a.next {
		if a != winner {
			a.cancel(ErrLost)
		}
	}
}

// catch keeps what a hedge, or a budget before it, has panicked with for the
// caller's goroutine; nil stands for runtime.Goexit.
func (r *race[T]) catch(recovered any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call.Decided, r.call.Winner = true, 0
	r.end(nil)
	if r.panicked == nil || r.panicked.recovered == nil {
		r.panicked = &panicValue{recovered, debug.Stack()}
	}
}

// settle waits for all attempts, closes what the call has opened, and makes its
// result of what is chosen. The panic of a hedge starts again here; one of the first
// attempt just goes on. If a budget or a func of the caller's panics here, nothing is
// returned: the chosen value is freed as the others are.
func (r *race[T]) settle(value *T, err *error) {
	r.mu.Lock()
	if r.timer != nil && r.timer.Stop() {
		r.open.Done()
	}
	r.mu.Unlock()
	r.open.Wait()

	returns := false
	defer func() {
		if !returns {
			r.chosen = nil
			r.free(&r.first)
		}
	}()
	r.leave(r.first.next)
	r.call.End()
	r.free(&r.first)
	if r.call.Hedged && r.hook != nil {
		r.hook(r.ctx, r.summary())
	}
	switch a := r.chosen; {
	case !r.first.judged:
	case r.panicked != nil && r.panicked.recovered == nil:
		runtime.Goexit()
	case r.panicked != nil:
		panic(r.panicked)
	case a.err == nil && r.value.Hold != nil:
		*value = r.value.Hold(a.value, func() { a.cancel(nil) })
	default:
		a.cancel(nil)
		*value, *err = a.value, a.err
		if !r.call.Decided && len(r.errs) > 1 {
			*err = &failures{r.errs}
		}
	}
	returns = true
}

// leave tells the guards what the attempts came to from a on, which are hedges, unless they
// know it. The run tells them what the race came to, which is what the chosen one came to: so
// if that is a hedge, it speaks for the first attempt.
func (r *race[T]) leave(a *attempt[T]) {
	if a == nil {
		return
	}
	defer r.leave(a.next) // whatever panics
	switch g := a.guarded; {
	case g == nil:
	case a == r.chosen:
		g.leave(r.first.guarded.exit)
	default:
		g.leave(g.exit)
	}
}

// free frees what the attempts hold that are not chosen, from a on. If one panics the
// rest are freed all the same.
func (r *race[T]) free(a *attempt[T]) {
	if a == nil {
		return
	}
	defer r.free(a.next)
	if a == r.chosen || a.freed {
		return
	}
	a.freed = true
	a.cancel(ErrLost)
	if a.returned {
		r.value.discard(a.value, a.err)
	}
}

func (r *race[T]) summary() Summary {
	return Summary{
		Name:    r.policy.Name,
		Started: r.call.Started,
		Winner:  r.call.Winner,
		Refused: r.call.Refused,
		Delay:   r.call.Delay,
	}
}
