package retry_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
)

func TestTicks(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 4
	p.AttemptTimeout = time.Millisecond // not for a loop's body
	p.Classify = func(error) retry.Class { t.Error("Classify was asked"); return 0 }
	log := record(&p)
	ticks := retry.Ticks(t.Context(), p)
	for range 2 { // the sequence can be used again
		var got []int
		var at []time.Duration
		start := v.Now()
		for n := range ticks {
			if v.Pending() != 0 {
				t.Error("the body has a timeout")
			}
			got, at = append(got, n), append(at, v.Now().Sub(start))
		}
		if want := []int{1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("ticks are %v, want %v", got, want)
		}
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("they come at %v, want %v", at, want)
		}
		if log.summary.Reason != retry.ReasonMaxAttempts {
			t.Errorf("the run ended with %v", log.summary.Reason)
		}
	}
	if v.Pending() != 0 {
		t.Errorf("%d timers are left", v.Pending())
	}
}

func TestBreakIsTheSuccessOfTicks(t *testing.T) {
	p, _ := virtual()
	budget := &countingBudget{}
	p.Budget = budget
	log := record(&p)
	for n := range retry.Ticks(t.Context(), p) {
		if n == 2 {
			break
		}
	}
	if got, want := log.String(), "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(none)"; got != want {
		t.Errorf("hooks saw\n%s, want\n%s", got, want)
	}
	if want := (countingBudget{begun: 1, asked: 1, ended: 1, retried: retry.Transient, ok: true}); *budget != want {
		t.Errorf("the budget saw %+v, want %+v", *budget, want)
	}
}

// A loop goes on for reasons that nobody knows here: a failed call may be one. So the
// budget is checked, though the error that hooks see is an ErrRejected.
func TestTicksAndTickerCheckTheBudget(t *testing.T) {
	for _, by := range []string{"Ticks", "Ticker"} {
		budget := &asked{}
		p, _ := virtual()
		p.MaxAttempts, p.Budget = 3, budget
		log := record(&p)
		if by == "Ticks" {
			for range retry.Ticks(t.Context(), p) {
			}
		} else {
			ticker := retry.NewTicker(t.Context(), p)
			for range ticker.C {
			}
			ticker.Stop()
		}
		if want := []string{"1 transient", "2 transient"}; !slices.Equal(budget.questions, want) || budget.retried != retry.Transient {
			t.Errorf("%s: the budget saw %q and at the end %v, want %q and transient", by, budget.questions, budget.retried, want)
		}
		for _, a := range log.attempts {
			if !errors.Is(a.Err, retry.ErrRejected) || a.Err == retry.ErrRejected || a.Err.Error() != retry.ErrRejected.Error() || a.Class != retry.Transient {
				t.Errorf("%s: AttemptDone got %#v, %v, want what is an ErrRejected, but not that value", by, a.Err, a.Class)
			}
		}
	}
}

func TestTicksEndWithTheContext(t *testing.T) {
	p, v := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	v.AfterFunc(2*time.Second, cancel)
	n := 0
	for n = range retry.Ticks(ctx, p) {
	}
	if n != 2 {
		t.Errorf("the last tick was %d, want 2", n)
	}
	for range retry.Ticks(ctx, p) {
		t.Error("a tick on a done context")
	}
}

func TestPanicInTheBodyOfTicks(t *testing.T) {
	p, _ := virtual()
	budget := &budget.Concurrency{Ratio: -1, Min: 1}
	p.Budget = budget
	log := record(&p)
	func() {
		defer func() { _ = recover() }()
		for n := range retry.Ticks(t.Context(), p) {
			if n == 2 {
				panic("boom")
			}
		}
	}()
	if budget.Balance() != 1 || log.summary.Reason != retry.ReasonPanic {
		t.Errorf("the balance is %v, the run ended with %v", budget.Balance(), log.summary.Reason)
	}
}

func TestTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ticker := retry.NewTicker(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second)})
		var at []time.Duration
		for tick := range ticker.C {
			at = append(at, tick.Sub(start))
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("ticks came at %v, want %v", at, want)
		}
		ticker.Stop()
		ticker.Stop()
	})
}

