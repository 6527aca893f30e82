package bench_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/bench"
	"github.com/goretry/retry/internal/race"
)

// TestHTTPRatiosAndAllocations guards what a request costs beside http.Client and the
// two other libraries. Allocations are exact; times only tell that something has become slow.
func TestHTTPRatiosAndAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has a price of its own")
	}
	limits := []struct {
		ratio float64
		more  float64 // allocations than http.Client
	}{{4, 3}, {7, 10}, {5, 0}, {4, 8}}
	items := bench.HTTP()
	if len(items) != len(limits) {
		t.Fatalf("%d items, want %d", len(items), len(limits))
	}
	for i, item := range items {
		results := item.Measure(9, 10*time.Millisecond)
		plain, ours := results[0], results[1]
		ratio := ours.Ratio
		if ratio > limits[i].ratio { // a noisy machine has a second chance
			ratio = min(ratio, item.Measure(9, 40*time.Millisecond)[1].Ratio)
		}
		t.Logf("%s: %.2f × http.Client, %.1f allocations more", item.Name, ratio, ours.Allocs-plain.Allocs)
		if ratio > limits[i].ratio {
			t.Errorf("%s takes %.2f times as long as http.Client, want at most %v", item.Name, ratio, limits[i].ratio)
		}
		if more := limits[i].more; more > 0 && ours.Allocs > plain.Allocs+more+.5 {
			t.Errorf("%s makes %.1f allocations, http.Client %.1f: want at most %v more", item.Name, ours.Allocs, plain.Allocs, more)
		}
		if limits[i].more == 0 {
			for _, other := range results[2:] {
				if ours.Allocs >= other.Allocs {
					t.Errorf("%s makes %.1f allocations, %s %.1f: want fewer", item.Name, ours.Allocs, other.Name, other.Allocs)
				}
			}
		}
	}
}
