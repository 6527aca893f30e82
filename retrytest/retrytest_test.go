package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrytest"
)

var errDown = errors.New("down")

const ms = time.Millisecond

// fake is a test whose failures are collected.
type fake struct {
	testing.TB
	failures []string
	logs     []string
	cleanups []func()
	helpers  []string // the funcs that called Helper
	places   []string // the funcs of this package in which failures were reported, but no helpers
}

func (f *fake) Helper() {
	frames := callers()
	f.helpers = append(f.helpers, frames[0])
}

func (f *fake) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fake) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
	for _, name := range callers() {
		if strings.Contains(name, "/retrytest.") && !slices.Contains(f.helpers, name) {
			f.places = append(f.places, name)
		}
	}
}

// callers returns the names of the funcs that have called the method of a fake that
// calls it, the innermost first.
func callers() (names []string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		name, _, _ := strings.Cut(frame.Function, ".func") // literals in a func count as it
		names = append(names, name)
		if !more {
			return names
		}
	}
}

func (f *fake) Log(args ...any) { f.logs = append(f.logs, fmt.Sprint(args...)) }

func (f *fake) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
}

func policy() retry.Policy {
	return retry.Policy{Name: "fetch", MaxAttempts: 4, Backoff: retry.Exponential{Base: 100 * ms, Jitter: retry.NoJitter}}
}

func TestARunIsRecorded(t *testing.T) {
	p := policy()
	done := 0
	p.Hooks.Done = func(context.Context, retry.Summary) { done++ }
	h := retrytest.New(t, p)
	op := retrytest.Script(h,
		retrytest.Fail[string](errDown).Taking(30*ms),
		retrytest.Fail[string](retry.After(errDown, time.Second)),
		retrytest.Return("ada").Taking(20*ms),
	)
	for range 2 { // the second run replaces the first
		start := h.Clock.Now()
		if start.Year() == 2000 { // the script is used up by then
			got, err := retry.Do(t.Context(), h.Policy, op)
			if got != "ada" || err != nil {
				t.Fatalf("Do() = %q, %v, want ada", got, err)
			}
		} else {
			op := retrytest.Script(h, retrytest.Fail[string](errDown), retrytest.Return("ada"))
			_, _ = retry.Do(t.Context(), h.Policy, op)
			h.AssertAttempts(2)
			h.AssertDelays(100 * ms)
			continue
		}
		h.AssertDelays(100*ms, 1200*ms)
		h.AssertAttempts(3)
		h.AssertReason(retry.ReasonNone)
		if got := h.Clock.Now().Sub(start); got != 1350*ms {
			t.Errorf("the run took %v of virtual time, want 1.35s", got)
		}
		if want := (retry.Summary{Name: "fetch", Attempts: 3, Elapsed: 1350 * ms, Waited: 1300 * ms}); h.Summary() != want {
			t.Errorf("Summary() = %+v, want %+v", h.Summary(), want)
		}
		if a := h.Attempts()[1]; a.Hint != time.Second || a.Class != retry.Throttled || a.Err != errDown || a.Elapsed != 130*ms {
			t.Errorf("the second attempt was %+v", a)
		}
		if got := h.Delays(); !slices.Equal(got, []time.Duration{100 * ms, 1200 * ms}) {
			t.Errorf("Delays() = %v", got)
		}
		h.Clock.Advance(366 * 24 * time.Hour)
	}
	if done != 2 {
		t.Errorf("the policy's own hook was called %d times, want 2", done)
	}
}

// It also says what a retry would have cost that the budget has refused.
func TestFailuresSayWhatTheBudgetRefused(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, retry.Policy{Name: "fetch", Budget: new(retry.EarnedBudget)})
	_, _ = retry.Do(t.Context(), h.Policy, retrytest.Script(h, retrytest.Fail[int](retry.ErrAttemptTimeout).Taking(time.Second)))
	h.AssertReason(retry.ReasonNone)
	want := `retrytest: the run ended with budget, want success
fetch, in virtual time:
        0s  attempt 1 took 1s and failed, timed_out: retry: attempt timed out
        1s  gave up: fetch: gave up after 1 attempt in 1s (budget: a retry after a timeout costs 10 tokens, 9 are left): retry: attempt timed out`
	if len(f.failures) != 1 || f.failures[0] != want {
		t.Errorf("%q\nwant %q", f.failures, want)
	}
}

