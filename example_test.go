package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// now is a clock for examples: they do not wait.
func now() *clockx.Virtual { return clockx.NewVirtual(epoch) }

// An answer other than 200. By its method DefaultClassifier knows 404 from 503.
type statusError int

func (e statusError) Error() string   { return fmt.Sprintf("status %d", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

// The example of the README: a typed call over HTTP to a server that is not well.
func Example() {
	server := httptest.NewServer(unwell(2))
	defer server.Close()

	// Shared by all calls to this server: retries stop when too many of them fail.
	budget := &retry.TokenBudget{}

	policy := retry.Policy{
		Name:           "fetch-greeting",
		MaxAttempts:    4,
		AttemptTimeout: 2 * time.Second,
		MaxElapsed:     10 * time.Second,
		Backoff:        retry.Exponential{Base: 20 * time.Millisecond, Max: time.Second},
		Budget:         budget,
	}
	greeting, err := retry.Do(context.Background(), policy, func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return "", retry.Stop(err) // asking again will not help
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err // DefaultClassifier knows what it means
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", statusError(resp.StatusCode)
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	})
	fmt.Println(greeting, err)
	// Output: hello <nil>
}

// unwell answers 503 so many times, then says hello.
func unwell(times int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if times--; times >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "hello")
	}
}

func ExampleDo() {
	attempts := 0
	n, err := retry.Do(context.Background(), retry.Policy{Clock: now()}, func(context.Context) (int, error) {
		attempts++
		if attempts < 3 {
			return 0, errors.New("not yet")
		}
		return 42, nil
	})
	fmt.Println(n, err, "after", attempts, "attempts")
	// Output: 42 <nil> after 3 attempts
}

func ExampleRun() {
	policy := retry.Policy{Name: "save", MaxAttempts: 2, Backoff: retry.Constant(time.Second), Clock: now()}
	err := retry.Run(context.Background(), policy, func(context.Context) error {
		return errors.New("disk is busy")
	})
	fmt.Println(err)
	// Output: save: gave up after 2 attempts in 1s (max_attempts): disk is busy
}

func ExampleUntil() {
	states := []string{"pending", "pending", "done"}
	poll := func(context.Context) (string, error) {
		s := states[0]
		states = states[1:]
		return s, nil
	}
	state, err := retry.Do(context.Background(), retry.Policy{Clock: now()},
		retry.Until(poll, func(s string) bool { return s == "done" }))
	fmt.Println(state, err)
	// Output: done <nil>
}

func ExampleAttemptNumber() {
	_ = retry.Run(context.Background(), retry.Policy{Clock: now()}, func(ctx context.Context) error {
		fmt.Println("X-Attempt:", retry.AttemptNumber(ctx))
		return errors.New("again")
	})
	// Output:
	// X-Attempt: 1
	// X-Attempt: 2
	// X-Attempt: 3
}

func ExampleStop() {
	err := retry.Run(context.Background(), retry.Policy{Name: "login", Clock: now()}, func(context.Context) error {
		return retry.Stop(errors.New("wrong password"))
	})
	fmt.Println(err)
	// Output: login: gave up after 1 attempt in 0s (permanent): wrong password
}

func ExampleAfter() {
	clock := now()
	_ = retry.Run(context.Background(), retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Second), Clock: clock}, func(context.Context) error {
		return retry.After(errors.New("come back later"), 30*time.Second) // what the server asked for
	})
	fmt.Println("waited", clock.Now().Sub(epoch))
	// Output: waited 31s
}

func ExampleError() {
	ctx, cancel := context.WithCancelCause(context.Background())
	err := retry.Run(ctx, retry.Policy{Name: "fetch"}, func(context.Context) error {
		cancel(errors.New("the user left"))
		return io.ErrUnexpectedEOF
	})
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Reason, e.Attempts, e.Last(), e.Cause)
	}
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled))
	// Output:
	// canceled 1 unexpected EOF the user left
	// true true
}

func ExampleClassifier() {
	errQuota := errors.New("daily quota used up")
	policy := retry.Policy{
		Name: "report",
		Classify: func(err error) retry.Class {
			if errors.Is(err, errQuota) {
				return retry.Permanent
			}
			return retry.Unknown // DefaultClassifier knows the rest
		},
		Clock: now(),
	}
	err := retry.Run(context.Background(), policy, func(context.Context) error { return errQuota })
	fmt.Println(err)
	// Output: report: gave up after 1 attempt in 0s (permanent): daily quota used up
}

func ExampleAlreadyRetried() {
	calls := 0
	policy := retry.Policy{Clock: now(), Classify: retry.AlreadyRetried}
	inner := func(ctx context.Context) error {
		return retry.Run(ctx, policy, func(context.Context) error { calls++; return errors.New("down") })
	}
	_ = retry.Run(context.Background(), policy, inner)
	fmt.Println(calls, "calls, not 9")
	// Output: 3 calls, not 9
}

func ExampleTokenBudget() {
	budget := &retry.TokenBudget{Capacity: 10, Cost: 5, ThrottleCost: 5}
	policy := retry.Policy{Clock: now(), Budget: budget}
	for range 3 {
		calls := 0
		err := retry.Run(context.Background(), policy, func(context.Context) error { calls++; return errors.New("down") })
		fmt.Println(calls, err.(*retry.Error).Reason)
	}
	// Output:
	// 3 max_attempts
	// 1 budget
	// 1 budget
}

