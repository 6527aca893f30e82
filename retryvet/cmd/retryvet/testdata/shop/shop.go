// Package shop waits for a server, by another library and by hand.
package shop

import (
	"context"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func waitUntilUp(ctx context.Context) error {
	return backoff.Retry(ping, backoff.WithContext(backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 3), ctx))
}

func ping() error {
	conn, err := net.Dial("tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	return conn.Close()
}

func poll(ctx context.Context) error {
	for {
		if err := ping(); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
}
