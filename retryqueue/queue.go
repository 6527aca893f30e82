package retryqueue

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/readings"
)

// Action is what to do with a message.
type Action uint8

const (
	Undecided Action = iota // nothing was decided: the message must stay in the queue
	Ack                     // it is done: the queue forgets it
	Retry                   // the queue delivers it again, after Decision.Delay
	Dead                    // it is not delivered again: store it as a dead letter, then remove it from the queue
)

// String returns the action as one lower-case word.
func (a Action) String() string {
	if words := [...]string{"undecided", "ack", "retry", "dead"}; int(a) < len(words) {
		return words[a]
	}
	return "unknown"
}

// Decision says what becomes of a message.
type Decision struct {
	Action Action

	// Delay is how long the queue is to wait before it delivers the message again:
	// never negative, and zero unless Action is Retry.
	Delay time.Duration

	// Uncounted says, with Retry, that the handler's error was "not yet": it is or wraps
	// [retry.ErrRejected]. Such a delivery counts for no limit but MaxElapsed. If you keep the number
	// of deliveries yourself, pass the same Delivery.Number again. If not, see Delivery.Counted.
	Uncounted bool

	// Panicked says that the handler has panicked. Handle passes the panic on when settle returns,
	// which may end the process: do not wait long for what cannot be told.
	Panicked bool

	// Err says why the message is Dead, or, with Retry and [retry.ReasonBudget], why it
	// waits longer than the policy planned. Otherwise it is nil: check that before you
	// return it as an error. Its Attempts are deliveries, its Elapsed and Waited the message's age,
	// and its Errs the last delivery's error alone, because queues keep no errors.
	Err *retry.Error
}

// ErrCrashed is the error of deliveries without a report: the process died, the
// acknowledgement was lost, or the dead letter could not be stored. It is also the
// error of a message that a queue delivers much later than planned, after MaxElapsed.
var ErrCrashed = errors.New("retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement")

// ErrPanicked is the error of a delivery whose handler panicked or called runtime.Goexit.
var ErrPanicked = errors.New("retryqueue: the handler panicked")

// Delivery is what a queue says about one delivery of a message. Its methods keep no
// state, and are safe for concurrent use.
type Delivery struct {
	// Number is how often the queue has delivered the message, this delivery included. A number
	// below 1 counts as 1. To Hooks it is the number of the attempt. [retry.AttemptNumber] counts
	// the attempts of this process instead, and is 1 in a handler.
	Number int

	// Counted says that the queue itself counts every delivery, as JetStream, SQS and Pub/Sub do,
	// so that Number grows after a Decision that is Uncounted, too. Then "not yet" is Dead at the last
	// delivery that the policy allows, with [retry.ReasonMaxAttempts] and its own error: the next one
	// would look like a crash. Set MaxAttempts to [retry.Unlimited], and MaxElapsed, for messages that
	// may say so often.
	Counted bool

	// Stored is when the queue first stored the message. Zero, and a time after Now, count
	// as Now.
	Stored time.Time

	// Now is the time on the system's clock, because queues use that. Zero means time.Now.
	Now time.Time

	// Context returns the context of the delivery, derived from ctx, which is Handle's. So it can be a
	// part of the trace in which the message was published. It is called before Hooks.Start, unless
	// Before refuses: such a message may have ended its process here. Nil, and a Context that returns
	// nil, mean ctx. Only Handle uses it.
	Context func(ctx context.Context) context.Context

	// Done tells a [Gate] what has become of the message: it is what [Gate.Wait] has returned, with
	// the message's ID. Handle calls it once: with what the handler has returned, or with an error that
	// says nothing, if that did not run, has panicked, or failed after its context was canceled. Nil
	// means none. Only Handle uses it.
	Done func(err error)
}