func TestNoTickAfterStop(t *testing.T) {
	for range 200 {
		ticker := retry.NewTicker(t.Context(), retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0)})
		<-ticker.C
		for range 3 {
			runtime.Gosched()
		}
		ticker.Stop()
		if tick, ok := <-ticker.C; ok {
			t.Fatalf("a tick at %v came after Stop", tick)
		}
	}
}

// Who is back from Stop finds C closed, without a wait.
func TestStopReturnsWithCClosed(t *testing.T) {
	for range 20_000 {
		ticker := retry.NewTicker(t.Context(), retry.Policy{})
		ticker.Stop()
		select {
		case tick, ok := <-ticker.C:
			if ok {
				t.Fatalf("a tick at %v came after Stop", tick)
			}
		default:
			t.Fatal("C is open after Stop")
		}
	}
}

func TestTickerEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		ctx, cancel := context.WithCancel(t.Context())
		ticker := retry.NewTicker(ctx, retry.Policy{Backoff: retry.Constant(time.Hour)})
		<-ticker.C
		cancel()
		if _, ok := <-ticker.C; ok {
			t.Error("a tick came after the cancel")
		}
	})
}

// Nobody takes the tick, and still nothing is left once the context is done.
func TestUnreadTickerEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		retry.NewTicker(ctx, retry.Policy{})
		synctest.Wait()
		cancel()
	})
}

func TestUnreadTickerEndsWithTheContextOfAHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		var end context.CancelFunc
		p := retry.Policy{Hooks: retry.Hooks{Start: func(ctx context.Context, _ retry.Policy) context.Context {
			ctx, end = context.WithCancel(ctx)
			return ctx
		}}}
		ticker := retry.NewTicker(context.WithoutCancel(t.Context()), p)
		synctest.Wait()
		end()
		synctest.Wait()
		if _, ok := <-ticker.C; ok {
			t.Error("a tick came after the end of the run's context")
		}
	})
}

// counted counts the contexts that are registered with it.
type counted struct {
	context.Context
	children atomic.Int32
}

func (c *counted) Done() <-chan struct{} { return make(chan struct{}) }

func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.children.Add(1)
	return func() bool { c.children.Add(-1); return true }
}

func TestTickerThatEndsByItsPolicyLeavesItsParent(t *testing.T) {
	parent := &counted{Context: context.Background()}
	ticker := retry.NewTicker(parent, retry.Policy{Backoff: retry.Constant(0)})
	ticks := 0
	for range ticker.C {
		if ticks++; ticks == 1 && parent.children.Load() != 1 {
			t.Error("the ticker's context is not registered: the test sees nothing")
		}
	}
	if n := parent.children.Load(); ticks != 3 || n != 0 {
		t.Errorf("after %d ticks %d contexts are registered, want 3 and none", ticks, n)
	}
}

// The context of an attempt is for op, and a Ticker has none: as with Ticks, the
// run's context alone takes a tick away.
func TestTickerHeedsNoContextOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if Stop hangs
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, returned := range map[string]context.Context{"ended": ended, "another": context.Background()} {
			p := retry.Policy{MaxAttempts: 3, Hooks: retry.Hooks{Attempt: func(context.Context, retry.Attempt) context.Context { return returned }}}
			ticker := retry.NewTicker(t.Context(), p)
			time.Sleep(time.Hour)
			if _, ok := <-ticker.C; !ok {
				t.Errorf("%s: the first tick was lost", name)
			}
			time.Sleep(time.Hour) // the next one is due
			ticker.Stop()
		}
	})
}

// timeless is a clock that must not be asked for a timeout.
type timeless struct {
	clockx.Clock
	t *testing.T
}

func (c timeless) WithTimeoutCause(ctx context.Context, _ time.Duration, _ error) (context.Context, context.CancelFunc) {
	c.t.Error("asked for a timeout")
	return context.WithCancel(ctx)
}

func TestTicksUseNoAttemptTimeout(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.AttemptTimeout, p.Clock = 2, time.Second, timeless{v, t}
	n := 0
	for range retry.Ticks(t.Context(), p) {
		n++
	}
	for range retry.NewTicker(t.Context(), p).C {
		n++
	}
	if n != 4 {
		t.Errorf("%d ticks, want 2 and 2", n)
	}
}
