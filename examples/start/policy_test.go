package main

import (
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

func TestUsersPolicy(t *testing.T) {
	policy := users
	policy.Budget = &retry.EarnedBudget{} // as in a server, but not shared
	policy.Rand = func() float64 { return 0.5 }
	h := retrytest.New(t, policy)
	op := retrytest.Script(h,
		retrytest.Fail[User](errors.New("down")),
		retrytest.Fail[User](retry.After(errors.New("busy"), time.Minute)),
		retrytest.Return(User{Name: "Ada"}).Taking(30*time.Millisecond),
	)
	user, err := retry.Do(t.Context(), h.Policy, op)
	if user.Name != "Ada" || err != nil {
		t.Errorf("got %v, %v", user, err)
	}
	h.AssertDelays(50*time.Millisecond, 63*time.Second)
	h.AssertReason(retry.ReasonNone)
}
