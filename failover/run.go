package failover

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/paced"
	"github.com/goretry/retry/internal/readings"
)

// rules are those of a Set.
type rules struct {
	failures  int
	rest      retry.Backoff
	elsewhere func(error) bool
	broken    func(error) bool
}

// place is a target as a run sees it, whatever its value.
type place struct {
	index   int // in Set.Targets
	name    *string
	guards  []retry.Guard
	timeout time.Duration
	state   *state
	tried   bool      // in this round
	out     bool      // the run does not ask it again
	not     time.Time // the run does not ask it before: its server has said so
	notFor  time.Duration
}

// targets is one call of Do: Policy.Attempts whose last guard is the set itself. So a wait for a
// target is a guard's wait, and a target learns the true end of each attempt. Hooks.Guard gets the name
// of this type. It is also the run's backoff, and as purse its budget.
type targets struct {
	policy retry.Policy // the caller's
	rules  rules
	clock  clockx.Clock
	places []place
	common time.Duration          // the timeout of attempts that the run has
	name   atomic.Pointer[string] // of the target of the latest attempt

	// The target that is asked, or at which the attempt is made.
	now     int
	stays   bool         // the next attempt is made there too, and nowhere else
	forced  bool         // although it is tired
	passes  []retry.Pass // of its guards
	waiting bool         // for the last of them
	ticket  uint64       // of the attempt; 0: it has not started

	// What an attempt that has failed has come to.
	found   retry.Verdict // what the run gets
	own     retry.Verdict // what the target's guards get
	news    news
	expired bool // its deadline has passed

	// The retry.
	atOnce bool          // it follows at once, elsewhere
	rounds int           // backoffs so far
	prev   time.Duration // the latest of them
	purse  wallet

	few      [3]place // room, for fewer allocations
	fewGuard [4]retry.Guard
	fewPass  [4]retry.Pass
}

func (r *targets) here() *place { return &r.places[r.now] }

// attempts returns the run.
func (r *targets) attempts(ctx context.Context) *retry.Attempts {
	p := r.policy
	r.clock = readings.Clock(p.Clock)
	r.passes = r.fewPass[:0]
	p.Guards = append(append(r.fewGuard[:0], p.Guards...), r)
	r.common = r.longest()
	p.AttemptTimeout = r.common
	if len(r.places) > 1 {
		p.Backoff, p.ThrottleBackoff = r, nil
		if p.Budget != nil {
			p.Budget = (*purse)(r)
		}
	}
	if ctx != nil {
		ctx = context.WithValue(ctx, nameKey{}, &r.name)
	}
	return p.Attempts(ctx)
}

// timeout returns how long an attempt at t may take, 0 if there is no limit.
func (r *targets) timeout(t *place) time.Duration {
	if t.timeout > 0 {
		return t.timeout
	}
	return max(r.policy.AttemptTimeout, 0)
}

// longest returns the longest of these, which is the run's: so Policy.Guards hear of it.
func (r *targets) longest() (longest time.Duration) {
	for i := range r.places {
		timeout := r.timeout(&r.places[i])
		if timeout == 0 {
			return 0
		}
		longest = max(longest, timeout)
	}
	return longest
}

func (r *targets) longestHint() time.Duration {
	if r.policy.MaxRetryAfter > 0 {
		return r.policy.MaxRetryAfter
	}
	return 5 * time.Minute
}

// draw returns a random number of a policy.
func draw(random func() float64) float64 {
	if random == nil {
		return rand.Float64()
	}
	return min(max(random(), 0), 1)
}

// context returns the context of the attempt at the target that r has chosen.
func (r *targets) context(ctx context.Context) (context.Context, context.CancelFunc) {
	r.found, r.own, r.news, r.expired = retry.Verdict{}, retry.Verdict{}, news{}, false
	ctx = context.WithValue(ctx, nameKey{}, r.here().name)
	if timeout := r.timeout(r.here()); timeout > 0 && timeout != r.common {
		return r.clock.WithTimeoutCause(ctx, timeout, retry.ErrAttemptTimeout)
	}
	return ctx, nil
}

