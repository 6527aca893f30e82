package retrynats_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrynats"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

// Start, where a span begins, already has what Context read from the message.
func TestContextComesBeforeStart(t *testing.T) {
	type key struct{}
	seen := map[string]any{}
	for name, tt := range map[string]struct {
		context func(context.Context, jetstream.Msg) context.Context
		want    any
	}{
		"a value": {func(ctx context.Context, msg jetstream.Msg) context.Context {
			meta, err := msg.Metadata()
			if err != nil {
				t.Error(err)
			}
			return context.WithValue(ctx, key{}, meta.NumDelivered)
		}, uint64(3)},
		"nil":  {func(context.Context, jetstream.Msg) context.Context { return nil }, nil},
		"none": {nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			see := func(where string, ctx context.Context) { seen[where] = ctx.Value(key{}) }
			h := &retrynats.Handler{
				Context: tt.context,
				Policy: retry.Policy{MaxAttempts: 3, Hooks: retry.Hooks{
					Start: func(ctx context.Context, _ retry.Policy) context.Context { see("Start", ctx); return nil },
					Done:  func(ctx context.Context, _ retry.Summary) { see("Done", ctx) },
				}},
				Handle: func(ctx context.Context, _ jetstream.Msg) error { see("Handle", ctx); return errDown },
				Dead:   func(ctx context.Context, _ jetstream.Msg, _ *retry.Error) error { see("Dead", ctx); return nil },
			}
			q := newFakeQueue(&journal{})
			stop := q.consume(t, h)
			q.give(&fakeMsg{j: q.j, deliveries: 3})
			synctest.Wait()
			stop()
		})
		for _, where := range []string{"Start", "Handle", "Dead", "Done"} {
			if seen[where] != tt.want {
				t.Errorf("%s: %s saw %v, want %v", name, where, seen[where], tt.want)
			}
		}
		clear(seen)
	}
}

// A message that ends its process in Context is dead after the last delivery that the policy allows.
func TestContextIsNotCalledForADeadMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why *retry.Error
		h := &retrynats.Handler{
			Policy:  retry.Policy{MaxAttempts: 3},
			Context: func(context.Context, jetstream.Msg) context.Context { t.Error("Context is called"); return nil },
			Handle:  func(context.Context, jetstream.Msg) error { t.Error("Handle is called"); return nil },
			Dead:    func(_ context.Context, _ jetstream.Msg, e *retry.Error) error { why = e; return nil },
		}
		q := newFakeQueue(&journal{})
		stop := q.consume(t, h)
		q.give(&fakeMsg{j: q.j, deliveries: 4})
		synctest.Wait()
		stop()
		if !errors.Is(why, retryqueue.ErrCrashed) {
			t.Errorf("the dead letter says %v, want a crash", why)
		}
	})
}

// A context of the user's own that has ended is no shutdown: nobody waits for one, and
// the message comes back after AckWait.
func TestDeliveryWhoseOwnContextEnds(t *testing.T) {
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start = time.Now()
		errOwn := errors.New("own")
		h := &retrynats.Handler{
			Context: func(ctx context.Context, _ jetstream.Msg) context.Context {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(2*time.Second, func() { cancel(errOwn) })
				return ctx
			},
			Handle: func(ctx context.Context, _ jetstream.Msg) error {
				<-ctx.Done()
				j.note("Handle ends: %v", context.Cause(ctx))
				return ctx.Err()
			},
		}
		q := newFakeQueue(j)
		stop := q.consume(t, h)
		q.give(&fakeMsg{j: j, deliveries: 1})
		time.Sleep(time.Minute)
		q.Stop()
		stop()
	})
	j.want(t, "1.3s in progress", "2s Handle ends: own")
}

func TestStartSeesThePolicyOfTheHandler(t *testing.T) {
	var seen retry.Policy
	p := retry.Policy{Name: "job", MaxElapsed: time.Hour, AttemptTimeout: time.Minute, NonIdempotent: true, Budget: &budget.Token{}}
	p.Hooks.Start = func(_ context.Context, p retry.Policy) context.Context { seen = p; return nil }
	play(t, fakeMsg{deliveries: 2}, p, fails(errDown), nil)
	seen.Hooks, p.Hooks = retry.Hooks{}, retry.Hooks{}
	if !reflect.DeepEqual(seen, p) {
		t.Errorf("Start saw %+v, want %+v", seen, p)
	}
}

// A third party's rotated key ends no message, a body that it does not understand does.
func TestMessageOutlivesWhatPeopleMend(t *testing.T) {
	for status, want := range map[int]string{401: "0s nak with delay 1h0m0s", 422: "0s term"} {
		j := play(t, fakeMsg{deliveries: 1}, retry.Policy{Backoff: retry.Constant(time.Hour)}, fails(statusError(status)), nil)
		j.want(t, want)
	}
}

type statusError int

func (statusError) Error() string     { return "status" }
func (e statusError) StatusCode() int { return int(e) }
