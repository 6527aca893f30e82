package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/pace"
)

// outcome is what op does in one attempt.
type outcome int

const (
	succeeds outcome = iota
	permanent
	answers
	refused
	transient
	throttled
	unprocessed
	hintOfOne  // After(err, 1 s)
	hintOfHour // After(err, 1 h)
	rejected
	undone // Undone(err)
	slow   // takes 5 s, or until its context ends, and does not say which
	panics
	cancels         // the caller's context, and fails
	cancelsSucceeds // the caller's context, and succeeds
	outcomes
)

// setup is what one run is made with.
type setup struct {
	maxAttempts   int
	maxElapsed    time.Duration
	deadline      time.Duration // of the caller, 0: none
	timeout       time.Duration
	nonIdempotent bool
	budget        string // "", "earned", "tokens", "ratio" or "places"
	hooks         string // "", "all", or the event that cancels
	paced         bool   // under a Pace that lets one attempt start in three seconds, the first one in half a second
	guard         string // what a guard does each time that it is asked, and then it admits: see gate
}

// story is what is seen of a run.
type story struct {
	calls, attempts int
	value           int
	reason          retry.Reason
	errs            []error
	elapsed, waited time.Duration
	waits           []time.Duration
	classes         []retry.Class // as AttemptDone hooks see them
	events          []string
	balance         float64
	panicked        bool
	told            bool // an *Error was returned, whose Errs are known
	undone          bool // Error.Undone
	answered        bool // Error.Answered
	inWait          bool // Error.InWait
	cause           error
	exits           []exit // what the guard heard
}

// exit is a retry.Exit without what is the same for all.
type exit struct {
	ending        retry.Ending
	class         retry.Class
	took, allowed time.Duration
}

const (
	least   = 2 * sec // the wait after a throttled error
	slowFor = 5 * sec
)

var (
	errFull        = errors.New("full")
	errModel       = errors.New("model")
	errShutdown    = errors.New("shutdown")
	errThrottled   = errors.New("throttled")
	errUnprocessed = errors.New("unprocessed")
)

// classify knows two of these.
func classify(err error) retry.Class {
	switch err {
	case errThrottled:
		return retry.Throttled
	case errUnprocessed:
		return retry.Unprocessed
	}
	return retry.Unknown
}

// model is one run by the rules.
type model struct {
	setup
	script   []outcome
	judged   bool // made by Attempts.Judged, with a verdict even when the caller has gone
	now      time.Duration
	asked    int // how often the guard was
	refused  int // how often it has refused
	canceled bool
	story
}

// attemptDone is the event that an attempt has ended.
func (m *model) attemptDone(n int, class retry.Class) {
	if m.hooks != "" {
		m.classes = append(m.classes, class)
	}
	m.event("attemptDone %d", n)
}

func (m *model) event(format string, args ...any) {
	if m.hooks == "" {
		return
	}
	e := fmt.Sprintf(format, args...)
	m.events = append(m.events, e)
	if e == m.hooks {
		m.canceled = true
	}
}

// ended says why the caller's context has ended.
func (m *model) ended() (retry.Reason, bool) {
	switch {
	case m.deadline > 0 && m.now >= m.deadline && !m.canceled:
		return retry.ReasonDeadline, true
	case m.canceled:
		return retry.ReasonCanceled, true
	}
	return retry.ReasonNone, false
}

// left is ended, where no attempt is underway.
func (m *model) left() (retry.Reason, bool) {
	why, yes := m.ended()
	m.inWait = yes
	return why, yes
}

// exit is that the guard hears of the attempt that began at start.
func (m *model) exit(ending retry.Ending, class retry.Class, start time.Duration) {
	if m.guard == "" {
		return
	}
	x := exit{ending: ending, class: class}
	if ending != retry.NotMade {
		x.took, x.allowed = m.now-start, m.timeout
		if left := m.deadline - start; m.deadline > 0 && (x.allowed == 0 || left < x.allowed) {
			x.allowed = left
		}
	}
	m.exits = append(m.exits, x)
}

