package retry_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

var errFull = errors.New("full")

// enter is what a gate does with one attempt.
type enter func(context.Context, retry.Entry) (retry.Pass, error)

// gate is a guard that does as its script says, and then admits all.
type gate struct {
	name    string
	log     func(format string, args ...any) // nil: none
	script  []enter
	onLeave func() // nil: nothing

	entries []retry.Entry
	exits   []retry.Exit
	open    []any // what its passes hold that it has not got back
	wrong   []string
}

// guarded gives p a gate as its only guard.
func guarded(p *retry.Policy, script ...enter) *gate {
	g := &gate{script: script}
	p.Guards = []retry.Guard{g}
	return g
}

func (g *gate) Enter(ctx context.Context, e retry.Entry) (pass retry.Pass, err error) {
	if g.log != nil {
		g.log("enter %s", g.name)
	}
	g.entries = append(g.entries, e)
	id := len(g.entries)
	if len(g.script) > 0 {
		step := g.script[0]
		g.script = g.script[1:]
		pass, err = step(ctx, e)
	}
	if e.Earlier.Again {
		g.forget(e.Earlier)
	}
	if err == nil {
		pass.Held = id
		g.open = append(g.open, id)
	}
	return pass, err
}

func (g *gate) Leave(pass retry.Pass, x retry.Exit) {
	if g.log != nil {
		g.log("leave %s %s", g.name, endings[x.Ending])
	}
	g.exits = append(g.exits, x)
	g.forget(pass)
	if g.onLeave != nil {
		g.onLeave()
	}
}

func (g *gate) forget(pass retry.Pass) {
	i := slices.Index(g.open, pass.Held)
	if i < 0 {
		g.wrong = append(g.wrong, fmt.Sprintf("pass %v, of %v", pass.Held, g.open))
		return
	}
	g.open = slices.Delete(g.open, i, i+1)
}

// check reports a pass that was not given back, or not once.
func (g *gate) check(t *testing.T) {
	t.Helper()
	if len(g.open) > 0 || len(g.wrong) > 0 {
		t.Errorf("guard %s: passes %v are open, wrong: %v", g.name, g.open, g.wrong)
	}
}

// endings are the words for an Ending.
var endings = [...]string{"not made", "returned", "expired", "canceled", "panicked"}

func admits(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }

func sleeps(d time.Duration) enter {
	return func(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{Wait: d}, nil }
}

func asksAgain(d time.Duration) enter {
	return func(context.Context, retry.Entry) (retry.Pass, error) {
		return retry.Pass{Wait: d, Again: true}, nil
	}
}

// wakesAfter returns pass with a Wake that comes after d on the policy's clock, never if d is negative.
func wakesAfter(d time.Duration, pass retry.Pass) enter {
	return func(_ context.Context, e retry.Entry) (retry.Pass, error) {
		wake := make(chan struct{}, 1)
		after(e.Clock, d, func() { wake <- struct{}{} })
		pass.Wake = wake
		return pass, nil
	}
}

// after calls f after d on a clock, never if d is negative.
func after(clock clockx.Clock, d time.Duration, f func()) {
	if d < 0 {
		return
	}
	if v, ok := clock.(*clockx.Virtual); ok {
		v.AfterFunc(d, f)
		return
	}
	time.AfterFunc(d, f)
}

func refuses(err error) enter {
	return func(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, err }
}

// takes has time pass before the step.
func takes(v *clockx.Virtual, d time.Duration, step enter) enter {
	return func(ctx context.Context, e retry.Entry) (retry.Pass, error) {
		v.Advance(d)
		return step(ctx, e)
	}
}

func breaks(how func()) enter {
	return func(context.Context, retry.Entry) (retry.Pass, error) { how(); return retry.Pass{}, nil }
}

// departures are the ways in which a func does not return.
var departures = map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit}

// caught calls f, and returns what f panics with.
func caught(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// apart is caught on a goroutine that f may end.
func apart(f func()) (value any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		value = caught(f)
	}()
	<-done
	return value
}

// clocks are the kinds of clocks that a run sleeps on. Each is for a synctest bubble, but
// Virtual, which is as good there.
var clocks = map[string]func() clockx.Clock{
	"none":     func() clockx.Clock { return nil },
	"system":   clockx.System,
	"wrapped":  func() clockx.Clock { return struct{ clockx.Clock }{clockx.System()} },
	"virtual":  func() clockx.Clock { return clockx.NewVirtual(epoch) },
	"heedless": func() clockx.Clock { return heedless{clockx.System()} },
}

// heedless is a clock that takes no note of a context's error, but only of Done.
type heedless struct{ clockx.Clock }

func (heedless) Sleep(ctx context.Context, d time.Duration) error {
	_ = ctx.Err()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	time.AfterFunc(1, func() { _ = ctx.Err() }) // also of another wait
	return ctx.Err()
}

// doors are the ways into a run that make its attempts with op until it has ended.
var doors = map[string]func(context.Context, retry.Policy, func(context.Context) error) error{
	"Run": retry.Run,
	"Do": func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
		_, err := retry.Do(ctx, p, func(ctx context.Context) (row, error) { return row{}, op(ctx) })
		return err
	},
	"Attempts": func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
		a := p.Attempts(ctx)
		defer a.Close()
		for a.Next() {
			a.Done(op(a.Context()))
		}
		return a.Err()
	},
	"Supervise": func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
		return retry.Supervise(ctx, p, 1000*time.Hour, op)
	},
}

// onEach tests by all doors, on all clocks.
func onEach(t *testing.T, test func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error)) {
	for door, run := range doors {
		for name, clock := range clocks {
			t.Run(door+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, _ := virtual()
					p.Clock = clock()
					test(t, p, run)
					if v, ok := p.Clock.(*clockx.Virtual); ok && v.Pending() != 0 {
						t.Errorf("%d timers are left", v.Pending())
					}
				})
			})
		}
	}
}

// on returns the clock that p is on.
func on(p retry.Policy) clockx.Clock {
	if p.Clock == nil {
		return clockx.System()
	}
	return p.Clock
}

// loggedBudget is a budget that grants all, and writes down what it is told.
type loggedBudget struct {
	log func(format string, args ...any)
	countingBudget
	withdrawals []retry.Withdrawal
	outcome     retry.Outcome
}

func (b *loggedBudget) Withdraw(w retry.Withdrawal) bool {
	b.log("withdraw")
	b.withdrawals = append(b.withdrawals, w)
	return b.countingBudget.Withdraw(w)
}

func (b *loggedBudget) End(o retry.Outcome) {
	b.log("end")
	b.outcome = o
	b.countingBudget.End(o)
}

