package harness

import (
	"context"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

func op(context.Context) error { return nil }

func TestWrong(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	h := retrytest.New(t, p)
	retry.Run(t.Context(), p, op) // want `the harness does not see this run, and its waits are real: run h.Policy`
	h.AssertAttempts(1)
}

func TestRight(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	retry.Run(t.Context(), p, op)
	h := retrytest.New(t, p)
	retry.Run(t.Context(), h.Policy, op)
	h.AssertAttempts(p.MaxAttempts - 1)
	p = h.Policy
	retry.Run(t.Context(), p, op)
	retrytest.New(t, p)
}