// rest is how long an attempt may wait for a guard.
func (m *model) rest() time.Duration {
	rest := hour
	if m.maxElapsed > 0 {
		rest = min(rest, m.maxElapsed-m.now)
	}
	if m.deadline > 0 {
		rest = min(rest, m.deadline-m.now)
	}
	return rest
}

// sleep waits for d, unless the caller has gone, and says why the run ends then.
func (m *model) sleep(d time.Duration) (retry.Reason, bool) {
	if _, yes := m.ended(); !yes {
		if m.deadline > 0 {
			d = min(d, m.deadline-m.now)
		}
		m.now += d
		m.waited += d
	}
	return m.left()
}

// limit is how many attempts and refusals the run may have.
func (m *model) limit() int {
	if m.maxAttempts == 0 && m.maxElapsed == 0 {
		return 3
	}
	if m.maxAttempts == 0 {
		return 1000 // with a MaxElapsed of some seconds, thousands
	}
	return m.maxAttempts
}

// enter asks the guard until it admits an attempt. It says why the run ends before that.
func (m *model) enter() (retry.Reason, bool) {
	const name = "model_test.gate"
	for again := false; ; {
		if m.asked == len(m.guard) {
			return retry.ReasonNone, false
		}
		step := m.guard[m.asked]
		m.asked++
		var hint time.Duration
		switch step {
		case '.':
			return retry.ReasonNone, false
		case 'w', 'W', 'a', 'A':
			held := held[step]
			if held >= m.rest() {
				m.exit(retry.NotMade, retry.Unknown, 0)
				m.event("refused by " + name)
				m.cause = retry.ErrPaced
				return retry.ReasonGuard, true
			}
			if !again {
				m.event(name+" %v", held)
			}
			wait := held
			if m.maxElapsed > 0 {
				wait = min(wait, m.maxElapsed-m.now)
			}
			if why, yes := m.sleep(wait); yes {
				m.exit(retry.NotMade, retry.Unknown, 0)
				return why, true
			}
			switch again = step == 'a' || step == 'A'; {
			case !again && wait == held:
				return retry.ReasonNone, false
			case m.maxElapsed > 0 && m.now >= m.maxElapsed:
				m.exit(retry.NotMade, retry.Unknown, 0)
				m.event("refused by " + name)
				m.cause = retry.ErrPaced
				return retry.ReasonGuard, true
			}
			continue
		case 'h':
			hint = sec
		}
		again = false
		m.refused++
		tries := m.calls + m.refused
		wait := modelWaits[min(tries, len(modelWaits))-1]
		if hint > 0 {
			wait = least + hint
		}
		if m.event("refused by " + name); step == 's' || tries >= m.limit() ||
			m.maxElapsed > 0 && m.now+wait > m.maxElapsed || m.deadline > 0 && m.now+wait >= m.deadline {
			m.cause = errFull
			return retry.ReasonGuard, true
		}
		if why, yes := m.sleep(wait); yes {
			return why, true
		}
	}
}

// modelWaits are the waits after an error that asks for none.
var modelWaits = []time.Duration{sec, 2 * sec, 4 * sec, 8 * sec, 16 * sec, 32 * sec, 60 * sec}