// What a failed assertion says is all that its reader has.
func TestFailuresTellTheStory(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	op := retrytest.Script(h,
		retrytest.Fail[int](errDown).Taking(30*ms),
		retrytest.Fail[int](retry.After(errDown, time.Second)),
		retrytest.Fail[int](retry.Stop(errors.New("no such user"))).Taking(5*ms),
	)
	var inFlight string
	_, _ = retry.Do(t.Context(), h.Policy, func(ctx context.Context) (int, error) {
		v, err := op(ctx)
		if retry.AttemptNumber(ctx) == 2 {
			h.AssertReason(retry.ReasonNone)
			inFlight, f.failures = f.failures[0], nil
		}
		return v, err
	})
	h.AssertDelays(100*ms, 200*ms)
	h.AssertAttempts(4)
	h.AssertReason(retry.ReasonBudget)
	story := `
fetch, in virtual time:
        0s  attempt 1 took 30ms and failed, transient: down
      30ms  wait 100ms
     130ms  attempt 2 took 0s and failed, throttled: down
     130ms  wait 1.2s, of which the server asked for 1s
     1.33s  attempt 3 took 5ms and failed, permanent: no such user
    1.335s  gave up: fetch: gave up after 3 attempts in 1.34s (permanent): no such user`
	for i, want := range []string{
		"retrytest: the waits were [100ms 1.2s], want [100ms 200ms]" +
			"\nIf the server asks for a wait, the run waits for that plus the backoff, or plus Policy.Rand times a tenth of it if that is more." + story,
		"retrytest: there were 3 attempts, want 4" + story,
		"retrytest: the run ended with permanent, want budget" + story,
	} {
		if f.failures[i] != want {
			t.Errorf("failure %d is\n%s, want\n%s", i, f.failures[i], want)
		}
	}
	want := `retrytest: the run has not ended, want it ended with success
fetch, in virtual time:
        0s  attempt 1 took 30ms and failed, transient: down
      30ms  wait 100ms
     130ms  attempt 2 is running`
	if inFlight != want {
		t.Errorf("in mid-run the failure is\n%s, want\n%s", inFlight, want)
	}
}

// turnstile tells the first attempt to wait, and refuses the second once.
type turnstile struct{ full, late error }

func (g *turnstile) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	switch {
	case e.Number == 1:
		return retry.Pass{Wait: time.Second}, nil
	case e.Number == 2 && g.full != nil:
		err := g.full
		g.full = nil
		return retry.Pass{}, err
	case e.Number == 3:
		return retry.Pass{}, retry.Stop(g.late)
	}
	return retry.Pass{}, nil
}

func (g *turnstile) Leave(retry.Pass, retry.Exit) {}

// What guards do is no wait for a retry, and has an assertion of its own.
func TestGuardsAreRecorded(t *testing.T) {
	f := &fake{}
	full, late := errors.New("full"), errors.New("closed")
	p := policy()
	p.Guards = []retry.Guard{&turnstile{full: full, late: late}}
	h := retrytest.New(f, p)
	op := retrytest.Script(h, retrytest.Fail[int](errDown).Taking(30*ms), retrytest.Fail[int](errDown))
	_, err := retry.Do(t.Context(), h.Policy, op)
	h.AssertHeld(retry.Held{Delay: time.Second}, retry.Held{Number: 2, Err: full, Delay: 200 * ms}, retry.Held{Guard: "retrytest_test.turnstile", Err: late})
	h.AssertDelays(100*ms, 400*ms)
	h.AssertAttempts(2)
	h.AssertReason(retry.ReasonGuard)
	if held := h.Held(); len(f.failures) != 0 || !errors.Is(err, late) || len(held) != 3 || held[1].Elapsed != 1130*ms || held[1].Class != retry.Unprocessed {
		t.Errorf("the failures are %q, Do() = %v, Held() = %+v", f.failures, err, held)
	}
	const story = `
fetch, in virtual time:
        0s  retrytest_test.turnstile tells attempt 1 to wait 1s
        1s  attempt 1 took 30ms and failed, transient: down
     1.03s  wait 100ms
     1.13s  retrytest_test.turnstile refuses attempt 2, unprocessed: full
     1.13s  wait 200ms
     1.33s  attempt 2 took 0s and failed, transient: down
     1.33s  wait 400ms
     1.73s  retrytest_test.turnstile refuses attempt 3, permanent: closed
     1.73s  gave up: fetch: gave up after 2 attempts in 1.73s (guard): down; cause: retrytest_test.turnstile: closed`
	const got = "retrytest: guards held [attempt 1 by retrytest_test.turnstile for 1s, attempt 2 by retrytest_test.turnstile for 200ms (full), attempt 3 by retrytest_test.turnstile for 0s (closed)], want "
	for _, tt := range []struct {
		want []retry.Held
		text string
	}{
		{nil, "[]"},
		{[]retry.Held{{Delay: time.Second}, {Err: full, Delay: 200 * ms}}, "[an attempt for 1s, an attempt for 200ms (full)]"},
		{[]retry.Held{{Delay: time.Minute}, {Err: full, Delay: 200 * ms}, {Err: late}}, "[an attempt for 1m0s, an attempt for 200ms (full), an attempt for 0s (closed)]"},
		{[]retry.Held{{Delay: time.Second}, {Delay: 200 * ms}, {Err: late}}, "[an attempt for 1s, an attempt for 200ms, an attempt for 0s (closed)]"},
		{[]retry.Held{{Delay: time.Second, Err: full}, {Err: full, Delay: 200 * ms}, {Err: late}}, "[an attempt for 1s (full), an attempt for 200ms (full), an attempt for 0s (closed)]"},
		{[]retry.Held{{Number: 2, Delay: time.Second}, {Err: full, Delay: 200 * ms}, {Err: late}}, "[attempt 2 for 1s, an attempt for 200ms (full), an attempt for 0s (closed)]"},
		{[]retry.Held{{Guard: "pace.Pace", Delay: time.Second}, {Err: full, Delay: 200 * ms}, {Err: late}}, "[an attempt by pace.Pace for 1s, an attempt for 200ms (full), an attempt for 0s (closed)]"},
	} {
		f.failures = nil
		h.AssertHeld(tt.want...)
		if want := got + tt.text + story; len(f.failures) != 1 || f.failures[0] != want {
			t.Errorf("the failures are\n%q, want\n%q", f.failures, want)
		}
	}
}

