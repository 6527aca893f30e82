package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
)

// life is what a supervised op does each time: how long it is up, and how it ends.
type life struct {
	up  time.Duration
	err error
}

// lives returns an op that lives them one after the other on clock, and then ends
// well, and the times at which it was called.
func lives(clock clockx.Clock, ls ...life) (op func(context.Context) error, at *[]time.Duration) {
	start := clock.Now()
	at = new([]time.Duration)
	return func(ctx context.Context) error {
		*at = append(*at, clock.Now().Sub(start))
		if len(ls) == 0 {
			return nil
		}
		l := ls[0]
		ls = ls[1:]
		if err := clock.Sleep(ctx, l.up); err != nil {
			return err
		}
		return l.err
	}, at
}

const minute = time.Minute

// The waits grow within a run: 1 s, 2 s, 4 s. A life of a minute ends it.
func TestSuperviseBeginsANewRunAfterAHealthyLife(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 0
	budget := &asked{}
	p.Budget = budget
	log := record(&p)
	var summaries []retry.Summary
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Done: func(_ context.Context, s retry.Summary) { summaries = append(summaries, s) }})
	op, at := lives(v, life{0, errDown}, life{10 * time.Second, errDown}, life{minute, errDown}, life{0, errDown})
	if err := retry.Supervise(t.Context(), p, 0, op); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{0, 1 * time.Second, 13 * time.Second, 74 * time.Second, 75 * time.Second}
	if !slices.Equal(*at, want) {
		t.Errorf("op was called at %v, want %v", *at, want)
	}
	const events = "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) wait(2s) attempt(3) attemptDone(3) done(none) " +
		"start wait(1s) attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(none)"
	if log.String() != events {
		t.Errorf("hooks saw %s, want %s", log, events)
	}
	if a := log.attempts[2]; a.Err != errDown || a.Class != retry.Transient || a.Delay != 0 || a.Duration != minute {
		t.Errorf("the healthy life is told as %+v, want its error and no wait", a)
	}
	if want := []retry.Summary{
		{Name: "op", Attempts: 3, Elapsed: 73 * time.Second, Waited: 3 * time.Second},
		{Name: "op", Attempts: 2, Elapsed: 2 * time.Second, Waited: 2 * time.Second},
	}; !slices.Equal(summaries, want) {
		t.Errorf("the runs came to %+v, want %+v", summaries, want)
	}
	if want := []string{"1 transient", "2 transient", "1 transient"}; !slices.Equal(budget.questions, want) {
		t.Errorf("the budget was asked %q, want %q: a pause between runs needs no permission", budget.questions, want)
	}
	if budget.ended != 2 || !budget.ok {
		t.Errorf("the budget saw %+v, want two runs that succeeded", budget.countingBudget)
	}
}

// A feed that breaks faster than healthy keeps backing off.
func TestSuperviseNeverSpins(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 6
	op, at := lives(v, slices.Repeat([]life{{minute - 1, errDown}}, 9)...)
	e := wantReason(t, retry.Supervise(t.Context(), p, minute, op), retry.ReasonMaxAttempts)
	if e.Waited != 31*time.Second || len(*at) != 6 {
		t.Errorf("%d calls with %v of waits, want 6 with 1+2+4+8+16 s", len(*at), e.Waited)
	}
}

func TestShortestHealthyLife(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 2
	op, at := lives(v, life{1, errDown}, life{1, errDown}, life{1, errDown}, life{0, errDown}, life{0, errDown})
	wantReason(t, retry.Supervise(t.Context(), p, 1, op), retry.ReasonMaxAttempts)
	if len(*at) != 5 {
		t.Errorf("%d calls, want 5: three lives of a nanosecond, and a run of two attempts", len(*at))
	}
}

func TestSuperviseHasNoLimitOnAttempts(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.Backoff = 0, retry.Constant(time.Second)
	var limit int
	p.Hooks.Start = func(ctx context.Context, p retry.Policy) context.Context {
		limit = p.MaxAttempts
		return ctx
	}
	op, at := lives(v, slices.Repeat([]life{{0, errDown}}, 1000)...)
	if err := retry.Supervise(t.Context(), p, 0, op); err != nil || len(*at) != 1001 {
		t.Errorf("%v after %d calls, want success after 1001", err, len(*at))
	}
	if limit != retry.Unlimited {
		t.Errorf("Hooks.Start got MaxAttempts %d, want Unlimited", limit)
	}
}

