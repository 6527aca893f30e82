package retry

// May call: run.go, end.go, stopwatch.go, hooks.go, verdict.go.

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

// part makes the attempt of a part, without guards.
func (r *run) part(p *Policy, x *part.Part[Verdict, *Error]) {
	r.number = 1
	r.opCtx = r.numbered()
	r.number = min(r.attempts, math.MaxInt-1) + 1
	e := end{way: canceled, part: x}
	if r.prepare(p) {
		v := x.Op(r.opCtx)
		if v != (Verdict{}) {
			v = v.checked()
		}
		e.way, e.given, e.err = attempted, &v, v.Err
	}
	r.conclude(p, &e)
}
