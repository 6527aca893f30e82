// Package calls has one misuse of package retry, one loop by hand and one call of another
// library.
package calls

import (
	"context"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

func Warm(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Backoff: retry.Constant(5)}, ping)
}

func Poll(ctx context.Context) error {
	for {
		if err := ping(ctx); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
}

func Wait(ctx context.Context) error {
	return backoff.Retry(func() error { return ping(ctx) }, backoff.WithContext(backoff.NewConstantBackOff(time.Second), ctx))
}

func ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	return conn.Close()
}
