package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func ping(ctx context.Context) error { return ctx.Err() }

func timeout(ctx context.Context) error {
	return backoff.Retry(func() error { // want `-fix makes this a retry.Run`
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return ping(ctx)
	}, backoff.WithContext(backoff.NewConstantBackOff(time.Second), ctx))
}

func captured(ctx context.Context) error {
	return backoff.Retry(func() error { // want `not rewritten: the operation declares a ctx of its own`
		defer func() { _ = ping(ctx) }()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return ping(ctx)
	}, backoff.WithContext(backoff.NewConstantBackOff(time.Second), ctx))
}

func chain(ctx context.Context) error {
	bo := backoff.NewExponentialBackOff()
	bo.MaxElapsedTime = time.Minute
	b := backoff.WithMaxRetries(bo, 4)
	b = backoff.WithContext(b, ctx)
	return backoff.Retry(func() error { return errors.New("not yet") }, b) // want `-fix makes this a retry.Run`
}

func again(ctx context.Context) error {
	var b backoff.BackOff
	b = backoff.NewConstantBackOff(time.Second)
	return backoff.Retry(func() error { return errors.New("not yet") }, backoff.WithContext(b, ctx)) // want `not rewritten: other code uses its backoff, too`
}

func itself(ctx context.Context) error {
	b := backoff.NewExponentialBackOff()
	b.MaxInterval = 10 * b.InitialInterval
	return backoff.Retry(func() error { return errors.New("not yet") }, backoff.WithContext(b, ctx)) // want `not rewritten: other code uses its backoff, too`
}

func noJitter(ctx context.Context) error {
	return backoff.Retry(func() error { return errors.New("not yet") }, // want `-fix makes this a retry.Run$`
		backoff.WithContext(&backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, MaxInterval: time.Minute, Stop: backoff.Stop, Clock: backoff.SystemClock}, ctx))
}

// unhurried is used by one call alone.
func unhurried() backoff.BackOff {
	bo := backoff.NewExponentialBackOff()
	bo.InitialInterval = time.Minute
	return bo
}

func single(ctx context.Context) error {
	return backoff.Retry(func() error { return errors.New("not yet") }, backoff.WithContext(unhurried(), ctx)) // want `-fix makes this a retry.Run`
}

func errorsTaken(ctx context.Context, c interface{ Ping() error }) error {
	var errors []error
	err := backoff.Retry(func() error { // want `not rewritten: something else is named errors here`
		err := c.Ping()
		errors = append(errors, err)
		return err
	}, backoff.WithContext(backoff.NewConstantBackOff(time.Second), ctx))
	return fmt.Errorf("%w after %v", err, errors)
}

// The run has the context that the backoff got, not one that came later.
func laterContext(ctx context.Context) error {
	b := backoff.WithContext(backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2), ctx)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = ctx.Err()
	return backoff.Retry(func() error { return errors.New("down") }, b) // want `not rewritten: its context has another value, or its name means something else, where the call stands`
}

func innerContext(ctx context.Context) error {
	b := backoff.WithContext(backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2), ctx)
	{
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = ctx.Err()
		return backoff.Retry(func() error { return errors.New("down") }, b) // want `not rewritten: its context has another value, or its name means something else, where the call stands`
	}
}

func growing(ctx context.Context, wait time.Duration) error {
	b := backoff.WithContext(backoff.WithMaxRetries(backoff.NewConstantBackOff(wait), 2), ctx)
	for i := range 3 {
		if err := backoff.Retry(func() error { return fmt.Errorf("down %d", i) }, b); err != nil { // want `not rewritten: a duration is neither a constant nor a variable that keeps its value`
			return err
		}
		wait *= 2
	}
	return nil
}