// The failure of a healthy life is judged as any other, but for the limits on
// attempts, elapsed time and the budget: those are of the run that has ended.
func TestWhatEndsSuperviseAfterAHealthyLife(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edit   func(*retry.Policy)
		err    error
		want   retry.Reason // ReasonNone: it goes on
		before time.Duration
	}{
		{"a mark", nil, retry.Stop(errDown), retry.ReasonPermanent, 0},
		{"a class", func(p *retry.Policy) { p.Classify = byClass }, classed(retry.Permanent), retry.ReasonPermanent, 0},
		{"not idempotent", func(p *retry.Policy) { p.NonIdempotent = true }, errDown, retry.ReasonNotIdempotent, 0},
		{"not idempotent, but undone", func(p *retry.Policy) { p.NonIdempotent = true }, retry.Undone(errDown), retry.ReasonNone, 0},
		{"a long hint", nil, retry.After(errDown, time.Hour), retry.ReasonNone, 0},
		{"a hint beyond MaxRetryAfter", func(p *retry.Policy) { p.MaxRetryAfter = time.Minute }, retry.After(errDown, time.Hour), retry.ReasonRetryAfter, 0},
		{"a pause that would pass the deadline", nil, errDown, retry.ReasonDeadline, minute + time.Second},
		{"a pause that ends before the deadline", nil, errDown, retry.ReasonNone, minute + time.Second + 1},
		{"one attempt", func(p *retry.Policy) { p.MaxAttempts = 1 }, errDown, retry.ReasonNone, 0},
		{"elapsed time", func(p *retry.Policy) { p.MaxElapsed = time.Second }, errDown, retry.ReasonNone, 0},
		{"an empty budget", func(p *retry.Policy) { p.Budget = &budget.Token{Capacity: -1} }, errDown, retry.ReasonNone, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, v := virtual()
			p.MaxAttempts = 0
			if tt.edit != nil {
				tt.edit(&p)
			}
			log := record(&p)
			op, at := lives(v, life{minute, tt.err})
			err := retry.Supervise(limited(t, v, tt.before), p, minute, op)
			if tt.want == retry.ReasonNone {
				if err != nil || len(*at) != 2 {
					t.Errorf("%v after %d calls, want a second life", err, len(*at))
				}
				return
			}
			e := wantReason(t, err, tt.want)
			if len(*at) != 1 || e.Attempts != 1 || log.summary.Reason != tt.want || log.summary.Err != error(e) {
				t.Errorf("%d calls, %+v, and Done saw %+v", len(*at), e, log.summary)
			}
		})
	}
}

// A deadline that Hooks.Start gave the run before does not count for the pause, which
// is the next run's.
func TestPauseOfSuperviseHeedsTheCallersDeadlineAlone(t *testing.T) {
	p, v := virtual()
	limit := minute + time.Second/2
	p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context {
		ctx, cancel := v.WithTimeoutCause(ctx, limit, nil)
		t.Cleanup(cancel)
		limit += time.Second // the pause
		return ctx
	}
	op, at := lives(v, life{minute, errDown}, life{minute, errDown})
	if err := retry.Supervise(t.Context(), p, minute, op); err != nil || len(*at) != 3 {
		t.Errorf("%v after %d calls, want success after 3", err, len(*at))
	}
}

func TestPauseOfSuperviseIsHintAndFirstWait(t *testing.T) {
	p, v := virtual()
	op, at := lives(v, life{0, errDown}, life{0, errDown}, life{minute, retry.After(errDown, 10*time.Second)})
	if err := retry.Supervise(t.Context(), p, minute, op); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{0, time.Second, 3 * time.Second, 74 * time.Second}; !slices.Equal(*at, want) {
		t.Errorf("op was called at %v, want %v", *at, want)
	}
}

