package before

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry/retryvet/behaviour"
)

var (
	tries  = uint(4)
	atMost = retry.Attempts(tries) // as often as tries said when the program began
	fixed  = retry.DelayType(retry.FixedDelay)
)

// Avast4Shared sets the limit after the options have been made with it.
func Avast4Shared(ctx context.Context, s *behaviour.Service) error {
	tries = 6
	return retry.Do(func() error { return s.Ping() }, retry.Context(ctx), atMost, fixed, retry.OnRetry(func(n uint, err error) {
		if n < 2 {
			s.Told = append(s.Told, err.Error())
		}
	}))
}

// Avast4SharedToo has the same options.
func Avast4SharedToo(ctx context.Context, s *behaviour.Service) error {
	return retry.Do(func() error { return s.Ping() }, fixed, retry.Context(ctx), atMost)
}

var pause = 100 * time.Millisecond

// newPauses returns waits as long as pause says at the time, for five retries.
func newPauses() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(pause), 5)
}

// Backoff4Shared sets the wait before the backoff is made with it.
func Backoff4Shared(ctx context.Context, s *behaviour.Service) error {
	pause = 200 * time.Millisecond
	return backoff.Retry(func() error { return s.Ping() }, backoff.WithContext(newPauses(), ctx))
}

// Backoff4SharedToo sets another.
func Backoff4SharedToo(ctx context.Context, s *behaviour.Service) error {
	pause = 300 * time.Millisecond
	return backoff.RetryNotify(func() error { return s.Ping() }, backoff.WithContext(newPauses(), ctx), func(err error, d time.Duration) {
		s.Told = append(s.Told, err.Error()+" "+d.String())
	})
}
