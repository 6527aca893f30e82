package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/budgettest"
)

var (
	errDown     = errors.New("down")
	errShutdown = errors.New("shutdown")
	epoch       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

const (
	sec  = time.Second
	hour = time.Hour
)

// virtual returns a policy on a virtual clock, without jitter: waits of 1 s, 2 s,
// 4 s, … up to five attempts.
func virtual() (retry.Policy, *clockx.Virtual) {
	v := clockx.NewVirtual(epoch)
	return retry.Policy{
		Name:        "op",
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.NoJitter},
		Clock:       v,
		Rand:        func() float64 { return 0 },
	}, v
}

// failing returns an op that fails n times and then returns 42, and its counter.
func failing(n int, err error) (func(context.Context) (int, error), *int) {
	calls := new(int)
	return func(context.Context) (int, error) {
		*calls++
		if *calls <= n {
			return -*calls, err
		}
		return 42, nil
	}, calls
}

// gaveUp returns err as the *retry.Error that it must be.
func gaveUp(t *testing.T, err error) *retry.Error {
	t.Helper()
	e, ok := err.(*retry.Error)
	if !ok {
		t.Fatalf("the error is %T (%v), want *retry.Error", err, err)
	}
	return e
}

func wantReason(t *testing.T, err error, want retry.Reason) *retry.Error {
	t.Helper()
	e := gaveUp(t, err)
	if e.Reason != want {
		t.Errorf("Reason = %v, want %v (%v)", e.Reason, want, e)
	}
	return e
}

func wantElapsed(t *testing.T, v *clockx.Virtual, want time.Duration) {
	t.Helper()
	if got := v.Now().Sub(epoch); got != want {
		t.Errorf("the run took %v, want %v", got, want)
	}
	if n := v.Pending(); n != 0 {
		t.Errorf("%d timers are left on the clock, want 0", n)
	}
}

func TestFirstTrySuccess(t *testing.T) {
	p, v := virtual()
	op, calls := failing(0, nil)
	got, err := retry.Do(t.Context(), p, op)
	if got != 42 || err != nil || *calls != 1 {
		t.Errorf("Do() = %v, %v after %d calls, want 42, nil after 1", got, err, *calls)
	}
	wantElapsed(t, v, 0)
}

func TestSuccessAfterRetries(t *testing.T) {
	p, v := virtual()
	op, calls := failing(3, errDown)
	got, err := retry.Do(t.Context(), p, op)
	if got != 42 || err != nil || *calls != 4 {
		t.Errorf("Do() = %v, %v after %d calls, want 42, nil after 4", got, err, *calls)
	}
	wantElapsed(t, v, (1+2+4)*time.Second)
}

func TestZeroPolicyMakesThreeAttempts(t *testing.T) {
	v := clockx.NewVirtual(epoch)
	op, calls := failing(9, errDown)
	_, err := retry.Do(t.Context(), retry.Policy{Clock: v}, op)
	e := wantReason(t, err, retry.ReasonMaxAttempts)
	if *calls != 3 || e.Attempts != 3 {
		t.Errorf("%d calls, %d attempts, want 3", *calls, e.Attempts)
	}
	if most := 300 * time.Millisecond; e.Elapsed >= most {
		t.Errorf("full jitter waited %v, want less than %v", e.Elapsed, most)
	}
}

func TestGivingUpReturnsTheLastValueAndEveryError(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 3
	errs := []error{errors.New("one"), errors.New("two"), errors.New("three")}
	n := 0
	got, err := retry.Do(t.Context(), p, func(context.Context) (string, error) {
		n++
		return fmt.Sprint("value ", n), errs[n-1]
	})
	if got != "value 3" {
		t.Errorf("Do() = %q, want the last value", got)
	}
	e := wantReason(t, err, retry.ReasonMaxAttempts)
	if e.Name != "op" || e.Attempts != 3 || e.Elapsed != 3*time.Second || e.Waited != 3*time.Second || e.Cause != nil {
		t.Errorf("Error = %+v, want 3 attempts, all of 3s waited, no cause", e)
	}
	if !slices.Equal(e.Errs, errs) || e.Last() != errs[2] {
		t.Errorf("Errs = %v, Last = %v, want %v", e.Errs, e.Last(), errs)
	}
	for _, want := range errs {
		if !errors.Is(err, want) {
			t.Errorf("errors.Is(err, %v) = false", want)
		}
	}
	wantElapsed(t, v, 3*time.Second)
}

func TestOneAttemptStillGivesAnError(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 1
	op, _ := failing(1, errDown)
	_, err := retry.Do(t.Context(), p, op)
	e := wantReason(t, err, retry.ReasonMaxAttempts)
	if e.Attempts != 1 || e.Last() != errDown {
		t.Errorf("Error = %+v, want one attempt with %v", e, errDown)
	}
}

func TestNoCallOnADoneContext(t *testing.T) {
	p, v := virtual()
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	budget := counting(&p)
	log := record(&p)
	op, calls := failing(0, nil)
	_, err := retry.Do(ctx, p, op)
	e := wantReason(t, err, retry.ReasonCanceled)
	if *calls != 0 || e.Attempts != 0 || e.Last() != cause || e.Cause != cause {
		t.Errorf("%d calls, Error = %+v, want no call and the cause", *calls, e)
	}
	if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
		t.Errorf("errors.Is finds cause: %v, Canceled: %v, want both", errors.Is(err, cause), errors.Is(err, context.Canceled))
	}
	if got, want := log.String(), "start done(canceled)"; got != want {
		t.Errorf("hooks saw %q, want %q", got, want)
	}
	if *budget != (countingBudget{}) {
		t.Errorf("the budget was told of a run that made no attempt: %+v", *budget)
	}
	wantElapsed(t, v, 0)
}

func TestSuccessIsKeptThoughTheContextEnded(t *testing.T) {
	p, _ := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	for _, fails := range []int{0, 2} {
		op, calls := failing(fails, errDown)
		got, err := retry.Do(ctx, p, func(ctx context.Context) (int, error) {
			v, err := op(ctx)
			if *calls == fails+1 {
				cancel()
			}
			return v, err
		})
		if got != 42 || err != nil {
			t.Errorf("after %d failures Do() = %v, %v, want 42, nil", fails, got, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}

func TestCancelDuringAttempt(t *testing.T) {
	p, v := virtual()
	cause := errors.New("user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	got, err := retry.Do(ctx, p, func(context.Context) (int, error) {
		calls++
		v.Advance(time.Second)
		cancel(cause)
		return 7, errDown // not the context's error: the context decides all the same
	})
	e := wantReason(t, err, retry.ReasonCanceled)
	if calls != 1 || got != 7 || e.Last() != errDown || e.Cause != cause || e.Elapsed != time.Second || e.Waited != 0 {
		t.Errorf("%d calls, value %d, Error = %+v", calls, got, e)
	}
	if !errors.Is(err, errDown) || !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v hides one of the op's error, the cause, and Canceled", err)
	}
	wantElapsed(t, v, time.Second)
}

// The classifier's word does not count against the context's.
func TestDeadContextStopsWhateverTheClassifierSays(t *testing.T) {
	p, v := virtual()
	p.Classify = func(error) retry.Class { return retry.Transient }
	calls := 0
	_, err := retry.Do(limited(t, v, time.Second), p, func(ctx context.Context) (int, error) {
		calls++
		return 0, v.Sleep(ctx, time.Minute)
	})
	e := wantReason(t, err, retry.ReasonDeadline)
	if calls != 1 || e.Elapsed != time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d calls, Error = %+v, want one call and DeadlineExceeded after 1s", calls, e)
	}
}

func TestCancelDuringWait(t *testing.T) {
	p, v := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	v.AfterFunc(2500*time.Millisecond, cancel) // in the second wait, which lasts from 1 s to 3 s
	op, calls := failing(9, errDown)
	_, err := retry.Do(ctx, p, op)
	e := wantReason(t, err, retry.ReasonCanceled)
	if *calls != 2 || e.Attempts != 2 || e.Last() != errDown || e.Cause != context.Canceled {
		t.Errorf("%d calls, Error = %+v, want 2 calls and Canceled", *calls, e)
	}
	if e.Elapsed != 2500*time.Millisecond || e.Waited != e.Elapsed {
		t.Errorf("Elapsed = %v, Waited = %v, want 2.5s, as it was cut", e.Elapsed, e.Waited)
	}
	wantElapsed(t, v, 2500*time.Millisecond)
}

