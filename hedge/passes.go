package hedge

import (
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ending"
	"github.com/goretry/retry/internal/hedging"
)

// This file has what a race owes the policy's guards. Each attempt has passes of its own, and the
// guards get what that attempt has come to, one [retry.Exit], once and when it has ended, whatever
// the others do. This is who owes it to them:
//
//	           admission    end of op       end of the attempt   end of the race
//	first:     the run ───▶ the attempt ──▶ told
//	a hedge:   the attempt ───────────────▶ told
//	the one that has won, with Value.Keep:  the race ──────────▶ Keep, or told after a panic
//
// If the first attempt panics, or without [Value].Take, it stays with the run.

// passes are those of one attempt.
type passes struct {
	giveBack func(retry.Exit) // does so when it is first called; nil if the run owes that
	began    time.Time        // op
	exit     retry.Exit       // what the attempt has come to; NotMade until op is called
}

// admit has the guards admit a, or returns why they refuse it. They may take their time, and end
// with a's context.
func (r *race[T]) admit(a *attempt[T]) (refused error) {
	if r.policy == nil {
		return nil
	}
	giveBack, err := r.policy.Admit(a, retry.Entry{Hedge: true})
	if err != nil {
		return &hedging.Guarded{Err: err}
	}
	a.passes = &passes{giveBack: giveBack}
	return nil
}

// begin says that op is called now. Until it returns, it counts as one that has panicked.
func (p *passes) begin(now time.Time) {
	if p != nil {
		p.began, p.exit.Ending = now, retry.Panicked
	}
}

// endPasses takes what a's op has come to, and the passes that the run has for it, if any.
func (r *race[T]) endPasses(a *attempt[T], v retry.Verdict) {
	p := a.passes
	if p == nil {
		return
	}
	p.exit.Ending = retry.Returned
	r.record(a, v)
	if a == &r.first && r.value.Take != nil {
		p.giveBack = r.value.Take()
	}
}

// record completes the Exit of an attempt that has just returned, or panicked.
func (r *race[T]) record(a *attempt[T], v retry.Verdict) {
	x := &a.passes.exit
	x.Verdict, x.Took = v, max(r.rules.Clock.Now().Sub(a.passes.began), 0)
	x.Allowed = r.allowed(a)
	if x.Ending != retry.Returned {
		return
	}
	switch how := ending.Of(a); {
	case how == retry.Canceled:
		x.Ending = retry.Canceled
	case v.Err == nil, v.IsAnswer():
	case how == retry.Expired, x.Allowed > 0 && x.Took >= x.Allowed:
		x.Ending = retry.Expired
		if v.Class == retry.Transient && r.policy.AttemptTimeout > 0 { // its context has not ended yet: as in a run
			x.Verdict.Class = retry.TimedOut
		}
	}
}

// allowed returns how long op might have taken from its begin on, at least 1, or 0 without a limit.
func (r *race[T]) allowed(a *attempt[T]) time.Duration {
	began := a.passes.began
	left := time.Duration(math.MaxInt64)
	if t := r.policy.AttemptTimeout; t > 0 { // the context need not have that deadline
		left = t - began.Sub(r.first.passes.began)
	}
	if deadline, ok := a.Deadline(); ok {
		left = min(left, deadline.Sub(began))
	}
	if left == math.MaxInt64 {
		return 0
	}
	return max(left, 1)
}

// tellUnlessKept tells the guards what a has come to, unless it has won and Value.Keep decides about that.
func (r *race[T]) tellUnlessKept(a *attempt[T]) {
	if a.stage == won && r.value.Keep != nil {
		return
	}
	defer a.passes.tell()
	if p := a.passes; p != nil && p.exit.Ending == retry.Panicked {
		r.record(a, retry.Verdict{})
	}
}

// tell tells the guards what the attempt has come to, unless they know it or the run tells them.
func (p *passes) tell() {
	if p != nil && p.giveBack != nil {
		p.giveBack(p.exit)
	}
}

// keep hands the passes over to keep, which has to tell the guards then.
func (p *passes) keep(keep func(leave func(retry.Exit), x retry.Exit)) {
	if p != nil && p.giveBack != nil && keep != nil {
		keep(p.giveBack, p.exit)
	}
}
