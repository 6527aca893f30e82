package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// The rows of one benchmark run the same operation and are to be compared with
// each other, medians of one run: times of two runs say nothing. "hand" is what
// people write instead, with the checks of the context that a run makes. Of a
// first try, "hand, timed" also knows how long it took, as an Error does: on the
// system clock half of what Do costs is the one reading that this takes.

// row is what a small typed call returns: 56 bytes.
type row struct {
	id                 int64
	name, street, city string
}

var (
	ada      = row{1, "Ada", "St James's Square", "London"}
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

//go:noinline
func byHandTimed(ctx context.Context, clock clockx.Clock, op func(context.Context) (row, error)) (row, error) {
	start := clock.Now()
	v, err := byHand(ctx, clock, op)
	if err != nil {
		err = errors.Join(err, errors.New(clock.Now().Sub(start).String()))
	}
	return v, err
}

type benchmark struct {
	name string
	call func(context.Context) (row, error)
}

func (bm benchmark) run(b *testing.B) {
	b.Run(bm.name, func(b *testing.B) {
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			sink, _ = bm.call(ctx)
		}
	})
}

// doing returns a Do of op under p.
func doing(p retry.Policy, op func(context.Context) (row, error)) func(context.Context) (row, error) {
	return func(ctx context.Context) (row, error) { return retry.Do(ctx, p, op) }
}

func BenchmarkFirstTry(b *testing.B) {
	system, virtual := clockx.System(), clockx.NewVirtual(epoch)
	for _, bm := range []benchmark{
		{"hand", func(ctx context.Context) (row, error) { return byHand(ctx, system, fetch) }},
		{"hand, timed", func(ctx context.Context) (row, error) { return byHandTimed(ctx, system, fetch) }},
		{"Do", doing(retry.Policy{}, fetch)},
		{"Do, virtual clock", doing(retry.Policy{Clock: virtual}, fetch)},
		{"Do, token budget", doing(retry.Policy{Budget: &retry.TokenBudget{}}, fetch)},
		{"Do, ratio budget", doing(retry.Policy{Budget: &retry.RatioBudget{}}, fetch)},
		{"Do, empty hooks", doing(retry.Policy{Hooks: emptyHooks}, fetch)},
		{"Do, attempt timeout", doing(retry.Policy{AttemptTimeout: time.Minute}, fetch)},
	} {
		bm.run(b)
	}
}

func BenchmarkThreeFailures(b *testing.B) {
	virtual := clockx.NewVirtual(epoch)
	p := retry.Policy{MaxAttempts: 4, Clock: virtual}
	hooked := p
	hooked.Hooks = emptyHooks
	for _, bm := range []benchmark{
		{"hand", func() func(context.Context) (row, error) {
			op := new(flaky).fetch
			return func(ctx context.Context) (row, error) { return byHand(ctx, virtual, op) }
		}()},
		{"Do", doing(p, new(flaky).fetch)},
		{"Do, empty hooks", doing(hooked, new(flaky).fetch)},
	} {
		bm.run(b)
	}
}

// BenchmarkShared has all cores succeed at once on one policy and one budget.
func BenchmarkShared(b *testing.B) {
	for name, budget := range map[string]retry.Budget{
		"no budget": nil, "token": &retry.TokenBudget{}, "ratio": &retry.RatioBudget{}, "concurrency": &retry.ConcurrencyBudget{},
	} {
		p := retry.Policy{Budget: budget}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = retry.Do(context.Background(), p, fetch)
				}
			})
		})
	}
}

func BenchmarkDefaultClassifier(b *testing.B) {
	for _, bm := range []struct {
		name string
		err  error
	}{
		{"plain", errFlaky},
		{"refused", dial(viaSyscall(111))},
		{"status", status(503)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = retry.DefaultClassifier(bm.err)
			}
		})
	}
}
