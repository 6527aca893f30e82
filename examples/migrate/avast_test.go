package migrate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

func TestAvastRetryGo(t *testing.T) {
	row := table(t, "avast/retry-go")

	row("New(opts...).Do(f), NewWithData[T](opts...).Do(f)", func(t *testing.T) {
		policy := retry.Policy{Backoff: retry.Constant(time.Second)}

		theirs, ours := failing(errDown, errDown)
		oldErr := avast.New(
			avast.Delay(time.Second), avast.DelayType(avast.FixedDelay),
		).Do(func() error {
			return theirs.ping()
		})
		err := retry.Run(t.Context(), policy, func(context.Context) error {
			return ours.ping()
		})
		same(t, "outcome", theirs.outcome("ok", oldErr), ours.outcome("ok", err),
			"ok; calls 3, waits [1s 1s]")

		theirs, ours = failing(errDown, errDown)
		old, oldErr := avast.NewWithData[string](
			avast.Delay(time.Second), avast.DelayType(avast.FixedDelay),
		).Do(func() (string, error) {
			return theirs.get()
		})
		user, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) {
			return ours.get()
		})
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 3, waits [1s 1s]")
	})

	row("Attempts(n) (10 unless set), UntilSucceeded()", func(t *testing.T) {
		theirs, ours := failing(down(99)...)
		old, oldErr := avast.NewWithData[string](avast.Attempts(4), avast.Delay(0), avast.MaxJitter(0)).Do(theirs.get)
		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Constant(0),
		}, func(context.Context) (string, error) { return ours.get() })
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down; calls 4, waits [0s 0s 0s]")
		// Here the value that came with the last error is not lost.
		equal(t, "their value", old, "")
		equal(t, "our value", user, "call 4")

		theirs, ours = failing(down(99)...)
		avast.New().Do(theirs.ping)
		retry.Run(t.Context(), retry.Policy{}, func(context.Context) error { return ours.ping() })
		equal(t, "their calls unless set", len(theirs.calls), 10)
		equal(t, "our calls unless set", len(ours.calls), 3)

		theirs, ours = failing(down(99)...)
		oldErr = avast.New(avast.UntilSucceeded(), avast.Delay(0), avast.MaxJitter(0)).Do(theirs.ping)
		err = retry.Run(t.Context(), retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff:     retry.Constant(0),
		}, func(context.Context) error { return ours.ping() })
		same(t, "error until succeeded", oldErr, err, nil)
		same(t, "calls until succeeded", len(theirs.calls), len(ours.calls), 100)
	})

	row("Delay(d), MaxDelay(d), BackOffDelay", func(t *testing.T) {
		theirs, ours := failing(down(5)...)

		old, oldErr := avast.NewWithData[string](
			avast.Delay(time.Second),
			avast.MaxDelay(5*time.Second),
			avast.DelayType(avast.BackOffDelay),
		).Do(theirs.get)

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 10,
			Backoff:     retry.Exponential{Base: time.Second, Max: 5 * time.Second, Jitter: retry.NoJitter},
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 6, waits [1s 2s 4s 5s 5s]")

		// Without a maximum theirs grows on; here it is 20 s unless set.
		retrier := avast.New(avast.Delay(time.Second))
		equal(t, "their sixth wait", avast.BackOffDelay(6, nil, retrier), 32*time.Second)
		equal(t, "our sixth wait", retry.Exponential{Base: time.Second, Jitter: retry.NoJitter}.Delay(retry.Step{Retry: 6}),
			20*time.Second)
	})

	row("no DelayType, with MaxJitter(d) (100 ms unless set)", func(t *testing.T) {
		retrier := avast.New(avast.Delay(time.Second))
		unset := avast.CombineDelay(avast.BackOffDelay, avast.RandomDelay)
		window(t, "their second waits", func() time.Duration { return unset(2, nil, retrier) },
			2*time.Second, 2100*time.Millisecond)
		b := retry.Exponential{Base: time.Second, Jitter: retry.Plus(100 * time.Millisecond)}
		window(t, "our second waits", func() time.Duration { return b.Delay(retry.Step{Retry: 2, Rand: rand.Float64()}) },
			2*time.Second, 2100*time.Millisecond)
	})

	row("FixedDelay", func(t *testing.T) {
		theirs, ours := failing(down(3)...)

		old, oldErr := avast.NewWithData[string](
			avast.Delay(time.Second),
			avast.DelayType(avast.FixedDelay),
		).Do(theirs.get)

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 10,
			Backoff:     retry.Constant(time.Second),
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 4, waits [1s 1s 1s]")
	})

	row("FullJitterBackoffDelay", func(t *testing.T) {
		var numbers []uint
		retrier := avast.New(
			avast.Attempts(3),
			avast.Delay(time.Second),
			avast.MaxDelay(5*time.Second),
			avast.DelayType(func(n uint, err error, c avast.DelayContext) time.Duration {
				numbers = append(numbers, n)
				return avast.FullJitterBackoffDelay(n, err, c)
			}),
		)
		theirs, _ := failing(down(9)...)
		retrier.Do(theirs.ping)
		equal(t, "the numbers that a DelayType is given", numbers, []uint{1, 2})

		// Their first wait goes up to twice the Delay, ours up to Base.
		ours := retry.Exponential{Base: 2 * time.Second, Max: 5 * time.Second}

		for i, top := range seconds(2, 4, 5, 5) {
			window(t, "their waits", func() time.Duration {
				return avast.FullJitterBackoffDelay(uint(i+1), nil, retrier)
			}, 0, top)
			window(t, "our waits", draw(ours, i+1), 0, top)
		}
	})

	row("RetryIf(f), Unrecoverable(err)", func(t *testing.T) {
		theirs, ours := failing(errDown, errGone)
		old, oldErr := avast.NewWithData[string](
			avast.Delay(time.Second),
			avast.DelayType(avast.FixedDelay),
			avast.RetryIf(func(err error) bool { return !errors.Is(err, errGone) }),
		).Do(theirs.get)

		policy := retry.Policy{
			Backoff: retry.Constant(time.Second),
			Classify: func(err error) retry.Class {
				if errors.Is(err, errGone) {
					return retry.Permanent
				}
				return retry.Transient
			},
		}
		user, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down, no such user; calls 2, waits [1s]")

		theirs, ours = failing(errDown, errGone)
		old, oldErr = avast.NewWithData[string](
			avast.Delay(time.Second),
			avast.DelayType(avast.FixedDelay),
		).Do(func() (string, error) {
			v, err := theirs.get()
			if errors.Is(err, errGone) {
				return v, avast.Unrecoverable(err)
			}
			return v, err
		})

		policy.Classify = nil
		user, err = retry.Do(t.Context(), policy, func(context.Context) (string, error) {
			v, err := ours.get()
			if errors.Is(err, errGone) {
				return v, retry.Stop(err)
			}
			return v, err
		})

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down, no such user; calls 2, waits [1s]")

		// Their RetryIf overrules Unrecoverable, here Stop overrules Classify.
		theirs, ours = failing(down(9)...)
		avast.New(
			avast.Attempts(3),
			avast.RetryIf(func(error) bool { return true }),
		).Do(func() error { return avast.Unrecoverable(theirs.ping()) })
		retry.Run(t.Context(), retry.Policy{
			Classify: func(error) retry.Class { return retry.Transient },
		}, func(context.Context) error { return retry.Stop(ours.ping()) })
		equal(t, "their calls", len(theirs.calls), 3)
		equal(t, "our calls", len(ours.calls), 1)
	})

	row("OnRetry(f)", func(t *testing.T) {
		var theirNumbers, ourNumbers, ourAttempts []int
		theirs, ours := failing(down(9)...)

		avast.New(
			avast.Attempts(3),
			avast.OnRetry(func(n uint, err error) { theirNumbers = append(theirNumbers, int(n)) }),
		).Do(theirs.ping)

		retry.Run(t.Context(), retry.Policy{
			MaxAttempts: 3,
			Hooks: retry.Hooks{
				Wait: func(_ context.Context, a retry.Attempt) { ourNumbers = append(ourNumbers, a.Number) },
				AttemptDone: func(_ context.Context, a retry.Attempt) {
					if a.Err != nil {
						ourAttempts = append(ourAttempts, a.Number)
					}
				},
			},
		}, func(context.Context) error { return ours.ping() })

		// Theirs counts from 0, and is called for the last error too though no
		// retry follows. That is what AttemptDone is told.
		equal(t, "their numbers", theirNumbers, []int{0, 1, 2})
		equal(t, "our numbers in Wait", ourNumbers, []int{1, 2})
		equal(t, "our numbers in AttemptDone", ourAttempts, []int{1, 2, 3})
	})

	row("Context(ctx)", func(t *testing.T) {
		theirs, ours := failing(down(9)...)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		old, oldErr := avast.NewWithData[string](
			avast.Context(ctx),
			avast.Delay(time.Second),
			avast.DelayType(avast.FixedDelay),
		).Do(theirs.get)

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		user, err := retry.Do(ctx, retry.Policy{
			Backoff: retry.Constant(time.Second),
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down, context canceled; calls 2, waits [1s]")
	})

	row("LastErrorOnly(true)", func(t *testing.T) {
		theirs, ours := failing(errDown, errGone)

		oldErr := avast.New(avast.Attempts(2), avast.LastErrorOnly(true)).Do(theirs.ping)

		err := retry.Run(t.Context(), retry.Policy{
			MaxAttempts: 2,
		}, func(context.Context) error { return ours.ping() })

		var ourLast error
		if e, ok := errors.AsType[*retry.Error](err); ok {
			ourLast = e.Last()
		}
		same(t, "last error", oldErr, ourLast, errGone)
	})

	row("WithFixedTokenBucketThrottle", func(t *testing.T) {
		theirs, ours := failing(down(99)...)

		retrier := avast.New(
			avast.UntilSucceeded(),
			avast.Delay(0), avast.MaxJitter(0),
			avast.WithFixedTokenBucketThrottle(avast.FixedTokenBucketThrottleConfig{}),
		)
		oldErr := retrier.Do(theirs.ping)

		// Their defaults. Ours, those of the AWS SDKs, are 500, 14, 5 and 1.
		tokens := &budget.Token{Capacity: 100, Cost: 5, ThrottleCost: 5, Reward: 1}
		policy := retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff:     retry.Constant(0),
			Budget:      tokens,
		}
		ping := func(context.Context) error { return ours.ping() }
		err := retry.Run(t.Context(), policy, ping)

		same(t, "calls", len(theirs.calls), len(ours.calls), 21)
		same(t, "error found", errors.Is(oldErr, errDown), errors.Is(err, errDown), true)
		equal(t, "they were throttled", errors.Is(oldErr, avast.ErrThrottled), true)
		if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonBudget {
			t.Errorf("our error = %v, want the reason %v", err, retry.ReasonBudget)
		}

		// Five calls that succeed at once pay for one retry.
		for range 5 {
			theirs.errs, ours.errs = nil, nil
			retrier.Do(theirs.ping)
			retry.Run(t.Context(), policy, ping)
		}
		theirs, ours = failing(down(99)...)
		retrier.Do(theirs.ping)
		retry.Run(t.Context(), policy, ping)
		same(t, "calls after five successes", len(theirs.calls), len(ours.calls), 2)

		ours.calls, policy.Budget = nil, &budget.Token{}
		retry.Run(t.Context(), policy, ping)
		equal(t, "our calls with the zero budget", len(ours.calls), 36)
	})
}
