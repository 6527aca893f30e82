package bench

import (
	"context"
	"time"

	sethretry "github.com/sethvargo/go-retry"
)

// sethvargo is used as in the README: a Backoff with its modifiers for each call,
// because they count, and errors marked as retryable. One that is constant and
// without limit does not count and is made once.
var sethvargo = Peer{
	Name:   "sethvargo/go-retry",
	Module: "github.com/sethvargo/go-retry",
	New: func(s Spec) Call {
		if s.Attempts == 0 && s.Max == 0 {
			return sethvargoShared(s)
		}
		if !sethvargoCan(s) {
			return nil
		}
		return func(ctx context.Context, op Op) (Row, error) {
			return sethretry.DoValue(ctx, sethvargoWaits(s), retryable(op))
		}
	},
	Shared: sethvargoShared,
	Why:    "a Backoff counts, and is used up by one call",
	Inline: func(ctx context.Context, op Op) (Row, error) {
		b := sethretry.WithMaxRetries(3, sethretry.WithCappedDuration(10*time.Second, sethretry.NewExponential(100*time.Millisecond)))
		return sethretry.DoValue(ctx, b, retryable(op))
	},
}

func sethvargoShared(s Spec) Call {
	if !sethvargoCan(s) {
		return nil
	}
	b := sethvargoWaits(s)
	return func(ctx context.Context, op Op) (Row, error) { return sethretry.DoValue(ctx, b, retryable(op)) }
}

func sethvargoCan(s Spec) bool { return !s.Virtual && !s.Tokens && s.Listener == nil }

func retryable(op Op) func(context.Context) (Row, error) {
	return func(ctx context.Context) (Row, error) {
		v, err := op(ctx)
		return v, sethretry.RetryableError(err)
	}
}

func sethvargoWaits(s Spec) sethretry.Backoff {
	var b sethretry.Backoff
	switch {
	case s.Wait == 0: // which NewConstant refuses
		b = sethretry.BackoffFunc(func() (time.Duration, bool) { return 0, false })
	case s.Max == 0:
		b = sethretry.NewConstant(s.Wait)
	default:
		b = sethretry.NewExponential(s.Wait)
	}
	if s.Jitter {
		b = sethretry.WithJitterPercent(50, b)
	}
	if s.Max > 0 {
		b = sethretry.WithCappedDuration(s.Max, b)
	}
	if s.Attempts > 0 {
		b = sethretry.WithMaxRetries(uint64(s.Attempts-1), b)
	}
	return b
}
