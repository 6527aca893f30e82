package retrytest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

// A test of what a policy does when the server is down, then busy, then fine.
func Example() {
	_ = func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Exponential{Base: 100 * time.Millisecond, Jitter: retry.NoJitter},
		})
		op := retrytest.Script(h,
			retrytest.Fail[string](errors.New("down")),
			retrytest.Fail[string](retry.After(errors.New("busy"), time.Second)),
			retrytest.Return("ada").Taking(30*time.Millisecond),
		)
		name, err := retry.Do(t.Context(), h.Policy, op)
		if name != "ada" || err != nil {
			t.Errorf("Do() = %q, %v, want ada", name, err)
		}
		h.AssertDelays(100*time.Millisecond, 1200*time.Millisecond)
		h.AssertReason(retry.ReasonNone)
	}
}
