package retrytest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
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

// TestExampleOfGuards shows what a full limit does to a run: nothing is sent before the
// place is free.
func TestExampleOfGuards(t *testing.T) {
	h := retrytest.New(t, retry.Policy{
		Guards:  []retry.Guard{&limit.Limit{Max: 1}},
		Backoff: retry.Exponential{Base: 100 * time.Millisecond, Jitter: retry.NoJitter},
	})
	leave, err := h.Policy.Admit(t.Context(), retry.Entry{}) // another attempt has the place
	if err != nil {
		t.Fatal(err)
	}
	h.Clock.AfterFunc(250*time.Millisecond, func() { leave(retry.Exit{Ending: retry.Returned}) })

	_, err = retry.Do(t.Context(), h.Policy, retrytest.Script(h, retrytest.Return(User{Name: "ada"})))
	h.AssertHeld(
		retry.Held{Number: 1, Err: limit.ErrLimited, Delay: 100 * time.Millisecond},
		retry.Held{Number: 1, Err: limit.ErrLimited, Delay: 200 * time.Millisecond},
	)
	h.AssertAttempts(1)
	if err != nil {
		t.Error(err)
	}
}
