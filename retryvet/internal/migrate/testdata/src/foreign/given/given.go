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

func twice(tries uint64) backoff.BackOff {
	bo := backoff.WithMaxRetries(newBackOff(), tries)
	bo.Reset()
	return bo
}

func (c config) literal(ctx context.Context) backoff.BackOff {
	return backoff.WithContext(&backoff.ExponentialBackOff{
		InitialInterval:     time.Second,
		RandomizationFactor: 1,
		Multiplier:          1.7,
		MaxInterval:         10 * time.Second, // a helper keeps its comments
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}, ctx)
}

func recursive() backoff.BackOff { return recursive() }

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

func helperOfHelper() error {
	return backoff.Retry(func() error { return errNotYet }, twice(4)) // want `-fix makes this a retry.Run; waits at the cap`
}

func method(ctx context.Context, c config) error {
	return backoff.Retry(func() error { return errNotYet }, c.literal(ctx)) // want `-fix makes this a retry.Run; waits at the cap`
}

// Every run begins with a Reset.
func reset() error { // what a comment says stays
	bo := &backoff.ExponentialBackOff{
		InitialInterval:     time.Second,
		RandomizationFactor: 0.5,
		Multiplier:          2,
		MaxInterval:         10 * time.Second,
		MaxElapsedTime:      time.Hour,
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}
	bo.Reset()

	return backoff.Retry(func() error { return errNotYet }, bo) // want `-fix makes this a retry.Run; waits at the cap`
}

func without() error {
	return backoff.Retry(func() error { return errNotYet }, recursive()) // want `not rewritten: the backoff comes from another function`
}

func stopped() error {
	bo := &backoff.ExponentialBackOff{InitialInterval: 1, RandomizationFactor: 1, Multiplier: 1, MaxInterval: 1, Clock: backoff.SystemClock}
	return backoff.Retry(func() error { return errNotYet }, bo) // want `not rewritten: the backoff is a literal that leaves Stop zero`
}

// Variables, parameters and fields stay what they are.
func fields(c config) error {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = c.Wait
	bo.MaxElapsedTime = c.Limit
	return backoff.Retry(func() error { return errNotYet }, bo) // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it; a zero InitialInterval would now mean the default`
}

func computed(seconds int, c config) error {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = time.Duration(seconds) * time.Second
	bo.MaxInterval = c.Wait / 2
	return backoff.Retry(func() error { return errNotYet }, bo) // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it; a zero InitialInterval would now mean the default`
}

func libraries(n time.Duration) error {
	bo := backoff.NewExponentialBackOff()
	bo.MaxInterval = n * backoff.DefaultMaxInterval
	return backoff.Retry(func() error { return errNotYet }, bo) // want `not rewritten: a duration is neither a constant nor a variable`
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
