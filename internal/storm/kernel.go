package storm

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// kernel is a simulation's time: a queue of events, and a clock that jumps from
// one to the next. What happens at the same instant happens in the order in which
// it was scheduled.
//
// The queue is a radix heap, which no event enters that is earlier than the last
// one taken. An event lies in the level of the highest digit in which its time
// differs from the last one's, in the slot of that digit. It moves down a level or
// more when its slot is the first that is not empty. So nothing is ever compared,
// and a million events are moved in bulk, where a binary heap would miss the cache
// at every step.
type kernel struct {
	now    time.Duration // the last event's, since the start
	base   time.Duration // what levels are relative to: now, or on the way to the next event
	levels [levels][1 << digit][]event
	filled [levels]uint64 // a bit for each slot
	taken  int            // of the events in the first slot of the lowest level
	spare  [][]event      // memory of slots that were emptied

	arrivals *rand.Rand // when clients call: apart, so that every policy meets the same calls
	rand     *rand.Rand // all else
}

const (
	digit  = 6 // bits
	levels = 64/digit + 1
	retain = 64 // events; the memory of a slot that held more is not kept
)

// event is 16 bytes: half of what a simulation of many clients touches.
type event struct {
	at    time.Duration
	index int32
	what  uint32 // the kind in the lowest 4 bits, and the try
}

func (e event) kind() kind  { return kind(e.what % (1 << 4)) }
func (e event) try() uint32 { return e.what >> 4 }

// following returns the try after another one. It leaves one out, for a hedge, and
// wraps before an event could not hold it.
func following(try uint32) uint32 { return (try + 2) % (1 << 28) }

// kind says what an event is; each model has its own.
type kind uint8

var epoch = time.Unix(0, 0).UTC()

func newKernel(seed uint64) *kernel {
	return &kernel{arrivals: rand.New(rand.NewPCG(seed, 1)), rand: rand.New(rand.NewPCG(seed, 2))}
}

// schedule adds an event that happens after d, to the call or client of that
// index, and to its try where a model counts these. One at the end of time, or
// later than a Duration can tell, never happens.
func (k *kernel) schedule(d time.Duration, what kind, index int32, try uint32) {
	if at := later(k.now, d); at < math.MaxInt64 {
		k.add(event{at, index, try<<4 | uint32(what)})
	}
}

func (k *kernel) add(e event) {
	level := max(bits.Len64(uint64(e.at^k.base))-1, 0) / digit
	n := e.at >> (level * digit) % (1 << digit)
	slot := &k.levels[level][n]
	if last := len(k.spare) - 1; *slot == nil && last >= 0 {
		*slot, k.spare = k.spare[last], k.spare[:last]
	}
	*slot = append(*slot, e)
	k.filled[level] |= 1 << n
}

// next takes the earliest event and moves the time to it. It reports false when
// there is none.
func (k *kernel) next() (event, bool) {
	for level := 0; k.filled[0] == 0; level++ {
		if level == levels {
			return event{}, false
		}
		if k.filled[level] != 0 {
			k.lower(level)
			break
		}
	}
	n := bits.TrailingZeros64(k.filled[0])
	e := k.levels[0][n][k.taken]
	if k.taken++; k.taken == len(k.levels[0][n]) {
		k.taken = 0
		k.empty(0, n)
	}
	k.now, k.base = e.at, e.at
	return e, true
}

// lower moves the events in the first slot of a level down, the earliest of them
// to the lowest level.
func (k *kernel) lower(level int) {
	n := bits.TrailingZeros64(k.filled[level])
	events := k.levels[level][n]
	k.base = events[0].at
	for _, e := range events {
		k.base = min(k.base, e.at)
	}
	for _, e := range events {
		k.add(e)
	}
	k.empty(level, n)
}

// empty keeps a slot's memory for another slot.
func (k *kernel) empty(level, n int) {
	if slot := k.levels[level][n]; cap(slot) <= retain {
		k.spare = append(k.spare, slot[:0])
	}
	k.levels[level][n] = nil
	k.filled[level] &^= 1 << n
}

// clock shows a kernel's time to the policies that want to know. Its Clock is nil:
// nothing in a simulation sleeps.
type clock struct {
	clockx.Clock
	*kernel
}

func (c clock) Now() time.Time { return c.time() }

// time returns the time as a Loop wants it.
func (k *kernel) time() time.Time { return epoch.Add(k.now) }

// ready returns p as a simulation runs it: on its clock, with its random numbers,
// and with a budget of its own that nobody has drawn from.
func (k *kernel) ready(p retry.Policy) retry.Policy {
	p.Clock, p.Rand = clock{nil, k}, k.rand.Float64
	p.Budget = Fresh(p.Budget, p.Clock)
	return p
}

// Fresh returns a budget like b from which nobody has drawn, on a clock. One that is
// not this library's makes it by its method Fresh; without that it is returned as
// it is.
func Fresh(b retry.Budget, clock clockx.Clock) retry.Budget {
	switch b := b.(type) {
	case *retry.TokenBudget:
		return &retry.TokenBudget{Capacity: b.Capacity, Cost: b.Cost, ThrottleCost: b.ThrottleCost, Reward: b.Reward}
	case *retry.RatioBudget:
		return &retry.RatioBudget{Ratio: b.Ratio, MinPerSecond: b.MinPerSecond, Window: b.Window, Clock: clock}
	case *retry.ConcurrencyBudget:
		return &retry.ConcurrencyBudget{Ratio: b.Ratio, Min: b.Min}
	case interface{ Fresh() retry.Budget }:
		return b.Fresh()
	}
	return b
}

// exponential returns an exponentially distributed number with mean 1, by von
// Neumann's method. It compares and adds, and nothing else: math.Log, and products
// that some processors fuse with a sum, may differ in the last bit from machine to
// machine.
func exponential(r *rand.Rand) float64 {
	for whole := 0.0; ; whole++ {
		first := r.Float64()
		odd := true
		for u := first; ; odd = !odd {
			next := r.Float64()
			if next >= u {
				break
			}
			u = next
		}
		if odd {
			return whole + first
		}
	}
}

// normal returns a normally distributed number with mean 0 and deviation 1, by
// rejection from the exponential distribution.
func normal(r *rand.Rand) float64 {
	for {
		x, y := exponential(r), exponential(r)
		if d := x - 1; d*d <= 2*y {
			if r.Uint64()&1 == 0 {
				return -x
			}
			return x
		}
	}
}

// times returns d·x, and the longest Duration where that is more.
func times(d time.Duration, x float64) time.Duration {
	if ns := float64(d) * x; ns < 1<<63 {
		return time.Duration(ns)
	}
	return math.MaxInt64
}

// later returns t+d, and the longest Duration where that is more.
func later(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}