// What a policy holds, as its zero value, is on the harness's clock: no real time passes, and
// a window does on the virtual clock.
func TestZeroValuesFollowTheVirtualClock(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"nothing":      {},
		"EarnedBudget": {Budget: new(retry.EarnedBudget)},
		"budget.Token": {Budget: new(budget.Token)},
		"budget.Ratio": {Budget: new(budget.Ratio)},
		"Pace":         {Guards: []retry.Guard{new(pace.Pace)}},
		"Limit":        {Guards: []retry.Guard{new(limit.Limit)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			p.MaxAttempts = 9
			h := retrytest.New(t, p)
			for range 3 {
				for range 30 {
					_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return retry.After(errDown, time.Second) })
				}
				h.Clock.Advance(time.Hour)
			}
			if name == "budget.Ratio" {
				for range 10 {
					_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
				}
				h.Clock.Advance(11 * time.Second)
				_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return errDown })
				h.AssertAttempts(2) // the one retry of a process with few calls
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: %v of real time passed, want none", name, took)
			}
		})
	}
}

// A Pace that is new in each test waits exactly, and the same again: its time and its random
// part are the policy's.
func TestWaitsForAPaceAreExact(t *testing.T) {
	for range 3 {
		pace := new(pace.Pace)
		h := retrytest.New(t, retry.Policy{Guards: []retry.Guard{pace}})
		_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
		pace.Hold(20 * time.Second)
		if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		h.AssertHeld(retry.Held{Number: 1, Delay: 20 * time.Second}) // up to a quarter longer: the harness's Rand is 0
	}
}

// The waits under the harness follow a Pace's own clock only if it is the harness's.
func TestPaceOnAnotherClockIsTold(t *testing.T) {
	clock := clockx.NewVirtual(time.Now())
	for _, tt := range []struct {
		pace *pace.Pace
		want []string
	}{
		{new(pace.Pace), nil}, // it takes the policy's
		{nil, nil},
		{&pace.Pace{Clock: clock}, []string{"retrytest: the policy's Pace counts on another clock: to have it follow the virtual one, leave its Clock nil, or set it to h.Clock before the first run"}},
	} {
		f := &fake{}
		retrytest.New(f, retry.Policy{Guards: []retry.Guard{nil, tt.pace}})
		if !slices.Equal(f.logs, tt.want) {
			t.Errorf("the logs are %q, want %q", f.logs, tt.want)
		}
	}
}

// No attempts and no waits of a policy that was not used prove nothing.
func TestAssertionsOfAPolicyThatWasNotUsedFail(t *testing.T) {
	for name, assert := range map[string]func(*retrytest.Harness){
		"AssertDelays":   func(h *retrytest.Harness) { h.AssertDelays() },
		"AssertAttempts": func(h *retrytest.Harness) { h.AssertAttempts(0) },
		"AssertHeld":     func(h *retrytest.Harness) { h.AssertHeld() },
		"AssertReason":   func(h *retrytest.Harness) { h.AssertReason(retry.ReasonNone) },
	} {
		f := &fake{}
		assert(retrytest.New(f, policy()))
		if want := []string{"retrytest: no run has begun: was h.Policy given to Do?"}; !slices.Equal(f.failures, want) {
			t.Errorf("%s: the failures are %q, want %q", name, f.failures, want)
		}
	}
}

func TestOneAttemptIsSingular(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
	h.AssertAttempts(2)
	if len(f.failures) != 1 || !strings.HasPrefix(f.failures[0], "retrytest: there was 1 attempt, want 2\n") {
		t.Errorf("the failures are %q", f.failures)
	}
}

