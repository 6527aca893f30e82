package hedge

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hedging"
	"github.com/goretry/retry/internal/readings"
	"github.com/goretry/retry/internal/timers"
)

// race is one call: attempts beside each other, of which one becomes the result. It has their
// goroutines, contexts and values. What to start and which attempt wins, its [hedging.Call]
// decides.
//
// The first attempt runs on the caller's goroutine, each further one on the goroutine of the timer
// that started it. So no goroutine starts before a delay has passed. The caller waits for all of
// them.
//
// An attempt ends in this order:
//
//  1. op returns. When it did, and what its context said then, is noted for the guards.
//  2. Its error is judged: Policy.Classify.
//  3. The call counts the end. If that decides it, the contexts of the others end.
//  4. The guards get what the attempt has come to, unless Value.Keep may want the passes of the
//     winner. See passes.go.
//
// If anything panics or exits before the end is counted, the call is over without a result, and all
// contexts end. Then step 4 follows just the same. A clock, a context or a budget may panic at any
// of these steps, and when the race ends: see inTurn.
type race[T any] struct {
	op       func(context.Context) (T, error)
	value    Value[T]
	classify retry.Classifier
	policy   *retry.Policy // with the guards; nil if there are none
	hedged   func(context.Context, Summary)
	rules    hedging.Rules
	ctx      context.Context
	open     sync.WaitGroup // timers that may still fire, and the attempts that they have started
	returned bool           // the caller owns the result

	// mu is of what follows. Who holds it may cancel the context of an attempt: no code that a
	// context runs at its end may need the race.
	mu       sync.Mutex
	call     hedging.Call
	alarm    *timers.Alarm // for the next hedge; nil if none is set, or it has rung
	asking   *attempt[T]   // a hedge that is wanted and has not started: the guards may be deciding about it
	first    attempt[T]    // of the list of all that were wanted
	winner   *attempt[T]   // the one that came to the stage won
	errs     []error       // of those that failed before any decided, in that order
	panicked *panicValue   // of a hedge; with recovered nil it has called runtime.Goexit
}

func newRace[T any](ctx context.Context, p *retry.Policy, h *Hedge, op func(context.Context) (T, error), v Value[T]) *race[T] {
	r := &race[T]{ctx: ctx, op: op, value: v, classify: p.Classify, hedged: h.Hedged, rules: h.rules()}
	r.rules.Name, r.rules.PolicyBudget, r.rules.Clock = p.Name, p.Budget, readings.Clock(p.Clock)
	if len(p.Guards) > 0 {
		r.policy = new(*p)
	}
	return r
}

// result makes the call. If it does not return, because something panics or exits, every value is
// discarded and every context ended.
func (r *race[T]) result() (T, error) {
	defer r.discardUnlessReturned()
	r.makeAttempts()
	switch { // what a hedge has panicked with, or a budget or guard before one
	case r.panicked == nil:
	case r.panicked.recovered == nil:
		runtime.Goexit()
	default:
		panic(r.panicked)
	}
	return r.handOver()
}

// makeAttempts makes the first attempt, and returns when all have ended. A panic or Goexit of the
// first one passes through.
func (r *race[T]) makeAttempts() {
	begun := r.rules.Clock.Now()
	r.call = r.rules.Begin(begun)
	a := &r.first
	defer inTurn(
		func() { r.endAttempt(a) },
		r.disarm,
		r.open.Wait, // then all attempts have ended
		r.call.End,
		func() { r.discardFrom(a, r.winner) },
		r.tellHedged,
	)
	r.add(a, 1)
	a.stage = running
	a.passes.begin(begun)
	if deadline, ok := r.ctx.Deadline(); !ok || !r.call.Within(deadline) {
		r.armFirst()
	}
	r.run(a)
}

// inTurn calls the first of steps, and then the others, whatever panics or exits.
func inTurn(steps ...func()) {
	if len(steps) > 0 {
		defer inTurn(steps[1:]...)
		steps[0]()
	}
}

func (r *race[T]) tellHedged() {
	if c := &r.call; c.Hedged && r.hedged != nil {
		r.hedged(r.ctx, Summary{Name: r.rules.Name, Started: c.Started, Winner: c.Winner, Refused: c.Refused, Delay: c.Delay})
	}
}

// handOver returns what the winner has come to. The caller owns it then.
func (r *race[T]) handOver() (value T, err error) {
	a := r.winner
	value, err = a.value, a.err
	if err == nil && r.value.Hold != nil {
		value = r.value.Hold(value, func() { a.cancel(nil) })
	} else {
		a.cancel(nil)
	}
	if !r.call.Decided && len(r.errs) > 1 {
		err = &failures{r.errs}
	}
	if p := &a.passes; p.giveBack != nil && r.value.Keep != nil {
		r.value.Keep(p.giveBack, p.exit)
	}
	r.returned = true
	return value, err
}

// discardUnlessReturned discards all that is left of a race which something has ended by a panic.
func (r *race[T]) discardUnlessReturned() {
	if r.returned {
		return
	}
	if r.winner != nil {
		defer r.winner.passes.tell() // if the guards know already, this does nothing
	}
	r.discardFrom(&r.first, nil)
}

// add makes a's context, and takes a into the race.
func (r *race[T]) add(a *attempt[T], number int) {
	a.Context, a.cancel = context.WithCancelCause(r.ctx)
	a.number = int32(number)
	if a != &r.first {
		a.next, r.first.next = r.first.next, a
	}
}