func (m *model) run() {
	budget := newAccount(m.budget)
	queue := turns{paced: m.paced, at: -2500 * time.Millisecond}
	m.undone = true
	m.reason = func() retry.Reason {
		m.event("start")
		if why, yes := m.left(); yes {
			return why
		}
		for n := 1; ; n++ {
			if wait := queue.wait(m.now); wait > 0 {
				patience := time.Duration(math.MaxInt64)
				if m.maxElapsed > 0 {
					patience = (m.maxElapsed - m.now) / 2
				}
				if m.deadline > 0 {
					patience = min(patience, (m.deadline-m.now)/2)
				}
				if wait > patience {
					if why, yes := m.sleep(max(min(10*time.Millisecond, patience), 1)); yes {
						return why
					}
					m.event("refused by pace.Pace")
					m.cause = retry.ErrPaced
					return retry.ReasonGuard
				}
				m.event("pace.Pace %v", wait)
				if why, yes := m.sleep(wait); yes {
					return why
				}
			}
			queue.start(m.now)
			if why, yes := m.enter(); yes {
				return why
			}
			start := m.now
			m.event("attempt %d", n)
			if why, yes := m.left(); yes {
				queue.giveBack()
				m.exit(retry.NotMade, retry.Unknown, start)
				m.attemptDone(n, retry.Unknown)
				return why
			}
			m.calls++
			budget.unsent = false
			m.attempts, m.value = n, -n
			class, hint, err := retry.Transient, time.Duration(0), errModel
			did := m.script[n-1]
			answered := did == rejected // the next attempt is no retry to a budget
			switch did {
			case succeeds, cancelsSucceeds:
				m.value, m.canceled = n, m.canceled || did == cancelsSucceeds
				ending := retry.Returned
				if m.canceled {
					ending = retry.Canceled
				}
				m.exit(ending, retry.Unknown, start)
				m.attemptDone(n, retry.Unknown)
				return retry.ReasonNone
			case panics:
				m.panicked, m.value, m.undone = true, 0, false
				m.errs = append(m.errs, errAny)
				m.exit(retry.Panicked, retry.Unknown, start)
				m.attemptDone(n, retry.Unknown)
				return retry.ReasonPanic
			case permanent, answers, refused:
				class = retry.Permanent
			case throttled:
				class, err = retry.Throttled, errThrottled
			case unprocessed:
				class, err = retry.Unprocessed, errUnprocessed
			case hintOfOne:
				class, hint = retry.Throttled, sec
			case hintOfHour:
				class, hint = retry.Throttled, hour
			case rejected:
				err = retry.ErrRejected
			case cancels:
				m.canceled = true
			case slow:
				end := m.now + slowFor
				if m.timeout > 0 && m.now+m.timeout <= end {
					end, class = m.now+m.timeout, retry.TimedOut
				}
				if m.deadline > 0 && m.deadline <= end {
					end = m.deadline
				}
				m.now = end
			}
			m.errs = append(m.errs, err)
			why, over := m.ended()
			proof := did == undone || did == unprocessed
			m.undone = m.undone && proof && (!over || m.judged)
			switch {
			case m.canceled:
				m.exit(retry.Canceled, retry.Unknown, start)
			case over:
				m.exit(retry.Expired, retry.Unknown, start)
			case class == retry.TimedOut:
				m.exit(retry.Expired, class, start)
			default:
				m.exit(retry.Returned, class, start)
			}
			if !over {
				why, over = func() (retry.Reason, bool) {
					wait := modelWaits[min(n+m.refused, len(modelWaits))-1]
					if class == retry.Throttled {
						wait = least
					}
					wait += hint
					switch {
					case did == refused:
						return retry.ReasonRefused, true
					case did == answers:
						m.answered = true
						return retry.ReasonPermanent, true
					case class == retry.Permanent:
						return retry.ReasonPermanent, true
					case m.nonIdempotent && !proof:
						return retry.ReasonNotIdempotent, true
					case n+m.refused >= m.limit():
						return retry.ReasonMaxAttempts, true
					case hint > 5*time.Minute:
						return retry.ReasonRetryAfter, true
					case m.maxElapsed > 0 && m.now+wait > m.maxElapsed:
						return retry.ReasonMaxElapsed, true
					case m.deadline > 0 && m.now+wait >= m.deadline:
						return retry.ReasonDeadline, true
					case !answered && !(m.paced && class == retry.Throttled) && !budget.withdraw(class):
						return retry.ReasonBudget, true
					}
					m.waits = append(m.waits, wait)
					return retry.ReasonNone, false
				}()
			}
			if _, yes := m.ended(); yes {
				class = retry.Unknown
			}
			m.attemptDone(n, class)
			if over {
				return why
			}
			wait := m.waits[len(m.waits)-1]
			if _, yes := m.ended(); !yes {
				m.event("wait %v", wait)
			}
			if why, yes := m.sleep(wait); yes {
				return why
			}
		}
	}()
	m.event("done %v", m.reason)
	m.elapsed = m.now
	m.balance = budget.end(m.reason == retry.ReasonNone || m.answered)
}

