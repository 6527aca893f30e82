package sethvargo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sethvargo/go-retry"
)

func ping(context.Context) error           { return nil }
func load(context.Context) (string, error) { return "", nil }

func constant(ctx context.Context) error {
	return retry.Do(ctx, retry.WithMaxRetries(3, retry.NewConstant(time.Second)), func(ctx context.Context) error { // want `sethvargo/go-retry: -fix makes this a retry.Run; Classify repeats every error, as before those that were marked`
		if err := ping(ctx); err != nil {
			return retry.RetryableError(err)
		}
		return nil
	})
}

func all(ctx context.Context) error {
	b := retry.NewExponential(100 * time.Millisecond)
	b = retry.WithCappedDuration(5*time.Second, b)
	b = retry.WithJitterPercent(20, b)
	b = retry.WithMaxRetries(10, b)

	return retry.Do(ctx, b, func(ctx context.Context) error { // want `-fix makes this a retry.Run; waits at the cap may be shorter`
		return retry.RetryableError(ping(ctx))
	})
}

func some(ctx context.Context) (string, error) {
	const most = 8                                                                                                                         // attempts to load
	return retry.DoValue(ctx, retry.WithMaxRetries(most-1, retry.NewExponential(time.Second)), func(ctx context.Context) (string, error) { // want `-fix makes this a retry.Do; Classify`
		s, err := load(ctx)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return "", err
		case err != nil:
			return "", fmt.Errorf("load: %w", retry.RetryableError(err))
		case s == "":
			return "", errors.New("empty")
		}
		return s, nil
	})
}

func both(ctx context.Context) (string, error) {
	return retry.DoValue(ctx, retry.WithMaxRetries(2, retry.NewConstant(time.Second)), func(ctx context.Context) (string, error) { // want `after a failure its value is that of the last attempt: there was none`
		s, err := load(ctx)
		return s, retry.RetryableError(err)
	})
}

func plain(ctx context.Context) error {
	return retry.Do(ctx, retry.NewExponential(time.Second), func(context.Context) error { // want `-fix makes this a retry.Run$`
		return retry.RetryableError(errors.New("not yet"))
	})
}

func named(ctx context.Context) error {
	return retry.Do(ctx, retry.WithFullJitter(retry.NewConstant(time.Minute)), func(context.Context) error { // want `-fix makes this a retry.Run`
		return retry.RetryableError(ping(ctx))
	})
}

func fibonacci(ctx context.Context) error {
	return retry.Do(ctx, retry.WithMaxRetries(4, retry.NewFibonacci(time.Second)), func(ctx context.Context) error { // want `-fix makes this a retry.Run`
		return retry.RetryableError(ping(ctx))
	})
}

func capped(ctx context.Context) error {
	return retry.Do(ctx, retry.WithCappedDuration(7*time.Second, retry.NewFibonacci(2*time.Second)), func(ctx context.Context) error { // want `-fix makes this a retry.Run`
		return retry.RetryableError(ping(ctx))
	})
}

func short(ctx context.Context) error {
	return retry.Constant(ctx, time.Second, func(ctx context.Context) error { // want `-fix makes this a retry.Run`
		return retry.RetryableError(ping(ctx))
	})
}

func limits() retry.Backoff {
	b := retry.NewConstant(time.Second)
	b = retry.WithMaxRetries(5, b)
	return b
}

func helper(ctx context.Context) error {
	return retry.Do(ctx, limits(), func(ctx context.Context) error { // want `-fix makes this a retry.Run`
		return retry.RetryableError(ping(ctx))
	})
}
