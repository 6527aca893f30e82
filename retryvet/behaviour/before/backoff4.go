// Package before has calls of other libraries.
//
// What may live here: functions that take a context and a service.
package before

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff4Limited gives up after three retries, or on an error marked as permanent.
func Backoff4Limited(ctx context.Context, s *behaviour.Service) error {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = 100 * time.Millisecond
	bo.MaxInterval = 250 * time.Millisecond
	bo.Multiplier = 2
	bo.RandomizationFactor = 0
	return backoff.Retry(func() error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(backoff.WithMaxRetries(bo, 3), ctx))
}

// Backoff4Elapsed gives up after a second, and tells about each wait.
func Backoff4Elapsed(ctx context.Context, s *behaviour.Service) error {
	bo := backoff.NewExponentialBackOff()
	bo.MaxElapsedTime = time.Second
	bo.InitialInterval = 300 * time.Millisecond
	bo.RandomizationFactor = 0
	return backoff.RetryNotify(func() error { return s.Ping() }, backoff.WithContext(bo, ctx), func(err error, d time.Duration) {
		s.Told = append(s.Told, err.Error()+" "+d.String())
	})
}

// Backoff4Constant waits for a second, as often as it takes.
func Backoff4Constant(ctx context.Context, s *behaviour.Service) error {
	_, err := backoff.RetryWithData(func() (string, error) { return s.Get() }, backoff.WithContext(backoff.NewConstantBackOff(time.Second), ctx))
	return err
}
