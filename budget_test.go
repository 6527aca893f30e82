package retry_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func TestTokenBudget(t *testing.T) {
	b := &retry.TokenBudget{Capacity: 100, Cost: 10, ThrottleCost: 30, Reward: 2}
	for _, step := range []struct {
		name string
		do   func() bool
		ok   bool
		left float64
	}{
		{"full at first", func() bool { b.Begin(retry.Opening{}); return true }, true, 1},
		{"a success when full", func() bool { b.End(retry.Outcome{OK: true}); return true }, true, 1},
		{"a retry", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) }, true, .9},
		{"a throttled retry", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.Throttled, Retry: 1}) }, true, .6},
		{"a failed run gives nothing back", func() bool { b.End(retry.Outcome{Retried: retry.Throttled}); return true }, true, .6},
		{"a first-try success", func() bool { b.End(retry.Outcome{OK: true}); return true }, true, .62},
		{"a success after a retry gives its cost back", func() bool { b.End(retry.Outcome{Retried: retry.Transient, OK: true}); return true }, true, .72},
		{"after a throttled one", func() bool { b.End(retry.Outcome{Retried: retry.Throttled, OK: true}); return true }, true, 1},
		{"never above capacity", func() bool { b.End(retry.Outcome{Retried: retry.Throttled, OK: true}); return true }, true, 1},
		{"a retry after a timeout costs as any", func() bool { return b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1}) }, true, .9},
		{"and comes back", func() bool { b.End(retry.Outcome{Retried: retry.TimedOut, OK: true}); return true }, true, 1},
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

func TestTokenBudgetDefaultsAndOddFields(t *testing.T) {
	grants := func(b *retry.TokenBudget, c retry.Class) (n int) {
		for n < 10_000 && b.Withdraw(retry.Withdrawal{Class: c, Retry: 1}) {
			n++
		}
		return n
	}
	for _, tt := range []struct {
		b                    *retry.TokenBudget
		transient, throttled int
	}{
		{&retry.TokenBudget{}, 500 / 14, (500 - 500/14*14) / 5},
		{&retry.TokenBudget{Capacity: -1}, 0, 0},
		{&retry.TokenBudget{Cost: -1}, 10_000, 100},
		{&retry.TokenBudget{Cost: math.MaxInt, ThrottleCost: 250}, 1, 0}, // a cost above Capacity is all of it
		{&retry.TokenBudget{Capacity: 10}, 1, 0},
		{&retry.TokenBudget{Capacity: 4, Cost: -1}, 10_000, 1},
		{&retry.TokenBudget{Capacity: -1, Cost: -1, ThrottleCost: -1}, 0, 0},
		{&retry.TokenBudget{Capacity: math.MaxInt, Cost: math.MaxInt}, 1, 0},
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
	if b := (&retry.TokenBudget{Capacity: -1}).Balance(); b != 0 {
		t.Errorf("the balance of no tokens is %v, want 0", b)
	}
	b := &retry.TokenBudget{}
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	b.End(retry.Outcome{OK: true})
	if got, want := b.Balance(), (500-14+1)/500.; got != want {
		t.Errorf("after a retry and a success the balance is %v, want %v", got, want)
	}
	b = &retry.TokenBudget{Reward: -1}
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	before := b.Balance()
	if b.End(retry.Outcome{OK: true}); b.Balance() != before {
		t.Error("a negative reward changed the balance")
	}
}

func TestTokenBudgetEndsAnOutageAndRefills(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts, p.Backoff = 3, nil
	budget := &retry.TokenBudget{}
	p.Budget = budget
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
	if got := budget.Balance(); got != 1 {
		t.Errorf("after 500 successes the balance is %v, want 1", got)
	}
}

// succeed ends n runs that succeeded.
func succeed(b retry.Budget, n int) {
	for range n {
		b.Begin(retry.Opening{})
		b.End(retry.Outcome{OK: true})
	}
}

// granted returns how many of n retries after an error of class c are granted.
func granted(b retry.Budget, n int, c retry.Class) (got int) {
	for range n {
		if b.Withdraw(retry.Withdrawal{Class: c, Retry: 1}) {
			got++
		}
	}
	return got
}

func TestRatioBudget(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := timed{&retry.RatioBudget{Ratio: .1}, v}
	withdraw := func(want int) {
		t.Helper()
		if n := granted(b, 100, retry.Transient); n != want {
			t.Errorf("at %v %d retries are granted, want %d", v.Now().Sub(epoch), n, want)
		}
	}
	for range 100 {
		b.Begin(retry.Opening{})
		b.End(retry.Outcome{Retried: retry.Transient})
	}
	withdraw(1) // for those with few calls: runs that fail earn nothing
	v.Advance(11 * time.Second)
	for range 50 {
		b.End(retry.Outcome{OK: true})
		b.End(retry.Outcome{Retried: retry.Transient, OK: true}) // after a retry, the same
	}
	if got := b.Balance(); got != 1 {
		t.Errorf("nothing retried: the balance is %v, want 1", got)
	}
	b.Withdraw(retry.Withdrawal{Class: retry.TimedOut, Retry: 1})
	if got := b.Balance(); math.Abs(got-.9) > 1e-6 {
		t.Errorf("one of ten: the balance is %v, want .9", got)
	}
	withdraw(9)
	v.Advance(10 * time.Second) // the last instant that these are in the window
	succeed(b, 50)
	withdraw(5)
	v.Advance(time.Second) // now the 100 and their 10 are out of it
	withdraw(0)
	if got := b.Balance(); got != 0 {
		t.Errorf("5 retries for 50 runs: the balance is %v, want 0", got)
	}
	v.Advance(time.Hour)
	withdraw(1)
	if got := b.Balance(); got != 0 {
		t.Errorf("the one for those with few calls is granted: the balance is %v, want 0", got)
	}
}

func TestRatioBudgetsWindow(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 10, 10 * time.Second: 10, 11 * time.Second: 1} {
		v := clockx.NewVirtual(time.Unix(1000, 0))
		b := timed{&retry.RatioBudget{Ratio: 1}, v}
		succeed(b, 10)
		v.Advance(after)
		if got := granted(b, 20, retry.Transient); got != want {
			t.Errorf("%d retries for runs %v ago are granted, want %d", got, after, want)
		}
	}
}

