package after

import (
	"context"
	"errors"
	"time"

	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast4Doubling gives up after six attempts, or on an error marked as permanent.
func Avast4Doubling(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{MaxAttempts: 6, Backoff: retry.Exponential{Base: 200 * time.Millisecond, Max: time.Second, Jitter: retry.NoJitter}}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Stop(err)
		}
		return err
	})
}

// Avast4Fixed waits for a second, as often as it takes.
func Avast4Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.Do(ctx, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second)}, func(context.Context) (string, error) { return s.Get() })
	return err
}
