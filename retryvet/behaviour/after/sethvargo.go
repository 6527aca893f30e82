package after

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// SethvargoExponential gives up after five retries, or on an error that is not marked.
func SethvargoExponential(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 6,
		Backoff:     retry.Exponential{Base: 100 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: retry.NoJitter},
		Classify:    func(error) retry.Class { return retry.Transient },
	}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Stop(fmt.Errorf("not marked: %v", err))
		}
		return err
	})
}

// SethvargoFibonacci waits longer and longer, for two seconds at most.
func SethvargoFibonacci(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Schedule{300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second},
		Classify:    func(error) retry.Class { return retry.Transient },
	}, func(context.Context) error {
		return s.Ping()
	})
}

// SethvargoConstant waits for a second, as often as it takes.
func SethvargoConstant(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Constant(time.Second),
		Classify:    func(error) retry.Class { return retry.Transient },
	}, func(context.Context) (string, error) {
		v, err := s.Get()
		if err != nil {
			return "", err
		}
		return v, nil
	})
	return err
}
