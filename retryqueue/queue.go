package retryqueue

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/engine"
)

// Action is what to do with a message.
type Action uint8

const (
	Ack   Action = iota // it is done: the queue forgets it
	Retry               // the queue delivers it again, after Decision.Delay
	Dead                // it is not delivered again: store it as a dead letter, then remove it from the queue
)

// String returns the action as one lower-case word.
func (a Action) String() string {
	switch a {
	case Ack:
		return "ack"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Decision says what becomes of a message.
type Decision struct {
	Action Action

	// Delay is how long the queue is to wait before it delivers the message again:
	// never negative, and zero unless Action is Retry.
	Delay time.Duration

	// Err says why the message is Dead, or, with Retry and [retry.ReasonBudget], why it
	// waits longer than the policy planned. Otherwise it is nil. Its Attempts are
	// deliveries, and its Elapsed and Waited are the message's age. Errs holds only the
	// last delivery's error, because queues keep no errors.
	Err *retry.Error
}

// ErrCrashed is the error of deliveries without a report: the process died, the
// acknowledgement was lost, or the dead letter could not be stored. It is also the
// error of a message that a queue delivers later than planned, after MaxElapsed.
var ErrCrashed = errors.New("retryqueue: a delivery ended without a report")

// Before reports whether the handler of a delivered message may run. Call it before
// the handler. If it returns false, do not run the handler: the message is Dead, as d
// says. Otherwise ignore d, which is the zero Decision. So Before stops a message
// whose handler kills the process and never reaches [After].
//
// Before refuses a delivery if the policy allows fewer deliveries, and any but the
// first if the message is older than MaxElapsed. The error then has one attempt less
// than deliveries, and holds [ErrCrashed]. The parameters are those of After. Before
// does not use the budget. It is safe for concurrent use.
func Before(p retry.Policy, delivered int, first, now time.Time) (d Decision, run bool) {
	old := age(first, now)
	reason := retry.ReasonNone
	switch {
	case delivered <= 1:
	case delivered > p.AttemptLimit():
		reason = retry.ReasonMaxAttempts
	case p.MaxElapsed > 0 && old > p.MaxElapsed:
		reason = retry.ReasonMaxElapsed
	}
	if reason == retry.ReasonNone {
		return Decision{}, true
	}
	return Decision{Action: Dead, Err: &retry.Error{
		Name:     p.Name,
		Reason:   reason,
		Attempts: delivered - 1,
		Elapsed:  old,
		Waited:   old,
		Errs:     []error{ErrCrashed},
	}}, false
}

// After decides what becomes of a message after a delivery. Call it when the handler
// has returned err, which is nil for a success. delivered is the number of the
// delivery: 1 for the first, and values below 1 count as 1. first is when the queue
// first stored the message; zero, or a time later than now, counts as now. now is the
// system's time.
//
//  1. A nil err is Ack.
//  2. If the policy grants a retry, it is Retry after what the server asked for (see
//     [retry.After]) and the backoff.
//  3. If only the budget refuses it, it is Retry after twice that wait plus a second,
//     with Err set: a message that is not retried now can be retried later.
//  4. A server that refused a retry ([retry.Refuse]) did not mean a delivery minutes
//     later: the error counts as Transient.
//  5. Everything else is Dead, with the policy's reason.
//
// The budget holds no place when After returns. After is safe for concurrent use.
func After(p retry.Policy, delivered int, first, now time.Time, err error) Decision {
	if err == nil {
		if p.Budget != nil {
			p.Budget.Begin(retry.Opening{})
			p.Budget.End(retry.Outcome{OK: true})
		}
		return Decision{}
	}
	if p.Budget != nil {
		p.Rand = pinned(p.Rand)
	}
	old := age(first, now)
	d := decide(p, delivered, old, now, err)
	if d.Err == nil || d.Err.Reason != retry.ReasonBudget {
		return d
	}
	p.Budget = nil
	planned := decide(p, delivered, old, now, err).Delay
	return Decision{Action: Retry, Delay: later(planned), Err: d.Err}
}

// decide uses a Loop that is resumed for this delivery and ends with it.
func decide(p retry.Policy, delivered int, old time.Duration, now time.Time, err error) Decision {
	loop := p.Resume(now, max(delivered, 1)-1, old)
	if p.Budget != nil {
		defer loop.Next(now, handedBack) // frees the budget's place, after a panic too; does nothing once the Loop has ended
	}
	verdict := engine.Judge(&p, err)
	if retry.Reason(verdict.End) == retry.ReasonRefused {
		err = refused{retry.ErrRejected, verdict.Hint}
	}
	if wait, ok := loop.Next(now, err); ok {
		return Decision{Action: Retry, Delay: wait}
	}
	e, _ := errors.AsType[*retry.Error](loop.Err())
	e.Errs[0] = verdict.Err
	return Decision{Action: Dead, Err: e}
}

// refused replaces an error that is refused, and is Transient to any policy.
type refused struct {
	error
	hint time.Duration
}

func (r refused) Is(target error) bool      { return target == r.error }
func (r refused) RetryAfter() time.Duration { return r.hint }

var handedBack = retry.Stop(errors.New("retryqueue: handed back to the queue"))

// pinned returns a func that always returns the same one of random's numbers, so that
// two Loops plan the same wait.
func pinned(random func() float64) func() float64 {
	if random == nil {
		random = rand.Float64
	}
	number := random()
	return func() float64 { return number }
}

// later returns 2·d + 1 s, saturated.
func later(d time.Duration) time.Duration {
	if d > (math.MaxInt64-time.Second)/2 {
		return math.MaxInt64
	}
	return 2*d + time.Second
}

// age returns how long ago first was: zero if it is not known, or in the future.
func age(first, now time.Time) time.Duration {
	if first.IsZero() {
		return 0
	}
	return max(now.Sub(first), 0)
}
