package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/pace"
)

// chaos is one run of which any part may do anything that it is allowed to do.
type chaos struct {
	rng    *rand.Rand
	faulty bool   // parts panic and exit
	cancel func() // the caller
	clock  clockx.Clock
	wrong  []string

	guards               []*wild
	starts, dones        int
	attempts, closed     int // that hooks saw begin and end
	calls                int
	faults, reasons      map[string]int
	waited, held, passed int
}

func (c *chaos) fail(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// fault does not return, once in a while, or has the caller leave.
func (c *chaos) fault(where string) {
	n := c.rng.IntN(100)
	switch {
	case n == 0 && c.faulty:
		c.faults["panic in "+where]++
		panic("chaos")
	case n == 1 && c.faulty:
		c.faults["exit in "+where]++
		runtime.Goexit()
	case n == 2 && c.rng.IntN(3) == 0:
		c.cancel()
	}
}

// short is a time that is often about that of other parts, and sometimes zero.
func (c *chaos) short() time.Duration {
	return time.Duration(c.rng.IntN(8)*c.rng.IntN(4)) * 100 * time.Millisecond
}

// wild is a guard that does anything.
type wild struct {
	*chaos
	next    int
	current int          // the pass for the next attempt, or the one underway; 0: none
	open    map[int]bool // with those that are held
	ready   time.Time    // when the attempt may start by the current pass
	again   int          // how often it has said so, in a row
}

func (w *wild) Enter(ctx context.Context, e retry.Entry) (p retry.Pass, err error) {
	again := e.Earlier.Again
	switch {
	case ctx == nil || e.Clock == nil || e.Number < 1 || e.Name != "chaos" || e.Hedge:
		w.fail("entry %+v", e)
	case again && (w.current == 0 || e.Earlier.Held != w.current):
		w.fail("asked again with pass %v, not %d", e.Earlier.Held, w.current)
	case !again && w.current != 0:
		w.fail("asked while it has pass %d", w.current)
	case again && e.Clock.Now().Before(w.ready):
		w.fail("asked again %v too early", w.ready.Sub(e.Clock.Now()))
	}
	w.fault("Enter")
	if w.rng.IntN(6) == 0 { // it asks somebody
		_ = e.Clock.Sleep(ctx, min(w.short(), max(e.Patience, 0)))
	}
	if w.rng.IntN(12) == 0 {
		if again {
			delete(w.open, w.current)
			w.current = 0
		}
		switch w.rng.IntN(8) {
		case 0:
			return p, retry.Stop(errFull)
		case 1:
			return p, retry.Answer(errFull)
		case 2:
			return p, retry.Refuse(errFull)
		case 3:
			return p, retry.After(errFull, w.short())
		case 4:
			return p, retry.After(errFull, time.Hour)
		case 5:
			return p, context.DeadlineExceeded
		}
		return p, errFull
	}
	if !again {
		w.again = 0
	}
	switch w.rng.IntN(6) {
	case 0:
		p.Wait = w.short() - 300*time.Millisecond
	case 1:
		p.Wait = w.short() + 1
		p.Again = w.again < 5
	case 2:
		if e.Patience < math.MaxInt64 && w.rng.IntN(8) == 0 {
			p.Wait = math.MaxInt64
		}
	}
	w.again++
	w.passed++
	if again {
		delete(w.open, w.current)
	}
	w.next++
	w.current = w.next
	w.open[w.current] = true
	p.Held = w.current
	w.ready = e.Clock.Now().Add(max(p.Wait, 0))
	return p, nil
}

func (w *wild) Leave(p retry.Pass, x retry.Exit) {
	id, _ := p.Held.(int)
	if !w.open[id] {
		w.fail("pass %v is left, open are %v", p.Held, w.open)
	}
	delete(w.open, id)
	if id == w.current {
		w.current = 0
	}
	if x.Clock == nil || x.Took < 0 || x.Allowed < 0 || x.Ending > retry.Panicked || x.Ending == retry.NotMade && x.Took != 0 {
		w.fail("exit %+v", x)
	}
	w.fault("Leave")
}

func newChaos(seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 7))
	return &chaos{rng: rng, faulty: rng.IntN(2) == 0, faults: map[string]int{}, reasons: map[string]int{}}
}

