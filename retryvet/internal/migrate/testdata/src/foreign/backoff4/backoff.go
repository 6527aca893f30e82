package backoff4

import (
	"context"
	"log"
	"time"

	"github.com/cenkalti/backoff/v4"
)

type client struct{}

func (*client) ping() error                { return nil }
func (*client) get() (string, error)       { return "", nil }
func call(context.Context) error           { return nil }
func load(context.Context) (string, error) { return "", nil }
func gone(error) bool                      { return false }
func told(error, time.Duration)            {}

const tries = 4

var wait = time.Second

func named(ctx context.Context, c *client) error {
	return backoff.Retry(c.ping, backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 3), ctx)) // want `cenkalti/backoff v4: -fix makes this a retry.Run; waits at the cap may be shorter`
}

func literal(ctx context.Context) error {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = 50 * time.Millisecond
	bo.MaxElapsedTime = time.Minute
	bo.RandomizationFactor = 0
	bo.Multiplier = 2
	err := backoff.Retry(func() error { // want `-fix makes this a retry.Run; it now ends when ctx does`
		// The first line stays.
		if err := call(ctx); gone(err) {
			return backoff.Permanent(err)
		} else {
			return err
		}
	}, bo)
	return err
}

func value(ctx context.Context) (string, error) {
	op := func() (string, error) { return load(ctx) }
	b := backoff.WithContext(backoff.NewConstantBackOff(time.Second), ctx)
	return backoff.RetryNotifyWithData(op, b, told) // want `-fix makes this a retry.Do`
}

func noContext(c *client) {
	backoff.RetryNotify(func() error { return c.ping() }, backoff.WithMaxRetries(&backoff.ConstantBackOff{Interval: wait}, tries), func(err error, d time.Duration) { // want `-fix makes this a retry.Run`
		log.Println(err, d)
	})
	backoff.RetryWithData(c.get, &backoff.StopBackOff{})                                                                                                   // want `-fix makes this a retry.Do`
	backoff.Retry(c.ping, backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2))                                                                               // want `-fix makes this a retry.Run`
	backoff.Retry(c.ping, backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxElapsedTime(backoff.DefaultMaxInterval))) // want `-fix makes this a retry.Run`
}
