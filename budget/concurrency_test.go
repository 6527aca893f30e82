package budget_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

// named is a budget that adds a name to another, as people write it.
type named struct {
	retry.Budget
	name string
}

func TestABudgetThatEmbedsAnotherLosesNoPlace(t *testing.T) {
	places := &budget.Concurrency{Ratio: -1, Min: 1}
	p := virtual()
	p.Budget = named{places, "database"}
	for range 3 {
		op, calls := failing(3)
		if err := retry.Run(t.Context(), p, op); err != nil || *calls != 4 {
			t.Errorf("%v after %d calls, want a success after 4: all retries of a run take one place", err, *calls)
		}
		if places.Balance() != 1 {
			t.Errorf("the balance is %v after the run, want 1", places.Balance())
		}
	}
}

func TestConcurrency(t *testing.T) {
	b := &budget.Concurrency{Ratio: .5, Min: 1}
	want := func(name string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	b.Begin(retry.Opening{})
	want("the minimum", b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}), true)
	for range 7 {
		b.Begin(retry.Opening{})
	}
	want("one of 4 places is taken", b.Balance() == .75, true)
	for range 7 {
		b.End(retry.Outcome{OK: true})
	}
	b.Begin(retry.Opening{})
	b.Begin(retry.Opening{})
	want("1 of 3 is taken", b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}), false)
	b.Begin(retry.Opening{})
	want("half of 4", b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}), true)
	want("the balance", b.Balance() == 0, true)
	want("both may go on", b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 2}), true)
	b.End(retry.Outcome{OK: true})
	want("half of 3 is 1, and 2 are taken", b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 2}), false)
	b.End(retry.Outcome{Retried: retry.Transient})
	want("one of them ended", b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 2}), true)
	b.End(retry.Outcome{Retried: retry.Transient, OK: true})
	b.End(retry.Outcome{})
	want("nothing is left", b.Balance() == 1, true)
}

func TestConcurrencyDefaultsAndOddFields(t *testing.T) {
	for _, tt := range []struct {
		b    *budget.Concurrency
		want int // of 100 runs in flight
	}{
		{&budget.Concurrency{}, 20},
		{&budget.Concurrency{Ratio: .01}, 3},
		{&budget.Concurrency{Ratio: .01, Min: -1}, 1},
		{&budget.Concurrency{Ratio: .29}, 29}, // a hair less, as a product of floats
		{&budget.Concurrency{Ratio: -1, Min: -1}, 0},
		{&budget.Concurrency{Ratio: math.NaN()}, 3},
		{&budget.Concurrency{Ratio: math.Inf(1)}, 100},
		{&budget.Concurrency{Min: math.MaxInt}, 100},
	} {
		for range 100 {
			tt.b.Begin(retry.Opening{})
		}
		n := 0
		for n < 100 && tt.b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			n++
		}
		if n != tt.want {
			t.Errorf("Ratio %v, Min %v: %d of 100 runs may retry, want %d", tt.b.Ratio, tt.b.Min, n, tt.want)
		}
	}
}

// A run with several retries takes one place, and leaves none behind however it
// ends.
func TestConcurrencyLosesNoPlace(t *testing.T) {
	b := &budget.Concurrency{Ratio: -1, Min: 1}
	p := virtual()
	p.Budget = b
	ctx, cancel := context.WithCancel(t.Context())
	for name, op := range map[string]func(ctx context.Context) error{
		"fails":     func(context.Context) error { return errDown },
		"permanent": func(ctx context.Context) error { return stopAt(ctx, 3) },
		"succeeds": func(ctx context.Context) error {
			if retry.AttemptNumber(ctx) == 4 {
				return nil
			}
			return errDown
		},
		"panics": func(ctx context.Context) error {
			if retry.AttemptNumber(ctx) == 3 {
				panic("boom")
			}
			return errDown
		},
		"is canceled": func(ctx context.Context) error {
			if retry.AttemptNumber(ctx) == 3 {
				cancel()
			}
			return errDown
		},
	} {
		func() {
			defer func() { _ = recover() }()
			_ = retry.Run(ctx, p, func(ctx context.Context) error {
				if retry.AttemptNumber(ctx) == 3 && b.Balance() != 0 {
					t.Errorf("%s: the balance is %v in the second retry, want 0", name, b.Balance())
				}
				return op(ctx)
			})
		}()
		if got := b.Balance(); got != 1 {
			t.Errorf("%s: the balance is %v after the run, want 1", name, got)
		}
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}

func stopAt(ctx context.Context, n int) error {
	if retry.AttemptNumber(ctx) == n {
		return retry.Stop(errDown)
	}
	return errDown
}

// At no instant are there more retries in flight than allowed.
func TestConcurrencyUnderContention(t *testing.T) {
	b := &budget.Concurrency{Ratio: -1, Min: 5}
	var inFlight, peak, granted atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 2000 {
				b.Begin(retry.Opening{})
				retried := retry.Unknown
				if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
					retried = retry.Transient
					granted.Add(1)
					n := inFlight.Add(1)
					for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
					}
					runtime.Gosched() // let the others in, if they may
					inFlight.Add(-1)
				}
				b.End(retry.Outcome{Retried: retried, OK: true})
			}
		})
	}
	wg.Wait()
	if peak.Load() > 5 || granted.Load() == 0 {
		t.Errorf("%d retries in flight at once, %d in all, want at most 5 at once", peak.Load(), granted.Load())
	}
	if got := b.Balance(); got != 1 {
		t.Errorf("the balance is %v in the end, want 1", got)
	}
}
