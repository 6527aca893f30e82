package guards_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/guards"
	"github.com/goretry/retry/limit"
)

// Twice as many calls as ten places take, for half a minute: a hundred calls per second of a tenth of a
// second each. Half of them are important. docs/guards.md has the figures.
func TestImportantCallsFirst(t *testing.T) {
	count := func(g retry.Guard) (all, some int64) {
		var good, important atomic.Int64
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var calls sync.WaitGroup
			for i := range 6000 {
				ctx := t.Context()
				if i%2 == 0 {
					ctx = guards.WithImportance(ctx)
				}
				p := retry.Policy{Guards: []retry.Guard{g}, Rand: rand.New(rand.NewPCG(3, uint64(i))).Float64}
				calls.Go(func() {
					if retry.Run(ctx, p, func(context.Context) error { time.Sleep(100 * ms); return nil }) == nil {
						if good.Add(1); i%2 == 0 {
							important.Add(1)
						}
					}
				})
				time.Sleep(time.Duration(r.ExpFloat64() * float64(time.Second) / 200))
			}
			calls.Wait()
		})
		return good.Load(), important.Load()
	}
	good, important := count(&limit.Limit{Max: 10})
	better, first := count(&guards.Important{Limit: limit.Limit{Max: 10}})
	t.Logf("of 3000 important calls %d succeed with a Limit and %d with Important, of all 6000 %d and %d", important, first, good, better)
	if important > 1600 || first < 2500 || better < good*9/10 {
		t.Error("want half of them with a Limit, most with Important, and nearly as many of all")
	}
}

func TestImportantLeavesNothingBehind(t *testing.T) {
	g := &guards.Important{Limit: limit.Limit{Max: 4}}
	p := retry.Policy{Guards: []retry.Guard{g}}
	var ends []func(retry.Exit)
	for i, want := range []error{nil, nil, nil, limit.ErrLimited, limit.ErrLimited} {
		leave, err := p.Admit(t.Context(), retry.Entry{})
		if err != want {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
		if err == nil {
			ends = append(ends, leave)
		}
	}
	for _, want := range []error{nil, limit.ErrLimited} {
		leave, err := p.Admit(guards.WithImportance(t.Context()), retry.Entry{})
		if err != want {
			t.Errorf("an important call: %v, want %v", err, want)
		}
		if err == nil {
			ends = append(ends, leave)
		}
	}
	for _, leave := range ends {
		leave(retry.Exit{Ending: retry.Returned})
	}
	if n := g.InFlight(); n != 0 {
		t.Errorf("%d in flight, want none", n)
	}
}
