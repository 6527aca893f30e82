package helpers

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A Retrier is a helper with settings.
type Retrier struct {
	tries int
	wait  time.Duration
	log   func(error)
}

// An Option sets one of them.
type Option func(*Retrier)

func run(ctx context.Context, f func() error, options ...Option) error {
	r := Retrier{tries: 3, wait: time.Second}
	for _, o := range options {
		o(&r)
	}
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(r.wait), uint64(r.tries))
	return backoff.Retry(f, backoff.WithContext(b, ctx)) // want `-fix makes this a retry.Run; .*which callers must not compare`
}

// Do calls f until it succeeds.
func (r *Retrier) Do(ctx context.Context, f func(context.Context) error) error {
	b := backoff.NewExponentialBackOff()
	b.MaxInterval = r.wait
	err := backoff.RetryNotify(func() error { return f(ctx) }, backoff.WithContext(b, ctx), func(err error, _ time.Duration) { // want `-fix makes this a retry.Run; .*Classify`
		r.log(err)
	})
	return err
}