func (r *race[T]) armFirst() {
	r.mu.Lock()
	defer r.mu.Unlock() // also if a clock panics
	r.arm()
}

// arm sets the alarm for the next hedge, with the mutex held: one that rings at once waits for it.
func (r *race[T]) arm() {
	if d, clock := r.call.Delay, r.rules.Clock; readings.System(clock) {
		r.alarm = timers.SetAlarm(d, r)
	} else {
		ctx, cancel := clock.WithTimeoutCause(context.Background(), d, nil)
		r.alarm = timers.SetAlarmOn(ctx, cancel, r)
	}
	r.open.Add(1)
}

// disarm stops the alarm, if one is set. It counts as stopped if Stop panics.
func (r *race[T]) disarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, rings := r.alarm, false
	if a == nil {
		return
	}
	r.alarm = nil
	defer func() {
		if !rings {
			r.open.Done()
		}
	}()
	rings = !a.Stop()
}

// Ring is what alarm calls when the delay has passed. A panic in here becomes the caller's.
func (r *race[T]) Ring(alarm *timers.Alarm) {
	returns := false
	defer r.open.Done()
	defer func() {
		if !returns {
			r.keepPanic(recover())
		}
	}()
	defer func() { // this may panic too, so it comes before recover
		if !returns {
			r.abort(nil)
		}
	}()
	r.hedge(alarm)
	returns = true
}

// hedge makes an attempt beside those that run, if one is wanted and nobody refuses it.
func (r *race[T]) hedge(alarm *timers.Alarm) {
	a, refused := r.want(alarm)
	if a == nil {
		return
	}
	defer r.endAttempt(a)
	if refused == nil {
		refused = r.admit(a) // without the mutex: the call may be over after it, which start sees
	}
	if r.start(a, refused) {
		a.passes.begin(r.rules.Clock.Now())
		r.run(a)
	}
}

// want returns the attempt that is wanted now, or nil, and why it must not start nevertheless.
func (r *race[T]) want(alarm *timers.Alarm) (a *attempt[T], refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarm = nil // it was this one, unless disarm has come first
	alarm.Free()
	wanted, refused := r.call.DelayOver(r.rules.Clock.Now(), r.ctx.Err() != nil)
	if !wanted {
		return nil, nil
	}
	a = new(attempt[T])
	r.add(a, r.call.Started+1)
	r.asking = a
	return a, refused
}

// start reports whether to make a, unless it is refused, and sees to it that the next one is wanted
// in time.
func (r *race[T]) start(a *attempt[T], refused error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = nil
	starts, again := r.call.Start(refused, r.ctx.Err() != nil)
	if starts {
		a.stage = running
	}
	if again {
		r.arm()
	}
	return starts
}

// run calls op, and takes what it returns.
func (r *race[T]) run(a *attempt[T]) {
	a.value, a.err = r.op(a)
	a.owned = true
	at := r.rules.Clock.Now()
	r.noteEnd(a, at)
	v, told := a.judge(r.classify)
	r.settle(a, told)
	r.count(a, at, v)
}

// count takes what the end of an attempt means.
func (r *race[T]) count(a *attempt[T], at time.Time, v retry.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	canceled := r.ctx.Err() != nil
	a.stage = counted // also if the policy's budget panics in Done
	switch r.call.Done(int(a.number), at, hedging.EndingOf(v), v.Hint, canceled) {
	case hedging.Decides:
		a.stage, r.winner = won, a
		r.endOthers(a)
	case hedging.FailsLast:
		a.stage, r.winner = won, a
		fallthrough
	case hedging.FailsBesideOthers:
		r.errs = append(r.errs, a.err)
		if r.asking != nil { // none starts after a failure
			r.asking.cancel(ErrLost)
		}
	}
}

// endAttempt takes the steps that are owed at the end of an attempt, also of one that did not
// start.
func (r *race[T]) endAttempt(a *attempt[T]) {
	defer r.tellUnlessKept(a)
	if a.stage == running { // op or another func of the caller's has panicked or exited
		r.abort(a)
	}
}

// abort ends the call without a result, because a has panicked or exited: a hedge if a is nil,
// whose end the call does not count, or has counted.
func (r *race[T]) abort(a *attempt[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.endOthers(nil)
	r.call.Over()
	if a != nil {
		r.call.Abort(int(a.number))
	}
}

// keepPanic keeps what the goroutine of a hedge has panicked with for the caller's goroutine; nil
// stands for runtime.Goexit.
func (r *race[T]) keepPanic(recovered any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panicked == nil || r.panicked.recovered == nil {
		r.panicked = &panicValue{recovered, debug.Stack()}
	}
}

// endOthers ends the contexts of all attempts but one, with the mutex held. If one panics the rest
// end all the same.
func (r *race[T]) endOthers(winner *attempt[T]) {
	for a := &r.first; a != nil; a = a.next {
		if a != winner {
			defer a.cancel(ErrLost)
		}
	}
}

// discardFrom ends the contexts and discards the values of all attempts from a on but one. If one
// panics the rest follow all the same.
func (r *race[T]) discardFrom(a, but *attempt[T]) {
	if a == nil {
		return
	}
	defer r.discardFrom(a.next, but)
	if a == but {
		return
	}
	if a.owned {
		a.owned = false
		defer r.value.discard(a.value, a.err)
	}
	if a.cancel != nil { // nil if making the context has panicked
		a.cancel(ErrLost)
	}
}
