package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
)

func TestBudgetsGetThePolicysClock(t *testing.T) {
	doors := maps.Clone(doors)
	doors["Loop"] = func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
		loop := p.Start(epoch)
		for ok := true; ok; {
			_, ok = loop.Next(epoch, op(ctx))
		}
		return loop.Err()
	}
	v := clockx.NewVirtual(epoch)
	for given, want := range map[clockx.Clock]clockx.Clock{nil: clockx.System(), clockx.System(): clockx.System(), v: v} {
		for door, run := range doors {
			budget := &loggedBudget{log: func(string, ...any) {}}
			_ = run(t.Context(), retry.Policy{Clock: given, Budget: budget, Backoff: retry.Constant(0), MaxAttempts: 2}, func(context.Context) error { return errDown })
			if len(budget.withdrawals) != 1 || budget.withdrawals[0].Clock != want || budget.outcome.Clock != want {
				t.Errorf("%s on %T: Withdraw got %+v, and End %+v, want %T in both", door, given, budget.withdrawals, budget.outcome, want)
			}
		}
	}
}

// Also on the system clock and without hooks, where a run is cheapest.
func TestRunTellsTheBudgetAlone(t *testing.T) {
	for failures, want := range map[int]countingBudget{
		0: {ended: 1, ok: true},
		2: {asked: 2, ended: 1, ok: true, retried: retry.Transient},
		3: {asked: 2, ended: 1, retried: retry.Transient},
	} {
		var budget countingBudget
		op, _ := failing(failures, errDown)
		_, _ = retry.Do(t.Context(), retry.Policy{Budget: &budget, Backoff: retry.Constant(0)}, op)
		if budget != want {
			t.Errorf("after %d failures the budget of Do saw %+v, want %+v", failures, budget, want)
		}
		budget = countingBudget{}
		op, _ = failing(failures, errDown)
		_ = retry.Run(t.Context(), retry.Policy{Budget: &budget, Backoff: retry.Constant(0)}, func(ctx context.Context) error {
			_, err := op(ctx)
			return err
		})
		if budget != want {
			t.Errorf("after %d failures the budget of Run saw %+v, want %+v", failures, budget, want)
		}
	}
}

func TestEarnedBudget(t *testing.T) {
	b := budgettest.Timed(&retry.EarnedBudget{}, clockx.NewVirtual(epoch))
	withdraw := func(c retry.Class) bool { return b.Withdraw(retry.Withdrawal{Class: c, Retry: 1}) }
	for _, step := range []struct {
		name string
		do   func() bool
		ok   bool
		left float64
	}{
		{"nine tokens at first", func() bool { return true }, true, .9},
		{"a retry after a timeout costs ten, which it has not", func() bool { return withdraw(retry.TimedOut) }, false, .9},
		{"another one costs two", func() bool { return withdraw(retry.Transient) }, true, .7},
		{"throttled, two", func() bool { return withdraw(retry.Throttled) }, true, .5},
		{"unprocessed, two", func() bool { return withdraw(retry.Unprocessed) }, true, .3},
		{"a run that fails earns nothing", func() bool { b.End(retry.Outcome{}); return true }, true, .3},
		{"nor after a retry", func() bool { b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1}); return true }, true, .3},
		{"a success earns a tenth", func() bool { b.End(retry.Outcome{OK: true}); return true }, true, .31},
		{"after a retry four", func() bool {
			b.End(retry.Outcome{Retried: retry.Unprocessed, Retries: 1, Sent: 1, OK: true})
			return true
		}, true, .71},
		{"throttled, four", func() bool {
			b.End(retry.Outcome{Retried: retry.Throttled, Retries: 3, Sent: 3, OK: true})
			return true
		}, true, 1}, // 11.1 tokens
		{"a retry after a timeout", func() bool { return withdraw(retry.TimedOut) }, true, .11},
		{"one token is too little", func() bool { return withdraw(retry.Transient) }, false, .11},
		{"that retry succeeds: 20", func() bool { b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 3, Sent: 3, OK: true}); return true }, true, 1},
		{"a retry of that", func() bool { return withdraw(retry.TimedOut) }, true, 1},
		{"and another", func() bool { return withdraw(retry.TimedOut) }, true, .11},
		{"a call that was not hedged earns a tenth", func() bool { b.End(retry.Outcome{Hedge: true, OK: true}); return true }, true, .12},
		{"a hedge that wins two", func() bool {
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, Hedge: true, OK: true})
			return true
		}, true, .32},
		{"one that does not nothing", func() bool {
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, Hedge: true})
			return true
		}, true, .32},
		{"after three retries eight", func() bool {
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 3, Sent: 3, OK: true})
			return true
		}, true, 1},
		{"which is one of ten and one", func() bool { return withdraw(retry.TimedOut) }, true, .12},
	} {
		if ok := step.do(); ok != step.ok {
			t.Errorf("%s: %v, want %v", step.name, ok, step.ok)
		}
		if left := b.Balance(); math.Abs(left-step.left) > 1e-9 {
			t.Errorf("%s: the balance is %v, want %v", step.name, left, step.left)
		}
	}
}

