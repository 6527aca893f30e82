package queues_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	"github.com/goretry/retry/retryqueue"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

type invoice struct{}

func (invoice) Kind() string { return "invoice" }

func TestRiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		w := &queues.RiverWorker[invoice]{
			Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Linear{Base: time.Minute, Jitter: retry.NoJitter, Max: time.Hour}},
			Handle: func(context.Context, *river.Job[invoice]) error {
				time.Sleep(time.Second)
				return fails
			},
		}
		river.AddWorker(river.NewWorkers(), w)
		job := func(attempt int) *river.Job[invoice] {
			return &river.Job[invoice]{JobRow: &rivertype.JobRow{Attempt: attempt, CreatedAt: time.Now()}}
		}

		if err := w.Work(t.Context(), job(1)); err != nil {
			t.Errorf("a success: Work() = %v", err)
		}
		fails = errDown
		first, second := job(1), job(2) // underway at once
		if err := errors.Join(w.Work(t.Context(), first), w.Work(t.Context(), second)); !errors.Is(err, errDown) {
			t.Errorf("a failure: Work() = %v, want the handler's error", err)
		}
		for j, want := range map[*river.Job[invoice]]time.Duration{first: time.Minute, second: 2 * time.Minute} {
			if got := time.Until(w.NextRetry(j)); got != want {
				t.Errorf("attempt %d is followed by another in %v, want %v", j.Attempt, got, want)
			}
			if at := w.NextRetry(j); !at.IsZero() {
				t.Errorf("the delay is kept after it was asked for: %v", at)
			}
		}
		fails = retry.After(retry.ErrRejected, time.Hour) // "not yet": River does not count it
		if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](w.Work(t.Context(), job(3))); !ok || snooze.Duration < time.Hour {
			t.Errorf("not yet: Work() = %v, want a snooze of an hour or more", snooze)
		}
		fails = errDown
		// A worker that is shut down has not done the job.
		ended, end := context.WithCancel(t.Context())
		end()
		if err := w.Work(ended, job(1)); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: Work() = %v, want context.Canceled", err)
		}
		for attempt, want := range map[int]error{3: errDown, 4: retryqueue.ErrCrashed} {
			before := time.Now()
			err := w.Work(t.Context(), job(attempt))
			cancel, ok := errors.AsType[*rivertype.JobCancelError](err)
			if e, _ := errors.AsType[*retry.Error](err); !ok || e == nil || e.Reason != retry.ReasonMaxAttempts || e.Attempts != 3 || !errors.Is(cancel, want) {
				t.Errorf("attempt %d: Work() = %v, want it canceled by max_attempts after 3, with %v", attempt, err, want)
			}
			if ran := time.Now() != before; ran != (attempt == 3) {
				t.Errorf("attempt %d: the handler ran: %v", attempt, ran)
			}
		}
	})
}
