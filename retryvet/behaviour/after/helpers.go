package after

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff4Helper calls a helper, which knows nothing of what it retries.
func Backoff4Helper(ctx context.Context, s *behaviour.Service) error {
	return withBackoff(ctx, s.Ping, 200*time.Millisecond, 5*time.Second)
}

func withBackoff(ctx context.Context, f func() error, first, limit time.Duration) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		MaxElapsed:  limit,
		Backoff:     retry.Exponential{Base: first, Max: time.Minute, Factor: 1.5, Jitter: retry.NoJitter},
		Classify:    unlessPermanent,
	}, func(context.Context) error { return f() })
}

// Avast4Helper calls one that returns a value, too.
func Avast4Helper(ctx context.Context, s *behaviour.Service) error {
	_, err := tried(ctx, s.Get, 5)
	return err
}

func tried[T any](ctx context.Context, f func() (T, error), attempts uint) (T, error) {
	return retry.Do(ctx, retry.Policy{
		MaxAttempts: cmp.Or(int(attempts), retry.Unlimited),
		Backoff:     retry.Exponential{Base: 200 * time.Millisecond, Max: math.MaxInt64, Jitter: retry.NoJitter},
		Classify:    unlessUnrecoverable,
	}, func(context.Context) (T, error) { return f() })
}

// Backoff4Method is given a method of another package's type.
func Backoff4Method(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 6,
		Backoff:     retry.Constant(300 * time.Millisecond),
		Classify:    unlessPermanent,
	}, func(context.Context) error { return s.Ping() })
}