// With each run that fails after a retry after a timeout or a Throttled error the prices of
// both double, four times at most. With each that succeeds they halve.
func TestPricesAfterOverloadsFollowTheirSuccess(t *testing.T) {
	for _, class := range []retry.Class{retry.TimedOut, retry.Throttled} {
		b := budgettest.Timed(&retry.EarnedBudget{}, clockx.NewVirtual(epoch))
		budgettest.Succeed(b, 10) // ten tokens: an even number
		price := func(c retry.Class) (tokens int) {
			budgettest.Granted(b, 2000, retry.Transient)
			for !b.Withdraw(retry.Withdrawal{Class: c, Retry: 1}) {
				budgettest.Succeed(b, 10)
				if tokens++; tokens > 200 {
					t.Fatal("the price is above 200 tokens")
				}
			}
			return tokens
		}
		for i, want := range []int{1, 2, 4, 8, 16, 16} {
			if dear, cheap := price(retry.TimedOut), price(retry.Throttled); dear != 10*want || cheap != 2*want {
				t.Errorf("%v: after %d runs that failed the prices are %d and %d tokens, want %d and %d", class, i, dear, cheap, 10*want, 2*want)
			}
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1}) // says nothing of overloads
			b.End(retry.Outcome{})
			b.End(retry.Outcome{Retried: class, Retries: 1, Sent: 1})
		}
		for i, want := range []int{16, 8, 4, 2, 1, 1} {
			if dear, cheap := price(retry.TimedOut), price(retry.Throttled); dear != 10*want || cheap != 2*want {
				t.Errorf("%v: after %d runs that succeeded the prices are %d and %d tokens, want %d and %d", class, i, dear, cheap, 10*want, 2*want)
			}
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, OK: true})
			b.End(retry.Outcome{Retried: class, Retries: 1, Sent: 1, OK: true})
		}
	}
}

// A process with few calls can save up for the price, however slowly: what it needs for
// one retry does not decay, and all that is beyond does.
func TestWhatARetryCostsDoesNotFade(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := budgettest.Timed(&retry.EarnedBudget{}, v)
	b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1})
	b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1})
	for range 310 {
		v.Advance(time.Hour)
		budgettest.Succeed(b, 1)
	}
	if !b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
		t.Error("310 successes, an hour apart, and the nine tokens at first are not exactly one retry of 40 tokens")
	}
	budgettest.Succeed(b, 1000)
	v.Advance(2 * time.Minute)
	if got := budgettest.Granted(b, 2000, retry.Transient); got != 20 {
		t.Errorf("two minutes after many successes there are %d retries, want 20, for 40 tokens", got)
	}
}

// A new process makes no retry after a timeout before ten of its calls have succeeded: a
// command that calls once makes none, however many run at the same time.
func TestANewBudgetGrantsNoRetryAfterATimeout(t *testing.T) {
	b := budgettest.Timed(&retry.EarnedBudget{}, clockx.NewVirtual(epoch))
	for n := range 11 {
		if ok := b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}); ok != (n == 10) {
			t.Errorf("after %d successes a retry is granted: %v", n, ok)
		}
		budgettest.Succeed(b, 1)
	}
}

// A tenth is no binary fraction: twenty successes are a retry, not nineteen and not
// twenty-one.
func TestTwentySuccessesAreARetry(t *testing.T) {
	b := budgettest.Timed(&retry.EarnedBudget{}, clockx.NewVirtual(epoch))
	if got := budgettest.Granted(b, 100, retry.Transient); got != 4 {
		t.Errorf("at first %d retries are granted, want 4", got)
	}
	budgettest.Succeed(b, 10) // for one more, together with the token that is left
	budgettest.Granted(b, 1, retry.Transient)
	for range 1000 {
		budgettest.Succeed(b, 19)
		if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			t.Fatal("a retry is granted for nineteen successes")
		}
		budgettest.Succeed(b, 1)
		if got := budgettest.Granted(b, 9, retry.Transient); got != 1 {
			t.Fatalf("%d retries are granted for twenty successes, want 1", got)
		}
	}
	budgettest.Succeed(b, 99)
	if b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}) {
		t.Error("a retry after a timeout is granted for 99 successes")
	}
	budgettest.Succeed(b, 1)
	if !b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
		t.Error("a hundred successes are not exactly one retry after a timeout")
	}
}