// A Supervise is told from its begin, with the pauses between its runs.
func TestAllRunsOfSuperviseAreRecorded(t *testing.T) {
	f := &fake{}
	p := policy()
	p.MaxAttempts = 0
	h := retrytest.New(f, p)
	_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }) // is replaced
	op := retrytest.Script(h,
		retrytest.Fail[int](errDown),
		retrytest.Fail[int](retry.After(errDown, time.Second)).Taking(time.Minute),
		retrytest.Fail[int](errDown),
		retrytest.Fail[int](retry.Stop(errDown)).Taking(time.Minute),
	)
	supervise := func() error {
		return retry.Supervise(t.Context(), h.Policy, time.Minute, func(ctx context.Context) error { _, err := op(ctx); return err })
	}
	err := supervise()
	f.end()
	h.AssertAttempts(4)
	h.AssertDelays(100*ms, 1100*ms, 100*ms)
	h.AssertReason(retry.ReasonPermanent)
	if len(f.failures) != 0 {
		t.Errorf("the failures are %q, want none", f.failures)
	}
	if got := h.Attempts(); len(got) != 4 || got[3].Number != 2 {
		t.Errorf("Attempts() = %+v, want two of each run", got)
	}
	if got := h.Delays(); !slices.Equal(got, []time.Duration{100 * ms, 1100 * ms, 100 * ms}) {
		t.Errorf("Delays() = %v, want the pause between the waits", got)
	}
	if s := h.Summary(); s.Err != err || s.Attempts != 2 || s.Elapsed != 61200*ms {
		t.Errorf("Summary() = %+v, want the latest run's", s)
	}
	h.AssertAttempts(9)
	want := `retrytest: there were 4 attempts, want 9
fetch, in virtual time:
        0s  attempt 1 took 0s and failed, transient: down
        0s  wait 100ms
     100ms  attempt 2 took 1m0s and failed, throttled: down
    1m0.1s  done: it was up for long enough, and a new run begins
    1m0.1s  pause 1.1s, of which the server asked for 1s
    1m1.2s  attempt 1 took 0s and failed, transient: down
    1m1.2s  wait 100ms
    1m1.3s  attempt 2 took 1m0s and failed, permanent: down
    2m1.3s  gave up: fetch: gave up after 2 attempts in 1m1.2s (permanent): down`
	if len(f.failures) != 1 || f.failures[0] != want {
		t.Errorf("the failure is\n%q, want\n%s", f.failures, want)
	}
	op = retrytest.Script(h, retrytest.Return(1)) // another Supervise replaces the first
	_ = supervise()
	h.AssertAttempts(1)
	h.AssertDelays()
	if len(f.failures) != 1 {
		t.Errorf("the failures are %q, want one attempt and no waits", f.failures[1:])
	}
}

// The pause is recorded as it begins, and where it ends the call so is that.
func TestCancelInThePauseOfSuperviseIsRecorded(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	ctx, cancel := context.WithCancel(t.Context())
	h.Clock.AfterFunc(time.Minute+50*ms, cancel)
	_ = retry.Supervise(ctx, h.Policy, time.Minute, func(ctx context.Context) error {
		_ = h.Clock.Sleep(ctx, time.Minute)
		return errDown
	})
	h.AssertAttempts(1)
	h.AssertDelays(100 * ms)
	h.AssertReason(retry.ReasonCanceled)
	if len(f.failures) != 0 {
		t.Errorf("the failures are %q, want none", f.failures)
	}
	h.AssertAttempts(0)
	const want = `retrytest: there was 1 attempt, want 0
fetch, in virtual time:
        0s  attempt 1 took 1m0s and failed, transient: down
      1m0s  done: it was up for long enough, and a new run begins
      1m0s  pause 100ms
   1m0.05s  gave up: fetch: not attempted (canceled): context canceled`
	if len(f.failures) != 1 || f.failures[0] != want {
		t.Errorf("the failure is\n%q, want\n%s", f.failures, want)
	}
}

// Each delivery of a queue's message is a run that succeeds though its attempt failed,
// and a wait follows: here another process may make the next one.
func TestDeliveryReplacesTheOneBefore(t *testing.T) {
	h := retrytest.New(t, policy())
	hooks := h.Policy.Hooks
	for n := range 2 {
		a := retry.Attempt{Number: n + 1}
		ctx := hooks.Start(t.Context(), h.Policy)
		hooks.Attempt(ctx, a)
		a.Err, a.Delay = errDown, time.Second
		hooks.AttemptDone(ctx, a)
		hooks.Wait(ctx, a)
		hooks.Done(ctx, retry.Summary{Attempts: a.Number})
	}
	h.AssertAttempts(1)
	h.AssertDelays(time.Second)
}

