package after

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v5"
	goretry "github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast5Doubling gives up after nine attempts, or on an error marked as permanent.
func Avast5Doubling(ctx context.Context, s *behaviour.Service) error {
	return goretry.Run(ctx, goretry.Policy{
		MaxAttempts: 9,
		Backoff:     goretry.Exponential{Base: time.Second, Max: 5 * time.Minute, Jitter: goretry.NoJitter},
		Classify: func(err error) goretry.Class {
			if !retry.IsRecoverable(err) {
				return goretry.Permanent
			}
			return goretry.Transient
		},
	}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return goretry.Stop(err)
		}
		return err
	})
}

// Avast5Fixed waits for a second, and gives up after ten attempts.
func Avast5Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := goretry.Do(ctx, goretry.Policy{
		MaxAttempts: 10,
		Backoff:     goretry.Constant(time.Second),
		Classify: func(err error) goretry.Class {
			if !retry.IsRecoverable(err) {
				return goretry.Permanent
			}
			return goretry.Transient
		},
	}, func(context.Context) (string, error) {
		return s.Get()
	})
	return err
}