// judge says what the error of an attempt means to the run and to its target, and what follows.
func (r *targets) judge(ctx context.Context, err error) {
	t := r.here()
	v := r.policy.Judge(err)
	if e, ok := v.Err.(interface{ Verdict() retry.Verdict }); ok && !v.Marked { // of retryhttp.Once
		v = e.Verdict()
	}
	if r.timeout(t) > 0 {
		end, _ := ctx.Deadline()
		r.expired = context.Cause(ctx) == retry.ErrAttemptTimeout || ctx.Err() == nil && !end.After(r.clock.Now())
	}
	if v.Class == retry.Transient && r.expired {
		v.Class = retry.TimedOut
	}
	r.own = v
	if *t.name != "" {
		v.Err = fmt.Errorf("%s: %w", *t.name, v.Err)
	}
	r.stays, r.atOnce, t.tried = false, false, len(r.places) > 1

	// The target.
	marked, moves := v.Marked && v.Class == retry.Permanent, false
	switch ask := r.rules; {
	case v.Answered, marked:
		r.news.outcome = health.Passed
	case ask.broken != nil && ask.broken(err):
		r.news.outcome, moves = health.Broken, true
	case ask.elsewhere != nil && ask.elsewhere(err):
		r.news.outcome, moves = health.Passed, true
	case v.Class == retry.Permanent:
		r.news.outcome = health.Passed
	default:
		r.news = news{outcome: health.Failed, hung: v.Class == retry.TimedOut, hint: v.Hint}
		if v.Hint > 0 {
			t.not, t.notFor = r.clock.Now().Add(v.Hint), v.Hint
			t.out = v.Hint > r.longestHint()
		}
	}
	t.out = t.out || moves

	// The run.
	others := slices.ContainsFunc(r.places, func(t place) bool { return !t.out })
	switch end := r.policy.Ends(v); {
	case moves && others:
		v.Class, v.Undone, v.Refused, v.Hint, v.Now = retry.Unprocessed, true, false, 0, false
	case moves && end == retry.ReasonNone:
		v.End = retry.ReasonPermanent
	}
	switch end := r.policy.Ends(v); {
	case v.Answered: // a poll
		r.stays = end == retry.ReasonNone
	case end == retry.ReasonRetryAfter && others:
		v.Hint = r.next(v.Hint)
	case end != retry.ReasonNone:
	case v.Now:
		r.stays = true
	default:
		v.Hint = r.next(v.Hint)
	}
	r.found = v
}

// next decides whether another attempt follows at once, and returns how long none may at any target, as
// their servers have told this run.
func (r *targets) next(hint time.Duration) (bound time.Duration) {
	if len(r.places) == 1 {
		return hint
	}
	var room [8]resting
	if order, _ := r.order(room[:0]); len(order) > 0 {
		r.atOnce = true
		return 0
	}
	bound = math.MaxInt64
	for i := range r.places {
		if t := &r.places[i]; !t.out {
			bound = min(bound, r.bound(t))
		}
	}
	return bound
}

// bound returns how long the run may not ask t.
func (r *targets) bound(t *place) time.Duration {
	if t.not.IsZero() {
		return 0
	}
	if now := r.clock.Now(); health.Ahead(now, t.not, t.notFor) {
		return t.not.Sub(now)
	}
	return 0
}

// resting is a target that may be asked.
type resting struct {
	index int
	view
}

// order returns the targets that may be asked now, and how many of them are free: those in the order of
// preference, and then tired ones.
func (r *targets) order(all []resting) (order []resting, frees int) {
	usable := false // one is free, though it may be tried in this round
	var rest []resting
	for i := range r.places {
		t := &r.places[i]
		if t.out || r.stays && i != r.now || r.bound(t) > 0 {
			continue
		}
		switch v := t.state.look(r.clock); {
		case v.fitness == free:
			usable = true
			if !t.tried {
				all = append(all, resting{i, v})
			}
		case v.fitness == tired && !t.tried:
			rest = append(rest, resting{i, v})
		}
	}
	slices.SortStableFunc(rest, func(a, b resting) int { return a.compare(&b.view) })
	frees = len(all)
	for _, t := range rest {
		// If the run can come back to one that is free, one that rests is tried once in a rest: mostly
		// that is an attempt less for one that works.
		if !usable || t.untried {
			all = append(all, t)
		}
	}
	return all, frees
}