func TestStepsThatWereNotReachedFailTheTest(t *testing.T) {
	fail := retrytest.Fail[int](errDown)
	for _, tt := range []struct {
		name  string
		steps []retrytest.Step[int]
		want  string // how the failure begins, if there is one
	}{
		{"all reached", []retrytest.Step[int]{fail, retrytest.Return(1)}, ""},
		{"one is left", []retrytest.Step[int]{fail, retrytest.Return(1), fail}, "retrytest: step 3 of a script of 3 steps was not reached: if that is meant, make it Optional\nfetch, in virtual time:"},
		{"two are left", []retrytest.Step[int]{retrytest.Return(1), fail, fail}, "retrytest: step 2 of a script of 3 steps was not reached: "},
		{"an optional one is left", []retrytest.Step[int]{retrytest.Return(1), fail.Optional()}, ""},
		{"what follows an optional one is left", []retrytest.Step[int]{retrytest.Return(1), fail.Taking(ms).Optional(), fail}, ""},
		{"an optional one was reached, the next is left", []retrytest.Step[int]{fail, retrytest.Return(1).Optional(), fail}, "retrytest: step 3 of a script of 3 steps was not reached: "},
	} {
		f := &fake{}
		h := retrytest.New(f, policy())
		if _, err := retry.Do(t.Context(), h.Policy, retrytest.Script(h, tt.steps...)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		f.end()
		if tt.want == "" && len(f.failures) > 0 || tt.want != "" && (len(f.failures) != 1 || !strings.HasPrefix(f.failures[0], tt.want)) {
			t.Errorf("%s: the failures are %q, want %q", tt.name, f.failures, tt.want)
		}
	}
}

func TestScriptThatWasNotCalledFailsTheTest(t *testing.T) {
	f := &fake{}
	retrytest.Script(retrytest.New(f, policy()), retrytest.Return(1))
	f.end()
	const want = "retrytest: step 1 of a script of 1 steps was not reached: if that is meant, make it Optional\nno run has begun: was h.Policy given to Do?"
	if !slices.Equal(f.failures, []string{want}) {
		t.Errorf("the failures are %q, want %q", f.failures, want)
	}
}

// A step that is cut short has not failed as it was going to.
func TestStepThatIsCutShortReturnsItsContextsError(t *testing.T) {
	p := policy()
	p.AttemptTimeout, p.MaxAttempts = time.Second, 1
	h := retrytest.New(t, p)
	_, err := retry.Do(t.Context(), h.Policy, retrytest.Script(h, retrytest.Fail[int](errDown).Taking(10*time.Second)))
	if got := h.Attempts()[0].Err; got != context.DeadlineExceeded || errors.Is(err, errDown) {
		t.Errorf("the attempt ended with %v and the run with %v, want the context's error", got, err)
	}
}

// What the last run's context holds is free when the test is over.
func TestCleanupReleasesTheContextOfTheLastRun(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	ctx, _ := retry.Do(t.Context(), h.Policy, func(ctx context.Context) (context.Context, error) { return ctx, nil })
	if ctx.Err() != nil {
		t.Errorf("before the end of the test the context has ended with %v", ctx.Err())
	}
	f.end()
	if ctx.Err() != context.Canceled {
		t.Errorf("after the end of the test the context's error is %v, want Canceled", ctx.Err())
	}
}

// go test shows the line of the test, or of the code that called the operation.
func TestFailuresAreReportedWhereTheTestIs(t *testing.T) {
	run := func(h *retrytest.Harness) {
		_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
	}
	for name, fail := range map[string]func(*fake, *retrytest.Harness){
		"not begun":      func(_ *fake, h *retrytest.Harness) { h.AssertAttempts(0) },
		"AssertDelays":   func(_ *fake, h *retrytest.Harness) { run(h); h.AssertDelays(time.Hour) },
		"AssertAttempts": func(_ *fake, h *retrytest.Harness) { run(h); h.AssertAttempts(9) },
		"AssertHeld":     func(_ *fake, h *retrytest.Harness) { run(h); h.AssertHeld(retry.Held{}) },
		"AssertReason":   func(_ *fake, h *retrytest.Harness) { run(h); h.AssertReason(retry.ReasonBudget) },
		"a long script":  func(f *fake, h *retrytest.Harness) { retrytest.Script(h, retrytest.Return(1)); f.end() },
		"a short script": func(_ *fake, h *retrytest.Harness) { _, _ = retrytest.Script[int](h)(t.Context()) },
		"a timer":        func(f *fake, h *retrytest.Harness) { h.Clock.AfterFunc(time.Hour, func() {}); f.end() },
	} {
		f := &fake{}
		fail(f, retrytest.New(f, policy()))
		if len(f.failures) != 1 || len(f.places) != 0 {
			t.Errorf("%s: the failures %q are reported in %v, want one in the test alone", name, f.failures, f.places)
		}
	}
}

func TestStoryOfARunThatWaits(t *testing.T) {
	f := &fake{}
	p := policy()
	var h *retrytest.Harness
	p.Hooks.Wait = func(context.Context, retry.Attempt) { h.AssertAttempts(0) }
	h = retrytest.New(f, p)
	ctx, cancel := context.WithCancel(t.Context())
	h.Clock.AfterFunc(ms, cancel)
	_ = retry.Run(ctx, h.Policy, func(context.Context) error { return retry.After(errDown, 1) })
	const want = `retrytest: there was 1 attempt, want 0
fetch, in virtual time:
        0s  attempt 1 took 0s and failed, throttled: down
        0s  wait 100.000001ms, of which the server asked for 1ns
            the run goes on`
	if len(f.failures) != 1 || f.failures[0] != want {
		t.Errorf("the failure is\n%q, want\n%s", f.failures, want)
	}
}

func TestClockShowsThePromisedTime(t *testing.T) {
	if got, want := retrytest.New(t, policy()).Clock.Now(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("the clock shows %v, want %v", got, want)
	}
}

// What the last run's context holds is free when the next one begins.
func TestNextRunReleasesTheContextOfTheLast(t *testing.T) {
	h := retrytest.New(t, policy())
	ctx, _ := retry.Do(t.Context(), h.Policy, func(ctx context.Context) (context.Context, error) { return ctx, nil })
	_ = retry.Run(t.Context(), h.Policy, func(context.Context) error {
		if ctx.Err() != context.Canceled {
			t.Errorf("in the next run the context's error is %v, want Canceled", ctx.Err())
		}
		return nil
	})
}

// A queue may end a run before its attempt.
func TestRunWithoutAnAttempt(t *testing.T) {
	h := retrytest.New(t, policy())
	for range 2 {
		ctx := h.Policy.Hooks.Start(t.Context(), h.Policy)
		h.Policy.Hooks.Done(ctx, retry.Summary{})
	}
	h.AssertAttempts(0)
	h.AssertReason(retry.ReasonNone)
}

func TestAttemptThatBlocksAfterItMovedFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := retrytest.New(f, policy())
		start := time.Now()
		err := retry.Run(t.Context(), h.Policy, func(ctx context.Context) error {
			time.Sleep(1500 * ms)
			h.Clock.Advance(ms)
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(start); !errors.Is(err, context.Canceled) || took != 4*time.Second || len(f.failures) != 1 {
			t.Errorf("Run() = %v after %v with the failures %q, want it canceled after 4s", err, took, f.failures)
		}
	})
}

