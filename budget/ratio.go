package budget

import (
	"math"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/readings"
)

// Ratio allows retries ≤ Ratio × successes + MinPerSecond × Window, both counted
// over the last Window. A success is a run that succeeded, even after a retry. So
// retries add at most the fraction Ratio to the calls that succeed, and hardly
// anything while all calls fail. The limit is exact under contention.
//
// A process with few calls would never get a retry by that rule. So if the Window
// allows less than one retry and has had none, one is granted all the same. After that
// one, ⌈1/Ratio⌉ runs must succeed before the next such retry. These retries count in
// the Window. So a new Ratio grants one retry, and then none until runs succeed.
//
// The zero value has Ratio 0.1, MinPerSecond 0 and Window 10 s. A negative Ratio
// counts as zero, and then a process with few calls gets no retry either. The window
// moves in tenths, on the clocks of the policies that share the budget. If a clock is behind
// by more than a minute and a Window, because it was set back or is another one, a new
// Window starts. If it is behind by less, the window stands still until the clock has caught
// up. A nil *Ratio grants everything. Set the fields before the first use and do not
// copy it after.
type Ratio struct {
	Ratio float64

	// MinPerSecond is how many retries per second are granted without successes, to each
	// process: a thousand processes get a thousand times as many. Zero or negative means
	// none.
	MinPerSecond float64

	Window time.Duration

	mu     sync.Mutex
	clock  clockx.Clock      // of the latest Withdraw or End, for Balance
	shift  int64             // added to the clock's tenths to get indices, which never go back
	newest int64             // the index of the tenth underway; 0 before the first
	owed   int64             // successes that must follow before a process with few calls gets another retry
	ring   [tenths + 1]tenth // the last Window, and the tenth of it underway
}

const tenths = 10

// tenth counts what happened in a tenth of a window.
type tenth struct{ successes, retries int64 }

// Withdraw counts a retry, if the window has room for it.
func (b *Ratio) Withdraw(w retry.Withdrawal) bool {
	if b == nil {
		return true
	}
	now := b.now(w.Clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = w.Clock
	t := b.current(now)
	successes, retries := b.sum()
	if float64(retries+1) > b.allowed(successes) {
		if retries > 0 || !b.lends() {
			return false
		}
		b.owed = b.successesPerRetry()
	}
	t.retries++
	return true
}

// End counts a run that succeeded, and no longer counts retries that were not made.
func (b *Ratio) End(o retry.Outcome) {
	if b == nil || !o.OK && unsent(o) == 0 {
		return
	}
	now := b.now(o.Clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = o.Clock
	t := b.current(now)
	if n := unsent(o); n > 0 {
		b.owed = 0 // it may have been the one that the window had no room for
		for ; n > 0 && b.forget(); n-- {
		}
	}
	if o.OK {
		t.successes++
		b.owed = max(b.owed, 1) - 1
	}
}

// forget takes the latest retry of the window back, and reports whether there was one.
func (b *Ratio) forget() bool {
	for i := range int64(len(b.ring)) {
		if t := &b.ring[(b.newest-i+int64(len(b.ring)))%int64(len(b.ring))]; t.retries > 0 {
			t.retries--
			return true
		}
	}
	return false
}

// Price returns one token for a retry, and for how many the window has room.
func (b *Ratio) Price(retry.Withdrawal) (price, left float64) {
	if b == nil {
		return 0, math.Inf(1)
	}
	allowed, retries := b.count()
	return 1, max(allowed-retries, 0)
}

// Balance returns which fraction of the retries now allowed is left, in [0,1].
func (b *Ratio) Balance() float64 {
	if b == nil {
		return 1
	}
	allowed, retries := b.count()
	if retries >= allowed {
		return 0
	}
	return 1 - retries/allowed
}

// count returns how many whole retries the window allows now, and how many it has had. It reads
// the clock of the latest Withdraw or End.
func (b *Ratio) count() (allowed, retries float64) {
	b.mu.Lock()
	clock := b.clock
	b.mu.Unlock()
	now := b.now(clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current(now)
	successes, had := b.sum()
	allowed = math.Floor(b.allowed(successes))
	if allowed == 0 && b.lends() {
		allowed = 1
	}
	return allowed, float64(had)
}

func (b *Ratio) allowed(successes int64) float64 {
	return allowance(b.ratio(), successes) + float64(positive(b.MinPerSecond)*b.window().Seconds())
}

// lends reports whether a retry is granted that the window has no room for, provided
// that there was none in the window.
func (b *Ratio) lends() bool { return b.ratio() > 0 && b.owed == 0 }

// successesPerRetry returns ⌈1/Ratio⌉, with the rounding of allowance.
func (b *Ratio) successesPerRetry() int64 {
	return int64(min(max(math.Ceil((1-rounding)/b.ratio()), 1), math.MaxUint32))
}

func (b *Ratio) ratio() float64 {
	if b.Ratio == 0 {
		return .1
	}
	return b.Ratio
}

func (b *Ratio) window() time.Duration {
	if b.Window <= 0 {
		return 10 * time.Second
	}
	return b.Window
}

// now returns the time on a clock in tenths of the window. Call it without the mutex: the
// clock may run any code.
func (b *Ratio) now(c clockx.Clock) int64 { return int64(readings.Of(c) / b.length()) }

// length returns that of a tenth.
func (b *Ratio) length() time.Duration { return max(b.window()/tenths, 1) }

// current returns the tenth underway at a time in tenths, and empties what is no longer
// in the window. A goroutine that has read the clock before others counts with them.
func (b *Ratio) current(now int64) *tenth {
	index := now + b.shift
	if behind := b.newest - index; b.newest == 0 || behind < -tenths || behind > tenths+int64(time.Minute/b.length()) {
		b.shift = b.newest - now + tenths + 1 // a new window, after all that was counted
		index = now + b.shift
	}
	for i := b.newest + 1; i <= index; i++ {
		b.ring[i%int64(len(b.ring))] = tenth{}
	}
	b.newest = max(b.newest, index)
	return &b.ring[b.newest%int64(len(b.ring))]
}

// sum adds up the window.
func (b *Ratio) sum() (successes, retries int64) {
	for _, t := range b.ring {
		successes += t.successes
		retries += t.retries
	}
	return successes, retries
}

// rounding is added to a product of floats: .29 × 100 is a little less than 29.
const rounding = 1e-9

// positive returns x, or 0 if that is negative or NaN.
func positive(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// allowance returns ratio × runs, at most what 32 bits hold.
func allowance(ratio float64, runs int64) float64 {
	return min(positive(ratio*float64(runs))+rounding, math.MaxUint32)
}