func TestOrderOfCallsAroundAGuard(t *testing.T) {
	p, _ := virtual()
	seen := record(&p)
	p.Budget = &loggedBudget{log: seen.add}
	g := &gate{name: "a", log: seen.add, script: []enter{sleeps(5 * time.Second), asksAgain(7 * time.Second), admits, refuses(errFull)}}
	p.Guards = []retry.Guard{g}
	calls := 0
	err := retry.Run(t.Context(), p, func(context.Context) error {
		if seen.add("op"); calls < 2 {
			calls++
			return errDown
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "start" +
		" enter a guard(5s) attempt(1) op leave a returned withdraw attemptDone(1) wait(1s)" +
		" enter a guard(7s) enter a attempt(2) op leave a returned withdraw attemptDone(2) wait(2s)" +
		" enter a guard(4s) enter a attempt(3) op leave a returned end attemptDone(3) done(none)"
	if got := seen.String(); got != want {
		t.Errorf("calls\n%s, want\n%s", got, want)
	}
	g.check(t)
}

// A quota that a guard asks somebody else about makes no attempt look slow.
func TestTimeInEnterIsAWaitAndNoPartOfTheAttempt(t *testing.T) {
	p, v := virtual()
	p.AttemptTimeout = 500 * time.Millisecond
	p.MaxAttempts = 3
	seen := record(&p)
	g := &gate{script: []enter{
		takes(v, time.Second, admits),
		takes(v, 2*time.Second, refuses(errFull)),
		takes(v, 3*time.Second, sleeps(4*time.Second)),
	}}
	h := &gate{script: []enter{takes(v, 10*time.Second, admits)}}
	p.Guards = []retry.Guard{g, h}
	calls := 0
	err := retry.Run(t.Context(), p, func(ctx context.Context) error {
		if at, _ := ctx.Deadline(); at.Sub(v.Now()) != p.AttemptTimeout {
			t.Errorf("the attempt has %v of its %v", at.Sub(v.Now()), p.AttemptTimeout)
		}
		v.Advance(10 * time.Millisecond)
		if calls++; calls == 1 {
			return errDown
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	op := 10 * time.Millisecond
	second := 11*time.Second + op + time.Second + 2*time.Second + 2*time.Second + 7*time.Second
	for i, start := range []time.Duration{11 * time.Second, second} {
		if begun := seen.begun[i]; !begun.Start.Equal(epoch.Add(start)) || begun.Elapsed != start {
			t.Errorf("attempt %d starts at %v, after %v, want %v", i+1, begun.Start.Sub(epoch), begun.Elapsed, start)
		}
		if a := seen.attempts[i]; !a.Start.Equal(epoch.Add(start)) || a.Duration != op || a.Elapsed != start+op {
			t.Errorf("attempt %d: %+v", i+1, a)
		}
	}
	if s := seen.summary; s.Elapsed != second+op || s.Waited != second-op {
		t.Errorf("waited %v of %v, want %v of %v", s.Waited, s.Elapsed, second-op, second+op)
	}
	for i, x := range append(g.exits, h.exits...) {
		if x.Took != op || x.Allowed != p.AttemptTimeout {
			t.Errorf("exit %d took %v of %v", i, x.Took, x.Allowed)
		}
	}
}

func TestRunSleepsWhenAGuardSaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
		seen := record(&p)
		first, second := &gate{script: []enter{asksAgain(time.Second), asksAgain(2 * time.Second), sleeps(3 * time.Second)}}, &gate{script: []enter{sleeps(4 * time.Second)}}
		p.Guards = []retry.Guard{first, second}
		start := on(p).Now()
		var at time.Duration
		err := run(t.Context(), p, func(context.Context) error { at = on(p).Now().Sub(start); return nil })
		if s := seen.summary; err != nil || at != 10*time.Second || s.Elapsed != at || s.Waited != at {
			t.Errorf("%v; the attempt started after %v, waited %v of %v", err, at, s.Waited, s.Elapsed)
		}
		if first.check(t); len(first.entries) != 3 || len(second.entries) != 1 {
			t.Errorf("guards were asked %d and %d times", len(first.entries), len(second.entries))
		}
		for i, e := range first.entries {
			if again := i > 0; e.Earlier.Again != again || again && (e.Earlier.Held != i || e.Earlier.Wait != time.Duration(i)*time.Second) {
				t.Errorf("the earlier pass of entry %d is %+v", i+1, e.Earlier)
			}
		}
	})
}

func TestCallerEndsTheWaitForAGuard(t *testing.T) {
	onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
		for _, deadline := range []bool{false, true} {
			seen := record(&p)
			first, second := &gate{}, &gate{script: []enter{asksAgain(2 * time.Second), asksAgain(2 * time.Second)}}
			if deadline {
				second.script = []enter{asksAgain(2 * time.Second), wakesAfter(-1, retry.Pass{Again: true})}
			}
			p.Guards = []retry.Guard{first, second}
			ctx, cancel := context.WithCancelCause(t.Context())
			want, cause := retry.ReasonCanceled, errShutdown
			if deadline {
				var stop context.CancelFunc
				ctx, stop = on(p).WithTimeoutCause(ctx, 3*time.Second, errShutdown)
				defer stop()
				want = retry.ReasonDeadline
			} else if v, ok := p.Clock.(*clockx.Virtual); ok {
				v.AfterFunc(3*time.Second, func() { cancel(errShutdown) })
			} else {
				time.AfterFunc(3*time.Second, func() { cancel(errShutdown) })
			}
			e := wantReason(t, run(ctx, p, func(context.Context) error { t.Error("op was called"); return nil }), want)
			if e.Cause != cause || e.Elapsed != 3*time.Second || e.Waited != e.Elapsed || !e.InWait || !e.Undone || e.Attempts != 0 {
				t.Errorf("%+v", e)
			}
			if s := seen.String(); s != "start guard(2s) done("+want.String()+")" {
				t.Error(s)
			}
			for _, g := range []*gate{first, second} {
				g.check(t)
				if x := g.exits[0]; x != (retry.Exit{Clock: on(p)}) {
					t.Errorf("exit %+v", x)
				}
			}
			cancel(nil)
		}
	})
}

// A guard that asks for one more wait each time holds nobody beyond MaxElapsed or the caller's
// deadline: once its wait is not shorter than what is left the run ends, and holds no pass.
func TestWaitForAGuardIsNotLongerThanWhatIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
		for name, last := range map[string]enter{"again": asksAgain(time.Hour), "once": sleeps(time.Hour), "just too long": sleeps(1500 * time.Millisecond), "with a Wake": func(context.Context, retry.Entry) (retry.Pass, error) {
			return retry.Pass{Wait: time.Hour, Wake: make(chan struct{})}, nil
		}} {
			for _, deadline := range []bool{false, true} {
				ctx := t.Context()
				if p.MaxElapsed = 3500 * time.Millisecond; deadline {
					var cancel context.CancelFunc
					ctx, cancel = on(p).WithTimeoutCause(ctx, p.MaxElapsed, nil)
					defer cancel()
					p.MaxElapsed = 0
				}
				g, h := &gate{}, &gate{script: []enter{asksAgain(time.Second), asksAgain(time.Second), last}}
				p.Guards = []retry.Guard{g, h}
				seen := record(&p)
				e := wantReason(t, run(ctx, p, func(context.Context) error { t.Errorf("%s: op was called", name); return nil }), retry.ReasonGuard)
				if !errors.Is(e.Cause, retry.ErrPaced) || e.Elapsed != 2*time.Second || e.Waited != e.Elapsed || !e.Undone || e.InWait {
					t.Errorf("%s: %+v", name, e)
				}
				if s := seen.String(); s != "start guard(1s) guard(0s) done(guard)" {
					t.Errorf("%s: %s", name, s)
				}
				if len(h.entries) != 3 || len(h.exits) != 1 || len(g.exits) != 1 || !unsent(g.exits[0], retry.ErrPaced) || g.exits[0].Clock != on(p) {
					t.Errorf("%s: asked %d times, exits %v", name, len(h.entries), g.exits)
				}
				g.check(t)
				h.check(t)
				p.Hooks = retry.Hooks{}
			}
		}
	})
}

// A Wake ends a wait on any clock, and Wait ends it if the pass is Timed.
func TestWakeEndsTheWait(t *testing.T) {
	for name, tt := range map[string]struct {
		pass                 retry.Pass
		wake                 time.Duration // negative: never
		maxElapsed, deadline time.Duration
		took                 time.Duration
		reason               retry.Reason
		asked                int
	}{
		"of unknown length":        {wake: 3 * time.Second, took: 3 * time.Second, asked: 1},
		"again":                    {pass: retry.Pass{Again: true}, wake: 3 * time.Second, took: 3 * time.Second, asked: 2},
		"at once":                  {pass: retry.Pass{Again: true}, wake: 0, took: 0, asked: 2},
		"earlier than expected":    {pass: retry.Pass{Wait: time.Minute}, wake: 3 * time.Second, took: 3 * time.Second, asked: 1},
		"later":                    {pass: retry.Pass{Wait: time.Second}, wake: 3 * time.Second, took: 3 * time.Second, asked: 1},
		"timed, earlier":           {pass: retry.Pass{Wait: time.Minute, Timed: true}, wake: 3 * time.Second, took: 3 * time.Second, asked: 1},
		"timed, later":             {pass: retry.Pass{Wait: time.Second, Timed: true}, wake: 3 * time.Second, took: time.Second, asked: 1},
		"timed, never":             {pass: retry.Pass{Wait: time.Second, Timed: true, Again: true}, wake: -1, took: time.Second, asked: 2},
		"before MaxElapsed":        {pass: retry.Pass{Wait: time.Second}, wake: 3 * time.Second, maxElapsed: 3*time.Second + 1, took: 3 * time.Second, asked: 1},
		"after MaxElapsed":         {pass: retry.Pass{Wait: time.Second}, wake: 3 * time.Second, maxElapsed: 2 * time.Second, took: 2 * time.Second, reason: retry.ReasonGuard, asked: 1},
		"again, with MaxElapsed":   {pass: retry.Pass{Again: true}, wake: 2 * time.Second, maxElapsed: 2 * time.Second, took: 2 * time.Second, reason: retry.ReasonGuard, asked: 1},
		"never, with MaxElapsed":   {wake: -1, maxElapsed: 2 * time.Second, took: 2 * time.Second, reason: retry.ReasonGuard, asked: 1},
		"never, with a deadline":   {wake: -1, deadline: 2 * time.Second, took: 2 * time.Second, reason: retry.ReasonDeadline, asked: 1},
		"a negative Wait is none":  {pass: retry.Pass{Wait: -1}, wake: 3 * time.Second, took: 3 * time.Second, asked: 1},
		"timed, without a Wait":    {pass: retry.Pass{Timed: true}, wake: 3 * time.Second, took: 0, asked: 1},
		"timed, again at once":     {pass: retry.Pass{Timed: true, Again: true}, wake: 3 * time.Second, took: time.Millisecond, asked: 2},
		"the longest, with a wake": {pass: retry.Pass{Wait: math.MaxInt64 - 1}, wake: 3 * time.Second, took: 3 * time.Second, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
				p.MaxElapsed = tt.maxElapsed
				before, g := &gate{}, &gate{script: []enter{wakesAfter(tt.wake, tt.pass)}}
				p.Guards = []retry.Guard{before, g}
				seen := record(&p)
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = on(p).WithTimeoutCause(ctx, tt.deadline, nil)
					defer cancel()
				}
				start, calls := on(p).Now(), 0
				err := run(ctx, p, func(context.Context) error { calls++; return nil })
				s := seen.summary
				if took := on(p).Now().Sub(start); took != tt.took || s.Elapsed != took || s.Waited != took || s.Reason != tt.reason || (calls == 1) != (tt.reason == retry.ReasonNone) {
					t.Errorf("%d calls after %v, %+v: %v", calls, took, s, err)
				}
				if tt.reason == retry.ReasonGuard && !errors.Is(err, retry.ErrPaced) {
					t.Errorf("the error is %v", err)
				}
				wait := max(tt.pass.Wait, 0)
				if tt.pass.Timed && tt.pass.Again {
					wait = max(wait, time.Millisecond)
				}
				if len(seen.held) == 0 || seen.held[0].Delay != wait || seen.held[0].Err != nil {
					t.Errorf("hooks saw %+v", seen.held)
				}
				if len(g.entries) != tt.asked {
					t.Errorf("asked %d times", len(g.entries))
				}
				before.check(t)
				g.check(t)
				_ = on(p).Sleep(context.Background(), time.Hour) // for the wakes that come later
			})
		})
	}
}