func TestCancelAtTheInstantAWaitEnds(t *testing.T) {
	p, v := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	v.AfterFunc(time.Second, cancel)
	op, calls := failing(9, errDown)
	_, err := retry.Do(ctx, p, op)
	wantReason(t, err, retry.ReasonCanceled)
	if *calls != 1 {
		t.Errorf("op was called %d times, want 1: not once more after the cancel", *calls)
	}
}

func TestCancelInAHookIsSeenBeforeTheNextCall(t *testing.T) {
	for _, hook := range []string{"start", "attempt", "second attempt", "attemptDone", "wait"} {
		t.Run(hook, func(t *testing.T) {
			p, v := virtual()
			ctx, cancel := context.WithCancel(t.Context())
			budget := counting(&p)
			at := func(name string) {
				if name == hook {
					cancel()
				}
			}
			p.Hooks = retry.Hooks{
				Start: func(ctx context.Context, _ retry.Policy) context.Context { at("start"); return ctx },
				Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
					at("attempt")
					if a.Number == 2 {
						at("second attempt")
					}
					return ctx
				},
				AttemptDone: func(context.Context, retry.Attempt) { at("attemptDone") },
				Wait:        func(context.Context, retry.Attempt) { at("wait") },
			}
			log := record(&p)
			op, calls := failing(9, errDown)
			_, err := retry.Do(ctx, p, op)
			e := wantReason(t, err, retry.ReasonCanceled)
			want := map[string]struct {
				calls   int
				events  string
				elapsed time.Duration
			}{
				"start":          {0, "start done(canceled)", 0},
				"attempt":        {0, "start attempt(1) attemptDone(1) done(canceled)", 0},
				"second attempt": {1, "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(canceled)", time.Second},
				"attemptDone":    {1, "start attempt(1) attemptDone(1) done(canceled)", 0},
				"wait":           {1, "start attempt(1) attemptDone(1) wait(1s) done(canceled)", 0},
			}[hook]
			if *calls != want.calls || e.Attempts != want.calls {
				t.Errorf("%d calls, %d attempts, want %d", *calls, e.Attempts, want.calls)
			}
			if got := log.String(); got != want.events {
				t.Errorf("hooks saw\n%s, want\n%s", got, want.events)
			}
			if budget.ended > 1 {
				t.Errorf("the budget saw %d ends", budget.ended)
			}
			wantElapsed(t, v, want.elapsed)
		})
	}
}

// A wait that ends at the deadline or past it is not begun: nobody sleeps towards
// an attempt that cannot follow.
func TestNoWaitPastTheCallersDeadline(t *testing.T) {
	for _, tt := range []struct {
		timeout time.Duration
		calls   int
	}{
		{time.Second - 1, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{3 * time.Second, 2},
		{3*time.Second + 1, 3},
	} {
		p, v := virtual()
		ctx, cancel := v.WithTimeoutCause(t.Context(), tt.timeout, errors.New("the caller's"))
		op, calls := failing(9, errDown)
		_, err := retry.Do(ctx, p, op)
		cancel()
		e := wantReason(t, err, retry.ReasonDeadline)
		if *calls != tt.calls {
			t.Errorf("with %v left: %d calls, want %d", tt.timeout, *calls, tt.calls)
		}
		if e.Cause != context.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) {
			t.Errorf("with %v left: %v is not both DeadlineExceeded and op's error", tt.timeout, err)
		}
		wantElapsed(t, v, e.Elapsed)
	}
}

func TestMaxElapsed(t *testing.T) {
	for _, tt := range []struct {
		limit time.Duration
		calls int
	}{
		{time.Second - 1, 1},
		{time.Second, 2}, // a wait may end at the limit, not later
		{3*time.Second - 1, 2},
		{3 * time.Second, 3},
		{-1, 5}, // counts as zero: no limit
	} {
		p, v := virtual()
		p.MaxElapsed = tt.limit
		op, calls := failing(9, errDown)
		_, err := retry.Do(t.Context(), p, op)
		want := retry.ReasonMaxElapsed
		if tt.calls == 5 {
			want = retry.ReasonMaxAttempts
		}
		e := wantReason(t, err, want)
		if *calls != tt.calls || e.Cause != nil {
			t.Errorf("MaxElapsed %v: %d calls, cause %v, want %d calls", tt.limit, *calls, e.Cause, tt.calls)
		}
		wantElapsed(t, v, e.Waited)
	}
}

// A wait ends when it was planned to, however long a hook or a func of the policy takes meanwhile. So no
// attempt begins after MaxElapsed.
func TestAWaitEndsWhenItWasPlannedTo(t *testing.T) {
	onEach(t, func(t *testing.T, p retry.Policy, run func(context.Context, retry.Policy, func(context.Context) error) error) {
		slow := func() { _ = on(p).Sleep(t.Context(), 5*time.Second) }
		p.Backoff, p.MaxElapsed = retry.Constant(8*time.Second), 10*time.Second
		classify, attemptDone, wait := p, p, p
		classify.Classify = func(error) retry.Class { slow(); return retry.Unknown }
		attemptDone.Hooks.AttemptDone = func(context.Context, retry.Attempt) { slow() }
		wait.Hooks.Wait = func(context.Context, retry.Attempt) { slow() }
		for name, slow := range map[string]retry.Policy{"Classify": classify, "AttemptDone": attemptDone, "Wait": wait} {
			began, at := on(p).Now(), []time.Duration(nil)
			_ = run(t.Context(), slow, func(context.Context) error {
				at = append(at, on(p).Now().Sub(began))
				return errDown
			})
			if want := []time.Duration{0, 8 * time.Second}; !slices.Equal(at, want) {
				t.Errorf("a slow %s: attempts at %v, want %v", name, at, want)
			}
		}
	})
}

func TestMaxElapsedCountsTheAttempts(t *testing.T) {
	p, v := virtual()
	p.MaxElapsed = 3 * time.Second
	_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		v.Advance(1500 * time.Millisecond)
		return 0, errDown
	})
	e := wantReason(t, err, retry.ReasonMaxElapsed) // 1.5 s, wait to 2.5 s, 4 s: too late for another wait
	if e.Attempts != 2 || e.Elapsed != 4*time.Second || e.Waited != time.Second {
		t.Errorf("Error = %+v, want 2 attempts in 4s, 1s of it waited", e)
	}
}

func TestElapsedPlusWaitDoesNotOverflow(t *testing.T) {
	for limit, want := range map[time.Duration]retry.Reason{
		time.Hour:     retry.ReasonMaxElapsed,
		math.MaxInt64: retry.ReasonMaxAttempts, // the sum saturates at the limit
	} {
		p, v := virtual()
		p.MaxElapsed = limit
		p.Backoff = retry.Constant(math.MaxInt64)
		_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
			v.Advance(time.Second)
			return 0, errDown
		})
		if e := wantReason(t, err, want); e.Elapsed < 0 || e.Waited < 0 {
			t.Errorf("Elapsed = %v, Waited = %v, want neither negative", e.Elapsed, e.Waited)
		}
	}
}

func TestUnlimitedAttempts(t *testing.T) {
	for _, limit := range []int{retry.Unlimited, math.MinInt} {
		p, _ := virtual()
		p.MaxAttempts = limit
		p.Backoff = retry.Constant(24 * time.Hour) // nor is there a hidden limit of time
		op, calls := failing(1000, errDown)
		if got, err := retry.Do(t.Context(), p, op); got != 42 || err != nil || *calls != 1001 {
			t.Errorf("MaxAttempts %d: Do() = %v, %v after %d calls, want 42 after 1001", limit, got, err, *calls)
		}
	}
}

func TestTheCapLimitsWaitsOnly(t *testing.T) {
	p, v := virtual()
	p.Backoff = retry.Exponential{Base: time.Second, Max: 2 * time.Second, Jitter: retry.NoJitter}
	p.MaxAttempts = 10_000 // nor is this clamped
	op, calls := failing(math.MaxInt, errDown)
	_, err := retry.Do(t.Context(), p, op)
	if wantReason(t, err, retry.ReasonMaxAttempts); *calls != 10_000 {
		t.Errorf("%d calls, want 10000", *calls)
	}
	wantElapsed(t, v, time.Second+9998*2*time.Second)
}

func TestAttemptTimeout(t *testing.T) {
	p, v := virtual()
	p.AttemptTimeout = 2 * time.Second
	var contexts []context.Context
	_, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) {
		contexts = append(contexts, ctx)
		if at, ok := ctx.Deadline(); !ok || at != v.Now().Add(2*time.Second) {
			t.Errorf("attempt %d: Deadline() = %v, %v, want 2s from now", len(contexts), at, ok)
		}
		return 0, v.Sleep(ctx, time.Hour)
	})
	e := wantReason(t, err, retry.ReasonMaxAttempts) // not mistaken for the caller's deadline
	if e.Attempts != 5 || e.Elapsed != 5*2*time.Second+e.Waited || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Error = %+v, want five attempts of 2s each", e)
	}
	for i, ctx := range contexts {
		if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != retry.ErrAttemptTimeout {
			t.Errorf("attempt %d ended with %v, cause %v", i+1, ctx.Err(), context.Cause(ctx))
		}
	}
	wantElapsed(t, v, (5*2+1+2+4+8)*time.Second)
}

