package bench_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/bench"
	"github.com/goretry/retry/internal/race"
)

func BenchmarkTelemetry(b *testing.B) {
	for _, item := range bench.Telemetry() {
		for _, c := range item.Cases {
			b.Run(item.Name+"/"+c.Name, func(b *testing.B) {
				b.ReportAllocs()
				c.Run(b.N)
			})
		}
	}
}

// TestRatiosOfTelemetry holds what otelretry costs against the same made by hand, in
// the same rounds. A busy machine makes any one of them wrong, but not the best of
// some: it takes the first that is good enough.
func TestRatiosOfTelemetry(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector costs each differently")
	}
	const tries = 12
	items := map[string]bench.Item{}
	for _, item := range bench.Telemetry() {
		items[item.Name] = item
	}
	for _, tt := range []struct {
		item   string
		what   string
		most   float64
		ratio  func(by map[string]bench.Result) float64
		allocs float64
	}{
		{"two spans", "bare spans", 1.3, over(bench.Bare), 12},
		{"two spans", "hooks by hand", 1, over(bench.NaiveHooks), 12},
		{"metrics", "bare Records, over hooks that do nothing", 1.3, func(by map[string]bench.Result) float64 {
			return (by[bench.OpenTelemetry].NS - by[bench.IdleHooks].NS) / by[bench.Bare].NS
		}, 0},
		{"four spans", "hooks by hand", 1, over(bench.NaiveHooks), 37},
		{"six spans", "bare spans", 1.3, over(bench.Bare), 50},
	} {
		best := 0.0
		for range tries {
			by := map[string]bench.Result{}
			for _, r := range items[tt.item].Measure(9, 2*time.Millisecond) {
				by[r.Name] = r
			}
			if len(by) == 0 {
				t.Fatalf("no item %s", tt.item)
			}
			if allocs := by[bench.OpenTelemetry].Allocs; allocs > tt.allocs+.5 {
				t.Errorf("%s: %.1f allocations, want at most %v", tt.item, allocs, tt.allocs)
				break
			}
			if ratio := tt.ratio(by); best == 0 || ratio < best {
				best = ratio
			}
			if best <= tt.most {
				break
			}
		}
		t.Logf("%s: %.2f times %s, at most %.1f", tt.item, best, tt.what, tt.most)
		if best > 1.15*tt.most { // what a busy machine adds to the best of them
			t.Errorf("%s takes %.2f times as long as %s, want at most %.1f", tt.item, best, tt.what, tt.most)
		}
	}
}

func over(floor string) func(map[string]bench.Result) float64 {
	return func(by map[string]bench.Result) float64 { return by[bench.OpenTelemetry].NS / by[floor].NS }
}
