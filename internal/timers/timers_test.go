package timers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/internal/timers"
)

// bell notes that it has rung.
type bell chan *timers.Alarm

func (b bell) Ring(a *timers.Alarm) { b <- a }

func TestAlarm(t *testing.T) {
	for name, set := range map[string]func(time.Duration, bell) *timers.Alarm{
		"system": func(d time.Duration, b bell) *timers.Alarm { return timers.SetAlarm(d, b) },
		"context": func(d time.Duration, b bell) *timers.Alarm {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			return timers.SetAlarmOn(ctx, cancel, b)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, start := make(bell, 2), time.Now()
			a := set(time.Second, b)
			if rung := <-b; rung != a || time.Since(start) != time.Second || a.Stop() {
				t.Errorf("%s: rang after %v, want 1s; or it was stopped after that", name, time.Since(start))
			}
			a.Free()
			if a = set(time.Second, b); !a.Stop() {
				t.Errorf("%s: Stop() = false", name)
			}
			time.Sleep(time.Minute)
			if len(b) != 0 {
				t.Errorf("%s: a stopped alarm rang", name)
			}
		})
	}
}

// An alarm is used again, by another ringer, after it was stopped and after it has rung. It does not
// cross the border of a bubble.
func TestAlarmsAreUsedAgain(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector a sync.Pool drops things at random")
	}
	b, other := make(bell, 1), make(bell, 1)
	var r timers.Ringer = b
	if got := testing.AllocsPerRun(100, func() { timers.SetAlarm(time.Hour, r).Stop() }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
	for range 100 {
		a := timers.SetAlarm(0, b)
		if <-b != a {
			t.Fatal("another alarm rang")
		}
		a.Free()
		if a = timers.SetAlarm(0, other); <-other != a {
			t.Fatal("another alarm rang")
		}
		a.Free()
		synctest.Test(t, func(t *testing.T) {
			b := make(bell, 1)
			if a := timers.SetAlarm(time.Hour, b); <-b != a {
				t.Error("another alarm rang in the bubble")
			} else {
				a.Free()
			}
		})
	}
}
