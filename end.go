package retry

// May call: guard.go, stopwatch.go, hooks.go, loop.go, verdict.go, policy.go, finding.go, errors.go.

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry/internal/part"
)

// This file has how an attempt and a run end: by themselves, because the caller leaves, because a
// guard refuses, or by a panic. Each end takes the same steps: see step.

// end is one end of an attempt, of the try of one, or of a wait.
//
// It is on the stack below all funcs of the policy, so it is small: see type run. What guards get is
// in gates.
type end struct {
	err   error                       // what ended it: op's error, the guard's, or that of the clock's Sleep; Hooks.AttemptDone gets it
	given *Verdict                    // on err, if the caller gave it, as a part does
	part  *part.Part[Verdict, *Error] // whose attempt it is: a queue decides; nil for a run
	way   way
	step  step   // the next one to take
	next  sequel // once it is decided
}

// way says what has come to an end, and how.
type way uint8

const (
	attempted way = iota // op; judge says which of the next three it is
	succeeded            // op, without an error
	failed               // op, with one
	unjudged             // so too, but the caller's context has ended, so that the error says nothing
	canceled             // the run, while op is not running: its context has ended, or the clock could not sleep
	refused              // the try of an attempt, by a guard
	broken               // the run, by a panic or Goexit in op, in a hook or in another func of the policy
)

// sequel is what follows an end.
type sequel uint8

const (
	giveUp    sequel = iota // nothing
	retryNext               // another attempt, after r.wait
	renewRun                // a new run, after r.wait: op was up for long enough
)

// step is one of the steps of an end. This is their order, in every shape of a run and whatever has
// ended: conclude takes them one after the other, and close does if one of them panics.
// TestEveryRunEndsAnAttemptInTheSameOrder compares it with what the policy's funcs see.
type step uint8

const (
	judging  step = iota // the error is recorded, and judged: Policy.Classify
	leaving              // the guards are left: Guard.Leave, the last one first
	deciding             // what follows is decided: Policy.Backoff, then Budget.Withdraw or Budget.End
	closing              // Hooks.AttemptDone is called, and the attempt's context ends
	telling              // Hooks.Wait is called, Hooks.Guard, or Hooks.Done
	concluded
)

// conclude takes the steps of e that are left. Each is counted before it is taken: what has panicked
// is not called again.
func (r *run) conclude(p *Policy, e *end) {
	switch e.step {
	case judging:
		e.step = leaving
		r.judge(p, e)
		fallthrough
	case leaving:
		e.step = deciding
		if r.gates != nil {
			r.leave(p, e)
		}
		fallthrough
	case deciding:
		e.step = closing
		r.decide(p, e)
		fallthrough
	case closing:
		e.step = telling
		if r.phase == attempting { // else none was announced
			r.phase = between
			if p.Hooks.AttemptDone != nil {
				r.attemptDoneHook(p, e.err)
			}
			r.endTimeout()
		}
		fallthrough
	case telling:
		e.step = concluded
		switch {
		case e.way == broken:
			r.tellBroken(p)
		case e.way == refused:
			r.tellRefusal(p, e)
		case e.next == retryNext:
			if p.Hooks.Wait != nil && r.ctx.Err() == nil {
				r.waitHook(p, e.err)
			}
		case e.next == renewRun:
			r.renew(p, e)
		case e.part == nil:
			r.done(p)
		}
	}
}

// close takes the steps that a panic or Goexit has skipped.
func (r *run) close(p *Policy) {
	if r.phase == between || r.phase == attempting {
		e := r.broke()
		r.insist(p, &e)
	}
}

// insist takes the steps of e that are left, whatever panics.
func (r *run) insist(p *Policy, e *end) {
	if e.step < concluded {
		defer r.insist(p, e)
		r.conclude(p, e)
	}
}

// broke returns the end of a run that something has broken. Each step does what is still owed then.
func (r *run) broke() end {
	e := end{way: broken, err: errPanic}
	switch {
	case r.op == uncalled && r.ctx.Err() != nil: // the caller had left before
		e.err = context.Cause(r.ctx)
	case r.op == counted:
		e.err = nil
	case r.op >= recorded:
		e.err = r.errs[len(r.errs)-1]
	}
	return e
}

