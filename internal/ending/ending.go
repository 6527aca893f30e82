// Package ending says how an attempt has ended, for packages that tell guards. retrygrpc, a
// module of its own, has this folder once more: a test compares them.
package ending

import (
	"context"

	"github.com/goretry/retry"
)

// Of returns how something has ended that had the context ctx and failed.
func Of(ctx context.Context) retry.Ending {
	switch {
	case ctx.Err() == nil:
		return retry.Returned
	case ctx.Err() == context.DeadlineExceeded, context.Cause(ctx) == retry.ErrAttemptTimeout:
		return retry.Expired
	}
	return retry.Canceled
}
