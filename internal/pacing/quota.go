package pacing

// quota is a quota that is known. In one process it is GCRA (ITU-T I.371): attempts that start make
// debt, which falls by the rate, to the burst below zero.
type quota struct {
	rate, burst float64 // units in a second, and how many may start at once after a pause
	inUnits     bool    // of cost; what a server states is of attempts
	told        told    // of one that a server states
}

// Stated is what a server states of its quota with an answer.
type Stated struct {
	Rate, Burst float64 // units in a second, and how many at once
	Remaining   float64 // that may start now
}

// told is what a server has stated.
type told struct {
	before    uint64  // attempts that had started before that of the latest answer
	remaining float64 // what that has stated
	slack     float64 // answers that have come since, each of which may have been counted before it: so many more may remain in the same window
}

// hear notes an answer, to an attempt before which so many had started, of all that have now. Answers come in any order: it
// reports false if a later attempt was answered before. It is renewed if so much more remains than by the latest answer that a new window
// must have begun: attempts that have ended meanwhile may be counted in another order.
func (s *told) hear(before, all uint64, remaining float64) (renewed, ok bool) {
	s.slack++
	if before < min(s.before, all) { // some of those that had started may not have been made
		return false, false
	}
	renewed = remaining-s.remaining > s.slack
	*s = told{before: before, remaining: remaining}
	return renewed, true
}
