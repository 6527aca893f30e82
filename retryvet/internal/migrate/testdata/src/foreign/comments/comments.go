package comments

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
)

func ping() error { return nil }

func options(ctx context.Context) error {
	return retry.Do( // want `-fix makes this a retry.Run`
		// The transaction may not be in a block yet.
		func() error { return ping() },
		retry.Context(ctx),
		// For three seconds.
		retry.Attempts(15),
		retry.Delay(200*time.Millisecond), // as often as a block comes
		retry.DelayType(retry.FixedDelay),
	)
}

func fields(ctx context.Context) error {
	bo := backoff.NewExponentialBackOff()
	bo.MaxInterval = 2 * time.Second // a probe is cheap
	bo.MaxElapsedTime = 0            // the number of retries is the limit
	bo.Reset()
	err := backoff.Retry(ping, backoff.WithContext(backoff.WithMaxRetries(bo, 3), ctx)) // want `-fix makes this a retry.Run`
	return err
}

func above(ctx context.Context) error {
	// The network may fail while the archive is restored, which can take hours.
	// That is no reason to give up.
	b := backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 10)
	b = backoff.WithContext(b, ctx)
	return backoff.Retry( // want `-fix makes this a retry.Run`
		func() error { return ping() },
		b,
	)
}

func apart(ctx context.Context) error {
	// Two minutes are what the tests allow.
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 120)

	// Call until it works.
	started := time.Now()
	err := backoff.Retry(ping, backoff.WithContext(b, ctx)) // want `-fix makes this a retry.Run`
	_ = time.Since(started)
	return err
}

func literal(ctx context.Context) error {
	return backoff.Retry(ping, backoff.WithContext(&backoff.ExponentialBackOff{ // want `-fix makes this a retry.Run`
		InitialInterval: time.Second,
		Multiplier:      1.7,
		MaxInterval:     15 * time.Second,
		MaxElapsedTime:  3 * 30 * 24 * time.Hour, // three months
		Stop:            backoff.Stop,
		Clock:           backoff.SystemClock,
	}, ctx))
}