// A process with few calls has a retry now and then: each for ⌈1/Ratio⌉ successes.
func TestRatioBudgetOfThoseWithFewCalls(t *testing.T) {
	for _, tt := range []struct {
		ratio, floor float64
		needs        int // successes before the next; 0: there is never one
	}{
		{0, 0, 10}, {.1, 0, 10}, {.05, 0, 20}, {.3, 0, 4}, {1. / 49, 0, 49}, {.5, .09, 2}, {.001, 0, 1000}, {.1, -3, 10},
		{-1, 0, 0}, {-.5, 0, 0}, {math.NaN(), 0, 0}, {math.Inf(1), 0, 1}, {2, 0, 1},
	} {
		v := clockx.NewVirtual(epoch)
		b := timed{&retry.RatioBudget{Ratio: tt.ratio, MinPerSecond: tt.floor}, v}
		first := min(tt.needs, 1)
		if left, got := b.Balance(), granted(b, 50, retry.Transient); got != first || left != float64(first) || b.Balance() != 0 {
			t.Errorf("Ratio %v: at first %d retries are granted, and the balance is %v, then %v, want %d of both, then 0", tt.ratio, got, left, b.Balance(), first)
		}
		if tt.needs == 0 {
			continue
		}
		for range 3 {
			for i := range tt.needs {
				v.Advance(11 * time.Second)
				if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Balance() != 0 {
					t.Errorf("Ratio %v: %d successes after the last retry there is another, want it after %d", tt.ratio, i, tt.needs)
				}
				b.End(retry.Outcome{Retried: retry.Transient})
				b.End(retry.Outcome{OK: true})
			}
			v.Advance(11 * time.Second)
			if left, got := b.Balance(), granted(b, 50, retry.Transient); got != 1 || left != 1 {
				t.Errorf("Ratio %v: after %d successes %d retries are granted, and the balance is %v, want 1", tt.ratio, tt.needs, got, left)
			}
		}
	}
}

