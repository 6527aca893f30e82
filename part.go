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
	r.begin(&p)
	if x.Op != nil && r.ctx.Err() == nil {
		r.part(&p, &x)
	}
	r.settlePart(&p, &x)
	r.phase = over
	if p.Hooks.Done != nil {
		r.doneHook(&p)
	}
}

// settlePart has the queue say how the run has ended, which is not what was decided about it.
func (r *run) settlePart(p *Policy, x *part.Part[Verdict, *Error]) {
	if p.Hooks.Done != nil {
		defer func() { r.idle = r.elapsed(p) }() // the time of Settle is no wait, also if it panics
	}
	r.err = nil
	if x.Settle != nil {
		r.err = x.Settle(r.ctx)
	}
}

// part makes the attempt of a part, without guards.
func (r *run) part(p *Policy, x *part.Part[Verdict, *Error]) {
	r.number = min(r.attempts, math.MaxInt-1) + 1
	r.opCtx = r.numbered(1)
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
