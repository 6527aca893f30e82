package hedge

import (
	"context"
	"time"

	"github.com/goretry/retry/clockx"

	"github.com/goretry/retry/internal/readings"
)

// timer is what a [*time.Timer] and a clock's timeout have in common. Stop reports
// whether it kept the func from being called.
type timer interface{ Stop() bool }

// after calls f on a goroutine of its own when d has passed on clock.
func after(clock clockx.Clock, d time.Duration, f func()) timer {
	if readings.System(clock) {
		return time.AfterFunc(d, f)
	}
	ctx, cancel := clock.WithTimeoutCause(context.Background(), d, nil)
	return &timeout{context.AfterFunc(ctx, f), cancel}
}

// timeout is a timer on a clock that only ends contexts.
type timeout struct {
	keep   func() bool
	cancel context.CancelFunc
}

func (t *timeout) Stop() bool {
	kept := t.keep() // first: the cancel would have the func called
	t.cancel()
	return kept
}

func now(clock clockx.Clock) time.Time { return readings.Clock(clock).Now() }
