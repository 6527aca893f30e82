package before

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// SethvargoExponential gives up after five retries, or on an error that is not marked.
func SethvargoExponential(ctx context.Context, s *behaviour.Service) error {
	b := retry.NewExponential(100 * time.Millisecond)
	b = retry.WithCappedDuration(500*time.Millisecond, b)
	b = retry.WithMaxRetries(5, b)
	return retry.Do(ctx, b, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return fmt.Errorf("not marked: %v", err)
		}
		return retry.RetryableError(err)
	})
}

// SethvargoFibonacci waits longer and longer, for two seconds at most.
func SethvargoFibonacci(ctx context.Context, s *behaviour.Service) error {
	return retry.Do(ctx, retry.WithCappedDuration(2*time.Second, retry.NewFibonacci(300*time.Millisecond)), func(context.Context) error {
		return retry.RetryableError(s.Ping())
	})
}

// SethvargoConstant waits for a second, as often as it takes.
func SethvargoConstant(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.DoValue(ctx, retry.NewConstant(time.Second), func(context.Context) (string, error) {
		v, err := s.Get()
		if err != nil {
			return "", retry.RetryableError(err)
		}
		return v, nil
	})
	return err
}
