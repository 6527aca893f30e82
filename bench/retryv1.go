package bench

import (
	"context"
	"math"
	"time"

	retryv1pkg "gopkg.in/retry.v1"
)

// retryV1 is used as in its package comment: a strategy made once and a loop over
// its attempts, which the context stops. What the loop does is the caller's: it
// has neither a value nor an error.
var retryV1 = Peer{
	Name:   "gopkg.in/retry.v1",
	Module: "gopkg.in/retry.v1",
	New: func(s Spec) Call {
		if s.Tokens || s.Listener != nil {
			return nil
		}
		strategy := retryV1Strategy(s)
		var clock retryv1pkg.Clock
		if s.Virtual {
			clock = newJump()
		}
		return func(ctx context.Context, op Op) (Row, error) { return retryV1Loop(ctx, strategy, clock, op) }
	},
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return retryV1Loop(ctx, retryv1pkg.LimitCount(4, retryv1pkg.Exponential{
			Initial:  100 * time.Millisecond,
			MaxDelay: 10 * time.Second,
		}), nil, op)
	},
	Note: "an iterator: the loop around the operation is the caller's",
}

func retryV1Loop(ctx context.Context, strategy retryv1pkg.Strategy, clock retryv1pkg.Clock, op Op) (v Row, err error) {
	a := retryv1pkg.StartWithCancel(strategy, clock, ctx.Done())
	for a.Next() {
		if v, err = op(ctx); err == nil {
			return v, nil
		}
	}
	if a.Stopped() {
		return v, context.Cause(ctx)
	}
	return v, err
}

func retryV1Strategy(s Spec) retryv1pkg.Strategy {
	var strategy retryv1pkg.Strategy = retryv1pkg.Regular{Delay: s.Wait, Total: math.MaxInt64}
	if s.Max > 0 {
		strategy = retryv1pkg.Exponential{Initial: s.Wait, MaxDelay: s.Max, Jitter: s.Jitter}
	}
	if s.Attempts > 0 {
		strategy = retryv1pkg.LimitCount(s.Attempts, strategy)
	}
	return strategy
}