// An op may hide that its attempt's time ran out. What says more than that something
// went wrong stays what it is.
func TestTimeoutThatOpHides(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		policy retry.Policy
		want   retry.Class
	}{
		{"unknown", errDown, retry.Policy{}, retry.TimedOut},
		{"transient", syscall.ECONNRESET, retry.Policy{}, retry.TimedOut},
		{"transient by Classify", fs.ErrNotExist, retry.Policy{Classify: func(error) retry.Class { return retry.Transient }}, retry.TimedOut},
		{"timed out", context.DeadlineExceeded, retry.Policy{}, retry.TimedOut},
		{"not accepted", retry.ErrRejected, retry.Policy{}, retry.TimedOut},
		{"asks for a wait", hinted(time.Second), retry.Policy{}, retry.TimedOut},
		{"throttled", retry.After(errDown, time.Second), retry.Policy{}, retry.Throttled},
		{"unprocessed", syscall.ECONNREFUSED, retry.Policy{}, retry.Unprocessed},
		{"permanent", retry.Stop(errDown), retry.Policy{}, retry.Permanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, v := virtual()
			p.MaxAttempts, p.AttemptTimeout, p.Classify = 2, time.Second, tt.policy.Classify
			var asked []retry.Class
			p.Budget = asks(func(c retry.Class) bool { asked = append(asked, c); return true })
			events := record(&p)
			_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
				if retry.AttemptNumber(ctx) == 1 {
					_ = v.Sleep(ctx, time.Hour)
				} else {
					v.Advance(time.Second - 1) // in time
				}
				return tt.err
			})
			if got := events.attempts[0].Class; got != tt.want {
				t.Errorf("hooks see %v, want %v", got, tt.want)
			}
			if tt.want == retry.Permanent {
				return
			}
			if tt.err != retry.ErrRejected && !slices.Equal(asked, []retry.Class{tt.want}) {
				t.Errorf("the budget sees %v, want %v", asked, tt.want)
			}
			bare := p.Judge(tt.err).Class
			if got := events.attempts[1].Class; got != bare {
				t.Errorf("of an attempt in time hooks see %v, want %v", got, bare)
			}
		})
	}
}

// A connection with the deadline of op's context often fails before the context ends:
// two timers fire at the same time, in any order.
func TestDeadlineThatPassesBeforeTheContextEnds(t *testing.T) {
	notYet := func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		time.Sleep(time.Until(deadline))
		return errDown
	}
	synctest.Test(t, func(t *testing.T) {
		classes := map[retry.Class]int{}
		p := retry.Policy{MaxAttempts: 200, AttemptTimeout: time.Second, Backoff: retry.Constant(0)}
		p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { classes[a.Class]++ }
		wantReason(t, retry.Run(t.Context(), p, notYet), retry.ReasonMaxAttempts)
		if classes[retry.TimedOut] != 200 {
			t.Errorf("hooks see %v, want timed_out each time", classes)
		}
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := retry.Run(ctx, retry.Policy{MaxAttempts: 1}, notYet)
			cancel()
			wantReason(t, err, retry.ReasonDeadline)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) {
				t.Fatalf("%v is not both DeadlineExceeded and op's error", err)
			}
		}
	})
}

// asks is a budget that is one func.
type asks func(retry.Class) bool

func (a asks) Withdraw(w retry.Withdrawal) bool { return a(w.Class) }
func (asks) End(retry.Outcome)                  {}

// TimedOut is Transient in all but its name.
func TestTimedOutIsRetriedAsTransient(t *testing.T) {
	p, v := virtual()
	p.Classify, p.ThrottleBackoff = byClass, retry.Constant(time.Hour)
	op, calls := failing(1, classed(retry.TimedOut))
	if _, err := retry.Do(t.Context(), p, op); err != nil || *calls != 2 {
		t.Errorf("%v after %d calls, want nil after 2", err, *calls)
	}
	wantElapsed(t, v, time.Second) // Backoff's wait, not ThrottleBackoff's
	p.NonIdempotent = true
	op, calls = failing(1, classed(retry.TimedOut))
	_, err := retry.Do(t.Context(), p, op)
	if wantReason(t, err, retry.ReasonNotIdempotent); *calls != 1 {
		t.Errorf("%d calls, want 1: op may have run", *calls)
	}
	p.NonIdempotent = false
	v.Advance(time.Hour)
	began := v.Now()
	op, _ = failing(1, errors.Join(classed(retry.TimedOut), hinted(time.Minute)))
	if _, err := retry.Do(t.Context(), p, op); err != nil {
		t.Error(err)
	}
	if took := v.Now().Sub(began); took != time.Minute+time.Second {
		t.Errorf("it took %v, want the hint and the backoff", took)
	}
}

// Also where nobody watches the inner run, on the system clock and without hooks.
func TestInnerRunCountsItsOwnAttempts(t *testing.T) {
	p := retry.Policy{Backoff: retry.Constant(0)}
	_ = retry.Run(t.Context(), p, func(outer context.Context) error {
		_, _ = retry.Do(outer, p, func(ctx context.Context) (int, error) {
			if n := retry.AttemptNumber(ctx); n != 1 {
				t.Errorf("in attempt %d, Do numbers its first attempt %d", retry.AttemptNumber(outer), n)
			}
			return 0, nil
		})
		_ = retry.Run(outer, p, func(ctx context.Context) error {
			if n := retry.AttemptNumber(ctx); n != 1 {
				t.Errorf("in attempt %d, Run numbers its first attempt %d", retry.AttemptNumber(outer), n)
			}
			return nil
		})
		return errDown
	})
}

// Where nobody watches, a run is written for speed: its rules are the same.
func TestUnwatchedRuns(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}
	errs := []error{errors.New("first"), errors.New("second"), errors.New("third")}
	for name, run := range doors {
		err := run(over, p, func(context.Context) error {
			t.Errorf("%s calls op though its context has ended", name)
			return nil
		})
		wantReason(t, err, retry.ReasonCanceled)

		var numbers []int
		err = run(t.Context(), p, func(ctx context.Context) error {
			numbers = append(numbers, retry.AttemptNumber(ctx))
			return errs[len(numbers)-1]
		})
		e := wantReason(t, err, retry.ReasonMaxAttempts)
		if !slices.Equal(e.Errs, errs) || e.Attempts != 3 || !slices.Equal(numbers, []int{1, 2, 3}) {
			t.Errorf("%s made attempts %v and kept %d errors %v, want 3 of each", name, numbers, e.Attempts, e.Errs)
		}
	}
}

// The shortest limits there are.
func TestMaxElapsedOfANanosecond(t *testing.T) {
	p, v := virtual()
	p.MaxElapsed, p.Backoff = 1, retry.Constant(0)
	err := retry.Run(t.Context(), p, func(context.Context) error { v.Advance(2); return errDown })
	if e := wantReason(t, err, retry.ReasonMaxElapsed); e.Attempts != 1 {
		t.Errorf("%d attempts, want 1: the first took two nanoseconds", e.Attempts)
	}
}

func TestShortestAttemptTimeout(t *testing.T) {
	_ = retry.Run(t.Context(), retry.Policy{AttemptTimeout: 1}, func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a timeout of a nanosecond is none")
		}
		return nil
	})
}

func TestAttemptTimeoutIsFreedAfterEachAttempt(t *testing.T) {
	p, v := virtual()
	p.AttemptTimeout = time.Hour
	op, calls := failing(3, errDown)
	var last context.Context
	_, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) {
		if n := v.Pending(); n != 1 {
			t.Errorf("attempt %d: %d deadlines on the clock, want 1", *calls+1, n)
		}
		last = ctx
		return op(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if last.Err() != context.Canceled {
		t.Errorf("the last attempt's context has Err() = %v, want it canceled", last.Err())
	}
	wantElapsed(t, v, 7*time.Second)

	_ = retry.Run(t.Context(), p, func(ctx context.Context) error { last = ctx; return nil })
	if last.Err() != context.Canceled || v.Pending() != 0 {
		t.Errorf("after a first-try success the context has Err() = %v, and %d deadlines are left", last.Err(), v.Pending())
	}
}

func TestAttemptTimeoutKeepsTheContextsValues(t *testing.T) {
	p, v := virtual()
	p.AttemptTimeout = time.Hour
	var trail []string
	p.Hooks = with("a", &trail)
	n := 0
	_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
		n++
		if retry.AttemptNumber(ctx) != n || value(ctx, "attempt") != "a" {
			t.Errorf("attempt %d: AttemptNumber = %d, the hook's value is %q", n, retry.AttemptNumber(ctx), value(ctx, "attempt"))
		}
		return errDown
	})
	_ = retry.Run(t.Context(), p, func(context.Context) error { return nil })
	if v.Pending() != 0 {
		t.Errorf("%d timeouts are left, also of a first-try success", v.Pending())
	}
}