func TestNothingIsEarnedByTime(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := budgettest.Timed(&retry.EarnedBudget{}, v)
	budgettest.Granted(b, 10, retry.Transient)
	for range 100 {
		v.Advance(1000 * time.Hour)
		b.End(retry.Outcome{})
		if b.Withdraw(retry.Withdrawal{Class: retry.Unprocessed, Retry: 1}) || b.Balance() != .1 {
			t.Fatalf("a retry is granted, and the balance is %v, though no run has succeeded", b.Balance())
		}
	}
}

// What exceeds ten tokens falls by the factor e in 8 s, in steps of 1/16 s, from a
// thousand at most: but of the first minute of a pause five steps count. What does not, stays.
func TestEarnedTokensFade(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{
		{0, 1010},
		{time.Second/16 - 1, 1010},
		{time.Second / 16, 10 + 992},
		{4 * time.Second / 16, 10 + 969},
		{5 * time.Second / 16, 10 + 961},
		{time.Second, 10 + 961},
		{time.Minute, 10 + 961},
		{time.Minute + time.Second/16, 10 + 954},
		{68 * time.Second, 10 + 353},
		{90 * time.Second, 10 + 22},
		{2 * time.Minute, 10},
		{24 * time.Hour, 10},
		{876_000 * time.Hour, 10},
	} {
		v := clockx.NewVirtual(epoch.Truncate(time.Second))
		b := budgettest.Timed(&retry.EarnedBudget{}, v)
		budgettest.Succeed(b, 20_000)
		v.Advance(tt.after)
		if got := budgettest.Granted(b, 2000, retry.Transient); got != tt.want/2 {
			t.Errorf("%v after very many successes %d retries are granted, want %d, for %d tokens", tt.after, got, tt.want/2, tt.want)
		}
	}
	// In many steps, which round, as in one.
	v := clockx.NewVirtual(epoch.Truncate(time.Second))
	b := budgettest.Timed(&retry.EarnedBudget{}, v)
	budgettest.Succeed(b, 20_000)
	for range 128 {
		v.Advance(time.Second / 16)
		b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
		budgettest.Succeed(b, 20)
	}
	if got := budgettest.Granted(b, 2000, retry.Transient); got != (10+367)/2 {
		t.Errorf("in steps %d retries are left, want 188", got)
	}
	// A steady rate of r successes per second holds some .8 r tokens beyond ten.
	b = budgettest.Timed(&retry.EarnedBudget{}, v)
	for range 60 * 16 {
		v.Advance(time.Second / 16)
		budgettest.Succeed(b, 10)
	}
	if got := budgettest.Granted(b, 2000, retry.Transient); got != (10+128)/2 {
		t.Errorf("at 160 successes per second there are %d retries, want 69", got)
	}
}

// In any order, nothing is refused that a fresh budget would grant.
func TestEarnedBudgetInAndOutOfBubbles(t *testing.T) {
	for _, clock := range []clockx.Clock{nil, clockx.System()} {
		b := budgettest.Timed(&retry.EarnedBudget{}, clock)
		budgettest.Succeed(b, 10)
		try := func(where string) {
			t.Helper()
			if got := budgettest.Granted(b, 5, retry.Transient); got != 5 {
				t.Errorf("%s %d retries of five are granted", where, got)
			}
			budgettest.Succeed(b, 500)
		}
		try("outside")
		for _, last := range []time.Duration{30 * time.Second, time.Hour, 5 * time.Second, 0} {
			synctest.Test(t, func(t *testing.T) {
				try("in a bubble")
				time.Sleep(last)
				try("later in a bubble")
				time.Sleep(2 * time.Minute) // at most one in which nothing fades
				if got := budgettest.Granted(b, 1000, retry.Transient); got != 5 {
					t.Errorf("after two minutes there are %d retries, want 5: the rest has faded", got)
				}
				budgettest.Succeed(b, 20_000)
			})
			try("outside again")
			if clock != nil {
				continue // next from bubble to bubble
			}
			budgettest.Granted(b, 2000, retry.Transient)
			budgettest.Succeed(b, 100)
		}
	}
}

