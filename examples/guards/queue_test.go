package guards_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/guards"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrytest"
)

// takes is how long a call holds its place.
func takes(n int) time.Duration { return time.Duration(1+n*7%5) * ms }

// handOver makes forty calls at once, of which three run at a time, and returns when each ended.
func handOver(t *testing.T, call func(n int, op func()) error) []time.Duration {
	ends := make([]time.Duration, 40)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var all sync.WaitGroup
		for n := range ends {
			all.Go(func() {
				if err := call(n, func() { time.Sleep(takes(n)) }); err != nil {
					t.Errorf("call %d: %v", n, err)
				}
				ends[n] = time.Since(begin)
			})
			synctest.Wait() // they come one by one
		}
		all.Wait()
	})
	return ends
}

// A place goes to the next call at the instant at which it becomes free, as with a channel.
func TestQueueIsAsFastAsAChannel(t *testing.T) {
	var q *guards.Queue
	var channel chan struct{}
	for name, door := range map[string]func(p retry.Policy, op func()) error{
		"Run": func(p retry.Policy, op func()) error {
			return retry.Run(context.Background(), p, func(context.Context) error { op(); return nil })
		},
		"Attempts": func(p retry.Policy, op func()) error {
			a := p.Attempts(context.Background())
			defer a.Close()
			for a.Next() {
				op()
				a.Done(nil)
			}
			return a.Err()
		},
	} {
		channel, q = nil, guards.NewQueue(3)
		want := handOver(t, func(n int, op func()) error {
			if channel == nil {
				channel = make(chan struct{}, 3) // of the bubble
			}
			channel <- struct{}{}
			op()
			<-channel
			return nil
		})
		got := handOver(t, func(n int, op func()) error {
			return door(retry.Policy{Guards: []retry.Guard{q}}, op)
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: calls end at %v, want %v as by a channel", name, got, want)
		}
	}
}

// What waits is seen by hooks, and ends with the caller, with MaxElapsed, or with a place.
func TestQueueOnTheHarness(t *testing.T) {
	for name, tt := range map[string]struct {
		free, maxElapsed, deadline, took time.Duration
		reason                           retry.Reason
	}{
		"a place":    {free: 3 * time.Second, took: 3 * time.Second},
		"MaxElapsed": {maxElapsed: 2 * time.Second, took: 2 * time.Second, reason: retry.ReasonGuard},
		"a deadline": {deadline: 2 * time.Second, took: 2 * time.Second, reason: retry.ReasonDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			q := guards.NewQueue(1)
			h := retrytest.New(t, retry.Policy{Guards: []retry.Guard{q}, MaxElapsed: tt.maxElapsed})
			first, err := q.Enter(t.Context(), retry.Entry{})
			if err != nil {
				t.Fatal(err)
			}
			leave := func() { q.Leave(first, retry.Exit{}) }
			if tt.free > 0 {
				h.Clock.AfterFunc(tt.free, leave)
			}
			ctx := t.Context()
			if tt.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = h.Clock.WithTimeoutCause(ctx, tt.deadline, nil)
				defer cancel()
			}
			if _, err := q.Enter(ctx, retry.Entry{Hedge: true}); err != limit.ErrLimited {
				t.Errorf("a hedge gets %v", err)
			}
			_ = retry.Run(ctx, h.Policy, func(context.Context) error { return nil })
			h.AssertReason(tt.reason)
			if s := h.Summary(); s.Elapsed != tt.took || s.Waited != tt.took || tt.reason == retry.ReasonGuard && !errors.Is(s.Err, retry.ErrPaced) {
				t.Errorf("%+v, want the end after %v", s, tt.took)
			}
			if held := h.Held(); len(held) == 0 || held[0].Guard != "guards.Queue" || held[0].Delay != 0 || held[0].Err != nil {
				t.Errorf("hooks saw %+v", held)
			}
			if tt.free == 0 {
				leave()
			}
			if _, err := q.Enter(t.Context(), retry.Entry{Hedge: true}); err != nil {
				t.Errorf("a place is lost: %v", err)
			}
		})
	}
}

// Callers that come and go lose no place.
func TestQueueLosesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := guards.NewQueue(2)
		p := retry.Policy{Guards: []retry.Guard{q}, MaxAttempts: 2, Backoff: retry.Constant(ms)}
		var all sync.WaitGroup
		for n := range 300 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n*13%50)*ms)
				defer cancel()
				_ = retry.Run(ctx, p, func(context.Context) error {
					time.Sleep(takes(n))
					if n%3 == 0 {
						return errDown
					}
					return nil
				})
			})
		}
		all.Wait()
		for range 2 {
			if _, err := q.Enter(t.Context(), retry.Entry{Hedge: true}); err != nil {
				t.Fatal("a place is lost")
			}
		}
		if _, err := q.Enter(t.Context(), retry.Entry{Hedge: true}); err == nil {
			t.Error("there are more than two places")
		}
	})
}
