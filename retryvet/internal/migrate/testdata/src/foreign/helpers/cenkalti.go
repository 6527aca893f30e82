package helpers

import (
	"context"
	"log"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Retry calls f until it succeeds.
func Retry(ctx context.Context, f func() error) error {
	return backoff.Retry(f, backoff.WithContext(backoff.NewExponentialBackOff(), ctx)) // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it; its error is now a \*retry.Error, which callers must not compare with ==; Classify repeats every error that Permanent has not marked, as before; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
}

func within(ctx context.Context, f func() error, first, limit time.Duration) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = first
	b.MaxElapsedTime = limit
	return backoff.Retry(f, backoff.WithContext(b, ctx)) // want `-fix makes this a retry.Run; .*which callers must not compare`
}

func value[T any](f func() (T, error), tries uint64) (T, error) {
	return backoff.RetryWithData(f, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), tries)) // want `-fix makes this a retry.Do; .*which callers must not compare`
}

// An Operation of theirs stays in the signature, and so does their import.
func named(op backoff.Operation, notify func(error, time.Duration)) error {
	err := backoff.RetryNotify(op, backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2), notify) // want `-fix makes this a retry.Run; .*which callers must not compare`
	if err != nil {
		log.Print(err)
	}
	return err
}

type worker struct {
	ctx   context.Context
	wg    sync.WaitGroup
	every time.Duration
	tries uint64
}

func (w *worker) inBackground(f func() error, failed func(error)) {
	w.wg.Go(func() {
		b := backoff.WithContext(backoff.WithMaxRetries(backoff.NewConstantBackOff(w.every), w.tries), w.ctx)
		if err := backoff.Retry(f, b); err != nil { // want `-fix makes this a retry.Run; .*which callers must not compare`
			failed(err)
		}
	})
}

func wrapped(f func() error) error {
	inner := f
	f = func() error { return inner() }
	return backoff.Retry(f, &backoff.StopBackOff{}) // want `not rewritten: its operation is a variable that may change: f`
}

func given(b backoff.BackOff, f func() error) error {
	return backoff.Retry(f, b) // want `not rewritten: its backoff is passed in, as the parameter b: let callers pass a retry.Policy`
}