// turns is a Pace with a quota of one in three seconds, as far as one run that nobody else meets can see it.
type turns struct {
	paced bool
	debt  float64 // attempts whose time has to pass; -1: the next may start
	at    time.Duration
}

const third = 1. / 3

func (q *turns) pass(now time.Duration) {
	q.debt = max(q.debt-(now-q.at).Seconds()*third, -1)
	q.at = now
}

// wait is how long an attempt has to wait.
func (q *turns) wait(now time.Duration) time.Duration {
	if q.pass(now); !q.paced || q.debt+1 <= 1e-9 {
		return 0
	}
	return 1 + time.Duration((q.debt+1)/third*float64(sec))
}

func (q *turns) start(now time.Duration) {
	q.pass(now)
	q.debt++
}

func (q *turns) giveBack() { q.debt-- }

// account is a budget by its rules, as far as one run can see them.
type account struct {
	kind             string
	tokens, most     float64
	reward, lastCost float64
	retries          float64
	last             retry.Class // that a retry followed
	unsent           bool        // the last retry was not made
}

func newAccount(kind string) *account {
	switch kind {
	case "tokens":
		return &account{kind: kind, tokens: 30, most: 30, reward: 1}
	case "earned":
		return &account{kind: kind, tokens: 10, most: 1010, reward: .1}
	}
	return &account{kind: kind}
}

func (a *account) withdraw(class retry.Class) bool {
	cost := 0.0
	switch a.kind {
	case "tokens":
		cost = 10
		if class == retry.Throttled {
			cost = 20
		}
	case "earned":
		cost = 2
		if class == retry.TimedOut {
			cost = 10
		}
	case "ratio": // no run has succeeded so far
		if a.retries == 1 {
			return false
		}
	}
	if cost > a.tokens {
		return false
	}
	a.tokens, a.lastCost, a.last, a.unsent = a.tokens-cost, cost, class, true
	a.retries++
	return true
}

// end returns what Balance returns after the run.
func (a *account) end(ok bool) (balance float64) {
	earns := a.reward
	if a.unsent {
		a.tokens += a.lastCost
		a.retries--
	}
	if a.retries > 0 {
		earns = a.lastCost
		if a.kind == "earned" && (a.last == retry.TimedOut || a.last == retry.Throttled) {
			earns *= 2
		} else if a.kind == "earned" {
			earns *= 1 + a.retries
		}
	}
	if ok {
		a.tokens = min(a.tokens+earns, a.most)
	}
	switch a.kind {
	case "tokens":
		return a.tokens / 30
	case "earned":
		return min(a.tokens/10, 1)
	case "ratio":
		if ok { // one of two
			return 1 - a.retries/2
		}
		return 1 - a.retries
	}
	return 1
}

var errAny = errors.New("any")

// policy returns the policy of a run, its clock and the balance of its budget.
func (s setup) policy() (p retry.Policy, v *clockx.Virtual, balance func() float64) {
	v, balance = clockx.NewVirtual(epoch), func() float64 { return 1 }
	p = retry.Policy{
		MaxAttempts: s.maxAttempts, MaxElapsed: s.maxElapsed, AttemptTimeout: s.timeout, NonIdempotent: s.nonIdempotent, Clock: v,
		Backoff: retry.Exponential{Base: sec, Jitter: retry.NoJitter}, ThrottleBackoff: retry.Constant(least),
		Classify: classify, Rand: func() float64 { return .5 },
	}
	if s.paced {
		p.Guards = []retry.Guard{&pace.Pace{Quota: 1, Per: 3 * sec}}
		_ = retry.Run(context.Background(), p, func(context.Context) error { return nil })
		v.Advance(2500 * time.Millisecond)
	}
	if s.guard != "" {
		p.Guards = []retry.Guard{&gate{script: s.guard}}
	}
	switch s.budget {
	case "tokens":
		b := &budget.Token{Capacity: 30, Cost: 10, ThrottleCost: 20}
		p.Budget, balance = b, b.Balance
	case "ratio":
		b := &budget.Ratio{Ratio: 2, Window: 24 * hour}
		p.Budget, balance = b, b.Balance
	case "earned":
		b := new(retry.EarnedBudget)
		for range 10 { // enough for a retry after a timeout
			b.End(retry.Outcome{OK: true, Clock: v})
		}
		p.Budget, balance = b, b.Balance
	case "places":
		b := new(budgettest.Places)
		p.Budget, balance = b, b.Balance
	}
	return p, v, balance
}

