package limit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

const ms = time.Millisecond

// A server with room for all stops once. The timeout is a second; so a stop of less
// makes calls slower, and one of more has all that is in flight time out at once.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name   string
		start  int
		before time.Duration // how long calls come before the stop
		stop   time.Duration
		frozen bool // the work stands still; else a stopped process, whose timers go on
		want   float64
	}{
		{"longer than the timeout", 200, 3 * time.Second, 1200 * ms, false, .97},
		{"longer than the timeout, the work stands still", 200, 3 * time.Second, 1200 * ms, true, .93},
		{"longer, and there are few more places than calls in flight", 20, 11 * time.Second, 1200 * ms, false, .67},
		{"shorter than the timeout", 200, 3 * time.Second, 850 * ms, false, 1},
	} {
		var places int
		var got float64
		l := &limit.Adaptive{Start: tt.start}
		synctest.Test(t, func(t *testing.T) { places, got = stop(l, tt.before, tt.stop, tt.frozen) })
		t.Logf("%s: %d places, and then %d; %.3f succeed", tt.name, places, l.Places(), got)
		if got < tt.want {
			t.Errorf("%s: %.3f succeed in the 1.7 s after, want %v", tt.name, got, tt.want)
		}
		if fell := l.Places() < places; fell != (tt.stop > time.Second) {
			t.Errorf("%s: %d places, and %d after; a stop that is shorter than the timeout takes none", tt.name, places, l.Places())
		}
	}
}

// stop makes 1000 calls a second of 100 ms each to a server that stops after a while.
// It returns the places at that time, and which of the calls in the 1.7 s after the
// stop succeeded.
func stop(l *limit.Adaptive, before, lasts time.Duration, frozen bool) (places int, succeed float64) {
	start := time.Now()
	from := start.Add(before)
	to := from.Add(lasts)
	op := func(ctx context.Context) (int, error) {
		now := time.Now()
		done := now.Add(100 * ms)
		switch {
		case !now.Before(to) || !done.After(from):
		case frozen:
			done = to.Add(min(100*ms, done.Sub(from)))
		case done.Before(to):
			done = to
		}
		select {
		case <-time.After(time.Until(done)):
			return 200, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Guards: []retry.Guard{l}}
	calls, good := 0, 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for now := start; now.Before(to.Add(1700 * ms)); now = time.Now() {
		if now.Before(from) {
			places = l.Places()
		}
		after := !now.Before(to)
		wg.Go(func() {
			_, err := retry.Do(context.Background(), p, op)
			mu.Lock()
			defer mu.Unlock()
			if after {
				calls++
				if err == nil {
					good++
				}
			}
		})
		time.Sleep(ms + time.Microsecond) // not at the instants at which others end
	}
	wg.Wait()
	return places, float64(good) / float64(calls)
}
