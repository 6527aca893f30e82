package retry_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
)

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

func TestAttemptsInTheWrongOrder(t *testing.T) {
	p, _ := virtual()
	a := p.Attempts(t.Context())
	if a.Number() != 0 || a.Context() != t.Context() || a.Delay() != 0 || a.Err() != nil {
		t.Error("an unbegun run shows something")
	}
	wantPanic(t, "retry: Done without Next", func() { a.Done(nil) })
	wantPanic(t, "retry: Done without Next", func() { a.Done(errDown) })
	a.Next()
	wantPanic(t, "retry: Next without Done", func() { a.Next() })
	wantPanic(t, "retry: a Verdict without Err", func() { a.Judged(retry.Verdict{Class: retry.Transient}) })
	if !a.Done(errDown) {
		t.Error("no retry follows")
	}
	wantPanic(t, "retry: Done without Next", func() { a.Done(errDown) })
	a.Next()
	a.Judged(retry.Verdict{})
	wantPanic(t, "retry: Done without Next", func() { a.Judged(retry.Verdict{}) })
	if a.Next() || a.Err() != nil || a.Number() != 2 {
		t.Error("the run did not end with its success")
	}
	var none context.Context
	wantPanic(t, "retry: nil context", func() { p.Attempts(none) })
	loop := p.Start(epoch)
	wantPanic(t, "retry: a Verdict without Err", func() { loop.Judged(epoch, retry.Verdict{Answered: true}) })
}

// What the caller does between Done and Next is a part of the wait.
func TestWaitIsCountedFromDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Backoff: retry.Constant(time.Second), MaxAttempts: 4}
		var waited time.Duration
		p.Hooks.Done = func(_ context.Context, s retry.Summary) { waited = s.Waited }
		a, start := p.Attempts(t.Context()), time.Now()
		defer a.Close()
		var at []time.Duration
		for a.Next() {
			at = append(at, time.Since(start))
			again := a.Done(errDown)
			if want := map[bool]time.Duration{true: time.Second}[again]; a.Delay() != want {
				t.Errorf("Delay() = %v, want %v", a.Delay(), want)
			}
			time.Sleep(time.Duration(a.Number()-1) * 700 * time.Millisecond)
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3400 * time.Millisecond}; !slices.Equal(at, want) || waited != want[3] {
			t.Errorf("attempts at %v, waited %v, want %v", at, waited, want)
		}
	})
}

// What was waited until the caller gave up counts, and a run that has not begun did nothing.
func TestCancelSaysWhatHasHappened(t *testing.T) {
	p, v := virtual()
	a := p.Attempts(t.Context())
	a.Next()
	a.Done(errDown)
	v.Advance(300 * time.Millisecond)
	a.Cancel(nil)
	if e := wantReason(t, a.Err(), retry.ReasonCanceled); e.Waited != 300*time.Millisecond || e.Elapsed != e.Waited || e.Undone {
		t.Errorf("between two attempts: %+v", e)
	}
	a = p.Attempts(t.Context())
	a.Cancel(nil)
	if e := wantReason(t, a.Err(), retry.ReasonCanceled); !e.InWait || !e.Undone || e.Waited != 0 {
		t.Errorf("before the first: %+v", e)
	}
}

func TestNextSleepsForTheShortestWait(t *testing.T) {
	p, v := virtual()
	p.Backoff = retry.Constant(1)
	a := p.Attempts(t.Context())
	defer a.Close()
	a.Next()
	a.Done(errDown)
	a.Next()
	wantElapsed(t, v, 1)
	if a.Judged(retry.Verdict{}) {
		t.Error("another attempt follows a success")
	}
}

