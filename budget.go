package retry

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
)

// Budget limits the retries of all the runs that share it. First attempts are
// never refused. Share one budget among all calls to the same dependency: a budget
// that each call makes anew limits nothing. Implementations are safe for
// concurrent use.
//
// A run calls Begin once, Withdraw before each retry, and End once, whatever
// becomes of op. It does not call Withdraw before a retry that follows [ErrRejected]:
// the dependency has answered, and the poll that follows is no extra load. A retry that was granted is spent, even if the run is canceled in
// the wait before it.
type Budget interface {
	// Begin says that a run starts.
	Begin()

	// Withdraw reports whether a retry may follow an error of class c, and
	// accounts for it if so. retry is 1 for the first retry that a run asks for, 2
	// for the next: a budget in which a run holds one place takes it when retry is 1.
	Withdraw(c Class, retry int) bool

	// End says that a run is over. retried is the class that its last granted
	// retry followed, Unknown if it had none; ok says that op succeeded.
	End(retried Class, ok bool)
}

// TokenBudget is a bucket of tokens, as in the standard retry mode of the AWS
// SDKs. A retry takes Cost tokens, or ThrottleCost after a Throttled error. A
// success gives back what the run's last retry took, or Reward if it had none.
// So retries stop when too many of them fail, and come back as calls succeed.
//
// The zero value is a full bucket: Capacity 500, Cost 14, ThrottleCost 5,
// Reward 1. A negative field counts as zero tokens, and a negative Capacity grants
// nothing. A cost above Capacity counts as Capacity, so that a full bucket always
// grants a retry. A nil *TokenBudget grants everything. Set the fields before the
// first use and do not copy it after.
type TokenBudget struct {
	Capacity, Cost, ThrottleCost, Reward int

	used atomic.Int64
}

// Begin does nothing: a first attempt is free.
func (b *TokenBudget) Begin() {}

// Withdraw takes the cost of a retry, if the bucket holds it.
func (b *TokenBudget) Withdraw(c Class, _ int) bool {
	if b == nil {
		return true
	}
	cost, capacity := b.cost(c), b.capacity()
	if capacity == 0 {
		return false
	}
	for {
		used := b.used.Load()
		if cost > capacity-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+cost) {
			return true
		}
	}
}

// End puts tokens back after a success.
func (b *TokenBudget) End(retried Class, ok bool) {
	if b == nil || !ok {
		return
	}
	back := tokens(b.Reward, 1)
	if retried != Unknown {
		back = b.cost(retried)
	}
	for {
		used := b.used.Load()
		if used == 0 || b.used.CompareAndSwap(used, max(used-back, 0)) {
			return // full, mostly: then nobody writes, and cores do not wait for each other
		}
	}
}

// Balance returns the share of Capacity that is left, in [0,1].
func (b *TokenBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	capacity := b.capacity()
	if capacity == 0 {
		return 0
	}
	return float64(capacity-b.used.Load()) / float64(capacity)
}

func (b *TokenBudget) capacity() int64 { return tokens(b.Capacity, 500) }

func (b *TokenBudget) cost(c Class) int64 {
	cost := tokens(b.Cost, 14)
	if c == Throttled {
		cost = tokens(b.ThrottleCost, 5)
	}
	return min(cost, b.capacity())
}

// tokens returns n, its default for 0, and 0 for a negative number.
func tokens(n, byDefault int) int64 {
	if n == 0 {
		n = byDefault
	}
	return int64(max(n, 0))
}

// RatioBudget allows retries ≤ Ratio × runs + MinPerSecond × Window, both counted
// over the last Window, as Finagle's retry budget does. So retries add no more than
// the fraction Ratio to the load, and a service with little traffic still has
// MinPerSecond of them. When one tenth of the window gives way to the next,
// concurrent callers may each get the last retry.
//
// The zero value has Ratio 0.1, MinPerSecond 10 and Window 10 s. A negative
// Ratio counts as zero, a negative MinPerSecond gives no floor. The window moves
// in tenths, and never back. Clock nil means clockx.System(). A nil *RatioBudget
// grants everything. Set the fields before the first use and do not copy it after.
type RatioBudget struct {
	Ratio, MinPerSecond float64
	Window              time.Duration
	Clock               clockx.Clock

	newest atomic.Uint64             // the index of the tenth underway
	ring   [11]atomic.Pointer[tenth] // the last Window, and the tenth of it underway
}

// tenth counts what happened in a tenth of a window. It is replaced, not emptied,
// when its place in the ring is needed again: then no count is ever half done.
type tenth struct {
	index         uint64 // which tenth it is, counted from long before any
	runs, retries atomic.Int64
}

// Begin counts a run.
func (b *RatioBudget) Begin() {
	if b != nil {
		b.current().runs.Add(1)
	}
}

// Withdraw counts a retry, if the window has room for it.
func (b *RatioBudget) Withdraw(Class, int) bool {
	if b == nil {
		return true
	}
	for {
		t := b.current()
		granted := t.retries.Load() // before the sum: if it still stands after, no other retry came in between
		runs, retries := b.sum(t.index)
		if float64(retries+1) > b.allowed(runs) {
			return false
		}
		if t.retries.CompareAndSwap(granted, granted+1) {
			return true
		}
	}
}

