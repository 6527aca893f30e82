package pacing

import (
	"math"
	"time"
)

const (
	holdAttempts  = 4   // of two seconds, of which half must be throttled before the server's hint holds all
	wrongPart     = .05 // of the attempts that are throttled, from which on the quota seems to be another one
	wrongAttempts = 20  // before which that part is not known
)

// quota is a quota that is known. In one process it is GCRA (ITU-T I.371): attempts that start make
// debt, which falls by the rate, to the burst below zero.
type quota struct {
	rate, burst float64 // units in a second, and how many may start at once after a pause
	inUnits     bool    // of cost; what a server states is of attempts
	told        told    // of one that a server states
	tally       tally   // what became of the attempts
}

// seems returns what the quota seems to be, in units per second: less than rate if so much is throttled
// that it must be another one.
func (q *quota) seems() float64 {
	if part := q.tally.throttled(); part >= wrongPart {
		return q.rate * (1 - part)
	}
	return q.rate
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

// tally counts attempts that have ended, and those of them that were throttled.
type tally struct {
	second  int64     // the one underway
	seconds [2]sample // those of it, and of the one before
	minute  sample    // those before it, which fade in a minute
}

// add counts an attempt of the second underway, of which lost is 1 if it was throttled, and else 0.
func (c *tally) add(lost float64) {
	c.seconds[0].sent++
	c.seconds[0].lost += lost
}

// tick begins the second of now, if it is a new one. It returns the attempts of the one that has
// ended, and the seconds since.
func (c *tally) tick(now time.Time) (ended sample, seconds float64) {
	second := now.Unix()
	elapsed := second - c.second
	if elapsed == 0 {
		return sample{}, 0
	}
	ended, seconds = c.seconds[0], float64(max(elapsed, 1))
	kept := math.Pow(59./60, seconds-1) // in the seconds since the one that has ended
	c.minute = sample{(c.minute.sent*59/60 + ended.sent) * kept, (c.minute.lost*59/60 + ended.lost) * kept}
	c.seconds = [2]sample{{}, ended}
	if second != c.second+1 {
		c.seconds[1] = sample{}
	}
	c.second = second
	return ended, seconds
}

// latest returns the attempts of the second underway and of the one before.
func (c *tally) latest() sample {
	return sample{c.seconds[0].sent + c.seconds[1].sent, c.seconds[0].lost + c.seconds[1].lost}
}

// holds reports whether so many were throttled of late that the server's hint holds all.
func (c *tally) holds() bool {
	latest := c.latest()
	return latest.sent >= holdAttempts && 2*latest.lost >= latest.sent
}

// throttled returns the part of the attempts of the last minute that was throttled: 0 if these are
// too few to know it.
func (c *tally) throttled() float64 {
	if c.minute.sent < wrongAttempts {
		return 0
	}
	return c.minute.lost / c.minute.sent
}

// sample is some attempts, and how many of them were throttled.
type sample struct{ sent, lost float64 }
