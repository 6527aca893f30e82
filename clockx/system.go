package clockx

import (
	"context"
	"sync"
	"time"
)

// System returns the real clock, the one package time shows. Inside a
// [testing/synctest] bubble it follows the bubble's time.
//
// A Sleep that is cut short leaves no goroutine and no running timer behind.
func System() Clock { return system{} }

type system struct{}

// timers keeps stopped timers for the next Sleep: a timer and its channel are
// three allocations, more than all else a retry needs. Since Go 1.23 Reset needs
// no drained channel. Nothing of a synctest bubble may get in here, or out of
// here into a bubble: resetting a timer across that border kills the program.
var timers sync.Pool

func (system) Now() time.Time { return time.Now() }

func (system) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	if ctx.Done() == nil {
		time.Sleep(d)
		return ctx.Err()
	}
	t := timer(d)
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return recycle(ctx, t)
}

func (system) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, cause)
}

// timer returns a running timer, from the pool where that is allowed.
func timer(d time.Duration) *time.Timer {
	if !inBubble() {
		if t, ok := timers.Get().(*time.Timer); ok {
			t.Reset(d)
			return t
		}
	}
	return time.NewTimer(d)
}

// recycle stops a timer, keeps it for later unless it is a bubble's, and returns
// ctx.Err(). One that fired while its sleep was cut short may, under
// GODEBUG=asynctimerchan=1, still hold a tick: that one is not used again.
func recycle(ctx context.Context, t *time.Timer) error {
	err := ctx.Err()
	if stopped := t.Stop(); (stopped || err == nil) && !inBubble() {
		timers.Put(t)
	}
	return err
}

// inBubble reports whether the caller runs in a synctest bubble: there
// [time.Now] carries no monotonic reading, which Round(0) would strip. That is so
// in Go 1.26, and undocumented; TestTimersDoNotCrossABubblesBorder tells if it
// changes.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}
