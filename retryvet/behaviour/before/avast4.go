package before

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v4"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast4Doubling gives up after six attempts, or on an error marked as permanent.
func Avast4Doubling(ctx context.Context, s *behaviour.Service) error {
	return retry.Do(func() error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Unrecoverable(err)
		}
		return err
	}, retry.Context(ctx), retry.Attempts(6), retry.MaxDelay(time.Second), retry.DelayType(retry.BackOffDelay))
}

// Avast4Fixed waits for a second, as often as it takes.
func Avast4Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.DoWithData(func() (string, error) { return s.Get() },
		retry.Context(ctx), retry.Attempts(0), retry.Delay(time.Second), retry.DelayType(retry.FixedDelay))
	return err
}

// Avast4RetryIf gives up after four attempts, or on an error that its RetryIf names: a
// mark counts for nothing beside that.
func Avast4RetryIf(ctx context.Context, s *behaviour.Service) error {
	return retry.Do(func() error { return s.Ping() }, retry.Context(ctx), retry.Attempts(4), retry.DelayType(retry.BackOffDelay),
		retry.RetryIf(func(err error) bool { return !errors.Is(err, behaviour.ErrGone) }))
}
