package pacing

import (
	"math"
	"time"
)

const (
	startsFade = 30   // seconds in which the starts of a process fade by the factor e
	ownCut     = .7   // of the own rate is left after a second in which attempts were throttled
	ownBack    = 1.05 // times the own rate follows after another second, up to what it was at first,
	ownUp      = 1.01 // and above
	spare      = 2    // starts by which the own rate is too high: few tell little, and calls come now more and now less often
	newcomer   = 1    // a second: the own rate of a process that has hardly started anything yet, or was told its quota less than a second ago
	lowestRate = .05  // a second: no refusal lowers the own rate below that
)

// ownRate is the rate of a process that goes on alone while the store does not answer: the rate at
// which it has started attempts until then.
type ownRate struct {
	rate, initial float64   // units in a second, and what that was at first
	since         time.Time // since when nothing has changed it; a second after a cut

	starts float64   // units that have started, which fade
	asOf   time.Time // when starts was that
	began  time.Time // when the first of them may have started: when the quota was told
}

// start notes that so many units start.
func (o *ownRate) start(now time.Time, n float64) {
	o.fade(now)
	o.starts += n
}

func (o *ownRate) fade(now time.Time) {
	o.starts *= math.Exp(-now.Sub(o.asOf).Seconds() / startsFade)
	o.asOf = now
}

// begin sets the rate from the starts until now. It is no more than that of the quota.
func (o *ownRate) begin(now time.Time, quota float64) {
	o.fade(now)
	o.rate = newcomer
	if age := now.Sub(o.began).Seconds(); age >= 1 && o.starts >= 1 {
		o.rate = (o.starts + spare) / (startsFade * (1 - math.Exp(-age/startsFade)))
	}
	o.rate = min(o.rate, quota)
	o.initial, o.since = o.rate, now
}

// ended changes the rate after an attempt has ended: a second with throttled ones lowers it once.
func (o *ownRate) ended(now time.Time, throttled bool, quota float64) {
	seconds := now.Sub(o.since).Seconds()
	if seconds < 0 {
		return
	}
	o.since = now
	switch {
	case throttled:
		o.rate = max(o.rate*ownCut, min(o.rate, lowestRate))
		o.since = now.Add(time.Second)
	case o.rate < o.initial: // by time: at a low rate few attempts end
		o.rate = min(o.rate*math.Pow(ownBack, seconds), o.initial)
	default:
		o.rate = min(o.rate*math.Pow(ownUp, min(seconds, 1)), quota)
	}
}
