package migrate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v7"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func TestCenkaltiBackoff(t *testing.T) {
	row := table(t, "cenkalti/backoff")

	row("Retry(ctx, op, opts...)", func(t *testing.T) {
		theirs, ours := failing(errDown, errDown)

		old, oldErr := backoff.Retry(t.Context(), func() (string, error) {
			return theirs.get()
		}, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)))

		user, err := retry.Do(t.Context(), retry.Policy{
			Backoff: retry.Constant(time.Second),
		}, func(context.Context) (string, error) {
			return ours.get()
		})

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 3, waits [1s 1s]")
	})

	row("WithNotify(f) (RetryNotify up to v4)", func(t *testing.T) {
		type notice struct {
			err  error
			wait time.Duration
		}
		var theirNotices, ourNotices []notice
		theirs, ours := failing(down(5)...)

		backoff.Retry(t.Context(), theirs.get,
			backoff.WithMaxTries(3),
			backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)),
			backoff.WithNotify(func(err error, wait time.Duration) {
				theirNotices = append(theirNotices, notice{err, wait})
			}))

		retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 3,
			Backoff:     retry.Constant(time.Second),
			Hooks: retry.Hooks{Wait: func(_ context.Context, a retry.Attempt) {
				ourNotices = append(ourNotices, notice{a.Err, a.Delay})
			}},
		}, func(context.Context) (string, error) { return ours.get() })

		// One per retry: none for the third error, which is the last.
		same(t, "notices", theirNotices, ourNotices, []notice{{errDown, time.Second}, {errDown, time.Second}})
	})

	row("Permanent(err)", func(t *testing.T) {
		theirs, ours := failing(errDown, errGone)

		old, oldErr := backoff.Retry(t.Context(), func() (string, error) {
			v, err := theirs.get()
			if errors.Is(err, errGone) {
				return v, backoff.Permanent(err)
			}
			return v, err
		}, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)))

		user, err := retry.Do(t.Context(), retry.Policy{
			Backoff: retry.Constant(time.Second),
		}, func(context.Context) (string, error) {
			v, err := ours.get()
			if errors.Is(err, errGone) {
				return v, retry.Stop(err)
			}
			return v, err
		})

		equal(t, "their outcome", theirs.outcome(old, oldErr), "no such user; calls 2, waits [1s]")
		// Here the earlier errors are found as well.
		equal(t, "our outcome", ours.outcome(user, err), "server is down, no such user; calls 2, waits [1s]")
		same(t, "last error", backoff.AsRetryError(oldErr).LastErr, last(err), errGone)
		// Both hand on the value that came with the error.
		same(t, "value", old, user, "call 2")
	})

	row("RetryAfter(d, err)", func(t *testing.T) {
		theirs, ours := failing(down(4)...)

		old, oldErr := backoff.Retry(t.Context(), func() (string, error) {
			v, err := theirs.get()
			if len(theirs.calls) == 2 {
				return v, backoff.RetryAfter(10*time.Second, err)
			}
			return v, err
		}, backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: time.Second, MaxInterval: time.Minute, Multiplier: 2,
		}))

		policy := retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff:     retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.NoJitter},
			Rand:        func() float64 { return 0 }, // without it a wait is up to a tenth longer than told
		}
		get := func(context.Context) (string, error) {
			v, err := ours.get()
			if len(ours.calls) == 2 {
				return v, retry.After(err, 10*time.Second)
			}
			return v, err
		}
		user, err := retry.Do(t.Context(), policy, get)

		// Theirs waits as told and starts its backoff again; here the backoff is
		// added, so that not all come back at once, and goes on.
		equal(t, "their outcome", theirs.outcome(old, oldErr), "ada; calls 5, waits [1s 10s 1s 2s]")
		equal(t, "our outcome", ours.outcome(user, err), "ada; calls 5, waits [1s 12s 4s 8s]")

		// To wait no longer than told, but for the tenth:
		policy.ThrottleBackoff = retry.Constant(0)
		ours.calls = nil
		user, err = retry.Do(t.Context(), policy, get)
		equal(t, "our outcome", ours.outcome(user, err), "ada; calls 5, waits [1s 10s 4s 8s]")
	})

	row("WithMaxTries(n)", func(t *testing.T) {
		theirs, ours := failing(down(9)...)

		old, oldErr := backoff.Retry(t.Context(), theirs.get,
			backoff.WithMaxTries(4), backoff.WithBackOff(&backoff.ZeroBackOff{}))

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Constant(0),
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down; calls 4, waits [0s 0s 0s]")
		same(t, "value", old, user, "call 4")
	})

	row("WithMaxElapsedTime(d) (15 min unless set)", func(t *testing.T) {
		theirs, ours := failing(down(99)...)

		old, oldErr := backoff.Retry(t.Context(), theirs.get,
			backoff.WithMaxElapsedTime(2*time.Second),
			backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)))

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: retry.Unlimited,
			MaxElapsed:  2 * time.Second,
			Backoff:     retry.Constant(time.Second),
		}, func(context.Context) (string, error) { return ours.get() })

		// A wait that ends just at the limit is still begun.
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down; calls 3, waits [1s 1s]")

		// Unless set, theirs ends in a quarter of an hour.
		theirs, ours = failing(down(99)...)
		backoff.Retry(t.Context(), theirs.get, backoff.WithBackOff(backoff.NewConstantBackOff(time.Minute)))
		retry.Do(t.Context(), retry.Policy{
			MaxAttempts: retry.Unlimited,
			MaxElapsed:  backoff.DefaultMaxElapsedTime,
			Backoff:     retry.Constant(time.Minute),
		}, func(context.Context) (string, error) { return ours.get() })
		same(t, "calls in 15 minutes", len(theirs.calls), len(ours.calls), 16)
	})

	row("NewConstantBackOff(d)", func(t *testing.T) {
		same(t, "waits",
			nexts(backoff.NewConstantBackOff(time.Second), 3),
			delays(retry.Constant(time.Second), 3),
			seconds(1, 1, 1))
	})

	row("ExponentialBackOff{InitialInterval, MaxInterval, Multiplier, RandomizationFactor}", func(t *testing.T) {
		same(t, "waits without randomness",
			nexts(&backoff.ExponentialBackOff{
				InitialInterval: time.Second, MaxInterval: 20 * time.Second, Multiplier: 3,
			}, 5),
			delays(retry.Exponential{
				Base: time.Second, Max: 20 * time.Second, Factor: 3, Jitter: retry.PlusMinus(0),
			}, 5),
			seconds(1, 3, 9, 20, 20))

		// The defaults.
		old := backoff.NewExponentialBackOff()
		ours := retry.Exponential{
			Base: 500 * time.Millisecond, Max: time.Minute, Factor: 1.5, Jitter: retry.PlusMinus(.5),
		}
		window(t, "their first waits", func() time.Duration { old.Reset(); return old.NextBackOff() },
			250*time.Millisecond, 750*time.Millisecond)
		window(t, "our first waits", draw(ours, 1),
			250*time.Millisecond, 750*time.Millisecond)

		// At the maximum theirs jitters past it. Here the window is scaled down:
		// its top is Max.
		nexts(old, 20)
		window(t, "their last waits", old.NextBackOff, 30*time.Second, 90*time.Second)
		window(t, "our last waits", draw(ours, 20), 20*time.Second, 60*time.Second)

		old.Reset()
		old.RandomizationFactor, ours.Jitter = 0, retry.NoJitter
		same(t, "waits of the defaults without randomness", nexts(old, 4), delays(ours, 4),
			seconds(.5, .75, 1.125, 1.6875))
		nexts(old, 20)
		same(t, "last wait of the defaults without randomness",
			old.NextBackOff(), ours.Delay(retry.Step{Retry: 20}), time.Minute)
	})

	row("ZeroBackOff", func(t *testing.T) {
		same(t, "waits", nexts(&backoff.ZeroBackOff{}, 3), delays(retry.Constant(0), 3), seconds(0, 0, 0))
	})

	row("StopBackOff", func(t *testing.T) {
		theirs, ours := failing(down(9)...)

		old, oldErr := backoff.Retry(t.Context(), theirs.get, backoff.WithBackOff(&backoff.StopBackOff{}))

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 1,
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down; calls 1, waits []")
	})

	row("NewTicker(b)", func(t *testing.T) {
		theirs, ours := failing(down(3)...)

		oldTicker := backoff.NewTicker(&backoff.ExponentialBackOff{
			InitialInterval: time.Second, MaxInterval: time.Minute, Multiplier: 2,
		})
		defer oldTicker.Stop()
		var oldErr error
		for range oldTicker.C {
			if oldErr = theirs.ping(); oldErr == nil {
				break
			}
		}

		policy := retry.Policy{
			MaxAttempts: retry.Unlimited, // their ticker has no limit
			Backoff:     retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.NoJitter},
		}
		ticker := retry.NewTicker(t.Context(), policy)
		defer ticker.Stop()
		var err error
		for range ticker.C {
			if err = ours.ping(); err == nil {
				break
			}
		}

		same(t, "outcome", theirs.outcome("ok", oldErr), ours.outcome("ok", err),
			"ok; calls 4, waits [1s 2s 4s]")

		// Without select there is no need for a channel.
		ours.calls = nil
		attempts := policy.Attempts(t.Context())
		defer attempts.Close()
		for attempts.Next() {
			err = ours.ping()
			attempts.Done(err)
		}
		equal(t, "our outcome", ours.outcome("ok", err), "ok; calls 4, waits [1s 2s 4s]")
	})

	row("WithClockProvider, RetryNotifyWithTimer (v4)", func(t *testing.T) {
		// Version 7 has neither and is tested in a bubble.
		start := time.Now()
		theirs, ours := failing(down(2)...)
		backoff.Retry(t.Context(), theirs.get, backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)))
		slept := time.Since(start)

		// Here that works, and a clock too: this call waits on it alone.
		clock := clockx.NewVirtual(start)
		user, err := retry.Do(t.Context(), retry.Policy{
			Backoff: retry.Constant(time.Second),
			Clock:   clock,
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "time slept", slept, clock.Now().Sub(start), 2*time.Second)
		equal(t, "our outcome", ours.outcome(user, err), "ada; calls 3, waits [0s 0s]")
	})
}

// nexts returns the next n waits of a backoff of theirs.
func nexts(b backoff.BackOff, n int) []time.Duration {
	var ds []time.Duration
	for range n {
		ds = append(ds, b.NextBackOff())
	}
	return ds
}

// draw returns a func that draws one of our waits before the numbered retry.
func draw(b retry.Backoff, number int) func() time.Duration {
	return func() time.Duration { return b.Delay(retry.Step{Retry: number, Rand: rand.Float64()}) }
}