// Set back, a clock refuses nothing, and what exceeds ten tokens fades again after a
// minute at most.
func TestEarnedBudgetOnAClockThatIsSetBack(t *testing.T) {
	for _, tt := range []struct {
		back  time.Duration
		left  int // at once
		later int // two minutes and eight seconds later
	}{
		{0, 1010, 10},
		{time.Second, 1010, 10},
		{time.Minute, 1010, 10 + 353},
		{time.Minute + time.Second/16, 10, 10},
		{24 * time.Hour, 10, 10},
		{87_600 * time.Hour, 10, 10},
	} {
		for _, after := range []time.Duration{0, 2*time.Minute + 8*time.Second} {
			c := &budgettest.WallClock{Time: epoch.Truncate(time.Second)}
			b := budgettest.Timed(&retry.EarnedBudget{}, c)
			budgettest.Succeed(b, 20_000)
			c.Time = c.Time.Add(-tt.back)
			b.End(retry.Outcome{OK: true})
			c.Time = c.Time.Add(after)
			want := tt.left
			if after > 0 {
				want = tt.later
			}
			if got := budgettest.Granted(b, 2000, retry.Transient); got != want/2 {
				t.Errorf("set back by %v, %v later %d retries are granted, want %d", tt.back, after, got, want/2)
			}
		}
	}
}

// What is earned after a clock was set back fades on that clock.
func TestTokensEarnedOnAClockThatIsSetBack(t *testing.T) {
	c := &budgettest.WallClock{Time: epoch.Truncate(time.Second)}
	b := budgettest.Timed(&retry.EarnedBudget{}, c)
	budgettest.Succeed(b, 30)
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) // ten tokens are left
	c.Time = c.Time.Add(-30 * time.Second)
	budgettest.Succeed(b, 20_000)
	c.Time = c.Time.Add(68 * time.Second)
	if got := budgettest.Granted(b, 2000, retry.Transient); got != (10+353)/2 {
		t.Errorf("68 seconds later there are %d retries, want 181", got)
	}
}

// Of many that ask at once four get a retry; after ten successes one after a timeout.
func TestEarnedBudgetUnderContention(t *testing.T) {
	for class, want := range map[retry.Class]int64{retry.Transient: 4, retry.TimedOut: 1} {
		const budgets, goroutines = 2000, 16
		all := make([]retry.EarnedBudget, budgets)
		if class == retry.TimedOut {
			for i := range all {
				budgettest.Succeed(&all[i], 10)
			}
		}
		got := budgettest.Together(goroutines, budgets, func(i int) int { return budgettest.Granted(&all[i], 1, class) })
		for _, n := range got {
			if n != want {
				t.Fatalf("after a %v error %d of %d are granted a retry, want %d", class, n, goroutines, want)
			}
		}
	}
}

// What is taken and earned by many at once adds up.
func TestEarnedTokensAddUp(t *testing.T) {
	b := budgettest.Timed(&retry.EarnedBudget{}, clockx.NewVirtual(epoch))
	budgettest.Succeed(b, 10)
	budgettest.Granted(b, 10, retry.Transient)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 1000 {
				budgettest.Succeed(b, 20)
				if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
					t.Error("what was earned is not granted")
				}
			}
		})
	}
	wg.Wait()
	if got := b.Balance(); got != 0 {
		t.Errorf("all is taken, and the balance is %v", got)
	}
}

func TestEarnedBudgetAllocatesNothing(t *testing.T) {
	b := new(retry.EarnedBudget)
	wantAllocs(t, 0, func() {
		b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1})
		b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, OK: true})
		b.End(retry.Outcome{OK: true})
	})
}

// plainEarned is an EarnedBudget for one goroutine, written from its rules.
type plainEarned struct {
	tokens int64 // in millionths
	price  int64 // of a retry after a timeout; after a Throttled error a fifth of it
	at     int64 // the sixteenth of a second when they were counted
}

func (b *plainEarned) fade(now int64) {
	const minute = 60 * 16
	switch above := b.tokens - b.price; {
	case above <= 0:
	case now >= b.at:
		pause := now - b.at
		b.tokens = b.price + int64(float64(above)*math.Exp(-float64(min(pause, 5)+max(pause-minute, 0))/(8*16)))
	case now >= b.at-minute:
		return // it stands still until the clock has caught up
	default:
		b.tokens = b.price
	}
	b.at = now
}

func (b *plainEarned) withdraw(class retry.Class, now int64) bool {
	b.fade(now)
	cost := int64(2e6)
	switch class {
	case retry.TimedOut:
		cost = b.price
	case retry.Throttled:
		cost = b.price / 5
	}
	if b.tokens < cost {
		return false
	}
	b.tokens -= cost
	return true
}

