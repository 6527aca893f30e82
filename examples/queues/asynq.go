package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/hibiken/asynq"
)

// AsynqMiddleware retries the tasks of asynq by a policy. Set [AsynqDelay] and [AsynqIsFailure] in
// asynq.Config. stored says when a task was first enqueued, which asynq does not: put that into its
// payload or its headers, or return the zero time if the policy has no MaxElapsed.
//
// The smaller of MaxAttempts and the task's MaxRetry ends a task. So asynq archives it, and the
// hooks see that. It lacks a gate: asynq has received a task when the middleware gets it.
func AsynqMiddleware(p retry.Policy, stored func(*asynq.Task) time.Time) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) (result error) {
			retried, _ := asynq.GetRetryCount(ctx)
			p := p
			if most, ok := asynq.GetMaxRetry(ctx); ok {
				p.MaxAttempts = min(p.AttemptLimit(), most+1)
			}
			defer func() { // asynq waits as it pleases after a panic that gets there
				if v := recover(); v != nil {
					d, _ := errors.AsType[decided](result)
					result = decided{fmt.Errorf("panic: %v: %w", v, result), d.delay, true}
				}
			}()
			failed := retryqueue.ErrPanicked
			m := retryqueue.Delivery{Number: retried + 1, Stored: stored(t)}
			_ = m.Handle(ctx, p, func(ctx context.Context) error {
				failed = next.ProcessTask(ctx, t)
				return failed
			}, func(_ context.Context, d retryqueue.Decision) error {
				switch d.Action {
				case retryqueue.Undecided: // the server stops
					result = decided{cmp.Or(context.Cause(ctx), failed), 0, false}
				case retryqueue.Retry:
					result = decided{failed, d.Delay, !d.Uncounted}
				case retryqueue.Dead:
					result = fmt.Errorf("%w: %w", d.Err, asynq.SkipRetry)
				}
				return nil
			})
			return result
		})
	}
}

// decided is what the middleware returns: asynq asks for the delay, and whether to count, by the error.
type decided struct {
	error
	delay   time.Duration
	counted bool
}

func (d decided) Unwrap() error { return d.error }

// AsynqDelay is for asynq.Config.RetryDelayFunc.
func AsynqDelay(n int, err error, t *asynq.Task) time.Duration {
	if d, ok := errors.AsType[decided](err); ok {
		if d.delay > 0 {
			d.delay += time.Second - 1 // asynq cuts the time to whole seconds: never early
		}
		return d.delay
	}
	return asynq.DefaultRetryDelayFunc(n, err, t) // a lease has expired: its process has crashed
}

// AsynqIsFailure is for asynq.Config.IsFailure.
func AsynqIsFailure(err error) bool {
	d, ok := errors.AsType[decided](err)
	return !ok || d.counted
}
