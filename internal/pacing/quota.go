package pacing

import (
	"math"
	"sync/atomic"
)

// quota is a quota that is known. In one process it is GCRA (ITU-T I.371): attempts that start make
// debt, which falls by the rate, to the burst below zero.
type quota struct {
	rate, burst float64 // units in a second, and how many may start at once after a pause
	inUnits     bool    // of cost; what a server states is of attempts
	told        told    // of one that a server states
}

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

// makesSense reports whether a cost says something.
func makesSense(cost float64) bool { return cost > 0 && !math.IsInf(cost, 1) }

// Stated is what a server states of its quota with an answer.
type Stated struct {
	Rate, Burst float64 // units in a second, and how many at once
	Remaining   float64 // that may start now
}

// told is what a server has stated.
type told struct {
	before    uint64  // attempts that had started before that of the latest answer
	remaining float64 // what that has stated
	answers   float64 // those that have come since, which may have been counted before it
}

// hear notes an answer, to an attempt before which so many had started, of all that have now. Answers come in any order: it
// reports false if a later attempt was answered before. It is renewed if so much more remains than by the latest answer that a new window
// must have begun: attempts that have ended meanwhile may be counted in another order.
func (s *told) hear(before, all uint64, remaining float64) (renewed, ok bool) {
	s.answers++
	if before < min(s.before, all) { // some of those that had started may not have been made
		return false, false
	}
	renewed = remaining-s.remaining > s.answers
	*s = told{before: before, remaining: remaining}
	return renewed, true
}
