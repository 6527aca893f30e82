package failover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/readings"
)

// targets is one call of Do: a run of Policy.Attempts whose last guard is the set itself. So a wait for a
// target is a guard's wait, and a target learns the true end of each attempt. Hooks.Guard gets the name
// of this type. It is also the run's backoff, and as purse its budget. An attempt goes through
//
//	Enter     which chooses a target, or has the run wait and then chooses again
//	context   with the target's name and timeout
//	judge     of its error: what it means to the target, to the run, and where the next attempt is made
//	Leave     which tells the target and its guards
//	Delay     which is 0 before a switch, else the backoff
//	Withdraw  which pays for the retry, unless that is the first switch: see purse
type targets struct {
	policy retry.Policy // the caller's, and what its zero values mean
	rules
	places []place
	name   atomic.Pointer[string] // of the target of the latest attempt

	// The target that is asked, or at which the attempt is made.
	at     int          // the index of its place
	forced bool         // although it is tired
	passes []retry.Pass // of its guards; if there are some when Enter is called, the last has the attempt wait
	ticket uint64       // of the attempt; 0: it has not started

	judged

	// The retry.
	atOnce bool          // it follows at once, elsewhere
	rounds int           // backoffs so far
	prev   time.Duration // the latest of them
	wallet

	fewPlaces [3]place // room, for fewer allocations
	fewGuards [4]retry.Guard
	fewPasses [4]retry.Pass
}

// rules are those of a Set.
type rules struct {
	failures  int
	rest      retry.Backoff
	elsewhere func(error) bool
	broken    func(error) bool
}

// place is a target as a run sees it, whatever its value.
type place struct {
	index     int // in Set.Targets
	name      *string
	guards    []retry.Guard
	timeout   time.Duration // of an attempt; never: none
	state     *state
	tried     bool      // in this round
	out       bool      // the run does not ask it again
	notBefore time.Time // its server has told this run so
}

// judged is what the error of an attempt has come to.
type judged struct {
	own   retry.Verdict // on the error alone, for the target's guards
	found retry.Verdict // with the target's name, and with what the Set makes of it, for the run
	news  news          // for the target
}

var (
	defaultRest    retry.Backoff = retry.Exponential{Base: 2 * time.Second, Max: time.Minute, Jitter: retry.EqualJitter}
	defaultBackoff retry.Backoff = retry.Exponential{}
)

// begin returns the run. Its places are known.
func (r *targets) begin(ctx context.Context, p retry.Policy) *retry.Attempts {
	r.policy = p
	r.policy.Clock = readings.Clock(p.Clock)
	r.policy.Backoff = cmp.Or(p.Backoff, defaultBackoff)
	r.policy.ThrottleBackoff = cmp.Or(p.ThrottleBackoff, r.policy.Backoff)
	r.policy.MaxRetryAfter = cmp.Or(max(p.MaxRetryAfter, 0), 5*time.Minute)
	r.policy.AttemptTimeout = 0
	for i := range r.places { // the longest, so that Policy.Guards hear of it
		t := &r.places[i]
		t.timeout = cmp.Or(max(t.timeout, 0), max(p.AttemptTimeout, 0), never)
		r.policy.AttemptTimeout = max(r.policy.AttemptTimeout, t.timeout)
	}
	r.failures, r.rest = cmp.Or(max(r.failures, 0), 3), cmp.Or(r.rest, defaultRest)
	r.passes = r.fewPasses[:0]

	p.Guards = append(append(r.fewGuards[:0], p.Guards...), r)
	if p.AttemptTimeout = r.policy.AttemptTimeout; p.AttemptTimeout == never {
		p.AttemptTimeout = 0
	}
	p.Backoff, p.ThrottleBackoff = r, (*throttled)(r)
	if p.Budget != nil {
		p.Budget = (*purse)(r)
	}
	if ctx != nil {
		ctx = context.WithValue(ctx, nameKey{}, &r.name)
	}
	return p.Attempts(ctx)
}

func (r *targets) here() *place { return &r.places[r.at] }

// context returns the context of the attempt at the target that r has chosen.
func (r *targets) context(ctx context.Context) (context.Context, context.CancelFunc) {
	t := r.here()
	r.judged = judged{news: news{outcome: health.Passed}} // until an error says otherwise
	r.gift = false                                        // it is made
	ctx = context.WithValue(ctx, nameKey{}, t.name)
	if t.timeout < r.policy.AttemptTimeout {
		return r.policy.Clock.WithTimeoutCause(ctx, t.timeout, retry.ErrAttemptTimeout)
	}
	return ctx, nil
}

