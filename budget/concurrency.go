package budget

import (
	"math"
	"sync/atomic"

	"github.com/goretry/retry"
)

// Concurrency limits what retries hold in this process: memory, connections,
// goroutines. It does not protect a server that hangs: calls in flight pile up, and
// the limit rises with them. Use a [retry.EarnedBudget] for that.
//
// It grants a retry if at most max(Min, Ratio × runs in flight) retries, this one
// included, would be in flight. The limit is exact under contention. A run holds one
// place from its first granted retry, waits included, until it ends. If runs end and
// the limit falls below the number of places held, the retries underway finish, but
// their runs get no further retry.
//
// The zero value has Ratio 0.2 and Min 3. A negative field counts as zero. A nil
// *Concurrency grants everything. Set the fields before the first use and do
// not copy it after.
type Concurrency struct {
	Ratio float64
	Min   int

	state atomic.Uint64 // an inFlight: one word, so that both numbers change together
}

// inFlight has the number of runs in its upper half, and the number of retries in its
// lower half.
type inFlight uint64

const oneRun = 1 << 32

func (n inFlight) runs() int64    { return int64(n / oneRun) }
func (n inFlight) retries() int64 { return int64(n % oneRun) }

// Begin counts a run in flight.
func (b *Concurrency) Begin(retry.Opening) {
	if b != nil {
		b.state.Add(oneRun)
	}
}

// Withdraw takes a place for a run's first retry. A later one keeps that place
// while the limit allows it.
func (b *Concurrency) Withdraw(w retry.Withdrawal) bool {
	if b == nil {
		return true
	}
	for {
		n := inFlight(b.state.Load())
		switch {
		case w.Retry > 1:
			return n.retries() <= b.allowed(n)
		case n.retries()+1 > b.allowed(n):
			return false
		case b.state.CompareAndSwap(uint64(n), uint64(n+1)):
			return true
		}
	}
}

// End gives back what the run took.
func (b *Concurrency) End(o retry.Outcome) {
	if b == nil {
		return
	}
	n := uint64(oneRun)
	if o.Retried != retry.Unknown {
		n++
	}
	b.state.Add(-n)
}

// Price returns one token for a place, and how many places are free. The place that a run
// holds is free for its own next retry.
func (b *Concurrency) Price(w retry.Withdrawal) (price, left float64) {
	if b == nil {
		return 0, math.Inf(1)
	}
	n := inFlight(b.state.Load())
	free := b.allowed(n) - n.retries()
	if w.Retry > 1 {
		free++
	}
	return 1, float64(max(free, 0))
}

// Balance returns which fraction of the places now allowed is free, in [0,1].
func (b *Concurrency) Balance() float64 {
	if b == nil {
		return 1
	}
	n := inFlight(b.state.Load())
	if n.retries() == 0 {
		return 1
	}
	return max(1-float64(n.retries())/float64(b.allowed(n)), 0)
}

func (b *Concurrency) allowed(n inFlight) int64 {
	ratio, floor := b.Ratio, b.Min
	if ratio == 0 {
		ratio = .2
	}
	if floor == 0 {
		floor = 3
	}
	return max(int64(allowance(ratio, n.runs())), int64(floor))
}