func TestNegativeDurationsCountAsZero(t *testing.T) {
	p, _ := virtual()
	p.AttemptTimeout, p.MaxRetryAfter, p.MaxAttempts = -1, -1, 2
	err := retry.Run(t.Context(), p, func(ctx context.Context) error {
		if ctx.Err() != nil {
			t.Error("the attempt has timed out before it began")
		}
		return retry.After(errDown, time.Second)
	})
	wantReason(t, err, retry.ReasonMaxAttempts)
}

func TestErrAttemptTimeoutIsATimeout(t *testing.T) {
	if !errors.Is(retry.ErrAttemptTimeout, context.DeadlineExceeded) {
		t.Error("ErrAttemptTimeout is not a DeadlineExceeded")
	}
	if e, ok := retry.ErrAttemptTimeout.(net.Error); !ok || !e.Timeout() {
		t.Errorf("ErrAttemptTimeout is not a net.Error that timed out")
	}
}

func TestFirstAttemptGetsTheCallersContext(t *testing.T) {
	p, _ := virtual()
	ctx := context.WithValue(t.Context(), epoch, "x")
	n := 0
	_ = retry.Run(ctx, p, func(got context.Context) error {
		n++
		if same := got == ctx; same != (n == 1) {
			t.Errorf("attempt %d: the context is the caller's: %v", n, same)
		}
		if got.Value(epoch) != "x" || retry.AttemptNumber(got) != n {
			t.Errorf("attempt %d: Value = %v, AttemptNumber = %d", n, got.Value(epoch), retry.AttemptNumber(got))
		}
		return errDown
	})
}

func TestAttemptNumberOfNestedRuns(t *testing.T) {
	if n := retry.AttemptNumber(t.Context()); n != 1 {
		t.Errorf("outside any run AttemptNumber = %d, want 1", n)
	}
	p, _ := virtual()
	p.MaxAttempts = 2
	var got []string
	_ = retry.Run(t.Context(), p, func(outer context.Context) error {
		err := retry.Run(outer, p, func(inner context.Context) error {
			ctx, cancel := context.WithCancel(inner)
			defer cancel()
			got = append(got, fmt.Sprint(retry.AttemptNumber(outer), ".", retry.AttemptNumber(ctx)))
			return errDown
		})
		got = append(got, fmt.Sprint(retry.AttemptNumber(outer)))
		return err
	})
	if want := []string{"1.1", "1.2", "1", "2.1", "2.2", "2"}; !slices.Equal(got, want) {
		t.Errorf("AttemptNumbers = %v, want %v", got, want)
	}
}

func TestNestedRunsMultiply(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 3
	calls := 0
	inner := func(ctx context.Context) error {
		return retry.Run(ctx, p, func(context.Context) error { calls++; return errDown })
	}
	middle := func(ctx context.Context) error { return retry.Run(ctx, p, inner) }
	if err := middle(t.Context()); !errors.Is(err, errDown) || calls != 9 {
		t.Errorf("two layers of 3: %d calls (%v), want 9", calls, err)
	}
	calls = 0
	outer := p
	outer.Classify = retry.AlreadyRetried
	err := retry.Run(t.Context(), outer, func(ctx context.Context) error { return retry.Run(ctx, outer, inner) })
	if calls != 3 || !errors.Is(err, errDown) {
		t.Errorf("three layers of 3 with AlreadyRetried: %d calls, want 3", calls)
	}
	wantReason(t, err, retry.ReasonPermanent)
}

func TestInnerRunsEndDecidesTheClass(t *testing.T) {
	for _, tt := range []struct {
		name  string
		inner retry.Policy
		err   error
		calls int
	}{
		{"inner permanent", retry.Policy{}, retry.Stop(errDown), 1},
		{"inner refused", retry.Policy{}, retry.Refuse(errDown), 1},
		{"inner not idempotent", retry.Policy{NonIdempotent: true}, errDown, 1},
		{"inner ran out of attempts", retry.Policy{MaxAttempts: 2}, errDown, 6},
		{"the inner mark is not the outer's", retry.Policy{MaxAttempts: 2}, retry.After(errDown, time.Second), 6},
		{"inner hint too long", retry.Policy{MaxRetryAfter: time.Second}, retry.After(errDown, time.Minute), 3},
		{"inner value rejected", retry.Policy{MaxAttempts: 2}, retry.ErrRejected, 6},
		{"inner rejected, not idempotent", retry.Policy{NonIdempotent: true}, retry.ErrRejected, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer, v := virtual()
			outer.MaxAttempts = 3
			tt.inner.Clock = v
			calls := 0
			err := retry.Run(t.Context(), outer, func(ctx context.Context) error {
				return fmt.Errorf("wrapped: %w", retry.Run(ctx, tt.inner, func(context.Context) error { calls++; return tt.err }))
			})
			if calls != tt.calls {
				t.Errorf("%d calls, want %d (%v)", calls, tt.calls, err)
			}
		})
	}
}

// hides shows what it holds by its method As alone.
type hides struct{ error }

func (h hides) As(target any) bool { return errors.As(h.error, target) }

// op may make several calls: what a classifier finds in the last error says nothing of
// the others. So only op's own word, or that of the policy's author, permits a retry.
func TestNonIdempotent(t *testing.T) {
	dialed := &net.OpError{Op: "dial", Err: errors.New("refused")}
	gaveUp := func(undone bool) error {
		return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{errDown, errDown}, Undone: undone}
	}
	for _, tt := range []struct {
		name     string
		err      error
		classify retry.Classifier
		calls    int
	}{
		{"may have run", errDown, nil, 1},
		{"the last call did nothing", dialed, nil, 1},
		{"a status that proves", status(421), nil, 1},
		{"marked", retry.Undone(errDown), nil, 3},
		{"marked inside", fmt.Errorf("x: %w", retry.Undone(errDown)), nil, 3},
		{"one of two marked", errors.Join(retry.Undone(errDown), errDown), nil, 1},
		{"the other of two marked", errors.Join(errDown, nil, retry.Undone(errDown)), nil, 1},
		{"both marked", errors.Join(retry.Undone(errDown), nil, retry.Undone(errDown)), nil, 3},
		{"two errors, marked together", retry.Undone(errors.Join(errDown, errDown)), nil, 3},
		{"marked for an inner run", &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{retry.Undone(errDown)}}, nil, 1},
		{"marked, found by As only", hides{retry.Undone(errDown)}, nil, 1},
		{"marked, and one that is not, found by As only", &skips{new(tally), retry.Undone(errDown), errDown}, nil, 1},
		{"a wait", retry.After(errDown, time.Second), nil, 1},
		{"a wait, and marked", retry.After(retry.Undone(errDown), time.Second), nil, 3},
		{"marked, and a wait", retry.Undone(retry.After(errDown, time.Second)), nil, 3},
		{"an unaccepted value", retry.ErrRejected, nil, 1},
		{"an unaccepted value, marked", retry.Undone(retry.ErrRejected), nil, 3},
		{"unprocessed by the policy's word", classed(retry.Unprocessed), byClass, 3},
		{"throttled by the policy's word", classed(retry.Throttled), byClass, 1},
		{"not known to the policy", dialed, byClass, 1},
		{"vouched for: the only call did nothing", dialed, retry.DefaultClassifier, 3},
		{"vouched for: may have run", errDown, retry.DefaultClassifier, 1},
		{"vouched for: a wait proves nothing", hinted(time.Second), retry.DefaultClassifier, 1},
		{"an inner run that did nothing", gaveUp(true), nil, 1},
		{"vouched for: an inner run that did nothing", gaveUp(true), retry.DefaultClassifier, 3},
		{"vouched for: an inner run", gaveUp(false), retry.DefaultClassifier, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := virtual()
			p.NonIdempotent = true
			p.MaxAttempts = 3
			p.Classify = tt.classify
			calls := 0
			err := retry.Run(t.Context(), p, func(context.Context) error { calls++; return tt.err })
			want := retry.ReasonMaxAttempts
			if tt.calls == 1 {
				want = retry.ReasonNotIdempotent
			}
			if e := wantReason(t, err, want); calls != tt.calls || e.Attempts != tt.calls || e.Undone != (tt.calls > 1) {
				t.Errorf("%d calls, want %d; Undone %v", calls, tt.calls, e.Undone)
			}
		})
	}
}

