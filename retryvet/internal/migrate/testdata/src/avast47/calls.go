// Package avast47 calls v4.7 of the library, whose waits begin with Delay.
package avast47

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
)

func call(context.Context) error { return nil }

func waits(ctx context.Context) {
	_ = retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.Delay(200*time.Millisecond), retry.DelayType(retry.BackOffDelay))           // want `-fix makes this a retry.Run`
	_ = retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.Delay(200*time.Millisecond), retry.DelayType(retry.FullJitterBackoffDelay)) // want `-fix makes this a retry.Run`
}
