package retrytest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

type User struct{ Name string }

// TestExample is the one of the README: what a policy does when the server is
// down, then busy, then fine.
func TestExample(t *testing.T) {
	errDown, errBusy := errors.New("down"), errors.New("busy")

	h := retrytest.New(t, retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: 100 * time.Millisecond, Jitter: retry.NoJitter},
	})
	op := retrytest.Script(h,
		retrytest.Fail[User](errDown),
		retrytest.Fail[User](retry.After(errBusy, time.Second)), // the server asks for a second
		retrytest.Return(User{Name: "ada"}).Taking(30*time.Millisecond))
	user, err := retry.Do(t.Context(), h.Policy, op)
	h.AssertDelays(100*time.Millisecond, 1200*time.Millisecond)
	h.AssertReason(retry.ReasonNone)

	if user.Name != "ada" || err != nil {
		t.Errorf("Do() = %v, %v, want ada", user, err)
	}
}
