package retry

// May call: run.go, end.go, stopwatch.go, hooks.go, loop.go, verdict.go.

import (
	"context"
	"math"

	"github.com/goretry/retry/internal/part"
)

func init() { part.Run = runPart }

// runPart is [part.Run].
func runPart(ctx context.Context, p Policy, x part.Part[Verdict, *Error]) {
	r := run{caller: ctx, ctx: ctx}
	r.attempts = max(x.Earlier, 0)
	defer r.close(&p)
	settling := false
	defer func() {
		if settling && r.phase == between { // a panic: what it has taken so far is no wait
			r.idle = r.elapsed(&p)
		}
	}()
	r.begin(&p)
	if x.Op != nil && r.ctx.Err() == nil {
		r.part(&p, &x)
	}
	settling = true
	r.err = nil // the end is not what was decided, but what Settle returns
	if x.Settle != nil {
		r.err = x.Settle(r.ctx)
	}
	if p.Hooks.Done != nil {
		r.idle = r.elapsed(&p) // before the run is over: if the clock panics, Done is owed
	}
	r.phase = over
	if p.Hooks.Done != nil {
		r.doneHook(&p)
	}
}

// part makes the attempt of a part, which ends in the steps of settle, without guards.
func (r *run) part(p *Policy, x *part.Part[Verdict, *Error]) {
	r.number = 1
	r.opCtx = r.numbered()
	r.number = min(r.attempts, math.MaxInt-1) + 1
	var v Verdict
	if !r.prepare(p) {
		v.Err = context.Cause(r.ctx)
	} else if v = x.Op(r.opCtx); v == (Verdict{}) { // 1
		r.count()
	} else {
		v = v.checked()
		r.record(v.Err)
	}
	r.endAttempt(p)
	again := false
	if v.Err != nil && r.ctx.Err() != nil {
		r.err = &Error{Reason: endOf(r.ctx)}
	} else {
		if v.Class == Transient && r.late(p) {
			v.Class = TimedOut
		}
		r.class, r.hint, r.answered = v.Class, v.asked(), v.IsAnswer()
		if x.Decide != nil { // 3
			r.wait, again = x.Decide(v)
		}
		if x.Why != nil && !again {
			r.err = x.Why()
		}
	}
	if !again || r.wait < 0 {
		r.wait = 0
	}
	r.attemptDone(p, v.Err)           // 4
	if again && p.Hooks.Wait != nil { // 5
		r.waitHook(p, v.Err)
	}
}
