package budget_test

import (
	"math"
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

func TestRatio(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := budgettest.Timed(&budget.Ratio{Ratio: .1}, v)
	withdraw := func(want int) {
		t.Helper()
		if n := budgettest.Granted(b, 100, retry.Transient); n != want {
			t.Errorf("at %v %d retries are granted, want %d", v.Now().Sub(epoch), n, want)
		}
	}
	for range 100 {
		b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1})
	}
	withdraw(1) // for those with few calls: runs that fail earn nothing
	v.Advance(11 * time.Second)
	for range 50 {
		b.End(retry.Outcome{OK: true})
		b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1, OK: true}) // after a retry, the same
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
	budgettest.Succeed(b, 50)
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

func TestRatiosWindow(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 10, 10 * time.Second: 10, 11 * time.Second: 1} {
		v := clockx.NewVirtual(time.Unix(1000, 0))
		b := budgettest.Timed(&budget.Ratio{Ratio: 1}, v)
		budgettest.Succeed(b, 10)
		v.Advance(after)
		if got := budgettest.Granted(b, 20, retry.Transient); got != want {
			t.Errorf("%d retries for runs %v ago are granted, want %d", got, after, want)
		}
	}
}

// A process with few calls has a retry now and then: each for ⌈1/Ratio⌉ successes.
func TestRatioOfThoseWithFewCalls(t *testing.T) {
	for _, tt := range []struct {
		ratio, floor float64
		needs        int // successes before the next; 0: there is never one
	}{
		{0, 0, 10}, {.1, 0, 10}, {.05, 0, 20}, {.3, 0, 4}, {1. / 49, 0, 49}, {.5, .09, 2}, {.001, 0, 1000}, {.1, -3, 10},
		{-1, 0, 0}, {-.5, 0, 0}, {math.NaN(), 0, 0}, {math.Inf(1), 0, 1}, {2, 0, 1},
	} {
		v := clockx.NewVirtual(epoch)
		b := budgettest.Timed(&budget.Ratio{Ratio: tt.ratio, MinPerSecond: tt.floor}, v)
		first := min(tt.needs, 1)
		if left, got := b.Balance(), budgettest.Granted(b, 50, retry.Transient); got != first || left != float64(first) || b.Balance() != 0 {
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
				b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1})
				b.End(retry.Outcome{OK: true})
			}
			v.Advance(11 * time.Second)
			if left, got := b.Balance(), budgettest.Granted(b, 50, retry.Transient); got != 1 || left != 1 {
				t.Errorf("Ratio %v: after %d successes %d retries are granted, and the balance is %v, want 1", tt.ratio, tt.needs, got, left)
			}
		}
	}
}

// What is granted to those with few calls counts in the window.
func TestRatioLendsOnceInAWindow(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := budgettest.Timed(&budget.Ratio{Ratio: .5}, v)
	if got := budgettest.Granted(b, 9, retry.Transient); got != 1 {
		t.Errorf("at first %d retries are granted, want 1", got)
	}
	budgettest.Succeed(b, 3) // enough for the next one, if the window allowed less than one
	if got := budgettest.Granted(b, 9, retry.Transient); got != 0 {
		t.Errorf("for 3 successes %d more are granted, want none", got)
	}
	budgettest.Succeed(b, 1)
	if got := budgettest.Granted(b, 9, retry.Transient); got != 1 {
		t.Errorf("for 4 successes %d more are granted, want 1", got)
	}
}

