package limit

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/readings"
)

// silent is an ErrLimited of a dependency that has answered nothing for so long.
type silent struct {
	limited
	wait time.Duration
}

func (silent) Is(target error) bool        { return target == ErrLimited }
func (e silent) RetryAfter() time.Duration { return e.wait }

// Adaptive limits the attempts in flight to one dependency, including first attempts. It is a
// [retry.Guard]: set it in Policy.Guards, after those that have attempts wait. It starts with
// Start places, and never has fewer than Min or more than Max. If these
// are zero, they mean 20, 1 and 1000. A Min below 1 counts as 1, and a Max below Min
// as Min. A Start outside of these two counts as the nearer one. A number above 65 535
// counts as 65 535.
//
// Use it by pointer, one for all attempts to one dependency. The zero value is
// ready. Set the fields before the first use, and do not copy it after. It is safe
// for concurrent use. A nil Limit limits nothing.
type Adaptive struct {
	Start, Min, Max int

	mu sync.Mutex
	state

	heard atomic.Int64 // nanoseconds: when something was answered last, or the first of those in flight began, on the clock of its policy
}

// state is what a Limit knows. flight is never above recent, nor above places: if all
// places are taken, an overload takes less than one away, and one from flight.
type state struct {
	places uint64 // in units of 1/65536 of a place; 0 in a Limit that was not used yet
	recent uint64 // attempts that were in flight recently: see Leave
	flight uint64 // attempts in flight
	late   int64  // lateTimeout for each timeout or slow answer, less what others take: see Leave

	allowed time.Duration // that the attempt had which was answered last; 0: none was, or it had no deadline

	usual time.Duration // a quarter of the answers take no longer: see learn
	calm  float64       // attempts that are in flight while answers take as long as usual
	slow  bool          // an answer was slow, and none to an attempt that began later was not
}

const (
	most = 1<<16 - 1
	unit = 1 << 16
)

// What a Limit takes for slow, and how it counts: see Leave. A number is one part of so many.
const (
	lateTimeout = 3 // what a timeout or a slow answer adds to state.late
	lateAnswer  = 1 // what an answer takes from it
	latePrompt  = 9 // and a prompt one: so three quarters may be late beside prompt ones
	mostLate    = 4 // part of the places above which late answers are an overload

	slowShare   = 6 // part of its time above which an answer may be slow
	slowSurplus = 4 // and the part of what is usual by which it takes longer
)

// How fast a Limit learns: see learn. A number is one part of so many.
const (
	stepUp     = 32 // the most that one answer adds to what is usual, or moves state.calm
	stepUpFew  = 16 // with few places, to which the load is not the reason
	stepsPerUp = 3  // a step down is so many steps up: a quarter of the answers are below
)

// lock locks l, which has places then.
func (l *Adaptive) lock() {
	l.mu.Lock()
	if l.places == 0 {
		l.places = l.start()
	}
}

// start returns the places of a Limit that was not used yet.
func (l *Adaptive) start() uint64 {
	least, greatest := l.limits()
	return min(max(units(cmp.Or(l.Start, 20)), least), greatest)
}

// limits returns the fewest and the most places.
func (l *Adaptive) limits() (least, greatest uint64) {
	least = units(l.Min)
	return least, max(units(cmp.Or(l.Max, 1000)), least)
}

// units returns n whole places in the units of a state: at least one, at most most.
func units(n int) uint64 { return uint64(min(max(n, 1), most)) * unit }

// Enter takes a place for an attempt, or refuses it with [ErrLimited]. A refused attempt is made
// again after the backoff. But while nothing is answered no place becomes free before attempts time
// out, and the attempts of a run would be over in a moment. So once nothing has been answered for
// so long that any answer would be slow (see Leave), a refused attempt waits for as long again, at
// most one and a half times as long as attempts have. Only such a refusal allocates.
func (l *Adaptive) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	if l == nil {
		return retry.Pass{}, nil
	}
	l.lock()
	defer l.mu.Unlock()
	if l.flight >= l.places/unit {
		return retry.Pass{}, l.refusal(readings.Of(e.Clock))
	}
	if l.flight == 0 {
		l.heard.Store(int64(readings.Of(e.Clock)))
	}
	l.flight++
	l.recent = max(l.recent, l.flight)
	if l.slow {
		return retry.Pass{Round: afterSlow}, nil
	}
	return retry.Pass{}, nil
}

// refusal returns the error of an attempt that finds no place.
func (l *Adaptive) refusal(now time.Duration) error {
	if silence := now - time.Duration(l.heard.Load()); isSlow(silence, l.allowed, l.usual) {
		return silent{wait: min(silence, l.allowed+l.allowed/2)}
	}
	return ErrLimited
}

// afterSlow is the Round of an attempt that began when answers were slow.
const afterSlow = 1

// sign is what the end of an attempt says about the load.
type sign uint8

