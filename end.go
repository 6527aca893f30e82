package retry

// May call: guard.go, stopwatch.go, hooks.go, loop.go, verdict.go, policy.go, finding.go, errors.go.

import (
	"context"
	"math"
	"time"
)

// This file has how an attempt and a run end: by themselves, because the caller leaves, or by a
// panic. How the guards are left belongs to it, since each end leaves them. A run ends in two
// steps. The decision why no attempt follows also ends the budget's part: stop, stopCanceled or
// succeed, in loop.go. Then done makes the run's error and calls Hooks.Done. settle takes both
// steps after an attempt, canceled between attempts, and abort after a panic.

// canceled ends the run, while op is not running, because the run's context has ended, or
// because the clock's Sleep returned the error slept.
func (r *run) canceled(p *Policy, slept error) {
	r.untried = r.phase == attempting
	if r.untried {
		r.endAttempt(p)
	} else {
		r.lap(p)
	}
	r.leaveGuards(p, Exit{})
	r.stopCanceled(p, r.ctx, slept)
	r.err.InWait = true
	if r.untried {
		r.attemptDone(p, context.Cause(r.ctx))
		r.number = r.attempts // the one that Hooks.Attempt got was not made
	}
	r.done(p)
}

// done ends the run.
func (r *run) done(p *Policy) {
	r.phase = over
	r.freeGates()
	r.fail(p, r.idle, r.waited)
	if p.Hooks.Done != nil {
		r.doneHook(p)
	}
}

// attemptDone closes the attempt that ended with err.
func (r *run) attemptDone(p *Policy, err error) {
	r.phase = between
	if p.Hooks.AttemptDone != nil {
		r.attemptDoneHook(p, err)
	}
	r.endTimeout()
}

// late reports whether the attempt's own deadline has passed.
func (r *run) late(p *Policy) bool {
	if r.expire == nil {
		return false
	}
	cause := context.Cause(r.opCtx)
	return cause == ErrAttemptTimeout || cause == nil && untilDeadline(r.opCtx, p.Clock) <= 0
}

func (r *run) endTimeout() {
	if r.expire != nil {
		r.expire()
	}
}

// close makes the calls that a panic or Goexit in op, in a hook or in another func of
// the policy has skipped.
func (r *run) close(p *Policy) {
	if r.phase == between || r.phase == attempting {
		r.abort(p)
	}
}

// abort makes the calls that are still owed after a panic, in the steps of settle.
func (r *run) abort(p *Policy) {
	announced := r.phase == attempting
	made, ended := announced && !r.untried, !r.running && r.ended >= r.began
	var x Exit
	err := errPanic // for AttemptDone
	switch {
	case made && r.attempts >= r.number: // op has ended, and its error was recorded
		if err = nil; len(r.errs) > 0 && (r.stage != decided || r.err != nil) { // a part may decide of a success
			err = r.errs[len(r.errs)-1]
		}
	case made: // 1
		if r.stage != decided {
			r.record(errPanic)
		}
	case announced:
		err = context.Cause(r.ctx)
	}
	if made {
		x.Ending, x.Verdict.Err = Panicked, errPanic
		r.act(nil)
	}
	inTurn(
		func() { // first the clock, whose methods may run any code
			switch {
			case made && !ended:
				r.endAttempt(p)
			case made, r.stage != decided: // else it waits for nothing
				r.lap(p)
			}
			if made && r.gates != nil {
				x.Took = max(r.ended-r.began, 0)
				x.Allowed = r.attemptTime(p, x.Took)
			}
		},
		func() { r.leaveGuards(p, x) }, // 2
		func() { // 3
			if r.stage != decided {
				r.stop(p, ReasonPanic, errPanic)
			}
		},
		func() { // 4
			if announced {
				r.attemptDone(p, err)
			}
			if r.untried {
				r.number = r.attempts
			}
		},
		func() { r.endTimeout() }, // 4, also if AttemptDone has panicked, now or before
		func() { r.done(p) },      // 5
	)
}

// inTurn calls the first of steps, and then the others, whatever panics.
func inTurn(steps ...func()) {
	if len(steps) > 0 {
		defer inTurn(steps[1:]...)
		steps[0]()
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
	x.Ending = r.ending(p, &x.Verdict, x.Took)
	x.Allowed = r.attemptTime(p, x.Took)
	r.leaveGuards(p, x)
}

// attemptTime returns how long the attempt underway, which has taken so long, had from its
// start until its deadline: 0 if it had none.
func (r *run) attemptTime(p *Policy, took time.Duration) time.Duration {
	left := untilDeadline(r.opCtx, p.Clock)
	if left < math.MaxInt64 { // as of the reading that took is of
		left += r.elapsed(p) - r.began - took
	}
	allowed := max(took+min(left, math.MaxInt64-took), 1) // what is left is negative for one that ends late
	if p.AttemptTimeout > 0 {
		allowed = min(allowed, p.AttemptTimeout) // it is not in the context of an Untimed attempt
	}
	if allowed == math.MaxInt64 {
		return 0
	}
	return allowed
}

// ending says how an attempt has ended that took so long and came to v. A success and an Answer are what they
// are after the deadline too. But an op that the caller has ended may return nil for that.
func (r *run) ending(p *Policy, v *Verdict, took time.Duration) Ending {
	switch end := r.ctx.Err(); {
	case end == context.Canceled && context.Cause(r.ctx) != ErrAttemptTimeout:
		return Canceled
	case v.Err == nil, v.IsAnswer():
		return Returned
	case end != nil, untilDeadline(r.opCtx, p.Clock) <= 0: // a connection with the same deadline often fails before the context ends
		return Expired
	case r.untimed && p.AttemptTimeout > 0 && took >= p.AttemptTimeout: // it is not in the context
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
	h := &holding{clock: p.clock(), fixed: true, took: max(r.elapsed(p)-r.began, 0)}
	h.allowed = r.attemptTime(p, h.took)
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