// failure is the error of an attempt that fails at once.
func (o outcome) failure() error {
	switch o {
	case permanent:
		return retry.Stop(errModel)
	case answers:
		return retry.Answer(errModel)
	case refused:
		return retry.Refuse(errModel)
	case throttled:
		return errThrottled
	case unprocessed:
		return errUnprocessed
	case hintOfOne:
		return retry.After(errModel, sec)
	case hintOfHour:
		return retry.After(errModel, hour)
	case rejected:
		return retry.ErrRejected
	case undone:
		return retry.Undone(errModel)
	}
	return errModel
}

// observe returns hooks that write down what they see, and cancel at one event.
func (s setup) observe(seen *story, cancel context.CancelCauseFunc) retry.Hooks {
	if s.hooks == "" {
		return retry.Hooks{}
	}
	event := func(format string, args ...any) {
		e := fmt.Sprintf(format, args...)
		seen.events = append(seen.events, e)
		if e == s.hooks {
			cancel(errShutdown)
		}
	}
	return retry.Hooks{
		Start:   func(ctx context.Context, _ retry.Policy) context.Context { event("start"); return ctx },
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context { event("attempt %d", a.Number); return ctx },
		AttemptDone: func(_ context.Context, a retry.Attempt) {
			seen.classes = append(seen.classes, a.Class)
			event("attemptDone %d", a.Number)
		},
		Wait: func(_ context.Context, a retry.Attempt) { event("wait %v", a.Delay) },
		Guard: func(_ context.Context, h retry.Held) {
			if h.Err != nil {
				event("refused by %s", h.Guard)
				return
			}
			event("%s %v", h.Guard, h.Delay)
		},
		Done: func(_ context.Context, d retry.Summary) {
			event("done %v", d.Reason)
			seen.attempts, seen.reason, seen.elapsed, seen.waited = d.Attempts, d.Reason, d.Elapsed, d.Waited
		},
	}
}

// gaveUp takes what the error of the run tells.
func (seen *story) gaveUp(err error) {
	if e, ok := err.(*retry.Error); ok {
		seen.attempts, seen.reason, seen.errs = e.Attempts, e.Reason, e.Errs
		seen.elapsed, seen.waited, seen.told, seen.undone = e.Elapsed, e.Waited, true, e.Undone
		seen.answered, seen.inWait = e.Answered, e.InWait
		if seen.reason == retry.ReasonGuard {
			if seen.cause = e.Cause; errors.Is(e.Cause, retry.ErrPaced) {
				seen.cause = retry.ErrPaced
			}
		}
	}
}

// left takes what the guard of p has heard, and whether it has all its passes.
func (seen *story) left(p retry.Policy) {
	if len(p.Guards) == 0 {
		return
	}
	g, ok := p.Guards[0].(*gate)
	if !ok {
		return
	}
	if seen.exits = g.exits; g.open != 0 || g.wrong {
		seen.exits = nil
	}
}

// caller returns the context of a caller, with its deadline on v.
func (s setup) caller(v *clockx.Virtual) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	if s.deadline <= 0 {
		return ctx, cancel
	}
	ctx, stop := v.WithTimeoutCause(ctx, s.deadline, nil)
	return ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// done is the same run made by Do.