// Each way to leave a run before its end has one meaning, leaves nothing behind, and
// calls each hook's counterpart once.
func TestLeavingAttempts(t *testing.T) {
	errShut := errors.New("shut")
	const upToWait = "start attempt(1) attemptDone(1) wait(1s) done("
	for name, tt := range map[string]struct {
		leave  func(*retry.Attempts)
		reason retry.Reason
		inWait bool
		cause  error
		hooks  string
	}{
		"before the first attempt":   {func(a *retry.Attempts) {}, retry.ReasonCanceled, true, context.Canceled, ""},
		"Cancel before it":           {func(a *retry.Attempts) { a.Cancel(errShut) }, retry.ReasonCanceled, true, errShut, ""},
		"Cancel before it, with nil": {func(a *retry.Attempts) { a.Cancel(nil) }, retry.ReasonCanceled, true, context.Canceled, ""},
		"two Cancels before it":      {func(a *retry.Attempts) { a.Cancel(errShut); a.Cancel(errDown) }, retry.ReasonCanceled, true, errShut, ""},
		"Next after a Cancel":        {func(a *retry.Attempts) { a.Cancel(errShut); a.Next() }, retry.ReasonCanceled, true, errShut, ""},
		"in an attempt":              {func(a *retry.Attempts) { a.Next() }, retry.ReasonPanic, false, nil, "start attempt(1) attemptDone(1) done(panic)"},
		"Cancel in an attempt":       {func(a *retry.Attempts) { a.Next(); a.Cancel(errShut) }, retry.ReasonPanic, false, nil, "start attempt(1) attemptDone(1) done(panic)"},
		"between two attempts":       {func(a *retry.Attempts) { a.Next(); a.Done(errDown) }, retry.ReasonCanceled, true, context.Canceled, upToWait + "canceled)"},
		"Cancel between two":         {func(a *retry.Attempts) { a.Next(); a.Done(errDown); a.Cancel(errShut) }, retry.ReasonCanceled, true, errShut, upToWait + "canceled)"},
		"Cancel without a cause":     {func(a *retry.Attempts) { a.Next(); a.Done(errDown); a.Cancel(nil) }, retry.ReasonCanceled, true, context.Canceled, upToWait + "canceled)"},
		"Cancel after the end":       {func(a *retry.Attempts) { a.Next(); a.Done(retry.Stop(errDown)); a.Cancel(errShut) }, retry.ReasonPermanent, false, nil, "start attempt(1) attemptDone(1) done(permanent)"},
		"after a success":            {func(a *retry.Attempts) { a.Next(); a.Done(nil) }, retry.ReasonNone, false, nil, "start attempt(1) attemptDone(1) done(none)"},
		"in the second attempt":      {func(a *retry.Attempts) { a.Next(); a.Done(errDown); a.Next() }, retry.ReasonPanic, false, nil, "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(panic)"},
		"between the second and 3rd": {func(a *retry.Attempts) { a.Next(); a.Done(errDown); a.Next(); a.Done(errDown) }, retry.ReasonCanceled, true, context.Canceled, "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) wait(2s) done(canceled)"},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := virtual()
			places := new(budgettest.Places)
			calls := &countingBudget{}
			p.AttemptTimeout = time.Hour
			log := record(&p)
			for _, p.Budget = range []retry.Budget{places, calls} {
				log.words = nil
				a := p.Attempts(t.Context())
				tt.leave(a)
				a.Close()
				a.Close()
				e, _ := a.Err().(*retry.Error)
				if e == nil && tt.reason != retry.ReasonNone || e != nil && (e.Reason != tt.reason || e.InWait != tt.inWait || tt.cause != nil && e.Cause != tt.cause) {
					t.Errorf("Err() = %#v", e)
				}
				if got := log.String(); got != tt.hooks {
					t.Errorf("hooks saw %s, want %s", got, tt.hooks)
				}
				if a.Next() || v.Pending() != 0 {
					t.Error("the run is not over")
				}
			}
			if begun := strings.Contains(tt.hooks, "attempt(1)"); calls.ended > 1 || begun && calls.ended != 1 || places.Balance() != 1 {
				t.Errorf("%d calls of End", calls.ended)
			}
		})
	}
}

func TestPanicAndGoexitEndAttempts(t *testing.T) {
	for name, leave := range departures {
		p, v := virtual()
		p.AttemptTimeout = time.Hour
		log := record(&p)
		apart(func() {
			a := p.Attempts(t.Context())
			defer a.Close()
			for a.Next() {
				if a.Number() == 2 {
					leave()
				}
				a.Done(errDown)
			}
		})
		if s := log.summary; s.Reason != retry.ReasonPanic || s.Attempts != 2 || v.Pending() != 0 {
			t.Errorf("%s: the run ended with %+v", name, s)
		}
	}
}

