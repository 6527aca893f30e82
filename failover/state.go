package failover

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/readings"
)

// state is what is known about a target. Two things keep attempts away: its health, which is closed while
// the target rests by itself and on trial after that, and a request to leave it alone.
type state struct {
	mu     sync.Mutex
	health health.Health
	row    health.Row // failures: the evidence of health
	request

	failed   time.Time // the latest failure
	hung     bool      // which was a timeout
	answered uint64    // the attempts up to this one had started when the target answered last

	clock  clockx.Clock // of the latest run, as are the next two; nil before the first
	rest   retry.Backoff
	random func() float64
}

// request is how long a target is to be left alone, as its server or Hold has said.
type request struct {
	until  time.Time     // zero: nobody has said so
	all    time.Duration // from when it was said
	wish   time.Time     // the server's own time, which may be beyond MaxRetryAfter
	kept   bool          // all runs keep to it; otherwise it is a preference
	told   uint64        // the attempts up to this one had started when it was said
	proofs health.Row    // attempts in a row that were told so: the evidence for kept
}

// ahead reports whether the request still counts. A clock that was set back keeps nobody away.
func (q *request) ahead(now time.Time) bool { return health.Ahead(now, q.until, q.all) }

// drop forgets the request, but not what proves that the server refuses everybody.
func (q *request) drop() { *q = request{proofs: q.proofs} }

// trial is how many attempts are answered after a rest until any number may start.
const trial = 10

// fitness says how a target stands.
type fitness uint8

const (
	free  fitness = iota // an attempt may start
	tired                // it rests by itself, it is on trial and no more may start, or a server would prefer it
	hangs                // it is tired, and has timed out when it failed last
	away                 // it is left alone
)

// view is how a target stands now.
type view struct {
	fitness
	failed  time.Time     // tired: the latest failure
	untried bool          // and nobody has tried it in this rest
	left    time.Duration // away: how much longer
	all     time.Duration // and how long that is in all
	wish    time.Duration // and how long its server has asked for
}

// look returns how s stands.
func (s *state) look(c clockx.Clock) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = c
	return s.view()
}

func (s *state) view() view {
	if s.well() {
		return view{}
	}
	now := s.clock.Now()
	rests, asked := s.health.Ready(now) > 0, s.ahead(now)
	switch {
	case asked && s.kept:
		return view{fitness: away, left: s.until.Sub(now), wish: s.wish.Sub(now), all: s.all}
	case !rests && !asked:
		return view{}
	}
	v := view{fitness: tired, failed: s.failed, untried: !rests || !s.health.Tried()}
	if s.hung {
		v.fitness = hangs
	}
	return v
}

// well reports whether no time matters to s. Then the clock is not read, which is half of the work.
func (s *state) well() bool { return s.until.IsZero() && s.health.Well() }

// start starts an attempt, unless the target is away, or not free and force is false.
func (s *state) start(r *targets, force bool) (ticket uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(r)
	if f := s.view().fitness; f == away || f > free && !force {
		return 0, false
	}
	var now time.Time
	if !s.health.Well() {
		now = s.clock.Now()
	}
	return s.health.Start(now), true
}

// news is what an attempt says about its target.
type news struct {
	outcome health.Outcome
	hung    bool          // Failed: by a timeout
	late    bool          // Failed: the caller's deadline has passed
	hint    time.Duration // Failed: how long the server asks to wait
}

// end notes what has become of an attempt.
func (s *state) end(r *targets, ticket uint64, n news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(r)
	if n.late && ticket <= s.answered {
		n.outcome = health.Nothing // others are answered: the caller had too little time
	}
	var now time.Time
	if n.outcome != health.Passed || !s.well() {
		now = s.clock.Now()
	}
	switch n.outcome {
	case health.Passed:
		s.answered = s.health.Started()
		s.proofs.Reset()
		if ticket > s.told {
			s.drop()
		}
	case health.Failed, health.Broken:
		s.failed, s.hung = now, n.hung
		if n.hint > 0 {
			everybody := s.proofs.Failed(now, "")
			s.ask(now, n.hint, r.policy.MaxRetryAfter, everybody)
			n.outcome = health.Nothing
		}
	}
	s.health.End(now, health.News{Ticket: ticket, Outcome: n.outcome})
}

// ask has the target left alone for d, but not longer than most, or for what is left of an earlier
// request if that is more. With keep all runs keep to it.
func (s *state) ask(now time.Time, d, most time.Duration, keep bool) {
	if !s.ahead(now) {
		s.drop()
	}
	if at := now.Add(d); at.After(s.wish) {
		s.wish = at
	}
	d = min(d, most)
	if at := now.Add(d); at.After(s.until) {
		s.until, s.all = at, d
	}
	s.told = s.health.Started()
	if keep {
		s.kept = true
		s.health.Hold(now, s.until.Sub(now)) // on trial after that
	}
}

func (s *state) hold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow()
	s.clock = readings.Clock(s.clock)
	now := s.clock.Now()
	if d <= 0 {
		s.request = request{}
		s.health.Hold(now, 0)
		return
	}
	if !s.kept { // a preference is no rest
		s.drop()
	}
	s.ask(now, d, d, true)
}

func (s *state) resting() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.well() {
		return 0
	}
	now := s.clock.Now()
	left := s.health.Left(now)
	if s.ahead(now) {
		left = max(left, s.until.Sub(now))
	}
	return left
}

// use has s follow the rules of a run, which may be those of another Set next time.
func (s *state) use(r *targets) {
	s.follow()
	s.clock, s.rest, s.random = r.policy.Clock, r.rest, r.policy.Rand
	s.row.Least = r.failures
}

func (s *state) follow() {
	if s.health.Rule.Evidence == nil {
		s.health.Rule = health.Rule{Evidence: &s.row, Wait: s.restFor, Hang: hang, Ramp: trial, Strict: true}
	}
}

// hang is how long an attempt that hangs keeps others away: as long as the rest before it.
func hang(rest, _ time.Duration) time.Duration { return max(rest, time.Second) }

// restFor returns how long the nth rest is.
func (s *state) restFor(n int, _ time.Duration) time.Duration {
	return max(s.rest.Delay(retry.Step{Retry: n, Rand: draw(s.random)}), 0)
}

// draw returns a random number of a policy.
func draw(random func() float64) float64 {
	if random == nil {
		return rand.Float64()
	}
	if x := random(); x > 0 {
		return min(x, 1)
	}
	return 0 // also for NaN
}