// What is granted to those with few calls counts in the window.
func TestRatioBudgetLendsOnceInAWindow(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := timed{&retry.RatioBudget{Ratio: .5}, v}
	if got := granted(b, 9, retry.Transient); got != 1 {
		t.Errorf("at first %d retries are granted, want 1", got)
	}
	succeed(b, 3) // enough for the next one, if the window allowed less than one
	if got := granted(b, 9, retry.Transient); got != 0 {
		t.Errorf("for 3 successes %d more are granted, want none", got)
	}
	succeed(b, 1)
	if got := granted(b, 9, retry.Transient); got != 1 {
		t.Errorf("for 4 successes %d more are granted, want 1", got)
	}
}

func TestWithNoRunsAndNoLimit(t *testing.T) {
	b := timed{&retry.RatioBudget{Ratio: math.Inf(1)}, clockx.NewVirtual(epoch)}
	if left, got := b.Balance(), granted(b, 9, retry.Transient); left != 1 || got != 1 {
		t.Errorf("no runs have %d retries, and a balance of %v, want 1 and 1", got, left)
	}
	if b := (&retry.ConcurrencyBudget{Ratio: math.Inf(1), Min: -1}); b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Balance() != 1 {
		t.Error("no runs have a place")
	}
}

func TestBalanceIsNotNegative(t *testing.T) {
	places := &retry.ConcurrencyBudget{Ratio: .5, Min: -1}
	for range 4 {
		places.Begin(retry.Opening{})
	}
	places.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	places.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	places.End(retry.Outcome{OK: true})
	places.End(retry.Outcome{OK: true})
	if got := places.Balance(); got != 0 {
		t.Errorf("2 of 1 places are taken: the balance is %v, want 0", got)
	}
	v := clockx.NewVirtual(epoch)
	rate := timed{&retry.RatioBudget{Ratio: 1}, v}
	succeed(rate, 4)
	v.Advance(9 * time.Second)
	succeed(rate, 1)
	if got := granted(rate, 9, retry.Transient); got != 5 {
		t.Errorf("%d retries are granted for 5 runs", got)
	}
	v.Advance(3 * time.Second)
	if got := rate.Balance(); got != 0 {
		t.Errorf("5 of 1 retries are made: the balance is %v, want 0", got)
	}
	late := timed{&retry.RatioBudget{}, v}
	succeed(late, 10)
	v.Advance(9 * time.Second)
	late.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	v.Advance(3 * time.Second)
	if left, got := late.Balance(), granted(late, 9, retry.Transient); left != 0 || got != 0 {
		t.Errorf("no success is left in the window, but a retry: the balance is %v, and %d are granted, want 0", left, got)
	}
}

func TestRatioBudgetDefaultsAndOddFields(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		b    *retry.RatioBudget
		want int // of at most 300, after 200 runs that succeeded
	}{
		{&retry.RatioBudget{}, 20},
		{&retry.RatioBudget{MinPerSecond: 5}, 20 + 50},
		{&retry.RatioBudget{MinPerSecond: -5}, 20},
		{&retry.RatioBudget{Ratio: .29}, 58},
		{&retry.RatioBudget{Ratio: -1}, 0},
		{&retry.RatioBudget{Ratio: -1, MinPerSecond: 10}, 100},
		{&retry.RatioBudget{Ratio: nan, MinPerSecond: nan}, 0},
		{&retry.RatioBudget{Ratio: inf}, 300},
		{&retry.RatioBudget{MinPerSecond: inf}, 300},
		{&retry.RatioBudget{Window: time.Minute, MinPerSecond: 1}, 20 + 60},
		{&retry.RatioBudget{Window: 1}, 20},
		{&retry.RatioBudget{Window: -1}, 20},
		{&retry.RatioBudget{Window: math.MaxInt64}, 20},
	} {
		b := timed{tt.b, v}
		succeed(b, 200)
		n := 0
		for n < 300 && b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			n++
			b.End(retry.Outcome{Retried: retry.Transient})
		}
		if n != tt.want {
			t.Errorf("Ratio %v, MinPerSecond %v, Window %v: %d retries are granted, want %d",
				tt.b.Ratio, tt.b.MinPerSecond, tt.b.Window, n, tt.want)
		}
		if got := b.Balance(); !(got >= 0 && got <= 1) {
			t.Errorf("the balance is %v, want it in [0,1]", got)
		}
	}
}