// A virtual clock that nobody else moves comes to its end, and so does the run.
func TestWaitForAWakeThatNobodySends(t *testing.T) {
	for door, run := range doors {
		p, _ := virtual()
		g := guarded(&p, wakesAfter(-1, retry.Pass{Wait: time.Second, Again: true}))
		if err := run(t.Context(), p, works); !errors.Is(err, retry.ErrPaced) {
			t.Errorf("%s: %v", door, err)
		}
		g.check(t)
	}
}

// Hooks and errors know no wait if the guard knows none.
func TestHooksOfAWaitThatIsNotKnown(t *testing.T) {
	p, _ := virtual()
	p.MaxElapsed = time.Minute
	var held []retry.Held
	p.Hooks.Guard = func(_ context.Context, h retry.Held) { held = append(held, h) }
	guarded(&p, wakesAfter(time.Second, retry.Pass{Again: true}), wakesAfter(-1, retry.Pass{}))
	err := retry.Run(t.Context(), p, func(context.Context) error { return nil })
	if len(held) != 2 || held[0].Delay != 0 || held[0].Err != nil || held[1].Err == nil || held[1].Delay != 0 || retry.DefaultClassifier(err) != retry.Unprocessed {
		t.Errorf("the hooks got %+v; the run ended with %v", held, err)
	}
	if hint := (retry.Policy{}).Judge(err).Hint; hint != 0 {
		t.Errorf("a run around it waits %v", hint)
	}
}

// What wakes a run again belongs to its next wait.
func TestARunTakesOneWakeForEachWait(t *testing.T) {
	onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
		wake := make(chan struct{}, 3)
		waits := func(timed bool) enter {
			return func(_ context.Context, e retry.Entry) (retry.Pass, error) {
				return retry.Pass{Wait: time.Second, Wake: wake, Timed: timed, Again: true}, nil
			}
		}
		g := guarded(&p, waits(false), waits(true), waits(true), waits(true), waits(true))
		start := on(p).Now()
		wake <- struct{}{}
		after(on(p), time.Second/2, func() { wake <- struct{}{}; wake <- struct{}{} })
		if err := run(t.Context(), p, works); err != nil {
			t.Error(err)
		}
		if took := on(p).Now().Sub(start); took != 2500*time.Millisecond { // 0, .5, .5, 1.5, 2.5
			t.Errorf("the attempt started after %v", took)
		}
		g.check(t)
	})
}

// What a clock does with the context of a wait that is over takes no wake.
func TestAWaitThatIsOverTakesNoWake(t *testing.T) {
	late := &hasty{Clock: clockx.System()}
	wake := make(chan struct{}, 1)
	p := retry.Policy{Clock: late}
	guarded(&p, func(context.Context, retry.Entry) (retry.Pass, error) {
		return retry.Pass{Wait: time.Second, Wake: wake, Timed: true}, nil
	})
	err := retry.Run(t.Context(), p, works)
	wake <- struct{}{}
	_ = late.ctx.Err()
	<-late.ctx.Done()
	if ended := late.ctx.Err(); err != nil || len(wake) != 1 || ended != context.Canceled {
		t.Errorf("%v, %d wakes are left, the context's error is %v", err, len(wake), ended)
	}
}

// hasty is a clock that does not sleep, and keeps the context.
type hasty struct {
	clockx.Clock
	ctx context.Context
}

func (h *hasty) Sleep(ctx context.Context, _ time.Duration) error { h.ctx = ctx; return nil }

// A run lasts until its last pass is given back, however it ends, also for MaxElapsed. An attempt
// ends before.
func TestEveryEndCountsTheTimeOfLeave(t *testing.T) {
	down := func(func()) error { return errDown }
	boom := func(func()) error { panic("boom") }
	cancels := func(cancel func()) error { cancel(); return nil }
	for name, tt := range map[string]struct {
		op, hook, enter func(cancel func()) error // enter is of another guard; nil: it does nothing
		healthy         bool
		maxElapsed      time.Duration
		reason          retry.Reason // ReasonNone: any
	}{
		"in time":      {op: down, maxElapsed: 3 * time.Second, reason: retry.ReasonMaxAttempts},
		"no time left": {op: down, maxElapsed: 3*time.Second - 1, reason: retry.ReasonMaxElapsed},
		"success":      {}, "failure": {op: down}, "healthy": {op: down, healthy: true},
		"permanent":      {op: func(func()) error { return retry.Stop(errDown) }},
		"answer":         {op: func(func()) error { return retry.Answer(errDown) }},
		"panic":          {op: boom},
		"Goexit":         {op: func(func()) error { runtime.Goexit(); return nil }},
		"canceled":       {op: func(cancel func()) error { cancel(); return errDown }},
		"canceled, hook": {hook: cancels}, "panic, hook": {hook: boom},
		"canceled, guard": {enter: cancels}, "panic, guard": {enter: boom}, "refused": {enter: down},
	} {
		onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			call := func(f func(func()) error) error {
				if f == nil {
					return nil
				}
				return f(cancel)
			}
			sleep := func() { _ = on(p).Sleep(context.Background(), time.Second) }
			p.Guards = []retry.Guard{&gate{onLeave: sleep}, &gate{script: []enter{func(context.Context, retry.Entry) (retry.Pass, error) {
				return retry.Pass{}, call(tt.enter)
			}}}}
			p.MaxAttempts, p.MaxElapsed = 2, tt.maxElapsed
			if tt.healthy {
				run = func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
					return retry.Supervise(ctx, p, time.Second, op)
				}
			}
			p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { _ = call(tt.hook); return ctx }
			p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) {
				if a.Duration > time.Second {
					t.Errorf("%s: an attempt of a second took %v", name, a.Duration)
				}
			}
			start := on(p).Now()
			p.Hooks.Done = func(_ context.Context, s retry.Summary) {
				took := on(p).Now().Sub(start)
				start = on(p).Now() // of the run that follows
				if e, _ := s.Err.(*retry.Error); s.Elapsed != took || e != nil && e.Elapsed != took || tt.reason != 0 && s.Reason != tt.reason {
					t.Errorf("%s: took %v, the hook got %+v", name, took, s)
				}
				if tt.healthy {
					cancel()
				}
			}
			apart(func() { _ = run(ctx, p, func(context.Context) error { sleep(); return call(tt.op) }) })
		})
	}
}

// A clock that cannot sleep ends a wait for a Wake too.
func TestClockThatFailsInAWaitForAWake(t *testing.T) {
	errSleep := errors.New("no sleep")
	p, v := virtual()
	p.Clock = sleepless{v, errSleep}
	g := guarded(&p, wakesAfter(-1, retry.Pass{Again: true}))
	if e := wantReason(t, retry.Run(t.Context(), p, works), retry.ReasonCanceled); e.Cause != errSleep {
		t.Errorf("%+v", e)
	}
	g.check(t)
}

// Again always asks again, and no guard can make a run spin by it.
func TestAgainWaitsAtLeastAMillisecond(t *testing.T) {
	for _, wait := range []time.Duration{-1, 0, 1, time.Millisecond} {
		onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
			g := guarded(&p, asksAgain(wait), asksAgain(wait), asksAgain(wait))
			start := on(p).Now()
			err := run(t.Context(), p, works)
			if took := on(p).Now().Sub(start); err != nil || len(g.entries) != 4 || took != 3*time.Millisecond || g.entries[1].Earlier.Wait != time.Millisecond {
				t.Errorf("Wait %v: %v after %d entries and %v", wait, err, len(g.entries), took)
			}
			g.check(t)
		})
	}
}

// Hooks and others that change a policy's guards write to an array of their own, and a pass
// goes back to the guard that gave it.
func TestGuardsOfARunAreThoseItBeganWith(t *testing.T) {
	shared := append(make([]retry.Guard, 0, 8), &gate{})
	p, _ := virtual()
	p.Guards = shared
	p.Hooks.Start = func(ctx context.Context, p retry.Policy) context.Context {
		_ = append(p.Guards, &gate{})
		p.Guards[0] = &gate{}
		return ctx
	}
	own := shared[0]
	if err := retry.Run(t.Context(), p, works); err != nil || shared[:2][1] != nil || shared[0] != own {
		t.Errorf("%v; a hook wrote %v", err, shared[:2])
	}
	first, other := &gate{}, &gate{}
	p, _ = virtual()
	p.Guards = []retry.Guard{first}
	if err := retry.Run(t.Context(), p, func(context.Context) error { p.Guards[0] = other; return nil }); err != nil {
		t.Error(err)
	}
	first.check(t)
	other.check(t)
}

// A guard that answers too late has no attempt wait any more.
func TestGuardThatAnswersAfterMaxElapsed(t *testing.T) {
	p, v := virtual()
	p.MaxElapsed = 3 * time.Second
	g := guarded(&p, asksAgain(time.Second), takes(v, 5*time.Second, asksAgain(time.Second)))
	e := wantReason(t, retry.Run(t.Context(), p, works), retry.ReasonGuard)
	if g.check(t); !errors.Is(e.Cause, retry.ErrPaced) || e.Elapsed != 6*time.Second || e.Waited != e.Elapsed {
		t.Errorf("%+v", e)
	}
}

