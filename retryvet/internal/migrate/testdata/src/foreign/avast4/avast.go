package avast4

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
)

func call(context.Context) error           { return nil }
func load(context.Context) (string, error) { return "", nil }
func told(uint, error)                     {}

func plain(ctx context.Context) error {
	return retry.Do(func() error { // want `avast/retry-go v4: -fix makes this a retry.Run; it now ends when ctx does`
		if err := call(ctx); err != nil {
			return retry.Unrecoverable(err)
		}
		return nil
	})
}

func options(ctx context.Context) (string, error) {
	return retry.DoWithData(func() (string, error) { // want `-fix makes this a retry.Do; OnRetry is no longer called for the last failure; its error is now a \*retry.Error`
		return load(ctx)
	}, retry.Context(ctx), retry.Attempts(3), retry.Delay(time.Second), retry.MaxDelay(3*time.Second), retry.OnRetry(told), retry.LastErrorOnly(true))
}

func doubling(ctx context.Context) error {
	_, err := load(ctx)
	if err != nil {
		return err
	}
	return retry.Do(func() error { return call(ctx) }, retry.Attempts(0), retry.Context(ctx), retry.DelayType(retry.BackOffDelay)) // want `-fix makes this a retry.Run`
}
