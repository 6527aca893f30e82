package errorignored

import (
	"context"

	"github.com/goretry/retry"
)

func op(context.Context) error { return nil }

func wrong(ctx context.Context, p retry.Policy) {
	retry.Run(ctx, p, op)                                                  // want `nobody learns that retry.Run gave up`
	retry.Do(ctx, p, func(context.Context) (int, error) { return 1, nil }) // want `nobody learns that retry.Do gave up`
	go retry.Supervise(ctx, p, 0, op)                                      // want `nobody learns that retry.Supervise gave up`
	defer retry.Run(ctx, p, op)                                            // want `nobody learns`
}

func right(ctx context.Context, p retry.Policy) error {
	_ = retry.Run(ctx, p, op)
	go func() { _ = retry.Run(ctx, p, op) }()
	retry.NewTicker(ctx, p)
	return retry.Run(ctx, p, op)
}
