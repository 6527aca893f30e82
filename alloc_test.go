package retry_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func wantAllocs(t *testing.T, want float64, f func()) {
	t.Helper()
	if got := testing.AllocsPerRun(1000, f); got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}

// emptyHooks are set and do nothing.
var emptyHooks = retry.Hooks{
	Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
	Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
	AttemptDone: func(context.Context, retry.Attempt) {},
	Wait:        func(context.Context, retry.Attempt) {},
	Done:        func(context.Context, retry.Summary) {},
}

func TestFirstTrySuccessAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for name, p := range map[string]retry.Policy{
		"zero policy":        {},
		"named":              {Name: "x", MaxElapsed: time.Hour, NonIdempotent: true, Backoff: retry.Constant(1)},
		"token budget":       {Budget: &retry.TokenBudget{}},
		"concurrency budget": {Budget: &retry.ConcurrencyBudget{}},
		"ratio budget":       {Budget: &retry.RatioBudget{Window: 24 * time.Hour}},
		"hooks":              {Hooks: emptyHooks},
		"joined hooks":       {Hooks: retry.JoinHooks(emptyHooks, emptyHooks)},
		"virtual clock":      {Clock: clockx.NewVirtual(epoch)},
	} {
		t.Run(name, func(t *testing.T) {
			wantAllocs(t, 0, func() { sink, _ = retry.Do(ctx, p, fetch) })
			wantAllocs(t, 0, func() { _ = retry.Run(ctx, p, func(context.Context) error { return nil }) })
		})
	}
}

// One allocation for each retry: the context that carries the attempt's number.
// The first also holds all that the run needs from then on.
func TestRetriesAllocateOnceEach(t *testing.T) {
	ctx := t.Context()
	v := clockx.NewVirtual(epoch)
	for name, p := range map[string]retry.Policy{
		"plain":        {Clock: v},
		"token budget": {Clock: v, Budget: &retry.TokenBudget{Cost: -1}},
		"hooks":        {Clock: v, Hooks: emptyHooks},
		"system clock": {Backoff: retry.Constant(1)},
	} {
		for _, failures := range []int{1, 3, 20} {
			p.MaxAttempts = retry.Unlimited
			calls := 0
			op := func(context.Context) (row, error) {
				if calls++; calls%(failures+1) != 0 {
					return row{}, errFlaky
				}
				return row{}, nil
			}
			wantAllocs(t, float64(failures), func() { sink, _ = retry.Do(ctx, p, op) })
		}
		_ = name
	}
}

func TestJudgingAnErrorAllocatesNothing(t *testing.T) {
	for _, err := range []error{errDown, dial(viaSyscall(111)), &retry.Error{Errs: []error{errDown}}, status(503), errors.Join(errDown, errDown)} {
		wantAllocs(t, 0, func() { _ = retry.DefaultClassifier(err) })
	}
}

func TestBackoffsAllocateNothing(t *testing.T) {
	for _, b := range []retry.Backoff{retry.Exponential{}, retry.Linear{}, retry.Fibonacci{}, retry.Decorrelated{}, retry.Schedule{1}, retry.Constant(1)} {
		wantAllocs(t, 0, func() { _ = b.Delay(retry.Step{Retry: 3, Rand: .5}) })
	}
}

// Waiting calls keep the stack that a goroutine begins with. Measured beside
// goroutines that wait for a bare timer, in one process: more than half as much
// again would mean that each stack has grown.
func TestMemoryOfWaitingCalls(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes stack frames larger")
	}
	p := retry.Policy{Backoff: retry.Constant(time.Hour)}
	ours := memoryOf(t, func(ctx context.Context) {
		_ = retry.Run(ctx, p, func(context.Context) error { return errFlaky })
	})
	typed := memoryOf(t, func(ctx context.Context) {
		_, _ = retry.Do(ctx, p, func(context.Context) (*row, error) { return nil, errFlaky })
	})
	bare := memoryOf(t, func(ctx context.Context) {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	})
	t.Logf("bytes per waiting goroutine: a bare timer %d, Run %d, Do %d", bare, ours, typed)
	if limit := bare * 3 / 2; ours > limit || typed > limit {
		t.Errorf("a waiting Run takes %d bytes, a Do %d, want at most %d, 1.5 times a bare timer's %d", ours, typed, limit, bare)
	}
}

// memoryOf returns how many bytes of stack and heap a goroutine takes that is
// blocked in f.
func memoryOf(t *testing.T, f func(context.Context)) uint64 {
	const n = 20_000
	ctx, cancel := context.WithCancel(t.Context())
	before := inUse()
	done := make(chan struct{})
	for range n {
		go func() {
			f(ctx)
			done <- struct{}{}
		}()
	}
	var now, last uint64 // until all of them sleep, and nothing grows any more
	for now = inUse(); now != last; now = inUse() {
		last = now
	}
	cancel()
	for range n {
		<-done
	}
	return (now - before) / n
}

func inUse() uint64 {
	var m runtime.MemStats
	for range 100 {
		runtime.Gosched()
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.StackInuse + m.HeapAlloc
}