// policy returns the run's policy.
func (c *chaos) policy() retry.Policy {
	rng := c.rng
	p := retry.Policy{Name: "chaos", MaxAttempts: rng.IntN(7) - 1, NonIdempotent: rng.IntN(6) == 0, Rand: rng.Float64}
	for range 1 + rng.IntN(3) {
		w := &wild{chaos: c, open: map[int]bool{}}
		c.guards = append(c.guards, w)
		switch p.Guards = append(p.Guards, w); rng.IntN(6) {
		case 0:
			p.Guards = append(p.Guards, nil, (*pace.Pace)(nil), new(pace.Pace))
		case 1:
			p.Guards = append([]retry.Guard{nil}, p.Guards...)
		}
	}
	switch rng.IntN(4) {
	case 0:
		p.Backoff = retry.Constant(0)
	case 1:
		p.Backoff, p.ThrottleBackoff = retry.Constant(c.short()), retry.Constant(c.short())
	case 2:
		p.Backoff = retry.Decorrelated{}
	}
	if rng.IntN(3) == 0 || p.MaxAttempts < 0 {
		p.MaxElapsed = 1 + 5*c.short()
	}
	if rng.IntN(3) == 0 {
		p.AttemptTimeout = c.short()
	}
	if rng.IntN(4) == 0 {
		p.Classify = func(error) retry.Class { c.fault("Classify"); return retry.Class(rng.IntN(7)) }
	}
	switch rng.IntN(4) {
	case 0:
		p.Clock = clockx.NewVirtual(epoch)
	case 1:
		p.Clock = struct{ clockx.Clock }{clockx.System()}
	case 2:
		p.Clock = clockx.System()
	}
	c.clock = on(p)
	p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context { c.starts++; return ctx }
	p.Hooks.Done = func(_ context.Context, s retry.Summary) {
		c.dones++
		c.reasons[s.Reason.String()]++
		c.waited += int(min(s.Waited, 1))
		if e, _ := s.Err.(*retry.Error); s.Waited > s.Elapsed || s.Waited < 0 || s.Reason == retry.ReasonGuard && (e.Cause == nil || e.Timeout()) {
			c.fail("summary %+v", s)
		}
		c.fault("Done")
	}
	if rng.IntN(2) == 0 {
		p.Hooks.Attempt = func(context.Context, retry.Attempt) context.Context {
			c.fault("Attempt")
			c.attempts++
			return nil
		}
		p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { c.closed++; c.fault("AttemptDone") }
		p.Hooks.Wait = func(context.Context, retry.Attempt) { c.fault("Wait") }
		p.Hooks.Guard = func(context.Context, retry.Held) { c.held++; c.fault("Guard") }
	}
	return p
}

// op is what the run is for.
func (c *chaos) op(ctx context.Context) error {
	c.calls++
	for i, w := range c.guards {
		if w.current == 0 || !w.open[w.current] {
			c.fail("guard %d has not admitted attempt %d", i+1, c.calls)
		}
		if early := w.ready.Sub(c.clock.Now()); early > 0 {
			c.fail("attempt %d starts %v before guard %d lets it", c.calls, early, i+1)
		}
	}
	c.fault("op")
	if err := c.clock.Sleep(ctx, c.short()); err != nil && c.rng.IntN(2) == 0 {
		return err
	}
	switch c.rng.IntN(8) {
	case 0:
		return nil
	case 1:
		return retry.After(errFlaky, c.short())
	case 2:
		return retry.Stop(errFlaky)
	case 3:
		return retry.Undone(errFlaky)
	case 4:
		return retry.ErrRejected
	}
	return errFlaky
}

// step makes the run by Attempts.
func (c *chaos) step(ctx context.Context, p retry.Policy) {
	a := p.Attempts(ctx)
	defer a.Close()
	if c.rng.IntN(4) == 0 {
		a.Untimed()
	}
	var held []func(retry.Exit)
	defer func() {
		for _, leave := range held {
			leave(retry.Exit{Ending: retry.Returned})
			leave(retry.Exit{Ending: retry.Returned})
		}
	}()
	next := func() (more bool) {
		if c.rng.IntN(4) == 0 {
			defer func() {
				if recover() != nil {
					if more = a.Next(); more {
						c.fail("an attempt follows a panic")
					}
				}
			}()
		}
		return a.Next()
	}
	for next() {
		err := c.op(a.Context())
		if c.rng.IntN(5) == 0 {
			leave := a.Hold()
			for _, w := range c.guards {
				w.current = 0
			}
			if held = append(held, func(x retry.Exit) { apart(func() { leave(x) }) }); c.rng.IntN(3) == 0 {
				_ = a.Hold()
			}
		}
		if c.rng.IntN(3) == 0 {
			a.Judged(p.Judge(err))
		} else {
			a.Done(err)
		}
		switch c.rng.IntN(20) {
		case 0:
			a.Cancel(errShutdown)
		case 1:
			return
		}
	}
}