// A panic of a hook or the clock passes through the method that called it. Close makes
// the calls that are owed.
func TestPanicOutsideOfAnAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*retry.Policy)
		hooks string
	}{
		"Start": {func(p *retry.Policy) {
			p.Hooks.Start = func(context.Context, retry.Policy) context.Context { panic("boom") }
		}, "start done(panic)"},
		"Attempt": {func(p *retry.Policy) {
			p.Hooks.Attempt = func(context.Context, retry.Attempt) context.Context { panic("boom") }
		}, "start attempt(1) attemptDone(1) done(panic)"},
		"AttemptDone": {func(p *retry.Policy) { p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { panic("boom") } }, "start attempt(1) attemptDone(1) done(panic)"},
		"Wait":        {func(p *retry.Policy) { p.Hooks.Wait = func(context.Context, retry.Attempt) { panic("boom") } }, "start attempt(1) attemptDone(1) wait(1s) done(panic)"},
		"Backoff": {func(p *retry.Policy) {
			p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { panic("boom") })
		}, "start attempt(1) attemptDone(1) done(panic)"},
		"Classify": {func(p *retry.Policy) { p.Classify = func(error) retry.Class { panic("boom") } }, "start attempt(1) attemptDone(1) done(panic)"},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := virtual()
			p.AttemptTimeout = time.Hour
			places := new(budgettest.Places)
			p.Budget = places
			tt.edit(&p)
			log := record(&p)
			a := p.Attempts(t.Context())
			wantPanic(t, "boom", func() {
				defer a.Close()
				for a.Next() {
					a.Done(errDown)
				}
			})
			if log.summary.Reason != retry.ReasonPanic || a.Next() || v.Pending() != 0 || places.Balance() != 1 {
				t.Errorf("%s; the run ended with %+v", log, log.summary)
			}
			if got := log.String(); got != tt.hooks {
				t.Errorf("hooks saw %s, want %s", got, tt.hooks)
			}
		})
	}
}

// A caller may recover the panic of a hook around each attempt. No attempt follows, least
// of all after a success.
func TestNoAttemptFollowsAPanic(t *testing.T) {
	breaks := func(context.Context, retry.Attempt) { panic("boom") }
	for name, tt := range map[string]struct {
		err    error
		edit   func(*retry.Hooks)
		reason retry.Reason
		hooks  string
	}{
		"AttemptDone after a success": {nil, func(h *retry.Hooks) { h.AttemptDone = breaks }, retry.ReasonNone, "start attempt(1) attemptDone(1) done(none)"},
		"AttemptDone at the end":      {retry.Stop(errDown), func(h *retry.Hooks) { h.AttemptDone = breaks }, retry.ReasonPermanent, "start attempt(1) attemptDone(1) done(permanent)"},
		"AttemptDone before a retry":  {errDown, func(h *retry.Hooks) { h.AttemptDone = breaks }, retry.ReasonPanic, "start attempt(1) attemptDone(1) done(panic)"},
		"Wait":                        {errDown, func(h *retry.Hooks) { h.Wait = breaks }, retry.ReasonPanic, "start attempt(1) attemptDone(1) wait(1s) done(panic)"},
		"Done":                        {nil, func(h *retry.Hooks) { h.Done = func(context.Context, retry.Summary) { panic("boom") } }, retry.ReasonNone, "start attempt(1) attemptDone(1) done(none)"},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := virtual()
			places := new(budgettest.Places)
			p.Budget = places
			tt.edit(&p.Hooks)
			log := record(&p)
			a := p.Attempts(t.Context())
			for a.Next() {
				wantPanic(t, "boom", func() { a.Done(tt.err) })
			}
			if got := log.String(); got != tt.hooks || log.summary.Reason != tt.reason || v.Pending() != 0 || places.Balance() != 1 {
				t.Errorf("hooks saw %s, want %s", got, tt.hooks)
			}
			if e, _ := a.Err().(*retry.Error); (e == nil) != (tt.reason == retry.ReasonNone) || e != nil && e.Reason != tt.reason {
				t.Errorf("Err() = %v, want %v", e, tt.reason)
			}
		})
	}
}

