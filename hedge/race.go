package hedge

import (
	"context"
	"math"
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
//
// This is the rule for the policy's guards. Each copy holds passes of its own: the first one
// those of the run, which [Value].Take takes from it at the end, a hedge those from
// [retry.Policy.Admit].
// What a copy came to is one [retry.Exit], made when op has returned or panicked. The guards
// get it with the passes of that copy, once, and at that moment, whatever the others do: the run
// has no passes any more, and tells them nothing. Only the copy whose result is returned may
// keep its passes, for [Value].Keep. If the first copy panics, the run tells that.
type race[T any] struct {
	hedged[T]
	ctx  context.Context
	open sync.WaitGroup // timers that may still fire, and the attempts that they have started
	calm bool           // the first attempt, and all around it, has not panicked

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
	leave func(retry.Exit) // nil once they have got exit, or somebody else tells them
	began time.Time
	exit  retry.Exit // what the attempt has come to
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
	r := &race[T]{hedged: *o, ctx: ctx}
	if o.guards != nil {
		r.first.guarded = new(guarded)
	}
	defer r.settle(&value, &err) // a panic or Goexit in the first attempt comes by here as well
	start := now(o.Clock)
	r.call = r.Begin(start)
	r.begin(&r.first, 1, start)
	if deadline, ok := ctx.Deadline(); !ok || !r.call.Within(deadline) {
		r.armFirst()
	}
	r.run(&r.first)
	r.calm = true
	return // what settle sets
}

func (r *race[T]) begin(a *attempt[T], number int, at time.Time) {
	a.Context, a.cancel = context.WithCancelCause(r.ctx)
	a.number = int32(number)
	if a.guarded != nil {
		a.guarded.began = at
	}
}

func (r *race[T]) armFirst() {
	r.mu.Lock()
	defer r.mu.Unlock() // also if a clock panics
	r.arm()
}

// arm starts the timer for the next hedge, with the mutex held: one that fires at once
// waits for it.
func (r *race[T]) arm() {
	r.timer = after(r.Clock, r.call.Delay, r.hedge)
	r.open.Add(1)
}

// disarm stops the timer, if there is one.
func (r *race[T]) disarm() {
	r.mu.Lock()
	defer r.mu.Unlock() // also if a clock panics
	if r.timer != nil && r.timer.Stop() {
		r.open.Done()
	}
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
	a, handedOver := new(attempt[T]), false
	defer func() {
		if !handedOver { // without the mutex, as in admit
			a.tell()
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.Stop() // it has fired; a clock may want to know that it is not needed any more
	wanted, refused := r.call.Passed(now(r.Clock), r.ctx.Err() != nil)
	if !wanted {
		return nil
	}
	r.begin(a, r.call.Started+1, time.Time{})
	a.next, r.first.next = r.first.next, a
	if refused == nil {
		refused = r.admit(a) // without the mutex: the call may be over now, which Start sees
	}
	starts, again := r.call.Start(refused, r.ctx.Err() != nil)
	defer func() {
		if starts && !handedOver { // the clock has panicked
			r.call.Abort(r.call.Started)
		}
	}()
	if again {
		r.arm()
	}
	if handedOver = starts; !handedOver {
		return nil
	}
	return a
}

// admit asks the guards for a, and returns why they refuse it. It unlocks the mutex meanwhile:
// guards may take their time, and end with a's context.
func (r *race[T]) admit(a *attempt[T]) error {
	if r.guards == nil {
		return nil
	}
	a.entering = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		a.entering = false
	}()
	leave, err := r.guards.Admit(a, retry.Entry{Hedge: true})
	if err != nil {
		return &hedging.Guarded{Err: err}
	}
	a.guarded = &guarded{leave: leave}
	return nil
}

// run makes an attempt and takes what it returns. The guards learn it last.
func (r *race[T]) run(a *attempt[T]) {
	defer func() {
		if !a.judged {
			defer a.tell()
			r.abort(a)
			if !a.returned { // otherwise what it came to is known: a func of the caller's has panicked after it
				r.recordExit(a, retry.Verdict{})
			}
		}
	}()
	if g := a.guarded; g != nil {
		if a != &r.first {
			g.began = now(r.Clock)
		}
		g.exit.Ending = retry.Panicked
	}
	a.value, a.err = r.op(a)
	a.returned = true
	v, told := r.verdict(a)
	if g := a.guarded; g != nil {
		g.exit.Ending = retry.Returned
		r.recordExit(a, told)
		if a == &r.first && r.value.Take != nil {
			g.leave = r.value.Take() // the run's own passes: they end with this copy, or with its value
		}
	}
	if result := r.done(a, hedging.EndingOf(v), v.Hint); !result || r.value.Keep == nil {
		a.tell()
	}
}

// verdict returns what the end of a's op means, and what the guards get of that. Nobody
// judges the error of a copy which its caller or a faster copy has ended, unless it is an Answer.
func (r *race[T]) verdict(a *attempt[T]) (v, told retry.Verdict) {
	expired := context.Cause(a) == retry.ErrAttemptTimeout
	unjudged := a.err != nil && a.Err() != nil && !expired
	p := retry.Policy{Classify: r.classify}
	if unjudged {
		p.Classify = nil
	}
	v = p.Judge(a.err)
	if expired && v.Class == retry.Transient {
		v.Class = retry.TimedOut
	}
	if told = v; a.guarded != nil {
		if e, ok := v.Err.(interface{ Verdict() retry.Verdict }); ok {
			told = e.Verdict()
		}
	}
	if unjudged && !v.IsAnswer() {
		v, told = retry.Verdict{Err: v.Err, Hint: v.Hint, Now: v.Now}, retry.Verdict{Err: told.Err}
	}
	return v, told
}

// recordExit completes what the guards get about a, which has just ended: Ending is Panicked, or
// Returned.
func (r *race[T]) recordExit(a *attempt[T], v retry.Verdict) {
	g := a.guarded
	if g == nil {
		return
	}
	x := &g.exit
	x.Verdict, x.Took = v, max(now(r.Clock).Sub(g.began), 0)
	left := time.Duration(math.MaxInt64)
	if t := r.guards.AttemptTimeout; t > 0 { // the context need not have that deadline
		left = t - g.began.Sub(r.first.guarded.began)
	}
	if deadline, ok := a.Deadline(); ok {
		left = min(left, deadline.Sub(g.began))
	}
	if left < math.MaxInt64 {
		x.Allowed = max(left, 1)
	}
	if x.Ending != retry.Returned {
		return
	}
	switch how := ending.Of(a); {
	case how == retry.Canceled:
		x.Ending = retry.Canceled
	case v.Err == nil, v.IsAnswer():
	case how == retry.Expired, x.Allowed > 0 && x.Took >= x.Allowed:
		x.Ending = retry.Expired
	}
}

// tell tells the guards what a has come to, unless they know it.
func (a *attempt[T]) tell() {
	if g := a.guarded; g != nil && g.leave != nil {
		leave := g.leave
		g.leave = nil
		leave(g.exit)
	}
}

// done takes what the end of an attempt means. It reports whether the call returns what the
// attempt has come to, if nothing panics.
func (r *race[T]) done(a *attempt[T], how hedging.Ending, hint time.Duration) (result bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, canceled := now(r.Clock), r.ctx.Err() != nil
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
	return decides || open && !r.call.Running()
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
// attempt just goes on. If a budget, a guard or a func of the caller's has panicked, nothing
// is returned: the chosen value is freed as the others are.
func (r *race[T]) settle(value *T, err *error) {
	returns := false
	defer func() {
		if !returns {
			r.chosen = nil
			defer r.tellAll(&r.first)
			r.free(&r.first)
		}
	}()
	if r.call.Started == 0 { // the clock or the budget has panicked
		return
	}
	r.disarm()
	r.open.Wait()

	r.call.End()
	r.free(&r.first)
	if r.call.Hedged && r.hook != nil {
		r.hook(r.ctx, r.summary())
	}
	a := r.chosen
	switch {
	case !r.calm:
		return
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
	if g := a.guarded; g != nil && g.leave != nil { // not told, because there is a Keep
		r.value.Keep(g.leave, g.exit) // if it panics, tell leaves
		g.leave = nil
	}
	returns = true
}

// tellAll tells the guards what the attempts have come to from a on, if they do not know. If one
// panics they learn the rest all the same.
func (r *race[T]) tellAll(a *attempt[T]) {
	if a != nil {
		defer r.tellAll(a.next)
		a.tell()
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
	if a.cancel != nil {
		a.cancel(ErrLost)
	}
	if a.returned {
		r.value.discard(a.value, a.err)
	}
}

func (r *race[T]) summary() Summary {
	return Summary{
		Name:    r.Name,
		Started: r.call.Started,
		Winner:  r.call.Winner,
		Refused: r.call.Refused,
		Delay:   r.call.Delay,
	}
}