// run makes the run, and checks what is left of it.
func (c *chaos) run(t *testing.T) {
	p := c.policy()
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	budget := &countingBudget{}
	if c.rng.IntN(2) == 0 {
		p.Budget = budget
		budget.refuse = c.rng.IntN(8) == 0
	}
	stop := context.CancelFunc(func() {})
	if c.rng.IntN(3) == 0 {
		ctx, stop = c.clock.WithTimeoutCause(ctx, c.short()*3, nil)
	}
	apart(func() {
		switch c.rng.IntN(6) {
		case 0, 1:
			err := retry.Run(ctx, p, c.op)
			if e, ok := errors.AsType[*retry.Error](err); ok && e.Attempts != c.calls {
				c.fail("%d calls, and %+v", c.calls, e)
			}
		case 2:
			_ = retry.Supervise(ctx, p, time.Second, c.op)
		default:
			c.step(ctx, p)
		}
	})
	stop()
	cancel()
	for i, w := range c.guards {
		if len(w.open) > 0 || w.current != 0 {
			c.fail("guard %d of %d has %v", i+1, len(c.guards), w.open)
		}
	}
	if v, ok := p.Clock.(*clockx.Virtual); ok && v.Pending() != 0 {
		c.fail("%d timers are left", v.Pending())
	}
	if c.starts != c.dones || c.attempts != c.closed || budget.ended > c.dones || p.Budget != nil && c.attempts > 0 && budget.ended == 0 {
		c.fail("%d of %d runs are done, %d of %d attempts, the budget saw %d ends", c.dones, c.starts, c.closed, c.attempts, budget.ended)
	}
}

// Whatever guards, hooks, op and the caller do: each pass comes back once, no attempt starts
// without all of them or too early, and nothing is left of a run. Eight runs are underway at a
// time, since what a run keeps of its guards goes from one to the other.
func TestNoRunLosesAPass(t *testing.T) {
	runs := 15_000
	switch {
	case race.Enabled:
		runs = 3_000
	case longTests:
		runs = 500_000
	}
	reasons, faults := map[string]int{}, map[string]int{}
	var calls, waited, held, passed int
	synctest.Test(t, func(t *testing.T) {
		for first := 0; first < runs && !t.Failed(); first += 8 {
			var all sync.WaitGroup
			var runs [8]*chaos
			for i := range runs {
				runs[i] = newChaos(uint64(first + i))
				all.Go(func() { runs[i].run(t) })
			}
			all.Wait()
			for i, c := range runs {
				for _, wrong := range c.wrong {
					t.Errorf("run %d: %s", first+i, wrong)
				}
				for reason, n := range c.reasons {
					reasons[reason] += n
				}
				for where, n := range c.faults {
					faults[where] += n
				}
				calls, waited, held, passed = calls+c.calls, waited+c.waited, held+c.held, passed+c.passed
			}
		}
	})
	t.Logf("%d passes, %d calls, %d runs waited, %d hooks; %v; %v", passed, calls, waited, held, reasons, faults)
	for _, reason := range []retry.Reason{
		retry.ReasonNone, retry.ReasonPermanent, retry.ReasonNotIdempotent, retry.ReasonMaxAttempts, retry.ReasonMaxElapsed,
		retry.ReasonDeadline, retry.ReasonBudget, retry.ReasonCanceled, retry.ReasonPanic, retry.ReasonGuard,
	} {
		if reasons[reason.String()] == 0 {
			t.Errorf("no run ended with %v", reason)
		}
	}
	for _, where := range []string{"Enter", "Leave", "op", "Attempt", "AttemptDone", "Wait", "Guard", "Done", "Classify"} {
		if faults["panic in "+where] == 0 || faults["exit in "+where] == 0 {
			t.Errorf("no panic, or no exit, in %s", where)
		}
	}
}
