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
// If op panics in the first attempt, or without [Value].Take, it stays with the run.

// passes are those of one attempt.
type passes struct {
	giveBack func(retry.Exit) // does so when it is first called; nil if the run owes that
	began    time.Time        // op
	failed   retry.Ending     // what it is if it has failed, as of the moment at which op returned
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
	a.passes.giveBack = giveBack
	return nil
}

// begin says that op is called now. Until it returns, it counts as one that has panicked.
func (p *passes) begin(now time.Time) { p.began, p.exit.Ending = now, retry.Panicked }

// noteEnd notes for the guards that op has ended, and how if it has failed. Policy.Classify may
// take its time, or end a context, which changes nothing of that. From now on the run owes nothing.
func (r *race[T]) noteEnd(a *attempt[T], at time.Time) {
	if r.policy == nil {
		return
	}
	p, x := &a.passes, &a.passes.exit
	x.Took, x.Allowed = max(at.Sub(p.began), 0), r.allowed(a)
	p.failed = ending.Of(a)
	if p.failed == retry.Returned && x.Allowed > 0 && x.Took >= x.Allowed { // its context has not ended yet
		p.failed = retry.Expired
	}
	if a == &r.first && a.owned && r.value.Take != nil {
		p.giveBack = r.value.Take()
	}
}

// settle takes what a's op has come to.
func (r *race[T]) settle(a *attempt[T], v retry.Verdict) {
	if r.policy == nil {
		return
	}
	p := &a.passes
	p.exit.Verdict, p.exit.Ending = v, p.failed
	switch {
	case p.failed != retry.Expired:
	case v.Err == nil, v.IsAnswer(): // these are what they are after the deadline too
		p.exit.Ending = retry.Returned
	case v.Class == retry.Transient && r.policy.AttemptTimeout > 0: // as in a run
		p.exit.Verdict.Class = retry.TimedOut
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

// tellUnlessKept tells the guards what a has come to, unless it has won and Value.Keep decides
// about that.
func (r *race[T]) tellUnlessKept(a *attempt[T]) {
	if r.policy == nil || a.stage == won && r.value.Keep != nil {
		return
	}
	defer a.passes.tell()
	if a.passes.exit.Ending == retry.Panicked && !a.owned {
		r.noteEnd(a, r.rules.Clock.Now())
	}
}

// tell tells the guards what the attempt has come to, unless they know it or the run tells them.
func (p *passes) tell() {
	if p.giveBack != nil {
		p.giveBack(p.exit)
	}
}