// made reports whether the attempt underway was made: op was called.
func (r *run) made() bool { return r.phase == attempting && r.op != uncalled }

// settle takes what op returned, and reports whether another attempt is to follow
// after r.wait. If no verdict is given, the policy judges err.
func (r *run) settle(p *Policy, err error, given *Verdict) bool {
	e := end{err: err, given: given}
	r.conclude(p, &e)
	return e.next == retryNext
}

// cancel ends the run, while op is not running, because the run's context has ended, or
// because the clock's Sleep returned the error slept.
//
//go:noinline
func (r *run) cancel(p *Policy, slept error) { r.conclude(p, &end{way: canceled, err: slept}) }

// judge reads the clock, records the error of an attempt, and judges it.
func (r *run) judge(p *Policy, e *end) {
	switch e.way {
	case attempted:
		if e.err == nil {
			e.way = succeeded
			if r.base != unseen || r.gates != nil { // else the clock is not read: most calls are such
				r.endAttempt(p)
			}
			return
		}
		if r.home == nil {
			r.home = new(home)
			r.errs = r.home.errs[:0]
		}
		r.endAttempt(p)
		r.record(e.err)
		r.op = recorded
		if r.ctx.Err() != nil {
			e.way = unjudged
			r.op = assessed
			r.act(e.given)
			if r.gates != nil {
				unjudgedVerdict(&r.gates.verdict, e.err, e.given)
			}
			return
		}
		e.way = failed
		v := e.given
		if v == nil {
			v = new(Verdict) // it does not escape
			v.judge(p.Classify, e.err, r.healthy > 0)
		}
		if v.Class == Transient && r.late {
			v.Class = TimedOut // whatever error op returned; it decides as Transient does
		}
		r.judged(p, v)
		r.op = assessed
		if r.gates != nil {
			r.gates.verdict = *v
		}
	case canceled:
		r.lap(p)
		if r.phase == attempting { // announced, and not made
			r.ended, e.err = r.idle, context.Cause(r.ctx)
		}
	case refused:
		r.judgeRefusal(e)
	case broken:
		r.recordPanic(p)
	}
}

// endAttempt notes when op has ended, and how if it has failed. Policy.Classify may take its time, or
// end a context, which changes nothing of that.
func (r *run) endAttempt(p *Policy) {
	if len(p.Guards) == 0 && r.expire == nil { // nobody asks how
		r.opEnded(p)
		r.op = returned
		return
	}
	r.opEndedUnder(p, r.opCtx)
	r.op = returned
	switch left := r.ctx.Err(); {
	case left == context.Canceled && context.Cause(r.ctx) != ErrAttemptTimeout:
		r.ending = Canceled
	case left != nil, r.ahead <= 0, // a connection with the same deadline often fails before the context ends
		r.untimed && p.AttemptTimeout > 0 && r.took() >= p.AttemptTimeout: // it is not in the context
		r.ending = Expired
	default:
		r.ending = Returned
	}
	cause := context.Cause(r.opCtx)
	r.late = r.expire != nil && (cause == ErrAttemptTimeout || cause == nil && r.ahead <= 0)
}

// judgeRefusal judges the error of a guard. Policy.Classify is for the errors of op.
func (r *run) judgeRefusal(e *end) {
	v := &r.gates.verdict
	*v = Verdict{}
	v.judge(nil, e.err, r.healthy > 0)
	if v.Class == Transient {
		v.Class = Unprocessed
	}
	v.Undone, v.Partial, v.Answered = true, false, false
}

// recordPanic records that the attempt underway has panicked, unless its own error was recorded.
func (r *run) recordPanic(p *Policy) {
	made := r.made()
	if made {
		if r.op < recorded {
			r.record(errPanic)
		}
		if r.op != assessed {
			r.act(nil)
		}
	}
	switch { // last the clock, whose methods may run any code
	case made && r.op < returned:
		r.endAttempt(p)
	case made, r.stage != decided: // else it waits for nothing
		r.lap(p)
	}
}