// The caller's verdict decides, within the policy's limits.
func TestJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict retry.Verdict
		policy  retry.Policy
		reason  retry.Reason // ReasonNone: another attempt follows
		class   retry.Class
		delay   time.Duration
	}{
		"no class":                {retry.Verdict{Err: errDown}, retry.Policy{}, retry.ReasonNone, retry.Transient, time.Second},
		"a class that is none":    {retry.Verdict{Err: errDown, Class: 99}, retry.Policy{}, retry.ReasonNone, retry.Transient, time.Second},
		"a mark does not count":   {retry.Verdict{Err: retry.Stop(errDown), Class: retry.Throttled}, retry.Policy{}, retry.ReasonNone, retry.Throttled, time.Second},
		"permanent":               {retry.Verdict{Err: errDown, Class: retry.Permanent}, retry.Policy{}, retry.ReasonPermanent, retry.Permanent, 0},
		"an end of its own":       {retry.Verdict{Err: errDown, Undone: true, End: retry.ReasonMaxAttempts}, retry.Policy{}, retry.ReasonMaxAttempts, retry.Transient, 0},
		"refused":                 {retry.Verdict{Err: errDown, Refused: true}, retry.Policy{}, retry.ReasonRefused, retry.Transient, 0},
		"not twice":               {retry.Verdict{Err: errDown, Once: true}, retry.Policy{}, retry.ReasonNotIdempotent, retry.Transient, 0},
		"not twice, with proof":   {retry.Verdict{Err: errDown, Once: true, Undone: true}, retry.Policy{}, retry.ReasonNone, retry.Transient, time.Second},
		"a hint":                  {retry.Verdict{Err: errDown, Hint: time.Minute}, retry.Policy{}, retry.ReasonNone, retry.Transient, time.Minute + time.Second},
		"a negative hint":         {retry.Verdict{Err: errDown, Hint: math.MinInt64}, retry.Policy{}, retry.ReasonNone, retry.Transient, time.Second},
		"too long a hint":         {retry.Verdict{Err: errDown, Hint: time.Hour}, retry.Policy{}, retry.ReasonRetryAfter, retry.Transient, 0},
		"no proof":                {retry.Verdict{Err: errDown, Class: retry.Unprocessed}, retry.Policy{NonIdempotent: true}, retry.ReasonNotIdempotent, retry.Unprocessed, 0},
		"proof":                   {retry.Verdict{Err: errDown, Undone: true}, retry.Policy{NonIdempotent: true}, retry.ReasonNone, retry.Transient, time.Second},
		"the last attempt":        {retry.Verdict{Err: errDown}, retry.Policy{MaxAttempts: 1}, retry.ReasonMaxAttempts, retry.Transient, 0},
		"an empty budget":         {retry.Verdict{Err: errDown}, retry.Policy{Budget: &countingBudget{refuse: true}}, retry.ReasonBudget, retry.Transient, time.Second},
		"an answer costs nothing": {retry.Verdict{Err: errDown, Answered: true}, retry.Policy{Budget: &countingBudget{refuse: true}}, retry.ReasonNone, retry.Transient, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := virtual()
			p.MaxAttempts, p.NonIdempotent, p.Budget = tt.policy.MaxAttempts, tt.policy.NonIdempotent, tt.policy.Budget
			p.Classify = func(error) retry.Class { t.Error("Classify was called"); return retry.Unknown }
			log := record(&p)
			a := p.Attempts(t.Context())
			defer a.Close()
			a.Next()
			again := a.Judged(tt.verdict)
			if again != (tt.reason == retry.ReasonNone) || a.Delay() != tt.delay || log.attempts[0].Class != tt.class || log.attempts[0].Err != errDown {
				t.Errorf("Judged = %v, Delay %v, hooks saw %+v", again, a.Delay(), log.attempts[0])
			}
			if !again {
				wantReason(t, a.Err(), tt.reason)
			}
			loop := p.Start(v.Now())
			if wait, ok := loop.Judged(v.Now(), tt.verdict); ok != again || wait != tt.delay {
				t.Errorf("Loop.Judged = %v, %v, want %v, %v", wait, ok, tt.delay, again)
			}
		})
	}
}

// An outer run may start over only if nothing was done in any attempt.
func TestErrorUndone(t *testing.T) {
	undone := retry.Verdict{Err: errDown, Undone: true}
	partial := undone
	partial.Partial = true
	for name, tt := range map[string]struct {
		verdicts []retry.Verdict
		want     bool
	}{
		"all":         {[]retry.Verdict{undone, undone}, true},
		"the first":   {[]retry.Verdict{undone, {Err: errDown}}, false},
		"the last":    {[]retry.Verdict{{Err: errDown}, undone}, false},
		"but in part": {[]retry.Verdict{partial, undone}, false},
	} {
		p, v := virtual()
		p.MaxAttempts = len(tt.verdicts)
		a, loop := p.Attempts(t.Context()), p.Start(v.Now())
		for _, verdict := range tt.verdicts {
			a.Next()
			a.Judged(verdict)
			loop.Judged(v.Now(), verdict)
		}
		for _, err := range []error{a.Err(), loop.Err()} {
			if got := wantReason(t, err, retry.ReasonMaxAttempts).Undone; got != tt.want {
				t.Errorf("%s: Undone = %v, want %v", name, got, tt.want)
			}
		}
	}
	resumed := retry.Policy{MaxAttempts: 2}.Resume(epoch, 1, 0)
	resumed.Judged(epoch, undone)
	if wantReason(t, resumed.Err(), retry.ReasonMaxAttempts).Undone {
		t.Error("nobody knows what was done in the attempt before Resume")
	}
}

