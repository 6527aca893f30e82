package bench_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/bench"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/pace"
)

// Twice what was measured: see RESULTS.md. They tell that something has become
// slow, not that it is fast.
var ratios = map[string]float64{
	"first try":         6,
	"built in the call": 6,
	"three failures":    22,
	"a listener":        32,
	"giving up":         30,
	"virtual clock":     16,
}

// TestRatiosToTheFloor guards the ratios to the loop by hand. A noisy machine has
// a second chance.
func TestRatiosToTheFloor(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has a price of its own")
	}
	guarded := 0
	for _, item := range bench.Items() {
		limit, ok := ratios[item.Name]
		if !ok {
			continue
		}
		guarded++
		item.Cases = item.Cases[:2] // the floor and this library
		ratio := item.Measure(9, 5*time.Millisecond)[1].Ratio
		if ratio > limit {
			ratio = min(ratio, item.Measure(9, 20*time.Millisecond)[1].Ratio)
		}
		t.Logf("%s: %.1f, at most %.1f", item.Name, ratio, limit)
		if ratio > limit {
			t.Errorf("%s takes %.1f times as long as the loop by hand, want at most %.1f", item.Name, ratio, limit)
		}
	}
	if guarded != len(ratios) {
		t.Errorf("%d items are guarded, want %d", guarded, len(ratios))
	}
}

// TestRatioOfAnOpenPace holds a first try under a pace that is open against one without
// a pace, on one core and on all, which share the count of what has started.
// It takes the first measurement that is good enough, as TestRatiosOfTelemetry does: a
// busy machine makes any of them wrong.
func TestRatioOfAnOpenPace(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has a price of its own")
	}
	const tries, most = 12, 14 // it is entered like any guard, and counts
	succeed := func(context.Context) (int, error) { return 1, nil }
	for cores, run := range map[string]func(p retry.Policy) func(int){
		"one core": func(p retry.Policy) func(int) {
			return func(n int) {
				for range n {
					_, _ = retry.Do(t.Context(), p, succeed)
				}
			}
		},
		"all cores": func(p retry.Policy) func(int) {
			return func(n int) {
				var all sync.WaitGroup
				for range runtime.GOMAXPROCS(0) {
					all.Go(func() {
						for range n {
							_, _ = retry.Do(t.Context(), p, succeed)
						}
					})
				}
				all.Wait()
			}
		},
	} {
		item := bench.Item{Cases: []bench.Case{
			{Name: "no pace", Run: run(retry.Policy{})},
			{Name: "open pace", Run: run(retry.Policy{Guards: []retry.Guard{new(pace.Pace)}})},
		}}
		ratio := math.Inf(1)
		for range tries {
			results := item.Measure(9, 2*time.Millisecond)
			if results[1].Allocs > .5 {
				t.Errorf("%s: %.1f allocations", cores, results[1].Allocs)
			}
			if ratio = min(ratio, results[1].Ratio); ratio <= most {
				t.Logf("%s: %.1f ns, without a pace %.1f ns", cores, results[1].NS, results[0].NS)
				break
			}
		}
		if ratio > most {
			t.Errorf("%s: a first try under an open pace takes %.2f times as long as without one, want at most %v", cores, ratio, most)
		}
	}
}

func TestReport(t *testing.T) {
	r := bench.Report{Rounds: 1}
	for _, item := range slices.Concat(bench.Items(), bench.Telemetry(), bench.HTTP(), bench.GRPC()) {
		r.Items = append(r.Items, bench.Measured{Item: item, Results: item.Measure(1, time.Microsecond)})
	}
	for _, p := range bench.Peers {
		r.Waiting = append(r.Waiting, bench.Waiting{Name: p.Name, Stack: 1, Cancel: 1})
	}
	doc := r.Markdown()
	for _, p := range bench.Peers {
		if !strings.Contains(doc, p.Name) {
			t.Errorf("the report does not tell of %s", p.Name)
		}
	}
	if strings.Contains(doc, "NaN") {
		t.Errorf("%s", doc)
	}
}
