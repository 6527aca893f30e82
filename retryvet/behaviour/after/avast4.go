package after

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v4"
	goretry "github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast4Doubling gives up after six attempts, or on an error marked as permanent.
func Avast4Doubling(ctx context.Context, s *behaviour.Service) error {
	return goretry.Run(ctx, goretry.Policy{
		MaxAttempts: 6,
		Backoff:     goretry.Exponential{Base: 200 * time.Millisecond, Max: time.Second, Jitter: goretry.NoJitter},
		Classify:    unlessUnrecoverable,
	}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return goretry.Stop(err)
		}
		return err
	})
}

// Avast4Fixed waits for a second, as often as it takes.
func Avast4Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := goretry.Do(ctx, goretry.Policy{
		MaxAttempts: goretry.Unlimited,
		Backoff:     goretry.Constant(time.Second),
		Classify:    unlessUnrecoverable,
	}, func(context.Context) (string, error) { return s.Get() })
	return err
}

// Avast4RetryIf gives up after four attempts, or on an error that its RetryIf names: a
// mark counts for nothing beside that.
func Avast4RetryIf(ctx context.Context, s *behaviour.Service) error {
	return goretry.Run(ctx, goretry.Policy{
		MaxAttempts: 4,
		Backoff:     goretry.Exponential{Base: 200 * time.Millisecond, Jitter: goretry.NoJitter},
		Classify: func(err error) goretry.Class {
			if !errors.Is(err, behaviour.ErrGone) {
				return goretry.Transient
			}
			return goretry.Permanent
		},
	}, func(context.Context) error { return s.Ping() })
}

// unlessUnrecoverable repeats every error but those that retry.Unrecoverable has marked.
func unlessUnrecoverable(err error) goretry.Class {
	if !retry.IsRecoverable(err) {
		return goretry.Permanent
	}
	return goretry.Transient
}
