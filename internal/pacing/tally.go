package pacing

import (
	"math"
	"time"
)

const (
	wrongPart     = .05 // of the attempts that are throttled, from which on the quota seems to be another one
	wrongAttempts = 20  // before which that part is not known
	remembered    = 60  // seconds, or attempts under a quota of less than one in a second
)

// tally counts attempts that have ended under a quota, and those of them that were throttled. What it has counted fades by
// the factor e in a minute, or in the time of sixty attempts if that is longer.
type tally struct {
	ended, throttled float64
	asOf             time.Time
}

func (c *tally) add(now time.Time, rate float64, throttled bool) {
	c.fade(now, rate)
	c.ended++
	if throttled {
		c.throttled++
	}
}

func (c *tally) fade(now time.Time, rate float64) {
	kept := math.Exp(-now.Sub(c.asOf).Seconds() * min(rate, 1) / remembered)
	c.ended, c.throttled, c.asOf = c.ended*kept, c.throttled*kept, now
}

// part returns the part of the attempts that was throttled: 0 if these are too few to know it.
func (c *tally) part(now time.Time, rate float64) float64 {
	if c.fade(now, rate); c.ended < wrongAttempts {
		return 0
	}
	return c.throttled / c.ended
}

// seems returns what a quota of a rate seems to be, in units per second: less than the rate if such a part is
// throttled that it must be another one.
func seems(rate, part float64) float64 {
	if part >= wrongPart {
		return rate * (1 - part)
	}
	return rate
}
