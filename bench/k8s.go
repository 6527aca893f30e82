package bench

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// k8s is used with the functions that its package comment and the deprecation
// notes lead to: ExponentialBackoffWithContext, and PollUntilContextCancel where
// attempts have no limit. A Backoff is passed by value. The condition keeps the
// value; an error of the operation is not one for the library, it would end the
// loop.
var k8s = Peer{
	Name:   "k8s.io/apimachinery wait",
	Module: "k8s.io/apimachinery",
	New: func(s Spec) Call {
		if s.Virtual || s.Tokens || s.Listener != nil {
			return nil
		}
		if s.Attempts == 0 {
			return func(ctx context.Context, op Op) (v Row, err error) {
				err = wait.PollUntilContextCancel(ctx, s.Wait, true, condition(&v, op))
				return v, err
			}
		}
		b := wait.Backoff{Duration: s.Wait, Steps: s.Attempts, Cap: s.Max}
		if s.Max > 0 {
			b.Factor = 2
		}
		if s.Jitter {
			b.Jitter = .5
		}
		return func(ctx context.Context, op Op) (v Row, err error) {
			err = wait.ExponentialBackoffWithContext(ctx, b, condition(&v, op))
			return v, err
		}
	},
	Inline: func(ctx context.Context, op Op) (v Row, err error) {
		err = wait.ExponentialBackoffWithContext(ctx,
			wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 4, Cap: 10 * time.Second}, condition(&v, op))
		return v, err
	},
}

func condition(v *Row, op Op) wait.ConditionWithContextFunc {
	return func(ctx context.Context) (bool, error) {
		var err error
		*v, err = op(ctx)
		return err == nil, nil
	}
}
