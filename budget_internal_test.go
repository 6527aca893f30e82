package retry

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/clockx"
)

// With many successes an EarnedBudget is full, and most of them write nothing.
func TestAFullBudgetIsNotWrittenTo(t *testing.T) {
	for _, tt := range []struct {
		rate int     // successes per second
		most float64 // the share of them that write
	}{{2500, .81}, {10_000, .21}, {100_000, .021}, {1_000_000, .0021}} {
		v := clockx.NewVirtual(epoch)
		b := new(EarnedBudget)
		const fill = 20_000
		for range fill {
			b.End(Outcome{OK: true, Clock: v})
		}
		written := 0
		for range tt.rate {
			v.Advance(time.Second / time.Duration(tt.rate))
			before := b.word.Load()
			b.End(Outcome{OK: true, Clock: v})
			if b.word.Load() != before {
				written++
			}
		}
		if share := float64(written) / float64(tt.rate); share > tt.most || b.Balance() != 1 {
			t.Errorf("of %d successes per second the share %.4f writes, want at most %v", tt.rate, share, tt.most)
		}
	}
}

// By its name or as nil, the system's clock is read monotonically. Others are not:
// nobody knows what they count from.
func TestReadingOfAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where time stands still
		if got, want := reading(clockx.System()), time.Since(epoch); got != want || reading(nil) != want {
			t.Errorf("the system's clock reads %v, nil %v, want %v", got, reading(nil), want)
		}
	})
	if got := reading(clockx.NewVirtual(time.Unix(3, 4))); got != 3*time.Second+4 {
		t.Errorf("a clock reads %v, want 3.000000004s", got)
	}
}
