package retry

// May call: hooks.go, policy.go.

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry/clockx"
)

// stopwatch measures the age of a run, and keeps the readings that are needed again:
//
//	0 ── pause ── origin ── asking guards ── began ── hooks ── up ── op ── ended ── Leave, hooks, wait ──▶ began ...
//
// If nobody can see when the run began, it counts from epoch, which costs half as much as
// time.Now. For the same reason a reading that nobody sees is not made.
type stopwatch struct {
	start    time.Time
	since    time.Duration // since epoch, if relative
	relative bool

	origin time.Duration // holds from the first attempt on: the end of the pause before it, or 0. MaxElapsed counts from here
	began  time.Duration // holds from the end of a wait to that of the next one: when the attempt began. Until then it moves on with each guard, see lap
	up     time.Duration // holds while op runs, if run.healthy is set: when op was called, since the hooks before it may be slow
	ended  time.Duration // holds from the end of an attempt, or of asking a guard, to the next one: a wait counts from here. Then it is the end of the run
}

var epoch = time.Now()

func (s *stopwatch) begin(p *Policy) {
	s.relative = p.Clock == nil && p.Hooks.Wait == nil && p.Hooks.Guard == nil && !p.Hooks.timesFirstTry()
	if s.relative {
		s.since = time.Since(epoch)
	} else {
		s.start = p.clock().Now()
	}
}

func (s *stopwatch) elapsed(p *Policy) time.Duration {
	switch {
	case s.relative:
		return time.Since(epoch) - s.since
	case p.Clock == nil:
		return time.Since(s.start)
	}
	return p.Clock.Now().Sub(s.start)
}

// untilDeadline returns how long it is until the deadline of ctx on clock, or math.MaxInt64
// if there is none. A nil clock is the system's. The result may be negative before ctx has
// ended: a connection with the same deadline often fails before the timer of ctx fires.
func untilDeadline(ctx context.Context, clock clockx.Clock) time.Duration {
	deadline, ok := ctx.Deadline()
	switch {
	case !ok:
		return math.MaxInt64
	case clock == nil:
		return time.Until(deadline)
	}
	return deadline.Sub(clock.Now())
}
