package errorignored

import (
	"context"
	"database/sql"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retrysql"
)

func hedged(ctx context.Context, p retry.Policy, h *hedge.Hedge, db *sql.DB) {
	hedge.Do(ctx, p, h, func(context.Context) (int, error) { return 1, nil })                   // want `nobody learns that hedge.Do gave up`
	retrysql.Tx(ctx, db, p, nil, func(context.Context, *sql.Tx) (int, error) { return 1, nil }) // want `nobody learns that retrysql.Tx gave up`
	_, _ = retrysql.Tx(ctx, db, p, nil, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
}

func batch(ctx context.Context, p retry.Policy, items []string, send func(context.Context, []string) error) {
	retrybatch.Run(ctx, p, items, send) // want `nobody learns that retrybatch.Run gave up`
	_ = retrybatch.Run(ctx, p, items, send)
}

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
