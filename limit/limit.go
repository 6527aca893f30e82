package limit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/errtree"
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

	mu sync.Mutex
	state
}

// state is what a Limit knows. flight is never above recent, nor above places: if all
// places are taken, an overload takes less than one away, and one from flight.
type state struct {
	places uint64 // in units of 1/65536 of a place; 0 in a Limit that was not used yet
	recent uint64 // attempts that were in flight recently: see Release
	flight uint64 // attempts in flight
	late   int64  // three for each Timeout, less what Answers and Prompts take: see Release
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

// Acquire takes a place, and reports whether one was free. A caller that gets a place
// must give it back with one call of Release, best in a defer.
func (l *Limit) Acquire() bool {
	if l == nil {
		return true
	}
	l.lock()
	defer l.mu.Unlock()
	if l.flight >= l.places/unit {
		return false
	}
	l.flight++
	l.recent = max(l.recent, l.flight)
	return true
}

// Sign is what the end of an attempt says about the load.
type Sign uint8

const (
	NoSign   Sign = iota // nothing: the number of places does not change
	Answer               // the dependency has answered
	Prompt               // it has answered within half of the time that the attempt had
	Overload             // it has said that it is overloaded
	Timeout              // no answer came in time: it is overloaded, unless that is rare, or others are prompt
)

// Release gives a place back and says how the attempt ended. A number that is no Sign
// counts as NoSign.
//
// After an Overload the Limit loses a fraction 1/2n of its places, where n is how many
// attempts were in flight recently. So if all of them end with an Overload, it loses
// half of its places, however many they are. n is at least the number in flight now,
// this attempt included. It remembers a higher number from before, which falls by one
// with each attempt that ends without an overload. After each Overload n is at most
// the places that are left.
//
// A Timeout is an overload if others have timed out too: if that is more than a quarter
// of the last attempts, about as many as there are places, or more than three quarters if
// all others are Prompt. To tell that, each Timeout adds three to a number, each Answer
// takes one from it and each Prompt nine. A Timeout does not take it above the places, an
// Answer not below zero, and a Prompt not below −n: where a replica of two hangs, the
// attempts at it end together. Timeouts are overloads while the number is above a quarter
// of the places. A Timeout that is none changes nothing.
//
// After an Answer or a Prompt the Limit gains 1/p of a place, where p is how many it has,
// if at least half of them were in use, including this one, or if it has less than at the
// start. So it gains about one place while p attempts succeed.
//
// Release panics without an Acquire.
func (l *Limit) Release(sign Sign) {
	if l == nil {
		return
	}
	l.lock()
	defer l.mu.Unlock()
	if l.flight == 0 {
		panic("limit: Release without Acquire")
	}
	whole := l.places / unit
	answered := sign == Answer || sign == Prompt
	switch sign {
	case Timeout:
		l.late = min(l.late+3, int64(whole))
	case Answer:
		l.late -= min(max(l.late, 0), 1)
	case Prompt:
		l.late = max(l.late-9, -int64(l.recent))
	}
	least, greatest := l.limits()
	if sign == Overload || sign == Timeout && 4*l.late > int64(whole) {
		l.places = max(l.places-l.places/(2*l.recent), least)
		l.recent = min(l.recent, l.places/unit)
	} else {
		l.recent--
		if answered && (2*l.flight >= whole || l.places < l.start()) {
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

// Op returns op under l: an attempt that finds no place free fails with [ErrLimited],
// and the place is given back when op returns, panics or exits. [SignOf] its error says
// what that means for the number of places, and [NoSign] if it panicked. Op returns op
// itself for a nil Limit, and panics if op is nil. It allocates nothing per call.
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
		sign = SignOf(ctx, p, err)
		return v, err
	}
}

// Do is [retry.Do] of op under l, as [Op] describes it. An attempt that finds no place
// free has done nothing, so it is retried under Policy.NonIdempotent too, and has no
// value: Do returns the last one that op returned. Do panics if
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
		if value, err := under(a.Context()); called {
			v = value
			a.Done(err)
		} else {
			a.Done(retry.Undone(err))
		}
	}
	return v, a.Err()
}

// SignOf returns what the end of an attempt says about the load. ctx is the attempt's. The
// class of err under p, and ctx, decide:
//
//   - [Overload]: a Throttled error
//   - [Timeout]: a TimedOut error, any other timeout, and any error once the deadline of
//     ctx has passed, or ctx was canceled with [retry.ErrAttemptTimeout]
//   - [Prompt]: what else were an Answer, if half of Policy.AttemptTimeout is left until
//     the deadline of ctx
//   - [Answer]: no error, [retry.ErrRejected], a [retry.Answer], or another Permanent
//     error without a mark of [retry.Refuse]
//   - [NoSign]: [retry.ErrPaced] without an attempt, any other error, and anything once
//     ctx is canceled, by the caller or because another attempt of a hedged call was faster
//
// [Op] and [Do] use it. Call it for what [Limit.Release] gets after an [Limit.Acquire].
func SignOf(ctx context.Context, p retry.Policy, err error) Sign {
	end := ctx.Err()
	if end == context.Canceled && context.Cause(ctx) != retry.ErrAttemptTimeout {
		return NoSign
	}
	if err == nil {
		return answer(ctx, &p)
	}
	switch v := p.Judge(err); {
	case v.IsAnswer():
		return answer(ctx, &p)
	case v.Class == retry.Unprocessed && paced(err):
		return NoSign
	case end != nil, passed(ctx, p.Clock), timedOut(err):
		return Timeout
	case v.Class == retry.Permanent && !v.Refused, v.Answered:
		return answer(ctx, &p)
	case v.Class == retry.Throttled:
		return Overload
	case v.Class == retry.TimedOut:
		return Timeout
	}
	return NoSign
}

// answer returns Prompt for an attempt that ends now if half of its time is left, and
// else Answer.
func answer(ctx context.Context, p *retry.Policy) Sign {
	deadline, ok := ctx.Deadline()
	if ok && p.AttemptTimeout > 0 && deadline.Sub(now(p.Clock)) >= p.AttemptTimeout/2 {
		return Prompt
	}
	return Answer
}

func now(c clockx.Clock) time.Time {
	if c == nil {
		c = clockx.System()
	}
	return c.Now()
}

// passed reports whether the deadline of ctx has passed on clock. A connection with
// the same deadline often fails before ctx ends.
func passed(ctx context.Context, clock clockx.Clock) bool {
	deadline, ok := ctx.Deadline()
	return ok && !deadline.After(now(clock))
}

// timedOut reports whether err holds an error that timed out.
func timedOut(err error) bool {
	return (&retry.Error{Errs: []error{err}}).Timeout() // Timeout survives nil pointers
}

// paced reports whether err holds a run that its pace has ended before an attempt. Its
// reason may be a deadline, but nothing was sent.
func paced(err error) bool {
	return errtree.Walk(err, func(err error) errtree.Next { // which survives nil pointers too
		if e, ok := err.(*retry.Error); ok && e.Attempts == 0 && errors.Is(e.Cause, retry.ErrPaced) {
			return errtree.Stop
		}
		return errtree.Into
	})
}
