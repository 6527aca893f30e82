package retry

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// gates is where a run stands among the guards with its next attempt, or with the one
// underway. It is not part of the run, which must be small, and goes from run to run.
type gates struct {
	passes   []Pass // passes[i] is that of Policy.Guards[i]
	admitted int    // how many guards have admitted the attempt; with one pass more, the next one has it wait
}

var idleGates = sync.Pool{New: func() any { return new(gates) }}

// add takes the pass that the next guard has returned, and reports whether it admits the attempt
// now. If not, the pass is pending.
//
//go:noinline
func (g *gates) add(pass Pass) bool {
	g.passes = append(g.passes, pass)
	if pass.Wait > 0 {
		return false
	}
	g.admitted++
	return true
}

// pending returns the pass of the guard that has the attempt wait, nil if none has.
func (g *gates) pending() *Pass {
	if len(g.passes) == g.admitted {
		return nil
	}
	return &g.passes[g.admitted]
}

// waker returns the channel that ends the wait for a guard, nil if time alone does.
func (r *run) waker() <-chan struct{} {
	if r.gates == nil || r.gates.pending() == nil {
		return nil
	}
	return r.gates.pending().wake
}

// enter asks the guards that have not admitted the next attempt, and reports whether all
// have. If not, r is to wait, or is over.
//
//go:noinline
func (r *run) enter(p *Policy) bool {
	resumes := r.resumed && r.number == 0
	if r.gates == nil {
		if !resumes && p.unguarded() {
			return true
		}
		r.gates = idleGates.Get().(*gates)
	}
	if resumes { // without passes: the guards have admitted this attempt before, and were left
		return true
	}
	for g := r.gates; g.admitted < len(p.Guards); {
		var admits bool
		switch guard := p.Guards[g.admitted]; {
		case guard == nil:
			admits = g.add(Pass{})
		case g.pending() != nil:
			admits = r.askAgain(p, guard)
		default:
			admits = r.ask(p, guard)
		}
		if !admits {
			return false
		}
	}
	r.lap(p)
	return r.ctx.Err() == nil || r.canceled(p, nil) // a guard and a clock may run any code
}

// ask asks a guard for the first time about the next attempt, and reports whether it admits
// the attempt now. If not, r is to wait, or is over.
func (r *run) ask(p *Policy, guard Guard) bool {
	pass, err := guard.Enter(r.ctx, r.entry(p))
	switch {
	case err != nil:
		return r.refused(p, guard, err)
	case r.gates.add(pass):
		return true
	case pass.Wait >= r.patience(p):
		return r.refused(p, guard, Stop(latePace{wait: pass.Wait}))
	}
	r.await(p, pass.Wait)
	if p.Hooks.Guard != nil && r.ctx.Err() == nil { // else r ends, and does not wait: a guard and a clock may run any code
		r.guardHook(p, Held{Guard: nameOf(guard), Delay: pass.Wait})
	}
	return false
}

// askAgain is ask for the guard that had the attempt wait, after the wait.
func (r *run) askAgain(p *Policy, guard Guard) bool {
	g, e := r.gates, r.entry(p)
	e.Earlier = *g.pending()
	switch {
	case r.untilMaxElapsed(p, r.began) <= 0 && (e.Earlier.Again || r.wait < e.Earlier.Wait): // MaxElapsed has cut the wait short
		return r.refused(p, guard, Stop(latePace{}))
	case !e.Earlier.Again: // the wait was all that it asked for
		g.admitted++
		return true
	}
	pass, err := guard.Enter(r.ctx, e)
	g.passes = g.passes[:g.admitted] // the earlier pass is replaced, or has ended by err
	switch {
	case err != nil:
		return r.refused(p, guard, err)
	case g.add(pass):
		return true
	}
	r.await(p, pass.Wait)
	return false
}

