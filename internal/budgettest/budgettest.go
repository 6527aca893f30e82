// Package budgettest has what the tests of budgets share, those of the root package and those
// of package budget.
package budgettest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// Budget is what each budget of this library is.
type Budget interface {
	retry.Budget
	Balance() float64
}

// Timed returns b for runs on a clock, and calls of Withdraw and End that leave it out.
func Timed(b Budget, clock clockx.Clock) Budget { return timed{b, clock} }

type timed struct {
	Budget
	clock clockx.Clock
}

func (b timed) Withdraw(w retry.Withdrawal) bool {
	w.Clock = b.clock
	return b.Budget.Withdraw(w)
}

func (b timed) End(o retry.Outcome) {
	o.Clock = b.clock
	b.Budget.End(o)
}

// Succeed ends n runs that succeeded.
func Succeed(b retry.Budget, n int) {
	for range n {
		b.End(retry.Outcome{OK: true})
	}
}

// Granted returns how many of n retries after an error of class c are granted.
func Granted(b retry.Budget, n int, c retry.Class) (got int) {
	for range n {
		if b.Withdraw(retry.Withdrawal{Class: c, Retry: 1}) {
			got++
		}
	}
	return got
}

// Together calls take for each of n budgets on each of some goroutines, which meet at each budget
// first, and returns the sum of what take returned for it.
func Together(goroutines, n int, take func(i int) int) []int64 {
	got, met := make([]atomic.Int64, n), make([]atomic.Int64, n)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range n {
				met[i].Add(1)
				for met[i].Load() < int64(goroutines) {
					runtime.Gosched()
				}
				got[i].Add(int64(take(i)))
			}
		})
	}
	wg.Wait()
	sums := make([]int64, n)
	for i := range got {
		sums[i] = got[i].Load()
	}
	return sums
}

// WallClock is a clock that anybody may set.
type WallClock struct {
	clockx.Clock
	Time time.Time
}

// Now returns what is set.
func (c *WallClock) Now() time.Time { return c.Time }

// Places is a budget of places, of which a run holds one from its first granted retry until its
// End. So it shows whether each run calls End once.
type Places struct {
	Most int64 // 0: it grants all

	held atomic.Int64
}

// Withdraw takes a place for the first retry of a run.
func (p *Places) Withdraw(w retry.Withdrawal) bool {
	switch {
	case w.Retry > 1:
		return true
	case p.Most > 0 && p.held.Load() >= p.Most:
		return false
	}
	p.held.Add(1)
	return true
}

// End gives the place back.
func (p *Places) End(o retry.Outcome) {
	if o.Retried != retry.Unknown {
		p.held.Add(-1)
	}
}

// Balance returns 1 if no place is held, else 0.
func (p *Places) Balance() float64 {
	if p.held.Load() == 0 {
		return 1
	}
	return 0
}
