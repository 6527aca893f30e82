package bench

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v7"
)

// cenkalti is used as in the README: Retry with options, and an operation that
// captures the context. Options are made once, and so is a BackOff that never
// changes; of the others WithBackOff says to give each call its own. The limit of
// 15 minutes is taken off, which no other library here sets.
var cenkalti = Peer{
	Name:   "cenkalti/backoff",
	Module: "github.com/cenkalti/backoff/v7",
	New: func(s Spec) Call {
		if s.Max == 0 {
			return cenkaltiShared(s)
		}
		opts := cenkaltiOptions(s)
		if opts == nil {
			return nil
		}
		return func(ctx context.Context, op Op) (Row, error) {
			waits := backoff.WithBackOff(cenkaltiWaits(s))
			return backoff.Retry(ctx, func() (Row, error) { return op(ctx) }, append(opts, waits)...)
		}
	},
	Shared: cenkaltiShared,
	Why:    "its exponential BackOff has state: “give each concurrent Retry call its own BackOff rather than sharing one”",
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return backoff.Retry(ctx, func() (Row, error) { return op(ctx) },
			backoff.WithMaxTries(4), backoff.WithMaxElapsedTime(0),
			backoff.WithBackOff(&backoff.ExponentialBackOff{
				InitialInterval: 100 * time.Millisecond,
				Multiplier:      2,
				MaxInterval:     10 * time.Second,
			}))
	},
}

func cenkaltiShared(s Spec) Call {
	opts := cenkaltiOptions(s)
	if opts == nil {
		return nil
	}
	opts = append(opts, backoff.WithBackOff(cenkaltiWaits(s)))
	return func(ctx context.Context, op Op) (Row, error) {
		return backoff.Retry(ctx, func() (Row, error) { return op(ctx) }, opts...)
	}
}

// cenkaltiOptions returns the options without state, nil if there are none for
// what is wanted.
func cenkaltiOptions(s Spec) []backoff.RetryOption {
	if s.Virtual || s.Tokens {
		return nil
	}
	opts := []backoff.RetryOption{backoff.WithMaxTries(uint(s.Attempts)), backoff.WithMaxElapsedTime(0)}
	if s.Listener != nil {
		opts = append(opts, backoff.WithNotify(func(error, time.Duration) { s.Listener() }))
	}
	return opts[:len(opts):len(opts)]
}

func cenkaltiWaits(s Spec) backoff.BackOff {
	switch {
	case s.Wait == 0:
		return &backoff.ZeroBackOff{}
	case s.Max == 0:
		return backoff.NewConstantBackOff(s.Wait)
	}
	b := &backoff.ExponentialBackOff{InitialInterval: s.Wait, Multiplier: 2, MaxInterval: s.Max}
	if s.Jitter {
		b.RandomizationFactor = backoff.DefaultRandomizationFactor
	}
	return b
}
