package pacing_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// Two callers may read a clock, and come to the Pacer in the other order. The time between the two
// readings must not pass twice.
func TestTimePassesOnce(t *testing.T) {
	for _, older := range []time.Duration{1, 5 * time.Millisecond, 4 * time.Second} {
		p, now := told(100, 1)
		started := 0
		enter := func(now time.Time) {
			if wait, ok := p.Enter(now, new(pacing.Turn), 0); ok && wait == 0 {
				started++
			}
		}
		for range 1000 {
			now = now.Add(time.Millisecond)
			enter(now)
			enter(now.Add(-older))
		}
		if started != 100 {
			t.Errorf("readings that are older by %v: %d have started in a second, want 100", older, started)
		}
	}
}

// Nor does an older reading end a hold early.
func TestAHoldOutlastsOlderReadings(t *testing.T) {
	p, now := told(100, 1)
	p.Hold(now, 10*time.Second)
	for range 100 {
		now = now.Add(50 * time.Millisecond)
		p.Wait(now)
		p.Wait(now.Add(-time.Second))
	}
	if w := p.Wait(now); w != 5*time.Second {
		t.Errorf("five seconds after a hold of ten began, %v are left", w)
	}
}