// Nobody judges an attempt once the caller has left, nor one that does not come to Done.
func TestErrorUndoneOfAnAttemptThatNobodyJudged(t *testing.T) {
	undone := retry.Verdict{Err: errDown, Undone: true}
	for name, tt := range map[string]struct {
		end  func(a *retry.Attempts, cancel func())
		want bool
	}{
		"canceled":                       {func(a *retry.Attempts, cancel func()) { cancel(); a.Done(retry.Undone(errDown)) }, false},
		"canceled, but its caller knows": {func(a *retry.Attempts, cancel func()) { cancel(); a.Judged(undone) }, true},
		"closed":                         {func(a *retry.Attempts, _ func()) { a.Close() }, false},
	} {
		p, _ := virtual()
		ctx, cancel := context.WithCancel(t.Context())
		a := p.Attempts(ctx)
		a.Next()
		a.Judged(undone)
		a.Next()
		tt.end(a, cancel)
		cancel()
		if got := gaveUp(t, a.Err()).Undone; got != tt.want {
			t.Errorf("%s: Undone = %v, want %v", name, got, tt.want)
		}
	}
}

// With Untimed an attempt's context outlives Done.
func TestUntimed(t *testing.T) {
	p, v := virtual()
	p.AttemptTimeout = time.Second
	for _, untimed := range []bool{false, true} {
		a := p.Attempts(t.Context())
		if untimed {
			a.Untimed()
		}
		a.Next()
		ctx := a.Context()
		if _, ok := ctx.Deadline(); ok == untimed {
			t.Errorf("untimed %v: a deadline: %v", untimed, ok)
		}
		a.Done(nil)
		v.Advance(time.Minute)
		if ended := ctx.Err() != nil; ended == untimed {
			t.Errorf("untimed %v: the context has ended: %v", untimed, ended)
		}
	}
}

func TestContextsOfAttempts(t *testing.T) {
	type key struct{}
	p, _ := virtual()
	p.Hooks.Start = func(ctx context.Context, p retry.Policy) context.Context { return context.WithValue(ctx, key{}, "run") }
	p.Hooks.Attempt = func(ctx context.Context, a retry.Attempt) context.Context {
		return context.WithValue(ctx, key{}, a.Number)
	}
	a := p.Attempts(t.Context())
	defer a.Close()
	if a.RunContext() != t.Context() {
		t.Error("RunContext before the run is not the caller's")
	}
	for want := 1; want <= 2; want++ {
		a.Next()
		if a.RunContext().Value(key{}) != "run" || a.Context().Value(key{}) != want || retry.AttemptNumber(a.Context()) != want {
			t.Errorf("attempt %d has %v in %v", want, a.Context().Value(key{}), a.RunContext().Value(key{}))
		}
		a.Done(errDown)
	}
}

// A Loop that is abandoned gives back its place.
func TestCloseOfALoop(t *testing.T) {
	places, calls := new(budgettest.Places), &countingBudget{}
	for _, budget := range []retry.Budget{places, calls} {
		loop := retry.Policy{Budget: budget}.Start(epoch)
		loop.Next(epoch, errDown)
		loop.Close()
		loop.Close()
		if wait, ok := loop.Next(epoch, errDown); wait != 0 || ok || loop.Err() != nil {
			t.Errorf("after Close: %v, %v, %v", wait, ok, loop.Err())
		}
	}
	if places.Balance() != 1 || calls.ended != 1 {
		t.Errorf("balance %v, %d calls of End", places.Balance(), calls.ended)
	}
}

