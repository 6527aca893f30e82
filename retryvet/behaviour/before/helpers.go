package before

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff4Helper calls a helper, which knows nothing of what it retries.
func Backoff4Helper(ctx context.Context, s *behaviour.Service) error {
	return withBackoff(ctx, s.Ping, 200*time.Millisecond, 5*time.Second)
}

func withBackoff(ctx context.Context, f func() error, first, limit time.Duration) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = first
	b.MaxElapsedTime = limit
	b.RandomizationFactor = 0
	return backoff.Retry(f, backoff.WithContext(b, ctx))
}

// Avast4Helper calls one that returns a value, too.
func Avast4Helper(ctx context.Context, s *behaviour.Service) error {
	_, err := tried(ctx, s.Get, 5)
	return err
}

func tried[T any](ctx context.Context, f func() (T, error), attempts uint) (T, error) {
	return retry.DoWithData(f,
		retry.Context(ctx),
		retry.Attempts(attempts),
		retry.Delay(100*time.Millisecond),
		retry.DelayType(retry.BackOffDelay),
	)
}

// Backoff4Method is given a method of another package's type.
func Backoff4Method(ctx context.Context, s *behaviour.Service) error {
	return backoff.Retry(s.Ping, backoff.WithContext(backoff.WithMaxRetries(backoff.NewConstantBackOff(300*time.Millisecond), 5), ctx))
}