// A backoff is asked for the pause as for the wait after a first attempt.
func TestPauseOfSuperviseIsAFirstWait(t *testing.T) {
	p, v := virtual()
	var steps []retry.Step
	p.Backoff = retry.BackoffFunc(func(s retry.Step) time.Duration {
		steps = append(steps, retry.Step{Retry: s.Retry, Prev: s.Prev})
		return time.Second
	})
	op, _ := lives(v, life{0, errDown}, life{minute, errDown}, life{0, errDown})
	if err := retry.Supervise(t.Context(), p, minute, op); err != nil {
		t.Fatal(err)
	}
	if want := []retry.Step{{Retry: 1}, {Retry: 1}, {Retry: 1}}; !slices.Equal(steps, want) {
		t.Errorf("asked with %v, want %v", steps, want)
	}
}

// The run that began with the pause is reported, with the error that led to it.
func TestCancelInThePauseOfSupervise(t *testing.T) {
	for _, clock := range []string{"virtual", "system"} {
		t.Run(clock, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, v := virtual()
				var c clockx.Clock = v
				if clock == "system" {
					c, p.Clock = clockx.System(), nil
				}
				p.MaxAttempts = 0
				budget := counting(&p)
				log := record(&p)
				cause := errors.New("shutdown")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if clock == "system" {
					time.AfterFunc(minute+time.Second/2, func() { cancel(cause) })
				} else {
					v.AfterFunc(minute+time.Second/2, func() { cancel(cause) })
				}
				start := c.Now()
				op, at := lives(c, life{minute, errDown})
				e := wantReason(t, retry.Supervise(ctx, p, minute, op), retry.ReasonCanceled)
				if took := c.Now().Sub(start); took != minute+time.Second/2 || len(*at) != 1 {
					t.Errorf("%d calls, and Supervise took %v", len(*at), took)
				}
				if e.Undone {
					t.Error("Undone, though op was up for a minute")
				}
				if e.Attempts != 0 || !slices.Equal(e.Errs, []error{errDown}) || e.Cause != cause || e.Elapsed != time.Second/2 || e.Waited != time.Second/2 {
					t.Errorf("the error is %+v, want no attempts, the last error, the cause, and half a second of the pause", *e)
				}
				const want = "start attempt(1) attemptDone(1) done(none) start wait(1s) done(canceled)"
				if log.String() != want {
					t.Errorf("hooks saw %s, want %s", log, want)
				}
				if budget.ended != 1 || !budget.ok {
					t.Errorf("the budget saw %+v, want one run that succeeded", *budget)
				}
			})
		})
	}
}

// The pause is a wait of the run that it begins: the hooks see it as one, with what
// led to it, and MaxElapsed leaves it out.
func TestPauseOfSuperviseBelongsToTheRunThatFollows(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.MaxElapsed = 0, 2*time.Second
	log := record(&p)
	var summaries []retry.Summary
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Done: func(_ context.Context, s retry.Summary) { summaries = append(summaries, s) }})
	op, at := lives(v, life{minute, retry.After(errDown, 9*time.Second)}, life{0, errDown}, life{0, errDown})
	e := wantReason(t, retry.Supervise(t.Context(), p, minute, op), retry.ReasonMaxElapsed)
	if want := []time.Duration{0, 70 * time.Second, 71 * time.Second}; !slices.Equal(*at, want) {
		t.Errorf("op was called at %v, want %v", *at, want)
	}
	const events = "start attempt(1) attemptDone(1) done(none) start wait(10s) attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(max_elapsed)"
	if log.String() != events {
		t.Errorf("hooks saw %s, want %s", log, events)
	}
	pause := retry.Attempt{Name: "op", Start: epoch.Add(minute), Err: errDown, Class: retry.Throttled, Hint: 9 * time.Second, Delay: 10 * time.Second}
	if log.waits[0] != pause {
		t.Errorf("Wait got %+v, want %+v", log.waits[0], pause)
	}
	if a := log.begun[1]; a.Number != 1 || a.Start != epoch.Add(70*time.Second) || a.Elapsed != 10*time.Second {
		t.Errorf("Attempt got %+v after the pause", a)
	}
	if want := []retry.Summary{
		{Name: "op", Attempts: 1, Elapsed: minute},
		{Name: "op", Attempts: 2, Elapsed: 11 * time.Second, Waited: 11 * time.Second, Reason: retry.ReasonMaxElapsed, Err: e},
	}; !slices.Equal(summaries, want) {
		t.Errorf("the runs came to %+v, want %+v", summaries, want)
	}
}