// What is planned can be seen although the budget refused it: a queue delivers later.
func TestPlannedWaitAfterTheBudgetsRefusal(t *testing.T) {
	p, v := virtual()
	p.Budget = &countingBudget{refuse: true}
	loop := p.Start(v.Now())
	if wait, ok := loop.Next(v.Now(), retry.After(errDown, time.Minute)); wait != time.Minute+time.Second || ok {
		t.Errorf("Next = %v, %v", wait, ok)
	}
	if wait, _ := loop.Next(v.Now(), errDown); wait != 0 {
		t.Errorf("Next after the end = %v", wait)
	}
}

// An end that the caller gives is none of the budget: no attempt would have come.
func TestNoPlannedWaitAfterAnEndThatIsGiven(t *testing.T) {
	p, _ := virtual()
	a := p.Attempts(t.Context())
	defer a.Close()
	a.Next()
	a.Done(errDown)
	if a.Delay() != time.Second {
		t.Errorf("Delay = %v, want 1s", a.Delay())
	}
	a.Next()
	if a.Judged(retry.Verdict{Err: errDown, End: retry.ReasonBudget}); a.Delay() != 0 {
		t.Errorf("Delay = %v after an end that was given", a.Delay())
	}
}

func TestCloseEndsTheRunThoughTheClockPanics(t *testing.T) {
	p, v := virtual()
	panics, dones := false, 0
	p.Clock = breaksOnce(v, &panics)
	budget := new(budgettest.Places)
	p.Budget = budget
	p.Hooks = retry.Hooks{Done: func(context.Context, retry.Summary) { dones++ }}
	a := p.Attempts(t.Context())
	if !a.Next() || !a.Done(errDown) {
		t.Fatal("no retry follows")
	}
	panics = true
	wantPanic(t, "boom", a.Close)
	if dones != 1 || budget.Balance() != 1 {
		t.Errorf("Done was called %d times, and the budget's balance is %v; want once, and 1", dones, budget.Balance())
	}
}

// A run that ends in Hooks.Attempt makes no attempt.
func TestAttemptsCanceledInAHookHaveTheNumberOfTheLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := retry.Policy{Backoff: retry.Constant(0), Hooks: retry.Hooks{Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
		if a.Number == 2 {
			cancel()
		}
		return ctx
	}}}
	a := p.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		a.Done(errDown)
	}
	if e, ok := errors.AsType[*retry.Error](a.Err()); a.Number() != 1 || !ok || e.Attempts != 1 {
		t.Errorf("Number() = %d after %v, want 1", a.Number(), a.Err())
	}
}

// A panic in Hooks.Start that was recovered ends the run before it has begun.
func TestNoAttemptFollowsAPanicInStart(t *testing.T) {
	starts := 0
	p := retry.Policy{Hooks: retry.Hooks{Start: func(ctx context.Context, _ retry.Policy) context.Context {
		if starts++; starts == 1 {
			panic("start")
		}
		return ctx
	}}}
	a := p.Attempts(t.Context())
	func() {
		defer func() { _ = recover() }()
		a.Next()
	}()
	if a.Next() || starts != 1 {
		t.Errorf("Next announced an attempt, and Hooks.Start was called %d times", starts)
	}
}

// badTimeout is a clock whose WithTimeoutCause panics once.
type badTimeout struct {
	clockx.Clock
	panicked *bool
}

func (b badTimeout) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	if !*b.panicked {
		*b.panicked = true
		panic("boom")
	}
	return b.Clock.WithTimeoutCause(ctx, d, cause)
}

// inFunc has f called in one of the funcs of the policy.
var inFunc = map[string]func(p *retry.Policy, f func()){
	"Start": func(p *retry.Policy, f func()) {
		p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context { f(); return ctx }
	},
	"Attempt": func(p *retry.Policy, f func()) {
		p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { f(); return ctx }
	},
	"AttemptDone": func(p *retry.Policy, f func()) { p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { f() } },
	"Wait":        func(p *retry.Policy, f func()) { p.Hooks.Wait = func(context.Context, retry.Attempt) { f() } },
	"Classify":    func(p *retry.Policy, f func()) { p.Classify = func(error) retry.Class { f(); return retry.Unknown } },
	"Backoff": func(p *retry.Policy, f func()) {
		p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { f(); return time.Second })
	},
	"Leave": func(p *retry.Policy, f func()) { guarded(p).onLeave = f },
	"Enter": func(p *retry.Policy, f func()) {
		guarded(p, func(context.Context, retry.Entry) (retry.Pass, error) { f(); return retry.Pass{}, nil })
	},
	"Sleep": func(p *retry.Policy, f func()) { p.Clock = sleepsWith{p.Clock, f} },
}

