package sethvargo

import (
	"context"
	"errors"
	"time"

	"github.com/sethvargo/go-retry"
)

type client interface{ Ping(context.Context) error }

func duration(ctx context.Context) error {
	return retry.Do(ctx, retry.WithMaxDuration(time.Minute, retry.NewConstant(time.Second)), func(ctx context.Context) error { // want `not rewritten: WithMaxDuration cuts the last wait short`
		return retry.RetryableError(ping(ctx))
	})
}

func noDuration(ctx context.Context) error {
	return retry.Do(ctx, retry.WithMaxDuration(0, retry.NewConstant(time.Second)), func(ctx context.Context) error { // want `not rewritten: its WithMaxDuration is zero, which makes one attempt: write MaxAttempts: 1`
		return retry.RetryableError(ping(ctx))
	})
}

func jitter(ctx context.Context) error {
	return retry.Do(ctx, retry.WithJitter(time.Second, retry.NewConstant(time.Minute)), func(ctx context.Context) error { // want `not rewritten: it has WithJitter: write a retry.BackoffFunc that adds`
		return retry.RetryableError(ping(ctx))
	})
}

func twice(ctx context.Context) error {
	b := retry.NewConstant(time.Second)
	b = retry.WithMaxRetries(3, b)
	for range 2 {
		if err := retry.Do(ctx, b, func(ctx context.Context) error { return retry.RetryableError(ping(ctx)) }); err != nil { // want `not rewritten: each call goes on with the backoff where the call before stopped`
			return err
		}
	}
	return nil
}

func endless(ctx context.Context) error {
	return retry.Do(ctx, retry.NewFibonacci(time.Second), func(ctx context.Context) error { // want `not rewritten: Fibonacci waits become a Schedule only if`
		return retry.RetryableError(ping(ctx))
	})
}

func unknown(ctx context.Context, c client) error {
	return retry.Do(ctx, retry.NewConstant(time.Second), func(ctx context.Context) error { // want `not rewritten: its operation may return an error that other code marks, and there RetryableError\(err\) must become err`
		err := c.Ping(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return retry.RetryableError(err)
		}
		return err
	})
}

func temporary(ctx context.Context) error {
	if err := ping(ctx); err != nil {
		return retry.RetryableError(err)
	}
	return nil
}

func elsewhere(ctx context.Context) error {
	return retry.Do(ctx, retry.NewConstant(time.Second), func(ctx context.Context) error { // want `not rewritten: its operation may return an error that other code marks, and there RetryableError\(err\) must become err`
		return temporary(ctx)
	})
}

func function(ctx context.Context) error {
	return retry.Do(ctx, retry.NewConstant(time.Second), temporary) // want `not rewritten: its operation is not a literal in the call`
}

func late(ctx context.Context) error {
	return retry.Do(ctx, retry.NewConstant(time.Second), func(ctx context.Context) error { // want `not rewritten: its operation does not return a RetryableError at once`
		err := ping(ctx)
		if err != nil {
			err = retry.RetryableError(err)
		}
		return err
	})
}

func naked(ctx context.Context) error {
	return retry.Do(ctx, retry.NewConstant(time.Second), func(ctx context.Context) (err error) { // want `not rewritten: its operation has a return that does not name the error`
		err = ping(ctx)
		return
	})
}
