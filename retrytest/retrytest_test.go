package retrytest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
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
}

func (f *fake) Helper()          {}
func (f *fake) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fake) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
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

// What a failed assertion says is all that its reader has.
func TestFailuresTellTheStory(t *testing.T) {
	f := &fake{}
	h := retrytest.New(f, policy())
	h.AssertAttempts(1)
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
			inFlight, f.failures = f.failures[1], f.failures[:1]
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
		"retrytest: there were 0 attempts, want 1\nno run has begun: was h.Policy given to Do?",
		"retrytest: the waits were [100ms 1.2s], want [100ms 200ms]" + story,
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
	delays := func(opts ...retrytest.Option) []time.Duration {
		h := retrytest.New(t, retry.Policy{MaxAttempts: 4}, opts...) // full jitter
		_, _ = retry.Do(t.Context(), h.Policy, func(context.Context) (int, error) { return 0, errDown })
		return h.Delays()
	}
	if got, want := delays(), []time.Duration{0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("by default the waits are %v, want %v", got, want)
	}
	if got, want := delays(retrytest.WithRand(.5)), []time.Duration{50 * ms, 100 * ms, 200 * ms}; !slices.Equal(got, want) {
		t.Errorf("WithRand(.5): the waits are %v, want %v", got, want)
	}
	first, second, other := delays(retrytest.WithSeed(1)), delays(retrytest.WithSeed(1)), delays(retrytest.WithSeed(2))
	if !slices.Equal(first, second) || slices.Equal(first, other) || first[0] == first[1] {
		t.Errorf("WithSeed: the waits are %v, %v, and for another seed %v", first, second, other)
	}
}

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
	const advice = "choose others with WithRand or WithSeed"
	for _, tt := range []struct {
		policy retry.Policy
		opts   []retrytest.Option
		want   bool
	}{
		{retry.Policy{}, nil, true},
		{retry.Policy{}, []retrytest.Option{retrytest.WithRand(0)}, false},
		{retry.Policy{}, []retrytest.Option{retrytest.WithSeed(1)}, false},
		{policy(), nil, false},
	} {
		f := &fake{}
		h := retrytest.New(f, tt.policy, tt.opts...)
		_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return errDown })
		h.AssertDelays(time.Hour)
		if len(f.failures) != 1 || strings.Contains(f.failures[0], advice) != tt.want {
			t.Errorf("with %d options the failures are %q, want advice: %v", len(tt.opts), f.failures, tt.want)
		}
	}
}

func TestRatioBudgetOnRealTimeIsTold(t *testing.T) {
	var none *retry.RatioBudget
	for budget, want := range map[retry.Budget]int{&retry.RatioBudget{}: 1, &retry.RatioBudget{Clock: clockx.System()}: 0, &retry.TokenBudget{}: 0, none: 0} {
		f := &fake{}
		retrytest.New(f, retry.Policy{Budget: budget})
		if len(f.logs) != want {
			t.Errorf("%T: the log is %q, want %d lines", budget, f.logs, want)
		}
	}
}