// sleepsWith is a clock whose Sleep calls f.
type sleepsWith struct {
	clockx.Clock
	f func()
}

func (s sleepsWith) Sleep(ctx context.Context, d time.Duration) error {
	s.f()
	return s.Clock.Sleep(ctx, d)
}

// Whoever recovers a panic of a func of the policy has a run that is over: no attempt follows, none
// can come to Done, and nothing is owed.
func TestAPanicInAFuncOfThePolicyEndsTheRun(t *testing.T) {
	check := func(t *testing.T, p retry.Policy) {
		log := record(&p)
		budget := counting(&p)
		a := p.Attempts(t.Context())
		made := 0
		got := caught(func() {
			for a.Next() {
				made++
				a.Done(errDown)
			}
		})
		hooks, ended := log.String(), budget.ended
		if got != "boom" || a.Next() || caught(func() { a.Done(errDown) }) == nil {
			t.Errorf("after the panic %v Next announced an attempt, or Done took one", got)
		}
		if a.Close(); log.String() != hooks || budget.ended != ended || ended > 1 {
			t.Errorf("hooks saw %s, and then %s; Budget.End came %d times, and then %d", hooks, log, ended, budget.ended)
		}
		if e := gaveUp(t, a.Err()); e.Attempts != made {
			t.Errorf("the error says %d attempts, want %d", e.Attempts, made)
		}
	}
	for name, in := range inFunc {
		t.Run(name, func(t *testing.T) {
			p, _ := virtual()
			panicked := false
			in(&p, func() {
				if !panicked {
					panicked = true
					panic("boom")
				}
			})
			check(t, p)
		})
	}
	t.Run("WithTimeoutCause", func(t *testing.T) {
		p, v := virtual()
		p.Clock, p.AttemptTimeout = badTimeout{v, new(bool)}, time.Second
		g := guarded(&p)
		check(t, p)
		if len(g.exits) != 1 || g.exits[0].Ending != retry.NotMade {
			t.Errorf("the guard got %+v, want one attempt that was not made", g.exits)
		}
	})
}

// A func of the policy cannot end the run that calls it, nor go on with it. What it is owed comes once.
func TestAttemptsAreNotForFuncsOfTheirPolicy(t *testing.T) {
	for method, call := range map[string]func(*retry.Attempts){
		"Close": (*retry.Attempts).Close,
		"Next":  func(a *retry.Attempts) { a.Next() },
		"Done":  func(a *retry.Attempts) { a.Done(errDown) },
	} {
		for name, in := range inFunc {
			t.Run(method+" in "+name, func(t *testing.T) {
				p, _ := virtual()
				var a *retry.Attempts
				in(&p, func() { call(a) })
				log := record(&p)
				budget := counting(&p)
				dones := 0
				done := p.Hooks.Done
				p.Hooks.Done = func(ctx context.Context, s retry.Summary) { dones++; done(ctx, s) }
				a = p.Attempts(t.Context())
				got := caught(func() {
					defer a.Close()
					for a.Next() {
						a.Done(errDown)
					}
				})
				if text, _ := got.(string); !strings.HasPrefix(text, "retry: ") {
					t.Errorf("out comes %v, want a panic that refuses the call", got)
				}
				if dones > 1 || budget.ended > 1 || name != "Start" && (dones != 1 || log.summary.Reason != retry.ReasonPanic) {
					t.Errorf("Hooks.Done was called %d times, Budget.End %d times, after %s", dones, budget.ended, log)
				}
			})
		}
	}
}

// Cancel in a func of the policy does nothing: an attempt is underway, or the end of one.
func TestCancelInAFuncOfThePolicy(t *testing.T) {
	for name, in := range inFunc {
		p, _ := virtual()
		p.MaxAttempts = 2
		var a *retry.Attempts
		in(&p, func() { a.Cancel(errFull) })
		a = p.Attempts(t.Context())
		for a.Next() {
			a.Done(errDown)
		}
		if e := wantReason(t, a.Err(), retry.ReasonMaxAttempts); e.Attempts != 2 {
			t.Errorf("in %s: %v", name, e)
		}
	}
}

