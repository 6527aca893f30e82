package bench_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry/bench"
)

// Twice what was measured: see RESULTS.md. They tell that something has become
// slow, not that it is fast.
var ratios = map[string]float64{
	"first try":                           6,
	"first try, policy built in the call": 6,
	"three failures":                      22,
	"three failures, a listener":          32,
	"giving up":                           30,
	"three failures, virtual clock":       16,
}

// TestRatiosToTheFloor guards the ratios to the loop by hand. A noisy machine has
// a second chance.
func TestRatiosToTheFloor(t *testing.T) {
	if raceEnabled {
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

func TestReport(t *testing.T) {
	r := bench.Report{Rounds: 1}
	for _, item := range slices.Concat(bench.Items(), bench.Telemetry(), bench.HTTP(), bench.GRPC()) {
		item.N = min(item.N, 10)
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
