package pace_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

// The provider allows 120 requests in a minute, of which three may come at once.
func ExamplePace() {
	clock := clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	model := pace.Pace{Quota: 120, Per: time.Minute, Burst: 3}
	p := retry.Policy{Clock: clock, Guards: []retry.Guard{&model}}
	begin := clock.Now()
	for range 5 {
		_ = retry.Run(context.Background(), p, func(context.Context) error {
			fmt.Println(clock.Now().Sub(begin).Round(time.Millisecond))
			return nil
		})
	}
	// Output:
	// 0s
	// 0s
	// 0s
	// 500ms
	// 1s
}

// An attempt may cost more than one unit of the quota. Here the unit is a token of a model.
func ExampleWithCost() {
	clock := clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	tokens := pace.Pace{Quota: 60_000, Per: time.Minute, Burst: 1000}
	p := retry.Policy{Clock: clock, Guards: []retry.Guard{&tokens}}
	begin := clock.Now()
	for range 3 {
		_ = retry.Run(pace.WithCost(context.Background(), 1000), p, func(context.Context) error {
			fmt.Println(clock.Now().Sub(begin).Round(time.Millisecond))
			return nil
		})
	}
	// Output:
	// 0s
	// 1s
	// 2s
}

// unreachable is a Store that is down. Package retryredis and package retrynats have real ones.
type unreachable struct{}

func (unreachable) Reserve(context.Context, pace.Ask) (pace.Slots, error) {
	return pace.Slots{}, errors.New("connection refused")
}

func (unreachable) News(context.Context) <-chan struct{} { return nil }

func ExamplePace_Share() {
	model := pace.Pace{Quota: 500, Per: time.Minute}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop() // after the last call
	_ = model.Share(ctx, unreachable{})

	// It goes on alone, and says why.
	s := model.Status()
	fmt.Printf("%.2f in a second, shared: %t, %v\n", s.Quota, s.Shared, s.Err)
	// Output: 8.33 in a second, shared: false, connection refused
}
