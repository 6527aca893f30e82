package pace_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

// contend has so many callers enter p again and again, without patience, until it is over. It returns how many
// have started, and how long that took.
func contend(p *pace.Pace, callers int, over func(took time.Duration, started int64) bool) (int64, time.Duration) {
	var started atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range callers {
		wg.Go(func() {
			for !over(time.Since(begun), started.Load()) {
				if _, err := p.Enter(context.Background(), retry.Entry{Clock: clockx.System(), Number: 1}); err == nil {
					started.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return started.Load(), time.Since(begun)
}

// However many goroutines enter a Pace, no more start than the quota allows.
func TestQuotaUnderContention(t *testing.T) {
	for _, callers := range []int{1, 8, 64, 1000} {
		p := &pace.Pace{Quota: 1000, Burst: 100}
		started, took := contend(p, callers, func(took time.Duration, _ int64) bool { return took > time.Second/4 })
		if most := 1000*took.Seconds() + 100; float64(started) > most+1 {
			t.Errorf("%d callers: %d have started in %v under 1000 in a second and a burst of 100", callers, started, took)
		}
	}
}

// Nor does a hold end early.
func TestHoldUnderContention(t *testing.T) {
	for _, callers := range []int{8, 2000} {
		p := &pace.Pace{Quota: 1e6}
		p.Hold(time.Second / 2)
		_, took := contend(p, callers, func(_ time.Duration, started int64) bool { return started > 0 })
		if took < time.Second/2 {
			t.Errorf("%d callers: the first has started %v after a hold of half a second began", callers, took)
		}
	}
}

// A clock that panics leaves a Pace unlocked.
func TestAPanicOfTheClockKeepsNoLock(t *testing.T) {
	clock := &panickyClock{Virtual: clockx.NewVirtual(epoch), panics: true}
	p := &pace.Pace{Quota: 1, Clock: clock}
	func() {
		defer func() { _ = recover() }()
		p.Wait()
	}()
	clock.panics = false
	if w := p.Wait(); w != 0 {
		t.Errorf("the first waits %v", w)
	}
}