// Whatever ends the run that begins with a pause, before its first attempt, its Start
// has a Done.
func TestRunOfSuperviseThatEndsBeforeItsFirstAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		edit   func(p *retry.Policy, cancel func())
		want   string
		waited time.Duration
		panics bool
	}{
		"canceled in Start": {func(p *retry.Policy, cancel func()) {
			p.Hooks.Start = second(func(ctx context.Context, _ retry.Policy) context.Context { cancel(); return ctx })
		}, "start done(canceled)", 0, false},
		"canceled in Wait": {func(p *retry.Policy, cancel func()) {
			p.Hooks.Wait = func(context.Context, retry.Attempt) { cancel() }
		}, "start wait(1s) done(canceled)", 0, false},
		"a panic in Wait": {func(p *retry.Policy, _ func()) {
			p.Hooks.Wait = func(context.Context, retry.Attempt) {
				_ = p.Clock.Sleep(context.Background(), time.Millisecond)
				panic("boom")
			}
		}, "start wait(1s) done(panic)", time.Millisecond, true},
		"a panic in Start": {func(p *retry.Policy, _ func()) {
			p.Hooks.Start = second(func(context.Context, retry.Policy) context.Context { panic("boom") })
		}, "start done(panic)", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, v := virtual()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tt.edit(&p, cancel)
			log := record(&p)
			op, at := lives(v, life{minute, errDown})
			if panicked := caught(func() { _ = retry.Supervise(ctx, p, minute, op) }) != nil; panicked != tt.panics {
				t.Errorf("panicked: %v, want %v", panicked, tt.panics)
			}
			if want := "start attempt(1) attemptDone(1) done(none) " + tt.want; log.String() != want {
				t.Errorf("hooks saw %s, want %s", log, want)
			}
			if len(*at) != 1 || log.summary.Attempts != 0 || log.summary.Waited != tt.waited {
				t.Errorf("%d calls, Done got %+v, want no attempts and %v of waits", len(*at), log.summary, tt.waited)
			}
		})
	}
}

// second returns a Start hook that does nothing the first time.
func second(start func(context.Context, retry.Policy) context.Context) func(context.Context, retry.Policy) context.Context {
	calls := 0
	return func(ctx context.Context, p retry.Policy) context.Context {
		if calls++; calls == 1 {
			return ctx
		}
		return start(ctx, p)
	}
}

func TestCancelDuringALifeEndsSupervise(t *testing.T) {
	p, v := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	v.AfterFunc(2*minute, cancel)
	op, at := lives(v, life{5 * minute, errDown})
	e := wantReason(t, retry.Supervise(ctx, p, minute, op), retry.ReasonCanceled)
	if len(*at) != 1 || e.Attempts != 1 {
		t.Errorf("%d calls, %+v", len(*at), e)
	}
}

