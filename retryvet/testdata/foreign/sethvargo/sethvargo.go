package sethvargo

import (
	"context"
	"time"

	"github.com/sethvargo/go-retry"
)

func call(ctx context.Context) error {
	return retry.Do(ctx, retry.NewConstant(time.Second), func(context.Context) error { return nil }) // want `sethvargo/go-retry: not rewritten: there errors are not retried unless marked`
}
