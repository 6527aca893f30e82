package avastmarks

import (
	"context"

	again "github.com/avast/retry-go/v4"
	retry "github.com/avast/retry-go/v5"
)

func three(ctx context.Context, c client) error {
	return again.Do(func() error { return c.Ping(ctx) }, again.Context(ctx), again.DelayType(again.FixedDelay)) // want `Classify repeats every error that Unrecoverable has not marked`
}

func four(ctx context.Context, c client) error {
	return retry.New(retry.Context(ctx), retry.DelayType(retry.FixedDelay)).Do(func() error { return c.Ping(ctx) }) // want `Classify repeats every error that Unrecoverable has not marked`
}