func ExampleRatioBudget() {
	// At most one call in ten is a retry, whatever happens.
	budget := &retry.RatioBudget{Ratio: .1, MinPerSecond: -1}
	policy := retry.Policy{Clock: now(), Budget: budget}
	calls := 0
	for range 1000 {
		_ = retry.Run(context.Background(), policy, func(context.Context) error { calls++; return errors.New("down") })
	}
	fmt.Println(calls)
	// Output: 1100
}

func ExampleConcurrencyBudget() {
	// However long the waits get, only one call at once is in retries.
	policy := retry.Policy{MaxAttempts: 2, Clock: now(), Budget: &retry.ConcurrencyBudget{Ratio: -1, Min: 1}}
	_ = retry.Run(context.Background(), policy, func(ctx context.Context) error {
		err := retry.Run(ctx, policy, func(context.Context) error { return errors.New("down") })
		fmt.Println(retry.AttemptNumber(ctx), err.(*retry.Error).Reason)
		return err
	})
	// Output:
	// 1 max_attempts
	// 2 budget
}

func ExampleExponential() {
	backoff := retry.Exponential{Base: 100 * time.Millisecond, Max: time.Second, Jitter: retry.EqualJitter}
	for n := range 5 {
		step := retry.Step{Retry: n + 1}
		low := backoff.Delay(step)
		step.Rand = 1
		fmt.Println(low, "to", backoff.Delay(step).Round(time.Millisecond))
	}
	// Output:
	// 50ms to 100ms
	// 100ms to 200ms
	// 200ms to 400ms
	// 400ms to 800ms
	// 500ms to 1s
}

func ExampleBackoffFunc() {
	weekly := retry.BackoffFunc(func(s retry.Step) time.Duration { return time.Duration(s.Retry) * 7 * 24 * time.Hour })
	fmt.Println(weekly.Delay(retry.Step{Retry: 2}))
	// Output: 336h0m0s
}

func ExampleHooks() {
	policy := retry.Policy{
		MaxAttempts: 2,
		Backoff:     retry.Constant(time.Second),
		Clock:       now(),
		Hooks: retry.Hooks{
			Wait: func(_ context.Context, a retry.Attempt) {
				fmt.Printf("attempt %d: %v (%v), next in %v\n", a.Number, a.Err, a.Class, a.Delay)
			},
			Done: func(_ context.Context, s retry.Summary) { fmt.Println("ended:", s.Reason) },
		},
	}
	_ = retry.Run(context.Background(), policy, func(context.Context) error { return errors.New("down") })
	// Output:
	// attempt 1: down (transient), next in 1s
	// ended: max_attempts
}

func ExampleSlogHooks() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	policy := retry.Policy{Name: "fetch", MaxAttempts: 2, Backoff: retry.Constant(time.Second), Clock: now(), Hooks: retry.SlogHooks(logger)}
	_ = retry.Run(context.Background(), policy, func(context.Context) error { return errors.New("down") })
	// Output:
	// level=WARN msg="gave up" name=fetch reason=max_attempts attempts=2 elapsed=1s waited=1s error="fetch: gave up after 2 attempts in 1s (max_attempts): down"
}

// A message queue: the wait between two attempts is spent in the queue.
func ExampleLoop() {
	policy := retry.Policy{Backoff: retry.Exponential{Base: time.Minute, Max: time.Hour, Jitter: retry.NoJitter}}
	now := epoch
	loop := policy.Start(now)
	for {
		err := errors.New("handler failed")
		wait, ok := loop.Next(now, err)
		if !ok {
			fmt.Println("to the dead letters:", loop.Err())
			return
		}
		fmt.Println("deliver again in", wait)
		now = now.Add(wait)
	}
	// Output:
	// deliver again in 1m0s
	// deliver again in 2m0s
	// to the dead letters: retry: gave up after 3 attempts in 3m0s (max_attempts): handler failed
}

func ExamplePolicy_Resume() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Minute)}
	loop := policy.Resume(epoch, 4, 4*time.Minute) // as the message's headers say
	_, ok := loop.Next(epoch, errors.New("handler failed"))
	fmt.Println(ok, loop.Err())
	// Output: false retry: gave up after 5 attempts in 4m0s (max_attempts): handler failed
}

func ExampleTicks() {
	policy := retry.Policy{MaxAttempts: 5, Clock: now()}
	for n := range retry.Ticks(context.Background(), policy) {
		if n == 3 {
			fmt.Println("found it")
			break
		}
		fmt.Println("nothing yet")
	}
	// Output:
	// nothing yet
	// nothing yet
	// found it
}

func ExampleNewTicker() {
	ticker := retry.NewTicker(context.Background(), retry.Policy{MaxAttempts: 2, Clock: now()})
	defer ticker.Stop()
	done := make(chan struct{})
	for {
		select {
		case _, ok := <-ticker.C:
			if !ok {
				fmt.Println("over")
				return
			}
			fmt.Println("tick")
		case <-done:
			return
		}
	}
	// Output:
	// tick
	// tick
	// over
}