func TestRatioDefaultsAndOddFields(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		b    *budget.Ratio
		want int // of at most 300, after 200 runs that succeeded
	}{
		{&budget.Ratio{}, 20},
		{&budget.Ratio{MinPerSecond: 5}, 20 + 50},
		{&budget.Ratio{MinPerSecond: -5}, 20},
		{&budget.Ratio{Ratio: .29}, 58},
		{&budget.Ratio{Ratio: -1}, 0},
		{&budget.Ratio{Ratio: -1, MinPerSecond: 10}, 100},
		{&budget.Ratio{Ratio: -.001, MinPerSecond: 10}, 100},
		{&budget.Ratio{Ratio: nan, MinPerSecond: nan}, 0},
		{&budget.Ratio{Ratio: inf}, 300},
		{&budget.Ratio{MinPerSecond: inf}, 300},
		{&budget.Ratio{Window: time.Minute, MinPerSecond: 1}, 20 + 60},
		{&budget.Ratio{Window: 1}, 20},
		{&budget.Ratio{Window: -1}, 20},
		{&budget.Ratio{Window: math.MaxInt64}, 20},
	} {
		b := budgettest.Timed(tt.b, v)
		budgettest.Succeed(b, 200)
		n := 0
		for n < 300 && b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			n++
			b.End(retry.Outcome{Retried: retry.Transient, Retries: 1, Sent: 1})
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

// Set back a little, a clock may catch up; set back further, it was wrong before.
func TestRatioOnAClockThatIsSetBack(t *testing.T) {
	for _, tt := range []struct {
		back time.Duration
		new  bool // a new window begins
	}{
		{time.Second, false}, {70 * time.Second, false}, {72 * time.Second, true}, {time.Hour, true}, {87_600 * time.Hour, true},
		{-10 * time.Second, false}, {-11 * time.Second, true},
	} {
		c := &budgettest.WallClock{Time: epoch}
		b := budgettest.Timed(&budget.Ratio{Ratio: 1}, c)
		budgettest.Succeed(b, 10)
		if got := budgettest.Granted(b, 6, retry.Transient); got != 6 {
			t.Errorf("10 runs have %d retries, want 6 of 6", got)
		}
		c.Time = epoch.Add(-tt.back)
		budgettest.Succeed(b, 5)
		want := 10 + 5 - 6
		if tt.new {
			want = 5
		}
		if got := budgettest.Granted(b, 50, retry.Transient); got != want {
			t.Errorf("set back by %v, 5 more runs have %d retries, want %d", tt.back, got, want)
		}
		if !tt.new {
			continue
		}
		for range 30 { // it goes on from there
			c.Time = c.Time.Add(11 * time.Second)
			budgettest.Succeed(b, 2)
			if got := budgettest.Granted(b, 50, retry.Transient); got != 2 {
				t.Errorf("set back by %v, %v later 2 runs have %d retries", tt.back, c.Time.Sub(epoch.Add(-tt.back)), got)
			}
		}
	}
}

// Also where Unix time begins, and long before.
func TestRatioOnAnyClock(t *testing.T) {
	for _, start := range []time.Time{{}, time.Unix(-70, 0), time.Unix(-5, 0), time.Unix(0, 0), time.Unix(1, 0), time.Unix(3, 0), time.Unix(1<<33, 0)} {
		for _, window := range []time.Duration{0, 1, time.Hour} {
			v := clockx.NewVirtual(start)
			b := budgettest.Timed(&budget.Ratio{Ratio: 1, Window: window}, v)
			for range 20 {
				budgettest.Succeed(b, 3)
				if got := budgettest.Granted(b, 9, retry.Transient); got != 3 {
					t.Errorf("at %v, with a window of %v, 3 runs have %d retries", v.Now(), window, got)
				}
				budgettest.Succeed(b, 2) // which the window forgets
				v.Advance(max(window, 10*time.Second) * 21 / 10)
			}
		}
	}
}

// The clock of a goroutine that was stopped for a window shows a tenth that lies in
// the ring where the newest one does.
func TestRatioOnALateClock(t *testing.T) {
	for late := time.Duration(1); late < 30; late++ {
		c := &budgettest.WallClock{Time: epoch}
		b := budgettest.Timed(&budget.Ratio{Ratio: 1}, c)
		b.End(retry.Outcome{OK: true})
		if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			t.Fatal("the run has no retry")
		}
		for _, at := range []time.Duration{-late * time.Second, 0} {
			c.Time = epoch.Add(at)
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
func TestRatioInAndOutOfBubbles(t *testing.T) {
	for _, clock := range []clockx.Clock{nil, clockx.System()} {
		b := budgettest.Timed(&budget.Ratio{Ratio: 1}, clock)
		retried := func(where string) {
			t.Helper()
			budgettest.Succeed(b, 1)
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
func TestRatioOnTwoClocks(t *testing.T) {
	for _, window := range []time.Duration{0, 1, time.Hour} {
		b := &budget.Ratio{Ratio: 1, Window: window}
		for range 100 {
			for _, now := range []time.Time{{}, time.Unix(1000, 0), epoch} {
				b := budgettest.Timed(b, &budgettest.WallClock{Time: now})
				budgettest.Succeed(b, 3)
				if left, got := b.Balance(), budgettest.Granted(b, 9, retry.Transient); left != 1 || got != 3 {
					t.Fatalf("with a window of %v, at %v, 3 runs have %d retries, and the balance is %v, want 3 and 1", window, now, got, left)
				}
			}
		}
	}
}

func TestRatioRefills(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	b := budgettest.Timed(&budget.Ratio{Ratio: -1, MinPerSecond: 10}, v) // for 10 s
	for range 3 {
		if n := budgettest.Granted(b, 1000, retry.Transient); n != 100 {
			t.Errorf("%d retries are granted, want 100", n)
		}
		if b.Balance() != 0 {
			t.Errorf("then the balance is %v, want 0", b.Balance())
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

func TestRatioRefillsOnTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget.Ratio{Ratio: -1, MinPerSecond: .1} // one in 10 s
		for range 3 {
			if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
				t.Error("a window has not exactly one retry")
			}
			time.Sleep(11 * time.Second)
		}
	})
}

// The limit itself is granted, however it is made up.
func TestLastRetryOfARatio(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	for _, tt := range []struct {
		b    *budget.Ratio
		want int
	}{
		{&budget.Ratio{Ratio: -1, MinPerSecond: .3}, 3},
		{&budget.Ratio{Ratio: -1, MinPerSecond: 1, Window: 4 * time.Second}, 4},
		{&budget.Ratio{Ratio: -1, MinPerSecond: 2e9, Window: 1}, 2},
		{&budget.Ratio{Ratio: 3}, 3},
	} {
		b := budgettest.Timed(tt.b, v)
		budgettest.Succeed(b, 1)
		if n := budgettest.Granted(b, 100, retry.Transient); n != tt.want {
			t.Errorf("Ratio%+v grants %d retries, want %d", []any{tt.b.Ratio, tt.b.MinPerSecond, tt.b.Window}, n, tt.want)
		}
	}
	short := budgettest.Timed(&budget.Ratio{Ratio: -1, MinPerSecond: 1e9, Window: 1}, v)
	for range 3 {
		if !short.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || short.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
			t.Error("a window of a nanosecond has not exactly one retry")
		}
		v.Advance(time.Second)
	}
}

func TestRatioOnTheSystemClock(t *testing.T) {
	b := &budget.Ratio{Ratio: .5, Window: time.Hour}
	budgettest.Succeed(b, 2)
	if !b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) || b.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
		t.Error("two runs have not exactly one retry")
	}
}

// One run has one retry, whoever asks first.
func TestRatioGrantsTheLastRetryOnce(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	for range 5000 {
		b := budgettest.Timed(&budget.Ratio{Ratio: 1}, v)
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
func TestRatioSumsUpAfterItLooks(t *testing.T) {
	const budgets, goroutines = 5000, 4
	c := &budgettest.WallClock{Time: time.Unix(11, 0)}
	all := make([]budget.Ratio, budgets)
	for i := range all {
		all[i].Ratio, all[i].MinPerSecond = -1, 1
	}
	got := budgettest.Together(goroutines, budgets, func(i int) int {
		return budgettest.Granted(budgettest.Timed(&all[i], c), 30, retry.Transient)
	})
	for _, n := range got {
		if n != 10 {
			t.Fatalf("%d retries were granted, want 10", n)
		}
	}
}

// The one retry for those with few calls is granted to one of many, also while one
// tenth of the window gives way to the next.
func TestRatioLendsToOne(t *testing.T) {
	const budgets, goroutines = 20_000, 4
	all, clocks := make([]budget.Ratio, budgets), make([]hastyClock, budgets)
	got := budgettest.Together(goroutines, budgets, func(i int) int {
		return budgettest.Granted(budgettest.Timed(&all[i], &clocks[i]), 1, retry.Transient)
	})
	for i, n := range got {
		if n != 1 {
			t.Fatalf("%d retries were granted, want 1", n)
		}
		b := budgettest.Timed(&all[i], &clocks[i])
		clocks[i].stopped = true
		budgettest.Succeed(b, 20) // for two retries in this window, of which that is one
		if n := budgettest.Granted(b, 9, retry.Transient); n != 1 {
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
