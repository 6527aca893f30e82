package before

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry/retryvet/behaviour"
)

// Backoff4Chain makes a backoff in steps, as programs do that add a context last.
func Backoff4Chain(ctx context.Context, s *behaviour.Service) error {
	// A restore can take hours, and the network may fail meanwhile. That is no
	// reason to give up.
	b := backoff.WithMaxRetries(backoff.NewConstantBackOff(300*time.Millisecond), 5)
	b = backoff.WithContext(b, ctx)
	return backoff.Retry(
		func() error { return s.Ping() },
		b,
	)
}

// Backoff4OwnContext gives each attempt a context of its own, with the same name.
func Backoff4OwnContext(ctx context.Context, s *behaviour.Service) error {
	bo := patient()
	return backoff.Retry(func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.Ping()
	}, backoff.WithContext(bo, ctx))
}

// patient returns a backoff without jitter that goes on for ten seconds.
func patient() *backoff.ExponentialBackOff {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = 200 * time.Millisecond
	bo.RandomizationFactor = 0
	bo.MaxElapsedTime = 10 * time.Second
	return bo
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
	return retry.Do(
		func() error { return s.Ping() },
		retry.Context(ctx),
		retry.Attempts(d.attempts),
		// A tenth of a deploy.
		retry.Delay(d.delay),
		retry.DelayType(retry.BackOffDelay),
	)
}
