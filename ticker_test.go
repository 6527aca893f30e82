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
	"github.com/goretry/retry/clockx"
)

// A loop goes on for reasons that nobody knows here: a failed call may be one. So the
// budget is checked, though the error that hooks see is an ErrRejected.
func TestTickerChecksTheBudget(t *testing.T) {
	budget := &asked{}
	p, _ := virtual()
	p.MaxAttempts, p.Budget = 3, budget
	log := record(&p)
	ticker := retry.NewTicker(t.Context(), p)
	for range ticker.C {
	}
	ticker.Stop()
	if want := []string{"1 transient", "2 transient"}; !slices.Equal(budget.questions, want) || budget.retried != retry.Transient {
		t.Errorf("the budget saw %q and at the end %v, want %q and transient", budget.questions, budget.retried, want)
	}
	for _, a := range log.attempts {
		if !errors.Is(a.Err, retry.ErrRejected) || a.Err == retry.ErrRejected || a.Err.Error() != retry.ErrRejected.Error() || a.Class != retry.Transient {
			t.Errorf("AttemptDone got %#v, %v, want what is an ErrRejected, but not that value", a.Err, a.Class)
		}
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

// A tick that nobody has received holds its place. The work that follows holds none.
func TestTickHoldsItsPlaceUntilItIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		ticker := retry.NewTicker(t.Context(), retry.Policy{Backoff: retry.Constant(time.Hour), Guards: []retry.Guard{g}})
		defer ticker.Stop()
		synctest.Wait()
		if n := len(g.open); n != 1 {
			t.Errorf("before the tick is received: %d places", n)
		}
		<-ticker.C
		synctest.Wait()
		if n := len(g.open); n != 0 {
			t.Errorf("after it: %d places", n)
		}
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

// The context of an attempt is for op, and a Ticker has none: the run's
// context alone takes a tick away.
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

// deadlineless is a clock that must not be asked for a timeout.
type deadlineless struct {
	clockx.Clock
	t *testing.T
}

func (c deadlineless) WithTimeoutCause(ctx context.Context, _ time.Duration, _ error) (context.Context, context.CancelFunc) {
	c.t.Error("asked for a timeout")
	return context.WithCancel(ctx)
}

func TestTickerUsesNoAttemptTimeout(t *testing.T) {
	p, v := virtual()
	p.Classify = func(error) retry.Class { t.Error("Classify was called"); return 0 }
	p.MaxAttempts, p.AttemptTimeout, p.Clock = 2, time.Second, deadlineless{v, t}
	n := 0
	for range retry.NewTicker(t.Context(), p).C {
		n++
	}
	if n != 2 {
		t.Errorf("%d ticks, want 2", n)
	}
}
