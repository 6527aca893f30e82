package after

import (
	"context"
	"errors"
	"time"

	avast "github.com/avast/retry-go/v4"
	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast4Doubling gives up after six attempts, or on an error marked as permanent.
func Avast4Doubling(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 6,
		Backoff:     retry.Exponential{Base: 200 * time.Millisecond, Max: time.Second, Jitter: retry.NoJitter},
		Classify:    unlessUnrecoverable,
	}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Stop(err)
		}
		return err
	})
}

// Avast4Fixed waits for a second, as often as it takes.
func Avast4Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Constant(time.Second),
		Classify:    unlessUnrecoverable,
	}, func(context.Context) (string, error) { return s.Get() })
	return err
}

// Avast4RetryIf gives up after four attempts, or on an error that its RetryIf names: a
// mark counts for nothing beside that.
func Avast4RetryIf(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: 200 * time.Millisecond, Jitter: retry.NoJitter},
		Classify: func(err error) retry.Class {
			if !errors.Is(err, behaviour.ErrGone) {
				return retry.Transient
			}
			return retry.Permanent
		},
	}, func(context.Context) error { return s.Ping() })
}

// unlessUnrecoverable repeats every error but those that avast.Unrecoverable has marked.
func unlessUnrecoverable(err error) retry.Class {
	if !avast.IsRecoverable(err) {
		return retry.Permanent
	}
	return retry.Transient
}
