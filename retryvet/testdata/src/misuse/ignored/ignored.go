package ignored

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

func op(context.Context) error { return nil }

func ignored(ctx context.Context, p retry.Policy) {
	retry.Run(ctx, p, op) //retryvet:ignore errorignored: best effort

	//retryvet:ignore errorignored: best effort
	retry.Run(ctx, p, op)

	//retryvet:ignore errorignored: the line after the next is not covered
	_ = p
	retry.Run(ctx, p, op) // want `is ignored`

	//retryvet:ignore errorignored
	retry.Run(ctx, p, op) // want `is ignored`

	//retryvet:ignore compared: another check
	retry.Run(ctx, p, op) // want `is ignored`

	//retryvet:ignore nanoseconds: only this check
	retry.Run(ctx, retry.Policy{Backoff: retry.Constant(5)}, op) // want `is ignored`

	_ = time.Second
}
