package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/health"
)

var errBusy = errors.New("failover: another run was faster")

// askAt asks a target that no guard has admitted yet.
func (r *targets) askAt(ctx context.Context, e retry.Entry, c candidate) (retry.Pass, error) {
	r.at, r.forced = c.index, c.fitness > free
	return r.ask(ctx, e)
}

// ask asks the guards of the target that have not admitted the attempt, and starts it if all have. With Again in the
// pass the attempt has to wait first. With an error nothing is held.
func (r *targets) ask(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	t := r.here()
	e.Earlier = retry.Pass{}
	if last := len(r.passes) - 1; last >= 0 && r.passes[last].Again { // Enter replaces it, or has ended it
		e.Earlier = r.passes[last]
		r.passes = r.passes[:last]
	}
	for n := len(r.passes); n < len(t.guards); n++ {
		var pass retry.Pass
		if g := t.guards[n]; g != nil {
			var err error
			if pass, err = g.Enter(ctx, e); err != nil {
				r.giveBack(retry.Exit{Verdict: retry.Verdict{Err: err}})
				return retry.Pass{}, err
			}
		}
		e.Earlier = retry.Pass{}
		r.passes = append(r.passes, pass)
		if pass.Wait > 0 || pass.Wake != nil || pass.Again {
			return retry.Pass{Wait: pass.Wait, Wake: pass.Wake, Timed: pass.Timed, Again: true}, nil
		}
	}
	ticket, ok := t.state.start(r, r.forced)
	if !ok {
		r.giveBack(retry.Exit{})
		return retry.Pass{}, errBusy
	}
	r.ticket = ticket
	r.name.Store(t.name)
	return retry.Pass{Paces: slices.ContainsFunc(r.passes, func(p retry.Pass) bool { return p.Paces })}, nil
}

// Leave takes back what the attempt holds, and tells the target what it has come to.
func (r *targets) Leave(_ retry.Pass, x retry.Exit) {
	ticket, t := r.ticket, r.here()
	if r.ticket = 0; ticket == 0 { // it has not started
		r.giveBack(x)
		return
	}
	n := r.news
	switch {
	case x.Ending != retry.Returned && x.Ending != retry.Expired:
		n = news{}
	case x.Verdict.Err != nil && x.Verdict.Class == retry.Unknown: // nobody has judged it: the caller's deadline has passed
		if n.outcome == health.Failed {
			n.hung, n.late = true, true
		}
	case x.Verdict.Err != nil:
		x.Verdict = r.own
	}
	if t.timeout < r.policy.AttemptTimeout && x.Ending != retry.NotMade { // the run does not know of it
		x.Allowed = min(cmp.Or(x.Allowed, never), t.timeout)
		if x.Ending == retry.Returned && x.Took >= t.timeout && x.Verdict.Err != nil && !x.Verdict.IsAnswer() {
			x.Ending = retry.Expired
		}
	}
	defer t.state.end(r, ticket, n)
	r.giveBack(x)
}

// giveBack leaves the guards of the target, the last one first, whatever panics.
func (r *targets) giveBack(x retry.Exit) {
	n := len(r.passes) - 1
	if n < 0 {
		return
	}
	pass := r.passes[n]
	r.passes[n] = retry.Pass{}
	r.passes = r.passes[:n]
	defer r.giveBack(x)
	if g := r.here().guards[n]; g != nil {
		x.Clock = r.policy.Clock
		g.Leave(pass, x)
	}
}
