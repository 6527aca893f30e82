package hedge

import (
	"context"
	"time"

	"github.com/goretry/retry/clockx"

	"github.com/goretry/retry/internal/readings"
)

// timer calls a func later, unless stop keeps it from doing so, which stop reports. After that, or
// in the func, free gives back what the timer holds. It may run code of the clock.
type timer interface {
	stop() bool
	free()
}

// after calls f on a goroutine of its own when d has passed on clock.
func after(clock clockx.Clock, d time.Duration, f func()) timer {
	if readings.System(clock) {
		return systemTimer{time.AfterFunc(d, f)}
	}
	ctx, cancel := clock.WithTimeoutCause(context.Background(), d, nil)
	return &timeout{context.AfterFunc(ctx, f), cancel}
}

type systemTimer struct{ *time.Timer }

func (t systemTimer) stop() bool { return t.Stop() }
func (t systemTimer) free()      {}

// timeout is a timer on a clock that only ends contexts.
type timeout struct {
	keep   func() bool
	cancel context.CancelFunc
}

func (t *timeout) stop() bool { return t.keep() }
func (t *timeout) free()      { t.cancel() }
