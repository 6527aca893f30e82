package limit

import (
	"cmp"
	"context"
	"math"
	"sync/atomic"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// ErrLimited is the error of an attempt that found no place free: op was not called.
// To [retry.DefaultClassifier] it is Unprocessed. Under Policy.NonIdempotent use [Do]:
// around an op that has made another call before, ErrLimited proves nothing.
var ErrLimited error = limited{}

type limited struct{}

func (limited) Error() string     { return "limit: too many attempts in flight" }
func (limited) SafeToRetry() bool { return true }            // nothing was sent
func (limited) ErrorType() string { return "limit.limited" } // the error.type of telemetry

// Limit limits the attempts in flight to one dependency, including first attempts. It
// starts with Start places, and never has fewer than Min or more than Max. If these
// are zero, they mean 20, 1 and 1000. A Min below 1 counts as 1, and a Max below Min
// as Min. A Start outside of these two counts as the nearer one. A number above 65 535
// counts as 65 535.
//
// Use it by pointer, one for all attempts to one dependency. The zero value is
// ready. Set the fields before the first use, and do not copy it after. It is safe
// for concurrent use. A nil Limit limits nothing.
type Limit struct {
	Start, Min, Max int

	word atomic.Uint64 // a packed state
}

// state is what a Limit knows. flight is never above recent, nor above places: if all
// places are taken, an overload takes less than one away, and one from flight.
type state struct {
	places uint64 // in units of 1/65536 of a place; 0 in a Limit that was not used yet
	recent uint64 // attempts that were in flight recently: see Release
	flight uint64 // attempts in flight
}

// A word holds the attempts in flight in its lowest 16 bits, the recent ones above
// them, and the places in the highest 32.
const (
	countBits = 16
	most      = 1<<countBits - 1
	unit      = 1 << 16
)

func (s state) pack() uint64 { return s.places<<(2*countBits) | s.recent<<countBits | s.flight }

// load returns the word and the state in it.
func (l *Limit) load() (word uint64, s state) {
	word = l.word.Load()
	s = state{word >> (2 * countBits), word >> countBits & most, word & most}
	if s.places == 0 {
		least, greatest := l.limits()
		s.places = min(max(units(cmp.Or(l.Start, 20)), least), greatest)
	}
	return word, s
}

// limits returns the fewest and the most places.
func (l *Limit) limits() (least, greatest uint64) {
	least = units(l.Min)
	return least, max(units(cmp.Or(l.Max, 1000)), least)
}

// units returns n whole places in the units of a state: at least one, at most most.
func units(n int) uint64 { return uint64(min(max(n, 1), most)) * unit }

// Acquire takes a place, and reports whether one was free. A caller that gets a place
// must give it back with one call of Release, best in a defer.
func (l *Limit) Acquire() bool {
	if l == nil {
		return true
	}
	for {
		word, s := l.load()
		if s.flight >= s.places/unit {
			return false
		}
		s.flight++
		s.recent = max(s.recent, s.flight)
		if l.word.CompareAndSwap(word, s.pack()) {
			return true
		}
	}
}

// Sign is what the end of an attempt says about the load.
type Sign uint8

const (
	NoSign   Sign = iota // nothing: the number of places does not change
	Answer               // the dependency has answered
	Overload             // the dependency is overloaded
)

// Release gives a place back and says how the attempt ended. A number that is no Sign
// counts as NoSign.
//
// After an Overload the Limit loses a fraction 1/2n of its places, where n is how many
// attempts were in flight recently. So if all of them end with an Overload, it loses
// half of its places, however many they are. n is at least the number in flight now,
// this attempt included. It remembers a higher number from before, which falls by one
// with each attempt that ends without an Overload. After each Overload n is at most
// the places that are left.
//
// After an Answer the Limit gains 1/p of a place, where p is how many it has, if at
// least half of them were in use, including this one. So it gains about one place
// while p attempts succeed.
//
// Release panics without an Acquire.
func (l *Limit) Release(sign Sign) {
	if l == nil {
		return
	}
	least, greatest := l.limits()
	for {
		word, s := l.load()
		if s.flight == 0 {
			panic("limit: Release without Acquire")
		}
		if sign == Overload {
			s.places = max(s.places-s.places/(2*s.recent), least)
			s.recent = min(s.recent, s.places/unit)
		} else {
			s.recent--
			if sign == Answer && 2*s.flight >= s.places/unit {
				s.places = min(s.places+unit*unit/s.places, greatest)
			}
		}
		s.flight--
		if l.word.CompareAndSwap(word, s.pack()) {
			return
		}
	}
}

// InFlight returns how many places are taken; 0 for a nil Limit.
func (l *Limit) InFlight() int {
	if l == nil {
		return 0
	}
	_, s := l.load()
	return int(s.flight)
}

// Places returns how many whole places there are now, or [math.MaxInt] for a nil
// Limit.
func (l *Limit) Places() int {
	if l == nil {
		return math.MaxInt
	}
	_, s := l.load()
	return int(s.places / unit)
}

// Op returns op under l: an attempt that finds no place free fails with [ErrLimited],
// and the place is given back when op returns, panics or exits. The class of its error
// under p, and ctx, decide what the end of an attempt says about the load:
//
//   - [Overload]: a Throttled or TimedOut error, any other timeout, and any error once
//     the deadline of ctx has passed, or ctx was canceled with [retry.ErrAttemptTimeout]
//   - [Answer]: no error, [retry.ErrRejected], or a Permanent error without a mark of
//     [retry.Refuse]
//   - [NoSign]: any other error, a panic, and anything that op returns once ctx is
//     canceled, by the caller or because another attempt of a hedged call was faster
//
// Op returns op itself for a nil Limit, and panics if op is nil. It allocates
// nothing per call.
func Op[T any](l *Limit, p retry.Policy, op func(context.Context) (T, error)) func(context.Context) (T, error) {
	if op == nil {
		panic("limit: nil op")
	}
	if l == nil {
		return op
	}
	return func(ctx context.Context) (v T, err error) {
		if !l.Acquire() {
			return v, ErrLimited
		}
		sign := NoSign
		defer func() { l.Release(sign) }()
		v, err = op(ctx)
		sign = signOf(ctx, &p, err)
		return v, err
	}
}

// Do is [retry.Do] of op under l, as [Op] describes it. An attempt that finds no place
// free has done nothing, so it is retried under Policy.NonIdempotent too. Do panics if
// ctx or op is nil.
func Do[T any](ctx context.Context, p retry.Policy, l *Limit, op func(context.Context) (T, error)) (v T, err error) {
	if op == nil {
		panic("limit: nil op")
	}
	var called bool // for op itself may return an ErrLimited, after it has done something
	under := Op(l, p, func(ctx context.Context) (T, error) {
		called = true
		return op(ctx)
	})
	a := p.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		called = false
		if v, err = under(a.Context()); !called {
			err = retry.Undone(err)
		}
		a.Done(err)
	}
	return v, a.Err()
}

// signOf returns what the end of an attempt with err says about the load.
func signOf(ctx context.Context, p *retry.Policy, err error) Sign {
	end := ctx.Err()
	switch {
	case end == context.Canceled && context.Cause(ctx) != retry.ErrAttemptTimeout:
		return NoSign
	case err == nil:
		return Answer
	case end != nil, passed(ctx, p.Clock), timedOut(err):
		return Overload
	}
	switch v := p.Judge(err); {
	case v.End == retry.ReasonPermanent, v.Answered:
		return Answer
	case v.Class == retry.Throttled, v.Class == retry.TimedOut:
		return Overload
	}
	return NoSign
}

// passed reports whether the deadline of ctx has passed on clock. A connection with
// the same deadline often fails before ctx ends.
func passed(ctx context.Context, clock clockx.Clock) bool {
	deadline, ok := ctx.Deadline()
	if clock == nil {
		clock = clockx.System()
	}
	return ok && !deadline.After(clock.Now())
}

// timedOut reports whether err holds an error that timed out.
func timedOut(err error) bool {
	return (&retry.Error{Errs: []error{err}}).Timeout() // Timeout survives nil pointers
}
