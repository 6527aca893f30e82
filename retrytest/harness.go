package retrytest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

// Harness makes one policy deterministic and records its runs. It is free of races,
// but records one call at a time: a call replaces what was recorded before. It records
// all runs of a [retry.Supervise].
type Harness struct {
	Policy retry.Policy    // the policy given to New, on Clock: pass this one to Do
	Clock  *clockx.Virtual // shows 2000-01-01 00:00 UTC at first

	t     testing.TB
	unset bool // the policy had no Rand

	mu       sync.Mutex
	runs     []*run // of the latest call: one, or those of a Supervise
	cancel   context.CancelCauseFunc
	watchdog *time.Timer // nil while no attempt runs
}

// run is what one run did.
type run struct {
	began   time.Time
	events  []any     // in the order of the hooks: a retry.Attempt that has ended, a wait or a retry.Held
	due     time.Time // when the caller's deadline would come if the system's clock were the virtual one; zero: it has none there
	done    bool
	summary retry.Summary
}

// wait is the wait that follows an attempt, or the pause of Supervise, with Number 0.
type wait retry.Attempt

// all returns the events of one type.
func all[E any](runs ...*run) (found []E) {
	for _, r := range runs {
		for _, e := range r.events {
			if e, ok := e.(E); ok {
				found = append(found, e)
			}
		}
	}
	return found
}

// goesOn reports whether r is a run of Supervise that another one follows: only there
// does a run succeed though its last attempt failed, and does not wait.
func (r *run) goesOn() bool {
	attempts := all[retry.Attempt](r)
	if !r.done || r.summary.Err != nil || len(attempts) == 0 {
		return false
	}
	last := attempts[len(attempts)-1]
	return last.Err != nil && last.Delay == 0
}

// New returns a Harness for p. It replaces Clock, and calls p's Hooks too. Budgets and guards
// are on the virtual clock, except a Pace with a Clock of its own. If p.Rand is nil, every
// random number is 0: then the default backoff does not wait at all, because of its full
// jitter, and backoffs without jitter wait for exactly their delay. At the end of
// the test the Harness fails t if a deadline or timer on the clock is still running. It also
// fails t if an attempt blocks for two seconds of real time while the virtual clock stands
// still. It then cancels the run, which nothing else would end.
//
// The deadline of a [context.WithTimeout] is not on the virtual clock, and does not end the run.
// The Harness fails t if a run goes on for longer than that: make the deadline by
// h.Clock.WithTimeoutCause, or test on the system's clock in testing/synctest.
func New(t testing.TB, p retry.Policy) *Harness {
	h := &Harness{
		Policy: p,
		Clock:  clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)),
		t:      t,
	}
	h.Policy.Clock = h.Clock
	if p.Rand == nil {
		h.Policy.Rand = func() float64 { return 0 }
		h.unset = true
	}
	h.Policy.Hooks = retry.JoinHooks(retry.Hooks{
		Start:       h.start,
		Attempt:     h.attempt,
		AttemptDone: h.attemptDone,
		Wait:        h.wait,
		Guard:       h.guard,
		Done:        h.finish,
	}, p.Hooks)
	h.checkPaces()
	t.Cleanup(h.cleanup)
	return h
}

// checkPaces logs that a Pace of the policy has another clock. All else that a policy holds
// is on the policy's.
func (h *Harness) checkPaces() {
	for _, g := range h.Policy.Guards {
		if pace, ok := g.(*pace.Pace); ok && pace != nil && pace.Clock != nil && pace.Clock != h.Clock {
			h.t.Log("retrytest: the policy's Pace counts on another clock:" +
				" to have it follow the virtual one, leave its Clock nil, or set it to h.Clock before the first run")
		}
	}
}

// Attempts returns the attempts made so far, oldest first.
func (h *Harness) Attempts() []retry.Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return all[retry.Attempt](h.runs...)
}

// Held returns what the policy's guards have done so far, oldest first: that one has told an
// attempt to wait, or has refused it.
func (h *Harness) Held() []retry.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return all[retry.Held](h.runs...)
}

// Delays returns the waits for retries started so far, as planned, oldest first. They include
// the pauses of [retry.Supervise], but not the waits for a guard, which Held returns.
func (h *Harness) Delays() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delays()
}

// Summary returns the run's Summary, or the zero Summary before its end. For a
// [retry.Supervise] it is the latest run's.
func (h *Harness) Summary() retry.Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest().summary
}

