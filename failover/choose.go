package failover

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/paced"
)

// never is a wait that does not end. A turn of which nobody knows when it comes is better.
const (
	never    time.Duration = math.MaxInt64
	sometime               = never - 1
)

// candidate is a target that may be asked now.
type candidate struct {
	index int
	view
}

// options are what a run can do next.
type options struct {
	ask    []candidate   // the targets to ask: free ones in the order of preference, then tired ones
	round  bool          // another round has targets
	rest   time.Duration // until the first target may be asked that is left alone now
	spread time.Duration // over which the runs that wait for that come back
	late   time.Duration // until one may be asked for which the run does not wait
	bound  time.Duration // until the run may ask one, as their servers have told it
}

// options returns them, with room for those to ask now.
func (r *targets) options(room []candidate) options {
	o := options{ask: room, rest: never, late: never, bound: never}
	usable := false // one is free, though it may be tried in this round
	for i := range r.places {
		t := &r.places[i]
		if t.out || stays(&r.found) && i != r.at {
			continue
		}
		c, bound := candidate{i, t.state.look(r.policy.Clock)}, r.bound(t)
		o.bound = min(o.bound, bound)
		wait := min(max(bound, c.left), sometime)
		usable = usable || wait == 0 && c.fitness == free
		switch {
		case c.wish > r.policy.MaxRetryAfter:
			o.late = min(o.late, c.left, sometime)
		case wait > 0:
			if wait < o.rest {
				o.rest, o.spread = wait, c.all
			}
		case t.tried:
			o.round = true
		default:
			o.ask = append(o.ask, c)
		}
	}
	slices.SortStableFunc(o.ask, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.fitness, b.fitness), a.failed.Compare(b.failed))
	})
	if usable { // the run can come back to it: mostly that is an attempt less for one that works
		o.ask = slices.DeleteFunc(o.ask, func(c candidate) bool { return c.fitness > free && !c.untried })
	}
	return o
}

// bound returns how long the run may not ask t.
func (r *targets) bound(t *place) time.Duration {
	if t.notBefore.IsZero() {
		return 0
	}
	if now := r.policy.Clock.Now(); health.Ahead(now, t.notBefore, r.policy.MaxRetryAfter) {
		return t.notBefore.Sub(now)
	}
	return 0
}

// Enter chooses the target of the next attempt.
func (r *targets) Enter(ctx context.Context, e retry.Entry) (pass retry.Pass, err error) {
	for err = errBusy; err == errBusy; {
		pass, err = r.choose(ctx, e)
	}
	return pass, err
}

// choose asks the targets in order, and starts the attempt at the first that admits it. If none does, the run waits
// for the first turn, or for what comes before that.
func (r *targets) choose(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	var refusal error // the one that says to come back first
	refuse := func(err error) {
		if refusal == nil || comeBack(err) < comeBack(refusal) {
			refusal = err
		}
	}
	refused := -1
	if len(r.passes) > 0 { // the turn has come for which the run has waited
		pass, err := r.ask(ctx, e)
		if err == nil || err == errBusy {
			return pass, err
		}
		refused = r.at
		refuse(err)
	}

	var room [8]candidate
	o := r.options(room[:0])
	var first candidate
	turn := never // of first
	for _, c := range o.ask {
		if c.index == refused || c.fitness > free && turn < e.Patience { // do not disturb one that rests
			continue
		}
		pass, err := r.askAt(ctx, e, c)
		switch {
		case err == errBusy, err == nil && (!pass.Again || len(r.places) == 1): // hooks see the wait of an only one's guard
			return pass, err
		case err == nil:
			if in := waitOf(pass); in < turn {
				first, turn = c, in
			}
			r.giveBack(retry.Exit{})
		default:
			refuse(err)
		}
	}

	backoff := never
	if o.round {
		backoff = r.backoff(e.Class, retry.Step{Rand: draw(r.policy.Rand)})
	}
	if other := min(o.rest, backoff); turn < never && (turn <= other || other >= e.Patience) {
		pass, err := r.askAt(ctx, e, first)
		if err == nil || err == errBusy {
			return pass, err
		}
		refuse(err)
	}
	return r.wait(e, o, backoff, refusal)
}

// wait has the run wait for another round or for the end of a rest, or ends it. Neither is a switch.
func (r *targets) wait(e retry.Entry, o options, backoff time.Duration, refusal error) (retry.Pass, error) {
	r.newRound()
	if err := r.settle(e); err != nil {
		return retry.Pass{}, err
	}
	switch {
	case backoff < o.rest:
		r.rounds, r.prev = r.rounds+1, backoff
		return retry.Pass{Wait: backoff, Again: true}, nil
	case o.rest < never:
		// All who have come during a rest wait for its end: they come back as they came, over as long
		// again, and not all at once.
		spread := max(min(o.spread, (e.Patience-o.rest)/2), 0)
		return retry.Pass{Wait: o.rest + time.Duration(draw(r.policy.Rand)*float64(spread)), Again: true}, nil
	case refusal != nil:
		return retry.Pass{}, refusal
	case o.late < never:
		return retry.Pass{}, retry.Stop(paced.Late(o.late))
	}
	return retry.Pass{}, retry.Stop(errors.New("failover: the Set has no target: fill its Targets"))
}

// comeBack returns how long a refusal keeps the run away.
func comeBack(refusal error) time.Duration {
	v := retry.Policy{}.Judge(refusal)
	if v.Class == retry.Permanent {
		return never
	}
	return v.Hint
}

// waitOf returns how long the wait of a pass is, as far as it is known.
func waitOf(p retry.Pass) time.Duration {
	if p.Wake != nil && !p.Timed && p.Wait == 0 {
		return sometime
	}
	return min(p.Wait, sometime)
}
