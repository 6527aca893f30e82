package helpers

import (
	"context"

	"github.com/cenkalti/backoff/v5"
)

func newest[T any](ctx context.Context, f func() (T, error)) (T, error) {
	return backoff.Retry(ctx, f, backoff.WithMaxTries(3)) // want `-fix makes this a retry.Do; waits at the cap may be shorter: their jitter exceeded it; its error is now a \*retry.Error, which callers must not compare with ==; Classify repeats every error that Permanent has not marked, as before; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter`
}
