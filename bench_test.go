package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

// The rows of one benchmark run the same operation and are to be compared with
// each other, medians of one run: times of two runs say nothing. "hand" is what
// people write instead, with the checks of the context that a run makes. "hand,
// timed" also knows how long it took, as an Error does: of a Do that succeeds at
// once on the system clock, half is the one reading that this takes.

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

func BenchmarkFirstTry(b *testing.B) {
	ctx, clock := context.Background(), clockx.System()
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink, _ = byHand(ctx, clock, fetch)
		}
	})
	b.Run("hand, timed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink, _ = byHandTimed(ctx, clock, fetch)
		}
	})
	for _, row := range []struct {
		name   string
		policy retry.Policy
	}{
		{"Do", retry.Policy{}},
		{"Do, open pace", retry.Policy{Guards: []retry.Guard{new(pace.Pace)}}},
		{"Do, virtual clock", retry.Policy{Clock: clockx.NewVirtual(epoch)}},
		{"Do, earned budget", retry.Policy{Budget: &retry.EarnedBudget{}}},
		{"Do, token budget", retry.Policy{Budget: &budget.Token{}}},
		{"Do, ratio budget", retry.Policy{Budget: &budget.Ratio{}}},
		{"Do, empty hooks", retry.Policy{Hooks: emptyHooks}},
		{"Do, attempt timeout", retry.Policy{AttemptTimeout: time.Minute}},
	} {
		b.Run(row.name, func(b *testing.B) {
			p := row.policy
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = retry.Do(ctx, p, fetch)
			}
		})
	}
}

func BenchmarkThreeFailures(b *testing.B) {
	ctx, clock := context.Background(), clockx.NewVirtual(epoch)
	b.Run("hand", func(b *testing.B) {
		op := new(flaky)
		b.ReportAllocs()
		for b.Loop() {
			sink, _ = byHand(ctx, clock, op.fetch)
		}
	})
	for name, hooks := range map[string]retry.Hooks{"Do": {}, "Do, empty hooks": emptyHooks} {
		b.Run(name, func(b *testing.B) {
			op := new(flaky)
			p := retry.Policy{MaxAttempts: 4, Clock: clock, Hooks: hooks}
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = retry.Do(ctx, p, op.fetch)
			}
		})
	}
}

// BenchmarkShared has all cores succeed at once on one policy and one budget.
func BenchmarkShared(b *testing.B) {
	for name, budget := range map[string]retry.Budget{
		"no budget": nil, "earned": &retry.EarnedBudget{}, "token": &budget.Token{}, "ratio": &budget.Ratio{},
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

// BenchmarkSharedPace compares an open Pace with none, on all cores.
func BenchmarkSharedPace(b *testing.B) {
	for name, pace := range map[string]*pace.Pace{"none": nil, "open": new(pace.Pace)} {
		p := retry.Policy{Guards: []retry.Guard{pace}}
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

// BenchmarkEnd ends runs that succeeded, one after the other and on all cores at once.
// Nobody waits for a core that writes to a full budget, since none does.
func BenchmarkEnd(b *testing.B) {
	for _, bm := range []struct {
		name   string
		budget retry.Budget
	}{{"earned", &retry.EarnedBudget{}}, {"token", &budget.Token{}}, {"ratio", &budget.Ratio{}}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bm.budget.End(retry.Outcome{OK: true})
			}
		})
		b.Run(bm.name+", all cores", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bm.budget.End(retry.Outcome{OK: true})
				}
			})
		})
	}
}

// awsCode is an error as the AWS SDK has it.
type awsCode string

func (e awsCode) Error() string        { return string(e) }
func (e awsCode) ErrorCode() string    { return string(e) }
func (e awsCode) ErrorMessage() string { return "" }

func BenchmarkDefaultClassifier(b *testing.B) {
	for _, bm := range []struct {
		name string
		err  error
	}{
		{"plain", errFlaky},
		{"refused", dial(viaSyscall(111))},
		{"status", status(503)},
		{"wrapped three times", fmt.Errorf("a: %w", fmt.Errorf("b: %w", fmt.Errorf("c: %w", errFlaky)))},
		{"SQLSTATE", sqlState("40001")},
		{"AWS's code", awsCode("ThrottlingException")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = retry.DefaultClassifier(bm.err)
			}
		})
	}
}
