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
	hedge.Do(ctx, p, h, func(context.Context) (int, error) { return 1, nil })                   // want `the error of hedge.Do is ignored`
	retrysql.Tx(ctx, p, db, nil, func(context.Context, *sql.Tx) (int, error) { return 1, nil }) // want `the error of retrysql.Tx is ignored`
	_, _ = retrysql.Tx(ctx, p, db, nil, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
}

func batch(ctx context.Context, p retry.Policy, items []string, send func(context.Context, []string) error) {
	retrybatch.Run(ctx, p, items, send) // want `the error of retrybatch.Run is ignored`
	_ = retrybatch.Run(ctx, p, items, send)
}

func op(context.Context) error { return nil }

func wrong(ctx context.Context, p retry.Policy) {
	retry.Run(ctx, p, op)                                                  // want `the error of retry.Run is ignored`
	retry.Do(ctx, p, func(context.Context) (int, error) { return 1, nil }) // want `the error of retry.Do is ignored`
	go retry.Supervise(ctx, p, 0, op)                                      // want `the error of retry.Supervise is ignored`
	defer retry.Run(ctx, p, op)                                            // want `is ignored`
}

func right(ctx context.Context, p retry.Policy) error {
	_ = retry.Run(ctx, p, op)
	go func() { _ = retry.Run(ctx, p, op) }()
	retry.NewTicker(ctx, p)
	return retry.Run(ctx, p, op)
}