// Delay is 0 before an attempt that follows at once. Otherwise the round is over.
func (r *targets) Delay(s retry.Step) time.Duration {
	if r.atOnce {
		return 0
	}
	delay := r.backoff(s)
	r.newRound()
	r.rounds, r.prev = r.rounds+1, delay
	return delay
}

// backoff returns the wait after this round.
func (r *targets) backoff(s retry.Step) time.Duration {
	var b retry.Backoff = retry.Exponential{}
	switch {
	case r.found.Class == retry.Throttled && r.policy.ThrottleBackoff != nil:
		b = r.policy.ThrottleBackoff
	case r.policy.Backoff != nil:
		b = r.policy.Backoff
	}
	s.Retry, s.Prev = r.rounds+1, r.prev
	return max(b.Delay(s), 0)
}

func (r *targets) newRound() {
	for i := range r.places {
		r.places[i].tried = false
	}
	r.purse.noSwitch()
}

var (
	errNoTargets = errors.New("failover: no target may be tried any more in this run")
	errEmptySet  = errors.New("failover: the Set has no target: fill its Targets")
	errBusy      = errors.New("failover: another run was faster")
)

// Enter chooses the target of the next attempt.
func (r *targets) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	returned := false
	defer func() {
		if !returned { // a guard has panicked
			r.giveBack(retry.Exit{})
		}
	}()
	pass, err := r.choose(ctx, e)
	returned = true
	return pass, err
}

func (r *targets) choose(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	if r.atOnce = false; len(r.places) == 0 {
		return retry.Pass{}, retry.Stop(errEmptySet)
	}
	if err := (*purse)(r).settle(e); err != nil {
		return retry.Pass{}, err
	}
	var refusal error
	refused := -1
	if r.waiting { // its turn has come
		switch pass, err := r.ask(ctx, e); {
		case err == errBusy: // it rests since then
		case err != nil:
			refused, refusal = r.now, err
		default:
			return pass, nil
		}
	}
	var room [8]resting
	order, frees := r.order(room[:0])
	turn, turnIn, busy := -1, time.Duration(math.MaxInt64), false
	for n, t := range order {
		if t.index == refused {
			continue
		}
		if n >= frees && turn >= 0 && turnIn < e.Patience { // one that is free has a turn in time: do not disturb those that rest
			break
		}
		r.now, r.forced = t.index, n >= frees || r.stays
		switch pass, err := r.ask(ctx, e); {
		case err == errBusy:
			busy = true
		case err != nil:
			if refusal == nil || comeBack(err) < comeBack(refusal) {
				refusal = err
			}
		case !r.waiting || len(r.places) == 1:
			return pass, nil
		default:
			if in := waitOf(pass); turn < 0 || in < turnIn {
				turn, turnIn = n, in
			}
			r.giveBack(retry.Exit{})
		}
	}

	// None admits it. What comes first?
	until, late, spread := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(0)
	round := false
	for i := range r.places {
		t := &r.places[i]
		if t.out || r.stays && i != r.now {
			continue
		}
		v, bound := t.state.look(r.clock), r.bound(t)
		switch {
		case v.fitness == away && v.wish > r.longestHint():
			late = min(late, v.wish)
		case v.fitness == away && v.left >= bound:
			if v.left < until {
				until, spread = v.left, v.rest
			}
		case bound > 0:
			if bound < until {
				until, spread = bound, 0
			}
		case t.tried:
			round = true
		}
	}
	delay := time.Duration(math.MaxInt64)
	if round {
		if delay = r.backoff(retry.Step{Rand: draw(r.policy.Rand)}); delay < until {
			until, spread = delay, 0
		}
	}
	switch {
	case busy: // the round goes on
		return retry.Pass{Wait: time.Millisecond, Again: true}, nil
	case turn >= 0 && (turnIn <= until || until >= e.Patience): // nobody may know when a turn comes
		t := order[turn]
		r.now, r.forced = t.index, turn >= frees || r.stays
		pass, err := r.ask(ctx, e)
		if err == errBusy {
			return retry.Pass{Again: true}, nil
		}
		return pass, err
	case refusal != nil && turn < 0 && until == math.MaxInt64:
		r.found.Class = retry.Unprocessed
		return retry.Pass{}, refusal
	case until < math.MaxInt64:
		if r.newRound(); until == delay {
			r.rounds, r.prev = r.rounds+1, delay
		}
		// All who have come during a rest wait for its end: they come back as they came, over as long
		// again, and not all at once.
		if spread = min(spread, (e.Patience-until)/2); spread > 0 {
			until += time.Duration(draw(r.policy.Rand) * float64(spread))
		}
		return retry.Pass{Wait: until, Again: true}, nil
	case late < math.MaxInt64:
		return retry.Pass{}, retry.Stop(paced.Late(late))
	}
	return retry.Pass{}, retry.Stop(errNoTargets)
}

