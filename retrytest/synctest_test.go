package retrytest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// fetchTwice is code under test that takes no policy and no clock.
func fetchTwice(ctx context.Context, call func(context.Context) error) error {
	return retry.Run(ctx, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour)}, call)
}

// Code that takes no policy is tested in a bubble of testing/synctest, where the
// system clock moves on when everybody waits: the hour below takes no time.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		calls := 0
		err := fetchTwice(t.Context(), func(context.Context) error {
			if calls++; calls == 1 {
				return errDown
			}
			return nil
		})
		if took := time.Since(start); err != nil || took != time.Hour {
			t.Errorf("%v after %v, want success after 1h", err, took)
		}
	})
}
