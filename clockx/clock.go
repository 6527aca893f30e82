package clockx

import (
	"context"
	"time"
)

// Clock returns the time, waits, and ends contexts. Implementations must be safe for
// concurrent use.
type Clock interface {
	// Now returns the current time on this clock.
	Now() time.Time

	// Sleep waits for d, or until ctx is done if that comes first, and returns ctx.Err():
	// nil after the full wait. If ctx is done when d has elapsed, Sleep returns
	// ctx.Err(). If d is zero or negative, Sleep returns at once.
	Sleep(ctx context.Context, d time.Duration) error

	// WithTimeoutCause is [context.WithTimeoutCause] with d measured on this
	// clock. The context must be canceled by its CancelFunc when it is no longer
	// needed; until then the clock may keep a timer for it.
	WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc)
}