// leave gives back the passes of the attempt that has ended, or of its try, and tells the guards
// what has come of it.
//
//go:noinline
func (r *run) leave(p *Policy, e *end) {
	var x Exit
	if r.made() {
		x.Ending, x.Took, x.Allowed = r.ending, r.took(), r.allowed(p, r.took(), r.ahead)
	}
	switch e.way {
	case failed, unjudged:
		x.Verdict = r.gates.verdict
	case refused: // the other guards get this error
		x.Verdict.Err = unmarked(e.err)
	case broken:
		if r.made() {
			x.Ending, x.Verdict.Err = Panicked, errPanic
		}
	}
	if x.Ending == Expired && (x.Verdict.Err == nil || x.Verdict.IsAnswer()) {
		x.Ending = Returned // these are what they are after the deadline too; but who is told to end may return nil for that
	}
	r.leaveGuards(p, x)
}

// allowed returns how long an attempt had from its start until its deadline, after which it has
// taken so long, and so long was left: 0 if it had none.
func (r *run) allowed(p *Policy, took, left time.Duration) time.Duration {
	allowed := max(took+min(left, math.MaxInt64-took), 1) // what is left is negative for one that ends late
	if p.AttemptTimeout > 0 {
		allowed = min(allowed, p.AttemptTimeout) // it is not in the context of an Untimed attempt
	}
	if allowed == math.MaxInt64 {
		return 0
	}
	return allowed
}

// unjudgedVerdict makes v what guards get about err once the caller's context has ended: an Answer
// is one still.
//
//go:noinline
func unjudgedVerdict(v *Verdict, err error, given *Verdict) {
	*v = Verdict{Err: unmarked(err)}
	m := examine(err).mark
	if given != nil && given.IsAnswer() || given == nil && m != nil && m.answered && m.class == Permanent {
		v.Class, v.Answered, v.Marked = Permanent, true, true
	}
}

// decide decides what follows. That ends the budget's part of a run that is over.
func (r *run) decide(p *Policy, e *end) {
	switch {
	case e.part != nil:
		r.decidePart(e)
	case e.way == succeeded:
		r.op = counted
		r.succeed(p)
	case e.way == failed:
		ctx, healthy := r.ctx, r.healthy > 0 && r.ended-r.up >= r.healthy
		if healthy {
			ctx = r.caller // the pause is part of the new run, to which the context of this one means nothing
		}
		var m moment // a literal would need room on the stack twice
		m.elapsed, m.left = r.idle-r.origin, untilDeadline(ctx, p.Clock)
		m.healthy, m.lasting, m.paced = healthy, r.healthy > 0, r.gates != nil && r.gates.paces
		switch {
		case !r.next(p, &m): // giveUp
		case healthy:
			e.next = renewRun
		default:
			e.next = retryNext
		}
	case e.way == refused:
		r.decideRefusal(p, e)
	case e.way != broken: // the caller has left
		r.decideCanceled(p, e)
	case r.stage != decided:
		r.stop(p, ReasonPanic, errPanic)
	}
}

// decidePart has the queue decide what follows, unless the caller has left: its run goes on elsewhere.
func (r *run) decidePart(e *end) {
	x, again := e.part, false
	switch {
	case e.way == unjudged, e.way == canceled:
		r.err = &Error{Reason: endOf(r.ctx)}
		r.wait = 0
		return
	case e.way == succeeded:
		r.op = counted
		r.count() // which no decision of the run does
	}
	if x.Decide != nil {
		r.wait, again = x.Decide(*e.given)
	}
	switch {
	case again:
		e.next = retryNext
	case x.Why != nil:
		r.err = x.Why()
	}
	if !again || r.wait < 0 {
		r.wait = 0
	}
}

// decideCanceled ends a run whose caller has left, or whose clock could not sleep.
func (r *run) decideCanceled(p *Policy, e *end) {
	var slept error
	if e.way == canceled {
		slept = e.err
	}
	r.stopCanceled(p, r.ctx, slept)
	r.err.InWait = e.way == canceled
}

