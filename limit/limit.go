package limit

import (
	"cmp"
	"context"
	"math"
	"sync"

	"github.com/goretry/retry"
)

// ErrLimited is the error with which a [Limit] refuses an attempt that finds no place free. To
// [retry.DefaultClassifier] it is Unprocessed: nothing was sent.
var ErrLimited error = limited{}

type limited struct{}

func (limited) Error() string     { return "limit: too many attempts in flight" }
func (limited) SafeToRetry() bool { return true }            // nothing was sent
func (limited) ErrorType() string { return "limit.limited" } // the error.type of telemetry

// Limit limits the attempts in flight to one dependency, including first attempts. It is a
// [retry.Guard]: set it in Policy.Guards, after those that have attempts wait. It starts with
// Start places, and never has fewer than Min or more than Max. If these
// are zero, they mean 20, 1 and 1000. A Min below 1 counts as 1, and a Max below Min
// as Min. A Start outside of these two counts as the nearer one. A number above 65 535
// counts as 65 535.
//
// Use it by pointer, one for all attempts to one dependency. The zero value is
// ready. Set the fields before the first use, and do not copy it after. It is safe
// for concurrent use. A nil Limit limits nothing.
type Limit struct {
	Start, Min, Max int

	mu sync.Mutex
	state
}

// state is what a Limit knows. flight is never above recent, nor above places: if all
// places are taken, an overload takes less than one away, and one from flight.
type state struct {
	places uint64 // in units of 1/65536 of a place; 0 in a Limit that was not used yet
	recent uint64 // attempts that were in flight recently: see Leave
	flight uint64 // attempts in flight
	late   int64  // three for each Timeout, less what answers take: see Leave
}

const (
	most = 1<<16 - 1
	unit = 1 << 16
)

// lock locks l, which has places then.
func (l *Limit) lock() {
	l.mu.Lock()
	if l.places == 0 {
		l.places = l.start()
	}
}

// start returns the places of a Limit that was not used yet.
func (l *Limit) start() uint64 {
	least, greatest := l.limits()
	return min(max(units(cmp.Or(l.Start, 20)), least), greatest)
}

// limits returns the fewest and the most places.
func (l *Limit) limits() (least, greatest uint64) {
	least = units(l.Min)
	return least, max(units(cmp.Or(l.Max, 1000)), least)
}

// units returns n whole places in the units of a state: at least one, at most most.
func units(n int) uint64 { return uint64(min(max(n, 1), most)) * unit }

// Enter takes a place for an attempt, or refuses it with [ErrLimited]. It allocates nothing.
func (l *Limit) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if l == nil {
		return retry.Pass{}, nil
	}
	l.lock()
	defer l.mu.Unlock()
	if l.flight >= l.places/unit {
		return retry.Pass{}, ErrLimited
	}
	l.flight++
	l.recent = max(l.recent, l.flight)
	return retry.Pass{}, nil
}

// sign is what the end of an attempt says about the load.
type sign uint8

const (
	noSign   sign = iota // nothing: the number of places does not change
	answer               // the dependency has answered
	prompt               // it has answered within half of the time that the attempt had
	overload             // it has said that it is overloaded
	timeout              // no answer came in time: it is overloaded, unless that is rare, or others are prompt
)

// signOf returns what an attempt says about the load. One that was not made, that the caller
// or another copy has ended, or that has panicked, says nothing.
func signOf(x retry.Exit) sign {
	v := &x.Verdict
	switch {
	case x.Ending == retry.Expired:
		return timeout
	case x.Ending != retry.Returned:
		return noSign
	case v.Err != nil && !v.IsAnswer() && timedOut(v.Err):
		return timeout
	case v.Err == nil, v.Class == retry.Permanent && !v.Refused, v.Answered:
		if x.Allowed > 0 && x.Took <= x.Allowed/2 {
			return prompt
		}
		return answer
	case v.Class == retry.Throttled:
		return overload
	case v.Class == retry.TimedOut:
		return timeout
	}
	return noSign
}

// timedOut reports whether err holds an error that timed out, whatever its class: a dial that
// timed out is Unprocessed.
func timedOut(err error) bool {
	return (&retry.Error{Errs: []error{err}}).Timeout() // Timeout survives nil pointers
}

// Leave gives the place of an attempt back, and learns from what has become of it:
//
//   - A Throttled error is a sign of an overload.
//   - So is a timeout, if there are many: an attempt whose deadline has passed, and a TimedOut
//     or any other error that says it timed out.
//   - A success, [retry.ErrRejected], a [retry.Answer] and any other Permanent error but one of
//     [retry.Refuse] are answers, prompt ones if half of the attempt's time is left.
//   - Other errors say nothing. Nor do attempts that the caller has ended, or that panicked.
//
// After an overload the Limit loses a fraction 1/2n of its places, where n is how many
// attempts were in flight recently. So if all of them end with an overload, it loses
// half of its places, however many they are. n is at least the number in flight now,
// this attempt included. It remembers a higher number from before, which falls by one
// with each attempt that ends without an overload. After each overload n is at most
// the places that are left.
//
// A timeout is an overload if others have timed out too: if that is more than a quarter
// of the last attempts, about as many as there are places, or more than three quarters if
// all others are prompt. To tell that, each timeout adds three to a number, each answer
// takes one from it and each prompt one nine. A timeout does not take it above the places, an
// answer not below zero, and a prompt one not below −n: where a replica of two hangs, the
// attempts at it end together. Timeouts are overloads while the number is above a quarter
// of the places. A timeout that is none changes nothing.
//
// After an answer the Limit gains 1/p of a place, where p is how many it has,
// if at least half of them were in use, including this one, or if it has less than at the
// start. So it gains about one place while p attempts succeed.
//
// Leave panics without an Enter.
func (l *Limit) Leave(_ retry.Pass, x retry.Exit) {
	if l == nil {
		return
	}
	sign := signOf(x)
	l.lock()
	defer l.mu.Unlock()
	if l.flight == 0 {
		panic("limit: Leave without Enter")
	}
	whole := l.places / unit
	switch sign {
	case timeout:
		l.late = min(l.late+3, int64(whole))
	case answer:
		l.late -= min(max(l.late, 0), 1)
	case prompt:
		l.late = max(l.late-9, -int64(l.recent))
	}
	least, greatest := l.limits()
	if sign == overload || sign == timeout && 4*l.late > int64(whole) {
		l.places = max(l.places-l.places/(2*l.recent), least)
		l.recent = min(l.recent, l.places/unit)
	} else {
		l.recent--
		if (sign == answer || sign == prompt) && (2*l.flight >= whole || l.places < l.start()) {
			l.places = min(l.places+unit*unit/l.places, greatest)
		}
	}
	l.flight--
}

// InFlight returns how many places are taken; 0 for a nil Limit.
func (l *Limit) InFlight() int {
	if l == nil {
		return 0
	}
	l.lock()
	defer l.mu.Unlock()
	return int(l.flight)
}

// Places returns how many whole places there are now, or [math.MaxInt] for a nil
// Limit.
func (l *Limit) Places() int {
	if l == nil {
		return math.MaxInt
	}
	l.lock()
	defer l.mu.Unlock()
	return int(l.places / unit)
}