// The first call charges a card, the second is refused.
func TestNonIdempotentDoesNotRepeatTheFirstOfTwoCalls(t *testing.T) {
	p, _ := virtual()
	p.NonIdempotent = true
	charged := 0
	err := retry.Run(t.Context(), p, func(context.Context) error {
		charged++
		return &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	})
	if wantReason(t, err, retry.ReasonNotIdempotent); charged != 1 {
		t.Errorf("charged %d times", charged)
	}
}

// Undone says nothing about whether a retry helps.
func TestUndoneDoesNotChangeWhatAnErrorMeans(t *testing.T) {
	for _, err := range []error{errDown, status(404), status(503), hinted(time.Second), retry.Stop(errDown), retry.Refuse(errDown), retry.After(errDown, time.Hour)} {
		got, want := retry.Policy{}.Judge(retry.Undone(err)), retry.Policy{}.Judge(err)
		if want.Undone = true; got != want {
			t.Errorf("Judge(Undone(%v)) = %+v, want %+v", err, got, want)
		}
	}
	if retry.Undone(nil) != nil {
		t.Error("Undone(nil) is not nil")
	}
	p, _ := virtual()
	p.Classify = func(err error) retry.Class {
		if err != errDown {
			t.Errorf("Classify got %v", err)
		}
		return retry.Permanent
	}
	wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return retry.Undone(errDown) }), retry.ReasonPermanent)
}

// classed is an error of a class that byClass knows.
type classed retry.Class

func (c classed) Error() string { return retry.Class(c).String() + " error" }

func byClass(err error) retry.Class {
	if c, ok := errors.AsType[classed](err); ok {
		return retry.Class(c)
	}
	return retry.Unknown
}

// Where two rules would end the run, the earlier one gives the reason.
func TestOrderOfRules(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 1
	wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return hinted(time.Hour) }), retry.ReasonMaxAttempts)
	p.NonIdempotent = true
	wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return errDown }), retry.ReasonNotIdempotent)
	wantReason(t, retry.Run(t.Context(), p, func(context.Context) error { return retry.Stop(errDown) }), retry.ReasonPermanent)
}

// The first limit that is reached gives the reason, in the documented order.
func TestOrderOfLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*retry.Policy)
		want   retry.Reason
	}{
		{"permanent", func(p *retry.Policy) { p.Classify = func(error) retry.Class { return retry.Permanent } }, retry.ReasonPermanent},
		{"not idempotent", func(p *retry.Policy) {
			p.NonIdempotent = true
			p.Classify = func(error) retry.Class { return retry.Transient }
		}, retry.ReasonNotIdempotent},
		{"attempts", func(p *retry.Policy) { p.MaxAttempts = 1 }, retry.ReasonMaxAttempts},
		{"the server's wait", func(p *retry.Policy) { p.MaxRetryAfter = time.Second }, retry.ReasonRetryAfter},
		{"elapsed", func(p *retry.Policy) { p.MaxElapsed = time.Second }, retry.ReasonMaxElapsed},
		{"deadline", func(*retry.Policy) {}, retry.ReasonDeadline},
		{"budget", nil, retry.ReasonBudget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, v := virtual()
			p.MaxAttempts = 2
			budget := &countingBudget{refuse: true}
			p.Budget = budget
			ctx := t.Context()
			if tt.change != nil {
				tt.change(&p)
				ctx = limited(t, v, time.Second)
			}
			err := retry.Run(ctx, p, func(context.Context) error { return hinted(time.Minute) })
			wantReason(t, err, tt.want)
			if asked := budget.asked > 0; asked != (tt.want == retry.ReasonBudget) {
				t.Errorf("the budget was asked: %v, though the run ended with %v", asked, tt.want)
			}
			if got := v.Now().Sub(epoch); got != 0 {
				t.Errorf("the run waited %v before it gave up, want 0", got)
			}
		})
	}
}

// hinted is an error by whose method the server asks for a wait.
type hinted time.Duration

func (h hinted) Error() string             { return "busy" }
func (h hinted) RetryAfter() time.Duration { return time.Duration(h) }

// promptly is an error by whose method the server asks for a retry at once, if it is true.
type promptly bool

const atOnce = promptly(true)

func (promptly) Error() string             { return "not this one" }
func (promptly) RetryAfter() time.Duration { return 0 }
func (p promptly) RetryNow() bool          { return bool(p) }

// A retry at once has no wait at all, which backoffs and hooks can tell from silence. But a guard
// is not asked again without a wait.
func TestServerAsksForARetryAtOnce(t *testing.T) {
	err := func(err error) retry.Verdict { return retry.Policy{}.Judge(err) }
	for _, tt := range []struct {
		name   string
		v      retry.Verdict
		atOnce bool
		want   time.Duration
	}{
		{"an error", err(atOnce), true, 0},
		{"wrapped", err(fmt.Errorf("x: %w", atOnce)), true, 0},
		{"behind As", err(shows{&tally{}, atOnce}), true, 0},
		{"undone", err(retry.Undone(atOnce)), true, 0},
		{"of a run that has not retried", err(&retry.Error{Attempts: 1, Errs: []error{atOnce}}), true, 0},
		{"a verdict", retry.Verdict{Err: errDown, Now: true}, true, 0},
		{"a verdict on a busy server", retry.Verdict{Err: errDown, Class: retry.Throttled, Now: true}, true, 0},
		{"beside a hint", retry.Verdict{Err: errDown, Now: true, Hint: 3 * time.Second}, false, 4 * time.Second},
		{"silence", retry.Verdict{Err: errDown}, false, time.Second},
		{"a negative hint", retry.Verdict{Err: errDown, Hint: -1}, false, time.Second},
	} {
		var steps []retry.Step
		p, v := virtual()
		p.MaxAttempts = 3
		p.Backoff = retry.BackoffFunc(func(s retry.Step) time.Duration {
			steps = append(steps, s)
			return time.Second
		})
		var hooked []bool
		p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { hooked = append(hooked, a.Now) }
		a := p.Attempts(t.Context())
		for a.Next() {
			a.Judged(tt.v)
		}
		if got := v.Now().Sub(epoch); got != 2*tt.want || !slices.Equal(hooked, []bool{tt.atOnce, tt.atOnce, tt.atOnce}) {
			t.Errorf("%s: two waits took %v, want %v; hooks: %v, want %v", tt.name, got, 2*tt.want, hooked, tt.atOnce)
		}
		if len(steps) != 2 || steps[1].Now != tt.atOnce || steps[1].Prev != time.Second {
			t.Errorf("%s: the steps are %+v", tt.name, steps)
		}
	}
	p, v := virtual()
	p.MaxAttempts, p.Guards = 2, []retry.Guard{&gate{script: []enter{refuses(atOnce)}}}
	if err := retry.Run(t.Context(), p, func(context.Context) error { return nil }); err != nil || v.Now().Sub(epoch) != time.Millisecond {
		t.Errorf("after a guard's refusal: %v, %v", err, v.Now().Sub(epoch))
	}
}

func TestServerHint(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"mark", retry.After(errDown, 10*time.Second), 10*time.Second + time.Second},
		{"method", hinted(10 * time.Second), 10*time.Second + time.Second},
		{"method under wrapping", fmt.Errorf("x: %w", hinted(10*time.Second)), 10*time.Second + time.Second},
		{"joined, the first hint", errors.Join(errDown, hinted(2*time.Second), hinted(9*time.Second)), 2*time.Second + time.Second},
		{"mark before method", retry.After(hinted(time.Hour), 3*time.Second), 3*time.Second + time.Second},
		{"of an inner run's last error", &retry.Error{Errs: []error{hinted(7), hinted(8)}}, 8 + time.Second},
		{"negative mark", retry.After(errDown, -time.Second), time.Second},
		{"negative method", hinted(-time.Second), time.Second},
		{"longest allowed", hinted(5 * time.Minute), 5*time.Minute + time.Second},
		{"around an inner run", waits{&retry.Error{Errs: []error{hinted(time.Minute)}}}, time.Second + time.Second},
		{"of two, the outer one", waits{hinted(time.Minute)}, time.Second + time.Second},
		{"none, by a mark", retry.After(atOnce, 0), time.Second},
		{"none, by a method", promptly(false), time.Second},
		{"atOnce, then a wait", errors.Join(atOnce, hinted(2*time.Second)), 2*time.Second + time.Second},
		{"a wait, then at once", errors.Join(hinted(2*time.Second), atOnce), 2*time.Second + time.Second},
		{"a run has retried at once", &retry.Error{Attempts: 2, Errs: []error{atOnce, atOnce}}, time.Second},
		{"too long", hinted(5*time.Minute + 1), 0},
		{"overflowing", hinted(math.MaxInt64), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, v := virtual()
			p.MaxAttempts = 2
			err := retry.Run(t.Context(), p, func(context.Context) error { return tt.err })
			want := retry.ReasonMaxAttempts
			if tt.want == 0 {
				want = retry.ReasonRetryAfter
			}
			wantReason(t, err, want)
			wantElapsed(t, v, tt.want)
		})
	}
}