// decideRefusal decides what follows a guard's refusal: a wait, after which r asks all guards again,
// or the end.
//
//go:noinline
func (r *run) decideRefusal(p *Policy, e *end) {
	r.lap(p) // a wait begins now, unless the run was ended meanwhile
	if r.ctx.Err() != nil {
		e.way, e.err = canceled, nil
		r.decideCanceled(p, e)
		return
	}
	if r.refusals < math.MaxInt32 { // before the decision, which depends on the count
		r.refusals++
	}
	v := &r.gates.verdict
	r.judged(p, v)
	switch {
	case r.next(p, &moment{elapsed: r.idle - r.origin, left: untilDeadline(r.ctx, p.Clock), lasting: r.healthy > 0, refusal: v.Err}):
		e.next = retryNext
	case r.err.Reason == ReasonGuard:
		r.err.Guard = nameOf(r.gates.refuser)
	}
}

func (r *run) endTimeout() {
	if r.expire != nil {
		r.expire()
	}
}

func (r *run) tellBroken(p *Policy) {
	defer r.done(p)
	r.endTimeout() // also if AttemptDone has panicked
}

//go:noinline
func (r *run) tellRefusal(p *Policy, e *end) {
	if p.Hooks.Guard != nil {
		v := &r.gates.verdict
		h := Held{Guard: nameOf(r.gates.refuser), Err: v.Err, Class: v.Class}
		if e.next == retryNext {
			h.Delay = r.wait
		}
		r.guardHook(p, h)
	}
	if e.next == giveUp {
		r.done(p)
	}
}

// renew ends r as a success, makes it the run that follows the one that e has ended, and starts it.
// Its pause is to follow, unless it has ended already. Until the pause is over, e.err is all that is
// known about the run.
//
//go:noinline
func (r *run) renew(p *Policy, e *end) {
	r.done(p)
	before := r.decisions
	*r = run{caller: r.caller, ctx: r.caller, healthy: r.healthy} // with no home: goroutines of op may hold the contexts in that one
	r.errs, r.acted = []error{unmarked(e.err)}, before.acted
	r.begin(p)
	if r.ctx.Err() != nil {
		e.next = giveUp
		r.cancel(p, nil)
		return
	}
	r.class, r.hint, r.wait = before.class, before.hint, before.wait
	if e.next = retryNext; p.Hooks.Wait != nil {
		r.waitHook(p, e.err)
	}
}

// begin starts a run. Hooks.Start comes before it, and takes nothing of its time.
func (r *run) begin(p *Policy) {
	if r.ctx == nil {
		panic("retry: nil context")
	}
	if p.Hooks.Start != nil {
		r.startHook(p)
	}
	r.phase = between // from here on Hooks.Done is owed, also if the clock panics
	r.stopwatch.begin(p)
}

// done ends the run.
func (r *run) done(p *Policy) {
	r.phase = over
	r.number = r.attempts // one that only Hooks.Attempt got was not made
	r.freeGates()
	r.fail(p, r.idle, r.waited)
	if p.Hooks.Done != nil {
		r.doneHook(p)
	}
}

// leaveGuards gives back all passes of r, also one for which it waits. Leave may take its time.
//
//go:noinline
func (r *run) leaveGuards(p *Policy, x Exit) {
	if g := r.gates; g != nil && len(g.passes) > 0 {
		defer r.lap(p) // also if Leave panics
		g.state = passed
		giveBack(&g.passes, p.clock(), x)
	}
}

// takePasses takes the passes of the attempt underway from r, and returns a func that gives them
// back when it is first called.
func (r *run) takePasses(p *Policy) (leave func(Exit)) {
	if r.gates == nil { // no guard was asked
		return func(Exit) {}
	}
	now := r.stopwatch // as if op ended now
	now.opEndedUnder(p, r.opCtx)
	h := &holding{clock: p.clock(), fixed: true, took: now.took(), allowed: r.allowed(p, now.took(), now.ahead)}
	h.passes = append(h.room[:0], r.gates.passes...) // none if they are held already
	clear(r.gates.passes)
	r.gates.passes = r.gates.passes[:0]
	return h.leave
}

// freeGates lets other runs use the gates of a run that is over.
func (r *run) freeGates() {
	if g := r.gates; g != nil {
		*g = gates{passes: g.passes}
		idleGates.Put(g)
		r.gates = nil
	}
}