// Before reports whether the handler of a delivered message may run. Call it before
// the handler. If it returns false, do not run the handler: the message is Dead, as d
// says. Otherwise ignore d, which is the zero Decision. So Before stops a message
// whose handler kills the process and never reaches [Delivery.After].
//
// Before refuses a delivery if the policy allows fewer deliveries. It refuses any but
// the first if the message is older than MaxElapsed by more than a tenth of it, and by
// more than a second: what After has granted runs although the queue is a little late.
// The error then has one attempt less than deliveries, and holds [ErrCrashed]. Before
// does not use the budget.
func (m Delivery) Before(p retry.Policy) (d Decision, run bool) {
	_, age := m.times()
	var reason retry.Reason
	switch {
	case m.Number > p.AttemptLimit(): // which is one at least
		reason = retry.ReasonMaxAttempts
	case m.Number > 1 && p.MaxElapsed > 0 && age-p.MaxElapsed > max(p.MaxElapsed/10, time.Second):
		reason = retry.ReasonMaxElapsed
	default:
		return Decision{}, true
	}
	e := &retry.Error{Name: p.Name, Reason: reason, Attempts: m.Number - 1, Elapsed: age, Waited: age, Errs: []error{ErrCrashed}}
	return Decision{Action: Dead, Err: e}, false
}

// After decides what becomes of a message after a delivery. Call it when the handler
// has returned err, which is nil for a success.
//
//  1. A nil err is Ack, and so is a [retry.Answer].
//  2. If the policy grants a retry, it is Retry after what the server asked for (see
//     [retry.After]) and the backoff.
//  3. If MaxRetryAfter is zero, what a server asks for never ends a message, because a queue can wait:
//     not if an inner run has ended by it, either. It is Retry after that wait, which lengthens a
//     delay to twelve hours at most, or at the end of MaxElapsed, also if the backoff alone would pass
//     that.
//  4. If only the budget refuses it, it is Retry after twice that wait plus a second, but within
//     MaxElapsed, with Err set.
//  5. A server that refused a retry ([retry.Refuse]) did not mean a delivery later: the
//     error counts as Throttled, with the wait that it asks for, or else a second or
//     MaxRetryAfter, whichever is less.
//  6. An error that is or wraps [retry.ErrRejected], also in [retry.After], says "not yet". It is
//     Retry, and Uncounted: the budget is not asked, and MaxAttempts does not count, but see
//     Delivery.Counted. The wait is that of After, or else the backoff that the message's age has
//     come to, and never below a second. Without MaxElapsed the message is Dead a day after Stored,
//     however long it has waited for its first delivery. MaxRetryAfter and NonIdempotent end it as ever.
//  7. Everything else is Dead, with the policy's reason.
//
// What Policy.Classify has no opinion on is judged by [Patient], and then by
// [retry.DefaultClassifier]. The budget holds no place when After returns.
func (m Delivery) After(p retry.Policy, err error) Decision { return m.judged(p, judge(p, err)) }

// judged decides by the verdict on what the handler returned.
func (m Delivery) judged(p retry.Policy, v retry.Verdict) Decision {
	switch {
	case v == retry.Verdict{}: // a success, of which the budget is told
		if p.Budget != nil {
			p.Budget.End(retry.Outcome{Name: p.Name, OK: true, Clock: readings.Clock(p.Clock)})
		}
		return Decision{Action: Ack}
	case v.Answered && !v.IsAnswer() && !(m.Counted && m.Number >= p.AttemptLimit()):
		return m.notYet(p, v)
	}
	return m.decide(p, v)
}

// longest is how long a message that says "not yet" is delivered again, if MaxElapsed sets no limit.
const longest = 24 * time.Hour

// notYet decides about a message that is to come again later, which is not its fault.
func (m Delivery) notYet(p retry.Policy, v retry.Verdict) Decision {
	p.MaxAttempts = retry.Unlimited
	if p.MaxElapsed <= 0 {
		p.MaxElapsed = longest
	}
	counted := max(m.Number, 1)
	m.Number = 1
	if v.Hint <= 0 {
		_, age := m.times()
		m.Number = reached(p.Backoff, age)
	}
	d := m.decide(p, v)
	if d.Action == Retry {
		d.Delay, d.Uncounted = max(d.Delay, time.Second), true
	} else {
		d.Err.Attempts = counted
	}
	return d
}

