package hedging

import (
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
)

// Rules are what all calls of one op have in common: the settings of a hedge.Hedge,
// which its fields document, and what its calls share.
type Rules struct {
	Name               string // the retry policy's, for budgets
	Delay              time.Duration
	Quantile           float64
	MinDelay, MaxDelay time.Duration
	MaxInFlight        int
	Budget             retry.Budget // of hedges
	PolicyBudget       retry.Budget // of the retry policy; nil: none
	Clock              clockx.Clock // of the retry policy, for budgets
	Shared             *Shared
}

// Shared is what all calls of one hedge.Hedge share. The zero value is ready. It
// must not be copied after the first use.
type Shared struct {
	estimate estimate
	quiet    atomic.Pointer[time.Time] // no hedges before; nil: no server asked for that
	budget   atomic.Pointer[budget.Ratio]
}

// Resolve returns r with a meaning for every zero and every bad number.
func (r Rules) Resolve() Rules {
	if !(r.Quantile > 0 && r.Quantile < 1) {
		r.Quantile = .95
	}
	if r.MinDelay <= 0 {
		r.MinDelay = time.Millisecond
	}
	if r.MaxDelay <= 0 {
		r.MaxDelay = 10 * time.Second
	}
	r.MaxDelay = max(r.MaxDelay, r.MinDelay)
	if r.MaxInFlight == 0 {
		r.MaxInFlight = 2
	}
	if r.Budget == nil {
		r.Budget = r.Shared.ownBudget()
	}
	return r
}

// ownBudget returns the budget for a Hedge that was given none.
func (s *Shared) ownBudget() retry.Budget {
	if b := s.budget.Load(); b != nil {
		return b
	}
	s.budget.CompareAndSwap(nil, &budget.Ratio{Ratio: .05})
	return s.budget.Load()
}

// Wait returns how long a call that starts now runs alone. r must be resolved.
func (r *Rules) Wait() time.Duration {
	if r.Delay != 0 {
		return r.Delay
	}
	return r.Shared.estimate.delay(r)
}

// longestPause is how long a hint keeps hedges off at the most. A longer one may be an
// instant that was taken for a time, and would do so until the process ends.
const longestPause = time.Hour

// pushback prevents all hedges until then.
func (s *Shared) pushback(until time.Time) {
	for {
		old := s.quiet.Load()
		if old != nil && !old.Before(until) || s.quiet.CompareAndSwap(old, &until) {
			return
		}
	}
}

func (s *Shared) pushedBack(now time.Time) bool {
	until := s.quiet.Load()
	return until != nil && now.Before(*until)
}

// Refusal is why a hedge was not started, as an error.
type Refusal uint8

const (
	RefusedPushback     Refusal = iota // a server asked for a pause, and it is not over
	RefusedBudget                      // the budget of hedges refused
	RefusedPolicyBudget                // the budget of the retry policy refused
	RefusedFailed                      // an attempt failed while another ran
)

var refusals = [...]struct{ word, text string }{
	{"pushback", "a server has asked for a pause"},
	{"budget", "Hedge.Budget refused"},
	{"policy_budget", "Policy.Budget refused"},
	{"failed", "an attempt has failed"},
}

func (r Refusal) Error() string     { return "hedge: " + refusals[r].text }
func (r Refusal) ErrorType() string { return "hedge." + refusals[r].word }

// Guarded is the refusal of a hedge by a guard of the retry policy, whose error it has.
type Guarded struct{ Err error }

func (g *Guarded) Error() string     { return "hedge: a guard refused: " + g.Err.Error() }
func (g *Guarded) Unwrap() error     { return g.Err }
func (g *Guarded) ErrorType() string { return "hedge.guard" }

// Call decides about one race of attempts, which are numbered from 1. The code that makes
// the attempts gets a Call from Begin, calls DelayOver each time that the delay has
// passed, and then Start; Done or Abort when an attempt has ended, and End once. A Call is
// not safe for concurrent use.
type Call struct {
	rules *Rules
	start time.Time

	Delay   time.Duration // how long the first attempt runs alone, and as long again before each further one
	Started int           // attempts so far, the first included
	Winner  int           // the attempt that succeeded, 0 if none
	Refused error         // the first reason why a hedge was not started
	Hedged  bool          // the delay has passed while the call was open
	Decided bool          // an attempt has decided the call
	failed  bool          // an attempt has ended without deciding it
	awaited bool          // an attempt was NotYet

	running int32 // attempts that have not ended
	asked   int32 // how often a hedge was requested
	granted int32 // hedges by the budget of hedges
}

// Begin starts a call and its first attempt. r must be resolved.
func (r *Rules) Begin(now time.Time) Call {
	return Call{rules: r, start: now, Delay: r.Wait(), Started: 1, running: 1}
}

// Within reports whether the deadline comes before the first hedge could, or with
// it: then the delay needs no timer.
func (c *Call) Within(deadline time.Time) bool { return deadline.Sub(c.start) <= c.Delay }

// DelayOver says that the delay has passed, since the start or since the last time. canceled
// says that the caller's context has ended. It reports whether a hedge is wanted, and why it
// must not start nevertheless. If it is wanted, Start follows.
func (c *Call) DelayOver(now time.Time, canceled bool) (wanted bool, refused error) {
	if c.Decided || c.running == 0 {
		return false, nil
	}
	if !c.Hedged {
		c.Hedged = true
		c.learn(true, 0)
	}
	if c.rules.Shared.pushedBack(now) {
		refused = RefusedPushback
	}
	return !canceled && !c.failed, refused
}