// Each run has a context of its own from Hooks.Start, and contexts of attempts
// that an earlier run's op has kept do not change.
func TestRunsOfSuperviseShareNothing(t *testing.T) {
	p, v := virtual()
	type key struct{}
	runs := 0
	p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context {
		if ctx.Value(key{}) != nil {
			t.Error("Hooks.Start got the context of another run")
		}
		runs++
		return context.WithValue(ctx, key{}, runs)
	}
	var kept []context.Context
	op, _ := lives(v, life{0, errDown}, life{minute, errDown}, life{0, errDown}, life{minute, errDown}, life{0, errDown})
	err := retry.Supervise(t.Context(), p, minute, func(ctx context.Context) error {
		kept = append(kept, ctx)
		return op(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ctx := range kept {
		got = append(got, fmt.Sprintf("%v/%d", ctx.Value(key{}), retry.AttemptNumber(ctx)))
	}
	if want := "1/1 1/2 2/1 2/2 3/1 3/2"; strings.Join(got, " ") != want {
		t.Errorf("the attempts were %v, want %s", got, want)
	}
}

func TestPanicInALaterRunOfSuperviseClosesIt(t *testing.T) {
	p, v := virtual()
	budget := counting(&p)
	log := record(&p)
	op, _ := lives(v, life{minute, errDown})
	calls := 0
	wantPanic(t, "boom", func() {
		_ = retry.Supervise(t.Context(), p, minute, func(ctx context.Context) error {
			if calls++; calls == 2 {
				panic("boom")
			}
			return op(ctx)
		})
	})
	if want := (countingBudget{ended: 2}); *budget != want || log.summary.Reason != retry.ReasonPanic || log.summary.Attempts != 1 {
		t.Errorf("the budget saw %+v, Done %+v", *budget, log.summary)
	}
	if e := gaveUp(t, log.summary.Err); len(e.Errs) != 1 || e.Last() == errDown {
		t.Errorf("Errs are %v, want none of the run before", e.Errs)
	}
}

// Healthy is how long op was up, whatever else takes time around it.
func TestSlowHooksAreNoHealthyLife(t *testing.T) {
	const slow = 2 * minute
	for name, delay := range map[string]func(p *retry.Policy, v *clockx.Virtual){
		"Start": func(p *retry.Policy, v *clockx.Virtual) {
			p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context { v.Advance(slow); return ctx }
		},
		"Attempt": func(p *retry.Policy, v *clockx.Virtual) {
			p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { v.Advance(slow); return ctx }
		},
		"WithTimeoutCause": func(p *retry.Policy, v *clockx.Virtual) {
			p.Clock, p.AttemptTimeout = hookedClock{v, func() { v.Advance(slow) }}, hour
		},
	} {
		p, v := virtual()
		p.MaxAttempts = 4
		delay(&p, v)
		calls := 0
		e := wantReason(t, retry.Supervise(t.Context(), p, minute, func(context.Context) error {
			if calls++; calls > 9 {
				return retry.Stop(errDown)
			}
			return errDown
		}), retry.ReasonMaxAttempts)
		if calls != 4 || e.Waited != 7*time.Second {
			t.Errorf("slow %s: %d calls, %v of waits, want 4 calls with waits of 1+2+4 s", name, calls, e.Waited)
		}
	}
}

func TestSupervisePanicsForNil(t *testing.T) {
	var none context.Context
	for want, f := range map[string]func(){
		"retry: nil op":      func() { _ = retry.Supervise(t.Context(), retry.Policy{}, 0, nil) },
		"retry: nil context": func() { _ = retry.Supervise(none, retry.Policy{}, 0, func(context.Context) error { return nil }) },
	} {
		wantPanic(t, want, f)
	}
}

// A clock may run any code, such as one that ends the run.
func TestSuperviseCallsNothingAfterItsClockHasCanceled(t *testing.T) {
	for nth := 1; nth <= 4; nth++ {
		p, v := virtual()
		ctx, cancel := context.WithCancel(t.Context())
		left := nth
		p.Clock = readClock{v, func() {
			if left--; left == 0 {
				cancel()
			}
		}}
		_ = retry.Supervise(ctx, p, time.Minute, func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("called after reading %d of the clock had canceled", nth)
			}
			cancel()
			return errDown
		})
	}
}

// A consumer that starts before its service has a name must outlive DNS.
func TestSuperviseOutlivesDNS(t *testing.T) {
	unknown := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}}
	p, _ := virtual()
	p.MaxAttempts = 0
	for _, p.Classify = range []retry.Classifier{nil, func(error) retry.Class { return retry.Unknown }} {
		calls := 0
		if err := retry.Supervise(t.Context(), p, time.Minute, func(context.Context) error {
			if calls++; calls < 9 {
				return unknown
			}
			return nil
		}); err != nil || calls != 9 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}
	wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return unknown }), retry.ReasonPermanent)
	p.Classify = func(error) retry.Class { return retry.Permanent }
	wantReason(t, retry.Supervise(t.Context(), p, time.Minute, func(context.Context) error { return unknown }), retry.ReasonPermanent)
}

