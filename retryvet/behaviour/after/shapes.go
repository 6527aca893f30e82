package after

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff4Chain makes a backoff in steps, as programs do that add a context last.
func Backoff4Chain(ctx context.Context, s *behaviour.Service) error {
	// A restore can take hours, and the network may fail meanwhile. That is no
	// reason to give up.
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: 6,
		Backoff:     retry.Constant(300 * time.Millisecond),
		Classify:    unlessPermanent,
	}, func(context.Context) error { return s.Ping() })
}

// Backoff4OwnContext gives each attempt a context of its own, with the same name.
func Backoff4OwnContext(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxElapsed: 10 * time.Second,
		Backoff:    retry.Exponential{Base: 200 * time.Millisecond, Max: time.Minute, Factor: 1.5, Jitter: retry.NoJitter},
		Classify:   unlessPermanent,
	}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.Ping()
	})
}

// deployment has the limits of its calls in fields.
type deployment struct {
	attempts uint
	delay    time.Duration
}

// Avast4Fields gives up after as many attempts as a field says.
func Avast4Fields(ctx context.Context, s *behaviour.Service) error {
	d := deployment{attempts: 4, delay: 150 * time.Millisecond}
	return d.run(ctx, s)
}

func (d *deployment) run(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retry.Policy{
		MaxAttempts: cmp.Or(int(d.attempts), retry.Unlimited),
		// A tenth of a deploy.
		Backoff:  retry.Exponential{Base: 2 * d.delay, Max: math.MaxInt64, Jitter: retry.NoJitter},
		Classify: unlessUnrecoverable,
	}, func(context.Context) error { return s.Ping() })
}
