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

// What a completion costs is known when it is there. Here it is half of what was expected.
func ExampleSpent() {
	clock := clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	tokens := pace.Pace{Quota: 60_000, Per: time.Minute, Burst: 1000}
	p := retry.Policy{Clock: clock, Guards: []retry.Guard{&tokens}}
	begin := clock.Now()
	for range 3 {
		_ = retry.Run(pace.WithCost(context.Background(), 1000), p, func(ctx context.Context) error {
			fmt.Println(clock.Now().Sub(begin).Round(time.Millisecond))
			pace.Spent(ctx, 500)
			return nil
		})
	}
	// Output:
	// 0s
	// 500ms
	// 1s
}

// tokens is the pace of the tokens of a model. Its requests have a pace of their own, which must not
// see how many tokens each of them takes.
type tokens struct{ pace.Pace }

func (t *tokens) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	size, _ := ctx.Value(sizeKey{}).(float64)
	return t.Pace.Enter(pace.WithCost(ctx, size), e)
}

type sizeKey struct{}

// The provider allows 120 requests and 30 000 tokens in a minute: two quotas, so two paces.
func ExamplePace_twoQuotas() {
	clock := clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	requests := pace.Pace{Quota: 120, Per: time.Minute}
	tokens := tokens{pace.Pace{Quota: 30_000, Per: time.Minute, Burst: 2000}}
	p := retry.Policy{Clock: clock, Guards: []retry.Guard{&requests, &tokens}}
	begin := clock.Now()
	for _, size := range []float64{2000, 100, 100, 1500} {
		ctx := context.WithValue(context.Background(), sizeKey{}, size)
		_ = retry.Run(ctx, p, func(context.Context) error {
			fmt.Println(size, "tokens after", clock.Now().Sub(begin).Round(time.Millisecond))
			return nil
		})
	}
	// Output:
	// 2000 tokens after 0s
	// 100 tokens after 500ms
	// 100 tokens after 1s
	// 1500 tokens after 3.4s
}

// A response says: 120 requests in a minute, of which two are left.
func ExamplePace_Tell() {
	clock := clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	model := pace.Pace{Clock: clock}
	model.Tell(120, time.Minute, 2, model.Started())
	p := retry.Policy{Clock: clock, Guards: []retry.Guard{&model}}
	begin := clock.Now()
	for range 4 {
		_ = retry.Run(context.Background(), p, func(context.Context) error {
			fmt.Println(clock.Now().Sub(begin).Round(time.Millisecond))
			return nil
		})
	}
	// Output:
	// 0s
	// 0s
	// 500ms
	// 1s
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
