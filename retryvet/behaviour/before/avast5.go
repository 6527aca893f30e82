package before

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v5"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Avast5Doubling gives up after nine attempts, or on an error marked as permanent.
func Avast5Doubling(ctx context.Context, s *behaviour.Service) error {
	return retry.New(retry.Context(ctx), retry.Attempts(9), retry.Delay(time.Second), retry.MaxJitter(0)).Do(func() error {
		err := s.Ping()
		if errors.Is(err, behaviour.ErrGone) {
			return retry.Unrecoverable(err)
		}
		return err
	})
}

// Avast5Fixed waits for a second, and gives up after ten attempts.
func Avast5Fixed(ctx context.Context, s *behaviour.Service) error {
	_, err := retry.NewWithData[string](retry.Context(ctx), retry.Delay(time.Second), retry.DelayType(retry.FixedDelay)).Do(func() (string, error) {
		return s.Get()
	})
	return err
}