// Every door calls the clock for a wait of nothing, and receives a Wake that is there.
func TestDoorsAgreeWithoutAWait(t *testing.T) {
	for name, door := range doors {
		if name == "Supervise" {
			continue
		}
		p, v := virtual()
		p.Backoff, p.Clock = retry.Constant(0), sleepless{v, errFull}
		calls := 0
		_ = door(t.Context(), p, func(context.Context) error { calls++; return errDown })
		if calls != 1 {
			t.Errorf("%s: %d calls on a clock that cannot sleep, want 1", name, calls)
		}
		for _, clock := range []string{"none", "virtual"} {
			p, _ := virtual()
			p.Clock = clocks[clock]()
			wake := make(chan struct{}, 1)
			wake <- struct{}{}
			guarded(&p, func(context.Context, retry.Entry) (retry.Pass, error) {
				return retry.Pass{Wake: wake, Timed: true}, nil
			})
			if err := door(t.Context(), p, works); err != nil || len(wake) > 0 {
				t.Errorf("%s, clock %s: %v, and %d wakes were not received", name, clock, err, len(wake))
			}
		}
	}
}

// What panics after an attempt was judged does not change what that has done.
func TestErrorUndoneThoughAFuncOfThePolicyPanics(t *testing.T) {
	for _, name := range []string{"Leave", "Backoff", "AttemptDone", "Wait"} {
		for _, canceled := range []bool{false, true} {
			p, _ := virtual()
			inFunc[name](&p, func() { panic("boom") })
			ctx, cancel := context.WithCancel(t.Context())
			a := p.Attempts(ctx)
			a.Next()
			if canceled {
				cancel()
			}
			_ = caught(func() { a.Judged(retry.Verdict{Err: errDown, Undone: true}) })
			cancel()
			a.Close()
			if !gaveUp(t, a.Err()).Undone {
				t.Errorf("panic in %s, canceled %v: Undone is false", name, canceled)
			}
		}
	}
	p, _ := virtual()
	inFunc["Classify"](&p, func() { panic("boom") })
	a := p.Attempts(t.Context())
	a.Next()
	_ = caught(func() { a.Done(retry.Undone(errDown)) })
	if gaveUp(t, a.Err()).Undone {
		t.Error("panic in Classify: Undone, though nobody has judged the attempt")
	}
}

// A run whose clock panics at its begin is 0 old.
func TestAClockThatPanicsAtTheBegin(t *testing.T) {
	p, v := virtual()
	panics := true
	p.Clock = breaksOnce(v, &panics)
	log := record(&p)
	a := p.Attempts(t.Context())
	wantPanic(t, "boom", func() { a.Next() })
	if e := gaveUp(t, a.Err()); e.Elapsed != 0 || e.Waited != 0 || log.summary.Reason != retry.ReasonPanic {
		t.Errorf("%+v, want a run that took no time, and ended by a panic", *e)
	}
}

// Whatever its caller does with an Attempts, and whatever panics: each attempt that was announced ends
// once, and is counted once, each pass is given back, and the run is begun and ended once.
func TestAttemptsInAnyOrder(t *testing.T) {
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p, _ := virtual()
		p.MaxAttempts, p.AttemptTimeout = 4, time.Hour
		boom := func() {
			if rng.IntN(25) == 0 {
				panic("boom")
			}
		}
		for _, name := range []string{"AttemptDone", "Wait", "Classify", "Backoff", "Sleep"} {
			inFunc[name](&p, boom)
		}
		log := record(&p)
		g := guarded(&p)
		g.onLeave = boom
		budget := counting(&p)
		a := p.Attempts(t.Context())
		made := 0
		for range 20 {
			_ = caught(func() {
				switch rng.IntN(12) {
				case 0:
					a.Cancel(errFull)
				case 1:
					if rng.IntN(4) == 0 {
						a.Close()
					}
				case 2, 3, 4, 5:
					if a.Next() {
						made++
					}
				default:
					a.Done(errDown)
				}
			})
		}
		_ = caught(a.Close)
		begun, ended, dones := strings.Count(log.String(), "attempt("), strings.Count(log.String(), "attemptDone("), strings.Count(log.String(), "done(")
		e, _ := errors.AsType[*retry.Error](a.Err())
		if e == nil || e.Attempts != made || begun != made || ended != made || dones > 1 || budget.ended > 1 || len(g.open) > 0 || len(g.wrong) > 0 {
			t.Fatalf("seed %d: %d attempts were made; %v, %s, Budget.End %d times; the guard has %v open, and %v", seed, made, e, log, budget.ended, g.open, g.wrong)
		}
	}
}