// A retry that the budget refuses comes after what the server asked for, twice the backoff, and a
// second, though not after MaxElapsed. The budget is asked for each, and told of none.
func TestABudgetThatRefusesPostponesASession(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(p *retry.Policy)
		err  error
		want []time.Duration // when op is called
	}{
		"a backoff":   {func(*retry.Policy) {}, errDown, seconds(0, 3, 8, 17)},
		"no backoff":  {func(p *retry.Policy) { p.Backoff = retry.Constant(0) }, errDown, seconds(0, 1, 2, 3)},
		"a hint":      {func(*retry.Policy) {}, retry.After(errDown, 10*time.Second), seconds(0, 13, 28, 47)},
		"MaxElapsed":  {func(p *retry.Policy) { p.MaxElapsed = 7 * time.Second }, errDown, seconds(0, 3, 7)},
		"MaxAttempts": {func(p *retry.Policy) { p.MaxAttempts = 2 }, errDown, seconds(0, 3)},
	} {
		p, v := virtual()
		p.MaxAttempts = 0
		b := &countingBudget{refuse: true}
		p.Budget = b
		tt.edit(&p)
		seen := record(&p)
		op, at := lives(v, life{0, tt.err}, life{0, tt.err}, life{0, tt.err})
		_ = retry.Supervise(t.Context(), p, 0, op)
		if !slices.Equal(*at, tt.want) {
			t.Errorf("%s: op was called at %v, want %v", name, *at, tt.want)
		}
		for i, w := range seen.waits {
			if i+1 < len(*at) && w.Delay != (*at)[i+1]-(*at)[i] {
				t.Errorf("%s: Hooks.Wait %d got %v, want %v", name, i+1, w.Delay, (*at)[i+1]-(*at)[i])
			}
		}
		if b.asked < len(*at)-1 || b.retried != retry.Unknown {
			t.Errorf("%s: the budget was asked %d times, and told of a retry after %v", name, b.asked, b.retried)
		}
	}
}

func seconds(all ...int) (ds []time.Duration) {
	for _, s := range all {
		ds = append(ds, time.Duration(s)*time.Second)
	}
	return ds
}

// A wait that would outlast the caller's deadline ends the session at once, if the budget makes it so long too.
func TestAPostponedRetryKeepsTheCallersDeadline(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.Budget = 0, &countingBudget{refuse: true}
	ctx, cancel := v.WithTimeoutCause(t.Context(), 2*time.Second, nil)
	defer cancel()
	op, at := lives(v, life{0, errDown}, life{0, errDown})
	e := wantReason(t, retry.Supervise(ctx, p, 0, op), retry.ReasonDeadline)
	if len(*at) != 1 || e.Elapsed != 0 {
		t.Errorf("%d calls in %v, want one in 0s", len(*at), e.Elapsed)
	}
}

// An outage ends no session, whatever its budget has earned, and costs the server little.
func TestASessionOutlastsAnOutage(t *testing.T) {
	for name, earn := range map[string]int{"in a new process": 0, "after 10000 calls": 10_000} {
		p, v := virtual()
		p.MaxAttempts, p.Backoff, p.Rand = 0, nil, func() float64 { return .5 }
		b := new(retry.EarnedBudget)
		p.Budget = b
		for range earn {
			_ = retry.Run(t.Context(), p, func(context.Context) error { return nil })
		}
		start, calls, last := v.Now(), 0, time.Duration(0)
		err := retry.Supervise(t.Context(), p, 0, func(context.Context) error {
			calls++
			if last = v.Now().Sub(start); last > 20*time.Minute {
				return nil
			}
			return errDown
		})
		if err != nil || calls > 120 || last > 21*time.Minute {
			t.Errorf("%s: %v after %d calls and %v; want success within a minute of the outage's end, and at most 120 calls", name, err, calls, last)
		}
	}
}