const (
	noSign   sign = iota // nothing: the number of places does not change
	answer               // the dependency has answered
	prompt               // it has answered within half of the time that the attempt had
	slow                 // it has answered late, as before this attempt: it is overloaded, unless that is rare, or others are prompt
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
// A slow answer counts as a timeout: one that took more than a sixth of the time that the
// attempt had, and a quarter longer than is usual. So places fall before answers come too
// late. It counts only if more than half of the places were in use recently, and if the
// attempt began after another slow answer and no quicker one came since from an attempt that
// began so: after a stop all in flight are slow, but once. Slow answers leave 2c places, where
// c is how many attempts are in flight while answers take as long as usual. If they are as
// slow with these, the load is not the reason, and soon that is usual.
//
// After an answer the Limit gains 1/p of a place, where p is how many it has,
// if at least half of them were in use, including this one, or if it has less than at the
// start. So it gains about one place while p attempts succeed. A slow answer that is no
// overload is one like others.
//
// Leave panics without an Enter.
func (l *Adaptive) Leave(p retry.Pass, x retry.Exit) {
	if l == nil {
		return
	}
	sign := signOf(x)
	answered := x.Ending == retry.Returned && sign != timeout
	l.leave(p, x, sign, answered)
	if answered { // now that the place is free: a clock may run any code
		l.heard.Store(int64(readings.Of(x.Clock)))
	}
}

func (l *Adaptive) leave(p retry.Pass, x retry.Exit, sign sign, answered bool) {
	l.lock()
	defer l.mu.Unlock()
	if l.flight == 0 {
		panic("limit: Leave without Enter")
	}
	if answered {
		l.allowed = x.Allowed
	}
	whole := l.places / unit
	least, greatest := l.limits()
	if sign == answer || sign == prompt {
		if l.tooSlow(p, x) {
			sign = slow
		}
		l.learn(max(x.Took, 0))
	}
	switch sign {
	case timeout, slow:
		l.late = min(l.late+lateTimeout, int64(whole))
	case answer:
		l.late -= min(max(l.late, 0), lateAnswer)
	case prompt:
		l.late = max(l.late-latePrompt, -int64(l.recent))
	}
	if sign == slow {
		least = l.enough()
	}
	if sign == overload || (sign == timeout || sign == slow) && mostLate*l.late > int64(whole) {
		l.places = min(l.places, max(l.places-l.places/(2*l.recent), least))
		l.recent = min(l.recent, l.places/unit)
	} else {
		l.recent--
		if sign != noSign && sign != timeout && (2*l.flight >= whole || l.places < l.start()) {
			l.places = min(l.places+unit*unit/l.places, greatest)
		}
	}
	l.flight--
}

// tooSlow reports whether an answer is slow: see Leave. It notes whether those to come are to be
// taken for slow.
func (l *Adaptive) tooSlow(p retry.Pass, x retry.Exit) bool {
	late := isSlow(x.Took, x.Allowed, l.usual)
	afterAnother := p.Round == afterSlow
	if late || afterAnother {
		l.slow = late
	}
	return late && afterAnother && 2*l.recent > l.places/unit
}

// isSlow reports whether so long is a long time for an answer to an attempt that was allowed some
// time, where answers usually take another.
func isSlow(took, allowed, usual time.Duration) bool {
	return allowed > 0 && took > allowed/slowShare && took > usual+usual/slowSurplus
}

// enough returns the places below which answers do not become quicker.
func (l *Adaptive) enough() uint64 {
	least, _ := l.limits()
	return max(least, uint64(2*l.calm*unit))
}

// learn learns from an answer how long answers usually take, and how many attempts are in
// flight then. An overload must not become usual: only a load of at most half of the places
// shows that answers have become slower, or a limit that cannot make them quicker. A step up
// is a third of one down, so that a quarter of the answers are below.
func (l *Adaptive) learn(took time.Duration) {
	calm, few := 2*l.recent <= l.places/unit, l.places <= l.enough()
	switch rise := took - l.usual; {
	case l.usual == 0:
		l.usual = took
	case rise < 0:
		l.usual += max(rise, -stepsPerUp*(l.usual/stepUp))
	case few:
		l.usual += min(rise, l.usual/stepUpFew)
	case calm:
		l.usual += min(rise, l.usual/stepUp)
	}
	if calm {
		others := float64(l.flight - 1)
		if took > l.usual {
			others *= float64(l.usual) / float64(took) // the rest waits
		}
		l.calm += (others - l.calm) / stepUp
	}
}

// InFlight returns how many places are taken; 0 for a nil Limit.
func (l *Adaptive) InFlight() int {
	if l == nil {
		return 0
	}
	l.lock()
	defer l.mu.Unlock()
	return int(l.flight)
}

// Places returns how many whole places there are now, or [math.MaxInt] for a nil
// Limit.
func (l *Adaptive) Places() int {
	if l == nil {
		return math.MaxInt
	}
	l.lock()
	defer l.mu.Unlock()
	return int(l.places / unit)
}