// wallClock is a clock that anybody may set.
type wallClock struct {
	clockx.Clock
	now time.Time
}

func (c *wallClock) Now() time.Time { return c.now }

// Set back a little, a clock may catch up; set back further, it was wrong before.
func TestRatioBudgetOnAClockThatIsSetBack(t *testing.T) {
	for _, tt := range []struct {
		back time.Duration
		new  bool // a new window begins
	}{
		{time.Second, false}, {70 * time.Second, false}, {72 * time.Second, true}, {time.Hour, true}, {87_600 * time.Hour, true},
		{-10 * time.Second, false}, {-11 * time.Second, true},
	} {
		c := &wallClock{now: epoch}
		b := timed{&retry.RatioBudget{Ratio: 1}, c}
		succeed(b, 10)
		if got := granted(b, 6, retry.Transient); got != 6 {
			t.Errorf("10 runs have %d retries, want 6 of 6", got)
		}
		c.now = epoch.Add(-tt.back)
		succeed(b, 5)
		want := 10 + 5 - 6
		if tt.new {
			want = 5
		}
		if got := granted(b, 50, retry.Transient); got != want {
			t.Errorf("set back by %v, 5 more runs have %d retries, want %d", tt.back, got, want)
		}
		if !tt.new {
			continue
		}
		for range 30 { // it goes on from there
			c.now = c.now.Add(11 * time.Second)
			succeed(b, 2)
			if got := granted(b, 50, retry.Transient); got != 2 {
				t.Errorf("set back by %v, %v later 2 runs have %d retries", tt.back, c.now.Sub(epoch.Add(-tt.back)), got)
			}
		}
	}
}

// Also where Unix time begins, and long before.
func TestRatioBudgetOnAnyClock(t *testing.T) {
	for _, start := range []time.Time{{}, time.Unix(-70, 0), time.Unix(-5, 0), time.Unix(0, 0), time.Unix(1, 0), time.Unix(3, 0), time.Unix(1<<33, 0)} {
		for _, window := range []time.Duration{0, 1, time.Hour} {
			v := clockx.NewVirtual(start)
			b := timed{&retry.RatioBudget{Ratio: 1, Window: window}, v}
			for range 20 {
				succeed(b, 3)
				if got := granted(b, 9, retry.Transient); got != 3 {
					t.Errorf("at %v, with a window of %v, 3 runs have %d retries", v.Now(), window, got)
				}
				succeed(b, 2) // which the window forgets
				v.Advance(max(window, 10*time.Second) * 21 / 10)
			}
		}
	}
}

// The clock of a goroutine that was stopped for a window shows a tenth that lies in
// the ring where the newest one does.
func TestRatioBudgetOnALateClock(t *testing.T) {
	for late := time.Duration(1); late < 30; late++ {
		c := &wallClock{now: epoch}
		b := timed{&retry.RatioBudget{Ratio: 1}, c}
		b.End(retry.Outcome{OK: true})
		if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			t.Fatal("the run has no retry")
		}
		for _, at := range []time.Duration{-late * time.Second, 0} {
			c.now = epoch.Add(at)
			if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
				t.Errorf("the retry is granted again at %v, by a clock that was %d s late", at, late)
			}
		}
		if b.Balance() > 1e-6 { // a rounding above what the product of floats gives
			t.Errorf("the balance is %v, want 0", b.Balance())
		}
	}
}

