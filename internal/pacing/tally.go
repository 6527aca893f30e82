package pacing

import (
	"math"
	"time"
)

const (
	wrongPart     = .05 // of the attempts that are throttled, from which on the quota seems to be another one
	wrongAttempts = 20  // before which that part is not known
)

// tally counts attempts that have ended under a quota, and those of them that were throttled.
type tally struct {
	second int64  // the one underway
	now    sample // those of it
	minute sample // those before it, which fade in a minute
}

// sample is some attempts, and how many of them were throttled.
type sample struct{ sent, lost float64 }

// add counts an attempt of the second underway, of which lost is 1 if it was throttled, and else 0.
func (c *tally) add(lost float64) {
	c.now.sent++
	c.now.lost += lost
}

// tick begins the second of now, if it is a new one. It returns the attempts of the one that has
// ended, and the seconds since.
func (c *tally) tick(now time.Time) (ended sample, seconds float64) {
	second := now.Unix()
	if second == c.second {
		return sample{}, 0
	}
	ended, seconds = c.now, float64(max(second-c.second, 1))
	kept := math.Pow(59./60, seconds-1) // in the seconds since the one that has ended
	c.minute = sample{(c.minute.sent*59/60 + ended.sent) * kept, (c.minute.lost*59/60 + ended.lost) * kept}
	c.now, c.second = sample{}, second
	return ended, seconds
}

// throttled returns the part of the attempts of the last minute that was throttled: 0 if these are
// too few to know it.
func (c *tally) throttled() float64 {
	if c.minute.sent < wrongAttempts {
		return 0
	}
	return c.minute.lost / c.minute.sent
}

// seems returns what a quota of a rate seems to be, in units per second: less than the rate if so much is
// throttled that it must be another one.
func (c *tally) seems(rate float64) float64 {
	if part := c.throttled(); part >= wrongPart {
		return rate * (1 - part)
	}
	return rate
}
