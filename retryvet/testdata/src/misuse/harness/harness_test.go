package harness

import (
	"context"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrytest"
)

func op(context.Context) error { return nil }

func TestWrong(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	h := retrytest.New(t, p)
	retry.Run(t.Context(), p, op) // want `the harness does not see this run, and its waits are real: run h.Policy`
	h.AssertAttempts(1)
}

type client struct{ policy retry.Policy }

func newClient(p retry.Policy) *client { return &client{p} }

func share(p *retry.Policy) *client { return &client{*p} }

func show(any) {}

func TestWrongInWhatIsTested(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	h := retrytest.New(t, p)
	c := &client{policy: p}   // want `the harness does not see runs of this policy, and its waits are real: give it h.Policy`
	c = &client{p}            // want `give it h.Policy`
	c = newClient(p)          // want `give it h.Policy`
	c.policy = p              // want `give it h.Policy`
	c.policy = p.Named("get") // want `give it h.Policy`
	c = share(&p)             // want `give it h.Policy`
	t.Run("a part", func(t *testing.T) {
		c := client{policy: p}                        // want `give it h.Policy`
		base := &retryhttp.Transport{Policy: p}       // want `give it h.Policy`
		run := p.Attempts(t.Context())                // want `the harness does not see this run, and its waits are real: run h.Policy`
		retry.Run(t.Context(), p.Named("op"), op)     // want `run h.Policy`
		retryhttp.JSON[int](t.Context(), p, nil, nil) // want `run h.Policy`
		show([]any{c, base, run})
	})
	show(c)
	h.AssertAttempts(1)
}

func TestRightInWhatIsTested(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	h := retrytest.New(t, p)
	c := &client{policy: h.Policy}
	c = newClient(h.Policy)
	c.policy = h.Policy
	other := p
	other.MaxAttempts = 3
	g := retrytest.New(t, other)
	show(p)
	show([]retry.Policy{p})
	show(p.Longest())
	retryqueue.Delivery{}.After(p, nil)
	show([]any{c, g})
	p = h.Policy
	c.policy = p
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