func TestJitterOnlyLengthensAHint(t *testing.T) {
	for _, random := range []float64{0, .5, .999} {
		p, v := virtual()
		p.MaxAttempts = 2
		p.Backoff = nil // full jitter of 100 ms
		p.Rand = func() float64 { return random }
		_ = retry.Run(t.Context(), p, func(context.Context) error { return hinted(time.Second) })
		want := time.Second + time.Duration(random*1e8)
		wantElapsed(t, v, want)
	}
}

func TestHintPlusBackoffSaturates(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.MaxRetryAfter = 2, math.MaxInt64
	p.Backoff = retry.Constant(math.MaxInt64)
	_ = retry.Run(t.Context(), p, func(context.Context) error { return hinted(math.MaxInt64) })
	wantElapsed(t, v, math.MaxInt64)
}

func TestThrottleBackoff(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 4
	p.Backoff = retry.Constant(time.Second)
	p.ThrottleBackoff = retry.Constant(time.Minute)
	p.Classify = byClass
	errs := []error{classed(retry.Throttled), classed(retry.Transient), retry.After(errDown, 0), errDown}
	n := 0
	_ = retry.Run(t.Context(), p, func(context.Context) error { n++; return errs[n-1] })
	wantElapsed(t, v, time.Minute+time.Second+time.Minute)
}

func TestBackoffSeesTheSteps(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 4
	p.Rand = func() float64 { return .25 }
	var got []retry.Step
	p.Backoff = retry.BackoffFunc(func(s retry.Step) time.Duration {
		got = append(got, s)
		return time.Duration(s.Retry) * time.Second
	})
	op, _ := failing(9, errDown)
	_, _ = retry.Do(t.Context(), p, op)
	want := []retry.Step{{Retry: 1, Rand: .25}, {Retry: 2, Prev: time.Second, Rand: .25}, {Retry: 3, Prev: 2 * time.Second, Rand: .25}}
	if !slices.Equal(got, want) {
		t.Errorf("Delay saw %v, want %v", got, want)
	}
}

func TestOddRandomNumbersAndDelays(t *testing.T) {
	for _, random := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1, 2} {
		p, v := virtual()
		p.MaxAttempts = 2
		p.Rand = func() float64 { return random }
		p.Backoff = retry.BackoffFunc(func(s retry.Step) time.Duration {
			if !(s.Rand >= 0 && s.Rand < 1) {
				t.Errorf("for %v Delay saw Rand = %v, want it in [0,1)", random, s.Rand)
			}
			return -time.Hour
		})
		op, _ := failing(9, errDown)
		_, _ = retry.Do(t.Context(), p, op)
		wantElapsed(t, v, 0)
	}
}

// A random number is drawn once for each retry, and for no other: none for a Constant without a hint.
func TestRandIsDrawnOnceForARetry(t *testing.T) {
	for name, tt := range map[string]struct {
		backoff retry.Backoff
		err     error
		want    int // in two retries
	}{
		"jitter":                   {nil, errDown, 2},
		"jitter and a hint":        {nil, retry.After(errDown, time.Second), 2},
		"constant":                 {retry.Constant(time.Second), errDown, 0},
		"constant and a hint":      {retry.Constant(time.Second), retry.After(errDown, time.Second), 2},
		"an end, without a retry":  {nil, retry.Stop(errDown), 0},
		"a retry that is too late": {nil, retry.After(errDown, time.Hour), 0},
	} {
		for door, run := range doors {
			p, _ := virtual()
			p.MaxAttempts, p.Backoff, p.MaxRetryAfter = 3, tt.backoff, time.Minute
			drawn := 0
			p.Rand = func() float64 { drawn++; return .5 }
			if _ = run(t.Context(), p, func(context.Context) error { return tt.err }); drawn != tt.want {
				t.Errorf("%s, %s: %d numbers drawn, want %d", name, door, drawn, tt.want)
			}
		}
	}
}

func TestOnePolicyServesManyAndTwiceTheSame(t *testing.T) {
	var wg sync.WaitGroup
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Decorrelated{Base: 1, Max: 10}, Budget: &budget.Token{Capacity: 1 << 20}}
	for range 16 {
		wg.Go(func() {
			for range 50 {
				op, calls := failing(2, errDown)
				if got, err := retry.Do(t.Context(), p, op); got != 42 || err != nil || *calls != 3 {
					t.Errorf("Do() = %v, %v after %d calls, want 42 after 3", got, err, *calls)
				}
			}
		})
	}
	wg.Wait()
}

func TestPanicPassesThrough(t *testing.T) {
	for _, fails := range []int{0, 2} {
		p, v := virtual()
		p.AttemptTimeout = time.Hour
		budget := counting(&p)
		log := record(&p)
		op, calls := failing(fails, errDown)
		if got := caught(func() {
			_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
				_, err := op(ctx)
				if *calls > fails {
					panic("boom")
				}
				return err
			})
		}); got != "boom" {
			t.Errorf("recovered %v, want op's own value", got)
		}
		if !strings.HasSuffix(log.String(), fmt.Sprintf("attempt(%d) attemptDone(%d) done(panic)", fails+1, fails+1)) {
			t.Errorf("hooks saw %q, want the attempt and the run closed", log)
		}
		if last := log.attempts[fails]; last.Err == nil || log.summary.Err == nil || log.summary.Attempts != fails+1 {
			t.Errorf("AttemptDone saw error %v, Done saw %+v, want errors", last.Err, log.summary)
		}
		if budget.ended != 1 || budget.ok {
			t.Errorf("budget = %+v, want one run that has ended, not ok", budget)
		}
		if n := v.Pending(); n != 0 {
			t.Errorf("%d timeouts are left on the clock", n)
		}
	}
}

// On the system clock Do sleeps by itself, and the next attempt can panic all the same.
func TestPanicInARetryOnTheSystemClock(t *testing.T) {
	for _, clock := range []clockx.Clock{nil, clockx.System()} {
		budget := &countingBudget{}
		p := retry.Policy{Backoff: retry.Constant(1), Budget: budget, Clock: clock}
		log := record(&p)
		caught(func() {
			_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
				if retry.AttemptNumber(ctx) == 2 {
					panic("boom")
				}
				return errDown
			})
		})
		if budget.ended != 1 || log.summary.Reason != retry.ReasonPanic || log.summary.Attempts != 2 {
			t.Errorf("the budget saw %+v, hooks %q", *budget, log)
		}
	}
}

func TestPanicDoesNotChangeWhatWasWaited(t *testing.T) {
	p, v := virtual()
	log := record(&p)
	caught(func() {
		_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
			if retry.AttemptNumber(ctx) == 2 {
				v.Advance(5 * time.Second)
				panic("boom")
			}
			return errDown
		})
	})
	if s := log.summary; s.Waited != time.Second || s.Elapsed != 6*time.Second {
		t.Errorf("Done saw %+v, want 1s of 6s waited", s)
	}
}

func TestPanicInTheLastAttemptDoneEndsTheRunOnce(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 1
	budget := counting(&p)
	p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { panic("boom") }
	caught(func() { _ = retry.Run(t.Context(), p, func(context.Context) error { return errDown }) })
	if budget.ended != 1 {
		t.Errorf("the budget was told %d times of the end", budget.ended)
	}
}

func TestGoexitPassesThrough(t *testing.T) {
	p, _ := virtual()
	budget := counting(&p)
	log := record(&p)
	apart(func() {
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		t.Error("Do returned")
	})
	if got, want := log.String(), "start attempt(1) attemptDone(1) done(panic)"; got != want {
		t.Errorf("hooks saw %q, want %q", got, want)
	}
	if budget.ended != 1 {
		t.Errorf("budget = %+v, want the run ended", budget)
	}
}

