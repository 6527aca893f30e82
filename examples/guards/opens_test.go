package guards_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
)

var users breaker.Breaker // one for all calls to a server

var guarded = retry.Policy{
	Name:           "fetch-user",
	AttemptTimeout: 2 * time.Second,
	Guards:         []retry.Guard{&users},
}

// While the server is down, calls whose deadline comes before the next attempt end at once.
func TestBreakerOfTheGuide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, down := 0, true
		call := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			return retry.Run(ctx, guarded, func(context.Context) error {
				attempts++
				if down {
					return errors.New("503")
				}
				return nil
			})
		}
		for range 100 {
			_ = call()
		}
		if err := call(); !errors.Is(err, breaker.ErrOpen) || attempts != 20 {
			t.Errorf("after %d attempts: %v, want an open breaker after 20", attempts, err)
		}
		down = false
		time.Sleep(1200 * time.Millisecond)
		if err := call(); err != nil {
			t.Errorf("half-open: %v", err)
		}
	})
}
