package before

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v6"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff6 gives up after four attempts, or on an error marked as permanent.
func Backoff6(ctx context.Context, s *behaviour.Service) error {
	bo := backoff.NewExponentialBackOff()
	bo.RandomizationFactor = 0
	_, err := backoff.Retry(ctx, func() (string, error) {
		v, err := s.Get()
		if errors.Is(err, behaviour.ErrGone) {
			err = backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(bo), backoff.WithMaxTries(4), backoff.WithNotify(func(err error, d time.Duration) {
		s.Told = append(s.Told, err.Error()+" "+d.String())
	}))
	return err
}
