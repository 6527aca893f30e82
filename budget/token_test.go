package budget_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

func TestToken(t *testing.T) {
	b := &budget.Token{Capacity: 100, Cost: 10, ThrottleCost: 30, Reward: 2}
	for _, step := range []struct {
		name string
		do   func() bool
		ok   bool
		left float64
	}{
		{"full at first", func() bool { return true }, true, 1},
		{"a success when full", func() bool { b.End(retry.Outcome{OK: true}); return true }, true, 1},
		{"a retry", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) }, true, .9},
		{"a throttled retry", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Throttled, Retry: 1}) }, true, .6},
		{"a failed run gives nothing back", func() bool { b.End(retry.Outcome{Retried: retry.Throttled, Retries: 1, Sent: 1}); return true }, true, .6},
		{"a first-try success", func() bool { b.End(retry.Outcome{OK: true}); return true }, true, .62},
		{"a success after a retry gives its cost back", func() bool {
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, OK: true})
			return true
		}, true, .72},
		{"after a throttled one", func() bool {
			b.End(retry.Outcome{Retried: retry.Throttled, Retries: 1, Sent: 1, OK: true})
			return true
		}, true, 1},
		{"never above capacity", func() bool {
			b.End(retry.Outcome{Retried: retry.Throttled, Retries: 1, Sent: 1, OK: true})
			return true
		}, true, 1},
		{"a retry after a timeout costs as any", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}) }, true, .9},
		{"and comes back", func() bool { b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1, OK: true}); return true }, true, 1},
		{"down", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Throttled, Retry: 1}) }, true, .7},
		{"further", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Throttled, Retry: 1}) }, true, .4},
		{"and further", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Throttled, Retry: 1}) }, true, .1},
		{"not enough", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Throttled, Retry: 1}) }, false, .1},
		{"just enough", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Unprocessed, Retry: 1}) }, true, 0},
		{"empty", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) }, false, 0},
	} {
		if ok := step.do(); ok != step.ok {
			t.Errorf("%s: %v, want %v", step.name, ok, step.ok)
		}
		if left := b.Balance(); math.Abs(left-step.left) > 1e-9 {
			t.Errorf("%s: the balance is %v, want %v", step.name, left, step.left)
		}
	}
}

func TestTokenDefaultsAndOddFields(t *testing.T) {
	grants := func(b *budget.Token, c retry.Class) (n int) {
		for n < 10_000 && b.Withdraw(retry.Withdrawal{Class: c, Retry: 1}) {
			n++
		}
		return n
	}
	for _, tt := range []struct {
		b                    *budget.Token
		transient, throttled int
	}{
		{&budget.Token{}, 500 / 14, (500 - 500/14*14) / 5},
		{&budget.Token{Capacity: -1}, 0, 0},
		{&budget.Token{Cost: -1}, 10_000, 100},
		{&budget.Token{Cost: math.MaxInt, ThrottleCost: 250}, 1, 0}, // a cost above Capacity is all of it
		{&budget.Token{Capacity: 10}, 1, 0},
		{&budget.Token{Capacity: 4, Cost: -1}, 10_000, 1},
		{&budget.Token{Capacity: -1, Cost: -1, ThrottleCost: -1}, 0, 0},
		{&budget.Token{Capacity: math.MaxInt, Cost: math.MaxInt}, 1, 0},
	} {
		if got := grants(tt.b, retry.Transient); got != tt.transient {
			t.Errorf("%d retries are granted, want %d", got, tt.transient)
		}
		if got := grants(tt.b, retry.Throttled); got != tt.throttled {
			t.Errorf("then %d throttled ones are granted, want %d", got, tt.throttled)
		}
		if b := tt.b.Balance(); !(b >= 0 && b <= 1) {
			t.Errorf("the balance is %v, want it in [0,1]", b)
		}
	}
	if b := (&budget.Token{Capacity: -1}).Balance(); b != 0 {
		t.Errorf("the balance of no tokens is %v, want 0", b)
	}
	b := &budget.Token{}
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	b.End(retry.Outcome{OK: true})
	if got, want := b.Balance(), (500-14+1)/500.; got != want {
		t.Errorf("after a retry and a success the balance is %v, want %v", got, want)
	}
	b = &budget.Token{Reward: -1}
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	before := b.Balance()
	if b.End(retry.Outcome{OK: true}); b.Balance() != before {
		t.Error("a negative reward changed the balance")
	}
}

func TestTokenEndsAnOutageAndRefills(t *testing.T) {
	p := virtual()
	p.MaxAttempts, p.Backoff = 3, nil
	b := &budget.Token{}
	p.Budget = b
	calls := 0
	for range 1000 {
		_ = retry.Run(t.Context(), p, func(context.Context) error { calls++; return errDown })
	}
	if want := 1000 + 500/14; calls != want {
		t.Errorf("1000 failing runs made %d calls, want %d", calls, want)
	}
	err := retry.Run(t.Context(), p, func(context.Context) error { return errDown })
	if wantReason(t, err, retry.ReasonBudget); !errors.Is(err, errDown) {
		t.Errorf("%v hides what failed", err)
	}
	for range 500 {
		_ = retry.Run(t.Context(), p, func(context.Context) error { return nil })
	}
	if got := b.Balance(); got != 1 {
		t.Errorf("after 500 successes the balance is %v, want 1", got)
	}
}

// What is taken and given back by many at once adds up.
func TestTokensAddUp(t *testing.T) {
	b := &budget.Token{Capacity: 1 << 30, Cost: 3}
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) // so that it is never full, and every End writes
	before := b.Balance()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
				b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, OK: true})
			}
		})
	}
	wg.Wait()
	if got := b.Balance(); got != before {
		t.Errorf("the balance is %v, was %v", got, before)
	}
}
