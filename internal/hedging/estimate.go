package hedging

import (
	"math"
	"sync/atomic"
	"time"
)

// estimate is a running quantile of the time that calls take, by stochastic
// approximation (Robbins and Monro, 1951) on the logarithm of the time: a call
// that is slower than the estimate moves it up by g·Q, one that is faster moves
// it down by g·(1−Q). It is at rest when the fraction 1−Q of the calls is slower.
//
// For each call it needs only whether the call was slower than the estimate. So it can
// learn from calls that are cut short later. The times of answers that won a race
// would be shorter than those of calls without a race.
//
// The zero value has not seen a call. One word holds all of it: the count of the
// calls in the lowest 8 bits, up to settled, and the logarithm above.
type estimate struct{ word atomic.Uint64 }

const (
	countBits = 8
	settled   = 200              // from this call on, g keeps its value
	scale     = float64(1 << 48) // of the logarithm of nanoseconds, so that it is an integer
)

// delay returns the estimate within the limits of r, and MaxDelay before the first
// sample.
func (e *estimate) delay(r *Rules) time.Duration {
	word := e.word.Load()
	if word == 0 {
		return r.MaxDelay
	}
	d := math.Round(math.Exp(float64(word>>countBits) / scale))
	if d >= float64(r.MaxDelay) { // which may be more than a Duration holds
		return r.MaxDelay
	}
	return max(time.Duration(d), r.MinDelay)
}

// learn takes a sample: a call that was slower than the delay it was given, or one
// that took less. Only a fast one can be the first.
func (e *estimate) learn(r *Rules, slower bool, took time.Duration) {
	for {
		old := e.word.Load()
		if old == 0 && slower {
			return
		}
		if e.word.CompareAndSwap(old, next(r, old, slower, took)) {
			return
		}
	}
}

// next returns the word after a sample. The estimate stays within the limits of
// the delay: beyond them it would take long to come back.
func next(r *Rules, word uint64, slower bool, took time.Duration) uint64 {
	var ln float64
	n := min(word&(1<<countBits-1)+1, settled)
	switch {
	case word == 0:
		ln = math.Log(2 * float64(took))
	case slower:
		ln = float64(word>>countBits)/scale + gain(n)*r.Quantile
	default:
		ln = float64(word>>countBits)/scale - gain(n)*(1-r.Quantile)
	}
	ln = min(max(ln, math.Log(float64(r.MinDelay))), math.Log(float64(r.MaxDelay)))
	return uint64(math.Round(ln*scale))<<countBits | n
}

// gain returns g for the n-th call: 1 for the first ten, then 10/n, and from call
// 200 on .05, which follows a service that changes.
func gain(n uint64) float64 { return min(10/float64(n), 1) }
