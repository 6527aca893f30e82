package shared

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

var longest = time.Minute

// newUploadBackOff returns the waits of uploads: their server needs
// time.
func newUploadBackOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = firstWait
	b.MaxElapsedTime = 0 // nothing ends it but the retries
	return backoff.WithMaxRetries(b, 5)
}

func slow(ctx context.Context) backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.MaxInterval = longest // set by tests
	return backoff.WithContext(b, ctx)
}

func tries(n uint64) backoff.BackOff {
	// One a second.
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), n)
}

// Once returns what one call has.
func Once() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2)
}

func used(ctx context.Context) error {
	return backoff.Retry(func() error { return query(ctx) }, slow(ctx)) // want `-fix makes this a retry.Run; .*; its policy is slowPolicy$`
}

func shadowed(firstWait time.Duration) error {
	return backoff.Retry(func() error { return errNotYet }, one()) // want `-fix makes this a retry.Run$`
}

func one() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(firstWait), 1)
}

func hidden(longest time.Duration) error {
	return backoff.Retry(func() error { return errNotYet }, two()) // want `not rewritten: a duration is neither a constant nor a variable that keeps its value`
}

func two() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(longest), 1)
}

func once() error {
	return backoff.Retry(func() error { return errNotYet }, Once()) // want `-fix makes this a retry.Run; nothing in its package uses these any more: Once$`
}

func attempts(n uint64) backoff.BackOff {
	return backoff.WithMaxRetries(&backoff.ZeroBackOff{}, n)
}