// comeBack returns how long a refusal keeps the run away.
func comeBack(refusal error) time.Duration {
	v := retry.Policy{}.Judge(refusal)
	if v.Class == retry.Permanent {
		return math.MaxInt64
	}
	return v.Hint
}

// waitOf returns how long the wait of a pass is, as far as it is known.
func waitOf(p retry.Pass) time.Duration {
	if p.Wake != nil && !p.Timed && p.Wait == 0 {
		return math.MaxInt64 - 1
	}
	return p.Wait
}

// ask asks the guards of the target that have not admitted the attempt, and starts it if all have. If r is waiting
// after that, the attempt waits as the pass says. With an error nothing is held.
func (r *targets) ask(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	t := r.here()
	e.Earlier = retry.Pass{}
	if last := len(r.passes) - 1; r.waiting && r.passes[last].Again { // Enter replaces it, or has ended it
		e.Earlier = r.passes[last]
		r.passes = r.passes[:last]
	}
	r.waiting = false
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
		if r.waiting = pass.Wait > 0 || pass.Wake != nil || pass.Again; r.waiting {
			return retry.Pass{Wait: pass.Wait, Wake: pass.Wake, Timed: pass.Timed, Again: true}, nil
		}
	}
	ticket, ok := t.state.start(r, r.forced)
	if !ok {
		r.giveBack(retry.Exit{})
		return retry.Pass{}, errBusy
	}
	r.ticket = ticket
	r.stays = false
	r.name.Store(t.name)
	r.purse.used()
	return retry.Pass{Paces: slices.ContainsFunc(r.passes, func(p retry.Pass) bool { return p.Paces })}, nil
}

// Leave takes back what the attempt holds, and tells the target what it has come to.
func (r *targets) Leave(_ retry.Pass, x retry.Exit) {
	if r.ticket == 0 { // it has not started
		r.giveBack(x)
		return
	}
	n := news{}
	switch {
	case x.Ending != retry.Returned && x.Ending != retry.Expired:
	case x.Verdict.Err == nil:
		n.outcome = health.Passed
	case x.Verdict.Class == retry.Unknown: // nobody has judged it: the caller's deadline has passed
		if n = r.news; n.outcome == health.Failed {
			n.hung, n.late, n.hint = true, true, 0
		}
	default:
		n, x.Verdict = r.news, r.own
	}
	if timeout := r.timeout(r.here()); timeout > 0 && x.Ending != retry.NotMade {
		if x.Allowed == 0 || timeout < x.Allowed {
			x.Allowed = timeout
		}
		if r.expired && x.Ending == retry.Returned && !x.Verdict.IsAnswer() {
			x.Ending = retry.Expired
		}
	}
	ticket := r.ticket
	r.ticket = 0
	defer r.here().state.end(r, ticket, n)
	r.giveBack(x)
}

// giveBack leaves the guards of the target, the last one first, whatever panics.
func (r *targets) giveBack(x retry.Exit) {
	x.Clock = r.clock
	r.waiting = false
	defer func() {
		if len(r.passes) > 0 { // a guard has panicked
			r.giveBack(x)
		}
	}()
	for n := len(r.passes) - 1; n >= 0; n-- {
		pass := r.passes[n]
		r.passes[n] = retry.Pass{}
		r.passes = r.passes[:n]
		if g := r.here().guards[n]; g != nil {
			g.Leave(pass, x)
		}
	}
}
