package retry_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// one makes a part of a run that decides as Do would for a single attempt.
func one(p retry.Policy, op func(context.Context) error) retry.Part {
	start := p.Clock.Now()
	loop := p.Start(start)
	part := retry.Part{
		Op:     func(ctx context.Context) retry.Verdict { return p.Judge(op(ctx)) },
		Decide: func(v retry.Verdict) (time.Duration, bool) { return loop.Judged(p.Clock.Now(), v) },
		Why: func() *retry.Error {
			e, _ := loop.Err().(*retry.Error)
			return e
		},
	}
	part.Settle = func(ctx context.Context) *retry.Error {
		e, _ := loop.Err().(*retry.Error)
		if e == nil && ctx.Err() != nil {
			e = &retry.Error{Reason: retry.ReasonCanceled, Attempts: 1, Elapsed: p.Clock.Now().Sub(start)}
		}
		return e
	}
	return part
}

// A part with one attempt is to Hooks what Do is, whatever happens in it.
func TestRunPartIsToHooksWhatDoIs(t *testing.T) {
	boom := func() { panic("boom") }
	for name, tt := range map[string]struct {
		op     func(ctx context.Context, sleep func(time.Duration)) error
		cancel string // the hook that ends the caller's context
		panics string // the hook that panics
	}{
		"success":                {op: func(_ context.Context, sleep func(time.Duration)) error { sleep(time.Second); return nil }},
		"failure":                {op: func(_ context.Context, sleep func(time.Duration)) error { sleep(time.Second); return errDown }},
		"stopped":                {op: func(context.Context, func(time.Duration)) error { return retry.Stop(errDown) }},
		"a hint":                 {op: func(context.Context, func(time.Duration)) error { return retry.After(errDown, time.Hour) }},
		"timed out":              {op: func(ctx context.Context, sleep func(time.Duration)) error { sleep(2 * time.Hour); return errDown }},
		"timed out and not told": {op: func(ctx context.Context, sleep func(time.Duration)) error { sleep(time.Hour); return errDown }},
		"success when too late":  {op: func(ctx context.Context, sleep func(time.Duration)) error { sleep(2 * time.Hour); return nil }},
		"a panic":                {op: func(context.Context, func(time.Duration)) error { boom(); return nil }},
		"Goexit":                 {op: func(context.Context, func(time.Duration)) error { runtime.Goexit(); return nil }},
		"canceled by Attempt":    {cancel: "Attempt"},
		"canceled by op":         {cancel: "op"},
		"a panic in Start":       {panics: "Start"},
		"a panic in Attempt":     {panics: "Attempt"},
		"a panic in Done":        {panics: "Done"},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(run func(context.Context, retry.Policy, func(context.Context) error)) (told []string) {
				p, v := virtual()
				ctx, cancel := context.WithCancel(t.Context())
				start := v.Now()
				note := func(hook string, ctx context.Context, what any) {
					told = append(told, fmt.Sprintf("%v %s %d %v %+v", v.Now().Sub(start), hook, retry.AttemptNumber(ctx), ctx.Err(), what))
					switch hook {
					case "Start", "Attempt", "op": // the rest is a part of what Settle takes, and Do ends before it
						v.Advance(time.Millisecond)
					}
					if tt.cancel == hook {
						cancel()
					}
					if tt.panics == hook {
						boom()
					}
				}
				p.Name, p.MaxAttempts, p.AttemptTimeout, p.MaxRetryAfter = "job", 1, time.Hour, 2*time.Hour
				p.Hooks = retry.Hooks{
					Start: func(ctx context.Context, got retry.Policy) context.Context {
						note("Start", ctx, got.Name)
						return ctx
					},
					Attempt:     func(ctx context.Context, a retry.Attempt) context.Context { note("Attempt", ctx, a); return nil },
					AttemptDone: func(ctx context.Context, a retry.Attempt) { note("AttemptDone", ctx, a) },
					Wait:        func(ctx context.Context, a retry.Attempt) { note("Wait", ctx, a) },
					Done: func(ctx context.Context, s retry.Summary) {
						s.Err = nil // the run's own
						note("Done", ctx, s)
					},
				}
				out := apart(func() {
					run(ctx, p, func(ctx context.Context) error {
						note("op", ctx, "")
						if tt.op == nil {
							return errDown
						}
						return tt.op(ctx, func(d time.Duration) { v.Advance(d) })
					})
				})
				return append(told, fmt.Sprint("out comes ", out))
			}
			want := play(func(ctx context.Context, p retry.Policy, op func(context.Context) error) { _ = retry.Run(ctx, p, op) })
			got := play(func(ctx context.Context, p retry.Policy, op func(context.Context) error) { p.RunPart(ctx, one(p, op)) })
			if !reflect.DeepEqual(got, want) {
				t.Errorf("RunPart:\n%s\nDo:\n%s", lines(got), lines(want))
			}
		})
	}
}

