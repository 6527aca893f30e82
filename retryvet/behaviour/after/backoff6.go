package after

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v6"
	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff6 gives up after four attempts, or on an error marked as permanent.
func Backoff6(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.Do(ctx, retry.Policy{
		MaxAttempts: 4,
		MaxElapsed:  15 * time.Minute,
		Backoff:     retry.Exponential{Base: 500 * time.Millisecond, Max: time.Minute, Factor: 1.5, Jitter: retry.NoJitter},
		Classify: func(err error) retry.Class {
			if errors.Is(err, backoff.ErrPermanent) {
				return retry.Permanent
			}
			return retry.Transient
		},
		Hooks: retry.Hooks{Wait: func(_ context.Context, a retry.Attempt) {
			s.Told = append(s.Told, a.Err.Error()+" "+a.Delay.String())
		}},
	}, func(context.Context) (string, error) {
		v, err := s.Get()
		if errors.Is(err, behaviour.ErrGone) {
			err = retry.Stop(err)
		}
		return v, err
	})
	return err
}
