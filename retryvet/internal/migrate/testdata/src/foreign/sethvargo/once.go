package sethvargo

import (
	"context"
	"time"

	"github.com/sethvargo/go-retry"
)

type pinger struct{}

func (pinger) ping(context.Context) error { return nil }

// One attempt needs no marks, so an operation that is not written in the call will do.
func once(ctx context.Context, p pinger) error {
	return retry.Do(ctx, retry.WithMaxRetries(0, retry.NewConstant(time.Second)), p.ping) // want `-fix makes this a retry.Run`
}