func lines(words []string) (all string) {
	for _, w := range words {
		all += w + "\n"
	}
	return all
}

func TestPartCountsOnAndOthersWait(t *testing.T) {
	p, v := virtual()
	p.Budget = &countingBudget{refuse: true}
	log := record(&p)
	var order []string
	outer := retry.Policy{Backoff: retry.Constant(0)}.Attempts(t.Context()) // whose number does not count
	defer outer.Close()
	if !outer.Next() || !outer.Done(errDown) || !outer.Next() {
		t.Fatal("there is no second attempt")
	}
	p.RunPart(outer.Context(), retry.Part{
		Earlier: 6,
		Op: func(ctx context.Context) retry.Verdict {
			v.Advance(time.Second)
			order = append(order, fmt.Sprint("op ", retry.AttemptNumber(ctx)))
			return retry.Verdict{Err: retry.Stop(errDown)} // no mark counts, as in Attempts.Judged
		},
		Decide: func(got retry.Verdict) (time.Duration, bool) {
			order = append(order, "decide")
			if got != (retry.Verdict{Err: errDown, Class: retry.Transient}) {
				t.Errorf("Decide gets %+v", got)
			}
			return time.Hour, true
		},
		Settle: func(context.Context) *retry.Error {
			v.Advance(time.Minute)
			order = append(order, "settle")
			return nil
		},
	})
	if got, want := log.String(), "start attempt(7) attemptDone(7) wait(1h0m0s) done(none)"; got != want {
		t.Errorf("hooks saw %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(order), "[op 1 decide settle]"; got != want {
		t.Errorf("it called %s, want %s", got, want)
	}
	if s := log.summary; s.Attempts != 7 || s.Elapsed != time.Minute+time.Second || s.Waited != 0 || s.Err != nil {
		t.Errorf("Done got %+v", s)
	}
	if w := log.waits[0]; w.Err != errDown || w.Class != retry.Transient || w.Delay != time.Hour || w.Elapsed != time.Second {
		t.Errorf("Wait got %+v", w)
	}
	if b := p.Budget.(*countingBudget); b.asked+b.ended != 0 {
		t.Errorf("the budget saw %+v", b)
	}
}

func TestPartWithoutAnAttempt(t *testing.T) {
	gone := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3}
	for name, tt := range map[string]struct {
		part   retry.Part
		cancel bool
		want   string
	}{
		"nothing":            {retry.Part{}, false, "start done(none)"},
		"given up before":    {retry.Part{Earlier: 3, Settle: func(context.Context) *retry.Error { return gone }}, false, "start done(max_attempts)"},
		"context that ended": {retry.Part{Op: func(context.Context) retry.Verdict { panic("called") }}, true, "start done(none)"},
	} {
		p, _ := virtual()
		log := record(&p)
		ctx, cancel := context.WithCancel(t.Context())
		if tt.cancel {
			cancel()
		}
		p.RunPart(ctx, tt.part)
		cancel()
		if log.String() != tt.want || log.summary.Attempts != tt.part.Earlier {
			t.Errorf("%s: hooks saw %v and %+v, want %s", name, log, log.summary, tt.want)
		}
	}
	p, _ := virtual()
	log := record(&p)
	p.RunPart(t.Context(), retry.Part{
		Op:     func(context.Context) retry.Verdict { return retry.Verdict{Err: errDown} },
		Decide: func(retry.Verdict) (time.Duration, bool) { return time.Hour, false }, // as Loop.Judged after a budget's refusal
	})
	if log.attempts[0].Delay != 0 || log.waits != nil {
		t.Errorf("no attempt follows, and hooks saw %+v", log.attempts[0])
	}
	var none context.Context
	wantPanic(t, "retry: nil context", func() { p.RunPart(none, retry.Part{}) })
}

