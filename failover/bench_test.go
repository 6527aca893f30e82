package failover_test

import (
	"context"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/internal/race"
)

func firstTry() func() {
	set := &failover.Set[int]{Targets: []*failover.Target[int]{{Name: "k1"}, {Name: "k2"}}}
	p := retry.Policy{Name: "x", Budget: new(retry.EarnedBudget)}
	ctx := context.Background()
	return func() {
		_, _ = failover.Do(ctx, p, set, func(context.Context, *failover.Target[int]) (int, error) { return 1, nil })
	}
}

func BenchmarkFirstTry(b *testing.B) {
	do := firstTry()
	b.ReportAllocs()
	for b.Loop() {
		do()
	}
}

// A call whose first attempt succeeds allocates four times: the run, its attempts, and two contexts with the name.
func TestAllocs(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(100, firstTry()); n > 4 {
		t.Errorf("a first try allocates %v times, want 4", n)
	}
}
