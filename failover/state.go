package failover

import (
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/readings"
)

// state is what is known about a target. It rests by itself while its health is closed, and it is asked
// to rest by its server or by Hold.
type state struct {
	mu     sync.Mutex
	clock  clockx.Clock // of the latest call
	health health.Health
	row    health.Row // failures, the evidence of health

	asked    time.Time     // it is asked to rest until then; zero: it is not
	askedFor time.Duration // when it was asked, so that a clock which was set back keeps nobody away
	wish     time.Time     // the server has asked for so long, which may be longer than MaxRetryAfter
	refusals health.Row    // attempts in a row that were told to wait: the evidence for kept
	kept     bool          // that counts for all runs; otherwise it is a preference

	started  uint64 // the latest attempt: its ticket
	answered uint64 // the latest that had started when the target answered last
	told     uint64 // and when it was last asked to rest

	failed time.Time // the latest failure
	hung   bool      // which was a timeout

	rest   retry.Backoff // of the run that calls
	random func() float64
}

// trial is how many attempts are answered after a rest until any number may start.
const trial = 10

// fitness says how a target stands.
type fitness uint8

const (
	free  fitness = iota // an attempt may start
	tired                // it rests by itself, it is on trial and no more may start, or a server would prefer it
	away                 // it is left alone
)

// view is how a target stands now.
type view struct {
	fitness
	untried bool          // tired: nobody has tried it in this rest
	left    time.Duration // away: how much longer
	wish    time.Duration // and how long its server has asked for
	rest    time.Duration // and how long it rests in all
	failed  time.Time
	hung    bool
}

// compare compares v and w by which is tried first, if both are tired.
func (v *view) compare(w *view) int {
	switch {
	case v.hung == w.hung:
		return v.failed.Compare(w.failed)
	case v.hung:
		return 1
	}
	return -1
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
	v := view{failed: s.failed, hung: s.hung}
	switch asked := health.Ahead(now, s.asked, s.askedFor); {
	case asked && s.kept:
		v.fitness, v.left, v.wish, v.rest = away, s.asked.Sub(now), s.wish.Sub(now), s.askedFor
	case s.health.Ready(now) > 0:
		v.fitness, v.untried = tired, !s.health.Tried()
	case asked:
		v.fitness, v.untried = tired, true
	}
	return v
}

// well reports whether no time matters to s. Then the clock is not read, which is half of the work.
func (s *state) well() bool { return s.asked.IsZero() && s.health.Well() }

// start starts an attempt, unless the target is away, or not free and force is false.
func (s *state) start(r *targets, force bool) (ticket uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(r)
	if f := s.view().fitness; f == away || f == tired && !force {
		return 0, false
	}
	var now time.Time
	if !s.health.Well() {
		now = s.clock.Now()
	}
	s.kept = false // what it was asked for is over, or a preference
	s.started = s.health.Start(now)
	return s.started, true
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
		s.answered = s.started
		s.refusals.Reset()
		if ticket > s.told {
			s.asked = time.Time{}
		}
	case health.Failed, health.Broken:
		s.failed, s.hung = now, n.hung
		if n.hint > 0 {
			everybody := s.refusals.Failed(now, "")
			s.ask(now, n.hint, r.longestHint(), everybody)
			n.outcome = health.Nothing
		}
	}
	s.health.End(now, health.News{Ticket: ticket, Outcome: n.outcome})
}

// ask has the target rest for d, but not longer than most. keep says that all runs keep to it.
func (s *state) ask(now time.Time, d, most time.Duration, keep bool) {
	if !health.Ahead(now, s.asked, s.askedFor) {
		s.asked, s.askedFor, s.wish, s.kept = time.Time{}, 0, time.Time{}, false
	}
	if at := now.Add(d); at.After(s.wish) {
		s.wish = at
	}
	d = min(d, most)
	if at := now.Add(d); at.After(s.asked) {
		s.asked, s.askedFor = at, d
	}
	s.told = s.started
	if keep {
		s.kept = true
		s.health.Hold(now, s.asked.Sub(now)) // on trial after that
	}
}

func (s *state) hold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules()
	s.clock = readings.Clock(s.clock)
	now := s.clock.Now()
	if d > 0 {
		if !s.kept { // a preference is no rest
			s.asked = time.Time{}
		}
		s.ask(now, d, d, true)
		return
	}
	s.asked, s.told = time.Time{}, s.started
	s.refusals.Reset()
	s.health.Hold(now, 0)
}

func (s *state) resting() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.well() {
		return 0
	}
	now := readings.Clock(s.clock).Now()
	left := s.health.Left(now)
	if health.Ahead(now, s.asked, s.askedFor) {
		left = max(left, s.asked.Sub(now))
	}
	return left
}

// use has s follow the rules of a run, which may be those of another Set next time.
func (s *state) use(r *targets) {
	s.rules()
	s.clock, s.rest, s.random = r.clock, r.rules.rest, r.policy.Rand
	if s.row.Least = r.rules.failures; s.row.Least <= 0 {
		s.row.Least = 3
	}
}

func (s *state) rules() {
	if s.health.Rule.Evidence == nil {
		s.health.Rule = health.Rule{Evidence: &s.row, Wait: s.restFor, Hang: hang, Ramp: trial, Strict: true}
	}
}

// hang is how long an attempt that hangs keeps others away: as long as the rest before it.
func hang(rest, _ time.Duration) time.Duration { return max(rest, time.Second) }

// restFor returns how long the nth rest is.
func (s *state) restFor(n int, _ time.Duration) time.Duration {
	b := s.rest
	if b == nil {
		b = defaultRest
	}
	return max(b.Delay(retry.Step{Retry: n, Rand: draw(s.random)}), 0)
}

var defaultRest retry.Backoff = retry.Exponential{Base: 2 * time.Second, Max: time.Minute, Jitter: retry.EqualJitter}