// After its test nobody hears of an attempt that still blocks: go test would panic.
func TestAttemptThatOutlivesTheTestIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := retrytest.New(f, policy())
		over := make(chan struct{})
		go func() { _ = retry.Run(t.Context(), h.Policy, func(context.Context) error { <-over; return nil }) }()
		synctest.Wait()
		f.end()
		time.Sleep(time.Minute)
		if len(f.failures) != 0 {
			t.Errorf("the failures are %q, want none", f.failures)
		}
		close(over)
		synctest.Wait()
	})
}

func TestSuccessStory(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, retry.Policy{})
	_, _ = retry.Do(t.Context(), h.Policy, retrytest.Script(h, retrytest.Return(1).Taking(ms)))
	h.AssertReason(retry.ReasonMaxAttempts)
	want := `retrytest: the run ended with success, want max_attempts
the run, in virtual time:
        0s  attempt 1 took 1ms and succeeded
       1ms  done`
	if len(f.failures) != 1 || f.failures[0] != want {
		t.Errorf("the failure is\n%q, want\n%s", f.failures, want)
	}
}

func TestScriptThatRunsOutFails(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	got, err := retry.Do(t.Context(), h.Policy, retrytest.Script(h, retrytest.Fail[int](errDown)))
	if e, ok := errors.AsType[*retry.Error](err); got != 0 || !ok || e.Reason != retry.ReasonPermanent || e.Attempts != 2 {
		t.Errorf("Do() = %v, %v, want it to stop at the second call", got, err)
	}
	if len(f.failures) != 1 || !strings.HasPrefix(f.failures[0], "retrytest: call 2 of an operation with a script of 1 steps\nfetch, in virtual time:") {
		t.Errorf("the failures are %q", f.failures)
	}
}