// What was decided does not hide that it was not told.
func TestPanicAfterThePartsAttempt(t *testing.T) {
	boom := func() { panic("boom") }
	for name, tt := range map[string]struct {
		part retry.Part
		want string
	}{
		"AttemptDone": {retry.Part{}, "start attempt(3) attemptDone(3) done(panic)"},
		"Wait":        {retry.Part{Decide: func(retry.Verdict) (time.Duration, bool) { return time.Second, true }}, "start attempt(3) attemptDone(3) wait(1s) done(panic)"},
		"Decide":      {retry.Part{Decide: func(retry.Verdict) (time.Duration, bool) { boom(); return 0, false }}, "start attempt(3) attemptDone(3) done(panic)"},
		"Settle":      {retry.Part{Settle: func(context.Context) *retry.Error { boom(); return nil }}, "start attempt(3) attemptDone(3) done(panic)"},
		"Settle before a wait": {retry.Part{Decide: func(retry.Verdict) (time.Duration, bool) { return time.Second, true },
			Settle: func(context.Context) *retry.Error { boom(); return nil }},
			"start attempt(3) attemptDone(3) wait(1s) done(panic)"},
	} {
		p, v := virtual()
		switch name {
		case "AttemptDone":
			p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { boom() }
		case "Wait":
			p.Hooks.Wait = func(context.Context, retry.Attempt) { boom() }
		}
		log := record(&p)
		tt.part.Earlier = 2
		tt.part.Op = func(context.Context) retry.Verdict {
			v.Advance(time.Minute)
			return retry.Verdict{Err: errDown, Class: retry.Permanent}
		}
		if got := caught(func() { p.RunPart(t.Context(), tt.part) }); got != "boom" {
			t.Errorf("%s: out comes %v", name, got)
		}
		if s := log.summary; log.String() != tt.want || s.Attempts != 3 || s.Waited != 0 || s.Elapsed != time.Minute {
			t.Errorf("%s: hooks saw %v and %+v, want %s", name, log, s, tt.want)
		}
	}
}

// An error after the caller's context has ended says nothing about the run, a success does.
func TestPartWhoseCallerLeaves(t *testing.T) {
	for err, want := range map[error]int{nil: 1, errDown: 0} {
		ctx, cancel := context.WithCancel(t.Context())
		decided := 0
		retry.Policy{}.RunPart(ctx, retry.Part{
			Op:     func(context.Context) retry.Verdict { cancel(); return retry.Policy{}.Judge(err) },
			Decide: func(retry.Verdict) (time.Duration, bool) { decided++; return 0, false },
		})
		if decided != want {
			t.Errorf("after %v Decide was called %d times, want %d", err, decided, want)
		}
	}
}

func TestPartOfAVeryLongRun(t *testing.T) {
	for _, earlier := range []int{math.MinInt, -1, 0, math.MaxInt - 1, math.MaxInt} {
		p, _ := virtual()
		log := record(&p)
		p.RunPart(t.Context(), retry.Part{Earlier: earlier, Op: func(context.Context) retry.Verdict { return retry.Verdict{} }})
		if want := min(max(earlier, 0), math.MaxInt-1) + 1; log.attempts[0].Number != want || log.summary.Attempts != want {
			t.Errorf("after %d attempts it is attempt %d of %d, want %d", earlier, log.attempts[0].Number, log.summary.Attempts, want)
		}
	}
}

// A panic of op after the most attempts that can be counted is no success.
func TestPanicInAPartOfAVeryLongRun(t *testing.T) {
	p, _ := virtual()
	log := record(&p)
	wantPanic(t, "boom", func() {
		p.RunPart(t.Context(), retry.Part{Earlier: math.MaxInt, Op: func(context.Context) retry.Verdict { panic("boom") }})
	})
	if log.attempts[0].Err == nil || log.summary.Reason != retry.ReasonPanic {
		t.Errorf("hooks got %+v and %+v, want a panic", log.attempts[0], log.summary)
	}
}

// The time of Settle is no wait, also if it panics.
func TestSettleIsNoWait(t *testing.T) {
	for _, panics := range []bool{false, true} {
		p, v := virtual()
		log := record(&p)
		_ = caught(func() {
			p.RunPart(t.Context(), retry.Part{
				Op: func(context.Context) retry.Verdict { return retry.Verdict{} },
				Settle: func(context.Context) *retry.Error {
					if v.Advance(time.Minute); panics {
						panic("boom")
					}
					return nil
				},
			})
		})
		if s := log.summary; s.Waited != 0 || s.Elapsed != time.Minute {
			t.Errorf("panics %v: Done got %+v, want a minute in which nobody waited", panics, s)
		}
	}
}

// breaksOnce returns a clock that panics once, when it is next read after set is.
func breaksOnce(v *clockx.Virtual, set *bool) clockx.Clock {
	return readClock{v, func() {
		if *set {
			*set = false
			panic("boom")
		}
	}}
}

func TestPartIsDoneThoughItsClockPanicsAtTheEnd(t *testing.T) {
	p, v := virtual()
	settled, dones := false, 0
	p.Clock = breaksOnce(v, &settled)
	p.Hooks = retry.Hooks{Done: func(_ context.Context, s retry.Summary) {
		if dones++; s.Reason != retry.ReasonPanic {
			t.Errorf("reason %v, want panic", s.Reason)
		}
	}}
	wantPanic(t, "boom", func() {
		p.RunPart(t.Context(), retry.Part{
			Op:     func(context.Context) retry.Verdict { return retry.Verdict{} },
			Settle: func(context.Context) *retry.Error { settled = true; return nil },
		})
	})
	if dones != 1 {
		t.Errorf("Done was called %d times, want once", dones)
	}
}

