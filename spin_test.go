package retry_test

import (
	"context"
	"errors"

	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retryqueue"
)

// longRunners call op for as long as ctx lasts: each way of ours that outlives a call.
var longRunners = map[string]func(ctx context.Context, p retry.Policy, op func(context.Context) error){
	"Supervise": func(ctx context.Context, p retry.Policy, op func(context.Context) error) {
		_ = retry.Supervise(ctx, p, 0, op)
	},
	"Attempts": func(ctx context.Context, p retry.Policy, op func(context.Context) error) {
		a := p.Attempts(ctx)
		defer a.Close()
		for a.Next() {
			a.Done(op(a.Context()))
		}
	},
	"Ticker": func(ctx context.Context, p retry.Policy, op func(context.Context) error) {
		ticks := retry.NewTicker(ctx, p)
		defer ticks.Stop()
		for range ticks.C {
			_ = op(ctx)
		}
	},
	"retrybatch": func(ctx context.Context, p retry.Policy, op func(context.Context) error) {
		_ = retrybatch.Run(ctx, p, []int{1, 2, 3}, func(ctx context.Context, _ []int) error { return op(ctx) })
	},
	"a queue": func(ctx context.Context, p retry.Policy, op func(context.Context) error) { consume(ctx, p, op, nil) },
	"a queue with a gate": func(ctx context.Context, p retry.Policy, op func(context.Context) error) {
		consume(ctx, p, op, new(retryqueue.Gate))
	},
}

// consume handles one message until it is done or dead, as a queue delivers it.
func consume(ctx context.Context, p retry.Policy, op func(context.Context) error, gate *retryqueue.Gate) {
	stored := time.Now()
	for number := 1; ctx.Err() == nil; number++ {
		done := func(string, error) {}
		if gate != nil {
			var err error
			if done, err = gate.Wait(ctx); err != nil {
				return
			}
		}
		var decided retryqueue.Decision
		inner := p // the guards are those of the calls that the handler makes
		inner.MaxAttempts = 1
		_ = retryqueue.Delivery{Number: number, Stored: stored}.Handle(ctx, p,
			func(ctx context.Context) error {
				err := retry.Run(ctx, inner, op)
				done("m", err)
				return err
			},
			func(_ context.Context, d retryqueue.Decision) error { decided = d; return nil })
		if decided.Action != retryqueue.Retry {
			return
		}
		select {
		case <-time.After(decided.Delay):
		case <-ctx.Done():
		}
	}
}

// Nothing that goes on by itself is a busy loop, whatever keeps its op from working: in ten minutes with
// a backoff of a second there are at most 600 calls, or so many refusals, and the first one.
func TestNothingSpins(t *testing.T) {
	const lasts, backoff = 10 * time.Minute, time.Second
	for name, tt := range map[string]struct {
		edit func(p *retry.Policy)
		err  error // of op
	}{
		"nothing":         {func(*retry.Policy) {}, errDown},
		"an empty budget": {func(p *retry.Policy) { p.Budget = &countingBudget{refuse: true} }, errDown},
		"a full limit":    {func(p *retry.Policy) { p.Guards = []retry.Guard{fullLimit()} }, errDown},
		"a held pace": {func(p *retry.Policy) {
			held := new(pace.Pace)
			held.Hold(time.Minute)
			p.Guards = []retry.Guard{held}
		}, errDown},
		"an open breaker":                        {func(p *retry.Policy) { p.Guards = []retry.Guard{openBreaker(t)} }, errDown},
		"not yet":                                {func(*retry.Policy) {}, retry.ErrRejected},
		"a server that asks for a retry at once": {func(p *retry.Policy) { p.Budget = &countingBudget{refuse: true} }, nowError{}},
		"an expired context":                     {func(*retry.Policy) {}, errDown},
	} {
		for runner, run := range longRunners {
			synctest.Test(t, func(t *testing.T) {
				p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(backoff)}
				tt.edit(&p)
				refusals := 0
				p.Hooks.Guard = func(_ context.Context, h retry.Held) {
					if h.Err != nil {
						refusals++
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				if name == "an expired context" {
					cancel()
				}
				calls := 0
				run(ctx, p, func(context.Context) error {
					if calls++; calls > 100_000 {
						t.Fatalf("%s, %s: a busy loop", runner, name)
					}
					return tt.err
				})
				if most := int(lasts/backoff) + 1; calls+refusals > most {
					t.Errorf("%s, %s: %d calls and %d refusals in %v, want at most %d", runner, name, calls, refusals, lasts, most)
				}
				if name == "an expired context" && calls > 0 {
					t.Errorf("%s: %d calls with an expired context", runner, calls)
				}
			})
		}
	}
}

// nowError is the error of a server that asks for a retry without a wait.
type nowError struct{}

func (nowError) Error() string             { return "at once" }
func (nowError) RetryNow() bool            { return true }
func (nowError) RetryAfter() time.Duration { return 0 }

func fullLimit() retry.Guard {
	l := &limit.Limit{Max: 1}
	if _, err := l.Enter(context.Background(), retry.Entry{}); err != nil {
		panic(err)
	}
	return l
}

func openBreaker(t *testing.T) retry.Guard {
	b := new(breaker.Breaker)
	for range 20 {
		_ = retry.Run(t.Context(), retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{b}}, func(context.Context) error { return errors.New("down") })
	}
	return b
}
