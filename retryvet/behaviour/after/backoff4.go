// Package after has what retryvet -fix made of package before.
//
// What may live here: what go test -update writes.
package after

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff4Limited gives up after three retries, or on an error marked as permanent.
func Backoff4Limited(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 4,
		MaxElapsed:  15 * time.Minute,
		Backoff:     retry.Exponential{Base: 100 * time.Millisecond, Max: 250 * time.Millisecond, Factor: 2, Jitter: retry.NoJitter},
		Classify:    unlessPermanent,
	}, func(context.Context) error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Stop(err)
		}
		return err
	})
}

// Backoff4Elapsed gives up after a second, and tells about each wait.
func Backoff4Elapsed(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxElapsed: time.Second,
		Backoff:    retry.Exponential{Base: 300 * time.Millisecond, Max: time.Minute, Factor: 1.5, Jitter: retry.NoJitter},
		Classify:   unlessPermanent,
		Hooks: retry.Hooks{Wait: func(_ context.Context, a retry.Attempt) {
			s.Told = append(s.Told, a.Err.Error()+" "+a.Delay.String())
		}},
	}, func(context.Context) error { return s.Ping() })
}

// Backoff4Constant waits for a second, as often as it takes.
func Backoff4Constant(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Constant(time.Second),
		Classify:    unlessPermanent,
	}, func(context.Context) (string, error) { return s.Get() })
	return err
}

// unlessPermanent repeats every error but those that backoff.Permanent has marked.
func unlessPermanent(err error) retry.Class {
	if _, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return retry.Permanent
	}
	return retry.Transient
}