// MaxElapsed cuts a wait if time passes before it begins. Then the guard has not admitted the attempt.
func TestWaitThatMaxElapsedCuts(t *testing.T) {
	p, v := virtual()
	p.Clock = readClock{v, func() { v.Advance(time.Second) }}
	p.MaxElapsed = time.Minute
	g := guarded(&p, func(_ context.Context, e retry.Entry) (retry.Pass, error) {
		return retry.Pass{Wait: e.Patience - 1500*time.Millisecond}, nil
	})
	e := wantReason(t, retry.Run(t.Context(), p, works), retry.ReasonGuard)
	if g.check(t); !errors.Is(e.Cause, retry.ErrPaced) || e.Attempts != 0 {
		t.Errorf("%+v", e)
	}
}

// A wait that ends a nanosecond before is taken.
func TestLastWaitMayEndBeforeMaxElapsed(t *testing.T) {
	onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
		p.MaxElapsed = 3500*time.Millisecond + 1
		g := guarded(&p, asksAgain(2*time.Second), sleeps(1500*time.Millisecond))
		if err := run(t.Context(), p, works); err != nil {
			t.Error(err)
		}
		g.check(t)
	})
}

func TestWaitNotShorterThanPatienceEndsTheRunAtOnce(t *testing.T) {
	for _, tt := range []struct {
		deadline, maxElapsed, patience time.Duration
	}{
		{0, 0, math.MaxInt64},
		{0, -1, math.MaxInt64},
		{4 * time.Second, 0, 3 * time.Second},
		{0, 4 * time.Second, 3 * time.Second},
		{4 * time.Second, 5 * time.Second, 3 * time.Second},
		{5 * time.Second, 4 * time.Second, 3 * time.Second},
	} {
		for _, more := range []time.Duration{-1, 0, 1} {
			for name, step := range map[string]func(time.Duration) enter{"once": sleeps, "again": asksAgain} {
				if tt.patience == math.MaxInt64 && more >= 0 {
					continue
				}
				p, v := virtual()
				p.MaxElapsed = tt.maxElapsed
				seen := record(&p)
				g := guarded(&p, step(tt.patience+more))
				p.Guards = append([]retry.Guard{&gate{script: []enter{takes(v, time.Second, admits)}}}, g)
				err := retry.Run(limited(t, v, tt.deadline), p, works)
				if g.check(t); g.entries[0].Patience != tt.patience {
					t.Errorf("%+v: patience %v", tt, g.entries[0].Patience)
				}
				if more < 0 {
					if err != nil {
						t.Errorf("%+v, %v less: %v", tt, more, err)
					}
					continue
				}
				e := wantReason(t, err, retry.ReasonGuard)
				if !errors.Is(e.Cause, retry.ErrPaced) || e.Elapsed != time.Second || e.Attempts != 0 || !e.Undone || e.InWait {
					t.Errorf("%+v, %s, %v more: %+v", tt, name, more, e)
				}
				if h := seen.held[0]; len(seen.held) != 1 || h.Err != e.Cause || h.Delay != 0 {
					t.Errorf("hooks saw %+v", seen.held)
				}
			}
		}
	}
}

// Without a limit a guard may name the longest wait there is, and the caller ends it.
func TestLongestWaitForAGuardCountsAsLongAsItLasts(t *testing.T) {
	p, v := virtual()
	p.Guards = []retry.Guard{&gate{script: []enter{sleeps(5 * time.Second), sleeps(math.MaxInt64 - 1)}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v.AfterFunc(8*time.Second, cancel)
	e := wantReason(t, retry.Run(ctx, p, func(context.Context) error { return errDown }), retry.ReasonCanceled)
	if e.Elapsed != 8*time.Second || e.Waited != e.Elapsed {
		t.Errorf("waited %v of %v", e.Waited, e.Elapsed)
	}
}

func TestPatienceOfARetryIsWhatIsLeft(t *testing.T) {
	p, v := virtual()
	p.MaxElapsed = 10 * time.Second
	g := guarded(&p, admits, refuses(errFull), asksAgain(time.Second))
	op, _ := failing(1, errDown)
	if _, err := retry.Do(limited(t, v, 9*time.Second), p, op); err != nil {
		t.Fatal(err)
	}
	var got []time.Duration
	for _, e := range g.entries {
		got = append(got, e.Patience)
	}
	if want := []time.Duration{9 * time.Second, 8 * time.Second, 6 * time.Second, 5 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("patience %v, want %v", got, want)
	}
}

// Hooks hear of no wait then. The run's clock is the system's.
func TestEnterMayBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocks := func(ctx context.Context, e retry.Entry) (retry.Pass, error) {
			var late <-chan time.Time
			if e.Patience < math.MaxInt64 {
				late = time.After(e.Patience + 1) // a nanosecond more, since ctx may end just then
			}
			select {
			case <-time.After(2 * time.Second):
				return retry.Pass{}, nil
			case <-late:
				return retry.Pass{}, errFull
			case <-ctx.Done():
				return retry.Pass{}, ctx.Err()
			}
		}
		for name, tt := range map[string]struct {
			deadline, maxElapsed, elapsed time.Duration
			cancel                        bool
			reason                        retry.Reason
		}{
			"long enough":   {elapsed: 2 * time.Second},
			"MaxElapsed":    {maxElapsed: time.Second, elapsed: time.Second + 1, reason: retry.ReasonGuard},
			"deadline":      {deadline: time.Second, maxElapsed: 5 * time.Second, elapsed: time.Second, reason: retry.ReasonDeadline},
			"canceled":      {cancel: true, elapsed: time.Second, reason: retry.ReasonCanceled},
			"two deadlines": {deadline: 2 * time.Second, maxElapsed: time.Second, elapsed: time.Second + 1, reason: retry.ReasonGuard},
		} {
			before := &gate{}
			p := retry.Policy{Guards: []retry.Guard{before, &gate{script: []enter{blocks}}}, MaxElapsed: tt.maxElapsed, MaxAttempts: 1}
			seen := record(&p)
			ctx, cancel := context.WithCancel(t.Context())
			if tt.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.deadline)
			}
			if tt.cancel {
				time.AfterFunc(time.Second, cancel)
			}
			_ = retry.Run(ctx, p, works)
			cancel()
			synctest.Wait()
			if s := seen.summary; s.Reason != tt.reason || s.Elapsed != tt.elapsed || s.Waited != tt.elapsed {
				t.Errorf("%s: %+v", name, s)
			}
			for _, h := range seen.held {
				if h.Err == nil {
					t.Errorf("%s: hooks heard of a wait: %+v", name, h)
				}
			}
			before.check(t)
		}
	})
}

// Marks and hints say of a guard's error what they say of op's. Policy.Classify is not asked.
func TestRefusalIsJudgedAsAnErrorOfOp(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		class retry.Class
		wait  time.Duration // 0: the run ends
	}{
		"unmarked":                  {err: errFull, class: retry.Unprocessed, wait: time.Second},
		"Undone":                    {err: retry.Undone(errFull), class: retry.Unprocessed, wait: time.Second},
		"not accepted":              {err: retry.ErrRejected, class: retry.Unprocessed, wait: time.Second},
		"of another run":            {err: &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{errDown, errDown}}, class: retry.Unprocessed, wait: time.Second},
		"After":                     {err: retry.After(errFull, 3*time.Second), class: retry.Throttled, wait: 8 * time.Second},
		"After nothing":             {err: retry.After(errFull, 0), class: retry.Throttled, wait: 5 * time.Second},
		"wrapped After":             {err: fmt.Errorf("open: %w", retry.After(errFull, 3*time.Second)), class: retry.Throttled, wait: 8 * time.Second},
		"method RetryAfter":         {err: hinted(3 * time.Second), class: retry.Unprocessed, wait: 4 * time.Second},
		"longest hint":              {err: retry.After(errFull, 5*time.Minute), class: retry.Throttled, wait: 5*time.Minute + 5*time.Second},
		"hint beyond MaxRetryAfter": {err: retry.After(errFull, 5*time.Minute+1), class: retry.Throttled},
		"Stop":                      {err: retry.Stop(errFull), class: retry.Permanent},
		"Refuse":                    {err: retry.Refuse(errFull), class: retry.Permanent},
		"Answer":                    {err: retry.Answer(errFull), class: retry.Permanent},
		"timed out":                 {err: context.DeadlineExceeded, class: retry.TimedOut, wait: time.Second},
		"a permanent error":         {err: sql.ErrNoRows, class: retry.Permanent},
	} {
		for door, run := range doors {
			for _, nonIdempotent := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "/", door, "/", nonIdempotent), func(t *testing.T) {
					p, v := virtual()
					p.ThrottleBackoff, p.NonIdempotent = retry.Constant(5*time.Second), nonIdempotent
					p.Classify = func(err error) retry.Class {
						t.Errorf("Classify gets %v", err)
						return retry.Permanent
					}
					p.MaxRetryAfter = 5 * time.Minute // without it Supervise waits longer
					budget := &loggedBudget{log: func(string, ...any) {}}
					p.Budget = budget
					seen := record(&p)
					g := guarded(&p, refuses(tt.err))
					err := run(t.Context(), p, works)
					bare := tt.err
					if errors.Is(bare, errFull) && !strings.HasPrefix(bare.Error(), "open") {
						bare = errFull
					}
					want := retry.Held{Name: "op", Number: 1, Guard: "retry_test.gate", Start: epoch, Delay: tt.wait, Err: bare, Class: tt.class}
					if len(seen.held) != 1 || !sameHeld(seen.held[0], want) {
						t.Errorf("hooks saw %+v, want %+v", seen.held, want)
					}
					if g.check(t); tt.wait > 0 {
						if err != nil || v.Now().Sub(epoch) != tt.wait {
							t.Errorf("%v after %v, want %v", err, v.Now().Sub(epoch), tt.wait)
						}
						if g.entries[1].Class != tt.class {
							t.Errorf("the latest error is %v to the guard, want %v", g.entries[1].Class, tt.class)
						}
						return
					}
					e := wantReason(t, err, retry.ReasonGuard)
					if e.Cause != bare || len(e.Errs) != 0 || e.Attempts != 0 || !e.Undone || e.Answered || e.Elapsed != 0 || e.Waited != 0 {
						t.Errorf("%+v", e)
					}
					if budget.outcome.OK || budget.ended != 1 || budget.asked != 0 || seen.summary.Answered {
						t.Errorf("the budget got %+v, and hooks %+v", budget.outcome, seen.summary)
					}
				})
			}
		}
	}
}

