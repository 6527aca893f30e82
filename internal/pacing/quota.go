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

// told is what a server has stated. Answers come in any order: one whose attempt began before that of
// another says nothing new.
type told struct {
	any       bool    // it has stated something
	before    uint64  // attempts that had started before that of the latest answer
	remaining float64 // what that has stated
	answers   float64 // those that have come since, which may have been counted before it
}

// latest reports whether an answer is to an attempt that began after that of any answer before.
func (s *told) latest(before uint64) bool {
	s.answers++
	if s.any && before < s.before {
		return false
	}
	s.any, s.before = true, before
	return true
}

// renewed notes what remains by the latest answer, and reports whether that is so much more than before that a
// new window has begun: attempts that have ended meanwhile may be counted in another order.
func (s *told) renewed(remaining float64) bool {
	rise, answers := remaining-s.remaining, s.answers
	s.remaining, s.answers = remaining, 0
	return rise > answers
}
