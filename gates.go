package retry

// May call: end.go, guard.go, stopwatch.go, hooks.go, loop.go, verdict.go, policy.go, backoff.go, errors.go.

import (
	"context"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/internal/paced"
	"github.com/goretry/retry/internal/timers"
)

// gates is where a run stands among the guards with its next attempt, or with the one
// underway. It is not part of the run, which must be small, and goes from run to run.
type gates struct {
	passes  []admission // of the first guards of Policy.Guards, in order
	pending bool        // the last of passes says to wait: its guard is to be asked again, or to admit the attempt after that
	woken   bool        // that guard has woken the run
	paces   bool        // one of the passes of the latest attempt has Paces
}

var idleGates = sync.Pool{New: func() any { return new(gates) }}

// admitted returns how many guards have admitted the attempt.
func (g *gates) admitted() int {
	if g.pending {
		return len(g.passes) - 1
	}
	return len(g.passes)
}

// last returns the pass that is pending.
func (g *gates) last() *Pass { return &g.passes[len(g.passes)-1].pass }

// add takes the pass that the next guard has returned, in place of its earlier one.
//
//go:noinline
func (g *gates) add(guard Guard, pass Pass) {
	g.passes = append(g.passes[:g.admitted()], admission{guard, pass})
	g.pending, g.woken = pass.waits(), false
	g.paces = g.paces || pass.Paces
}

// drop forgets the pass that is pending.
func (g *gates) drop() {
	n := g.admitted()
	clear(g.passes[n:])
	g.passes, g.pending = g.passes[:n], false
}

// waker returns the channel that ends the wait for a guard, nil if time alone does.
func (r *run) waker() <-chan struct{} {
	if r.gates == nil || !r.gates.pending {
		return nil
	}
	return r.gates.last().Wake
}

// enter asks the guards that have not admitted the next attempt, and reports whether all
// have. If not, r is to wait, or is over.
//
//go:noinline
func (r *run) enter(p *Policy) bool {
	g := r.gates
	if g == nil {
		g = idleGates.Get().(*gates)
		r.gates = g
	}
	if r.resumed && r.number == 0 { // without passes: the guards have admitted this attempt before, and were left
		return true
	}
	if len(g.passes) == 0 {
		g.paces = false // those of the attempt before
	}
	if g.pending && !r.askAgain(p) {
		return false
	}
	for n := len(g.passes); n < len(p.Guards); n++ {
		if !r.ask(p, p.Guards[n]) {
			return false
		}
	}
	r.lap(p)
	return r.ctx.Err() == nil || r.canceled(p, nil) // a guard and a clock may run any code
}

// ask asks the next guard about the next attempt, and reports whether the guard admits it now. If
// not, r is to wait, or is over.
func (r *run) ask(p *Policy, guard Guard) bool {
	if guard == nil {
		r.gates.add(nil, Pass{})
		return true
	}
	pass, err := guard.Enter(r.ctx, r.entry(p, Pass{}))
	if err != nil {
		return r.refused(p, guard, err)
	}
	return r.take(p, guard, pass, true)
}

// askAgain does so after a wait, with the guard that r has waited for.
func (r *run) askAgain(p *Policy) bool {
	g := r.gates
	waiter := g.passes[len(g.passes)-1]
	switch {
	case r.cutShort(p, &waiter.pass):
		return r.refused(p, waiter.guard, Stop(paced.Late(0)))
	case !waiter.pass.Again: // the wait was all that it asked for
		g.pending = false
		return true
	}
	pass, err := waiter.guard.Enter(r.ctx, r.entry(p, waiter.pass))
	if err != nil {
		g.drop() // err has ended the earlier pass
		return r.refused(p, waiter.guard, err)
	}
	return r.take(p, waiter.guard, pass, false)
}

// take takes the pass that a guard has returned, the first one for this attempt or a later one.
func (r *run) take(p *Policy, guard Guard, pass Pass, first bool) bool {
	pass = pass.checked()
	r.gates.add(guard, pass)
	switch {
	case !r.gates.pending:
		return true
	case pass.Wait >= r.patience(p):
		return r.refused(p, guard, Stop(paced.Late(pass.Wait)))
	}
	r.await(p, &pass)
	if first && p.Hooks.Guard != nil && r.ctx.Err() == nil { // else r ends, and does not wait: a guard and a clock may run any code
		r.guardHook(p, Held{Guard: nameOf(guard), Delay: pass.Wait})
	}
	return false
}

// await prepares a wait for a guard: for the Wait of the pass, or until MaxElapsed ends, if that
// comes first or nothing but a Wake ends the wait. All of it counts as waited already; resume
// corrects that.
func (r *run) await(p *Policy, pass *Pass) {
	r.ended = r.lap(p)
	d := max(r.untilMaxElapsed(p, r.ended), 0)
	if !pass.untimed() {
		d = min(d, pass.Wait)
	}
	d = min(d, math.MaxInt64-r.waited)
	r.wait, r.waited = d, sum(r.waited, d)
	r.phase = waiting
}

// cutShort reports whether the wait for a guard has ended before what ends it came.
func (r *run) cutShort(p *Policy, pass *Pass) bool {
	over := p.MaxElapsed > 0 && r.untilMaxElapsed(p, r.began) <= 0
	if over && pass.Again { // there is no time to ask again
		return true
	}
	truncated := pass.untimed() || over && r.wait < pass.Wait // by await
	return truncated && !r.gates.woken
}