func TestStepRespectsItsContext(t *testing.T) {
	p := policy()
	p.AttemptTimeout = time.Second
	p.MaxAttempts = 2
	h := retrytest.New(t, p)
	_, err := retry.Do(t.Context(), h.Policy, retrytest.Script(h,
		retrytest.Return(1).Taking(time.Minute),
		retrytest.Return(2).Taking(time.Minute)))
	if !errors.Is(err, context.DeadlineExceeded) || h.Summary().Elapsed != 2100*ms {
		t.Errorf("Do() = %v after %v, want two timeouts of 1s", err, h.Summary().Elapsed)
	}
}

func TestRandomNumbers(t *testing.T) {
	delays := func(random func() float64) []time.Duration {
		h := retrytest.New(t, retry.Policy{MaxAttempts: 4, Rand: random}) // full jitter
		_, _ = retry.Do(t.Context(), h.Policy, func(context.Context) (int, error) { return 0, errDown })
		return h.Delays()
	}
	if got, want := delays(nil), []time.Duration{0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("by default the waits are %v, want %v", got, want)
	}
	if got, want := delays(half), []time.Duration{50 * ms, 100 * ms, 200 * ms}; !slices.Equal(got, want) {
		t.Errorf("with Rand the waits are %v, want %v", got, want)
	}
}

func half() float64 { return .5 }

func TestLeftTimersFailTheTest(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	_ = retry.Run(t.Context(), h.Policy, func(ctx context.Context) error {
		_, cancel := h.Clock.WithTimeoutCause(ctx, time.Hour, nil)
		_ = cancel
		return nil
	})
	f.end()
	if len(f.failures) != 1 || !strings.Contains(f.failures[0], "1 deadlines or timers were left running on the virtual clock") {
		t.Errorf("the failures are %q", f.failures)
	}
	f = &fake{}
	h = retrytest.New(f, policy())
	_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return errDown })
	f.end()
	if len(f.failures) != 0 {
		t.Errorf("without a leak the failures are %q", f.failures)
	}
}

// The patience is real time, which a bubble has pass at once.
func TestBlockedAttemptFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := retrytest.New(f, policy())
		start := time.Now()
		err := retry.Run(t.Context(), h.Policy, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || time.Since(start) != 2*time.Second {
			t.Errorf("Run() = %v after %v, want it canceled after 2s", err, time.Since(start))
		}
		if len(f.failures) != 1 || !strings.Contains(f.failures[0], "Step.Taking") || !strings.Contains(f.failures[0], "attempt 1 is running") {
			t.Errorf("the failures are %q, want advice and the story", f.failures)
		}
	})
}

// What the harness puts around the context changes nothing that a run sees.
func TestDeadlineOnTheHarnessClock(t *testing.T) {
	h := retrytest.New(t, policy())
	ctx, cancel := h.Clock.WithTimeoutCause(t.Context(), time.Second, errDown)
	defer cancel()
	_, err := retry.Do(ctx, h.Policy, retrytest.Script(h, retrytest.Return(1).Taking(time.Minute)))
	h.AssertReason(retry.ReasonDeadline)
	if !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do() = %v, want the deadline and its cause", err)
	}
}

// A deadline of the system's clock ends no run here. The test is told when that matters.
func TestDeadlineOfTheSystemsClock(t *testing.T) {
	down := func(context.Context) error { return errDown }
	for name, tt := range map[string]struct {
		deadline time.Duration // 0: none
		attempts int
		runs     int // of Supervise, 0: a Run
		fails    bool
	}{
		"that a run passes":              {250 * ms, 3, 0, true},
		"that a run does not reach":      {time.Minute, 3, 0, false},
		"none":                           {0, 3, 0, false},
		"that runs of Supervise pass":    {4 * time.Minute, 1, 5, true},
		"that runs of Supervise respect": {6 * time.Minute, 1, 5, false},
	} {
		f := &fake{}
		p := policy()
		p.MaxAttempts = tt.attempts
		h := retrytest.New(f, p)
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if tt.deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, tt.deadline)
		}
		if tt.runs == 0 {
			_ = retry.Run(ctx, h.Policy, down)
		} else {
			left := tt.runs
			_ = retry.Supervise(ctx, h.Policy, time.Minute, func(ctx context.Context) error {
				if left--; left < 0 {
					return retry.Stop(errDown)
				}
				_ = h.Clock.Sleep(ctx, time.Minute)
				return errDown
			})
		}
		cancel()
		f.end()
		if fails := len(f.failures) > 0; fails != tt.fails || fails && (len(f.failures) > 1 || !strings.Contains(f.failures[0], "WithTimeoutCause")) {
			t.Errorf("a deadline %s: the failures are %q", name, f.failures)
		}
	}
	synctest.Test(t, func(t *testing.T) { // where both clocks show the same at first
		f := &fake{}
		h := retrytest.New(f, policy())
		ctx, cancel := context.WithTimeout(t.Context(), 250*ms)
		defer cancel()
		_ = retry.Run(ctx, h.Policy, down)
		h.AssertReason(retry.ReasonDeadline)
		_ = retry.Run(ctx, h.Policy, func(context.Context) error { h.Clock.Advance(time.Minute); return nil })
		if f.end(); len(f.failures) > 0 {
			t.Errorf("in a bubble the failures are %q", f.failures)
		}
	})
}