// Bubbles have a clock of their own, which each begins at the same time. The system's
// clock, by its name or as nil, is read monotonically.
func TestRatioBudgetInAndOutOfBubbles(t *testing.T) {
	for _, clock := range []clockx.Clock{nil, clockx.System()} {
		b := timed{&retry.RatioBudget{Ratio: 1}, clock}
		retried := func(where string) {
			t.Helper()
			succeed(b, 1)
			if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
				t.Errorf("%s: one success has not exactly one retry", where)
			}
		}
		for range 2 {
			retried("outside")
			for range 3 {
				synctest.Test(t, func(t *testing.T) {
					for range 200 {
						retried("in a bubble")
						time.Sleep(time.Second)
					}
				})
			}
		}
	}
}

// A budget may be shared by policies on different clocks, as in a test of one of them. Each
// change begins a new window, however often.
func TestRatioBudgetOnTwoClocks(t *testing.T) {
	for _, window := range []time.Duration{0, 1, time.Hour} {
		b := &retry.RatioBudget{Ratio: 1, Window: window}
		for range 100 {
			for _, now := range []time.Time{{}, time.Unix(1000, 0), epoch} {
				b := timed{b, &wallClock{now: now}}
				succeed(b, 3)
				if left, got := b.Balance(), granted(b, 9, retry.Transient); left != 1 || got != 3 {
					t.Fatalf("with a window of %v, at %v, 3 runs have %d retries, and the balance is %v, want 3 and 1", window, now, got, left)
				}
			}
		}
	}
}

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

func TestRatioBudgetRefills(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := timed{&retry.RatioBudget{Ratio: -1, MinPerSecond: 10}, v} // for 10 s
	for range 3 {
		if n := granted(b, 1000, retry.Transient); n != 100 {
			t.Errorf("%d retries are granted, want 100", n)
		}
		v.Advance(10 * time.Second)
		if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			t.Error("a retry is granted before the window has passed")
		}
		v.Advance(time.Second)
		if b.Balance() != 1 {
			t.Errorf("after a window the balance is %v, want 1", b.Balance())
		}
	}
}

func TestRatioBudgetRefillsOnTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &retry.RatioBudget{Ratio: -1, MinPerSecond: .1} // one in 10 s
		for range 3 {
			if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
				t.Error("a window has not exactly one retry")
			}
			time.Sleep(11 * time.Second)
		}
	})
}

// The limit itself is granted, however it is made up.
func TestLastRetryOfARatioBudget(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	for _, tt := range []struct {
		b    *retry.RatioBudget
		want int
	}{
		{&retry.RatioBudget{Ratio: -1, MinPerSecond: .3}, 3},
		{&retry.RatioBudget{Ratio: -1, MinPerSecond: 1, Window: 4 * time.Second}, 4},
		{&retry.RatioBudget{Ratio: -1, MinPerSecond: 2e9, Window: 1}, 2},
		{&retry.RatioBudget{Ratio: 3}, 3},
	} {
		b := timed{tt.b, v}
		succeed(b, 1)
		if n := granted(b, 100, retry.Transient); n != tt.want {
			t.Errorf("RatioBudget%+v grants %d retries, want %d", []any{tt.b.Ratio, tt.b.MinPerSecond, tt.b.Window}, n, tt.want)
		}
	}
	short := timed{&retry.RatioBudget{Ratio: -1, MinPerSecond: 1e9, Window: 1}, v}
	for range 3 {
		if !short.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || short.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			t.Error("a window of a nanosecond has not exactly one retry")
		}
		v.Advance(time.Second)
	}
}

