package refused5

import (
	"context"

	"github.com/cenkalti/backoff/v5"
)

func ping() (int, error) { return 0, nil }

func refused(ctx context.Context, options []backoff.RetryOption, one backoff.RetryOption) {
	_, _ = backoff.Retry(ctx, ping, options...)                                                           // want `not rewritten: its options are made elsewhere`
	_, _ = backoff.Retry(ctx, ping, one)                                                                  // want `not rewritten: an option is not written in the call`
	_, _ = backoff.Retry(ctx, ping, backoff.WithBackOff(&backoff.StopBackOff{}), backoff.WithMaxTries(3)) // want `not rewritten: it limits retries twice`
}
