package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

type waiting interface {
	error
	RetryAfter() time.Duration
}

// refusedAfter returns the wait that a refusal asks for which comes so long after two attempts have
// taken all places, of which none is answered; -1: the attempt is admitted; -2: the error is another.
func refusedAfter(l *limit.Adaptive, allowed, silence time.Duration) time.Duration {
	began := time.Now()
	for range 2 {
		go func() {
			_ = retry.Run(context.Background(), retry.Policy{Guards: []retry.Guard{l}, AttemptTimeout: allowed, MaxAttempts: 1},
				func(context.Context) error { time.Sleep(time.Hour); return nil })
		}()
	}
	synctest.Wait()
	time.Sleep(silence - time.Since(began))
	_, err := l.Enter(context.Background(), retry.Entry{})
	if err == nil {
		return -1
	}
	if wait, ok := errors.AsType[waiting](err); ok && errors.Is(err, limit.ErrLimited) {
		return wait.RetryAfter()
	}
	if err != limit.ErrLimited {
		return -2
	}
	return 0
}

func TestARefusalInASilenceSaysHowLongToWait(t *testing.T) {
	for _, tt := range []struct {
		name             string
		answer           time.Duration // of the attempts before
		allowed, silence time.Duration
		want             time.Duration
	}{
		{"no longer than a quarter", 10 * time.Millisecond, 600 * time.Millisecond, 150 * time.Millisecond, 0},
		{"longer", 10 * time.Millisecond, 600 * time.Millisecond, 151 * time.Millisecond, 151 * time.Millisecond},
		{"twice as long as usual", 240 * time.Millisecond, 600 * time.Millisecond, 480 * time.Millisecond, 0},
		{"longer", 240 * time.Millisecond, 600 * time.Millisecond, 481 * time.Millisecond, 481 * time.Millisecond},
		{"longer than attempts have", 10 * time.Millisecond, 600 * time.Millisecond, 2 * time.Second, 900 * time.Millisecond},
		{"attempts without a deadline", 10 * time.Millisecond, 0, 2 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &limit.Adaptive{Max: 2}
			p := retry.Policy{Guards: []retry.Guard{l}, AttemptTimeout: tt.allowed, MaxAttempts: 1}
			for range 20 {
				if err := retry.Run(t.Context(), p, func(context.Context) error { time.Sleep(tt.answer); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour) // with none in flight there is no silence
			if got := refusedAfter(l, tt.allowed, tt.silence); got != tt.want {
				t.Errorf("%s: the refusal asks for %v, want %v", tt.name, got, tt.want)
			}
			time.Sleep(time.Hour) // the attempts end
		})
	}
}

// Without such waits a run whose attempts find no place is over after 700 ms of backoffs, and 130
// calls fail.
func TestARunOutlastsASilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limit.Adaptive{Max: 2}
		p := retry.Policy{Guards: []retry.Guard{l}, AttemptTimeout: time.Second, MaxAttempts: 4, Backoff: retry.Exponential{Base: 100 * time.Millisecond}}
		began := time.Now()
		serve := func(ctx context.Context) error { // nothing is answered between the first and the fourth second
			d := 10 * time.Millisecond
			if now := time.Since(began); now > time.Second && now < 4*time.Second {
				d = 4*time.Second - now
			}
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		failed := make(chan bool, 400)
		const calls = 400
		for range calls { // fifty in a second
			go func() { failed <- retry.Run(t.Context(), p, serve) != nil }()
			time.Sleep(20 * time.Millisecond)
		}
		lost := 0
		for range calls {
			if <-failed {
				lost++
			}
		}
		if lost > 100 {
			t.Errorf("%d of the 150 calls of a stop of three seconds failed, want at most 100", lost)
		}
	})
}
