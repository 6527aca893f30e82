package limit_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/limit"
)

var (
	errHiccup = errors.New("hiccup")
	errBusy   = retry.After(errors.New("busy"), time.Second)
)

// returns is an op that fails with err.
func returns(err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return 1, err }
}

// under is a policy under g that makes one attempt.
func under(g retry.Guard) retry.Policy {
	return retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{g}}
}

// call makes one attempt under g.
func call(g retry.Guard, op func(context.Context) (int, error)) error {
	_, err := retry.Do(context.Background(), under(g), op)
	return err
}

// enter takes a place, and reports whether one was free.
func enter(g retry.Guard) bool {
	_, err := g.Enter(context.Background(), retry.Entry{Number: 1})
	return err == nil
}

// bounded is a guard of this package.
type bounded interface {
	retry.Guard
	InFlight() int
	Places() int
}

// A Limit is full at Max, whatever becomes of the attempts, and it measures nothing.
func TestMaxIsTheBound(t *testing.T) {
	l := limit.Limit{Max: 3}
	for _, x := range []retry.Exit{{Ending: retry.NotMade}, {Ending: retry.Returned}, {Ending: retry.Returned, Verdict: retry.Policy{}.Judge(errBusy)},
		{Ending: retry.Expired}, {Ending: retry.Canceled}, {Ending: retry.Panicked}} {
		for i := range 3 {
			if !enter(&l) {
				t.Fatalf("Enter has refused with %d of 3 places taken", i)
			}
		}
		if _, err := l.Enter(t.Context(), retry.Entry{}); err != limit.ErrLimited {
			t.Errorf("Enter = %v with all places taken, want ErrLimited", err)
		}
		if l.InFlight() != 3 || l.Places() != 3 {
			t.Errorf("%d in flight of %d, want 3 of 3", l.InFlight(), l.Places())
		}
		for range 3 {
			l.Leave(retry.Pass{}, x)
		}
	}
}

func TestLimitsNothing(t *testing.T) {
	for name, g := range map[string]bounded{
		"nil Limit": (*limit.Limit)(nil), "zero Limit": new(limit.Limit), "negative Limit": &limit.Limit{Max: -1},
		"nil Adaptive": (*limit.Adaptive)(nil),
	} {
		for range 5000 {
			if !enter(g) {
				t.Fatalf("%s: Enter has refused", name)
			}
		}
		want := 5000
		if strings.HasPrefix(name, "nil") {
			want = 0
		}
		if g.InFlight() != want || g.Places() != math.MaxInt {
			t.Errorf("%s: InFlight() = %d, Places() = %d, want %d and no limit", name, g.InFlight(), g.Places(), want)
		}
		for range 5000 {
			g.Leave(retry.Pass{}, retry.Exit{Ending: retry.Returned})
		}
		if err := call(g, returns(nil)); err != nil {
			t.Errorf("%s: Do = %v, want nil", name, err)
		}
	}
}

func TestLeaveWithoutEnterPanics(t *testing.T) {
	for _, g := range []bounded{&limit.Limit{Max: 1}, new(limit.Limit), new(limit.Adaptive)} {
		func() {
			defer func() {
				if got := recover(); got != "limit: Leave without Enter" {
					t.Errorf("%T panicked with %v", g, got)
				}
			}()
			g.Leave(retry.Pass{}, retry.Exit{Ending: retry.Returned})
		}()
		if n := g.InFlight(); n != 0 {
			t.Errorf("%T: %d in flight after it, want none", g, n)
		}
	}
}

func TestPlaceComesBackAfterAPanicAndGoexit(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		for _, g := range []bounded{&limit.Limit{Max: 10}, &limit.Adaptive{Max: 10}} {
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_ = call(g, func(context.Context) (int, error) { leave(); return 0, nil })
			})
			wg.Wait()
			if g.InFlight() != 0 || g.Places() != 10 {
				t.Errorf("%T after %s: %d in flight, %d places, want 0 and 10", g, name, g.InFlight(), g.Places())
			}
		}
	}
}

// No more attempts run at a time than there are places, and all places come back.
func TestBoundHoldsUnderContention(t *testing.T) {
	for _, l := range []bounded{&limit.Limit{Max: 7}, &limit.Adaptive{Max: 7}} {
		synctest.Test(t, func(t *testing.T) { contend(t, l) })
	}
}

