package helpers

import (
	"context"
	"time"

	"github.com/sethvargo/go-retry"
)

func marked(ctx context.Context, f retry.RetryFunc) error {
	return retry.Do(ctx, retry.WithMaxRetries(3, retry.NewConstant(time.Second)), f) // want `not rewritten: its operation is passed in, as the parameter f, and only its callers could mark the other errors instead`
}