func TestNilBudgetsGrantEverything(t *testing.T) {
	for _, b := range []interface {
		retry.Budget
		Balance() float64
	}{(*retry.EarnedBudget)(nil), (*retry.TokenBudget)(nil), (*retry.RatioBudget)(nil), (*retry.ConcurrencyBudget)(nil)} {
		p, _ := virtual()
		p.Budget = b
		if err := retry.Run(t.Context(), p, works); err != nil {
			t.Errorf("%T: %v", b, err)
		}
		op, calls := failing(9, errDown)
		_, err := retry.Do(t.Context(), p, op)
		wantReason(t, err, retry.ReasonMaxAttempts)
		if *calls != 5 || b.Balance() != 1 {
			t.Errorf("%T: %d calls, balance %v, want 5 and 1", b, *calls, b.Balance())
		}
	}
}

// named is a budget that adds a name to another, as people write it.
type named struct {
	retry.Budget
	name string
}

func TestABudgetThatEmbedsAnotherLosesNoPlace(t *testing.T) {
	places := &retry.ConcurrencyBudget{Ratio: -1, Min: 1}
	p, _ := virtual()
	p.Budget = named{places, "database"}
	for range 3 {
		op, calls := failing(3, errDown)
		if _, err := retry.Do(t.Context(), p, op); err != nil || *calls != 4 {
			t.Errorf("%v after %d calls, want a success after 4: all retries of a run take one place", err, *calls)
		}
		if places.Balance() != 1 {
			t.Errorf("the balance is %v after the run, want 1", places.Balance())
		}
	}
}

func TestRatioBudgetOnTheSystemClock(t *testing.T) {
	b := &retry.RatioBudget{Ratio: .5, Window: time.Hour}
	succeed(b, 2)
	if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
		t.Error("two runs have not exactly one retry")
	}
}

func TestConcurrencyBudget(t *testing.T) {
	b := &retry.ConcurrencyBudget{Ratio: .5, Min: 1}
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

func TestConcurrencyBudgetDefaultsAndOddFields(t *testing.T) {
	for _, tt := range []struct {
		b    *retry.ConcurrencyBudget
		want int // of 100 runs in flight
	}{
		{&retry.ConcurrencyBudget{}, 20},
		{&retry.ConcurrencyBudget{Ratio: .01}, 3},
		{&retry.ConcurrencyBudget{Ratio: .01, Min: -1}, 1},
		{&retry.ConcurrencyBudget{Ratio: .29}, 29}, // a hair less, as a product of floats
		{&retry.ConcurrencyBudget{Ratio: -1, Min: -1}, 0},
		{&retry.ConcurrencyBudget{Ratio: math.NaN()}, 3},
		{&retry.ConcurrencyBudget{Ratio: math.Inf(1)}, 100},
		{&retry.ConcurrencyBudget{Min: math.MaxInt}, 100},
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
func TestConcurrencyBudgetLosesNoPlace(t *testing.T) {
	b := &retry.ConcurrencyBudget{Ratio: -1, Min: 1}
	p, _ := virtual()
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
func TestConcurrencyBudgetUnderContention(t *testing.T) {
	b := &retry.ConcurrencyBudget{Ratio: -1, Min: 5}
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

func TestBudgetsUnderContention(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	ratio := timed{&retry.RatioBudget{Ratio: .5}, v}
	token := &retry.TokenBudget{Capacity: 1000, Cost: 1}
	var ratioGrants, tokenGrants atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				ratio.End(retry.Outcome{OK: true})
				for range 3 {
					if ratio.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
						ratioGrants.Add(1)
					}
				}
				if token.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
					tokenGrants.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := ratioGrants.Load(); n > 2000 || n < 1900 {
		t.Errorf("4000 runs had %d retries, want half as many", n)
	}
	if n := tokenGrants.Load(); n != 1000 {
		t.Errorf("%d retries were granted for 1000 tokens", n)
	}
}

// What is taken and given back by many at once adds up.
func TestTokensAddUp(t *testing.T) {
	b := &retry.TokenBudget{Capacity: 1 << 30, Cost: 3}
	b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) // so that it is never full, and every End writes
	before := b.Balance()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
				b.End(retry.Outcome{Retried: retry.Transient, OK: true})
			}
		})
	}
	wg.Wait()
	if got := b.Balance(); got != before {
		t.Errorf("the balance is %v, was %v", got, before)
	}
}

