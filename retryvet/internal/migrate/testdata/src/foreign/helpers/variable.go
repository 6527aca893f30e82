package helpers

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Settings are those of all commands.
var Settings = &backoff.ExponentialBackOff{
	InitialInterval:     time.Second,
	RandomizationFactor: backoff.DefaultRandomizationFactor,
	Multiplier:          backoff.DefaultMultiplier,
	MaxInterval:         10 * time.Second,
	MaxElapsedTime:      30 * time.Second,
	Stop:                backoff.Stop,
	Clock:               backoff.SystemClock,
}

func command(f func() error) error {
	return backoff.RetryNotify(f, Settings, func(err error, wait time.Duration) { println(wait, err) }) // want `-fix makes this a retry.Run; .*nothing in its package uses these any more: Settings`
}

var every = backoff.NewConstantBackOff(time.Second)

func first(f func() error) error {
	return backoff.Retry(f, backoff.WithMaxRetries(every, 3)) // want `-fix makes this a retry.Run; .*`
}

func second(f func() error) error {
	return backoff.Retry(f, backoff.WithMaxRetries(every, 5)) // want `-fix makes this a retry.Run; .*`
}

var adjusted = backoff.NewConstantBackOff(time.Second)

func adjusts(f func() error, d time.Duration) error {
	adjusted.Interval = d
	return backoff.Retry(f, adjusted) // want `not rewritten: its backoff is a variable that may change: adjusted`
}

var pause = time.Second

var paused = backoff.NewConstantBackOff(pause)

func pauses(f func() error) error {
	return backoff.Retry(f, backoff.WithMaxRetries(paused, 5)) // want `not rewritten: its backoff was made with the first value of pause`
}

var aliased = backoff.NewConstantBackOff(time.Second)

func aliases(f func() error, d time.Duration) error {
	b := aliased
	b.Interval = d
	return backoff.Retry(f, backoff.WithMaxRetries(aliased, 5)) // want `not rewritten: other code uses its backoff, too`
}

func healthy(serve func() error) error {
	b := backoff.NewExponentialBackOff()
	return backoff.Retry(func() error { // want `not rewritten: its operation resets the backoff: call retry.Supervise, which begins with short waits again after a healthy run`
		err := serve()
		if err == nil {
			b.Reset()
		}
		return err
	}, b)
}
