package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// row is what a small typed call returns: 56 bytes.
type row struct {
	id                 int64
	name, street, city string
}

var ada = row{1, "Ada", "St James's Square", "London"}

var (
	errFlaky = errors.New("flaky")
	sink     row
)

//go:noinline
func fetch(context.Context) (row, error) { return ada, nil }

// flaky fails three times, then succeeds.
type flaky struct{ calls int }

//go:noinline
func (f *flaky) fetch(context.Context) (row, error) {
	f.calls++
	if f.calls%4 != 0 {
		return row{}, errFlaky
	}
	return ada, nil
}

// byHand is what people write instead: attempts, a check of the context, a wait.
//
//go:noinline
func byHand(ctx context.Context, clock clockx.Clock, op func(context.Context) (row, error)) (v row, err error) {
	wait := 100 * time.Millisecond
	for attempt := 1; attempt <= 4; attempt++ {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		if v, err = op(ctx); err == nil {
			return v, nil
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return v, err
		}
		wait *= 2
	}
	return v, err
}

var shared = retry.Policy{MaxAttempts: 4}

func BenchmarkFirstTry(b *testing.B) {
	ctx := context.Background()
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink, _ = byHand(ctx, clockx.System(), fetch)
		}
	})
	virtual := shared
	virtual.Clock = clockx.NewVirtual(time.Time{})
	budget := shared
	budget.Budget = &retry.TokenBudget{}
	hooks := shared
	hooks.Hooks = retry.Hooks{Start: func(ctx context.Context, _ retry.Policy) context.Context { return ctx }}
	for name, p := range map[string]retry.Policy{"do": shared, "virtual": virtual, "budget": budget, "hooks": hooks} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = retry.Do(ctx, p, fetch)
			}
		})
	}
}

func BenchmarkThreeFailures(b *testing.B) {
	ctx := context.Background()
	clock := clockx.NewVirtual(time.Time{})
	p := shared
	p.Clock = clock
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		f := new(flaky)
		for b.Loop() {
			sink, _ = byHand(ctx, clock, f.fetch)
		}
	})
	b.Run("do", func(b *testing.B) {
		b.ReportAllocs()
		f := new(flaky)
		for b.Loop() {
			sink, _ = retry.Do(ctx, p, f.fetch)
		}
	})
}
