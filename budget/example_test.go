package budget_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
)

// now is a clock on which waits take no time.
var now = clockx.NewVirtual(time.Now())

func ExampleToken() {
	tokens := &budget.Token{Capacity: 10, Cost: 5, ThrottleCost: 5}
	policy := retry.Policy{Clock: now, Budget: tokens}
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

func ExampleRatio() {
	// For ten calls that succeed, at most one retry.
	tenth := &budget.Ratio{Ratio: .1}
	policy := retry.Policy{Clock: now, Budget: tenth}
	for range 1000 {
		_ = retry.Run(context.Background(), policy, func(context.Context) error { return nil })
	}
	calls := 0
	for range 1000 {
		_ = retry.Run(context.Background(), policy, func(context.Context) error { calls++; return errors.New("down") })
	}
	fmt.Println(calls, "calls of 1000 runs that failed")
	// Output: 1100 calls of 1000 runs that failed
}
