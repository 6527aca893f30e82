package clockx

import (
	"context"
	"time"

	"github.com/goretry/retry/internal/timers"
)

// System returns the real clock, the one package time shows. Inside a
// [testing/synctest] bubble it follows the bubble's time.
//
// A Sleep that is cut short leaves no goroutine and no running timer behind.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() == nil {
		timers.Sleep(ctx.Done(), d)
	}
	return ctx.Err()
}

func (system) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, cause)
}