// One run has one retry, whoever asks first.
func TestRatioBudgetGrantsTheLastRetryOnce(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	for range 5000 {
		b := timed{&retry.RatioBudget{Ratio: 1}, v}
		b.End(retry.Outcome{OK: true})
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		if n := granted.Load(); n != 1 {
			t.Fatalf("%d retries were granted for one run", n)
		}
	}
}

// Ten retries are granted to many at once, and no eleventh, where the tenth underway
// is the first that is summed up: what others are granted after that was read must
// not be missed.
func TestRatioBudgetSumsUpAfterItLooks(t *testing.T) {
	const budgets, goroutines = 5000, 4
	c := &wallClock{now: time.Unix(11, 0)}
	all := make([]retry.RatioBudget, budgets)
	for i := range all {
		all[i].Ratio, all[i].MinPerSecond = -1, 1
	}
	var got, met [budgets]atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range all {
				met[i].Add(1)
				for met[i].Load() < goroutines {
					runtime.Gosched()
				}
				got[i].Add(int64(granted(timed{&all[i], c}, 30, retry.Transient)))
			}
		})
	}
	wg.Wait()
	for i := range got {
		if n := got[i].Load(); n != 10 {
			t.Fatalf("%d retries were granted, want 10", n)
		}
	}
}

// The one retry for those with few calls is granted to one of many, also while one
// tenth of the window gives way to the next.
func TestRatioBudgetLendsToOne(t *testing.T) {
	const budgets, goroutines = 20_000, 4
	all, clocks := make([]retry.RatioBudget, budgets), make([]hastyClock, budgets)
	var got, met [budgets]atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range all {
				met[i].Add(1)
				for met[i].Load() < goroutines {
					runtime.Gosched()
				}
				got[i].Add(int64(granted(timed{&all[i], &clocks[i]}, 1, retry.Transient)))
			}
		})
	}
	wg.Wait()
	for i := range got {
		if n := got[i].Load(); n != 1 {
			t.Fatalf("%d retries were granted, want 1", n)
		}
		b := timed{&all[i], &clocks[i]}
		clocks[i].stopped = true
		succeed(b, 20) // for two retries in this window, of which that is one
		if n := granted(b, 9, retry.Transient); n != 1 {
			t.Fatalf("for twenty successes %d more retries were granted, want 1", n)
		}
	}
}

// hastyClock shows a second more each time it is read, until it is stopped.
type hastyClock struct {
	clockx.Clock
	reads   atomic.Int64
	stopped bool
}

func (c *hastyClock) Now() time.Time {
	if c.stopped {
		return time.Unix(c.reads.Load(), 0)
	}
	return time.Unix(c.reads.Add(1), 0)
}

