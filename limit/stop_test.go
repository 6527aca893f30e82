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

// A server with room for all stops once. The timeout is a second; so a stop of less makes calls
// slower, and one of more has all that is in flight time out at once. Either is over before a limit
// could help, and costs hardly a call.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before time.Duration // how long calls come before the stop
		stop   time.Duration
		frozen bool // the work stands still; else a stopped process, whose timers go on
	}{
		{"longer than the timeout", 3 * time.Second, 1200 * ms, false},
		{"longer than the timeout, the work stands still", 3 * time.Second, 1200 * ms, true},
		{"longer, after more calls", 11 * time.Second, 1200 * ms, false},
		{"shorter than the timeout", 3 * time.Second, 850 * ms, false},
		{"three times as long as the timeout", 3 * time.Second, 3000 * ms, false},
	} {
		var none, got float64
		synctest.Test(t, func(*testing.T) { none = stop(nil, tt.before, tt.stop, tt.frozen) })
		synctest.Test(t, func(*testing.T) { got = stop(new(limit.Adaptive), tt.before, tt.stop, tt.frozen) })
		t.Logf("%s: %.3f succeed, and %.3f without", tt.name, got, none)
		if got < none-.06 {
			t.Errorf("%s: %.3f succeed in the 1.7 s after, and %.3f without", tt.name, got, none)
		}
	}
}

// stop makes 1000 calls a second of 100 ms each to a server that stops after a while. It returns which
// of the calls in the 1.7 s after the stop succeeded.
func stop(g retry.Guard, before, lasts time.Duration, frozen bool) (succeed float64) {
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
	p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Guards: []retry.Guard{g}}
	calls, good := 0, 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for now := start; now.Before(to.Add(1700 * ms)); now = time.Now() {
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
	return float64(good) / float64(calls)
}