// sameHeld is ==, for errors that cannot be compared so.
func sameHeld(a, b retry.Held) bool {
	same := fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
	a.Err, b.Err = nil, nil
	return same && a == b
}

// All guards are asked again after the wait, not only the one that refused.
func TestAllGuardsAreAskedAfterARefusal(t *testing.T) {
	p, v := virtual()
	seen := record(&p)
	a := &gate{name: "a", log: seen.add, script: []enter{sleeps(time.Second)}}
	b := &gate{name: "b", log: seen.add, script: []enter{refuses(errFull), admits}}
	c := &gate{name: "c", log: seen.add, script: []enter{refuses(errFull)}}
	p.Guards = []retry.Guard{a, b, c}
	if err := retry.Run(t.Context(), p, works); err != nil {
		t.Fatal(err)
	}
	want := "start enter a guard(1s) enter b leave a not made guard(1s) enter a enter b enter c leave b not made leave a not made guard(2s)" +
		" enter a enter b enter c attempt(1) leave c returned leave b returned leave a returned attemptDone(1) done(none)"
	if got := seen.String(); got != want || v.Now().Sub(epoch) != 4*time.Second {
		t.Errorf("after %v\n%s, want\n%s", v.Now().Sub(epoch), got, want)
	}
}

func TestRefusalIsNoAttemptButATry(t *testing.T) {
	for door, run := range doors {
		p, _ := virtual()
		p.MaxAttempts = 5
		var steps []int
		p.Backoff = retry.BackoffFunc(func(s retry.Step) time.Duration {
			steps = append(steps, s.Retry)
			return time.Second
		})
		seen := record(&p)
		g := guarded(&p, refuses(errFull), admits, refuses(errFull), refuses(errFull), admits)
		var numbers []int
		err := run(t.Context(), p, func(ctx context.Context) error {
			numbers = append(numbers, retry.AttemptNumber(ctx))
			return errDown
		})
		e := wantReason(t, err, retry.ReasonMaxAttempts)
		if e.Attempts != 2 || !slices.Equal(e.Errs, []error{errDown, errDown}) || e.Cause != nil || e.Undone {
			t.Errorf("%s: %+v", door, e)
		}
		if !slices.Equal(numbers, []int{1, 2}) || !slices.Equal(steps, []int{1, 2, 3, 4}) {
			t.Errorf("%s: attempts %v, steps of the backoff %v", door, numbers, steps)
		}
		want := "start guard(1s) attempt(1) attemptDone(1) wait(1s) guard(1s) guard(1s) attempt(2) attemptDone(2) done(max_attempts)"
		if got := seen.String(); got != want {
			t.Errorf("%s: hooks saw\n%s, want\n%s", door, got, want)
		}
		var asked []int
		var classes []retry.Class
		for _, e := range g.entries {
			asked, classes = append(asked, e.Number), append(classes, e.Class)
		}
		if !slices.Equal(asked, []int{1, 1, 2, 2, 2}) ||
			!slices.Equal(classes, []retry.Class{retry.Unknown, retry.Unprocessed, retry.Transient, retry.Unprocessed, retry.Unprocessed}) {
			t.Errorf("%s: the guard was asked about attempts %v, after %v", door, asked, classes)
		}
		if seen.held[2].Number != 2 || seen.summary.Attempts != 2 {
			t.Errorf("%s: held %+v, summary %+v", door, seen.held, seen.summary)
		}
	}
}

// Nothing else keeps an unlimited run from spinning: no budget is asked.
func TestRefusalWaitsAtLeastAMillisecond(t *testing.T) {
	for err, want := range map[error]time.Duration{
		errFull:                                  time.Millisecond,
		retry.After(errFull, 0):                  time.Millisecond,
		retry.After(errFull, 2*time.Millisecond): 2 * time.Millisecond,
	} {
		for _, backoff := range []time.Duration{0, -1, 1} {
			p, v := virtual()
			p.Backoff = retry.Constant(backoff)
			p.Guards = []retry.Guard{&gate{script: []enter{refuses(err)}}}
			if e := retry.Run(t.Context(), p, works); e != nil || v.Now().Sub(epoch)/1000 != want/1000 {
				t.Errorf("%v, Constant(%v): %v after %v, want %v", err, backoff, e, v.Now().Sub(epoch), want)
			}
		}
	}
	p, v := virtual()
	p.Backoff, p.MaxAttempts = retry.Constant(0), 3
	seen := record(&p)
	_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
	if v.Now() != epoch || seen.summary.Attempts != 3 {
		t.Errorf("without a guard %v passed", v.Now().Sub(epoch))
	}
}

func TestRunThatEndsNextToARefusalEndsWithReasonGuard(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*retry.Policy)
		err   error
		after time.Duration // the refusal
	}{
		"MaxAttempts":   {func(p *retry.Policy) { p.MaxAttempts = 1 }, errFull, 0},
		"MaxElapsed":    {func(p *retry.Policy) { p.MaxElapsed = 3500 * time.Millisecond }, errFull, 0},
		"deadline":      {func(*retry.Policy) {}, errFull, 0},
		"passed":        {func(*retry.Policy) {}, errFull, 4 * time.Second},
		"Stop":          {func(*retry.Policy) {}, retry.Stop(errFull), 0},
		"Refuse":        {func(*retry.Policy) {}, retry.Refuse(errFull), 0},
		"MaxRetryAfter": {func(p *retry.Policy) { p.MaxRetryAfter = time.Second }, retry.After(errFull, time.Second+1), 0},
	} {
		for door, run := range doors {
			for attempts := range 3 {
				for opErr, outer := range map[error]retry.Class{errDown: retry.Transient, retry.Undone(errDown): retry.Unprocessed, context.DeadlineExceeded: retry.TimedOut} {
					t.Run(fmt.Sprint(name, "/", door, "/", attempts, "/", outer), func(t *testing.T) {
						p, v := virtual()
						p.Backoff = retry.Constant(time.Second)
						budget := &loggedBudget{log: func(string, ...any) {}}
						p.Budget = budget
						ctx := t.Context()
						if tt.edit(&p); p.MaxAttempts == 1 {
							p.MaxAttempts = attempts + 1
						}
						limit := time.Duration(attempts)*time.Second + time.Second/2
						if p.MaxElapsed > 0 {
							p.MaxElapsed = limit
						}
						if name == "deadline" || name == "passed" {
							ctx = limited(t, v, limit)
						}
						g := &gate{}
						for range attempts {
							g.script = append(g.script, admits)
						}
						g.script = append(g.script, takes(v, tt.after, refuses(tt.err)))
						p.Guards = []retry.Guard{g}
						seen := record(&p)
						err := run(ctx, p, func(context.Context) error { return opErr })
						g.check(t)
						if name == "passed" { // the context itself has ended
							wantReason(t, err, retry.ReasonDeadline)
							if len(seen.held) != 0 {
								t.Errorf("hooks heard %+v", seen.held)
							}
							return
						}
						e := wantReason(t, err, retry.ReasonGuard)
						if e.Cause != errFull || e.Attempts != attempts || len(e.Errs) != attempts || attempts > 0 && !errors.Is(e.Last(), unmarked(opErr)) {
							t.Errorf("%+v", e)
						}
						if e.Timeout() || e.InWait || errors.Is(e, context.Canceled) || !errors.Is(e, errFull) {
							t.Errorf("%v: timeout %v, in wait %v", e, e.Timeout(), e.InWait)
						}
						if opErr == errDown && errors.Is(e, context.DeadlineExceeded) {
							t.Errorf("%v is a deadline", e)
						}
						if attempts == 0 {
							outer = retry.Unprocessed
						}
						if c := retry.DefaultClassifier(fmt.Errorf("call: %w", err)); c != outer || e.Undone != (outer == retry.Unprocessed) {
							t.Errorf("undone: %v, and %v to an outer run, want %v", e.Undone, c, outer)
						}
						if final := retry.Final(err); final != (attempts > 1) {
							t.Errorf("final: %v after %d attempts", final, attempts)
						}
						if at := time.Duration(attempts) * time.Second; e.Elapsed != at || e.Waited != at || v.Now().Sub(epoch) != at {
							t.Errorf("elapsed %v, waited %v, want %v", e.Elapsed, e.Waited, at)
						}
						if budget.asked != attempts || budget.ended != 1 || budget.outcome.OK || budget.outcome.Retries != attempts {
							t.Errorf("%+v", budget)
						}
						if h := seen.held; len(h) != 1 || h[0].Delay != 0 || h[0].Err != errFull || seen.summary.Reason != retry.ReasonGuard {
							t.Errorf("hooks saw %+v, and %+v", h, seen.summary)
						}
						if e.ErrorType() != "retry.guard" || !strings.Contains(e.Error(), "(guard)") || !strings.Contains(e.Error(), "full") {
							t.Errorf("text %q, type %q", e, e.ErrorType())
						}
					})
				}
			}
		}
	}
}