// judge says what the error of an attempt means to its target, and to the run.
func (r *targets) judge(ctx context.Context, err error) {
	t, now, v := r.here(), r.policy.Clock.Now(), r.policy.Judge(err)
	if e, ok := v.Err.(interface{ Verdict() retry.Verdict }); ok && !v.Marked { // of retryhttp.Once
		v = e.Verdict()
	}
	if v.Class == retry.Transient && t.timeout < never {
		end, _ := ctx.Deadline() // a connection with the same deadline often fails before the context ends
		if context.Cause(ctx) == retry.ErrAttemptTimeout || ctx.Err() == nil && !end.After(now) {
			v.Class = retry.TimedOut
		}
	}
	r.own = v
	if *t.name != "" {
		v.Err = fmt.Errorf("%s: %w", *t.name, v.Err)
	}

	var moves bool
	r.news, moves = r.blame(err, &v)
	if r.news.hint > 0 {
		t.notBefore = now.Add(r.news.hint)
	}
	t.tried, t.out = true, moves || r.news.hint > r.policy.MaxRetryAfter
	if r.found = r.follow(v, moves); !r.atOnce {
		r.newRound()
	}
}

// blame returns what an error says about the target, and whether the run goes on elsewhere though another attempt
// here would not help it.
func (r *targets) blame(err error, v *retry.Verdict) (n news, moves bool) {
	switch {
	case v.Answered, v.Marked && v.Class == retry.Permanent:
		return news{outcome: health.Passed}, false
	case r.broken != nil && r.broken(err):
		return news{outcome: health.Broken}, true
	case r.elsewhere != nil && r.elsewhere(err):
		return news{outcome: health.Passed}, true
	case v.Class == retry.Permanent:
		return news{outcome: health.Passed}, false
	}
	return news{outcome: health.Failed, hung: v.Class == retry.TimedOut, hint: v.Hint}, false
}

// follow decides where the next attempt is made, if there is one, and returns what the run is to know of an error:
// the run decides whether there is.
func (r *targets) follow(v retry.Verdict, moves bool) retry.Verdict {
	others := slices.ContainsFunc(r.places, func(t place) bool { return !t.out })
	switch {
	case moves && others:
		v.Class, v.Undone, v.Refused, v.Now = retry.Unprocessed, true, false, false // and options knows the hints
	case moves && r.policy.Ends(v) == retry.ReasonNone:
		v.End = retry.ReasonPermanent
	}
	r.atOnce = false
	if end := r.policy.Ends(v); len(r.places) > 1 && !stays(&v) && (end == retry.ReasonNone || end == retry.ReasonRetryAfter && others) {
		var room [8]candidate
		o := r.options(room[:0])
		r.atOnce, v.Hint = len(o.ask) > 0, o.bound
	}
	return v
}

// stays reports whether the attempt after an error is made at the same target: after a poll, and after what the
// server wants at once.
func stays(v *retry.Verdict) bool { return v.Answered || v.Now && v.Hint <= 0 }

// Delay is 0 before a switch, which follows an attempt at once. If a guard refuses the switch, Delay is
// called again.
func (r *targets) Delay(s retry.Step) time.Duration { return r.delay(retry.Unknown, s) }

// throttled is the backoff after a Throttled error.
type throttled targets

func (r *throttled) Delay(s retry.Step) time.Duration {
	return (*targets)(r).delay(retry.Throttled, s)
}

func (r *targets) delay(c retry.Class, s retry.Step) time.Duration {
	if r.atOnce {
		r.atOnce = false
		return 0
	}
	r.prev = r.backoff(c, s)
	r.rounds++
	return r.prev
}

// backoff returns the wait after an error of class c.
func (r *targets) backoff(c retry.Class, s retry.Step) time.Duration {
	b := r.policy.Backoff
	if c == retry.Throttled {
		b = r.policy.ThrottleBackoff
	}
	s.Retry, s.Prev = r.rounds+1, r.prev
	return max(b.Delay(s), 0)
}

func (r *targets) newRound() {
	for i := range r.places {
		r.places[i].tried = false
	}
}
