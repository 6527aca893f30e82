package retryqueue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
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
	deliver := func(m retryqueue.Delivery, handle func() error) string {
		if d, run := m.Before(policy); !run {
			return fmt.Sprintf("%v: %v", d.Action, d.Err)
		}
		switch d := m.After(policy, handle()); d.Action {
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
	fmt.Println(deliver(retryqueue.Delivery{Number: 1, Stored: first, Now: first}, down))
	fmt.Println(deliver(retryqueue.Delivery{Number: 2, Stored: first, Now: first.Add(time.Minute)}, down))
	fmt.Println(deliver(retryqueue.Delivery{Number: 3, Stored: first, Now: first.Add(3 * time.Minute)}, down))
	// Output:
	// again in 1m0s
	// again in 2m0s
	// dead: send-invoice: gave up after 3 attempts in 3m0s (max_attempts): connection refused
}

// A message whose handler kills the process never reaches After. Before stops it.
func ExampleDelivery_Before() {
	policy := retry.Policy{Name: "resize-image", MaxAttempts: 5}
	first := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	d, run := retryqueue.Delivery{Number: 6, Stored: first, Now: first.Add(3 * time.Minute)}.Before(policy)
	fmt.Println(run, d.Action)
	fmt.Println(d.Err)
	fmt.Println(errors.Is(d.Err, retryqueue.ErrCrashed))
	// Output:
	// false dead
	// resize-image: gave up after 5 attempts in 3m0s (max_attempts): retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement
	// true
}

// An empty budget puts a retry off, and does not end it.
func ExampleDelivery_After_budget() {
	policy := retry.Policy{
		Backoff: retry.Constant(time.Minute),
		Budget:  &budget.Token{Capacity: -1}, // never has a token
	}
	now := time.Now()
	d := retryqueue.Delivery{Number: 1, Stored: now, Now: now}.After(policy, errors.New("connection refused"))
	fmt.Println(d.Action, d.Delay, d.Err.Reason)
	// Output: retry 2m1s budget
}

// worker takes messages off a queue while what they need is up.
type worker struct {
	receive func(context.Context) (id string, err error)
	handle  func(ctx context.Context, id string) error
}

// billing is the gate of one dependency. All handlers that need it share it.
var billing = &retryqueue.Gate{Changed: func(closed error) {
	if closed != nil {
		fmt.Println("billing is down:", closed)
	} else {
		fmt.Println("billing works again")
	}
}}

func (w worker) run(ctx context.Context) error {
	for {
		done, err := billing.Wait(ctx) // before the receive: what is not received is not counted
		if err != nil {
			return err
		}
		id, err := w.receive(ctx)
		if err != nil {
			done("", retry.Stop(err)) // it says nothing about billing
			return err
		}
		done(id, w.handle(ctx, id))
	}
}

// While billing is down its messages stay in their queue, but for a probe now and then.
func ExampleGate() {
	n := 0
	w := worker{
		receive: func(context.Context) (string, error) {
			if n++; n > 12 {
				return "", io.EOF
			}
			return fmt.Sprint(n), nil
		},
		handle: func(context.Context, string) error {
			time.Sleep(150 * time.Millisecond)
			if n < 8 {
				return errors.New("503")
			}
			return nil
		},
	}
	_ = w.run(context.Background())
	since, _, _ := billing.Closed()
	fmt.Println("closed:", !since.IsZero())
	// Output:
	// billing is down: 503
	// billing works again
	// closed: false
}