func (s setup) done(script []outcome) (seen story) {
	p, v, balance := s.policy()
	ctx, cancel := s.caller(v)
	defer cancel(nil)
	p.Hooks = s.observe(&seen, cancel)
	op := func(ctx context.Context) (int, error) {
		seen.calls++
		n := seen.calls
		switch script[n-1] {
		case succeeds:
			return n, nil
		case cancelsSucceeds:
			cancel(errShutdown)
			return n, nil
		case panics:
			panic(errModel)
		case cancels:
			cancel(errShutdown)
		case slow:
			_ = v.Sleep(ctx, slowFor)
		}
		return -n, script[n-1].failure()
	}
	func() {
		defer func() { seen.panicked = recover() != nil }()
		var err error
		seen.value, err = retry.Do(ctx, p, op)
		seen.gaveUp(err)
	}()
	seen.balance = balance()
	seen.left(p)
	return seen
}

// stepped is the same run made by Attempts, with Judged in place of Done if judged is set.
func (s setup) stepped(script []outcome, judged bool) (seen story) {
	p, v, balance := s.policy()
	ctx, cancel := s.caller(v)
	defer cancel(nil)
	p.Hooks = s.observe(&seen, cancel)
	func() {
		defer func() { seen.panicked = recover() != nil }()
		a := p.Attempts(ctx)
		defer a.Close()
		for a.Next() {
			seen.calls++
			n := a.Number()
			if n != seen.calls || retry.AttemptNumber(a.Context()) != n {
				panic("another number")
			}
			var err error
			switch seen.value = -n; script[n-1] {
			case succeeds:
				seen.value = n
			case cancelsSucceeds:
				cancel(errShutdown)
				seen.value = n
			case panics:
				seen.value = 0
				panic(errModel)
			case cancels:
				cancel(errShutdown)
				err = errModel
			case slow:
				_ = v.Sleep(a.Context(), slowFor)
				err = errModel
			default:
				err = script[n-1].failure()
			}
			var again bool
			if judged {
				verdict := p.Judge(err)
				again = a.Judged(verdict)
			} else {
				again = a.Done(err)
			}
			if again != (err != nil && a.Err() == nil) {
				panic("Done and Err disagree")
			}
		}
		seen.gaveUp(a.Err())
	}()
	seen.balance = balance()
	seen.left(p)
	return seen
}

// looped is the same run made by a Loop, as a message queue would.
func (s setup) looped(script []outcome) (seen story) {
	p, v, balance := s.policy()
	loop := p.Start(v.Now())
	for {
		did := script[seen.calls]
		seen.calls++
		if seen.value = -seen.calls; did == succeeds {
			seen.value = seen.calls
			loop.Next(v.Now(), nil)
			break
		}
		if did == slow {
			v.Advance(slowFor)
		}
		wait, ok := loop.Next(v.Now(), did.failure())
		if !ok {
			break
		}
		v.Advance(wait)
	}
	seen.attempts = loop.Attempts()
	seen.gaveUp(loop.Err())
	seen.balance = balance()
	seen.left(p)
	return seen
}

// differ names what is not as the model says. Without hooks nobody sees the waits
// and the times of a run that did not give up.
func (m *model) differ(got story) string {
	want := m.story
	var all []string
	check := func(what string, same bool, got, want any) {
		if !same {
			all = append(all, fmt.Sprintf("%s %v, want %v", what, got, want))
		}
	}
	check("calls", got.calls == want.calls, got.calls, want.calls)
	check("panicked", got.panicked == want.panicked, got.panicked, want.panicked)
	check("value", got.value == want.value, got.value, want.value)
	check("balance", got.balance-want.balance < 1e-6 && want.balance-got.balance < 1e-6, got.balance, want.balance)
	check("classes", slices.Equal(got.classes, want.classes), got.classes, want.classes)
	check("events", slices.Equal(got.events, want.events), got.events, want.events)
	check("exits", slices.Equal(got.exits, want.exits), got.exits, want.exits)
	if m.hooks == "" && (want.reason == retry.ReasonNone || want.panicked) {
		return strings.Join(all, "; ")
	}
	check("attempts", got.attempts == want.attempts, got.attempts, want.attempts)
	check("reason", got.reason == want.reason, got.reason, want.reason)
	check("elapsed", got.elapsed == want.elapsed, got.elapsed, want.elapsed)
	check("waited", got.waited == want.waited, got.waited, want.waited)
	if got.told {
		check("errors", slices.Equal(got.errs, want.errs), got.errs, want.errs)
		check("cause", got.cause == want.cause, got.cause, want.cause)
		check("undone", got.undone == want.undone, got.undone, want.undone)
		check("in wait", got.inWait == want.inWait, got.inWait, want.inWait)
		check("answered", got.answered == want.answered, got.answered, want.answered)
	}
	return strings.Join(all, "; ")
}

