package avastmarks

import (
	"context"

	"github.com/avast/retry-go/v4"
)

type client interface{ Ping(context.Context) error }

// The old library is needed to find its marks, and gives package retry its name.
func one(ctx context.Context, c client) error {
	return retry.Do(func() error { // want `Classify repeats every error that Unrecoverable has not marked`
		if ctx.Err() != nil {
			return retry.Unrecoverable(ctx.Err())
		}
		return c.Ping(ctx)
	}, retry.Context(ctx), retry.DelayType(retry.FixedDelay))
}

func two(ctx context.Context, c client) error {
	return retry.Do(func() error { return c.Ping(ctx) }, retry.Context(ctx), retry.DelayType(retry.BackOffDelay)) // want `Classify repeats every error that Unrecoverable has not marked`
}
