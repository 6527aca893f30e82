package neverstops

import (
	"context"
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