// Whatever of the policy panics, the run is closed once.
func TestPanicInThePolicyClosesTheRun(t *testing.T) {
	boom := func() { panic("boom") }
	for name, change := range map[string]func(*retry.Policy){
		"classifier": func(p *retry.Policy) { p.Classify = func(error) retry.Class { boom(); return 0 } },
		"backoff": func(p *retry.Policy) {
			p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { boom(); return 0 })
		},
		"attempt": func(p *retry.Policy) {
			p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { boom(); return ctx }
		},
		"attemptDone": func(p *retry.Policy) { p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { boom() } },
		"wait":        func(p *retry.Policy) { p.Hooks.Wait = func(context.Context, retry.Attempt) { boom() } },
		"random":      func(p *retry.Policy) { p.Rand = func() float64 { boom(); return 0 } },
		"clock":       func(p *retry.Policy) { p.Clock.(*clockx.Virtual).AfterFunc(time.Millisecond, boom) },
		"timeout":     func(p *retry.Policy) { p.Clock = hookedClock{p.Clock, boom} },
	} {
		for _, fails := range []int{0, 9} {
			if fails == 0 && name != "attempt" && name != "attemptDone" && name != "timeout" {
				continue // these are needed only after a failure
			}
			t.Run(fmt.Sprint(name, fails), func(t *testing.T) {
				p, v := virtual()
				p.AttemptTimeout = time.Hour
				budget := counting(&p)
				change(&p)
				log := record(&p)
				op, calls := failing(fails, errDown)
				if caught(func() { _, _ = retry.Do(t.Context(), p, op) }) != "boom" {
					t.Error("the panic was swallowed")
				}
				if budget.ended != 1 || v.Pending() != 0 {
					t.Errorf("budget %+v, %d timeouts left", budget, v.Pending())
				}
				if strings.Count(log.String(), "done(") != 1 || log.summary.Waited > log.summary.Elapsed {
					t.Errorf("hooks saw %q, and Done %+v", log, log.summary)
				}
				if name == "attempt" && log.summary.Attempts != *calls {
					t.Errorf("Done saw %d attempts after %d calls", log.summary.Attempts, *calls)
				}
				if name == "attempt" || name == "attemptDone" {
					return // hooks must not panic: only what is above holds
				}
				if len(log.begun) != len(log.attempts) {
					t.Errorf("hooks saw %q", log)
				}
				if s := log.summary; s.Attempts != *calls || gaveUp(t, s.Err).Attempts != *calls {
					t.Errorf("Done saw %+v (%v) after %d calls", s, s.Err, *calls)
				}
			})
		}
	}
}

// otel reads where a canceled run was from its error.
func TestErrorKnowsWhetherTheRunWasInAWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   func(p *retry.Policy, cancel func())
		want bool
	}{
		{"before the run", func(_ *retry.Policy, cancel func()) { cancel() }, true},
		{"in an Attempt hook", func(p *retry.Policy, cancel func()) {
			p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { cancel(); return ctx }
		}, true},
		{"in a later Attempt hook", func(p *retry.Policy, cancel func()) {
			p.Hooks.Attempt = func(ctx context.Context, a retry.Attempt) context.Context {
				if a.Number == 2 {
					cancel()
				}
				return ctx
			}
		}, true},
		{"after op", func(p *retry.Policy, cancel func()) {
			p.Classify = func(error) retry.Class { cancel(); return retry.Transient }
		}, true},
		{"in a wait", func(p *retry.Policy, cancel func()) {
			p.Hooks.Wait = func(context.Context, retry.Attempt) { cancel() }
		}, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p, _ := virtual()
		tt.at(&p, cancel)
		err := retry.Run(ctx, p, func(context.Context) error { return errDown })
		cancel()
		if wantReason(t, err, retry.ReasonCanceled).InWait != tt.want {
			t.Errorf("canceled %s: in a wait: %v, want %v", tt.name, !tt.want, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := retry.Run(ctx, retry.Policy{}, func(context.Context) error { cancel(); return errDown })
	if wantReason(t, err, retry.ReasonCanceled).InWait {
		t.Error("canceled in an attempt: in a wait")
	}
}

func TestBadArgumentsPanicAtOnce(t *testing.T) {
	var none context.Context
	for name, tt := range map[string]struct {
		call func()
		want string
	}{
		"Do":          {func() { _, _ = retry.Do[int](t.Context(), retry.Policy{}, nil) }, "retry: nil op"},
		"Run":         {func() { _ = retry.Run(t.Context(), retry.Policy{}, nil) }, "retry: nil op"},
		"Until":       {func() { retry.Until[int](nil, nil) }, "retry: nil op"},
		"nil context": {func() { _ = retry.Run(none, retry.Policy{}, func(context.Context) error { return nil }) }, "retry: nil context"},
		"nil context of Do": {func() {
			_, _ = retry.Do(none, retry.Policy{}, func(context.Context) (int, error) { return 0, nil })
		}, "retry: nil context"},
		"NewTicker": {func() { retry.NewTicker(none, retry.Policy{}) }, "retry: nil context"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := caught(tt.call); got != tt.want {
				t.Errorf("panicked with %v, want %q", got, tt.want)
			}
		})
	}
}

func TestUntil(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 3
	p.Classify = func(err error) retry.Class {
		if errors.Is(err, retry.ErrRejected) {
			t.Error("Classify was asked about ErrRejected")
		}
		return retry.Permanent
	}
	n := 0
	count := func(context.Context) (int, error) { n++; return n, nil }
	got, err := retry.Do(t.Context(), p, retry.Until(count, func(v int) bool { return v == 3 }))
	if got != 3 || err != nil {
		t.Errorf("Do() = %v, %v, want 3, nil", got, err)
	}
	wantElapsed(t, v, 3*time.Second)

	got, err = retry.Do(t.Context(), p, retry.Until(count, func(int) bool { return false }))
	wantReason(t, err, retry.ReasonMaxAttempts)
	if got != 6 || !errors.Is(err, retry.ErrRejected) {
		t.Errorf("Do() = %v, %v, want the last value and ErrRejected", got, err)
	}

	n = 0
	if got, err := retry.Until(count, nil)(t.Context()); got != 1 || err != nil {
		t.Errorf("with a nil accept Until() = %v, %v, want 1, nil", got, err)
	}
	failed := retry.Until(func(context.Context) (int, error) { return 9, errDown }, func(int) bool { t.Error("accept was asked about an error"); return true })
	if got, err := failed(t.Context()); got != 9 || err != errDown {
		t.Errorf("Until() = %v, %v, want op's 9, %v", got, err, errDown)
	}
}

// hookedClock calls hook where a timeout is wanted.
type hookedClock struct {
	clockx.Clock
	hook func()
}

func (c hookedClock) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	c.hook()
	return c.Clock.WithTimeoutCause(ctx, d, cause)
}

// forgetful is a clock that does not say that the context ended.
type forgetful struct{ clockx.Clock }

func (c forgetful) Sleep(ctx context.Context, d time.Duration) error {
	_ = c.Clock.Sleep(ctx, d)
	return nil
}

func TestTheContextIsLookedAtAfterTheSleep(t *testing.T) {
	p, v := virtual()
	p.Clock = forgetful{v}
	ctx, cancel := context.WithCancel(t.Context())
	v.AfterFunc(time.Millisecond, cancel)
	op, calls := failing(9, errDown)
	_, err := retry.Do(ctx, p, op)
	if wantReason(t, err, retry.ReasonCanceled); *calls != 1 {
		t.Errorf("%d calls, want 1", *calls)
	}
}

func TestAClockThatCannotSleepEndsTheRun(t *testing.T) {
	p, v := virtual()
	p.Clock = sleepless{v, errDown}
	op, calls := failing(9, errors.New("x"))
	_, err := retry.Do(t.Context(), p, op)
	if e := wantReason(t, err, retry.ReasonCanceled); *calls != 1 || e.Cause != errDown {
		t.Errorf("%d calls, cause %v, want 1 call and the clock's error", *calls, e.Cause)
	}
}

// On the system clock every duration is exact too, in a bubble.
func TestSystemClockInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Backoff: retry.Constant(time.Second), AttemptTimeout: 2 * time.Second}
		start := time.Now()
		calls := 0
		got, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) {
			calls++
			if calls == 3 {
				return 42, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if got != 42 || err != nil || time.Since(start) != 6*time.Second {
			t.Errorf("Do() = %v, %v after %v, want 42, nil after 6s", got, err, time.Since(start))
		}
		_, err = retry.Do(t.Context(), retry.Policy{Backoff: retry.Constant(time.Second)}, func(context.Context) (int, error) {
			time.Sleep(250 * time.Millisecond)
			return 0, errDown
		})
		e := wantReason(t, err, retry.ReasonMaxAttempts)
		if e.Elapsed != 2750*time.Millisecond || e.Waited != 2*time.Second {
			t.Errorf("Elapsed = %v, Waited = %v, want 2.75s and 2s", e.Elapsed, e.Waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err = retry.Do(ctx, retry.Policy{Backoff: retry.Constant(time.Second)}, func(context.Context) (int, error) { return 0, errDown })
		if wantReason(t, err, retry.ReasonDeadline); time.Since(start) != time.Second {
			t.Errorf("stopped after %v, want 1s: the second wait would have passed the deadline", time.Since(start))
		}
	})
}

// Outside of a bubble the first attempt counts as well, whatever reads the clock.
func TestElapsedIncludesTheFirstAttempt(t *testing.T) {
	start := time.Now()
	_, err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) (int, error) {
		start := time.Now()
		for time.Since(start) < 5*time.Millisecond {
			runtime.Gosched()
		}
		return 0, errDown
	})
	total := time.Since(start)
	if e := gaveUp(t, err); e.Elapsed < 5*time.Millisecond || e.Elapsed > total || e.Waited != 0 {
		t.Errorf("Elapsed = %v of %v, Waited = %v", e.Elapsed, total, e.Waited)
	}
}

