//go:build !race

package retrydebug_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydebug"
)

// What the page costs a call, against the same call with SlogHooks at INFO.
func TestCost(t *testing.T) {
	page := new(retrydebug.Recorder)
	for i := range 400 {
		_ = retry.Run(t.Context(), retry.Policy{Name: fmt.Sprint("op", i), Hooks: page.Hooks()}, nil0)
	}
	call := func(p retry.Policy, failures int) func() {
		return func() {
			left := failures
			_ = retry.Run(context.Background(), p, func(context.Context) error {
				if left--; left >= 0 {
					return errDown
				}
				return nil
			})
		}
	}
	for _, tt := range []struct {
		name     string
		failures int
		allocs   float64
		bytes    uint64
		ratio    float64 // of the times, 0 if it does not matter
	}{
		{"op1", 0, 1, 128, 3.5},
		{"op399", 0, 1, 128, 3.5}, // one of those that share a name
		{strings.Repeat("long", 1000), 0, 1, 128, 3.5},
		{"op1", 2, 8, 1 << 10, 0},
		{"op1", 3, 14, 3 << 9, 1},
	} {
		name := fmt.Sprintf("%.8s with %d failures", tt.name, tt.failures)
		p := retry.Policy{Name: tt.name, Backoff: retry.Constant(0), Hooks: page.Hooks()}
		ours := call(p, tt.failures)
		if got := testing.AllocsPerRun(200, ours); got > tt.allocs {
			t.Errorf("%s: %v allocations, want at most %v", name, got, tt.allocs)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 1000 {
			ours()
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / 1000; got > tt.bytes {
			t.Errorf("%s: %d bytes, want at most %d", name, got, tt.bytes)
		}
		if tt.ratio == 0 || !longTests { // a busy machine distorts times
			continue
		}
		for format, h := range map[string]slog.Handler{"JSON": slog.NewJSONHandler(io.Discard, nil), "text": slog.NewTextHandler(io.Discard, nil)} {
			p.Hooks = retry.SlogHooks(slog.New(h))
			theirs := call(p, tt.failures)
			fastest := func(f func()) time.Duration {
				begin := time.Now()
				for range 500 {
					f()
				}
				return time.Since(begin)
			}
			// Both take their fastest of many turns: what else the machine does slows some
			// turns of each.
			recorded, logged := fastest(ours), fastest(theirs)
			for range 100 {
				recorded, logged = min(recorded, fastest(ours)), min(logged, fastest(theirs))
			}
			ratio := float64(recorded) / float64(logged)
			t.Logf("%s: %.2f times the time of a log as %s", name, ratio, format)
			if ratio > tt.ratio {
				t.Errorf("%s: %.2f times the time of a log as %s, want at most %v", name, ratio, format, tt.ratio)
			}
		}
	}

	// Without a Recorder the policy is as plain as without hooks.
	p := retry.Policy{Name: "op", Hooks: (*retrydebug.Recorder)(nil).Hooks()}
	if got := testing.AllocsPerRun(200, call(p, 0)); got != 0 {
		t.Errorf("a nil Recorder: %v allocations, want 0", got)
	}
}

func BenchmarkCall(b *testing.B) {
	var page retrydebug.Recorder
	for _, hooks := range []struct {
		name string
		retry.Hooks
	}{
		{"none", (*retrydebug.Recorder)(nil).Hooks()},
		{"log", retry.SlogHooks(slog.New(slog.NewJSONHandler(io.Discard, nil)))},
		{"page", page.Hooks()},
	} {
		p := retry.Policy{Name: "get-user", Hooks: hooks.Hooks, Backoff: retry.Constant(0)}
		for _, failures := range []int{0, 2, 3} {
			b.Run(fmt.Sprintf("%s/failures=%d", hooks.name, failures), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					left := failures
					_ = retry.Run(context.Background(), p, func(context.Context) error {
						if left--; left >= 0 {
							return errDown
						}
						return nil
					})
				}
			})
		}
	}
	// Cores that make runs at the same time.
	p := retry.Policy{Name: "get-user", Hooks: page.Hooks()}
	b.Run("page/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = retry.Run(context.Background(), p, nil0)
			}
		})
	})
}