func (b *plainEarned) end(retried retry.Class, retries int, ok bool, now int64) {
	if !ok && retried != retry.TimedOut && retried != retry.Throttled {
		return
	}
	b.fade(now)
	switch {
	case !ok:
		b.price = min(2*b.price, 160e6)
	case retried == retry.Unknown:
		b.tokens += 1e5
	case retried == retry.TimedOut:
		b.tokens += 20e6
		b.price = max(b.price/2, 10e6)
	case retried == retry.Throttled:
		b.tokens += 4e6
		b.price = max(b.price/2, 10e6)
	default:
		b.tokens += 2e6 + 2e6*int64(retries)
	}
	b.tokens = min(b.tokens, 1010e6)
}

// FuzzEarnedBudget runs random operations against an EarnedBudget and plainEarned.
func FuzzEarnedBudget(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 4, 0, 0})
	f.Add([]byte{0x18, 0x18, 0x18, 0x18, 0x18, 0xF3, 0xF3, 0xF3, 0x10, 0x16, 0x1D, 0x10, 0x16, 0x10, 0xF4, 0x10})
	f.Add([]byte{6, 6, 6, 6, 7, 0x19, 0, 7, 1, 6, 6, 0x29, 7, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		c := &budgettest.WallClock{Time: epoch}
		b, plain := budgettest.Timed(&retry.EarnedBudget{}, c), &plainEarned{tokens: 9e6, price: 10e6}
		for _, op := range ops[:min(len(ops), 300)] {
			now := c.Time.UnixNano() / int64(time.Second/16)
			class := []retry.Class{retry.Transient, retry.TimedOut, retry.Throttled, retry.Unprocessed}[op/16%4]
			switch op % 16 {
			case 0, 1, 2:
				before := *plain
				want := plain.withdraw(class, now)
				if got := b.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
					t.Fatalf("with %+v at %d, Withdraw(%v) = %v, want %v", before, now, class, got, want)
				}
				if !want {
					*plain = before // nothing is written
				}
			case 3, 4, 5:
				for range 1 + int(op/16)*37 {
					plain.end(retry.Unknown, 0, true, now)
					b.End(retry.Outcome{OK: true})
				}
			case 6, 7:
				retries := 1 + int(op/64)
				plain.end(class, retries, true, now)
				b.End(retry.Outcome{Retried: class, Retries: retries, Sent: retries, OK: true})
			case 8:
				plain.end(class, 1, false, now)
				b.End(retry.Outcome{Retried: class, Retries: 1, Sent: 1})
			case 9:
				c.Time = c.Time.Add(-time.Duration(op/16) * 7 * time.Second)
			case 10:
				c.Time = c.Time.Add(-time.Duration(op/16) * 1000 * time.Hour)
			case 11:
				c.Time = c.Time.Add(time.Duration(op/16) * 1000 * time.Hour)
			case 12, 13:
				c.Time = c.Time.Add(time.Duration(op/16) * time.Second)
			default:
				c.Time = c.Time.Add(time.Duration(op/16) * 11 * ms)
			}
			if got, want := b.Balance(), min(float64(plain.tokens)/10e6, 1); got != want {
				t.Fatalf("after %d the balance is %v, want %v", op, got, want)
			}
		}
	})
}

func TestNilEarnedBudgetGrantsEverything(t *testing.T) {
	var b *retry.EarnedBudget
	for _, ok := range []bool{true, false} {
		if !b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}) || b.Balance() != 1 {
			t.Errorf("a retry is refused, or the balance is %v, want 1", b.Balance())
		}
		b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1, OK: ok})
	}
}

// A retry that was granted and not made takes nothing, whatever keeps it from being made: a guard,
// the caller in the wait, or a hook just before it.
func TestBudgetsGiveBackWhatWasNotSent(t *testing.T) {
	for name, edit := range map[string]func(p *retry.Policy, cancel func()){
		"a guard": func(p *retry.Policy, _ func()) {
			p.Guards = []retry.Guard{stubborn(func(e retry.Entry) (retry.Pass, error) {
				if e.Number > 1 {
					return retry.Pass{}, retry.Stop(errFull)
				}
				return retry.Pass{}, nil
			})}
		},
		"a guard until MaxAttempts": func(p *retry.Policy, _ func()) {
			p.Guards = []retry.Guard{stubborn(func(e retry.Entry) (retry.Pass, error) {
				if e.Number > 1 {
					return retry.Pass{}, errFull
				}
				return retry.Pass{}, nil
			})}
		},
		"the caller, in the wait": func(p *retry.Policy, cancel func()) {
			p.Hooks.Wait = func(context.Context, retry.Attempt) { cancel() }
		},
		"the caller, before the attempt": func(p *retry.Policy, cancel func()) {
			p.Hooks.Attempt = func(ctx context.Context, a retry.Attempt) context.Context {
				if a.Number > 1 {
					cancel()
				}
				return ctx
			}
		},
	} {
		for kind, fresh := range map[string]func() budgettest.Budget{
			"earned":     func() budgettest.Budget { return new(retry.EarnedBudget) },
			"overloaded": func() budgettest.Budget { b := new(retry.EarnedBudget); overloads(b, 1); return b },
			"token":      func() budgettest.Budget { return &budget.Token{Capacity: 30} },
			"ratio":      func() budgettest.Budget { return new(budget.Ratio) },
		} {
			for _, err := range []error{errDown, retry.After(errDown, 0)} {
				b := fresh()
				before := b.Balance()
				for n := range 20 {
					p, _ := virtual()
					p.Budget = b
					ctx, cancel := context.WithCancel(t.Context())
					edit(&p, cancel)
					e := gaveUp(t, retry.Run(ctx, p, func(context.Context) error { return err }))
					cancel()
					if e.Attempts != 1 || e.Reason == retry.ReasonBudget || b.Balance() != before {
						t.Fatalf("%s, %s, run %d: %v; the balance is %v, want %v", name, kind, n+1, e, b.Balance(), before)
					}
				}
			}
		}
	}
}

