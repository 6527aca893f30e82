package migrate_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	sethvargo "github.com/sethvargo/go-retry"

	"github.com/goretry/retry"
)

func TestSethvargoGoRetry(t *testing.T) {
	row := table(t, "sethvargo/go-retry")

	row("Do(ctx, b, f), DoValue(ctx, b, f)", func(t *testing.T) {
		backoff := sethvargo.NewConstant(time.Second)
		policy := retry.Policy{Backoff: retry.Constant(time.Second)}

		theirs, ours := failing(errDown, errDown)
		oldErr := sethvargo.Do(t.Context(), backoff, func(context.Context) error {
			return sethvargo.RetryableError(theirs.ping())
		})
		err := retry.Run(t.Context(), policy, func(context.Context) error {
			return ours.ping()
		})
		same(t, "outcome", theirs.outcome("ok", oldErr), ours.outcome("ok", err),
			"ok; calls 3, waits [1s 1s]")

		theirs, ours = failing(errDown, errDown)
		old, oldErr := sethvargo.DoValue(t.Context(), backoff, func(context.Context) (string, error) {
			v, err := theirs.get()
			return v, sethvargo.RetryableError(err)
		})
		user, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) {
			return ours.get()
		})
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 3, waits [1s 1s]")
	})

	row("RetryableError(err): others are not retried", func(t *testing.T) {
		backoff := sethvargo.NewConstant(time.Second)
		policy := retry.Policy{Backoff: retry.Constant(time.Second)}

		theirs, ours := failing(errDown, errGone)
		old, oldErr := sethvargo.DoValue(t.Context(), backoff, func(context.Context) (string, error) {
			v, err := theirs.get()
			if errors.Is(err, errDown) {
				return v, sethvargo.RetryableError(err)
			}
			return v, err
		})

		user, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) {
			v, err := ours.get()
			if err != nil && !errors.Is(err, errDown) {
				return v, retry.Stop(err)
			}
			return v, err
		})

		equal(t, "their outcome", theirs.outcome(old, oldErr), "no such user; calls 2, waits [1s]")
		equal(t, "our outcome", ours.outcome(user, err), "server is down, no such user; calls 2, waits [1s]")
		same(t, "last error", oldErr, last(err), errGone)
		equal(t, "their value", old, "")
		equal(t, "our value", user, "call 2")

		// Without a mark.
		theirs, ours = failing(down(2)...)
		oldErr = sethvargo.Do(t.Context(), backoff, func(context.Context) error { return theirs.ping() })
		err = retry.Run(t.Context(), policy, func(context.Context) error { return ours.ping() })
		equal(t, "their outcome", theirs.outcome("ok", oldErr), "server is down; calls 1, waits []")
		equal(t, "our outcome", ours.outcome("ok", err), "ok; calls 3, waits [1s 1s]")

		// Their way round: nothing is retried but what Classify knows.
		ours.calls, ours.errs = nil, []error{errDown, errGone, errDown}
		policy.Classify = func(err error) retry.Class {
			if errors.Is(err, errDown) {
				return retry.Transient
			}
			return retry.Permanent
		}
		user, err = retry.Do(t.Context(), policy, func(context.Context) (string, error) { return ours.get() })
		equal(t, "our outcome", ours.outcome(user, err), "server is down, no such user; calls 2, waits [1s]")
	})

	row("NewConstant(d), NewExponential(d), NewFibonacci(d)", func(t *testing.T) {
		same(t, "constant waits",
			steps(sethvargo.NewConstant(time.Second), 3),
			delays(retry.Constant(time.Second), 3),
			seconds(1, 1, 1))

		same(t, "exponential waits",
			steps(sethvargo.NewExponential(time.Second), 5),
			delays(retry.Exponential{Base: time.Second, Jitter: retry.NoJitter}, 5),
			seconds(1, 2, 4, 8, 16))

		same(t, "Fibonacci waits",
			steps(sethvargo.NewFibonacci(time.Second), 5),
			delays(fibonacci(time.Second, math.MaxInt64), 5),
			seconds(1, 2, 3, 5, 8))

		// Theirs grow without end. Here Max is 20 s unless set.
		equal(t, "their exponential waits", steps(sethvargo.NewExponential(10*time.Second), 4), seconds(10, 20, 40, 80))
		equal(t, "our exponential waits", delays(retry.Exponential{Base: 10 * time.Second, Jitter: retry.NoJitter}, 4),
			seconds(10, 20, 20, 20))
	})

	row("WithMaxRetries(n, b)", func(t *testing.T) {
		backoff := sethvargo.WithMaxRetries(3, sethvargo.NewConstant(time.Second))
		policy := retry.Policy{MaxAttempts: 3 + 1, Backoff: retry.Constant(time.Second)}

		theirs, ours := failing(down(9)...)
		old, oldErr := sethvargo.DoValue(t.Context(), backoff, func(context.Context) (string, error) {
			v, err := theirs.get()
			return v, sethvargo.RetryableError(err)
		})
		user, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) {
			return ours.get()
		})
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down; calls 4, waits [1s 1s 1s]")

		// Their backoff is used up by one call, a policy is not.
		theirs, ours = failing(down(9)...)
		sethvargo.Do(t.Context(), backoff, func(context.Context) error { return sethvargo.RetryableError(theirs.ping()) })
		retry.Run(t.Context(), policy, func(context.Context) error { return ours.ping() })
		equal(t, "their calls the second time", len(theirs.calls), 1)
		equal(t, "our calls the second time", len(ours.calls), 4)
	})

	row("WithCappedDuration(d, b)", func(t *testing.T) {
		same(t, "exponential waits",
			steps(sethvargo.WithCappedDuration(5*time.Second, sethvargo.NewExponential(time.Second)), 5),
			delays(retry.Exponential{Base: time.Second, Max: 5 * time.Second, Jitter: retry.NoJitter}, 5),
			seconds(1, 2, 4, 5, 5))

		same(t, "Fibonacci waits",
			steps(sethvargo.WithCappedDuration(5*time.Second, sethvargo.NewFibonacci(time.Second)), 5),
			delays(fibonacci(time.Second, 5*time.Second), 5),
			seconds(1, 2, 3, 5, 5))
	})

	row("WithMaxDuration(d, b)", func(t *testing.T) {
		theirs, ours := failing(down(9)...)

		// Their time runs from here on, ours from Do.
		backoff := sethvargo.WithMaxDuration(5*time.Second, sethvargo.NewConstant(2*time.Second))
		old, oldErr := sethvargo.DoValue(t.Context(), backoff, func(context.Context) (string, error) {
			v, err := theirs.get()
			return v, sethvargo.RetryableError(err)
		})

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: retry.Unlimited,
			MaxElapsed:  5 * time.Second,
			Backoff:     retry.Constant(2 * time.Second),
		}, func(context.Context) (string, error) { return ours.get() })

		// Theirs cuts the last wait short for one more call; here a wait that
		// would end later is not begun.
		equal(t, "their outcome", theirs.outcome(old, oldErr), "server is down; calls 4, waits [2s 2s 1s]")
		equal(t, "our outcome", ours.outcome(user, err), "server is down; calls 3, waits [2s 2s]")
	})

	row("WithFullJitter(b), WithJitterPercent(p, b)", func(t *testing.T) {
		third := func(wrap func(sethvargo.Backoff) sethvargo.Backoff) func() time.Duration {
			return func() time.Duration {
				return steps(wrap(sethvargo.NewExponential(time.Second)), 3)[2]
			}
		}

		window(t, "their waits with full jitter", third(sethvargo.WithFullJitter), 0, 4*time.Second)
		window(t, "our waits with full jitter",
			draw(retry.Exponential{Base: time.Second, Jitter: retry.FullJitter}, 3), 0, 4*time.Second)

		var p uint64 = 25
		window(t, "their waits ± 25 %", third(func(b sethvargo.Backoff) sethvargo.Backoff {
			return sethvargo.WithJitterPercent(p, b)
		}), 3*time.Second, 5*time.Second)
		window(t, "our waits ± 25 %",
			draw(retry.Exponential{Base: time.Second, Jitter: retry.PlusMinus(float64(p) / 100)}, 3),
			3*time.Second, 5*time.Second)

		// A wait that is always the same has no Jitter field: Factor 1 is that.
		window(t, "our constant waits ± 25 %",
			draw(retry.Exponential{Base: 4 * time.Second, Factor: 1, Jitter: retry.PlusMinus(.25)}, 3),
			3*time.Second, 5*time.Second)

		// Jitter around a cap passes it; here Max is the top.
		window(t, "their waits ± 25 % around a cap", third(func(b sethvargo.Backoff) sethvargo.Backoff {
			return sethvargo.WithJitterPercent(p, sethvargo.WithCappedDuration(2*time.Second, b))
		}), 1500*time.Millisecond, 2500*time.Millisecond)
		window(t, "our waits ± 25 % below a Max",
			draw(retry.Exponential{Base: time.Second, Max: 2 * time.Second, Jitter: retry.PlusMinus(.25)}, 3),
			1200*time.Millisecond, 2*time.Second)
	})
}

// steps returns the next n waits of a backoff of theirs.
func steps(b sethvargo.Backoff, n int) []time.Duration {
	var ds []time.Duration
	for range n {
		if d, stop := b.Next(); !stop {
			ds = append(ds, d)
		}
	}
	return ds
}

// fibonacci returns a backoff of base times 1, 2, 3, 5, 8 and so on, but of most at most.
func fibonacci(base, most time.Duration) retry.BackoffFunc {
	return func(s retry.Step) time.Duration {
		wait, next := base, 2*base
		for n := 1; n < s.Retry && wait < most && next > 0; n++ { // it overflows after ninety retries
			wait, next = next, wait+next
		}
		return min(wait, most)
	}
}