// unsent reports whether x is of an attempt that was not made, because of a guard's err. A nil
// err stands for the end of the run.
func unsent(x retry.Exit, err error) bool {
	return x.Ending == retry.NotMade && errors.Is(x.Verdict.Err, err) && x == retry.Exit{Verdict: retry.Verdict{Err: x.Verdict.Err}, Clock: x.Clock}
}

// unmarked is what a mark marks.
func unmarked(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// Whatever Enter returns then: the caller's end is the reason.
func TestCallerThatLeavesInEnterIsTheReason(t *testing.T) {
	for name, step := range map[string]enter{
		"admits": admits, "waits": sleeps(time.Second), "asks again": asksAgain(time.Second),
		"refuses": refuses(errFull), "stops": refuses(retry.Stop(errFull)), "the context's error": refuses(context.Canceled),
	} {
		for door, run := range doors {
			for i := range 4 {
				attempts, hooks := i%2, i > 1
				p, v := virtual()
				ctx, cancel := context.WithCancelCause(t.Context())
				leaves := func(ctx context.Context, e retry.Entry) (retry.Pass, error) { cancel(errShutdown); return step(ctx, e) }
				g := &gate{}
				h := &gate{script: []enter{leaves}}
				if attempts == 1 {
					h.script = []enter{admits, leaves}
				}
				later := &gate{}
				p.Guards = []retry.Guard{g, h, later}
				seen := new(events)
				if hooks {
					seen = record(&p)
				}
				calls := 0
				e := wantReason(t, run(ctx, p, func(context.Context) error { calls++; return errDown }), retry.ReasonCanceled)
				at := time.Duration(attempts) * time.Second
				if e.Cause != errShutdown || e.Attempts != attempts || calls != attempts || !e.InWait || v.Now().Sub(epoch) != at || e.Elapsed != at ||
					len(seen.held) != 0 || hooks && len(seen.begun) != attempts {
					t.Errorf("%s, %s: %+v after %d calls, hooks saw %v", name, door, e, calls, seen)
				}
				for _, g := range []*gate{g, h, later} {
					g.check(t)
				}
			}
		}
	}
}

// A budget pays for what is sent.
func TestBudgetPaysForWhatIsSent(t *testing.T) {
	throttled := func() error { return retry.After(errFlaky, 0) }
	down := func() error { return errDown }
	rejected := func() error { return retry.ErrRejected }
	for name, tt := range map[string]struct {
		script  []enter
		errs    []func() error
		guard   func(*gate) retry.Guard
		asked   []retry.Class
		retried retry.Class
		unsent  int
		reason  retry.Reason
	}{
		"a refusal costs nothing":                    {script: []enter{refuses(errFull), refuses(retry.After(errFull, 0)), admits}},
		"a retry that is refused has paid once":      {script: []enter{admits, refuses(errFull), refuses(errFull), admits}, errs: []func() error{down}, asked: []retry.Class{retry.Transient}, retried: retry.Transient},
		"a retry that is refused for good is unsent": {script: []enter{admits, refuses(retry.Stop(errFull))}, errs: []func() error{down}, asked: []retry.Class{retry.Transient}, retried: retry.Transient, unsent: 1, reason: retry.ReasonGuard},
		"a throttled attempt pays":                   {errs: []func() error{throttled, down}, asked: []retry.Class{retry.Throttled, retry.Transient}, retried: retry.Transient},
		"not under a guard that paces":               {errs: []func() error{throttled, down}, guard: func(g *gate) retry.Guard { return pacing{g} }, asked: []retry.Class{retry.Transient}, retried: retry.Transient},
		"nor if its turn is refused":                 {script: []enter{admits, refuses(errFull)}, errs: []func() error{throttled}, guard: func(g *gate) retry.Guard { return pacing{g} }},
		"under one that says no":                     {errs: []func() error{throttled}, guard: func(g *gate) retry.Guard { return g }, asked: []retry.Class{retry.Throttled}, retried: retry.Throttled},
		"a poll pays nothing":                        {script: []enter{admits, refuses(errFull)}, errs: []func() error{rejected}},
		"a throttled refusal is no throttled op":     {script: []enter{refuses(retry.After(errFull, 0))}, errs: []func() error{down}, guard: func(g *gate) retry.Guard { return pacing{g} }, asked: []retry.Class{retry.Transient}, retried: retry.Transient},
	} {
		for door, run := range doors {
			p, _ := virtual()
			budget := &loggedBudget{log: func(string, ...any) {}}
			p.Budget = budget
			g := &gate{script: slices.Clone(tt.script)}
			p.Guards = []retry.Guard{nil, g}
			if tt.guard != nil {
				p.Guards[1] = tt.guard(g)
			}
			errs := tt.errs
			seen := record(&p)
			_ = run(t.Context(), p, func(context.Context) error {
				if len(errs) == 0 {
					return nil
				}
				err := errs[0]()
				errs = errs[1:]
				return err
			})
			var asked []retry.Class
			for i, w := range budget.withdrawals {
				if asked = append(asked, w.Class); w.Retry != i+1 {
					t.Errorf("%s, %s: withdrawal %d for retry %d", name, door, i+1, w.Retry)
				}
			}
			want := retry.Outcome{Name: "op", Retried: tt.retried, Retries: len(tt.asked), Sent: len(tt.asked) - tt.unsent, OK: tt.reason == retry.ReasonNone, Clock: p.Clock}
			if !slices.Equal(asked, tt.asked) || budget.outcome != want || budget.ended != 1 || seen.summary.Reason != tt.reason {
				t.Errorf("%s, %s: asked for %v, want %v; end %+v, want %+v; %v", name, door, asked, tt.asked, budget.outcome, want, seen)
			}
			g.check(t)
		}
	}
}

// pacing is a guard that limits the retries of throttled attempts.
type pacing struct {
	*gate
}

func (p pacing) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	pass, err := p.gate.Enter(ctx, e)
	pass.Paces = true
	return pass, err
}

// places are those of a limit.
type places chan struct{}

func (p places) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	select {
	case p <- struct{}{}:
		return retry.Pass{}, nil
	default:
		return retry.Pass{}, errFull
	}
}

func (p places) Leave(retry.Pass, retry.Exit) { <-p }

// The engine judges, and no guard. Policy.Classify is for the errors of op.
func TestErrorIsJudgedOnceWhateverTheGuards(t *testing.T) {
	p, _ := virtual()
	var judged []error
	p.Classify = func(err error) retry.Class { judged = append(judged, err); return retry.Unknown }
	_ = record(&p)
	p.Guards = []retry.Guard{&gate{}, new(pace.Pace), &gate{script: []enter{admits, refuses(errFull)}}}
	op, _ := failing(2, errDown)
	if _, err := retry.Do(t.Context(), p, op); err != nil || !slices.Equal(judged, []error{errDown, errDown}) {
		t.Errorf("%v, judged %v", err, judged)
	}
}

func TestNilGuardsAdmitAll(t *testing.T) {
	for name, guards := range map[string][]retry.Guard{
		"none":            {},
		"nil":             {nil, nil},
		"nil pace":        {(*pace.Pace)(nil)},
		"open pace":       {nil, new(pace.Pace), (*pace.Pace)(nil), nil},
		"around a guard":  {nil, (*pace.Pace)(nil), &gate{script: []enter{sleeps(time.Second), refuses(errFull), asksAgain(time.Second)}}, new(pace.Pace), nil},
		"behind two pace": {new(pace.Pace), (*pace.Pace)(nil), &gate{}},
	} {
		for door, run := range doors {
			p, _ := virtual()
			p.Guards = guards
			calls := 0
			err := run(t.Context(), p, func(context.Context) error {
				if calls++; calls == 1 {
					return errDown
				}
				return nil
			})
			if err != nil || calls != 2 {
				t.Errorf("%s, %s: %v after %d calls", name, door, err, calls)
			}
			for _, g := range guards {
				if g, ok := g.(*gate); ok {
					g.check(t)
				}
			}
		}
	}
}

func TestLoopAndPartIgnoreGuards(t *testing.T) {
	p, v := virtual()
	budget := &countingBudget{}
	g := &gate{}
	p.Guards, p.Budget = []retry.Guard{pacing{g}}, budget
	loop := p.Start(v.Now())
	if wait, ok := loop.Next(v.Now(), retry.After(errDown, 0)); !ok || wait != time.Second || budget.asked != 1 {
		t.Errorf("Next() = %v, %v; the budget was asked %d times", wait, ok, budget.asked)
	}
	loop.Close()
	p.RunPart(t.Context(), retry.Part{Op: func(context.Context) retry.Verdict { return p.Judge(retry.After(errDown, 0)) }})
	if len(g.entries)+len(g.exits) != 0 {
		t.Errorf("the guard saw %v, %v", g.entries, g.exits)
	}
}