// A run that fails after retries that were made gives back the last one alone.
func TestOnlyTheLastRetryCanBeUnsent(t *testing.T) {
	b := new(retry.EarnedBudget)
	p, _ := virtual()
	p.Budget = b
	refused := 0
	p.Guards = []retry.Guard{stubborn(func(e retry.Entry) (retry.Pass, error) {
		if e.Number == 3 {
			refused++
			return retry.Pass{}, retry.Stop(errFull)
		}
		return retry.Pass{}, nil
	})}
	if e := wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return errDown }), retry.ReasonGuard); e.Attempts != 2 || b.Balance() != .7 || refused != 1 {
		t.Errorf("%v, balance %v, want .7", e, b.Balance())
	}
}

// A message may be delivered again by another process: what a Loop has allowed counts as made.
func TestLoopThatIsClosedHasPaid(t *testing.T) {
	b := new(retry.EarnedBudget)
	loop := retry.Policy{Budget: b}.Start(epoch)
	if _, ok := loop.Next(epoch, errDown); !ok {
		t.Fatal("no retry")
	}
	if loop.Close(); b.Balance() != .7 {
		t.Errorf("balance %v, want .7", b.Balance())
	}
}

// overloads ends n runs that have failed after a retry after a timeout.
func overloads(b retry.Budget, n int) {
	for range n {
		b.End(retry.Outcome{Retried: retry.TimedOut, Retries: 1, Sent: 1, Clock: clockx.System()})
	}
}

