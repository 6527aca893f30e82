package after

import (
	"context"
	"errors"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast5Doubling gives up after nine attempts, or on an error marked as permanent.
func Avast5Doubling(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 9,
		Backoff:     retry.Exponential{Base: time.Second, Max: 5 * time.Minute, Jitter: retry.NoJitter},
		Classify: func(err error) retry.Class {
			if !avast.IsRecoverable(err) {
				return retry.Permanent
			}
			return retry.Transient
		},
	}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Stop(err)
		}
		return err
	})
}

// Avast5Fixed waits for a second, and gives up after ten attempts.
func Avast5Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.Do(ctx, retry.Policy{
		MaxAttempts: 10,
		Backoff:     retry.Constant(time.Second),
		Classify: func(err error) retry.Class {
			if !avast.IsRecoverable(err) {
				return retry.Permanent
			}
			return retry.Transient
		},
	}, func(context.Context) (string, error) {
		return s.Get()
	})
	return err
}