func TestCanceledWaitsLeaveNothing(t *testing.T) {
	n := 20_000
	if longTests {
		n = 100_000
	}
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	p := retry.Policy{Backoff: retry.Constant(time.Hour)}
	var wg, waiting sync.WaitGroup
	p.Hooks.Wait = func(context.Context, retry.Attempt) { waiting.Done() }
	waiting.Add(n)
	for range n {
		wg.Go(func() {
			if err := retry.Run(ctx, p, func(context.Context) error { return errDown }); !errors.Is(err, context.Canceled) {
				t.Errorf("Run() = %v, want it canceled", err)
			}
		})
	}
	waiting.Wait()
	cancel()
	wg.Wait()
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) { // wg.Go's goroutines end a moment after wg.Wait
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// All doors sleep on the system clock, and all of it.
func TestRunSleepsOnTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, run := range doors {
			for _, hooked := range []bool{false, true} {
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Hour)}
				if hooked {
					record(&p)
				}
				start := time.Now()
				e := wantReason(t, run(t.Context(), p, func(context.Context) error { return errDown }), retry.ReasonMaxAttempts)
				if took := time.Since(start); took != 2*time.Hour || e.Waited != took || e.Elapsed != took {
					t.Errorf("%s, with hooks %v, took %v, its error says %v with %v of waits, want 2h", name, hooked, took, e.Elapsed, e.Waited)
				}
			}
		}
	})
}

// readClock calls hook each time that it is read.
type readClock struct {
	*clockx.Virtual
	hook func()
}

func (c readClock) Now() time.Time { c.hook(); return c.Virtual.Now() }

// Wherever a clock panics that cannot tell the time, the run is closed.
func TestPanicInNowClosesTheRun(t *testing.T) {
	for left := range 12 {
		p, v := virtual()
		p.Clock = readClock{v, func() {
			if left--; left < 0 {
				panic("boom")
			}
		}}
		p.AttemptTimeout = time.Hour
		budget := counting(&p)
		log := record(&p)
		readings := left
		op, _ := failing(1, errDown)
		got := caught(func() { _, _ = retry.Do(t.Context(), p, op) })
		if readings < 4 && got != "boom" {
			t.Errorf("after %d readings: recovered %v, want the clock's panic", readings, got)
		}
		if budget.ended > 1 || len(log.begun) > 0 && budget.ended == 0 || v.Pending() != 0 {
			t.Errorf("after %d readings: budget %+v, %d timeouts left", readings, *budget, v.Pending())
		}
		for _, pair := range [][2]string{{"start", "done("}, {"attempt(", "attemptDone("}} {
			if opened, closed := strings.Count(log.String(), pair[0]), strings.Count(log.String(), pair[1]); opened != closed {
				t.Errorf("after %d readings: hooks saw %q", readings, log)
			}
		}
	}
}

// backward is a clock that is set back by an hour each time it is read.
type backward struct {
	clockx.Clock
	read *time.Duration
}

func (c backward) Now() time.Time {
	*c.read++
	return c.Clock.Now().Add(-*c.read * time.Hour)
}

func TestHooksSeeNoNegativeTime(t *testing.T) {
	p, v := virtual()
	p.Clock = backward{v, new(time.Duration)}
	log := record(&p)
	g := guarded(&p, sleeps(time.Second))
	_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
	for _, h := range log.held {
		if h.Elapsed < 0 {
			t.Errorf("a hook saw %+v", h)
		}
	}
	for _, a := range slices.Concat(log.begun, log.attempts, log.waits) {
		if a.Duration < 0 || a.Elapsed < 0 {
			t.Errorf("a hook saw %+v", a)
		}
	}
	if s := log.summary; s.Elapsed != 0 || s.Elapsed != gaveUp(t, s.Err).Elapsed || s.Waited != 0 {
		t.Errorf("Done saw %+v, the error says %v", s, gaveUp(t, s.Err).Elapsed)
	}
	a := p.Attempts(t.Context())
	a.Next()
	a.Hold()(retry.Exit{})
	a.Close()
	for i, x := range g.exits {
		if x.Took != 0 {
			t.Errorf("a guard saw that attempt %d took %v", i+1, x.Took)
		}
	}
}

// Whatever ends the context just before an attempt, op is not called.
func TestOpIsNotCalledOnAContextThatHasJustEnded(t *testing.T) {
	for i, want := range []string{
		"start attempt(1) attemptDone(1) done(canceled)",
		"start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(canceled)",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		p, v := virtual()
		timeouts, calls := 0, 0
		p.AttemptTimeout, p.Clock = hour, hookedClock{v, func() {
			if timeouts++; timeouts > i {
				cancel(errShutdown)
			}
		}}
		budget := counting(&p)
		log := record(&p)
		e := wantReason(t, retry.Run(ctx, p, func(ctx context.Context) error {
			if calls++; ctx.Err() != nil {
				t.Error("op was called on a context that has ended")
			}
			return errDown
		}), retry.ReasonCanceled)
		if calls != i || e.Attempts != calls || e.Cause != errShutdown || log.String() != want {
			t.Errorf("%d calls, %+v, hooks saw %s, want %s", calls, e, log, want)
		}
		if n := len(log.attempts); n > 0 && log.attempts[n-1].Err != errShutdown {
			t.Errorf("AttemptDone got %v, want the cause", log.attempts[n-1].Err)
		}
		if budget.ended != 1 || v.Pending() != 0 {
			t.Errorf("the budget saw %+v, and %d timeouts are left", *budget, v.Pending())
		}
	}
}

// hostile is a context of which one method, at the given call, does what leave does.
type hostile struct {
	context.Context
	method string
	left   *int
	leave  func()
}

func (h hostile) touch(method string) {
	if method == h.method {
		if *h.left--; *h.left == -1 {
			h.leave()
		}
	}
}

func (h hostile) Done() <-chan struct{}       { h.touch("Done"); return h.Context.Done() }
func (h hostile) Err() error                  { h.touch("Err"); return h.Context.Err() }
func (h hostile) Value(key any) any           { h.touch("Value"); return h.Context.Value(key) }
func (h hostile) Deadline() (time.Time, bool) { h.touch("Deadline"); return h.Context.Deadline() }

// Wherever a method of the caller's context does not return, also while the run
// sleeps, every place of the budget is given back and every hook has its end.
func TestContextThatPanicsClosesTheRun(t *testing.T) {
	for _, method := range []string{"Done", "Err", "Value", "Deadline"} {
		for end, leave := range departures {
			for by, run := range doors {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancel(t.Context())
					defer cancel()
					for call := range 20 {
						left := call
						budget := new(budgettest.Places)
						p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second), Budget: budget}
						log := record(&p)
						apart(func() {
							_ = run(hostile{parent, method, &left, leave}, p, func(context.Context) error { return errDown })
						})
						if left >= 0 { // there are no more calls
							return
						}
						if got := budget.Balance(); got != 1 {
							t.Errorf("%s, %s in call %d of %s: the balance is %v, want 1", by, end, call+1, method, got)
						}
						for _, pair := range [][2]string{{"start", "done("}, {"attempt(", "attemptDone("}} {
							if opened, closed := strings.Count(log.String(), pair[0]), strings.Count(log.String(), pair[1]); opened != closed {
								t.Errorf("%s, %s in call %d of %s: hooks saw %s", by, end, call+1, method, log)
							}
						}
					}
				})
			}
		}
	}
}