// End does nothing: what happened leaves the window with time.
func (b *RatioBudget) End(Class, bool) {}

// Balance returns the share of the retries now allowed that is left, in [0,1].
func (b *RatioBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	runs, retries := b.sum(b.current().index)
	return max(1-float64(retries)/b.allowed(runs), 0)
}

func (b *RatioBudget) allowed(runs int64) float64 {
	ratio, floor := b.Ratio, b.MinPerSecond
	if ratio == 0 {
		ratio = .1
	}
	if floor == 0 {
		floor = 10
	}
	return allowance(ratio, runs) + unfused(max(orZero(floor), 0)*b.window().Seconds())
}

func (b *RatioBudget) window() time.Duration {
	if b.Window <= 0 {
		return 10 * time.Second
	}
	return b.Window
}

// current returns the tenth underway. A goroutine or a clock that is late gets the
// newest one: it must not take away what others have counted since.
func (b *RatioBudget) current() *tenth {
	index := b.advance()
	place := &b.ring[index%uint64(len(b.ring))]
	for {
		t := place.Load()
		if t != nil && t.index >= index {
			return t
		}
		place.CompareAndSwap(t, &tenth{index: index}) // or another goroutine was quicker
	}
}

// advance reads the clock, and returns the index of the tenth underway.
func (b *RatioBudget) advance() uint64 {
	var now time.Duration
	if b.Clock == nil {
		now = time.Since(epoch)
	} else {
		now = time.Duration(b.Clock.Now().UnixNano())
	}
	index := uint64(now/max(b.window()/time.Duration(len(b.ring)-1), 1)) + 1<<63 // in order from the past on
	for {
		newest := b.newest.Load()
		if index <= newest {
			return newest
		}
		b.newest.CompareAndSwap(newest, index) // as above
	}
}

// sum adds up the window that ends with the indexed tenth.
func (b *RatioBudget) sum(index uint64) (runs, retries int64) {
	for i := range b.ring {
		t := b.ring[i].Load()
		if t != nil && t.index <= index && index-t.index < uint64(len(b.ring)) {
			runs += t.runs.Load()
			retries += t.retries.Load()
		}
	}
	return runs, retries
}

// allowance returns ratio × runs, at most what 32 bits hold, and a little more than
// the product of floats: .29 × 100 is a hair below 29.
func allowance(ratio float64, runs int64) float64 {
	const rounding = 1e-9
	return min(max(orZero(ratio*float64(runs)), 0)+rounding, math.MaxUint32)
}

// ConcurrencyBudget grants a retry if at most max(Min, Ratio × runs in flight)
// retries, this one included, would be in flight. The limit is exact under
// contention. A run has a retry in flight from its first granted one, the wait
// included, until it ends. If runs end and the limit falls below the retries in
// flight, those retries finish, but their runs get no more.
//
// The zero value has Ratio 0.2 and Min 3. A negative field counts as zero. A nil
// *ConcurrencyBudget grants everything. Set the fields before the first use and do
// not copy it after.
type ConcurrencyBudget struct {
	Ratio float64
	Min   int

	state atomic.Uint64 // an inFlight: one word, so that both numbers change together
}

// inFlight has the number of runs in its upper half, and that of retries in its
// lower.
type inFlight uint64

const oneRun = 1 << 32

func (n inFlight) runs() int64    { return int64(n / oneRun) }
func (n inFlight) retries() int64 { return int64(n % oneRun) }

// Begin counts a run in flight.
func (b *ConcurrencyBudget) Begin() {
	if b != nil {
		b.state.Add(oneRun)
	}
}

// Withdraw takes a place for a run's first retry. A later one keeps that place
// while the limit allows it.
func (b *ConcurrencyBudget) Withdraw(_ Class, retry int) bool {
	if b == nil {
		return true
	}
	for {
		n := inFlight(b.state.Load())
		switch {
		case retry > 1:
			return n.retries() <= b.allowed(n)
		case n.retries()+1 > b.allowed(n):
			return false
		case b.state.CompareAndSwap(uint64(n), uint64(n+1)):
			return true
		}
	}
}

// End gives back what the run took.
func (b *ConcurrencyBudget) End(retried Class, _ bool) {
	if b == nil {
		return
	}
	n := uint64(oneRun)
	if retried != Unknown {
		n++
	}
	b.state.Add(-n)
}

// Balance returns the share of the places now allowed that is free, in [0,1].
func (b *ConcurrencyBudget) Balance() float64 {
	if b == nil {
		return 1
	}
	n := inFlight(b.state.Load())
	if n.retries() == 0 {
		return 1
	}
	return max(1-float64(n.retries())/float64(b.allowed(n)), 0)
}

func (b *ConcurrencyBudget) allowed(n inFlight) int64 {
	ratio, floor := b.Ratio, b.Min
	if ratio == 0 {
		ratio = .2
	}
	if floor == 0 {
		floor = 3
	}
	return max(int64(allowance(ratio, n.runs())), int64(floor))
}
