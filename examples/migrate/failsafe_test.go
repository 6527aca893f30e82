package migrate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	failsafebudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/goretry/retry"
)

func TestFailsafeGo(t *testing.T) {
	row := table(t, "failsafe-go, `retrypolicy`")

	row("failsafe.With(policy).Get(f)", func(t *testing.T) {
		theirs, ours := failing(errDown, errDown)

		oldPolicy := retrypolicy.NewBuilder[string]().WithDelay(time.Second).Build()
		old, oldErr := failsafe.With(oldPolicy).WithContext(t.Context()).Get(func() (string, error) {
			return theirs.get()
		})

		policy := retry.Policy{Backoff: retry.Constant(time.Second)}
		user, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) {
			return ours.get()
		})

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 3, waits [1s 1s]")

		// Unless set, both make three attempts, but theirs does not wait.
		theirs, ours = failing(down(9)...)
		old, oldErr = failsafe.With(retrypolicy.NewWithDefaults[string]()).Get(theirs.get)
		user, err = retry.Do(t.Context(), retry.Policy{
			Backoff: retry.Constant(0),
		}, func(context.Context) (string, error) { return ours.get() })
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"server is down; calls 3, waits [0s 0s]")
		// Here the value that came with the last error is not lost.
		equal(t, "their value", old, "")
		equal(t, "our value", user, "call 3")
	})

	row("WithMaxAttempts(n), WithMaxRetries(n)", func(t *testing.T) {
		for _, builder := range []retrypolicy.Builder[string]{
			retrypolicy.NewBuilder[string]().WithMaxAttempts(4),
			retrypolicy.NewBuilder[string]().WithMaxRetries(3),
		} {
			theirs, ours := failing(down(9)...)
			old, oldErr := failsafe.With(builder.WithDelay(time.Second).Build()).Get(theirs.get)
			user, err := retry.Do(t.Context(), retry.Policy{
				MaxAttempts: 4,
				Backoff:     retry.Constant(time.Second),
			}, func(context.Context) (string, error) { return ours.get() })
			same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
				"server is down; calls 4, waits [1s 1s 1s]")
		}

		// No limit is -1 in both.
		theirs, ours := failing(down(99)...)
		failsafe.With(retrypolicy.NewBuilder[string]().WithMaxAttempts(-1).Build()).Get(theirs.get)
		retry.Run(t.Context(), retry.Policy{
			MaxAttempts: -1, // or retry.Unlimited
			Backoff:     retry.Constant(0),
		}, func(context.Context) error { return ours.ping() })
		same(t, "calls without a limit", len(theirs.calls), len(ours.calls), 100)
	})

	row("WithDelay(d)", func(t *testing.T) {
		theirs, ours := failing(down(2)...)

		old, oldErr := failsafe.With(retrypolicy.NewBuilder[string]().
			WithDelay(time.Second).
			Build()).Get(theirs.get)

		user, err := retry.Do(t.Context(), retry.Policy{
			Backoff: retry.Constant(time.Second),
		}, func(context.Context) (string, error) { return ours.get() })

		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err), "ada; calls 3, waits [1s 1s]")
	})

	row("WithBackoff(d, max), WithBackoffFactor", func(t *testing.T) {
		theirs, ours := failing(down(4)...)
		old, oldErr := failsafe.With(retrypolicy.NewBuilder[string]().
			WithMaxAttempts(5).
			WithBackoff(time.Second, 5*time.Second).
			Build()).Get(theirs.get)
		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 5,
			Backoff:     retry.Exponential{Base: time.Second, Max: 5 * time.Second, Jitter: retry.NoJitter},
		}, func(context.Context) (string, error) { return ours.get() })
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 5, waits [1s 2s 4s 5s]")

		theirs, ours = failing(down(4)...)
		old, oldErr = failsafe.With(retrypolicy.NewBuilder[string]().
			WithMaxAttempts(5).
			WithBackoffFactor(time.Second, 5*time.Second, 1.5).
			Build()).Get(theirs.get)
		user, err = retry.Do(t.Context(), retry.Policy{
			MaxAttempts: 5,
			Backoff:     retry.Exponential{Base: time.Second, Max: 5 * time.Second, Factor: 1.5, Jitter: retry.NoJitter},
		}, func(context.Context) (string, error) { return ours.get() })
		same(t, "outcome", theirs.outcome(old, oldErr), ours.outcome(user, err),
			"ada; calls 5, waits [1s 1.5s 2.25s 3.375s]")
	})

	row("WithJitterFactor(f)", func(t *testing.T) {
		scheduled := func(b retrypolicy.Builder[string]) func() time.Duration {
			var delay time.Duration
			policy := b.WithMaxRetries(1).OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[string]) {
				delay = e.Delay
			}).Build()
			return func() time.Duration {
				service, _ := failing(errDown)
				failsafe.With(policy).Get(service.get)
				return delay
			}
		}

		old := retrypolicy.NewBuilder[string]().WithBackoff(4*time.Second, time.Minute).WithJitterFactor(.25)
		window(t, "their waits", scheduled(old), 3*time.Second, 5*time.Second)
		window(t, "our waits",
			draw(retry.Exponential{Base: 4 * time.Second, Max: time.Minute, Jitter: retry.PlusMinus(.25)}, 1),
			3*time.Second, 5*time.Second)

		// A wait that is always the same has no Jitter field: Factor 1 is that.
		old = retrypolicy.NewBuilder[string]().WithDelay(4 * time.Second).WithJitterFactor(.25)
		window(t, "their constant waits", scheduled(old), 3*time.Second, 5*time.Second)
		window(t, "our constant waits",
			draw(retry.Exponential{Base: 4 * time.Second, Factor: 1, Jitter: retry.PlusMinus(.25)}, 9),
			3*time.Second, 5*time.Second)

		// At the maximum theirs jitters past it. Here the window is scaled down:
		// its top is Max.
		old = retrypolicy.NewBuilder[string]().WithBackoff(4*time.Second, 4*time.Second).WithJitterFactor(.25)
		window(t, "their waits at the maximum", scheduled(old), 3*time.Second, 5*time.Second)
		window(t, "our waits at the maximum",
			draw(retry.Exponential{Base: 4 * time.Second, Max: 4 * time.Second, Jitter: retry.PlusMinus(.25)}, 1),
			2400*time.Millisecond, 4*time.Second)
	})

	row("WithMaxDuration(d)", func(t *testing.T) {
		theirs, ours := failing(down(9)...)

		old, oldErr := failsafe.With(retrypolicy.NewBuilder[string]().
			WithMaxRetries(-1).
			WithDelay(2 * time.Second).
			WithMaxDuration(5 * time.Second).
			Build()).Get(func() (string, error) {
			defer time.Sleep(time.Millisecond) // theirs ends only once the time has passed
			return theirs.get()
		})

		user, err := retry.Do(t.Context(), retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff:     retry.Constant(2 * time.Second),
			MaxElapsed:  5 * time.Second,
		}, func(context.Context) (string, error) {
			defer time.Sleep(time.Millisecond)
			return ours.get()
		})

		// Theirs cuts the last wait short for one more call; here a wait that
		// would end later is not begun.
		equal(t, "their outcome", theirs.outcome(old, oldErr), "server is down; calls 4, waits [2.001s 2.001s 998ms]")
		equal(t, "our outcome", ours.outcome(user, err), "server is down; calls 3, waits [2.001s 2.001s]")
	})

	row("HandleIf, AbortIf, AbortOnErrors", func(t *testing.T) {
		// Retry nothing but these.
		handleIf := retrypolicy.NewBuilder[string]().HandleIf(func(_ string, err error) bool {
			return errors.Is(err, errDown)
		})
		only := func(err error) retry.Class {
			if errors.Is(err, errDown) {
				return retry.Transient
			}
			return retry.Permanent
		}

		// Retry everything but these.
		abortIf := retrypolicy.NewBuilder[string]().AbortIf(func(_ string, err error) bool {
			return errors.Is(err, errGone)
		})
		abortOnErrors := retrypolicy.NewBuilder[string]().AbortOnErrors(errGone)
		allBut := func(err error) retry.Class {
			if errors.Is(err, errGone) {
				return retry.Permanent
			}
			return retry.Transient
		}

		for _, pair := range []struct {
			name     string
			old      retrypolicy.Builder[string]
			classify retry.Classifier
		}{
			{"HandleIf", handleIf, only},
			{"AbortIf", abortIf, allBut},
			{"AbortOnErrors", abortOnErrors, allBut},
		} {
			theirs, ours := failing(errDown, errGone)
			old, oldErr := failsafe.With(pair.old.WithDelay(time.Second).Build()).Get(theirs.get)
			user, err := retry.Do(t.Context(), retry.Policy{
				Backoff:  retry.Constant(time.Second),
				Classify: pair.classify,
			}, func(context.Context) (string, error) { return ours.get() })

			// Theirs hands on the error as it is, without those before it.
			equal(t, "their outcome of "+pair.name, theirs.outcome(old, oldErr),
				"no such user; calls 2, waits [1s]")
			equal(t, "our outcome of "+pair.name, ours.outcome(user, err),
				"server is down, no such user; calls 2, waits [1s]")
			same(t, "last error", oldErr, last(err), errGone)
			same(t, "value", old, user, "call 2")
		}
	})

	row("HandleResult, AbortOnResult", func(t *testing.T) {
		// jobs returns a poll of a job that goes through these states.
		jobs := func(states ...string) func() (string, error) {
			return func() (string, error) {
				state := states[0]
				states = states[min(1, len(states)-1):]
				return state, nil
			}
		}
		handleResult := failsafe.With(retrypolicy.NewBuilder[string]().
			HandleResult("queued").
			HandleResult("running").
			AbortOnResult("running"). // of those that are handled
			WithDelay(time.Second).
			Build())
		policy := retry.Policy{Backoff: retry.Constant(time.Second)}
		poll := func(job func() (string, error)) (string, error) {
			return retry.Do(t.Context(), policy, retry.Until(
				func(context.Context) (string, error) { return job() },
				func(state string) bool { return state != "queued" },
			))
		}

		for _, states := range [][]string{{"queued", "queued", "done"}, {"queued", "running"}} {
			start := time.Now()
			old, oldErr := handleResult.Get(jobs(states...))
			theirTime := time.Since(start)
			state, err := poll(jobs(states...))
			same(t, "state", old, state, states[len(states)-1])
			same(t, "error", oldErr, err, nil)
			same(t, "time", theirTime, time.Since(start)-theirTime, time.Duration(len(states)-1)*time.Second)
		}

		// What never comes is an error. Here the last value is not lost.
		old, oldErr := handleResult.Get(jobs("queued"))
		state, err := poll(jobs("queued"))
		equal(t, "their value", old, "")
		equal(t, "our value", state, "queued")
		equal(t, "they exceeded", errors.Is(oldErr, retrypolicy.ErrExceeded), true)
		equal(t, "we rejected", errors.Is(err, retry.ErrRejected), true)
	})

	row("WithBudget(b)", func(t *testing.T) {
		// Five calls at once, each of which fails after a second. In both libraries
		// three retries may be in flight unless set otherwise: two are refused.
		five := func(call func(slow func() (string, error)) error) (calls, found int) {
			var (
				wg       sync.WaitGroup
				services [5]*service
				errs     [5]error
			)
			for i := range services {
				services[i], _ = failing(down(9)...)
				wg.Go(func() {
					errs[i] = call(func() (string, error) {
						time.Sleep(time.Second)
						return services[i].get()
					})
				})
				time.Sleep(time.Millisecond) // one after the other, so that it is known which are refused
			}
			wg.Wait()
			for i := range services {
				calls += len(services[i].calls)
				if errors.Is(errs[i], errDown) {
					found++
				}
			}
			return calls, found
		}

		oldPolicy := retrypolicy.NewBuilder[string]().WithMaxAttempts(2).WithBudget(failsafebudget.New()).Build()
		theirCalls, theirFound := five(func(slow func() (string, error)) error {
			_, err := failsafe.With(oldPolicy).Get(slow)
			return err
		})

		policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Budget: &retry.EarnedBudget{}}
		ourCalls, ourFound := five(func(slow func() (string, error)) error {
			_, err := retry.Do(t.Context(), policy, func(context.Context) (string, error) { return slow() })
			return err
		})

		equal(t, "their calls", theirCalls, 5+3)
		equal(t, "our calls", ourCalls, 5+4)
		// Where theirs refuses, its ErrExceeded is all that is returned.
		equal(t, "their errors in which the service's is found", theirFound, 3)
		equal(t, "our errors in which the service's is found", ourFound, 5)
	})

	row("OnRetryScheduled, OnRetry, OnRetriesExceeded", func(t *testing.T) {
		var theirEvents, ourEvents []string
		theirs, ours := failing(down(9)...)

		failsafe.With(retrypolicy.NewBuilder[string]().
			WithDelay(time.Second).
			OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[string]) {
				theirEvents = append(theirEvents, "wait "+e.Delay.String())
			}).
			OnRetry(func(failsafe.ExecutionEvent[string]) {
				theirEvents = append(theirEvents, "retry")
			}).
			OnRetriesExceeded(func(failsafe.ExecutionEvent[string]) {
				theirEvents = append(theirEvents, "exceeded")
			}).
			Build()).Get(theirs.get)

		policy := retry.Policy{
			Backoff: retry.Constant(time.Second),
			Hooks: retry.Hooks{
				Wait: func(_ context.Context, a retry.Attempt) {
					ourEvents = append(ourEvents, "wait "+a.Delay.String())
				},
				Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
					if a.Number > 1 { // it is called before the first one too
						ourEvents = append(ourEvents, "retry")
					}
					return ctx
				},
				Done: func(_ context.Context, s retry.Summary) {
					// It is called at every end.
					if s.Reason == retry.ReasonMaxAttempts || s.Reason == retry.ReasonMaxElapsed {
						ourEvents = append(ourEvents, "exceeded")
					}
				},
			},
		}
		retry.Do(t.Context(), policy, func(context.Context) (string, error) { return ours.get() })

		same(t, "events", theirEvents, ourEvents, []string{"wait 1s", "retry", "wait 1s", "retry", "exceeded"})
	})
}
