package retry

// May call: none of its neighbours.

import (
	"math"
	"time"
)

// Backoff returns how long to wait before a retry. It is pure: the same Step gives the same delay,
// so one Backoff serves any number of runs at once. A negative delay counts as zero. Rule 7 of the
// package documentation adds what the server asked for.
type Backoff interface {
	Delay(Step) time.Duration
}

// Step is what a [Backoff] may look at.
type Step struct {
	Retry int           // 1 for the first retry; values below 1 count as 1
	Prev  time.Duration // what Delay returned for the previous retry; 0 before the first
	Rand  float64       // uniform in [0,1); other values are clamped to it, NaN counts as 0
	Hint  time.Duration // what the server asked for, which the run adds to the delay; 0 if nothing
	Now   bool          // the server asked for a retry at once: the delay is only the next Prev
}

// BackoffFunc makes a function a [Backoff].
type BackoffFunc func(Step) time.Duration

// Delay calls f.
func (f BackoffFunc) Delay(s Step) time.Duration { return f(s) }

// Jitter spreads a delay d uniformly over [Low·d, High·d+Plus), so that callers that failed
// together do not come back together. The zero value is full jitter: if Low and High are both
// zero, High counts as 1. If High·d+Plus exceeds the backoff's Max, the window is scaled down
// until its top is Max. Negative numbers and NaN count as zero. A High below Low counts as Low.
type Jitter struct {
	Low, High float64
	Plus      time.Duration
}

// Full, equal and no jitter are the terms of "Exponential Backoff And Jitter"
// (AWS Architecture Blog, 2015), which shows why full is the default: with many
// clients under contention it makes the fewest calls.
var (
	FullJitter  = Jitter{Low: 0, High: 1}
	EqualJitter = Jitter{Low: .5, High: 1}
	NoJitter    = Jitter{Low: 1, High: 1}
)

// PlusMinus spreads a delay by the fraction f to both sides: PlusMinus(.2) gives
// 80 % to 120 % of it. f is meant to be in [0,1].
func PlusMinus(f float64) Jitter { return Jitter{Low: 1 - f, High: 1 + f} }

// Plus lengthens a delay by up to d: uniform over [delay, delay+d). If d is zero or negative,
// there is no jitter.
func Plus(d time.Duration) Jitter { return Jitter{Low: 1, High: 1, Plus: d} }

// Constant is a [Backoff] that always waits this long; a negative one does not.
type Constant time.Duration

// Delay returns the constant.
func (c Constant) Delay(Step) time.Duration { return max(time.Duration(c), 0) }

// Exponential is a [Backoff] with d = min(Max, Base·Factor^(Retry-1)), jittered.
// A field that is zero or negative takes its default: 100 ms, 20 s, 2. If Max is less
// than Base, d is Max.
type Exponential struct {
	Base, Max time.Duration
	Factor    float64
	Jitter    Jitter
}

// Delay returns the jittered delay, in [0, Max].
func (e Exponential) Delay(s Step) time.Duration {
	base, top := limits(e.Base, e.Max)
	factor := e.Factor
	if !(factor > 0) {
		factor = 2
	}
	n := max(s.Retry, 1) - 1
	if factor == 2 { // Ldexp costs half of what power does; 2^64 is beyond any Max
		return e.Jitter.spread(math.Ldexp(base, min(n, 64)), top, s.Rand)
	}
	return e.Jitter.spread(base*power(factor, n), top, s.Rand)
}

// power returns xⁿ. math.Pow would add 14 KiB to a program.
func power(x float64, n int) float64 {
	p := 1.
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= x
		}
		x *= x
	}
	return p
}

// Linear is a [Backoff] with d = min(Max, Base·Retry), jittered; Max if that is less than Base. A field
// that is zero or negative takes its default: 100 ms, 20 s.
type Linear struct {
	Base, Max time.Duration
	Jitter    Jitter
}

// Delay returns the jittered delay, in [0, Max].
func (l Linear) Delay(s Step) time.Duration {
	base, top := limits(l.Base, l.Max)
	return l.Jitter.spread(base*float64(max(s.Retry, 1)), top, s.Rand)
}

// Decorrelated is a [Backoff] with the delay min(Max, uniform[Base, 3·Prev)): the decorrelated
// jitter of the AWS article named at [FullJitter]. A Prev of 0, as in a run resumed elsewhere,
// counts as min(Max, Base·3^(Retry-1)). A field that is zero or negative takes its default: 100
// ms, 20 s. Once at Max, two waits of three are exactly Max.
type Decorrelated struct{ Base, Max time.Duration }

// Delay returns the delay, in [min(Base, Max), Max].
func (b Decorrelated) Delay(s Step) time.Duration {
	base, top := limits(b.Base, b.Max)
	prev := float64(s.Prev)
	if s.Prev <= 0 {
		prev = min(base*power(3, max(s.Retry, 1)-1), float64(top))
	}
	d := base + unfused(clampUnit(s.Rand)*(max(3*prev, base)-base))
	return min(max(duration(d), b.Base), top) // a float64 may be a little less than Base
}

// Schedule is a [Backoff] that waits the listed durations in order, then repeats
// the last one. An empty Schedule does not wait; negative entries count as zero. Do
// not change it while it is in use.
type Schedule []time.Duration

// Delay returns the entry for the retry.
func (l Schedule) Delay(s Step) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return max(l[min(max(s.Retry, 1), len(l))-1], 0)
}

// limits returns a backoff's two durations, or their defaults, the first in
// nanoseconds.
func limits(base, top time.Duration) (float64, time.Duration) {
	if base <= 0 {
		base = 100 * time.Millisecond
	}
	if top <= 0 {
		top = 20 * time.Second
	}
	return float64(base), top
}

// spread returns a point of the jittered window around min(d, top), in [0, top].
func (j Jitter) spread(d float64, top time.Duration, random float64) time.Duration {
	d = min(d, float64(top))
	low, high := max(orZero(j.Low), 0), max(orZero(j.High), 0)
	if low == 0 && high == 0 {
		high = 1
	}
	low, high = orZero(unfused(low*d)), orZero(unfused(max(low, high)*d))+float64(max(j.Plus, 0)) // ∞·0 is NaN
	if high > float64(top) {
		low, high = orZero(low/high)*float64(top), float64(top)
	}
	return min(duration(low+unfused(clampUnit(random)*(high-low))), top)
}

// unfused keeps a product from being fused with the sum that it is a part of, as
// some processors would, in order that all machines wait equally long.
func unfused(product float64) float64 { return float64(product) }

// orZero returns x, or 0 for NaN.
func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// clampUnit returns x, or what in [0,1) is nearest to it: 0 for NaN.
func clampUnit(x float64) float64 {
	return min(max(orZero(x), 0), 1-0x1p-53)
}

// duration converts nanoseconds, which must not be negative, and saturates: the
// float64 nearest to the longest Duration is already beyond it.
func duration(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// sum adds two durations and saturates. Neither may be negative.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
