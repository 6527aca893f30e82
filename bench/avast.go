package bench

import (
	"context"
	"time"

	avastretry "github.com/avast/retry-go/v5"
)

// avast is used as in its package comment, with the context of each call, which
// is an option of the retrier.
var avast = Peer{
	Name:   "avast/retry-go",
	Module: "github.com/avast/retry-go/v5",
	New: func(s Spec) Call {
		opts := avastOptions(s)
		return func(ctx context.Context, op Op) (Row, error) {
			return avastretry.NewWithData[Row](append(opts, avastretry.Context(ctx))...).Do(func() (Row, error) { return op(ctx) })
		}
	},
	Shared: avastReused.New,
	Why:    "the context is a part of the retrier: see “reused”",
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return avastretry.NewWithData[Row](
			avastretry.Context(ctx), avastretry.Attempts(4),
			avastretry.Delay(100*time.Millisecond), avastretry.MaxDelay(10*time.Second), avastretry.DelayType(avastretry.BackOffDelay),
		).Do(func() (Row, error) { return op(ctx) })
	},
}

// avastReused is the “reusable retrier for high-frequency retry operations” of the
// package comment.
var avastReused = Peer{
	Name:   "avast/retry-go, reused",
	Module: "github.com/avast/retry-go/v5",
	New:    func(s Spec) Call { return avastWithin(context.Background(), s) },
	Note:   "uses only the context that it was made with",
}

// avastWithin returns calls that share a retrier and the context that it was made
// with.
func avastWithin(all context.Context, s Spec) Call {
	opts := avastOptions(s)
	r := avastretry.NewWithData[Row](append(opts, avastretry.Context(all))...)
	return func(ctx context.Context, op Op) (Row, error) {
		return r.Do(func() (Row, error) { return op(ctx) })
	}
}

func avastOptions(s Spec) []avastretry.Option {
	opts := []avastretry.Option{avastretry.Attempts(uint(s.Attempts)), avastretry.Delay(s.Wait)}
	switch {
	case s.Max == 0:
		opts = append(opts, avastretry.DelayType(avastretry.FixedDelay))
	case s.Jitter: // its default: up to 100 ms more
		opts = append(opts, avastretry.MaxDelay(s.Max))
	default:
		opts = append(opts, avastretry.MaxDelay(s.Max), avastretry.DelayType(avastretry.BackOffDelay))
	}
	if s.Virtual {
		opts = append(opts, avastretry.WithTimer(newJump()))
	}
	if s.Tokens {
		bucket := avastretry.NewFixedTokenBucketThrottle(avastretry.FixedTokenBucketThrottleConfig{})
		opts = append(opts, avastretry.WithThrottle(bucket))
	}
	if s.Listener != nil {
		opts = append(opts, avastretry.OnRetry(func(uint, error) { s.Listener() }))
	}
	return opts[:len(opts):len(opts)]
}
