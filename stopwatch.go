package retry

// May call: hooks.go, policy.go, backoff.go.

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry/clockx"
)

// stopwatch measures the age of a run. A run is in an attempt, or idle: it waits, asks guards, or
// decides. These are its readings, and what they are kept for:
//
//	0 ── pause ── origin ── guards ── began ── hooks ── up ── op ── ended ── Leave, hooks, wait ──▶ began ...
//
//	origin  MaxElapsed counts from it; 0 but for a run of Supervise that began with a pause
//	began   when the latest attempt began, until the next one does
//	up      when op was called; only if run.healthy is set
//	ended   when op ended
//	idle    the latest reading outside of an attempt: see lap
//
// A run reads the clock when it begins, when op has ended, when guards were asked or left, and when
// a wait is over. Only the end of a success is not read if nobody sees it: see settleSuccess. If
// nobody can see when the run began, it counts from epoch, which costs half as much as time.Now.
type stopwatch struct {
	start                          time.Time
	since                          time.Duration // since epoch, if unseen
	unseen                         bool          // no hook gets a time, and the clock is the system's
	origin, began, up, ended, idle time.Duration
	waited                         time.Duration // with no attempt running, until idle
	running                        bool          // op is underway
}

var epoch = time.Now()

func (s *stopwatch) begin(p *Policy) {
	s.unseen = p.Clock == nil && !p.Hooks.timed()
	if s.unseen {
		s.since = time.Since(epoch)
	} else {
		s.start = p.clock().Now()
	}
}

func (s *stopwatch) elapsed(p *Policy) time.Duration {
	switch {
	case s.unseen:
		return time.Since(epoch) - s.since
	case p.Clock == nil:
		return time.Since(s.start)
	}
	return p.Clock.Now().Sub(s.start)
}

// endAttempt notes that op has ended, and that the run is idle.
func (s *stopwatch) endAttempt(p *Policy) {
	s.running = false
	s.ended = s.elapsed(p)
	s.idle = s.ended
}

// lap counts the time until now as waited, since no attempt was underway.
func (s *stopwatch) lap(p *Policy) {
	now := s.elapsed(p)
	s.waited = sum(s.waited, max(now-s.idle, 0))
	s.idle = now
}

// untilMaxElapsed returns how long after the latest reading an attempt may still start by MaxElapsed,
// or math.MaxInt64 if there is no limit.
func (s *stopwatch) untilMaxElapsed(p *Policy) time.Duration {
	if p.MaxElapsed <= 0 {
		return math.MaxInt64
	}
	return p.MaxElapsed - (s.idle - s.origin)
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