// entry returns what a guard gets about the next attempt.
func (r *run) entry(p *Policy) Entry {
	return Entry{Name: p.Name, Number: r.number + 1, Class: r.class, Patience: r.patience(p), Clock: p.clock()}
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
	r.lap(p)
	r.ended = r.began
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
	if more {
		r.phase, delay = waiting, r.wait
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
	return min(untilDeadline(r.ctx, p.Clock), r.untilMaxElapsed(p, r.elapsed(p)))
}

// untilMaxElapsed returns how long after the reading at, which need not be now, an attempt may
// still start by MaxElapsed, or math.MaxInt64 if there is no limit.
func (r *run) untilMaxElapsed(p *Policy, at time.Duration) time.Duration {
	if p.MaxElapsed <= 0 {
		return math.MaxInt64
	}
	return p.MaxElapsed - (at - r.paused)
}

// lap counts the time since r.began as waited, since no attempt was underway, and moves r.began on.
func (r *run) lap(p *Policy) {
	now := r.elapsed(p)
	r.waited = sum(r.waited, max(now-r.began, 0))
	r.began = now
}

// await prepares a wait for a guard, of d or until MaxElapsed ends. All of it counts as waited
// already; resume corrects that.
func (r *run) await(p *Policy, d time.Duration) {
	r.lap(p)
	d = min(d, max(r.untilMaxElapsed(p, r.began), 0), math.MaxInt64-r.waited)
	r.ended, r.wait, r.waited = r.began, d, sum(r.waited, d)
	r.phase = waiting
}

// sleepUntilWoken sleeps until the guard that an attempt waits for wakes it, the run's context
// ends, or MaxElapsed has passed; if the pass is timed, not beyond its Wait. With the system's
// clock no code of others is called.
//
//go:noinline
func (r *run) sleepUntilWoken(p *Policy, wake, done <-chan struct{}) {
	var late <-chan struct{}
	rest := r.untilMaxElapsed(p, r.ended)
	if r.gates.pending().timed {
		rest = min(rest, r.wait)
	}
	if rest < math.MaxInt64 {
		limit, cancel := p.clock().WithTimeoutCause(context.Background(), rest, nil)
		defer cancel()
		late = limit.Done()
	}
	select {
	case <-wake:
	case <-done:
	case <-late:
	}
}

// leaveGuards gives back all passes of r, also one that is pending.
//
//go:noinline
func (r *run) leaveGuards(p *Policy, x Exit) {
	if g := r.gates; g != nil {
		g.admitted = 0
		p.giveBack(&g.passes, x)
	}
}

// attemptLeaves gives back the passes of an attempt that was made, and tells the guards what it
// has come to. v is nil after a success.
//
//go:noinline
func (r *run) attemptLeaves(p *Policy, v *Verdict) {
	x := Exit{Took: max(r.ended-r.began, 0)}
	if v != nil {
		x.Verdict = *v
	}
	x.Ending = r.ending(p, &x.Verdict)
	x.Allowed = r.attemptTime(p, x.Took)
	if r.gates != nil {
		r.leaveGuards(p, x)
	} else if r.class == Throttled { // the only thing that open paces learn from
		passes := openPasses(p)
		p.giveBack(&passes, x)
	}
}

// openPasses returns the passes of a run without gates, which has asked no guard because all are
// open paces: what their Enter would have returned.
func openPasses(p *Policy) []Pass { return make([]Pass, len(p.Guards)) }

// attemptTime returns how long the attempt underway, which has taken so long, had from its
// start until its deadline: 0 if it had none.
func (r *run) attemptTime(p *Policy, took time.Duration) time.Duration {
	allowed := max(took+min(untilDeadline(r.opCtx, p.Clock), math.MaxInt64-took), 1) // what is left is negative for one that ends late
	if p.AttemptTimeout > 0 {
		allowed = min(allowed, p.AttemptTimeout) // it is not in the context of an Untimed attempt
	}
	if allowed == math.MaxInt64 {
		return 0
	}
	return allowed
}

// ending says how an attempt has ended that came to v. A success and an Answer are what they
// are after the deadline too. But an op that the caller has ended may return nil for that.
func (r *run) ending(p *Policy, v *Verdict) Ending {
	switch end := r.ctx.Err(); {
	case end == context.Canceled && context.Cause(r.ctx) != ErrAttemptTimeout:
		return Canceled
	case v.Err == nil, v.IsAnswer():
		return Returned
	case end != nil, untilDeadline(r.opCtx, p.Clock) <= 0: // a connection with the same deadline often fails before the context ends
		return Expired
	}
	return Returned
}

// unjudged returns what guards get about err once the caller's context has ended: an Answer
// is one still.
func unjudged(err error, given *Verdict) *Verdict {
	v := &Verdict{Err: unmarked(err)}
	m := examine(err).mark
	if given != nil && given.IsAnswer() || given == nil && m != nil && m.answered && m.class == Permanent {
		v.Class, v.Answered, v.Marked = Permanent, true, true
	}
	return v
}

// takePasses takes the passes of the attempt underway from r, and returns a func that gives them
// back when it is first called.
func (r *run) takePasses(p *Policy) (leave func(Exit)) {
	if len(p.Guards) == 0 {
		return func(Exit) {}
	}
	took := max(r.elapsed(p)-r.began, 0)
	allowed := r.attemptTime(p, took)
	var passes []Pass
	if r.gates == nil {
		r.gates = idleGates.Get().(*gates) // without passes, so that the end of the attempt gives none back
		passes = openPasses(p)
	} else {
		passes = slices.Clone(r.gates.passes) // none if they are held already
		clear(r.gates.passes)
		r.gates.passes, r.gates.admitted = r.gates.passes[:0], 0
	}
	giveBack := p.giveBackOnce(passes)
	return func(x Exit) {
		x.Took, x.Allowed = took, allowed
		giveBack(x)
	}
}

// freeGates lets other runs use the gates of a run that is over.
func (r *run) freeGates() {
	if r.gates != nil {
		idleGates.Put(r.gates)
		r.gates = nil
	}
}
