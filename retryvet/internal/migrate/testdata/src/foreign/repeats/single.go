package repeats

import (
	"time"

	"context"
	"github.com/cenkalti/backoff/v5"
)

// One refusal refuses one call.
func retryAfter(ctx context.Context) error {
	_, err := backoff.Retry(ctx, func() (int, error) { // want `not rewritten: its operation uses RetryAfter: write retry.After\(errors.New\("what went wrong"\), d\)`
		return 0, backoff.RetryAfter(3)
	})
	return err
}

func timer(ctx context.Context, bo backoff.BackOff) error {
	_, err := backoff.Retry(ctx, func() (int, error) { // want `not rewritten: its backoff is passed in, as the parameter bo`
		return 0, backoff.Permanent(errNotYet)
	}, backoff.WithBackOff(bo))
	return err
}

func beside(ctx context.Context) error {
	_, err := backoff.Retry(ctx, func() (int, error) { // want `-fix makes this a retry.Do$`
		return 0, errNotYet
	}, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)))
	return err
}

func notified(ctx context.Context, warn func(string, error)) error {
	_, err := backoff.Retry(ctx, func() (int, error) { // want `-fix makes this a retry.Do`
		return 0, errNotYet
	}, backoff.WithNotify(func(err error, wait time.Duration) {
		if wait > time.Second { // told late
			err = errNotYet
		}
		a := "not yet"
		warn(a, err)
	}))
	return err
}
