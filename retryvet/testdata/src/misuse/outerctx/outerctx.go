package outerctx

import (
	"context"
	"log/slog"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

func hedged(ctx context.Context, p retry.Policy, h *hedge.Hedge) {
	_, _ = hedge.Do(ctx, p, h, func(context.Context) (string, error) {
		return fetch(ctx) // want `uses ctx from outside`
	})
	_, _ = hedge.DoValue(ctx, p, h, func(context.Context) (string, error) {
		return fetch(ctx) // want `uses ctx from outside`
	}, hedge.Value[string]{})
	_, _ = hedge.Race(ctx, p, h, func(context.Context) (string, error) {
		return fetch(ctx) // want `uses ctx from outside`
	}, hedge.Value[string]{})
}

func call(context.Context) error             { return nil }
func fetch(context.Context) (string, error)  { return "", nil }
func release(context.Context)                {}
func short(s string, ctx ...context.Context) {}

func wrong(ctx context.Context, p retry.Policy) error {
	err := retry.Run(ctx, p, func(context.Context) error {
		return call(ctx) // want `the operation uses ctx from outside`
	})
	if err != nil {
		return err
	}
	return retry.Run(ctx, p, func(attempt context.Context) error {
		slog.InfoContext(ctx, "trying") // want `uses ctx from outside`
		select {
		case <-ctx.Done(): // want `uses ctx from outside`
		default:
		}
		go call(ctx) // want `uses ctx from outside`
		return call(attempt)
	})
}

func local(p retry.Policy) (string, error) {
	mine := context.Background()
	op := func(context.Context) (string, error) {
		return fetch(mine) // want `uses mine from outside`
	}
	return retry.Do(mine, p, retry.Until(op, func(s string) bool { return s != "" }))
}

func inner(ctx context.Context, p, q retry.Policy) error {
	q.Classify = retry.AlreadyRetried
	return retry.Run(ctx, q, func(ctx context.Context) error {
		return retry.Run(ctx, p, func(context.Context) error {
			return call(ctx) // want `uses ctx from outside`
		})
	})
}

var shared = context.Background()

func right(ctx context.Context, p retry.Policy) error {
	other := context.Background()
	return retry.Run(ctx, p, func(ctx context.Context) error {
		defer release(ctx)
		if err := call(ctx); err != nil {
			return err
		}
		call(other)  // meant, it seems: another one than the run's
		call(shared) // the package's
		_ = retry.Run(ctx, p, func(context.Context) error {
			println(retry.AttemptNumber(ctx)) // of the run around this one
			return nil
		})
		return nil
	})
}

func alsoRight(ctx context.Context, p retry.Policy) error {
	return retry.Run(ctx, p, func(attempt context.Context) error {
		defer release(ctx)
		defer func() { release(ctx) }()
		if ctx.Err() != nil || ctx.Value("x") != nil {
			return retry.Stop(ctx.Err())
		}
		ctx := context.WithoutCancel(attempt)
		return call(ctx)
	})
}