// entry returns what a guard gets about the next attempt.
func (r *run) entry(p *Policy, earlier Pass) Entry {
	return Entry{Name: p.Name, Number: r.number + 1, Class: r.class, Patience: r.patience(p), Clock: p.clock(), Rand: p.Rand, Earlier: earlier}
}

// refused ends the try of an attempt that a guard has refused. It returns false: r is to
// wait before it asks all guards again, or is over. The order counts: each of the calls may
// panic, and abort must find what is still owed.
//
//go:noinline
func (r *run) refused(p *Policy, guard Guard, err error) bool {
	// The other guards are left first, with this error. Classify is called after it.
	r.leaveGuards(p, Exit{Verdict: Verdict{Err: unmarked(err)}})
	var v Verdict
	v.judge(p, err, r.healthy > 0)
	if v.Class == Transient {
		v.Class = Unprocessed
	}
	v.Undone, v.Partial, v.Answered = true, false, false

	// All of that was no attempt. A wait begins after it, unless the run was ended meanwhile.
	r.ended = r.lap(p)
	if r.ctx.Err() != nil {
		return r.canceled(p, nil)
	}

	// The refusal is counted before the decision, which depends on the count.
	if r.refusals < math.MaxInt32 {
		r.refusals++
	}
	r.judged(p, &v)
	more := r.next(p, &moment{elapsed: r.ended - r.paused, left: untilDeadline(r.ctx, p.Clock), refusal: v.Err})
	var delay time.Duration
	switch {
	case more:
		r.phase, delay = waiting, r.wait
	case r.err.Reason == ReasonGuard:
		r.err.Guard = nameOf(guard)
	}

	// The hook is called last, but for Hooks.Done. If it panics, the phase says whether r waits.
	if p.Hooks.Guard != nil {
		r.guardHook(p, Held{Guard: nameOf(guard), Delay: delay, Err: v.Err, Class: v.Class})
	}
	if !more {
		r.done(p)
	}
	return false
}

// nameOf returns what hooks call a guard.
func nameOf(g Guard) string { return strings.TrimPrefix(reflect.TypeOf(g).String(), "*") }

// patience returns how long from now the next attempt may wait for a guard: until the caller's
// deadline or the end of MaxElapsed, whichever is earlier.
func (r *run) patience(p *Policy) time.Duration {
	left := untilDeadline(r.ctx, p.Clock)
	if p.MaxElapsed > 0 { // else the clock need not be read
		left = min(left, r.untilMaxElapsed(p, r.elapsed(p)))
	}
	return left
}

// untilMaxElapsed returns how long after the reading at, which need not be now, an attempt may
// still start by MaxElapsed, or math.MaxInt64 if there is no limit.
func (r *run) untilMaxElapsed(p *Policy, at time.Duration) time.Duration {
	if p.MaxElapsed <= 0 {
		return math.MaxInt64
	}
	return p.MaxElapsed - (at - r.paused)
}

// lap counts the time since r.began as waited, since no attempt was underway, and moves r.began on
// to now, which it returns.
func (r *run) lap(p *Policy) (now time.Duration) {
	now = r.elapsed(p)
	r.waited = sum(r.waited, max(now-r.began, 0))
	r.began = now
	return now
}

// sleepUntilWoken sleeps on the system's clock until the guard that an attempt waits for wakes r,
// the run's context ends, or d is over, if the wait has an end. No code of others is called.
//
//go:noinline
func (r *run) sleepUntilWoken(p *Policy, d time.Duration, wake, done <-chan struct{}) {
	if g := r.gates; p.MaxElapsed > 0 || g.last().Timed {
		t, fired := timers.Start(d), false
		select {
		case <-wake:
			g.woken = true
		case <-done:
		case <-t.C:
			fired = true
		}
		timers.Free(t, fired)
		return
	}
	select {
	case <-wake:
		r.gates.woken = true
	case <-done:
	}
}

// sleepOrWake sleeps for d on another clock than the system's, until the guard that an attempt
// waits for wakes r, or the run's context ends.
func (r *run) sleepOrWake(p *Policy, d time.Duration, wake <-chan struct{}) error {
	c := &wakeable{Context: r.ctx, wake: wake, over: make(chan struct{})}
	defer func() { r.gates.woken = c.end() }() // before the guard is asked: what it sends later is for another wait
	if err := p.Clock.Sleep(c, d); !c.woken.Load() {
		return err
	}
	return nil
}

// wakeable is a run's context for the time of a wait, which a wake ends. A clock that selects on
// Done needs a goroutine, which receives the wake then. One that calls Err alone, such as a
// [clockx.Virtual], receives it there, and so at the instant at which it is sent.
type wakeable struct {
	context.Context
	wake  <-chan struct{}
	over  chan struct{} // closed by end
	start sync.Once
	done  atomic.Pointer[chan struct{}] // what Done returns
	woken atomic.Bool
}

func (c *wakeable) Done() <-chan struct{} {
	c.start.Do(func() {
		done, parent := make(chan struct{}), c.Context.Done()
		c.done.Store(&done)
		go func() {
			defer close(done)
			select {
			case <-c.wake:
				c.woken.Store(true)
			case <-parent:
			case <-c.over:
			}
		}()
	})
	return *c.done.Load()
}

func (c *wakeable) Err() error {
	if c.done.Load() == nil && !c.woken.Load() {
		select {
		case <-c.wake:
			c.woken.Store(true)
		default:
		}
	}
	if c.woken.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// end ends the wait, and reports whether a wake has come.
func (c *wakeable) end() (woken bool) {
	close(c.over)
	if done := c.done.Load(); done != nil {
		<-*done
	}
	return c.woken.Load()
}