func (h *Harness) delays() (delays []time.Duration) {
	for _, w := range all[wait](h.runs...) {
		delays = append(delays, w.Delay)
	}
	return delays
}

// latest returns the latest run, or an empty one.
func (h *Harness) latest() *run {
	if len(h.runs) == 0 {
		return new(run)
	}
	return h.runs[len(h.runs)-1]
}

func (h *Harness) start(ctx context.Context, _ retry.Policy) context.Context {
	inner, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.latest()
	if before.done {
		h.release() // else this run is inside of that one, or beside it
	}
	r := &run{began: h.Clock.Now(), due: before.due}
	if !before.goesOn() {
		h.runs, r.due = nil, h.due(ctx)
	}
	h.runs = append(h.runs, r)
	h.cancel = cancel
	return &cancelable{inner, ctx}
}

// due returns when the deadline of ctx would come on the virtual clock, or the zero time if it has
// none, or one that this clock will reach first.
func (h *Harness) due(ctx context.Context) time.Time {
	now := h.Clock.Now()
	deadline, ok := ctx.Deadline()
	left := time.Until(deadline)
	if !ok || left <= 0 || deadline.Sub(now) <= left {
		return time.Time{}
	}
	return now.Add(left)
}

// cancelable is the caller's context, which the watchdog can cancel. If the caller's
// context has ended, Err is the caller's own error: below a deadline of the virtual
// clock, that of the standard library would be Canceled.
type cancelable struct {
	context.Context
	caller context.Context
}

func (c *cancelable) Err() error {
	if err := c.caller.Err(); err != nil {
		return err // at once, even if the standard library needs a goroutine to notice
	}
	return c.Context.Err()
}

// release frees the context of the last run. The end of the run does not, since op may
// have returned a value that needs it.
func (h *Harness) release() {
	if h.cancel != nil {
		h.cancel(nil)
	}
}

func (h *Harness) attempt(ctx context.Context, _ retry.Attempt) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watch()
	return ctx
}

func (h *Harness) attemptDone(_ context.Context, a retry.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unwatch()
	h.record(a)
}

func (h *Harness) wait(_ context.Context, a retry.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(wait(a))
}

func (h *Harness) guard(_ context.Context, held retry.Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(held)
}

// record adds an event to the latest run.
func (h *Harness) record(event any) {
	r := h.latest()
	r.events = append(r.events, event)
}

func (h *Harness) finish(_ context.Context, s retry.Summary) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.latest()
	r.summary, r.done = s, true
	if now := h.Clock.Now(); !r.due.IsZero() && now.After(r.due) {
		began := h.runs[0].began
		h.t.Errorf("retrytest: the caller's deadline is %v away, but the run took %v: the virtual clock does not know a deadline of the system's."+
			" Make it by h.Clock.WithTimeoutCause, or test on the system clock in testing/synctest.\n%s", r.due.Sub(began).Round(time.Second/100), now.Sub(began), h.story())
		r.due = time.Time{} // once is enough
	}
}

func (h *Harness) cleanup() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unwatch()
	h.release()
	if n := h.Clock.Pending(); n > 0 {
		h.t.Errorf("retrytest: %d deadlines or timers were left running on the virtual clock:"+
			" call the CancelFunc of every WithTimeoutCause, and stop every AfterFunc", n)
	}
}

// patience is how much real time an attempt may take without any virtual time.
const patience = 2 * time.Second

var errStalled = errors.New("retrytest: the attempt blocked, and the virtual clock stood still")

// watch fails the test when an attempt blocks. A virtual clock moves only when code
// sleeps on it, and an op that waits for its context to end does not.
func (h *Harness) watch() {
	h.unwatch()
	seen := h.Clock.Now()
	var dog *time.Timer
	dog = time.AfterFunc(patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case h.watchdog != dog: // that attempt is over
		case h.Clock.Now().After(seen):
			h.watch()
		default:
			h.t.Errorf("retrytest: an attempt has blocked for %v of real time while the virtual clock stood still."+
				" If it waits for its context to end, nothing moves the clock there:"+
				" let it sleep on h.Clock, as Script(h, ...) does with Step.Taking,"+
				" or test it on the system clock in testing/synctest.\n%s", patience, h.story())
			h.cancel(errStalled)
		}
	})
	h.watchdog = dog
}

func (h *Harness) unwatch() {
	if h.watchdog != nil {
		h.watchdog.Stop()
		h.watchdog = nil
	}
}
