package hedge_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/race"
)

func answer(context.Context) (int, error) { return 1, nil }

// ways to make a fast call: as it is, hedged, and with a goroutine for each attempt,
// as hedgers without a timer of their own do.
func ways() map[string]func(context.Context) (int, error) {
	p := retry.Policy{Name: "x", Budget: &budget.Token{}}
	h := &hedge.Hedge{Delay: time.Hour}
	measured, never := new(hedge.Hedge), &hedge.Hedge{Delay: hedge.Never}
	return map[string]func(context.Context) (int, error){
		"Race":           raced(p, h, answer, hedge.Value[int]{}),
		"Race, measured": raced(p, measured, answer, hedge.Value[int]{}),
		"Do":             func(ctx context.Context) (int, error) { return hedge.Do(ctx, p, h, answer) },
		"Never":          raced(p, never, answer, hedge.Value[int]{}),
		"Do, never": func(ctx context.Context) (int, error) {
			return hedge.Do(ctx, p, never, answer)
		},
		"not idempotent": raced(retry.Policy{NonIdempotent: true}, h, answer, hedge.Value[int]{}),
		"Do, not idempotent": func(ctx context.Context) (int, error) {
			return hedge.Do(ctx, retry.Policy{NonIdempotent: true}, h, answer)
		},
		"a goroutine": inGoroutine,
	}
}

// inGoroutine makes the first attempt on a goroutine and waits for it beside a timer.
func inGoroutine(ctx context.Context) (int, error) {
	type result struct {
		v   int
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan result, 2)
	go func() {
		v, err := answer(ctx)
		done <- result{v, err}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-timer.C:
		panic("an hour has passed")
	}
}

func TestFastCallAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	// A caller's context that can be canceled, as that of a request: it keeps what
	// hangs below it in a map, which the first child makes.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, want := range map[string]struct{ allocs, bytes uint64 }{
		"Race":               {3, 680},
		"Race, measured":     {3, 680},
		"Do":                 {3, 680},
		"Never":              {0, 0},
		"Do, never":          {0, 0},
		"not idempotent":     {0, 0},
		"Do, not idempotent": {0, 0},
	} {
		call := ways()[name]
		for kind, ctx := range map[string]context.Context{"background": context.Background(), "a request's": ctx} {
			allocs, bytes := cost(func() { _, _ = call(ctx) })
			if allocs > want.allocs || bytes > want.bytes {
				t.Errorf("%s, %s context: %d allocations, %d bytes, want at most %d and %d", name, kind, allocs, bytes, want.allocs, want.bytes)
			}
		}
	}
}

// cost returns what a call of f allocates, the mean of many, rounded down.
func cost(f func()) (allocs, bytes uint64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	const calls = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / calls, (after.TotalAlloc - before.TotalAlloc) / calls
}

func BenchmarkFastCall(b *testing.B) {
	for _, name := range []string{"Never", "Race", "Race, measured", "Do", "a goroutine"} {
		call := ways()[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = call(b.Context())
			}
		})
	}
}