// Start starts a hedge unless it is refused, the budgets refuse it, or it is not wanted any
// more. It reports whether to make attempt number Started, which it has counted then, and
// whether to come back after the same delay.
func (c *Call) Start(refused error, canceled bool) (start, again bool) {
	if c.Decided || c.running == 0 || c.failed || canceled {
		return false, false
	}
	c.asked++
	if refused != nil {
		c.refuse(refused)
	} else if start = c.withdraw(); start {
		c.Started++
		c.running++
	}
	return start, int(c.asked) < c.rules.MaxInFlight-1
}

// withdraw withdraws a hedge from both budgets. If a budget grants the hedge, its End
// is called later, even if the next one refuses the hedge.
func (c *Call) withdraw() bool {
	r := c.rules
	if !r.Budget.Withdraw(retry.Withdrawal{Name: r.Name, Class: retry.Transient, Hedge: true, Retry: int(c.granted) + 1, Clock: r.Clock}) {
		c.refuse(RefusedBudget)
		return false
	}
	c.granted++
	if r.PolicyBudget == nil {
		return true
	}
	granted := false
	defer func() {
		if !granted { // or Withdraw has panicked
			r.PolicyBudget.End(retry.Outcome{Name: r.Name, Hedge: true, Clock: r.Clock})
		}
	}()
	if granted = r.PolicyBudget.Withdraw(retry.Withdrawal{Name: r.Name, Class: retry.Transient, Hedge: true, Retry: 1, Clock: r.Clock}); !granted {
		c.refuse(RefusedPolicyBudget)
	}
	return granted
}

func (c *Call) refuse(why error) {
	if c.Refused == nil {
		c.Refused = why
	}
}

// Ending is what the end of an attempt means to its call.
type Ending uint8

const (
	Succeeded Ending = iota // it decides the call, as an answer that the caller expects does
	Answered                // a permanent error, which decides it too: another attempt would get it again
	NotYet                  // the server has answered, but not as wanted
	Failed                  // or the server has refused a retry, which another one need not do
)

// EndingOf returns what a verdict on an attempt means to its call.
func EndingOf(v retry.Verdict) Ending {
	switch {
	case v.Err == nil, v.IsAnswer():
		return Succeeded
	case v.Refused:
		return Failed
	case v.Class == retry.Permanent:
		return Answered
	case v.Answered:
		return NotYet
	}
	return Failed
}

// Effect is what the end of an attempt does to its call.
type Effect uint8

const (
	Ignored           Effect = iota // the call was decided already
	Decides                         // the others have to end
	FailsBesideOthers               // the call goes on with those that run
	FailsLast                       // none runs any more, and none has decided
)

// Done says that attempt n has ended, and the wait that a server asked for. canceled
// says that the caller's context has ended.
func (c *Call) Done(n int, now time.Time, how Ending, hint time.Duration, canceled bool) Effect {
	c.ended(n, how == Succeeded && !c.Decided)
	if hint > 0 {
		c.rules.Shared.pushback(now.Add(min(hint, longestPause)))
	}
	if c.Decided {
		return Ignored
	}
	if took := now.Sub(c.start); !c.Hedged && (took >= c.Delay || how == Succeeded || how == NotYet) {
		c.learn(took >= c.Delay, took)
	}
	switch how {
	case Succeeded:
		c.Decided, c.Winner = true, n
		return Decides
	case Answered:
		c.Decided = true
		return Decides
	}
	c.failed, c.awaited = true, c.awaited || how == NotYet
	if c.running == 0 {
		return FailsLast
	}
	if !canceled {
		c.refuse(RefusedFailed)
	}
	return FailsBesideOthers
}

// Abort says that attempt n has ended without an answer: it panicked. The call is
// over.
func (c *Call) Abort(n int) {
	c.Over()
	c.ended(n, false)
}

// Over ends the call without a result, because something has panicked.
func (c *Call) Over() { c.Decided, c.Winner = true, 0 }

// ended takes attempt n off the count, and out of the policy's budget, where each
// hedge is a run of its own, which is OK if it won.
func (c *Call) ended(n int, won bool) {
	c.running--
	if n > 1 && c.rules.PolicyBudget != nil {
		r := c.rules
		r.PolicyBudget.End(retry.Outcome{Name: r.Name, Retried: retry.Transient, Retries: 1, Sent: 1, Hedge: true, OK: won, Clock: r.Clock})
	}
}

// End says that all attempts have ended. In the budget of hedges a hedge does not earn
// its cost back, even if it won.
func (c *Call) End() {
	r := c.rules
	o := retry.Outcome{Name: r.Name, Hedge: true, Clock: r.Clock}
	if c.granted > 0 {
		o.Retried, o.Retries, o.Sent = retry.Transient, int(c.granted), c.Started-1
	} else {
		o.OK = c.Winner > 0 || c.awaited
	}
	r.Budget.End(o)
}

func (c *Call) learn(slower bool, took time.Duration) {
	if c.rules.Delay == 0 {
		c.rules.Shared.estimate.learn(c.rules, slower, took)
	}
}
