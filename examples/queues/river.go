package queues

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/riverqueue/river"
)

// RiverWorker retries jobs of River by a policy. Insert them with a MaxAttempts above the
// policy's, or River discards them before the policy gives up. The state of a dead job is
// cancelled, and its last error says why. River's own retry policy decides about a
// handler that panics.
type RiverWorker[T river.JobArgs] struct {
	river.WorkerDefaults[T]
	Policy retry.Policy
	Handle func(context.Context, *river.Job[T]) error

	delays sync.Map // from *river.Job[T] to its time.Duration, between Work and NextRetry
}

// Work does a job.
func (w *RiverWorker[T]) Work(ctx context.Context, job *river.Job[T]) error {
	delivery := retryqueue.Delivery{Number: job.Attempt, Stored: job.CreatedAt}
	failed := retryqueue.ErrPanicked
	var result error // for River
	_ = delivery.Handle(ctx, w.Policy, func(ctx context.Context) error {
		failed = w.Handle(ctx, job)
		return failed
	}, func(_ context.Context, d retryqueue.Decision) error {
		switch d.Action {
		case retryqueue.Undecided: // ctx has ended
			result = cmp.Or(context.Cause(ctx), failed)
		case retryqueue.Retry:
			if d.Uncounted { // "not yet"
				result = river.JobSnooze(d.Delay)
				return nil
			}
			w.delays.Store(job, d.Delay) // River asks NextRetry for it, and tells that no error
			result = failed
		case retryqueue.Dead:
			result = river.JobCancel(d.Err)
		}
		return nil
	})
	return result
}

// NextRetry says when a job that failed is to be done again.
func (w *RiverWorker[T]) NextRetry(job *river.Job[T]) time.Time {
	delay, ok := w.delays.LoadAndDelete(job)
	if !ok {
		return time.Time{} // Work panicked, and the job is dead: River's own policy
	}
	return time.Now().Add(delay.(time.Duration))
}
