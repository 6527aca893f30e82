package retryqueue_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

// Deliver is what a consumer of any queue does with a delivery. The queue says how
// often it has delivered the message, and when the message was first stored.
func Example() {
	policy := retry.Policy{
		Name:        "send-invoice",
		MaxAttempts: 3,
		Backoff:     retry.Exponential{Base: time.Minute, Max: time.Hour, Jitter: retry.NoJitter},
	}
	deliver := func(delivered int, first, now time.Time, handle func() error) string {
		if d, run := retryqueue.Before(policy, delivered, first, now); !run {
			return fmt.Sprintf("%v: %v", d.Action, d.Err)
		}
		switch d := retryqueue.After(policy, delivered, first, now, handle()); d.Action {
		case retryqueue.Ack:
			return "done"
		case retryqueue.Retry:
			return fmt.Sprintf("again in %v", d.Delay)
		default:
			return fmt.Sprintf("%v: %v", d.Action, d.Err)
		}
	}

	down := func() error { return errors.New("connection refused") }
	first := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	fmt.Println(deliver(1, first, first, down))
	fmt.Println(deliver(2, first, first.Add(time.Minute), down))
	fmt.Println(deliver(3, first, first.Add(3*time.Minute), down))
	// Output:
	// again in 1m0s
	// again in 2m0s
	// dead: send-invoice: gave up after 3 attempts in 3m0s (max_attempts): connection refused
}

// A message whose handler kills the process never reaches After. Before stops it.
func ExampleBefore() {
	policy := retry.Policy{Name: "resize-image", MaxAttempts: 5}
	first := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	d, run := retryqueue.Before(policy, 6, first, first.Add(3*time.Minute))
	fmt.Println(run, d.Action)
	fmt.Println(d.Err)
	fmt.Println(errors.Is(d.Err, retryqueue.ErrCrashed))
	// Output:
	// false dead
	// resize-image: gave up after 5 attempts in 3m0s (max_attempts): retryqueue: a delivery ended without a report
	// true
}

// An empty budget puts a retry off, and does not end it.
func ExampleAfter_budget() {
	policy := retry.Policy{
		Backoff: retry.Constant(time.Minute),
		Budget:  &retry.TokenBudget{Capacity: -1}, // never has a token
	}
	now := time.Now()
	d := retryqueue.After(policy, 1, now, now, errors.New("connection refused"))
	fmt.Println(d.Action, d.Delay, d.Err.Reason)
	// Output: retry 2m1s budget
}
