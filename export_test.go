package retry

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/part"
)

// FieldsMatter reports whether the fields of err, or of what it wraps, change what
// DefaultClassifier says of it.
func FieldsMatter(err error) bool {
	return judged(err, 0) != judged(err, system)
}

// Part is what package retryqueue makes of a delivery.
type Part = part.Part[Verdict, *Error]

// RunPart makes a part of a run.
func (p Policy) RunPart(ctx context.Context, x Part) { runPart(ctx, p, x) }

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