// A process that restarts what it supervises asks the guards each time, and a new run counts
// its refusals from zero.
func TestSuperviseAsksGuardsAtEachRestart(t *testing.T) {
	for name, clock := range clocks {
		synctest.Test(t, func(t *testing.T) {
			p, _ := virtual()
			p.Clock, p.MaxAttempts = clock(), 5
			g := guarded(&p,
				sleeps(time.Second),
				refuses(errFull), refuses(errFull), asksAgain(3*time.Second), admits,
				refuses(errFull), admits,
			)
			seen := record(&p)
			start, lives := on(p).Now(), 0
			err := retry.Supervise(t.Context(), p, time.Minute, func(context.Context) error {
				switch lives++; lives {
				case 1, 3: // healthy
					_ = on(p).Sleep(t.Context(), time.Hour)
				case 4:
					return nil
				}
				return errDown
			})
			want := "start guard(1s) attempt(1) attemptDone(1) done(none)" +
				" start wait(1s) guard(1s) guard(2s) guard(3s) attempt(1) attemptDone(1) wait(4s) guard(8s) attempt(2) attemptDone(2) done(none)" +
				" start wait(1s) attempt(1) attemptDone(1) done(none)"
			if took := on(p).Now().Sub(start); err != nil || seen.String() != want || took != 21*time.Second+2*time.Hour {
				t.Errorf("%s: %v after %v, hooks saw\n%s, want\n%s", name, err, took, seen, want)
			}
			g.check(t)
		})
	}
}

// The time of a run that Supervise starts begins after the pause.
func TestPatienceAfterARestart(t *testing.T) {
	p, v := virtual()
	p.MaxElapsed = 2500 * time.Millisecond
	g := guarded(&p, admits, refuses(errFull), asksAgain(time.Second))
	lives := 0
	err := retry.Supervise(t.Context(), p, time.Minute, func(context.Context) error {
		if lives++; lives == 1 {
			v.Advance(time.Hour)
			return errDown
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []time.Duration
	for _, e := range g.entries {
		got = append(got, e.Patience)
	}
	if want := []time.Duration{2500 * time.Millisecond, 2500 * time.Millisecond, 1500 * time.Millisecond, 500 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("patience %v, want %v", got, want)
	}
	g.check(t)
}

// A name that a guard does not find may be there later: see Supervise.
func TestRefusalUnderSuperviseIsJudgedAsAnErrorOfOp(t *testing.T) {
	for door, ends := range map[string]bool{"Run": true, "Supervise": false} {
		p, _ := virtual()
		p.Guards = []retry.Guard{&gate{script: []enter{refuses(&net.DNSError{IsNotFound: true})}}}
		run := retry.Run
		if door == "Supervise" {
			run = func(ctx context.Context, p retry.Policy, op func(context.Context) error) error {
				return retry.Supervise(ctx, p, 1, op)
			}
		}
		if err := run(t.Context(), p, works); (err != nil) != ends {
			t.Errorf("%s: %v", door, err)
		}
	}
}

func TestTickerAsksGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := virtual()
		p.Clock, p.MaxAttempts = nil, 3
		g := guarded(&p, sleeps(time.Second), refuses(retry.After(errFull, 3*time.Second)), asksAgain(4*time.Second))
		var at []time.Duration
		start := time.Now()
		for range retry.NewTicker(t.Context(), p).C {
			at = append(at, time.Since(start))
		}
		if want := []time.Duration{time.Second, 11 * time.Second}; !slices.Equal(at, want) || len(g.entries) != 4 {
			t.Errorf("ticks at %v, want %v, the guard was asked %d times", at, want, len(g.entries))
		}
		for i, x := range g.exits {
			if x.Ending != retry.Returned || !errors.Is(x.Verdict.Err, retry.ErrRejected) || x.Verdict.Class != retry.Transient {
				t.Errorf("exit %d is %+v", i, x)
			}
		}
		g.check(t)
	})
}

func TestGuardHookGetsAllFacts(t *testing.T) {
	p, v := virtual()
	guarded(&p, takes(v, time.Second, sleeps(2*time.Second)), refuses(retry.After(errFull, 3*time.Second)), asksAgain(time.Second), asksAgain(time.Second), refuses(retry.Stop(errFull)))
	type run struct{}
	p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context { return context.WithValue(ctx, run{}, true) }
	p.Hooks.Guard = func(ctx context.Context, _ retry.Held) {
		if ctx.Value(run{}) != true {
			t.Error("not the run's context")
		}
	}
	seen := record(&p)
	wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { v.Advance(time.Second); return errDown }), retry.ReasonGuard)
	at := func(d time.Duration) (time.Time, time.Duration) { return epoch.Add(d), d }
	want := []retry.Held{
		{Name: "op", Number: 1, Guard: "retry_test.gate", Delay: 2 * time.Second},
		{Name: "op", Number: 2, Guard: "retry_test.gate", Delay: 5 * time.Second, Err: errFull, Class: retry.Throttled},
		{Name: "op", Number: 2, Guard: "retry_test.gate", Delay: time.Second},
		{Name: "op", Number: 2, Guard: "retry_test.gate", Err: errFull, Class: retry.Permanent},
	}
	want[0].Start, want[0].Elapsed = at(time.Second)
	want[1].Start, want[1].Elapsed = at(5 * time.Second)
	want[2].Start, want[2].Elapsed = at(10 * time.Second)
	want[3].Start, want[3].Elapsed = at(12 * time.Second)
	if !slices.Equal(seen.held, want) {
		t.Errorf("hooks saw\n%+v, want\n%+v", seen.held, want)
	}
	if got, want := seen.String(), "start guard(2s) attempt(1) attemptDone(1) wait(1s) guard(5s) guard(1s) guard(0s) done(guard)"; got != want {
		t.Errorf("events\n%s, want\n%s", got, want)
	}
}

// A run whose attempts nobody sees knows when it began all the same.
func TestGuardHookIsTheOnlyOneThatSeesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var seen []retry.Held
		p := retry.Policy{Guards: []retry.Guard{&gate{script: []enter{admits, sleeps(time.Minute)}}}, Backoff: retry.Constant(0)}
		p.Hooks.Guard = func(_ context.Context, h retry.Held) { seen = append(seen, h) }
		op := failFirst(errDown)
		err := retry.Run(t.Context(), p, func(ctx context.Context) error { time.Sleep(time.Second); return op(ctx) })
		if err != nil || len(seen) != 1 || !seen[0].Start.Equal(start.Add(time.Second)) || seen[0].Elapsed != time.Second {
			t.Errorf("%v; the hook saw %+v", err, seen)
		}
	})
}

// Each guard that has the attempt wait is told of.
func TestGuardHookForEachGuardThatWaits(t *testing.T) {
	p, _ := virtual()
	p.Guards = []retry.Guard{&gate{script: []enter{sleeps(time.Second)}}, pacing{&gate{script: []enter{sleeps(2 * time.Second)}}}, places(make(chan struct{}))}
	p.MaxAttempts = 1
	seen := record(&p)
	_ = retry.Run(t.Context(), p, works)
	var names []string
	for _, h := range seen.held {
		names = append(names, h.Guard)
	}
	if want := []string{"retry_test.gate", "retry_test.pacing", "retry_test.places"}; !slices.Equal(names, want) {
		t.Errorf("guards %v, want %v", names, want)
	}
}

func TestJoinedGuardHooks(t *testing.T) {
	for end, leave := range departures {
		for bad := range 4 { // the last one: none
			var trail []string
			hook := func(n int) retry.Hooks {
				return retry.Hooks{
					Guard: func(context.Context, retry.Held) {
						if trail = append(trail, fmt.Sprint("Guard", n+1)); n == bad {
							leave()
						}
					},
					Done: func(context.Context, retry.Summary) { trail = append(trail, fmt.Sprint("Done", n+1)) },
				}
			}
			for _, step := range []enter{sleeps(time.Second), refuses(errFull)} {
				trail = nil
				p, _ := virtual()
				g := guarded(&p, step)
				p.Hooks = retry.JoinHooks(hook(0), retry.Hooks{}, hook(1), hook(2))
				apart(func() {
					_ = retry.Run(t.Context(), p, works)
					if bad < 3 {
						t.Error("Run returned")
					}
				})
				if want := []string{"Guard1", "Guard2", "Guard3", "Done3", "Done2", "Done1"}; !slices.Equal(trail, want) {
					t.Errorf("%s in hook %d: called %v, want %v", end, bad+1, trail, want)
				}
				g.check(t)
			}
		}
	}
}

