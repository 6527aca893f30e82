package pacing

import (
	"math"
	"sync/atomic"
)

const smallest = 1e-6 // cost of an attempt

// Bill is what the attempts of a call cost in units of a quota that was told by Know. A Bill that is nil says nothing.
// It is safe for concurrent use.
type Bill struct {
	Cost float64 // of each, as far as is known before. One that is not positive, or not finite, is one unit

	spent atomic.Pointer[float64] // what Say has said last: each time by another pointer
}

// Say notes what an attempt has cost.
func (b *Bill) Say(cost float64) { b.spent.Store(&cost) }

// said returns what was said last, or nil. What is said later has another address.
func (b *Bill) said() *float64 {
	if b == nil {
		return nil
	}
	return b.spent.Load()
}

// size returns the units that an attempt takes when it starts.
func (b *Bill) size() float64 {
	if b == nil || !(b.Cost > 0) || math.IsInf(b.Cost, 1) {
		return 1
	}
	return min(max(b.Cost, smallest), Most)
}

// saidSince returns what was said of an attempt that came when before was said last. It is not ok if nothing was, or what makes no sense.
func (b *Bill) saidSince(before *float64) (cost float64, ok bool) {
	said := b.said()
	if said == before || !(*said >= 0) || math.IsInf(*said, 1) {
		return 0, false
	}
	return min(*said, Most), true
}
