package backoff6

import (
	"context"
	"time"

	back "github.com/cenkalti/backoff/v6"
)

func load(context.Context) (string, error) { return "", nil }
func ping() (string, error)                { return "", nil }

func plain(ctx context.Context) (string, error) {
	return back.Retry(ctx, ping) // want `cenkalti/backoff v6: -fix makes this a retry.Do; waits at the cap`
}

func options(ctx context.Context) (string, error) {
	bo := back.NewExponentialBackOff()
	bo.MaxInterval = 5 * time.Second
	return back.Retry(ctx, func() (string, error) { // want `-fix makes this a retry.Do`
		s, err := load(ctx)
		if err != nil {
			err = back.Permanent(err)
		}
		return s, err
	}, back.WithBackOff(bo), back.WithMaxTries(5), back.WithMaxElapsedTime(0), back.WithNotify(func(err error, _ time.Duration) { println(err) }))
}

func constant(ctx context.Context) (string, error) {
	return back.Retry(ctx, ping, back.WithBackOff(back.NewConstantBackOff(time.Second)), back.WithMaxElapsedTime(0)) // want `-fix makes this a retry.Do`
}
