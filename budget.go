package retry

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
)

// Budget limits the retries of all the runs that share it. First attempts are
// never refused. Implementations are safe for concurrent use.
//
// A run calls Begin once, Withdraw before each retry, and End once, whatever
// becomes of op. A retry that was granted is spent, also if the run is canceled in
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
// Reward 1; a negative field counts as zero tokens. A bucket smaller than a cost
// never grants that retry: with a small Capacity set both costs. Set the fields
// before the first use and do not copy it after.
type TokenBudget struct {
	Capacity, Cost, ThrottleCost, Reward int

	used atomic.Int64
}

// Begin does nothing: a first attempt is free.
func (b *TokenBudget) Begin() {}

// Withdraw takes the cost of a retry, if the bucket holds it.
func (b *TokenBudget) Withdraw(c Class, _ int) bool {
	cost, capacity := b.cost(c), b.capacity()
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
	if !ok {
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
	capacity := b.capacity()
	if capacity == 0 {
		return 0
	}
	return float64(capacity-b.used.Load()) / float64(capacity)
}

func (b *TokenBudget) capacity() int64 { return tokens(b.Capacity, 500) }

func (b *TokenBudget) cost(c Class) int64 {
	if c == Throttled {
		return tokens(b.ThrottleCost, 5)
	}
	return tokens(b.Cost, 14)
}

// tokens returns n, its default for 0, and 0 for a negative number.
func tokens(n, byDefault int) int64 {
	if n == 0 {
		n = byDefault
	}
	return int64(max(n, 0))
}

// RatioBudget allows retries ≤ Ratio × runs + MinPerSecond × Window, both counted
// over the last Window, as Finagle's retry budget does. So retries never add more
// than the fraction Ratio to the load, and a service with little traffic still
// has MinPerSecond of them. Goroutines that ask at the very turn of a tenth of the
// window may each be granted the last retry.
//
// The zero value has Ratio 0.1, MinPerSecond 10 and Window 10 s. A negative
// Ratio counts as zero, a negative MinPerSecond gives no floor. The window moves
// in tenths. Clock nil means clockx.System(). Set the fields before the first
// use and do not copy it after.
type RatioBudget struct {
	Ratio, MinPerSecond float64
	Window              time.Duration
	Clock               clockx.Clock

	ring [11]atomic.Pointer[tenth] // the last Window, and the tenth of it underway
}

// tenth counts what happened in a tenth of a window. It is replaced, not emptied,
// when its place in the ring is needed again: then no count is ever half done.
type tenth struct {
	number        int64 // which tenth since the clock's origin
	runs, retries atomic.Int64
}

// Begin counts a run.
func (b *RatioBudget) Begin() {
	b.current().runs.Add(1)
}

// Withdraw counts a retry, if the window has room for it.
func (b *RatioBudget) Withdraw(Class, int) bool {
	for {
		s := b.current()
		granted := s.retries.Load() // before the sum: if it still stands after, no other retry came in between
		runs, retries := b.count(s.number)
		if float64(retries+1) > b.allowed(runs) {
			return false
		}
		if s.retries.CompareAndSwap(granted, granted+1) {
			return true
		}
	}
}

// End does nothing: what happened leaves the window with time.
func (b *RatioBudget) End(Class, bool) {}

// Balance returns the share of the retries now allowed that is left, in [0,1].
func (b *RatioBudget) Balance() float64 {
	runs, retries := b.count(b.current().number)
	if retries == 0 {
		return 1
	}
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
	return share(ratio, runs) + unfused(max(orZero(floor), 0)*b.window().Seconds())
}

func (b *RatioBudget) window() time.Duration {
	if b.Window <= 0 {
		return 10 * time.Second
	}
	return b.Window
}

// current returns the tenth underway. A clock that is set back finds its old
// ones, as far as they are still there.
func (b *RatioBudget) current() *tenth {
	const size = int64(len(b.ring))
	var t time.Duration
	if b.Clock == nil {
		t = time.Since(epoch)
	} else {
		t = time.Duration(b.Clock.Now().UnixNano())
	}
	number := int64(t / max(b.window()/time.Duration(size-1), 1))
	place := &b.ring[(number%size+size)%size]
	for {
		s := place.Load()
		if s != nil && s.number == number {
			return s
		}
		if fresh := (&tenth{number: number}); place.CompareAndSwap(s, fresh) {
			return fresh
		}
	}
}

// count sums up the window that ends with the numbered tenth.
func (b *RatioBudget) count(number int64) (runs, retries int64) {
	for i := range b.ring {
		s := b.ring[i].Load()
		if s != nil && s.number <= number && s.number > number-int64(len(b.ring)) {
			runs += s.runs.Load()
			retries += s.retries.Load()
		}
	}
	return runs, retries
}

// share returns ratio × runs, at most what 32 bits hold, and a little more than
// the product of floats: .29 × 100 is a hair below 29.
func share(ratio float64, runs int64) float64 {
	const rounding = 1e-9
	return min(max(orZero(ratio*float64(runs)), 0)+rounding, math.MaxUint32)
}

// ConcurrencyBudget grants a retry while retries in flight ≤ max(Min, Ratio ×
// runs in flight) holds with it, exactly and under any contention. A run has a
// retry in flight from its first granted one, the wait included, until it ends.
// When runs end and too many of the others hold a place, those keep it for the
// retry they are in, and are refused the next.
//
// The zero value has Ratio 0.2 and Min 3; a negative field counts as zero. Set
// the fields before the first use and do not copy it after.
type ConcurrencyBudget struct {
	Ratio float64
	Min   int

	inFlight atomic.Uint64 // runs in the upper half, retries in the lower: one word, so that they change together
}

const oneRun = 1 << 32

// Begin counts a run in flight.
func (b *ConcurrencyBudget) Begin() { b.inFlight.Add(oneRun) }

// Withdraw takes a place for a run's first retry. A later one keeps that place
// while the limit allows it.
func (b *ConcurrencyBudget) Withdraw(_ Class, retry int) bool {
	for {
		n := b.inFlight.Load()
		if retry > 1 {
			return retries(n) <= b.allowed(n)
		}
		if retries(n)+1 > b.allowed(n) {
			return false
		}
		if b.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// End gives back what the run took.
func (b *ConcurrencyBudget) End(retried Class, _ bool) {
	n := uint64(oneRun)
	if retried != Unknown {
		n++
	}
	b.inFlight.Add(-n)
}

// Balance returns the share of the places now allowed that is free, in [0,1].
func (b *ConcurrencyBudget) Balance() float64 {
	n := b.inFlight.Load()
	if retries(n) == 0 {
		return 1
	}
	return max(1-float64(retries(n))/float64(b.allowed(n)), 0)
}

func retries(n uint64) int64 { return int64(n % oneRun) }

func (b *ConcurrencyBudget) allowed(n uint64) int64 {
	ratio, floor := b.Ratio, b.Min
	if ratio == 0 {
		ratio = .2
	}
	if floor == 0 {
		floor = 3
	}
	return max(int64(share(ratio, int64(n/oneRun))), int64(floor))
}