// scripts calls each for all scripts of length four, but only once for those that
// differ after the attempts that each says were made.
func scripts(each func([]outcome) (made int)) {
	script := make([]outcome, 4)
	for {
		last := max(each(script), 1) - 1
		clear(script[last+1:])
		for script[last]++; script[last] == outcomes; script[last]++ {
			script[last] = 0
			if last--; last < 0 {
				return
			}
		}
	}
}

func setups() (all []setup) {
	for _, attempts := range []int{0, 1, 2, 4} {
		for _, elapsed := range []time.Duration{0, 3 * sec, 6 * sec} {
			for _, deadline := range []time.Duration{0, 4 * sec, 5 * sec} {
				for _, timeout := range []time.Duration{0, 2 * sec} {
					for _, nonIdempotent := range []bool{false, true} {
						for _, budget := range []string{"", "earned", "tokens", "ratio", "places"} {
							for _, hooks := range []string{"", "all", "start", "attempt 1", "attempt 2", "attemptDone 1", "attemptDone 2", "wait 1s", "wait 2s"} {
								all = append(all, setup{attempts, elapsed, deadline, timeout, nonIdempotent, budget, hooks, false, ""})
							}
						}
					}
				}
			}
		}
	}
	for _, s := range all[:len(all):len(all)] {
		if s.hooks == "wait 2s" {
			s.hooks = "pace.Pace 500.000001ms"
		}
		if s.paced = !s.nonIdempotent && (s.budget == "" || s.budget == "earned"); s.paced {
			all = append(all, s)
		}
	}
	return append(all, guarded(all)...)
}

// guarded are setups with a guard: half of those with the earned budget.
func guarded(all []setup) (more []setup) {
	guards := []string{"w", "f", "aW", "h", ".f", "aaaaaaaaaaaw", ".W.s", "ffw", ".hA", "s", ".aaWf", "fwhW", "AAa.AAaW", "fAf", ".awAaf"}
	for i, s := range all {
		if s.budget != "earned" || s.paced || i%2 != 0 {
			continue
		}
		if s.hooks == "wait 2s" {
			s.hooks = "model_test.gate 500ms"
		}
		if s.hooks == "wait 1s" {
			s.hooks = "refused by model_test.gate"
		}
		s.guard = guards[len(more)%len(guards)]
		more = append(more, s)
	}
	return more
}

func TestEveryRun(t *testing.T) {
	done, looped := 0, 0
	for i, s := range setups() {
		if race.Enabled && i%16 != 0 || !longTests && i%8 != 0 {
			continue // few under the race detector: there is one goroutine
		}
		scripts(func(script []outcome) int {
			m := &model{setup: s, script: script}
			m.run()
			made := script[:max(m.calls, 1)]
			fail := func(by, diff string) {
				if diff != "" {
					t.Fatalf("%s, %+v, script %v: %s", by, s, made, diff)
				}
			}
			done++
			fail("Do", m.differ(s.done(script)))
			judged := done%2 == 0
			if judged {
				m = &model{setup: s, script: script, judged: true}
				m.run()
			}
			fail("Attempts", m.differ(s.stepped(script, judged)))
			if s.hooks == "" && s.deadline == 0 && s.timeout == 0 && !s.paced && s.guard == "" &&
				!slices.ContainsFunc(made, func(o outcome) bool { return o >= panics }) {
				looped++
				fail("Loop", m.differ(s.looped(script)))
			}
			return m.calls
		})
	}
	t.Logf("compared: Do %d times, Loop %d", done, looped)
	if done < 70_000 && !race.Enabled || looped == 0 {
		t.Errorf("compared: Do %d times, Loop %d: too few", done, looped)
	}
}