// contend has 1000 attempts of a second, a hundred at once, under l, which has seven places.
func contend(t *testing.T, l bounded) {
	running, most, refused := 0, 0, 0
	var mu sync.Mutex
	op := func(context.Context) (int, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		running--
		mu.Unlock()
		return 0, nil
	}
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			time.Sleep(time.Duration(i%10) * time.Second)
			if err := call(l, op); err != nil {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if most != 7 || l.InFlight() != 0 || l.Places() != 7 {
		t.Errorf("at most %d at a time, then %d in flight of %d, want 7, 0, 7", most, l.InFlight(), l.Places())
	}
	if refused == 0 || refused == 1000 {
		t.Errorf("%d of 1000 refused", refused)
	}
}

func TestErrLimitedIsSafeToRetry(t *testing.T) {
	if c := retry.DefaultClassifier(limit.ErrLimited); c != retry.Unprocessed {
		t.Errorf("DefaultClassifier(ErrLimited) = %v, want unprocessed", c)
	}
}

// An attempt without a place has done nothing, whatever the call may do.
func TestRefusedAttemptIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Limit{Max: 1}
		enter(&l)
		time.AfterFunc(150*time.Millisecond, func() { l.Leave(retry.Pass{}, retry.Exit{Ending: retry.Returned}) })
		p := retry.Policy{NonIdempotent: true, Backoff: retry.Constant(100 * time.Millisecond), Guards: []retry.Guard{&l}}
		start := time.Now()
		v, err := retry.Do(t.Context(), p, returns(nil))
		if v != 1 || err != nil || time.Since(start) != 200*time.Millisecond {
			t.Errorf("Do = %d, %v after %v, want 1, nil after 200ms", v, err, time.Since(start))
		}
	})
}

// An ErrLimited that op returns is another Limit's, and op may have done something
// before.
func TestErrLimitedOfOpProvesNothing(t *testing.T) {
	calls := 0
	p := retry.Policy{NonIdempotent: true, Guards: []retry.Guard{&limit.Limit{}}}
	err := retry.Run(t.Context(), p, func(context.Context) error {
		calls++
		return limit.ErrLimited
	})
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonNotIdempotent || e.Undone || calls != 1 {
		t.Errorf("%d calls, %v, want 1 that must not be repeated", calls, err)
	}
}

// An attempt without a place is tried again, whatever Policy.Classify says of the errors of op.
func TestRunWithoutAPlace(t *testing.T) {
	full := &limit.Limit{Max: 1}
	enter(full)
	for _, tt := range []struct {
		classify retry.Classifier
		asked    int
	}{
		{nil, 3},
		{func(error) retry.Class { return retry.Permanent }, 3},
	} {
		asked := 0
		p := retry.Policy{NonIdempotent: true, Classify: tt.classify, Backoff: retry.Constant(0), Guards: []retry.Guard{full}}
		p.Hooks.Guard = func(_ context.Context, h retry.Held) {
			if asked++; h.Guard != "limit.Limit" || h.Err != limit.ErrLimited || h.Number != 1 {
				t.Errorf("Hooks.Guard got %+v", h)
			}
		}
		v, err := retry.Do(t.Context(), p, returns(nil))
		e, ok := errors.AsType[*retry.Error](err)
		if v != 0 || !ok || e.Reason != retry.ReasonGuard || e.Attempts != 0 || !e.Undone || e.Cause != limit.ErrLimited || asked != tt.asked {
			t.Errorf("Do = %d, %#v after %d refusals, want 0 and no attempt after %d", v, err, asked, tt.asked)
		}
	}
}

// The second attempt finds no place. It has done nothing, whatever the first one did, and
// the value is still what op has returned last.
func TestRefusalKeepsTheLastValue(t *testing.T) {
	l := limit.Limit{Max: 1}
	p := retry.Policy{NonIdempotent: true, Backoff: retry.Constant(0), Guards: []retry.Guard{&l}}
	p.Hooks.Wait = func(context.Context, retry.Attempt) { enter(&l) }
	v, err := retry.Do(t.Context(), p, returns(retry.Undone(errHiccup)))
	e, ok := errors.AsType[*retry.Error](err)
	if v != 1 || !ok || e.Reason != retry.ReasonGuard || e.Attempts != 1 || !e.Undone || e.Last() != errHiccup || e.Cause != limit.ErrLimited {
		t.Errorf("Do = %d, %#v, want 1 and ErrLimited after an attempt that did nothing", v, err)
	}
}