func TestSlogHooksLogWhatGuardsDo(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: `level=DEBUG msg="waiting for a guard" name=op attempt=1 guard=retry_test.gate delay=1s
level=DEBUG msg=attempt name=op attempt=1 duration=0s class=transient error=down delay=1s
level=DEBUG msg="waiting for a guard" name=op attempt=2 guard=retry_test.gate delay=1s
level=DEBUG msg=attempt name=op attempt=2 duration=0s class=transient error=down delay=2s
level=DEBUG msg="refused by a guard" name=op attempt=3 guard=retry_test.gate error=full delay=5s
level=DEBUG msg="refused by a guard" name=op attempt=3 guard=retry_test.gate error=full
level=WARN msg="gave up" name=op reason=guard attempts=2 elapsed=10s waited=10s error="op: gave up after 2 attempts in 10s (guard): down; cause: retry_test.gate: full"
`,
		slog.LevelInfo: `level=WARN msg="gave up" name=op reason=guard attempts=2 elapsed=10s waited=10s error="op: gave up after 2 attempts in 10s (guard): down; cause: retry_test.gate: full"
`,
	} {
		var out strings.Builder
		p, _ := virtual()
		guarded(&p, asksAgain(time.Second), admits, sleeps(time.Second), refuses(retry.After(errFull, time.Second)), refuses(retry.Stop(errFull)))
		p.Hooks = retry.SlogHooks(slog.New(timeless(&out, level)))
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
		if got := out.String(); got != want {
			t.Errorf("logged\n%s, want\n%s", got, want)
		}
	}
}

func TestLimitsOfAPolicyWithGuards(t *testing.T) {
	p := retry.Policy{AttemptTimeout: time.Second, Guards: []retry.Guard{nil}}
	if d := p.Longest(); d != math.MaxInt64 {
		t.Errorf("Longest() = %v", d)
	}
	p.MaxElapsed = time.Minute
	if d := p.Longest(); d != time.Minute+time.Second {
		t.Errorf("Longest() = %v", d)
	}
}

// A resumed run does not ask for its first attempt, and does not tell how it has ended. It asks
// for the others as always.
func TestResumedRunAsksNoGuardForItsFirstAttempt(t *testing.T) {
	for _, class := range []retry.Class{retry.Transient, retry.Throttled, retry.TimedOut, retry.Unprocessed} {
		g, numbers := new(gate), []int(nil)
		a := retry.Policy{Guards: []retry.Guard{nil, g}, Backoff: retry.Constant(0), Hooks: retry.Hooks{
			AttemptDone: func(_ context.Context, a retry.Attempt) { numbers = append(numbers, a.Number) },
		}}.Attempts(t.Context())
		for a.Resumed(); a.Next(); {
			if a.Number() < 3 {
				a.Judged(retry.Verdict{Err: errFlaky, Class: class})
			} else {
				a.Done(nil)
			}
		}
		if g.check(t); a.Err() != nil || !slices.Equal(numbers, []int{1, 2, 3}) {
			t.Errorf("%v: attempts %v, %v", class, numbers, a.Err())
		}
		if len(g.entries) != 2 || g.entries[0].Number != 2 || g.entries[0].Class != class || len(g.exits) != 2 || g.exits[0].Verdict.Class != class || g.exits[1].Verdict.Err != nil {
			t.Errorf("%v: entries %+v, exits %+v", class, g.entries, g.exits)
		}
	}
}

// Nor is a guard told if that attempt panics, or the run is given up in it.
func TestResumedRunThatEndsInItsFirstAttempt(t *testing.T) {
	for name, end := range map[string]func(a *retry.Attempts){
		"close":   func(a *retry.Attempts) { a.Close() },
		"success": func(a *retry.Attempts) { a.Done(nil) },
		"stop":    func(a *retry.Attempts) { a.Done(retry.Stop(errFlaky)) },
		"hold": func(a *retry.Attempts) {
			a.Hold()(retry.Exit{Ending: retry.Returned})
			a.Done(nil)
		},
		"cancel": func(a *retry.Attempts) {
			a.Done(errFlaky)
			a.Cancel(nil)
		},
	} {
		g := new(gate)
		a := retry.Policy{Guards: []retry.Guard{g}}.Attempts(t.Context())
		if a.Resumed(); !a.Next() {
			t.Fatal(name, ": no attempt")
		}
		end(a)
		if a.Close(); len(g.entries)+len(g.exits) != 0 {
			t.Errorf("%s: entries %+v, exits %+v", name, g.entries, g.exits)
		}
	}
}

// What an earlier run's guards have said of its budget says nothing about a resumed one.
func TestResumedRunForgetsTheGuardsOfOthers(t *testing.T) {
	for range 5 { // runs share some of their memory
		paced := retry.Policy{Guards: []retry.Guard{&gate{script: []enter{func(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{Paces: true}, nil }}}}}
		if err := retry.Run(t.Context(), paced, works); err != nil {
			t.Fatal(err)
		}
		grants := new(recorder)
		a := retry.Policy{Guards: []retry.Guard{new(gate)}, Budget: grants, Backoff: retry.Constant(0)}.Attempts(t.Context())
		a.Resumed()
		a.Next()
		a.Judged(retry.Verdict{Err: errFlaky, Class: retry.Throttled})
		if a.Close(); grants.withdrawals != 1 {
			t.Fatalf("%d withdrawals", grants.withdrawals)
		}
	}
}

type recorder struct{ withdrawals int }

func (r *recorder) Withdraw(retry.Withdrawal) bool { r.withdrawals++; return true }
func (r *recorder) End(retry.Outcome)              {}

// After a panic too, guards are left before the budget and the hooks hear of the end.
func TestOrderOfCallsAfterAPanic(t *testing.T) {
	var calls []string
	called := func(name string) { calls = append(calls, name) }
	p := retry.Policy{
		Guards: []retry.Guard{callback{leave: func(x retry.Exit) {
			if x.Ending == retry.Panicked {
				called("Guard.Leave")
			}
		}}},
		Budget: saysEnd{called},
		Hooks: retry.Hooks{
			AttemptDone: func(context.Context, retry.Attempt) { called("Hooks.AttemptDone") },
			Done:        func(context.Context, retry.Summary) { called("Hooks.Done") },
		},
	}
	caught(func() { _ = retry.Run(t.Context(), p, func(context.Context) error { panic("op") }) })
	if want := []string{"Guard.Leave", "Budget.End", "Hooks.AttemptDone", "Hooks.Done"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}

// callback is a guard that admits all.
type callback struct{ leave func(retry.Exit) }

func (callback) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (c callback) Leave(_ retry.Pass, x retry.Exit)                     { c.leave(x) }

// saysEnd is a budget that says when runs end.
type saysEnd struct{ called func(string) }

func (saysEnd) Withdraw(retry.Withdrawal) bool { return true }
func (e saysEnd) End(retry.Outcome)            { e.called("Budget.End") }

// An error of a run that a guard has ended says which.
func TestAnErrorNamesTheGuard(t *testing.T) {
	for name, tt := range map[string]struct {
		pass  retry.Pass
		err   error
		wants string
	}{
		"a refusal":   {retry.Pass{}, retry.Stop(errors.New("full")), "op: not attempted (guard): retry_test.answering: full"},
		"a long wait": {retry.Pass{Wait: time.Hour}, nil, "op: not attempted (guard): retry_test.answering: its turn would come in 1h0m0s, too late for this call"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		p := retry.Policy{Name: "op", Guards: []retry.Guard{nil, answering{}, answering{tt.pass, tt.err}}}
		err := retry.Run(ctx, p, func(context.Context) error { return nil })
		cancel()
		if e, ok := err.(*retry.Error); !ok || e.Guard != "retry_test.answering" || e.Error() != tt.wants {
			t.Errorf("%s: %v, want %s", name, err, tt.wants)
		}
	}
	if e := retry.Run(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return errDown }).(*retry.Error); e.Guard != "" {
		t.Errorf("without guards an error names %q", e.Guard)
	}
}

// answering is a guard that answers all with the same.
type answering struct {
	pass retry.Pass
	err  error
}

func (a answering) Enter(context.Context, retry.Entry) (retry.Pass, error) { return a.pass, a.err }
func (answering) Leave(retry.Pass, retry.Exit)                             {}

// A pass that replaces an earlier one takes its Paces away, too: then the budget pays for the retry.
func TestPacesOfAPassThatWasReplaced(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 2
	b := counting(&p)
	guarded(&p, func(context.Context, retry.Entry) (retry.Pass, error) {
		return retry.Pass{Wait: time.Second, Again: true, Paces: true}, nil
	}, admits)
	_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.After(errDown, 0) })
	if b.asked != 1 {
		t.Errorf("the budget was asked %d times, want once", b.asked)
	}
}

// A wake that has come counts, though MaxElapsed is over by the time somebody looks.
func TestAWakeThatHasComeIsTaken(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			p := retry.Policy{MaxElapsed: 10 * time.Second, MaxAttempts: 1}
			guarded(&p, wakesAfter(time.Second, retry.Pass{}))
			p.Hooks.Guard = func(_ context.Context, h retry.Held) {
				if h.Err == nil {
					time.Sleep(11 * time.Second)
				}
			}
			a := p.Attempts(t.Context())
			defer a.Close()
			if !a.Next() {
				t.Fatalf("the attempt was refused: %v", a.Err())
			}
			a.Done(nil)
		})
	}
}

// A hedge of a first attempt that was refused before knows its class.
func TestAHedgeOfAFirstAttemptKnowsItsClass(t *testing.T) {
	p, _ := virtual()
	g := guarded(&p, refuses(errFull))
	_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
		leave, err := p.Admit(ctx, retry.Entry{Hedge: true})
		if err == nil {
			leave(retry.Exit{})
		}
		return err
	})
	if n := len(g.entries); g.entries[n-1].Class != g.entries[n-2].Class {
		t.Errorf("the attempt's class is %v, its hedge's %v", g.entries[n-2].Class, g.entries[n-1].Class)
	}
}
