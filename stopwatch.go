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
//	0 ── pause ── origin ── guards ── began ── hooks ── up ── op ── ended ── Leave, hooks, wait ──▶ began ...
//
//	origin  MaxElapsed counts from it; 0 but for a run of Supervise that began with a pause
//	began   when the attempt began; while guards are asked, it moves on with each of them: see lap
//	up      when op was called; only if run.healthy is set
//	ended   when op, or asking a guard, ended, and a wait begins; in the end, when the run ended
//
// began holds until the wait after the attempt is over, and ended until the next attempt is. A
// reading that nobody sees is not made. If nobody can see when the run began, it counts from
// epoch, which costs half as much as time.Now.
type stopwatch struct {
	start                    time.Time
	since                    time.Duration // since epoch, if relative
	relative                 bool
	origin, began, up, ended time.Duration
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