// A server's wait ends no session, also if a guard passes it on, unless MaxRetryAfter is set.
func TestAServersWaitEndsNoSession(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(p *retry.Policy)
		hint time.Duration
		want time.Duration // the second call; 0: there is none
	}{
		"ten minutes":               {func(*retry.Policy) {}, 10 * time.Minute, 10*time.Minute + time.Second},
		"a day":                     {func(*retry.Policy) {}, 24 * time.Hour, time.Hour + time.Second},
		"a MaxRetryAfter":           {func(p *retry.Policy) { p.MaxRetryAfter = time.Minute }, 2 * time.Minute, 0},
		"a MaxRetryAfter of a week": {func(p *retry.Policy) { p.MaxRetryAfter = 7 * 24 * time.Hour }, 24 * time.Hour, 24*time.Hour + time.Second},
		"MaxElapsed":                {func(p *retry.Policy) { p.MaxElapsed = time.Minute }, 10 * time.Minute, 0},
	} {
		for _, guard := range []bool{false, true} {
			p, v := virtual()
			p.MaxAttempts, p.Rand = 0, func() float64 { return 0 }
			tt.edit(&p)
			start, calls, refused := v.Now(), 0, 0
			if guard {
				p.Guards = []retry.Guard{stubborn(func(retry.Entry) (retry.Pass, error) {
					if refused++; refused == 1 {
						return retry.Pass{}, retry.After(errFull, tt.hint)
					}
					return retry.Pass{}, nil
				})}
			}
			var at time.Duration
			err := retry.Supervise(t.Context(), p, 0, func(context.Context) error {
				if calls++; calls == 1 && !guard {
					return retry.After(errDown, tt.hint)
				}
				at = v.Now().Sub(start)
				return nil
			})
			if at != tt.want || (err == nil) != (tt.want > 0) {
				t.Errorf("%s, a guard's %v: the call that succeeds comes after %v, %v; want %v", name, guard, at, err, tt.want)
			}
		}
	}
}

func TestANegativeMaxRetryAfterIsZeroToSupervise(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts, p.MaxRetryAfter = 0, -1
	op, at := lives(p.Clock, life{0, retry.After(errDown, 10*time.Minute)})
	if err := retry.Supervise(t.Context(), p, 0, op); err != nil || len(*at) != 2 {
		t.Errorf("%v after %d calls, want a second one", err, len(*at))
	}
}

// At the end of MaxElapsed a session ends whose retry the budget refuses: no time is left to wait.
func TestAPostponedRetryAtTheEndOfMaxElapsed(t *testing.T) {
	for name, tt := range map[string]struct {
		backoff retry.Backoff
		err     error
	}{
		"no backoff": {retry.Constant(0), errDown},
		"at once":    {retry.Constant(time.Second), nowError{}},
	} {
		p, v := virtual()
		p.MaxAttempts, p.MaxElapsed, p.Budget, p.Backoff = 0, 10*time.Second, &countingBudget{refuse: true}, tt.backoff
		calls := 0
		err := retry.Supervise(t.Context(), p, 0, func(context.Context) error {
			if calls++; calls > 100 {
				t.Fatalf("%s: a busy loop", name)
			}
			return tt.err
		})
		wantReason(t, err, retry.ReasonMaxElapsed)
		if at := v.Now().Sub(epoch); at != 10*time.Second {
			t.Errorf("%s: the session ended at %v, want 10s", name, at)
		}
	}
}

// A retry that a server asks for at once is postponed as any other.
func TestARetryAtOnceIsPostponed(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.Backoff, p.Budget = 2, retry.Constant(10*time.Second), &countingBudget{refuse: true}
	_ = retry.Supervise(t.Context(), p, 0, func(context.Context) error { return nowError{} })
	if took := v.Now().Sub(epoch); took != 21*time.Second {
		t.Errorf("postponed by %v, want twice the backoff and a second", took)
	}
}

// What op did before the pause says nothing about the run that follows it.
func TestUndoneAfterThePauseOfSupervise(t *testing.T) {
	p, v := virtual()
	calls := 0
	err := retry.Supervise(t.Context(), p, minute, func(context.Context) error {
		if calls++; calls > 1 {
			return retry.Stop(retry.Undone(errDown))
		}
		v.Advance(minute)
		return errDown
	})
	if e := wantReason(t, err, retry.ReasonPermanent); !e.Undone || e.Attempts != 1 {
		t.Errorf("%+v, want one attempt that was undone", *e)
	}
}