// A run that its budget ends says what the retry would have cost, and what was left then.
func TestABudgetThatRefusesSaysThePrice(t *testing.T) {
	busy := retry.After(errors.New("busy"), 0)
	for name, tt := range map[string]struct {
		budget func() retry.Budget
		err    error
		want   string // after "op: gave up after "
	}{
		"the first hang of a process": {func() retry.Budget { return new(retry.EarnedBudget) }, retry.ErrAttemptTimeout,
			"1 attempt in 0s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out"},
		"hangs in an overload": {func() retry.Budget { b := new(retry.EarnedBudget); overloads(b, 2); return b }, retry.ErrAttemptTimeout,
			"1 attempt in 0s (budget: a retry after a timeout costs 40 tokens, 9 are left): retry: attempt timed out"},
		"refusals in an overload": {func() retry.Budget { b := new(retry.EarnedBudget); overloads(b, 4); return b }, busy,
			"1 attempt in 0s (budget: a retry after a throttled error costs 32 tokens, 9 are left): busy"},
		"an outage": {func() retry.Budget { return new(retry.EarnedBudget) }, errDown,
			"5 attempts in 15s (budget: a retry costs 2 tokens, 1 is left): down"},
		"an outage after three calls": {func() retry.Budget {
			b := new(retry.EarnedBudget)
			budgettest.Succeed(budgettest.Timed(b, nil), 3)
			return b
		}, errDown,
			"5 attempts in 15s (budget: a retry costs 2 tokens, 1.3 are left): down"},
		"nothing was sent": {func() retry.Budget { return new(retry.EarnedBudget) }, dial(viaSyscall(111)),
			"5 attempts in 15s (budget: a retry costs 2 tokens, 1 is left): "},
		"Token": {func() retry.Budget { return &budget.Token{Capacity: 30} }, errDown,
			"3 attempts in 3s (budget: a retry costs 14 tokens, 2 are left): down"},
		"Token, throttled": {func() retry.Budget { return &budget.Token{Capacity: 9} }, busy,
			"2 attempts in 1s (budget: a retry after a throttled error costs 5 tokens, 4 are left): busy"},
		"Token, nothing": {func() retry.Budget { return &budget.Token{Capacity: -1} }, errDown,
			"1 attempt in 0s (budget: a retry costs 14 tokens, 0 are left): down"},
		"Ratio": {func() retry.Budget { return new(budget.Ratio) }, errDown,
			"2 attempts in 1s (budget: a retry costs 1 token, 0 are left): down"},
		"by key": {func() retry.Budget { return new(retry.PerKey[retry.EarnedBudget]).For("host") }, retry.ErrAttemptTimeout,
			"1 attempt in 0s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out"},
		"one's own":                        {func() retry.Budget { return priced{price: 3, left: .5} }, errDown, "1 attempt in 0s (budget: a retry costs 3 tokens, 0.5 are left): down"},
		"one's own, in debt":               {func() retry.Budget { return priced{price: 1, left: -2} }, errDown, "1 attempt in 0s (budget: a retry costs 1 token, 0 are left): down"},
		"one's own that has enough by now": {func() retry.Budget { return priced{price: 3, left: 3} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own that costs nothing":     {func() retry.Budget { return priced{} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own, of no numbers":         {func() retry.Budget { return priced{price: math.NaN(), left: 1} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own, without an end":        {func() retry.Budget { return priced{price: math.Inf(1)} }, errDown, "1 attempt in 0s (budget): down"},
		"one's own without a price":        {func() retry.Budget { return &countingBudget{refuse: true} }, errDown, "1 attempt in 0s (budget): down"},
		"a type around one that refuses":   {func() retry.Budget { return strictBudget{new(retry.EarnedBudget)} }, errDown, "1 attempt in 0s (budget): down"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
				if strings.Contains(t.Name(), "/Supervise/") {
					return // see TestABudgetThatRefusesPostponesASession
				}
				p.Budget, p.MaxAttempts = tt.budget(), 9
				seen := record(&p)
				err := run(t.Context(), p, func(context.Context) error { return tt.err })
				if !strings.HasPrefix(err.Error(), "op: gave up after "+tt.want) {
					t.Errorf("%v\nwant op: gave up after %s", err, tt.want)
				}
				e := wantReason(t, err, retry.ReasonBudget)
				if seen.summary.Err != err {
					t.Errorf("Hooks.Done got %v, want the same error", seen.summary.Err)
				}
				if says := strings.Contains(tt.want, "costs"); says != (e.Cause != nil) {
					t.Errorf("the cause is %v, want one: %v", e.Cause, says)
				}
			})
		})
	}
}

// priced is a budget of one's own that refuses, and says what a retry costs.
type priced struct{ price, left float64 }

func (priced) Withdraw(retry.Withdrawal) bool { return false }
func (priced) End(retry.Outcome)              {}

func (b priced) Price(retry.Withdrawal) (price, left float64) { return b.price, b.left }

// strictBudget refuses for a reason that the budget in it does not know.
type strictBudget struct{ *retry.EarnedBudget }

func (strictBudget) Withdraw(retry.Withdrawal) bool { return false }

// The error is of the moment at which the budget has refused. What happens later does not
// change it.
func TestThePriceInAnErrorIsThatOfTheRefusal(t *testing.T) {
	b := new(retry.EarnedBudget)
	p, v := virtual()
	p.Budget = b
	err := retry.Run(t.Context(), p, func(context.Context) error { return retry.ErrAttemptTimeout })
	budgettest.Succeed(budgettest.Timed(b, v), 100)
	overloads(budgettest.Timed(b, v), 4)
	if want := "op: gave up after 1 attempt in 0s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out"; err.Error() != want {
		t.Errorf("later: %v\nwant %s", err, want)
	}
}

// The same text is in what is logged, and in the decision of a Loop.
func TestThePriceIsLogged(t *testing.T) {
	const want = "(budget: a retry after a timeout costs 10 tokens, 9 are left)"
	var log bytes.Buffer
	p, v := virtual()
	p.Budget, p.Hooks = new(retry.EarnedBudget), retry.SlogHooks(slog.New(slog.NewTextHandler(&log, nil)))
	_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.ErrAttemptTimeout })
	if !strings.Contains(log.String(), want) {
		t.Errorf("%s\nwant %s", &log, want)
	}
	loop := p.Start(v.Now())
	loop.Next(v.Now(), retry.ErrAttemptTimeout)
	if err := loop.Err(); !strings.Contains(err.Error(), want) {
		t.Errorf("a Loop: %v\nwant %s", err, want)
	}
}

