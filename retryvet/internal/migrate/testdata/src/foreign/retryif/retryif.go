package retryif

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/avast/retry-go/v4"
)

type deployment struct {
	attempts uint
	delay    time.Duration
}

func call(context.Context) error { return nil }
func temporary(err error) bool   { return errors.Is(err, io.ErrUnexpectedEOF) }

func (d *deployment) named(ctx context.Context) error {
	return retry.Do( // want `-fix makes this a retry.Run; RetryIf now decides about marked errors with Attempts\(0\), too: they ended it; a zero Delay would now mean the default; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
		func() error { return call(ctx) },
		retry.Context(ctx),
		retry.Attempts(d.attempts),
		retry.Delay(d.delay),
		retry.MaxDelay(10*time.Second),
		retry.DelayType(retry.BackOffDelay),
		retry.RetryIf(temporary),
	)
}

func literal(ctx context.Context) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.DelayType(retry.FixedDelay), retry.RetryIf(func(e error) bool { // want `-fix makes this a retry.Run; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
		return !errors.Is(e, io.EOF)
	}))
}

func endless(ctx context.Context, c interface{ Ping() error }) error {
	return retry.Do(func() error { return c.Ping() }, retry.Context(ctx), retry.Attempts(0), retry.DelayType(retry.FixedDelay), retry.RetryIf(temporary)) // want `not rewritten: without a limit on attempts a mark ends it whatever its RetryIf says`
}

func counts(ctx context.Context, log func(uint, error)) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.Delay(pause), // want `-fix makes this a retry.Run`
		retry.OnRetry(func(n uint, err error) { log(n+2, err) }))
}

const pause = 300 * time.Millisecond

func names(ctx context.Context, longest time.Duration) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.Delay(pause), retry.MaxJitter(longest), retry.Attempts(4)) // want `-fix makes this a retry.Run; Classify`
}
