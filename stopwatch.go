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
//	up      when op was called; as began, if nobody can tell them apart
//	ended   when op ended
//	idle    the latest reading outside of an attempt: see lap
//
// A run reads the clock when Hooks.Start has returned, when op has ended, when guards were asked or
// left, and when a wait is over. Only the end of a success is not read if nobody sees it: see
// run.judge.
type stopwatch struct {
	start                          time.Time     // of the run, if base is started
	since                          time.Duration // epoch, if base is unseen
	origin, began, up, ended, idle time.Duration
	ahead                          time.Duration // from ended until the deadline of op's context; see run.endAttempt
	waited                         time.Duration // with no attempt running, until idle
	base                           base
}

// base says what a stopwatch counts from.
type base uint8

const (
	unread  base = iota // nothing: the clock was not read, or has panicked. The run is 0 old.
	unseen              // epoch, which costs half as much as time.Now: no hook gets a time, and the clock is the system's
	started             // start
)

var epoch = time.Now()

func (s *stopwatch) begin(p *Policy) {
	if p.Clock == nil && !p.Hooks.timed() {
		s.since, s.base = time.Since(epoch), unseen
	} else {
		s.start = p.clock().Now()
		s.base = started
	}
}

func (s *stopwatch) elapsed(p *Policy) time.Duration {
	switch {
	case s.base == unseen:
		return time.Since(epoch) - s.since
	case p.Clock == nil:
		return time.Since(s.start)
	case s.base == started:
		return p.Clock.Now().Sub(s.start)
	}
	return 0
}

// opEnded notes that op has ended, and that the run is idle.
func (s *stopwatch) opEnded(p *Policy) {
	s.ended = s.elapsed(p)
	s.idle = s.ended
}

// opEndedUnder is opEnded for an op with the context ctx whose deadline matters: one reading says both.
func (s *stopwatch) opEndedUnder(p *Policy, ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if s.ahead = math.MaxInt64; !ok {
		s.opEnded(p)
		return
	}
	now := p.clock().Now()
	if s.base == unseen {
		s.ended = now.Sub(epoch) - s.since
	} else {
		s.ended = now.Sub(s.start)
	}
	s.idle, s.ahead = s.ended, deadline.Sub(now)
}

// took returns how long op took.
func (s *stopwatch) took() time.Duration { return max(s.ended-s.up, 0) }

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
