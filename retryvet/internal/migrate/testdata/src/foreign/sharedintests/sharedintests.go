// Package sharedintests shares policies with its tests.
package sharedintests

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

var errNotYet = errors.New("not yet")

func newBackOff() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3)
}

func newOther() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 4)
}

func first() error {
	return backoff.Retry(func() error { return errNotYet }, newBackOff()) // want `-fix makes this a retry.Run; its policy is retryPolicy; only tests of its package still use newBackOff$`
}

func second() error {
	return backoff.Retry(func() error { return errNotYet }, newBackOff()) // want `-fix makes this a retry.Run; its policy is retryPolicy$`
}

// A test has the other call.
func third() error {
	return backoff.Retry(func() error { return errNotYet }, newOther()) // want `-fix makes this a retry.Run; only tests of its package still use newOther$`
}
