package helpers

import (
	"context"
	"time"

	"github.com/sethvargo/go-retry"
)

func marked(ctx context.Context, f retry.RetryFunc) error {
	return retry.Do(ctx, retry.WithMaxRetries(3, retry.NewConstant(time.Second)), f) // want `not rewritten: its operation is not a literal in the call, and there RetryableError\(err\) must become err, and each other error retry.Stop\(err\); its error is now a .*; Classify repeats every error, as before those that were marked: .* By hand:\n\tretry.Run\(ctx, retry.Policy{\n\t\tMaxAttempts: 4,\n\t\tBackoff:     retry.Constant\(time.Second\),\n\t\tClassify:    func\(error\) retry.Class { return retry.Transient },\n\t}, f\)$`
}

func limited(ctx context.Context, f func(context.Context) error, longest time.Duration) error {
	b := retry.NewExponential(time.Second)
	b = retry.WithMaxDuration(longest, b)
	return retry.Do(ctx, b, func(ctx context.Context) error { // want `(?s)not rewritten: WithMaxDuration cuts .*; its operation may return an error that other code marks, and there .*By hand:\n\tretry.Run\(ctx, retry.Policy{\n\t\tMaxAttempts: retry.Unlimited,\n\t\tMaxElapsed:  longest,\n.*, op\)$`
		return f(ctx)
	})
}

func fetch() error { return nil }

func forAMinute(ctx context.Context) error {
	b := retry.WithMaxDuration(time.Minute, retry.NewExponential(time.Second))
	return retry.Do(ctx, b, func(context.Context) error { // want `(?s)not rewritten: WithMaxDuration cuts the last wait short for one more call, and MaxElapsed does not; .*By hand:\n\tretry.Run\(ctx, retry.Policy{\n\t\tMaxElapsed: time.Minute,\n.*op\)$`
		return retry.RetryableError(fetch())
	})
}
