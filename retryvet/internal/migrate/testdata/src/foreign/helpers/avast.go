package helpers

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v4"
)

type config struct {
	Tries    uint
	Delay    time.Duration
	MaxDelay time.Duration
}

func configured(ctx context.Context, cfg config, f func() error) error {
	return retry.Do( // want `-fix makes this a retry.Run; a zero Delay would now mean the default; its error is now a \*retry.Error, which callers must not compare with ==; Classify repeats every error that Unrecoverable has not marked, as before`
		f,
		retry.Attempts(cfg.Tries),
		retry.Delay(cfg.Delay),
		retry.DelayType(retry.BackOffDelay),
		retry.LastErrorOnly(false),
		retry.Context(ctx),
	)
}

var errBusy = errors.New("busy")

func busy(err error) bool { return errors.Is(err, errBusy) }

func whileBusy[T any](f func() (T, error)) (T, error) {
	return retry.DoWithData(f, retry.Attempts(4), retry.RetryIf(busy), retry.MaxDelay(time.Second)) // want `-fix makes this a retry.Do; .*which callers must not compare`
}

func passed(f func() error, opts ...retry.Option) error {
	return retry.Do(f, opts...) // want `not rewritten: its options are passed in, as the parameter opts: let callers pass a retry.Policy`
}

func built(f func() error, fixed bool) error {
	opts := []retry.Option{retry.Attempts(3)}
	if fixed {
		opts = append(opts, retry.DelayType(retry.FixedDelay))
	}
	return retry.Do(f, opts...) // want `not rewritten: not all of its options are written in the call, or in a literal that nothing changes`
}

// The operation may mark errors, or not: its RetryIf decides in any case.
func converted() error {
	return retry.Do(retry.RetryableFunc(func() error { // want `not rewritten: its operation marks errors with Unrecoverable, and its RetryIf may repeat them`
		return retry.Unrecoverable(errBusy)
	}), retry.RetryIf(busy))
}