func TestNegativeWaitOfAPart(t *testing.T) {
	p, _ := virtual()
	log := record(&p)
	p.RunPart(t.Context(), retry.Part{
		Op:     func(context.Context) retry.Verdict { return retry.Verdict{Err: errDown} },
		Decide: func(retry.Verdict) (time.Duration, bool) { return -time.Second, true },
	})
	if got, want := log.String(), "start attempt(1) attemptDone(1) wait(0s) done(none)"; got != want || log.attempts[0].Delay != 0 {
		t.Errorf("hooks saw %s, want %s; Delay %v", got, want, log.attempts[0].Delay)
	}
}

// trace is what a run calls, in order.
type trace []string

func (t *trace) add(what string) { *t = append(*t, what) }

// traced returns a policy whose funcs write down that they are called: hooks, a budget and a guard
// too, unless the policy is to be plain.
func traced(t *trace, plain bool) retry.Policy {
	p := retry.Policy{
		MaxAttempts: 3,
		Classify:    func(error) retry.Class { t.add("classify"); return retry.Unknown },
		Backoff:     retry.BackoffFunc(func(retry.Step) time.Duration { t.add("backoff"); return time.Second }),
	}
	if plain {
		return p
	}
	p.AttemptTimeout = time.Hour
	p.Budget = &loggedBudget{log: func(format string, args ...any) { t.add(format) }}
	p.Guards = []retry.Guard{&gate{onLeave: func() { t.add("leave") }}}
	var last context.Context // the attempt's
	ended := func() {
		if last.Err() == nil {
			t.add("the attempt's context goes on")
		}
	}
	p.Hooks = retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { t.add("start"); return ctx },
		Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { t.add("attempt"); return ctx },
		AttemptDone: func(ctx context.Context, _ retry.Attempt) { t.add("attemptDone"); last = ctx },
		Wait:        func(context.Context, retry.Attempt) { ended(); t.add("wait") },
		Done:        func(context.Context, retry.Summary) { ended(); t.add("done") },
	}
	return p
}

// A run exists in several shapes: on the stack until its first failure, on the heap from then on,
// with a caller that makes the attempts, and as a part that a queue counts. All of them end an
// attempt in the order of type step.
func TestEveryRunEndsAnAttemptInTheSameOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := []string{"attempt", "op", "classify", "leave", "backoff", "withdraw", "attemptDone", "wait"}
		gives := []string{"attempt", "op", "classify", "leave", "end", "attemptDone", "done"}
		succeeds := []string{"attempt", "op", "leave", "end", "attemptDone", "done"}
		without := func(calls []string, drop func(string) bool) []string {
			return slices.DeleteFunc(slices.Clone(calls), drop)
		}
		for door, run := range doors {
			for name, tt := range map[string]struct {
				failures int
				want     []string
			}{
				"it gives up":                {3, slices.Concat([]string{"start"}, fails, fails, gives)},
				"the third attempt succeeds": {2, slices.Concat([]string{"start"}, fails, fails, succeeds)},
				"the first attempt succeeds": {0, slices.Concat([]string{"start"}, succeeds)},
			} {
				for _, plain := range []bool{false, true} {
					var got trace
					p := traced(&got, plain)
					failures := tt.failures
					_ = run(t.Context(), p, func(context.Context) error {
						got.add("op")
						if failures--; failures >= 0 {
							return errDown
						}
						return nil
					})
					want := tt.want
					if plain {
						want = without(want, func(s string) bool { return s != "op" && s != "classify" && s != "backoff" })
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s, plain %v, %s:\n%v, want\n%v", door, plain, name, got, want)
					}
				}
			}
		}
		// A part has no guard and no budget, and decides in the place of the backoff.
		var got trace
		p := traced(&got, false)
		p.RunPart(t.Context(), retry.Part{
			Op: func(context.Context) retry.Verdict {
				got.add("op")
				return retry.Verdict{Err: errDown, Class: retry.Transient}
			},
			Decide: func(retry.Verdict) (time.Duration, bool) { got.add("backoff"); return time.Second, true },
		})
		want := without(slices.Concat([]string{"start"}, fails, []string{"done"}), func(s string) bool { return s == "classify" || s == "leave" || s == "withdraw" })
		if !slices.Equal(got, want) {
			t.Errorf("a part:\n%v, want\n%v", got, want)
		}
	})
}
