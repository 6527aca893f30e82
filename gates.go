package retry

// May call: wakeable.go, end.go, guard.go, stopwatch.go, hooks.go, policy.go, errors.go.

import (
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry/internal/paced"
	"github.com/goretry/retry/internal/timers"
)

// gates is where a run stands among the guards with its next attempt, or with the one
// underway. It is not part of the run, which must be small, and goes from run to run.
type gates struct {
	passes []admission // of the first guards of Policy.Guards, in order
	state  gatesState
	paces  bool // one of the passes of the latest attempt has Paces, also when they were given back or held

	verdict Verdict // what guards get about an attempt that has ended, or on the error of the refuser
	refuser Guard   // the latest guard that has refused
}

// gatesState says what has come of the last of the passes. Those before it admit the attempt.
type gatesState uint8

const (
	passed gatesState = iota // it admits the attempt too, or there is none
	held                     // it has the attempt wait, or has ended that wait by a Wake
	late                     // it has the attempt wait, and refuses it unless a Wake comes in time
)

var idleGates = sync.Pool{New: func() any { return new(gates) }}

// last returns the latest pass and its guard.
func (g *gates) last() *admission { return &g.passes[len(g.passes)-1] }

// add takes the pass that a guard has returned, in place of its earlier one.
//
//go:noinline
func (g *gates) add(guard Guard, pass Pass) {
	g.drop()
	g.passes = append(g.passes, admission{guard, pass})
	if pass.waits() {
		g.state = held
	}
}

// drop forgets the pass for which the attempt waits, if there is one.
func (g *gates) drop() {
	if g.state != passed {
		*g.last() = admission{}
		g.passes, g.state = g.passes[:len(g.passes)-1], passed
	}
}

// enter asks the guards that have not admitted the next attempt, and reports whether all
// have. If not, the phase says whether r is to wait or is over: ask decides that for a pass,
// refused for an error.
//
//go:noinline
func (r *run) enter(p *Policy) bool {
	if r.resumed && r.number == 0 { // the guards have admitted this attempt before, and were left
		return true
	}
	if r.gates == nil {
		r.gates = idleGates.Get().(*gates)
	}
	g := r.gates
	if g.state != passed && !r.afterWait(p, *g.last()) {
		return false
	}
	for n := len(g.passes); n < len(p.Guards); n++ {
		if !r.ask(p, p.Guards[n], Pass{}) {
			return false
		}
	}
	g.paces = slices.ContainsFunc(g.passes, func(a admission) bool { return a.pass.Paces })
	r.lap(p)
	if r.ctx.Err() != nil { // a guard and a clock may run any code
		r.cancel(p, nil)
		return false
	}
	return true
}

// afterWait decides after a wait for a guard whether to ask it again, and reports whether it admits
// the attempt now.
func (r *run) afterWait(p *Policy, waiter admission) bool {
	again := waiter.pass.Again
	switch {
	case r.gates.state == late, again && r.untilMaxElapsed(p) <= 0: // no Wake has come, or there is no time to ask again
		r.refused(p, waiter.guard, Stop(paced.Late(0)))
		return false
	case again:
		return r.ask(p, waiter.guard, waiter.pass)
	}
	r.gates.state = passed // the wait was all that it asked for
	return true
}

// ask asks a guard about the next attempt, and reports whether the guard admits it now. earlier is
// the pass for which r has waited, if it has.
func (r *run) ask(p *Policy, guard Guard, earlier Pass) bool {
	g := r.gates
	if guard == nil {
		g.add(nil, Pass{})
		return true
	}
	first := g.state == passed
	pass, err := guard.Enter(r.ctx, r.entry(p, earlier))
	if err != nil {
		g.drop() // err has ended the earlier pass
		r.refused(p, guard, err)
		return false
	}
	pass = pass.checked()
	g.add(guard, pass)
	switch {
	case g.state == passed:
		return true
	case pass.Wait >= r.patience(p):
		r.refused(p, guard, Stop(paced.Late(pass.Wait)))
		return false
	}
	r.await(p, &pass)
	if first && p.Hooks.Guard != nil && r.ctx.Err() == nil { // else r ends, and does not wait: a guard and a clock may run any code
		r.guardHook(p, Held{Guard: nameOf(guard), Delay: pass.Wait})
	}
	return false
}

// await prepares a wait for a guard: for the Wait of the pass, or until MaxElapsed ends, if that
// comes first or nothing but a Wake ends the wait.
func (r *run) await(p *Policy, pass *Pass) {
	r.lap(p)
	r.wait = pass.Wait
	if left := max(r.untilMaxElapsed(p), 0); pass.untimed() || left < r.wait {
		r.wait, r.gates.state = left, late
	}
}

// entry returns what a guard gets about the next attempt.
func (r *run) entry(p *Policy, earlier Pass) Entry {
	return Entry{Name: p.Name, Number: r.number + 1, Class: r.class, Patience: r.patience(p), Clock: p.clock(), Rand: p.Rand, Earlier: earlier}
}

// refused ends the try of an attempt that a guard has refused. Then r is to wait before it asks
// all guards again, or is over.
//
//go:noinline
func (r *run) refused(p *Policy, guard Guard, err error) {
	r.gates.refuser = guard
	r.conclude(p, &end{way: refused, err: err})
}

// patience returns how long from now the next attempt may wait for a guard: until the caller's
// deadline or the end of MaxElapsed, whichever is earlier.
func (r *run) patience(p *Policy) time.Duration {
	left := untilDeadline(r.ctx, p.Clock)
	if p.MaxElapsed > 0 { // else the clock need not be read
		r.lap(p)
		left = min(left, r.untilMaxElapsed(p))
	}
	return left
}

// waker returns the channel that ends the wait for a guard, nil if time alone does.
func (r *run) waker() <-chan struct{} {
	if r.gates == nil || r.gates.state == passed {
		return nil
	}
	return r.gates.last().pass.Wake
}

// sleepOrWake sleeps on the system's clock until the guard that an attempt waits for wakes r, the
// run's context ends, or d is over, if the wait has an end. No code of others is called.
//
//go:noinline
func (r *run) sleepOrWake(p *Policy, d time.Duration, wake, done <-chan struct{}) {
	var t *time.Timer
	var tick <-chan time.Time
	if p.MaxElapsed > 0 || !r.gates.last().pass.untimed() {
		t = timers.Start(d)
		tick = t.C
	}
	fired := false
	select {
	case <-wake:
		r.gates.state = held
	case <-done:
	case <-tick:
		fired = true
		select {
		case <-wake: // it has come too
			r.gates.state = held
		default:
		}
	}
	if t != nil {
		timers.Free(t, fired)
	}
}

// sleepOrWakeOn does so on another clock than the system's.
func (r *run) sleepOrWakeOn(p *Policy, d time.Duration, wake <-chan struct{}) error {
	c := newWakeable(r.ctx, wake)
	defer c.end() // also if the clock panics
	err := p.Clock.Sleep(c, d)
	if c.end() { // it has received a Wake, also if the clock's time was over. What the guard sends later is for another wait
		r.gates.state = held
		return nil
	}
	return err
}
