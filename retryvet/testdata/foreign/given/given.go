package given

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

var errNotYet = errors.New("not yet")

type config struct {
	Wait, Limit time.Duration
	Tries       uint64
}

func newBackOff() backoff.BackOff {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = 50 * time.Millisecond
	bo.MaxElapsedTime = time.Minute
	return bo
}

func limited(tries uint64) backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), tries)
}

// A helper of the package is read.
func helper() error {
	return backoff.Retry(func() error { return errNotYet }, newBackOff()) // want `-fix makes this a retry.Run; waits at the cap`
}

func helperWithArgument(ctx context.Context, n uint64) error {
	return backoff.Retry(func() error { return errNotYet }, backoff.WithContext(limited(n), ctx)) // want `-fix makes this a retry.Run$`
}

// Variables, parameters and fields stay what they are.
func fields(c config) error {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = c.Wait
	bo.MaxElapsedTime = c.Limit
	return backoff.Retry(func() error { return errNotYet }, bo) // want `-fix makes this a retry.Run; waits at the cap may be shorter: theirs exceed it; a zero InitialInterval would mean the default`
}

func parameters(wait time.Duration, tries int) error {
	return backoff.Retry(func() error { return errNotYet }, backoff.WithMaxRetries(backoff.NewConstantBackOff(wait), uint64(tries))) // want `-fix makes this a retry.Run$`
}

func changed(wait time.Duration) error {
	bo := backoff.WithMaxRetries(backoff.NewConstantBackOff(wait), 3)
	wait *= 2
	println(wait)
	return backoff.Retry(func() error { return errNotYet }, bo) // want `not rewritten: a duration is neither a constant nor a variable that keeps its value`
}

func shadowed(c config) error {
	bo := backoff.WithMaxRetries(backoff.NewConstantBackOff(c.Wait), c.Tries)
	{
		c := "another"
		println(c)
		return backoff.Retry(func() error { return errNotYet }, bo) // want `not rewritten: a duration is neither`
	}
}

func cloned(given backoff.BackOff) backoff.BackOff {
	println("made")
	return given
}

func unread(bo backoff.BackOff) error {
	return backoff.Retry(func() error { return errNotYet }, cloned(bo)) // want `not rewritten: the backoff comes from another function`
}