// A refusal is no load: it takes nothing from the budget that pays for retries of what was
// sent.
func TestRefusalsCostABudgetNothing(t *testing.T) {
	l := &limit.Limit{Max: 1}
	budget := &retry.EarnedBudget{}
	p := retry.Policy{Backoff: retry.Constant(0), Budget: budget, Guards: []retry.Guard{l}}
	enter(l)
	before := budget.Balance()
	for range 100 {
		if err := retry.Run(t.Context(), p, func(context.Context) error { return nil }); !errors.Is(err, limit.ErrLimited) {
			t.Fatalf("a run without a place ended with %v", err)
		}
	}
	if after := budget.Balance(); after != before {
		t.Errorf("the balance went from %v to %v", before, after)
	}
	l.Leave(retry.Pass{}, retry.Exit{Ending: retry.Returned})
	for i := range 10 {
		calls := 0
		err := retry.Run(t.Context(), p, func(context.Context) error {
			if calls++; calls == 1 {
				return errHiccup
			}
			return nil
		})
		if err != nil {
			t.Errorf("call %d, whose retry would have succeeded: %v", i, err)
		}
	}
}

// A place is given back before the backoff, and each attempt takes its own.
func TestNoPlaceIsHeldWhileARunWaits(t *testing.T) {
	l := limit.Limit{Max: 3}
	p := retry.Policy{Backoff: retry.Constant(0), Guards: []retry.Guard{&l}}
	p.Hooks.Wait = func(context.Context, retry.Attempt) {
		if n := l.InFlight(); n != 0 {
			t.Errorf("%d in flight in the wait", n)
		}
	}
	calls := 0
	_ = retry.Run(t.Context(), p, func(context.Context) error {
		if calls++; l.InFlight() != 1 {
			t.Errorf("%d in flight in attempt %d", l.InFlight(), calls)
		}
		return errHiccup
	})
	if calls != 3 || l.InFlight() != 0 {
		t.Errorf("%d attempts, and %d in flight then", calls, l.InFlight())
	}
}

// An attempt that a guard behind the limit refuses was not made.
func TestPlaceComesBackIfALaterGuardRefuses(t *testing.T) {
	l, full := &limit.Limit{Max: 10}, &limit.Limit{Max: 1}
	enter(full)
	p := retry.Policy{Backoff: retry.Constant(0), Guards: []retry.Guard{l, full}}
	if err := retry.Run(t.Context(), p, func(context.Context) error { return nil }); !errors.Is(err, limit.ErrLimited) {
		t.Errorf("the run ended with %v", err)
	}
	if _, err := p.Admit(t.Context(), retry.Entry{}); err != limit.ErrLimited {
		t.Errorf("Admit = %v", err)
	}
	if l.InFlight() != 0 || l.Places() != 10 {
		t.Errorf("%d in flight of %d, want 0 of 10", l.InFlight(), l.Places())
	}
}

// A first try under a limit allocates nothing, and a run no more than without one.
func TestLimitAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	allocs := func(p retry.Policy, err error) float64 {
		op := returns(err)
		return testing.AllocsPerRun(1000, func() { _, _ = retry.Do(context.Background(), p, op) })
	}
	for name, err := range map[string]error{"success": nil, "transient": errHiccup, "throttled": errBusy, "timed out": retry.ErrAttemptTimeout} {
		p := retry.Policy{Name: "x", Budget: &budget.Token{Capacity: math.MaxInt}, Backoff: retry.Constant(0), ThrottleBackoff: retry.Constant(0), MaxRetryAfter: 1}
		want := allocs(p, err)
		for _, g := range []retry.Guard{&limit.Limit{Max: 9}, new(limit.Adaptive)} {
			p.Guards = []retry.Guard{g}
			if got := allocs(p, err); got != want || err == nil && got != 0 {
				t.Errorf("%T, %s: %v allocations, and %v without it", g, name, got, want)
			}
		}
	}
	for _, g := range []retry.Guard{&limit.Limit{Max: 1}, &limit.Adaptive{Max: 1}} {
		for _, free := range []bool{true, false} {
			if !free {
				enter(g)
			}
			got := testing.AllocsPerRun(1000, func() {
				if pass, err := g.Enter(context.Background(), retry.Entry{}); err == nil {
					g.Leave(pass, retry.Exit{Ending: retry.Canceled})
				}
			})
			if got != 0 {
				t.Errorf("%T: Enter allocates %v times, with a place free: %v", g, got, free)
			}
		}
	}
}

// The first try of a run without a limit, and under one.
func BenchmarkFirstTry(b *testing.B) {
	op := returns(nil)
	for name, p := range map[string]retry.Policy{
		"none": {}, "limit": {Guards: []retry.Guard{&limit.Limit{Max: 1000}}}, "adaptive": {Guards: []retry.Guard{new(limit.Adaptive)}},
	} {
		b.Run(name+"/alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = retry.Do(context.Background(), p, op)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = retry.Do(context.Background(), p, op)
				}
			})
		})
	}
}
