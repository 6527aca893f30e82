package storm

import (
	"math"
	"time"

	"github.com/goretry/retry"
)

// Law is a budget, not a pace, whose tokens are earned by calls, with what such a rule may
// choose. It is for experiments: it is not safe for concurrent use.
type Law struct {
	Start    float64 // tokens of a new budget
	Price    float64 // of a retry
	TimedOut float64 // of a retry after a timeout
	First    float64 // what a success without a retry earns
	Back     float64 // what a success after a retry earns, as a multiple of what its last retry cost before doubling

	// Doubling is how often the price of a retry after a timeout doubles at most: once with each
	// run whose last retry followed a timeout, and that fails. One that succeeds halves it again.
	// If Throttled is set, a Throttled error counts as a timeout in this.
	Doubling  int
	Throttled bool
	All       bool // a success gives back what the other retries of its run have cost, too, if the last one's price does not double

	// Fading is how long it takes what is above ten tokens to fall by the factor e; 0: 5 s.
	// If the price has doubled, these ten have too: else a process with few calls could
	// never pay it.
	Fading time.Duration
	Pause  time.Duration // that counts of the first minute of a pause between calls; 0: all of it

	tokens float64
	at     time.Time // when tokens above what a retry costs last faded, in whole ticks; zero before the first time
	double int       // how often the price has doubled
}

// mostTokens is how many tokens above ten there are at most.
const mostTokens = 1000

// Earned returns the law of EarnedBudget.
func Earned() Law {
	return Law{Start: 9, Price: 2, TimedOut: 10, First: .1, Back: 2, Doubling: 4, Throttled: true, All: true, Fading: 8 * time.Second, Pause: 5 * time.Second / 16}
}

// fresh returns a budget of the same law from which nobody has drawn.
func (l Law) fresh() *Law {
	l.tokens, l.at, l.double = l.Start, time.Time{}, 0
	return &l
}

// Withdraw takes the price of a retry, if there are enough tokens.
func (l *Law) Withdraw(w retry.Withdrawal) bool {
	l.fade(w.Clock.Now())
	price := l.price(w.Class)
	if l.doubles(w.Class) {
		price = math.Ldexp(price, l.double)
	}
	if l.tokens < price-1e-9 {
		return false
	}
	l.tokens -= price
	return true
}

// End adds what a success has earned, and changes the price.
func (l *Law) End(o retry.Outcome) {
	l.fade(o.Clock.Now())
	doubles := l.doubles(o.Retried)
	switch {
	case o.OK && o.Retried == retry.Unknown:
		l.tokens += l.First
	case o.OK:
		l.tokens += l.Back * l.price(o.Retried)
		if doubles {
			l.double = max(l.double-1, 0)
		} else if l.All {
			l.tokens += float64(o.Retries-1) * l.price(o.Retried)
		}
	case o.Retried != retry.Unknown && doubles:
		l.double = min(l.double+1, l.Doubling)
	}
	l.tokens = min(l.tokens, 10+mostTokens)
}

// doubles reports whether the price of a retry after an error of class c may double.
func (l *Law) doubles(c retry.Class) bool {
	return c == retry.TimedOut || l.Throttled && c == retry.Throttled
}

func (l *Law) price(c retry.Class) float64 {
	if c == retry.TimedOut {
		return l.TimedOut
	}
	return l.Price
}

// tick is how often tokens fade, as those of an EarnedBudget.
const tick = time.Second / 16

func (l *Law) fade(now time.Time) {
	now = now.Truncate(tick)
	fading := 5 * time.Second
	if l.Fading > 0 {
		fading = l.Fading
	}
	full := math.Ldexp(10, l.double)
	if above := l.tokens - full; above > 0 && !l.at.IsZero() {
		pause := now.Sub(l.at)
		if l.Pause > 0 {
			pause = min(pause, l.Pause) + max(pause-time.Minute, 0)
		}
		l.tokens = full + above*math.Exp(-pause.Seconds()/fading.Seconds())
	}
	l.at = now
}