// mostSteps limits how long reached takes. An age of hours, with waits of a second, has fewer.
const mostSteps = 10_000

// reached returns which of a backoff's waits is underway at an age, 1 for the first, if no attempt
// takes any time, no wait is below a second, and all random numbers are one half.
func reached(b retry.Backoff, age time.Duration) (n int) {
	if b == nil {
		b = retry.Exponential{}
	}
	var wait time.Duration
	for n = 1; n < mostSteps; n++ {
		wait = max(b.Delay(retry.Step{Retry: n, Prev: wait, Rand: .5}), time.Second)
		if age -= wait; age < 0 {
			break
		}
	}
	return n
}

// mostPanics is the delivery whose panic ends a message, if MaxAttempts sets no limit: a
// panic that ends the process cuts all other deliveries too.
const mostPanics = 5

// panicked decides what becomes of a message whose handler has panicked, as of one that
// failed. NonIdempotent does not count, as after any crash.
func (m Delivery) panicked(p retry.Policy) Decision {
	p.NonIdempotent = false
	if p.MaxAttempts <= 0 { // MaxElapsed allows an attempt in each millisecond
		p.MaxAttempts = min(p.AttemptLimit(), mostPanics)
	}
	d := m.decide(p, retry.Verdict{Err: ErrPanicked, Class: retry.Transient})
	d.Panicked = true
	return d
}

// longestHint is the longest wait of a server that a message obeys without MaxRetryAfter. SQS has no
// longer one.
const longestHint = 12 * time.Hour

// decide lets a Loop decide that is resumed for this delivery and ends with it.
func (m Delivery) decide(p retry.Policy, v retry.Verdict) Decision {
	if v.Refused {
		v.Class, v.Refused = retry.Throttled, false
		if v.Hint == 0 {
			v.Hint = time.Second
			if p.MaxRetryAfter > 0 {
				v.Hint = min(v.Hint, p.MaxRetryAfter)
			}
		}
	}
	obeys := p.MaxRetryAfter == 0 && v.Hint > 0
	if obeys {
		p.MaxRetryAfter, v.Hint = math.MaxInt64, min(v.Hint, longestHint)
	}
	now, age := m.times()
	loop := p.Resume(now, max(m.Number, 1)-1, age)
	defer loop.Close() // tells the budget, after a panic too
	wait, again := loop.Judged(now, v)
	own := wait - v.Hint // the backoff's, which no hint cuts
	e, _ := loop.Err().(*retry.Error)
	switch {
	case again:
	case e.Answered:
		return Decision{Action: Ack}
	case e.Reason == retry.ReasonMaxElapsed && obeys && age < p.MaxElapsed:
		return Decision{Action: Retry, Delay: min(p.MaxElapsed-age, longestHint)}
	case e.Reason != retry.ReasonBudget:
		return Decision{Action: Dead, Err: e}
	default:
		wait, own = postponed(wait), postponed(own)
		if p.MaxElapsed > 0 {
			wait = min(wait, p.MaxElapsed-age)
		}
	}
	if obeys {
		wait = min(wait, max(own, longestHint))
	}
	return Decision{Action: Retry, Delay: wait, Err: e}
}

// postponed returns the wait of a retry that the budget has refused.
func postponed(wait time.Duration) time.Duration {
	return wait + min(wait, math.MaxInt64-time.Second-wait) + time.Second // saturated
}

// times returns the time, and how old the message is.
func (m Delivery) times() (now time.Time, age time.Duration) {
	now = m.Now
	if now.IsZero() {
		now = time.Now()
	}
	if m.Stored.IsZero() {
		return now, 0
	}
	return now, max(now.Sub(m.Stored), 0)
}
