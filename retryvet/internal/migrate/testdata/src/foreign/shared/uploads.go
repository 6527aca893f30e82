package shared

import (
	"context"
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func upload() error {
	return backoff.Retry(func() error { return errNotYet }, newUploadBackOff()) // want `-fix makes this a retry.Run; .*; its policy is uploadPolicy$`
}

func uploadAll(ctx context.Context) error {
	bo := newUploadBackOff()
	return backoff.RetryNotify(func() error { return query(ctx) }, backoff.WithContext(bo, ctx), func(err error, wait time.Duration) { // want `-fix makes this a retry.Run; .*; its policy is uploadPolicy$`
		println(err.Error(), wait)
	})
}

func slowly(ctx context.Context) error {
	return backoff.Retry(func() error { return query(ctx) }, slow(ctx)) // want `-fix makes this a retry.Run; .*; its policy is slowPolicy$`
}

func three() error {
	return backoff.Retry(func() error { return errNotYet }, tries(3)) // want `-fix makes this a retry.Run; its policy is triesPolicy$`
}

func threeToo() error {
	return backoff.Retry(func() error { return errNotYet }, tries(3)) // want `-fix makes this a retry.Run; its policy is triesPolicy$`
}

func four() error {
	return backoff.Retry(func() error { return errNotYet }, tries(4)) // want `-fix makes this a retry.Run$`
}

// An argument may have a name that the function's file does not know.
func many() error {
	return backoff.Retry(func() error { return errNotYet }, attempts(math.MaxInt8)) // want `-fix makes this a retry.Run; its policy is attemptsPolicy$`
}

func manyMore() error {
	return backoff.Retry(func() error { return errNotYet }, attempts(math.MaxInt8)) // want `-fix makes this a retry.Run; its policy is attemptsPolicy$`
}