// FuzzBudgets runs random operations against each budget and against a model of
// it that is too simple to be wrong.
func FuzzBudgets(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, 100, 10, 3, 2, .5)
	f.Add([]byte{0, 0, 0, 0, 1, 1, 1, 9, 9, 9, 17, 25, 33}, 0, 0, 0, 0, 0.0)
	f.Fuzz(func(t *testing.T, ops []byte, capacity, cost, throttle, reward int, ratio float64) {
		v := clockx.NewVirtual(epoch)
		token := &retry.TokenBudget{Capacity: capacity, Cost: cost, ThrottleCost: throttle, Reward: reward}
		rate := timed{&retry.RatioBudget{Ratio: ratio}, v}
		places := &retry.ConcurrencyBudget{Ratio: ratio, Min: cost % 8}
		orDefault := func(n, byDefault int) int64 {
			if n == 0 {
				n = byDefault
			}
			return int64(max(n, 0))
		}
		size, back := orDefault(capacity, 500), orDefault(reward, 1)
		costs := map[bool]int64{false: min(orDefault(cost, 14), size), true: min(orDefault(throttle, 5), size)}
		tokens := size
		type instant struct {
			tenth              int64
			successes, retries int
		}
		owed := 0.0 // successes that are missing for a retry that the window has no room for
		var past []instant
		var open []bool // the runs in flight: whether each holds a place
		share := func(byDefault float64) float64 {
			switch {
			case ratio == 0:
				return byDefault
			case !(ratio > 0):
				return 0
			}
			return ratio
		}
		for _, op := range ops[:min(len(ops), 1000)] {
			tenth := v.Now().Unix()
			throttled := op&8 != 0
			class := retry.Transient
			if throttled {
				class = retry.Throttled
			}
			switch op % 8 {
			case 0, 1:
				token.Begin(retry.Opening{})
				rate.Begin(retry.Opening{})
				places.Begin(retry.Opening{})
				open = append(open, false)
			case 2, 3, 4:
				want := costs[throttled] <= tokens && size > 0
				if got := token.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
					t.Fatalf("TokenBudget with %d tokens: Withdraw = %v", tokens, got)
				}
				if want {
					tokens -= costs[throttled]
				}
				successes, retries := 0, 0
				for _, i := range past {
					if i.tenth > tenth-11 {
						successes += i.successes
						retries += i.retries
					}
				}
				room := share(.1)*float64(successes) + 1e-9
				want = float64(retries+1) <= room
				if share(.1) > 0 && room < 1 && retries == 0 && owed <= 0 {
					want, owed = true, (1-1e-9)/share(.1)
				}
				if got := rate.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
					t.Fatalf("RatioBudget with %d retries for %d successes, %v short: Withdraw = %v", retries, successes, owed, got)
				}
				if want {
					past = append(past, instant{tenth, 0, 1})
				}
				if len(open) == 0 {
					continue
				}
				held, mine := 0, int(op)/16%len(open)
				for _, h := range open {
					if h {
						held++
					}
				}
				floor := cost % 8
				if floor == 0 {
					floor = 3
				}
				allowed := max(math.Floor(min(share(.2)*float64(len(open))+1e-9, math.MaxUint32)), float64(floor), 0)
				if open[mine] {
					if got, want := places.Withdraw(retry.Withdrawal{Class: class, Retry: 2}), float64(held) <= allowed; got != want {
						t.Fatalf("ConcurrencyBudget with %d of %v: Again = %v", held, allowed, got)
					}
					continue
				}
				want = float64(held+1) <= allowed
				if got := places.Withdraw(retry.Withdrawal{Class: class, Retry: 1}); got != want {
					t.Fatalf("ConcurrencyBudget with %d of %v: Withdraw = %v", held, allowed, got)
				}
				open[mine] = want
			case 5, 6:
				ok := op%8 == 5
				token.End(retry.Outcome{Retried: class, OK: ok})
				rate.End(retry.Outcome{Retried: class, OK: ok})
				if ok {
					past = append(past, instant{tenth, 1, 0})
					owed--
					tokens = min(tokens+costs[throttled], size)
				}
				if len(open) > 0 {
					retried := retry.Unknown
					if open[0] {
						retried = class
					}
					places.End(retry.Outcome{Retried: retried, OK: ok})
					open = open[1:]
				}
			case 7:
				token.End(retry.Outcome{OK: true})
				tokens = min(tokens+back, size)
				v.Advance(time.Duration(op) * 50 * ms)
			}
			for _, b := range []interface{ Balance() float64 }{token, rate, places} {
				if left := b.Balance(); !(left >= 0 && left <= 1) {
					t.Fatalf("%T: the balance is %v, want it in [0,1]", b, left)
				}
			}
		}
	})
}

// Also on the system clock and without hooks, where a run is cheapest.
func TestRunTellsTheBudgetAlone(t *testing.T) {
	for failures, want := range map[int]countingBudget{
		0: {begun: 1, ended: 1, ok: true},
		2: {begun: 1, asked: 2, ended: 1, ok: true, retried: retry.Transient},
		3: {begun: 1, asked: 2, ended: 1, retried: retry.Transient},
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