// What a budget says is no error of the operation: it changes neither what the error of the run
// is nor what an outer run does with it.
func TestThePriceIsNoErrorOfTheOperation(t *testing.T) {
	for _, opErr := range []error{errDown, retry.ErrAttemptTimeout, dial(viaSyscall(111)), hinted(time.Second), status(503)} {
		p, _ := virtual()
		ended := func(b retry.Budget) *retry.Error {
			p.Budget = b
			return wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return opErr }), retry.ReasonBudget)
		}
		silent, says := ended(&countingBudget{refuse: true}), ended(priced{price: 1})
		if says.Cause == nil || silent.Cause != nil {
			t.Fatalf("the causes are %v and %v, want only the second", silent.Cause, says.Cause)
		}
		if got, want := (retry.Policy{}).Judge(says), (retry.Policy{}).Judge(silent); got.Class != want.Class || got.Hint != want.Hint || got.Undone != want.Undone || got.Answered != want.Answered {
			t.Errorf("%v is judged as %+v, want %+v", opErr, got, want)
		}
		if retry.Final(says) != retry.Final(silent) || says.Timeout() != silent.Timeout() || says.Last() != opErr || errors.Is(says, context.DeadlineExceeded) != errors.Is(silent, context.DeadlineExceeded) {
			t.Errorf("%v: with a price it is another error", opErr)
		}
	}
}

// Price changes nothing, and agrees with Withdraw.
func TestPriceAgreesWithWithdraw(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := new(retry.EarnedBudget)
	on := budgettest.Timed(b, v)
	classes := []retry.Class{retry.Transient, retry.Throttled, retry.TimedOut, retry.Unprocessed}
	for i := range 20_000 {
		c := classes[i%len(classes)]
		w := retry.Withdrawal{Class: c, Retry: 1, Clock: v}
		price, left := b.Price(w)
		if again, still := b.Price(w); again != price || still != left {
			t.Fatalf("Price(%v) = %v, %v, and then %v, %v", c, price, left, again, still)
		}
		if got := on.Withdraw(w); got != (left >= price) {
			t.Fatalf("Withdraw(%v) = %v, though it costs %v of %v", c, got, price, left)
		} else if _, after := b.Price(w); got && math.Abs(left-price-after) > 1e-9 {
			t.Fatalf("a retry for %v leaves %v of %v", price, after, left)
		}
		switch i % 7 {
		case 0:
			v.Advance(time.Duration(i%50) * 100 * time.Millisecond)
		case 1:
			b.End(retry.Outcome{Retried: c, Retries: 1, Sent: 1, OK: i%3 == 0, Clock: v})
		case 2, 3:
			budgettest.Succeed(on, i%40)
		}
	}
	var none *retry.EarnedBudget
	if price, left := none.Price(retry.Withdrawal{Class: retry.TimedOut, Clock: v}); price != 0 || !math.IsInf(left, 1) {
		t.Errorf("without a budget a retry costs %v of %v, want 0 of +Inf", price, left)
	}
}

// Whatever other runs do meanwhile, no error says that there was enough.
func TestNoErrorSaysThatThereWasEnough(t *testing.T) {
	b := new(retry.EarnedBudget)
	var said atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Budget: b}
			for i := range 5000 {
				calls := 0
				err := retry.Run(t.Context(), p, func(context.Context) error {
					if calls++; i%3 != 0 && calls == 1 {
						return retry.ErrAttemptTimeout
					}
					return nil
				})
				if err == nil {
					continue
				}
				var price, left float64
				cause := err.(*retry.Error).Cause
				if cause == nil { // by now there is enough
					continue
				}
				if _, scanErr := fmt.Sscanf(cause.Error(), "a retry after a timeout costs %g tokens, %g", &price, &left); scanErr != nil || left >= price {
					t.Errorf("%v, %v", err, scanErr)
					return
				}
				said.Add(1)
			}
		})
	}
	if wg.Wait(); said.Load() == 0 {
		t.Error("no error says anything")
	}
}

// A run that its budget ends costs one allocation more, and no other run does.
func TestThePriceAllocatesOnlyWhereABudgetRefuses(t *testing.T) {
	p, _ := virtual()
	measure := func(b retry.Budget) float64 {
		p.Budget = b
		return testing.AllocsPerRun(1000, func() { _ = retry.Run(t.Context(), p, func(context.Context) error { return errFlaky }) })
	}
	if silent, says := measure(&countingBudget{refuse: true}), measure(&budget.Token{Capacity: -1}); says != silent+1 {
		t.Errorf("%v allocations, want %v and one", says, silent)
	}
}
