package helpers

import (
	"context"
	"time"

	"github.com/sethvargo/go-retry"
)

func marked(ctx context.Context, f retry.RetryFunc) error {
	return retry.Do(ctx, retry.WithMaxRetries(3, retry.NewConstant(time.Second)), f) // want `not rewritten: its operation is not a literal in the call, and there RetryableError\(err\) must become err, and each other error retry.Stop\(err\). By hand: retry.Run\(ctx, retry.Policy{MaxAttempts: 4, Backoff: retry.Constant\(time.Second\), Classify: func\(error\) retry.Class { return retry.Transient }}, f\); its error is now a`
}

func limited(ctx context.Context, f func(context.Context) error, longest time.Duration) error {
	b := retry.NewExponential(time.Second)
	b = retry.WithMaxDuration(longest, b)
	return retry.Do(ctx, b, func(ctx context.Context) error { // want `not rewritten: WithMaxDuration cuts .*; its operation may return an error that other code marks, and there .*By hand: retry.Run\(ctx, retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: longest, `
		return f(ctx)
	})
}

func fetch() error { return nil }

func forAMinute(ctx context.Context) error {
	b := retry.WithMaxDuration(time.Minute, retry.NewExponential(time.Second))
	return retry.Do(ctx, b, func(context.Context) error { // want `not rewritten: WithMaxDuration cuts the last wait short for one more call, and MaxElapsed does not. By hand: retry.Run\(ctx, retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Exponential{Base: time.Second, Max: math.MaxInt64, Jitter: retry.NoJitter}`
		return retry.RetryableError(fetch())
	})
}
