package bench

import (
	"context"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
)

// ours is this library: a policy written once, as the package comment shows it.
var ours = Peer{
	Name:   "goretry/retry",
	Module: "github.com/goretry/retry",
	New: func(s Spec) Call {
		p := policy(s)
		return func(ctx context.Context, op Op) (Row, error) { return retry.Do(ctx, p, op) }
	},
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return retry.Do(ctx, retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Exponential{Base: 100 * time.Millisecond, Max: 10 * time.Second},
		}, op)
	},
}

func policy(s Spec) retry.Policy {
	p := retry.Policy{MaxAttempts: s.Attempts}
	if s.Virtual {
		p.Clock = clockx.NewVirtual(time.Unix(0, 0))
	}
	if s.Attempts == 0 {
		p.MaxAttempts = retry.Unlimited
	}
	switch {
	case s.Max == 0:
		p.Backoff = retry.Constant(s.Wait)
	case s.Jitter:
		p.Backoff = retry.Exponential{Base: s.Wait, Max: s.Max, Jitter: retry.PlusMinus(.5)}
	default:
		p.Backoff = retry.Exponential{Base: s.Wait, Max: s.Max, Jitter: retry.NoJitter}
	}
	if s.Tokens {
		p.Budget = &budget.Token{}
	}
	if s.Listener != nil {
		p.Hooks.Wait = func(context.Context, retry.Attempt) { s.Listener() }
	}
	return p
}
