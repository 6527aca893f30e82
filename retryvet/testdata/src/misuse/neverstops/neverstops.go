package neverstops

import (
	"context"
	"os"
	"time"

	"github.com/goretry/retry"
)

func op(context.Context) error { return nil }

func wrong() error {
	ctx := context.TODO()
	_ = retry.Run(ctx, retry.Policy{MaxAttempts: retry.Unlimited}, op)        // want `nothing ends this run`
	return retry.Run(context.Background(), retry.Policy{MaxAttempts: -1}, op) // want `nothing ends this run`
}

func right(ctx context.Context) error {
	_ = retry.Run(ctx, retry.Policy{MaxAttempts: retry.Unlimited}, op)
	_ = retry.Run(context.Background(), retry.Policy{MaxAttempts: 5}, op)
	_ = retry.Supervise(context.Background(), retry.Policy{MaxAttempts: retry.Unlimited}, 0, op)
	return retry.Run(context.Background(), retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Minute}, op)
}

func ticks(ctx context.Context, p retry.Policy) {
	for range retry.Ticks(ctx, p) { // want `this loop goes on after a success`
		_ = op(ctx)
	}
	for n := range retry.Ticks(ctx, p) { // want `this loop goes on after a success`
		switch n {
		case 1:
			break // of the switch
		}
		for {
			break
		}
		func() { return }()
	}
}

func rightTicks(ctx context.Context, p retry.Policy) error {
	for range retry.Ticks(ctx, p) {
		if op(ctx) == nil {
			break
		}
	}
outer:
	for range 3 {
		for range retry.Ticks(ctx, p) {
			continue outer
		}
	}
	for range retry.Ticks(ctx, p) {
		os.Exit(1)
	}
	for range retry.Ticks(ctx, p) {
		panic(1)
	}
	for range retry.Ticks(ctx, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Minute)}) {
		_ = op(ctx) // every minute, for ever
	}
	for range retry.Ticks(ctx, p) {
		switch err := op(ctx); err {
		case nil:
			return nil
		}
	}
	return nil
}