func TestContextOutlivesTheRun(t *testing.T) {
	h := retrytest.New(t, policy())
	ctx, err := retry.Do(t.Context(), h.Policy, func(ctx context.Context) (context.Context, error) { return ctx, nil })
	if err != nil || ctx.Err() != nil {
		t.Errorf("after the run the attempt's context has ended with %v: a body could not be read", ctx.Err())
	}
}

func TestSlowButMovingAttemptIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := retrytest.New(t, policy())
		err := retry.Run(t.Context(), h.Policy, func(context.Context) error {
			for range 5 {
				time.Sleep(1500 * ms)
				h.Clock.Advance(ms)
			}
			return nil
		})
		if err != nil {
			t.Errorf("Run() = %v", err)
		}
		time.Sleep(time.Minute) // nothing barks after the attempt
	})
}

func TestRunInsideOfARun(t *testing.T) {
	h := retrytest.New(t, retry.Policy{MaxAttempts: 2})
	calls := 0
	err := retry.Run(t.Context(), h.Policy, func(ctx context.Context) error {
		return retry.Run(ctx, h.Policy, func(context.Context) error {
			if calls++; calls < 4 {
				return errDown
			}
			return nil
		})
	})
	if err != nil || calls != 4 {
		t.Errorf("%d calls, %v; want 4 and no error", calls, err)
	}
}

// foreign is a context that is not the standard library's: it takes that a
// goroutine to learn of its end.
type foreign struct {
	context.Context
	done chan struct{}
	over atomic.Bool
}

func (f *foreign) Done() <-chan struct{} { return f.done }

func (f *foreign) Err() error {
	if f.over.Load() {
		return context.Canceled
	}
	return nil
}

func (f *foreign) cancel() {
	f.over.Store(true)
	close(f.done)
}

func TestCancelOfAForeignContext(t *testing.T) {
	for range 500 {
		ctx := &foreign{Context: context.Background(), done: make(chan struct{})}
		h := retrytest.New(t, policy())
		err := retry.Run(ctx, h.Policy, func(context.Context) error {
			ctx.cancel()
			return errDown
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Run() = %v, want Canceled", err)
		}
		h.AssertAttempts(1)
		h.AssertReason(retry.ReasonCanceled)
	}
}

func TestWaitsOfZeroAreExplained(t *testing.T) {
	const advice = "choose others with Policy.Rand"
	for _, tt := range []struct {
		policy retry.Policy
		want   bool
	}{
		{retry.Policy{}, true},
		{retry.Policy{Rand: func() float64 { return 0 }}, false},
		{policy(), false},
		{retry.Policy{Backoff: retry.Constant(0), Rand: half}, false},
	} {
		f := &fake{}
		h := retrytest.New(f, tt.policy)
		_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return errDown })
		h.AssertDelays(time.Hour)
		if len(f.failures) != 1 || strings.Contains(f.failures[0], advice) != tt.want {
			t.Errorf("Rand set: %v: the failures are %q, want advice: %v", tt.policy.Rand != nil, f.failures, tt.want)
		}
	}
}

// waker has attempts wait until somebody wakes them, which nobody does.
type waker struct{ timed bool }

func (w waker) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	if e.Earlier.Again && w.timed {
		return retry.Pass{}, nil
	}
	return retry.Pass{Wait: time.Second, Wake: make(chan struct{}), Timed: w.timed, Again: true}, nil
}

func (waker) Leave(retry.Pass, retry.Exit) {}

// The harness's clock moves while a run waits for a guard to wake it.
func TestWaitForAWakeEndsUnderTheHarness(t *testing.T) {
	h := retrytest.New(t, retry.Policy{Guards: []retry.Guard{waker{timed: true}}})
	if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	h.AssertHeld(retry.Held{Number: 1, Delay: time.Second})
	h = retrytest.New(t, retry.Policy{Guards: []retry.Guard{waker{}}, MaxElapsed: time.Minute})
	if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); !errors.Is(err, retry.ErrPaced) || h.Summary().Elapsed != time.Minute {
		t.Errorf("%v after %v, want an ErrPaced after a minute", err, h.Summary().Elapsed)
	}
	h = retrytest.New(t, retry.Policy{Guards: []retry.Guard{waker{}}})
	if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); !errors.Is(err, retry.ErrPaced) {
		t.Errorf("without a limit %v, want an ErrPaced", err)
	}
}
