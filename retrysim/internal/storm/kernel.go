package storm

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
)

// kernel is a simulation's time: a queue of events, and a clock that jumps from
// one to the next. What happens at the same instant happens in the order in which
// it was scheduled.
//
// The queue is a radix heap: an event lies in the level of the highest bit in which
// its time differs from now, and moves down when its level is the first that is not
// empty. So a million events are moved in bulk, where a binary heap would miss the
// cache at every step.
type kernel struct {
	clockx.Clock // the policies'. nil: nothing in a simulation sleeps

	now    time.Duration // the last event's, since the start
	levels [64][]event
	taken  int // of the events in the lowest level, which happen now

	arrivals *rand.Rand // when clients call: apart, so that every policy meets the same calls
	rand     *rand.Rand // all else
}

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
	level := &k.levels[bits.Len64(uint64(e.at^k.now))]
	*level = append(*level, e)
}

// next takes the earliest event and moves the time to it. It reports false when
// there is none.
func (k *kernel) next() (event, bool) {
	lowest := &k.levels[0]
	if k.taken > 1024 && 2*k.taken > len(*lowest) { // retries without a wait all happen now: they must not pile up
		k.taken, *lowest = 0, append((*lowest)[:0], (*lowest)[k.taken:]...)
	}
	if k.taken == len(*lowest) {
		k.taken, *lowest = 0, (*lowest)[:0]
		level := slices.IndexFunc(k.levels[:], func(events []event) bool { return len(events) > 0 })
		if level < 0 {
			return event{}, false
		}
		events := k.levels[level]
		k.now = events[0].at
		for _, e := range events {
			k.now = min(k.now, e.at)
		}
		for _, e := range events { // each to a lower level, and the earliest to the lowest
			k.add(e)
		}
		k.levels[level] = events[:0]
		if cap(events) > 1024 { // memory that may never be needed again
			k.levels[level] = nil
		}
	}
	k.taken++
	return (*lowest)[k.taken-1], true
}

// Now returns the time as policies want it.
func (k *kernel) Now() time.Time { return epoch.Add(k.now) }

// ready returns p as a simulation runs it: on its clock, with its random numbers,
// and with a budget of its own that nobody has drawn from.
func (k *kernel) ready(p retry.Policy) retry.Policy {
	p.Clock, p.Rand = k, k.rand.Float64
	p.Budget = Fresh(p.Budget)
	return p
}

// Fresh returns a budget like b from which nobody has drawn. One that is not this
// library's makes it by its method Fresh; without that it is returned as it is.
func Fresh(b retry.Budget) retry.Budget {
	switch b := b.(type) {
	case *retry.EarnedBudget:
		return new(retry.EarnedBudget)
	case *budget.Token:
		return &budget.Token{Capacity: b.Capacity, Cost: b.Cost, ThrottleCost: b.ThrottleCost, Reward: b.Reward}
	case *budget.Ratio:
		return &budget.Ratio{Ratio: b.Ratio, MinPerSecond: b.MinPerSecond, Window: b.Window}
	case *Law:
		return b.fresh()
	case interface{ Fresh() retry.Budget }:
		return b.Fresh()
	}
	return b
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
