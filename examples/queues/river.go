package queues

import (
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
	d, run := retryqueue.Before(w.Policy, job.Attempt, job.CreatedAt, time.Now())
	var err error
	if run {
		err = w.Handle(ctx, job)
		d = retryqueue.After(w.Policy, job.Attempt, job.CreatedAt, time.Now(), err)
	}
	switch d.Action {
	case retryqueue.Retry:
		w.delays.Store(job, d.Delay) // River asks NextRetry for it, and tells that no error
	case retryqueue.Dead:
		return river.JobCancel(d.Err)
	}
	return err
}

// NextRetry says when a job that failed is to be done again.
func (w *RiverWorker[T]) NextRetry(job *river.Job[T]) time.Time {
	delay, ok := w.delays.LoadAndDelete(job)
	if !ok {
		return time.Time{} // Work panicked: River's own policy
	}
	return time.Now().Add(delay.(time.Duration))
}
