package budget

import (
	"math"
	"sync/atomic"

	"github.com/goretry/retry"
)

// Token is a bucket of tokens, as in the standard retry mode of the AWS SDKs. A
// retry takes Cost tokens, or ThrottleCost after a [retry.Throttled] error. A success gives
// back what the run's last retry took, or Reward if it had none. So retries stop when
// too many of them fail, and resume when calls succeed. A retry that was granted and not made
// takes nothing.
//
// The zero value is a full bucket: Capacity 500, Cost 14, ThrottleCost 5,
// Reward 1. A negative field counts as zero tokens, and a negative Capacity grants
// nothing. A cost above Capacity counts as Capacity, so that a full bucket always
// grants a retry. A nil *Token grants everything. Set the fields before the
// first use and do not copy it after.
type Token struct {
	Capacity, Cost, ThrottleCost, Reward int

	used atomic.Int64
}

// Withdraw takes the cost of a retry, if the bucket holds it.
func (b *Token) Withdraw(w retry.Withdrawal) bool {
	if b == nil {
		return true
	}
	cost, capacity := b.cost(w.Class), b.capacity()
	if capacity == 0 {
		return false
	}
	for {
		used := b.used.Load()
		if cost > capacity-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+cost) {
			return true
		}
	}
}

// End puts tokens back after a success, and for retries that were not made.
func (b *Token) End(o retry.Outcome) {
	if b == nil {
		return
	}
	back := int64(unsent(o)) * b.cost(o.Retried)
	switch {
	case o.OK && o.Sent > 0:
		back += b.cost(o.Retried)
	case o.OK:
		back += tokens(b.Reward, 1)
	}
	for {
		used := b.used.Load()
		if back == 0 || used == 0 || b.used.CompareAndSwap(used, max(used-back, 0)) {
			return // mostly it is full: then nobody writes, and cores do not wait for each other
		}
	}
}

// Price returns what a retry costs, and the number of tokens.
func (b *Token) Price(w retry.Withdrawal) (price, left float64) {
	if b == nil {
		return 0, math.Inf(1)
	}
	cost, capacity := b.cost(w.Class), b.capacity()
	if capacity == 0 { // which grants nothing
		cost = b.uncapped(w.Class)
	}
	return float64(cost), float64(capacity - b.used.Load())
}

// Balance returns the fraction of Capacity that is left, in [0,1].
func (b *Token) Balance() float64 {
	if b == nil {
		return 1
	}
	capacity := b.capacity()
	if capacity == 0 {
		return 0
	}
	return float64(capacity-b.used.Load()) / float64(capacity)
}

func (b *Token) capacity() int64 { return tokens(b.Capacity, 500) }

func (b *Token) cost(c retry.Class) int64 { return min(b.uncapped(c), b.capacity()) }

func (b *Token) uncapped(c retry.Class) int64 {
	if c == retry.Throttled {
		return tokens(b.ThrottleCost, 5)
	}
	return tokens(b.Cost, 14)
}

// unsent returns how many of the retries that were granted were not made.
func unsent(o retry.Outcome) int { return min(max(o.Retries-max(o.Sent, 0), 0), 1<<20) }

// tokens returns n, or the default if n is 0, or 0 if n is negative.
func tokens(n, byDefault int) int64 {
	if n == 0 {
		n = byDefault
	}
	return int64(max(n, 0))
}
