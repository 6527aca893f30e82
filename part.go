package retry

import (
	"context"
	"math"
	"time"
)

// Part is one attempt of a run that is spread over processes, such as a delivery of a
// message: a queue waits and counts, and the caller decides. See [Policy.RunPart]. A
// handler of messages needs no Part: package retryqueue has one.
type Part struct {
	// Earlier is how many attempts were made before this part. Hooks count on from there.
	// [AttemptNumber] does not: it counts the attempts of this process, and is 1. A
	// negative number counts as zero.
	Earlier int

	// Op makes the attempt, and says what came of it: the zero Verdict is a success. If Op
	// is nil, no attempt is made. Hooks then get only Start and Done.
	Op func(context.Context) Verdict

	// Decide returns the wait before the next attempt, or false if none is to follow. A
	// negative wait counts as zero. Decide gets what Op returned, with the class [TimedOut]
	// in place of [Transient] if the attempt's own deadline has passed. It is not called
	// after an error if the caller's context has ended: that error says nothing about the
	// run. Nil means that no attempt follows.
	Decide func(Verdict) (wait time.Duration, again bool)

	// Settle is called at the end, in any case but that of a panic, with the run's context:
	// to tell others what was decided. Hooks.Done gets the *Error that it returns. That is
	// nil unless the run has given up for good. A nil Settle returns nil.
	Settle func(context.Context) *Error
}

// RunPart makes a part of a run. It is what [Do] is for a single attempt: it calls the
// policy's Hooks in the same order with the same values, makes the same contexts, and
// reads the policy's Clock. But it decides nothing, so it does not use the policy's
// limits, Backoff, Budget and Guards: Part.Decide does, for example by a [Loop] that it
// resumes. Times in Hooks are those of the part.
//
// A panic or runtime.Goexit in a func of the part passes through, and Hooks.Done gets
// [ReasonPanic]. RunPart panics if ctx is nil.
func (p Policy) RunPart(ctx context.Context, part Part) {
	r := run{caller: ctx, ctx: ctx}
	r.attempts = max(part.Earlier, 0)
	defer r.close(&p)
	r.begin(&p)
	if part.Op != nil && r.ctx.Err() == nil {
		r.part(&p, &part)
	}
	if part.Settle != nil {
		r.err = part.Settle(r.ctx)
	}
	if p.Hooks.Done != nil {
		r.ended = r.elapsed(&p) // before the run is over: if the clock panics, Done is owed
	}
	r.phase = over
	if p.Hooks.Done != nil {
		r.doneHook(&p)
	}
}

// part makes the attempt of a Part.
func (r *run) part(p *Policy, part *Part) {
	r.number = 1
	r.opCtx = r.numbered()
	r.number = min(r.attempts, math.MaxInt-1) + 1
	var v Verdict
	if !r.prepare(p) {
		v.Err = context.Cause(r.ctx)
	} else if v = part.Op(r.opCtx); v == (Verdict{}) {
		r.count()
	} else {
		v = v.checked()
		r.record(v.Err)
	}
	r.ended = r.elapsed(p)
	again := false
	if v.Err == nil || r.ctx.Err() == nil {
		if v.Class == Transient && r.late(p) {
			v.Class = TimedOut
		}
		r.class, r.hint, r.answered = v.Class, v.Hint, v.IsAnswer()
		if part.Decide != nil {
			r.wait, again = part.Decide(v)
		}
	}
	if !again || r.wait < 0 {
		r.wait = 0
	}
	r.waited = r.wait
	r.attemptDone(p, v.Err)
	if again && p.Hooks.Wait != nil {
		r.waitHook(p, v.Err)
	}
	r.waited, r.phase = 0, between // others wait
}
