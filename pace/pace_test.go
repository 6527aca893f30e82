package pace_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

var errBusy = retry.After(errors.New("429"), 0)

// slowPace returns a Pace on which one attempt starts after each gap. The next one starts at once.
func slowPace(clock clockx.Clock, gap time.Duration) *pace.Pace {
	return &pace.Pace{Quota: 1, Per: gap, Clock: clock}
}

// refuse makes an attempt that is throttled.
func refuse(pace *pace.Pace, err error) {
	_ = retry.Run(context.Background(), retry.Policy{Guards: []retry.Guard{pace}, Clock: pace.Clock, MaxAttempts: 1}, func(context.Context) error { return err })
}

func works(context.Context) error { return nil }

// failFirst returns an op that fails once.
func failFirst(err error) func(context.Context) error {
	return func(context.Context) (now error) {
		now, err = err, nil
		return now
	}
}

// step is how long an attempt waits that is the next one of a slowPace with a gap of a
// second. A nanosecond makes up for rounding.
const step = time.Second + 1

func TestPaceHoldsFirstAttemptsBack(t *testing.T) {
	clock := clockx.NewVirtual(epoch)
	pace := slowPace(clock, time.Second)
	if r := pace.Rate(); math.Abs(r-1) > 1e-8 {
		t.Fatalf("rate %v, want 1", r)
	}
	p := retry.Policy{Guards: []retry.Guard{pace}, Clock: clock, AttemptTimeout: time.Second, Name: "model"}
	seen := record(&p)
	begin := clock.Now()
	for n := range 2 {
		if d := pace.Wait(); d != time.Duration(n)*step {
			t.Errorf("Wait() = %v before attempt %d", d, n)
		}
		err := retry.Run(t.Context(), p, func(ctx context.Context) error {
			if at, _ := ctx.Deadline(); at.Sub(clock.Now()) != time.Second {
				t.Errorf("the attempt has %v of its second", at.Sub(clock.Now()))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if d := clock.Now().Sub(begin); d != step {
		t.Errorf("the second attempt started after %v, want %v", d, step)
	}
	want := "start attempt(1) attemptDone(1) done(none) start guard(1.000000001s) attempt(1) attemptDone(1) done(none)"
	if seen.String() != want {
		t.Errorf("events\n%v, want\n%v", seen, want)
	}
	if w := seen.held[0]; w.Name != "model" || w.Number != 1 || w.Guard != "pace.Pace" || w.Err != nil || w.Delay != step {
		t.Errorf("the wait was %+v", w)
	}
	if s := seen.summary; s.Waited != step || s.Elapsed != step {
		t.Errorf("waited %v of %v, want %v", s.Waited, s.Elapsed, step)
	}
}

func TestPaceHoldsRetriesBack(t *testing.T) {
	clock := clockx.NewVirtual(epoch)
	pace := slowPace(clock, time.Second)
	budget := new(strict)
	p := retry.Policy{Guards: []retry.Guard{pace}, Clock: clock, Backoff: retry.Constant(300 * time.Millisecond), Budget: budget}
	seen := record(&p)
	calls := 0
	err := retry.Run(t.Context(), p, func(context.Context) error {
		if calls++; calls == 1 {
			return errBusy
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Fatal(err, calls)
	}
	if budget.asked != 0 || budget.ended != 1 || budget.retried != retry.Unknown {
		t.Errorf("the budget was asked %d times, and ended %d with %v", budget.asked, budget.ended, budget.retried)
	}
	waits, held := seen.waits, seen.held
	if len(waits) != 1 || waits[0].Delay != 300*time.Millisecond || len(held) != 1 || held[0].Number != 2 || held[0].Err != nil {
		t.Fatalf("waits %+v, held %+v", waits, held)
	}
	if s := seen.summary; s.Waited != waits[0].Delay+held[0].Delay || s.Elapsed != s.Waited || s.Waited <= time.Second {
		t.Errorf("waited %v of %v", s.Waited, s.Elapsed)
	}
	err = retry.Run(t.Context(), p, func(context.Context) error { return errFlaky })
	if e, _ := errors.AsType[*retry.Error](err); e == nil || e.Reason != retry.ReasonBudget || budget.asked != 1 {
		t.Errorf("after another failure %v, and the budget was asked %d times", err, budget.asked)
	}
}

// Before a wait for a turn hooks get when it begins.
func TestPacedWaitBeginsAtStart(t *testing.T) {
	clock := clockx.NewVirtual(epoch)
	pace := &pace.Pace{Clock: clock}
	pace.Hold(10 * time.Second)
	p := retry.Policy{Guards: []retry.Guard{pace}, Clock: clock}
	seen := record(&p)
	p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context {
		_ = clock.Sleep(ctx, time.Second)
		return ctx
	}
	if err := retry.Run(t.Context(), p, works); err != nil || len(seen.held) != 1 {
		t.Fatal(err, seen.held)
	}
	if w := seen.held[0]; !w.Start.Equal(epoch.Add(time.Second)) || w.Elapsed != 0 { // Hooks.Start is no part of the run
		t.Errorf("the wait begins at %v, with %v", w.Start.Sub(epoch), w.Elapsed)
	}
}

func TestPaceRefusesWhatComesTooLate(t *testing.T) {
	clock := clockx.NewVirtual(epoch)
	for _, c := range []struct {
		deadline, maxElapsed time.Duration
		reason               retry.Reason
	}{
		{2*step - 2, 0, retry.ReasonGuard},
		{2 * step, 0, retry.ReasonNone},
		{0, 2*step - 2, retry.ReasonGuard},
		{0, 2 * step, retry.ReasonNone},
		{time.Second, time.Millisecond, retry.ReasonGuard},
		{time.Millisecond, time.Second, retry.ReasonGuard},
	} {
		pace := slowPace(clock, time.Second)
		p := retry.Policy{Name: "model", Guards: []retry.Guard{pace}, Clock: clock, MaxElapsed: c.maxElapsed}
		ctx := t.Context()
		if c.deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = clock.WithTimeoutCause(ctx, c.deadline, nil)
			defer cancel()
		}
		if err := retry.Run(ctx, p, works); err != nil { // at once
			t.Fatal(err)
		}
		begin, calls := clock.Now(), 0
		err := retry.Run(ctx, p, func(context.Context) error { calls++; return nil })
		if c.reason == retry.ReasonNone {
			if err != nil || calls != 1 {
				t.Errorf("%+v: %v after %d calls", c, err, calls)
			}
			continue
		}
		e, ok := errors.AsType[*retry.Error](err)
		took := 10 * time.Millisecond // so that a loop of calls cannot spin
		if min(c.deadline, c.maxElapsed) > 0 {
			took = time.Millisecond / 2 // there is no time for that
		}
		if !ok || e.Reason != c.reason || calls != 0 || clock.Now().Sub(begin) != took {
			t.Errorf("%+v: %v after %d calls and %v", c, err, calls, clock.Now().Sub(begin))
			continue
		}
		if !errors.Is(err, retry.ErrPaced) || !e.Undone || retry.DefaultClassifier(err) != retry.Unprocessed {
			t.Errorf("%+v: undone %v, class %v: %v", c, e.Undone, retry.DefaultClassifier(err), err)
		}
		left := max(min(cmp.Or(c.deadline, c.maxElapsed), cmp.Or(c.maxElapsed, c.deadline)).Round(time.Millisecond), time.Millisecond)
		if want := fmt.Sprintf("model: not attempted (%v): pace.Pace: its turn would come in 1s, too late for this call: more than half of the %v that are left", c.reason, left); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if d := pace.Wait(); d != step-took {
			t.Errorf("%+v: the next attempt waits %v, want %v: the late one is in its way", c, d, step-took)
		}
		if late, ok := e.Cause.(interface{ RetryAfter() time.Duration }); !ok || late.RetryAfter() != step {
			t.Errorf("%+v: %v does not say how long it would have to wait", c, e.Cause)
		}
		outer := retry.Policy{Clock: clock, MaxAttempts: 2, Backoff: retry.Constant(0)}
		begin = clock.Now()
		if got := retry.Run(t.Context(), outer, failFirst(err)); got != nil || clock.Now().Sub(begin) < step {
			t.Errorf("%+v: a run around it waits %v, want %v: %v", c, clock.Now().Sub(begin), step, got)
		}
	}
	if c := retry.DefaultClassifier(retry.ErrPaced); c != retry.Unprocessed {
		t.Errorf("ErrPaced is %v", c)
	}
}

// A queue may turn out to be slower than a run expected that joined it: the run ends when it
// learns that.
func TestPaceRefusesWhoHasBecomeTooLate(t *testing.T) {
	for name, clock := range map[string]clockx.Clock{"system": clockx.System(), "another": struct{ clockx.Clock }{clockx.System()}} {
		synctest.Test(t, func(t *testing.T) {
			pace := slowPace(clock, time.Second)
			patient := retry.Policy{Name: "model", Guards: []retry.Guard{pace}, Clock: clock}
			hurried := patient
			hurried.MaxElapsed = 8 * time.Second
			_ = retry.Run(t.Context(), patient, works)
			begin := time.Now()
			var wg sync.WaitGroup
			for i, p := range []retry.Policy{hurried, patient, hurried} { // the first waits for its turn, the third for the others
				var summary retry.Summary
				p.Hooks.Done = func(_ context.Context, s retry.Summary) { summary = s }
				wg.Go(func() {
					calls := 0
					err := retry.Run(t.Context(), p, func(context.Context) error { calls++; return nil })
					took := time.Since(begin)
					if i == 1 {
						if err != nil || calls != 1 || took != 20*time.Second+step {
							t.Errorf("%s: a run without a limit: %v after %d calls and %v, want one a step after the hold", name, err, calls, took)
						}
						return
					}
					const want = "model: not attempted (guard): pace.Pace: its turn would come in 20s, too late for this call"
					if !errors.Is(err, retry.ErrPaced) || err.Error() != want || calls != 0 || took != step || summary.Waited != took {
						t.Errorf("%s: %v after %d calls and %v, waited %v, want %q after a step", name, err, calls, took, summary.Waited, want)
					}
				})
				synctest.Wait()
			}
			pace.Hold(20 * time.Second)
			wg.Wait()
			if d := pace.Wait(); d > step {
				t.Errorf("%s: the next attempt waits %v, want at most %v: the late ones are in its way", name, d, step)
			}
		})
	}
}

// A turn that comes before the end of MaxElapsed is taken, however late it has become.
func TestPaceStartsWhatComesJustBeforeMaxElapsed(t *testing.T) {
	const late = 21*time.Second + 1 // the pace rounds up
	for limit, want := range map[time.Duration]int{late: 0, late + 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			pace := slowPace(clockx.System(), time.Second)
			_ = retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{pace}}, works)
			begin, calls := time.Now(), 0
			time.AfterFunc(1, func() { pace.Hold(20 * time.Second) })
			err := retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{pace}, MaxElapsed: limit}, func(context.Context) error { calls++; return nil })
			ends := late
			if want == 0 {
				ends = step // when it learns that
			}
			if took := time.Since(begin); calls != want || took != ends || errors.Is(err, retry.ErrPaced) != (want == 0) {
				t.Errorf("with MaxElapsed %v: %d calls after %v, %v, want %d after %v", limit, calls, took, err, want, ends)
			}
		})
	}
}

// The zero Pace waits on the system's clock, and one whose clock cannot sleep ends the
// run with that error.
func TestPaceSleepsOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := new(pace.Pace)
		pace.Hold(time.Second)
		begin := time.Now()
		if err := retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{pace}}, works); err != nil || time.Since(begin) != time.Second {
			t.Errorf("without a clock: %v after %v, want nil after 1s", err, time.Since(begin))
		}
	})
	errSleep := errors.New("no sleep")
	p, v := virtual()
	p.Clock = sleepless{v, errSleep}
	pace := &pace.Pace{Clock: p.Clock}
	pace.Hold(time.Second)
	p.Guards = []retry.Guard{pace}
	err := retry.Run(t.Context(), p, works)
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonCanceled || !errors.Is(err, errSleep) {
		t.Errorf("the error is %v, want that of Sleep", err)
	}
}

// sleepless cannot sleep.
type sleepless struct {
	clockx.Clock
	err error
}

func (s sleepless) Sleep(context.Context, time.Duration) error { return s.err }

// endsCounted counts the deadlines that nobody has ended.
type endsCounted struct {
	clockx.Clock
	open atomic.Int32
}

func (c *endsCounted) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := c.Clock.WithTimeoutCause(ctx, d, cause)
	c.open.Add(1)
	return ctx, sync.OnceFunc(func() { c.open.Add(-1); cancel() })
}

// The timer of a long MaxElapsed does not stay when the turn has come.
func TestPaceLeavesNoTimerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &endsCounted{Clock: clockx.System()}
		p := retry.Policy{Guards: []retry.Guard{slowPace(clock, time.Second)}, Clock: clock, MaxElapsed: 24 * time.Hour}
		var wg sync.WaitGroup
		for range 3 { // the third waits for the second
			wg.Go(func() {
				if err := retry.Run(t.Context(), p, works); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if n := clock.open.Load(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}

func TestPaceLosesNoTurnToTheCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := slowPace(clockx.System(), 6*time.Second)
		_ = retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{pace}}, works)
		begin := time.Now()
		canceled, cancel := context.WithCancel(t.Context())
		var ended [6]time.Duration
		var errs [6]error
		var wg sync.WaitGroup
		for i := range ended {
			ctx := canceled
			if i == 2 || i == 5 {
				ctx = t.Context()
			}
			wg.Go(func() {
				errs[i] = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{pace}}, works)
				ended[i] = time.Since(begin)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		for i, err := range errs {
			if i == 2 || i == 5 {
				continue
			}
			e, ok := errors.AsType[*retry.Error](err)
			if !ok || e.Reason != retry.ReasonCanceled || !e.InWait || e.Waited != time.Second || ended[i] != time.Second {
				t.Errorf("run %d: %v after %v", i, err, ended[i])
			}
		}
		if errs[2] != nil || errs[5] != nil || ended[2] > 6*time.Second+1 || ended[5] > 12*time.Second+2 || ended[5] < 10*time.Second {
			t.Errorf("the others started after %v and %v: %v, %v", ended[2], ended[5], errs[2], errs[5])
		}
	})
}

// An attempt that is not made gives its turn back.
func TestPaceTakesATurnBack(t *testing.T) {
	clock := clockx.NewVirtual(epoch)
	for how, want := range map[string]time.Duration{"cancel": 0, "panic": 0, "refuse": step} {
		pace := slowPace(clock, time.Second)
		p := retry.Policy{Guards: []retry.Guard{pace}, Clock: clock}
		if how == "refuse" {
			p.Guards = append(p.Guards, closed{})
		}
		ctx, cancel := context.WithCancel(t.Context())
		p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context {
			if cancel(); how == "panic" {
				panic(how)
			}
			return ctx
		}
		func() {
			defer func() { _ = recover() }()
			_ = retry.Run(ctx, p, func(context.Context) error { t.Error("op was called"); return nil })
		}()
		if d := pace.Wait(); d != want {
			t.Errorf("after a %s the next attempt waits %v, want %v", how, d, want)
		}
	}
}

// panickyClock panics when it is read, if it is told to.
type panickyClock struct {
	*clockx.Virtual
	panics bool
}

func (c *panickyClock) Now() time.Time {
	if c.panics {
		panic("clock")
	}
	return c.Virtual.Now()
}

// A clock that panics does not keep a turn that is given back.
func TestPaceTakesATurnBackWithoutAClock(t *testing.T) {
	for _, waits := range []bool{false, true} {
		clock := &panickyClock{Virtual: clockx.NewVirtual(epoch)}
		pace := slowPace(clock, time.Second)
		enter := func() retry.Pass {
			pass, err := pace.Enter(t.Context(), retry.Entry{Number: 1, Patience: time.Hour, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			return pass
		}
		var before retry.Pass
		if waits {
			before = enter()
		}
		pass := enter()
		if (pass.Wait > 0) != waits {
			t.Fatalf("the attempt waits %v", pass.Wait)
		}
		clock.panics = true
		pace.Leave(pass, retry.Exit{Clock: clock})
		clock.panics = false
		if waits {
			pace.Leave(before, retry.Exit{Clock: clock})
		}
		if d := pace.Wait(); d != 0 {
			t.Errorf("the next attempt waits %v", d)
		}
	}
}

// Nothing but Hold closes a Pace that was told no quota.
func TestPaceStaysOpen(t *testing.T) {
	model := new(pace.Pace)
	for _, err := range []error{errFlaky, status(503), context.DeadlineExceeded, retry.Stop(errFlaky), retry.ErrRejected, retry.Undone(errFlaky), errBusy, retry.After(errFlaky, time.Minute)} {
		for range 10 {
			refuse(model, err)
		}
		if r := model.Rate(); !math.IsInf(r, 1) || model.Wait() != 0 {
			t.Errorf("after %v the rate is %v", err, r)
		}
	}
	if s := model.Status(); s != (pace.Status{}) {
		t.Errorf("its status is %+v", s)
	}
	model.Hold(0)
	model.Hold(-time.Hour)
	if !math.IsInf(model.Rate(), 1) || model.Wait() != 0 {
		t.Errorf("held for no time, it starts one after %v", model.Wait())
	}
	var none *pace.Pace
	none.Hold(time.Hour)
	if !math.IsInf(none.Rate(), 1) || none.Wait() != 0 {
		t.Error("a nil Pace holds attempts back")
	}
}

// One of a hundred calls is told to wait for 20 s. All wait, and all works, though the
// budget has ten retries.
func TestPaceSharesTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := retry.Policy{Guards: []retry.Guard{&pace.Pace{Quota: 100, Burst: 100}}, Budget: &retry.EarnedBudget{}, AttemptTimeout: time.Second}
		var wg sync.WaitGroup
		var mu sync.Mutex
		failed, early := 0, 0
		for range 100 {
			wg.Go(func() {
				err := retry.Run(t.Context(), p, func(context.Context) error {
					time.Sleep(50 * time.Millisecond)
					if left := 20*time.Second - time.Since(begin); left > 0 {
						mu.Lock()
						defer mu.Unlock()
						early++
						return retry.After(errFlaky, left)
					}
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
					t.Log(err)
				}
			})
		}
		wg.Wait()
		if failed > 0 || early != 100 {
			t.Errorf("%d of 100 failed, and %d requests came early", failed, early)
		}
	})
}

// Supervise and Attempts take their turns too.
func TestPaceOfOtherRuns(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, p retry.Policy){
		"Attempts": func(ctx context.Context, p retry.Policy) {
			a := p.Attempts(ctx)
			defer a.Close()
			for a.Next() {
				a.Done(nil)
			}
		},
		"Supervise": func(ctx context.Context, p retry.Policy) {
			_ = retry.Supervise(ctx, p, 0, func(context.Context) error { return nil })
		},
	} {
		clock := clockx.NewVirtual(epoch)
		p := retry.Policy{Guards: []retry.Guard{slowPace(clock, time.Second)}, Clock: clock}
		begin := clock.Now()
		run(t.Context(), p)
		if d := clock.Now().Sub(begin); d != 0 {
			t.Errorf("%s: the first waited %v", name, d)
		}
		run(t.Context(), p)
		if d := clock.Now().Sub(begin); d != step {
			t.Errorf("%s: the second waited %v, want %v", name, d, step)
		}
	}
	clock := clockx.NewVirtual(epoch)
	p := retry.Policy{Guards: []retry.Guard{slowPace(clock, time.Second)}, Clock: clock, Budget: new(strict)}
	loop := p.Start(clock.Now())
	if _, ok := loop.Next(clock.Now(), errBusy); ok {
		t.Error("a Loop, which waits for no turn, is not limited by the budget")
	}
}

// Runs that are canceled, come too late, panic or exit anywhere leave nothing in the
// queue: three quiet minutes later nobody waits, and the next attempt starts at once.
func TestPaceLosesNoTurn(t *testing.T) {
	runs := 20_000
	if longTests {
		runs = 1_000_000
	}
	synctest.Test(t, func(t *testing.T) {
		var counts [4]int // of panics, exits, failing sleeps and refusals
		var mu sync.Mutex
		count := func(i int) { mu.Lock(); counts[i]++; mu.Unlock() }
		clock := &faultyClock{Clock: clockx.System()}
		pace := slowPace(clock, time.Second)
		rng := rand.New(rand.NewPCG(1, 2))
		fault := func(x int) {
			switch x % 40 {
			case 1:
				count(0)
				panic("fault")
			case 2:
				count(1)
				runtime.Goexit()
			}
		}
		clock.fault = func(n int) error {
			if n%40 == 3 {
				count(2)
				return errFlaky
			}
			fault(n)
			return nil
		}
		var wg sync.WaitGroup
		for range runs {
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(200*time.Millisecond)))
			x, live := rng.IntN(1000), time.Duration(rng.Int64N(int64(20*time.Second)))
			wg.Go(func() {
				defer func() { _ = recover() }()
				ctx, cancel := context.WithTimeout(t.Context(), live)
				defer cancel()
				p := retry.Policy{Guards: []retry.Guard{pace}, Backoff: retry.Constant(10)}
				if x%3 == 0 {
					p.Clock = clock
				}
				if x%2 == 0 {
					p.Hooks = retry.Hooks{
						Start:   func(ctx context.Context, _ retry.Policy) context.Context { fault(x / 2); return ctx },
						Wait:    func(context.Context, retry.Attempt) { fault(x/2 + 10) },
						Guard:   func(context.Context, retry.Held) { fault(x/2 + 15) },
						Attempt: func(ctx context.Context, _ retry.Attempt) context.Context { fault(x/2 + 20); return ctx },
					}
				}
				err := retry.Run(ctx, p, func(context.Context) error {
					fault(x + 5)
					switch {
					case x >= 800:
						return retry.After(errFlaky, live/10)
					case x < 20:
						cancel()
						return errFlaky
					}
					return nil
				})
				if errors.Is(err, retry.ErrPaced) {
					count(3)
				}
			})
		}
		wg.Wait()
		time.Sleep(3 * time.Minute)
		if s := pace.Status(); s.Waiting != 0 || pace.Wait() != 0 {
			t.Errorf("%d wait, and the next %v", s.Waiting, pace.Wait())
		}
		if slices.Contains(counts[:], 0) {
			t.Errorf("panics, exits, failing sleeps, refusals: %v", counts)
		}
	})
}

// faultyClock is one whose sleeps now and then panic, exit or fail.
type faultyClock struct {
	clockx.Clock
	mu     sync.Mutex
	sleeps int
	fault  func(n int) error
}

func (c *faultyClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.sleeps++
	n := c.sleeps
	c.mu.Unlock()
	if c.fault != nil {
		if err := c.fault(n); err != nil {
			return err
		}
	}
	return c.Clock.Sleep(ctx, d)
}

// leavingClock calls leave whenever it is read.
type leavingClock struct {
	*clockx.Virtual
	leave func()
}

func (c leavingClock) Now() time.Time {
	c.leave()
	return c.Virtual.Now()
}

func TestNoGuardHookOnceTheContextHasEnded(t *testing.T) {
	p, v := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	leave := func() {}
	p.Clock = leavingClock{v, func() { leave() }}
	pace := &pace.Pace{Clock: p.Clock}
	pace.Hold(time.Second)
	p.Guards = []retry.Guard{pace}
	leave = cancel
	p.Hooks.Guard = func(context.Context, retry.Held) { t.Error("Hooks.Guard was called") }
	err := retry.Run(ctx, p, func(context.Context) error { t.Error("op was called"); return nil })
	if e, ok := err.(*retry.Error); !ok || e.Reason != retry.ReasonCanceled {
		t.Errorf("error %v, want one with canceled", err)
	}
}

// A hold has an end that no hint moves.
func TestPaceHoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{75 * time.Second, time.Hour, math.MaxInt64} {
			for _, p := range []*pace.Pace{{}, {Quota: 1}} {
				p.Hold(d)
				if wait := p.Wait(); wait != 75*time.Second {
					t.Errorf("Hold(%v): the next attempt waits %v, want 75s", d, wait)
				}
			}
		}
	})
}

// quotaOf answers attempts after a tenth of a second, and throttles those above a rate.
type quotaOf struct {
	mu    sync.Mutex
	rate  float64 // attempts per second, and saved up at most
	level float64
	at    time.Time
	err   error // nil means errBusy
}

func (q *quotaOf) op(context.Context) error {
	time.Sleep(100 * time.Millisecond)
	return q.take()
}

func (q *quotaOf) take() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.level = min(q.level+time.Since(q.at).Seconds()*q.rate, q.rate)
	q.at = time.Now()
	if q.level < 1 {
		return cmp.Or(q.err, errBusy)
	}
	q.level--
	return nil
}

// A backlog whose workers have all the time in the world leaves most turns to callers who have
// a deadline, and they leave it a fifth.
func TestBacklogAndCallersShareAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &quotaOf{rate: 10}
		p := retry.Policy{Guards: []retry.Guard{&pace.Pace{Quota: 10}}, MaxAttempts: 100}
		workers, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var batch, calls atomic.Int64
		for range 1000 {
			wg.Go(func() {
				for workers.Err() == nil {
					if retry.Run(workers, p, server.op) == nil {
						batch.Add(1)
					}
				}
			})
		}
		for range 540 {
			time.Sleep(time.Second)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if retry.Run(ctx, p, server.op) == nil {
					calls.Add(1)
				}
			})
		}
		stop()
		wg.Wait()
		if calls.Load() < 530 || batch.Load() < 3500 {
			t.Errorf("%d of 540 calls, and %d of the backlog, succeed in nine minutes at 10 in a second", calls.Load(), batch.Load())
		}
	})
}

// Runs whose attempts are throttled again and again leave turns to first attempts.
func TestEndlessRetriesLeaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := slowPace(clockx.System(), time.Second)
		workers, stop := context.WithCancel(t.Context())
		p := retry.Policy{Guards: []retry.Guard{pace}, MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second)}
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				_ = retry.Run(workers, p, func(context.Context) error { return errors.New("a fault that is not the rate") })
			})
		}
		started := 0
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			timer := time.AfterFunc(10*time.Minute, cancel)
			if retry.Run(ctx, p, works) == nil {
				started++
			}
			timer.Stop()
			cancel()
		}
		stop()
		wg.Wait()
		if started != 100 {
			t.Errorf("%d of 100 first attempts start within ten minutes each", started)
		}
	})
}

// A loop of calls that are refused at once takes ten milliseconds each.
func TestARefusedLoopCannotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := slowPace(clockx.System(), 5*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := retry.Policy{Guards: []retry.Guard{pace}}
		calls, refused := 0, 0
		for begin := time.Now(); time.Since(begin) < time.Second; { // at the deadline it takes a moment until the context ends
			calls++
			if err := retry.Run(ctx, p, works); errors.Is(err, retry.ErrPaced) {
				refused++
			}
			if calls > 1000 {
				t.Fatal("it spins")
			}
		}
		if refused < 90 || refused > 150 {
			t.Errorf("%d of %d calls were refused in a second", refused, calls)
		}
	})
}

// What a server states is a quota, which each answer counts again.
func TestPaceThatIsToldByTheServer(t *testing.T) {
	set := pace.Pace{Quota: 3}
	set.Tell(25, time.Second, 25, 0)
	if s := set.Status(); s.Quota != 3 {
		t.Errorf("a Quota became %v", s.Quota)
	}
	(*pace.Pace)(nil).Tell(25, time.Second, 25, 0)
	if n := (*pace.Pace)(nil).Started(); n != 0 {
		t.Errorf("%d have started under no Pace", n)
	}
	for _, bad := range [][3]float64{{0, 1, 1}, {-1, 1, 1}, {math.NaN(), 1, 1}, {math.Inf(1), 1, 1}, {1, 0, 1}, {1, -1, 1}, {1, 1, -1}, {1, 1, math.NaN()}, {1, 1, math.Inf(1)}, {1e10, 1e4, 1}} {
		odd := new(pace.Pace)
		odd.Tell(bad[0], time.Duration(bad[1]*float64(time.Second)), bad[2], 0)
		if !math.IsInf(odd.Rate(), 1) {
			t.Errorf("%v: the rate is %v", bad, odd.Rate())
		}
	}
	future := new(pace.Pace)
	future.Tell(25, time.Second, 25, 1) // nothing has started
	future.Tell(5, time.Second, 5, 0)
	if rate := future.Rate(); rate != 5 {
		t.Errorf("after the answer to an attempt that has not started the rate is %v, want that of the next answer", rate)
	}

	p, v := virtual()
	model := &pace.Pace{Clock: v}
	p.Guards = []retry.Guard{model}
	begin := v.Now()
	remaining := 3.
	for range 5 {
		_ = retry.Run(pace.WithCost(t.Context(), 700), p, func(context.Context) error { // a cost is none of a request's units
			remaining--
			model.Tell(10, time.Second, max(remaining, 0), model.Started())
			return nil
		})
	}
	if s := model.Status(); s.Quota != 10 || model.Rate() != 10 || model.Started() != 5 {
		t.Errorf("%+v, at a rate of %v, and %d have started", s, model.Rate(), model.Started())
	}
	if took := v.Now().Sub(begin).Round(time.Millisecond); took != 200*time.Millisecond {
		t.Errorf("three that remain, and two at ten in a second, take %v", took)
	}
	if wait := model.Wait().Round(time.Millisecond); wait != 100*time.Millisecond {
		t.Errorf("when none remains, the next waits %v", wait)
	}
	model.Tell(10, time.Second, 9, 4) // the answer to an earlier attempt
	if wait := model.Wait().Round(time.Millisecond); wait != 100*time.Millisecond {
		t.Errorf("after an answer that is late, the next waits %v", wait)
	}
}

// The budget pays for a retry after a 429 unless the attempt had a turn by a quota.
func TestWhatABudgetPaysFor(t *testing.T) {
	told := new(pace.Pace)
	told.Tell(1000, time.Second, 1000, 0)
	held := new(pace.Pace)
	held.Hold(time.Second)
	for name, tt := range map[string]struct {
		pace  *pace.Pace
		asked int
	}{
		"open": {new(pace.Pace), 1}, "open, after a hold": {held, 1}, "a Quota": {&pace.Pace{Quota: 1000}, 0}, "a quota of the server": {told, 0}, "nil": {nil, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			budget := new(strict)
			_ = retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{tt.pace}, Budget: budget, MaxAttempts: 2}, func(context.Context) error { return errBusy })
			if budget.asked != tt.asked {
				t.Errorf("%s: the budget is asked %d times, want %d", name, budget.asked, tt.asked)
			}
		})
	}
}

func TestWithCostOfNoContext(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("WithCost takes a nil context")
		}
	}()
	var none context.Context
	pace.WithCost(none, 1)
}

// The first of the queue starts earlier if a turn comes back, or the server states another quota.
func TestTheFirstOfTheQueueIsWoken(t *testing.T) {
	for name, edit := range map[string]func(p *pace.Pace, pass retry.Pass, clock clockx.Clock){
		"a turn that comes back": func(p *pace.Pace, pass retry.Pass, clock clockx.Clock) { p.Leave(pass, retry.Exit{Clock: clock}) },
		"another quota":          func(p *pace.Pace, _ retry.Pass, _ clockx.Clock) { p.Tell(1000, time.Second, 1000, p.Started()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := clockx.System()
			p := new(pace.Pace)
			p.Tell(1, time.Hour, 1, 0)
			pass, err := p.Enter(t.Context(), retry.Entry{Number: 1, Patience: math.MaxInt64, Clock: clock})
			if err != nil || pass.Wait > 0 {
				t.Fatal(pass, err)
			}
			begin, waited := time.Now(), make(chan time.Duration)
			go func() {
				_ = retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{p}}, works)
				waited <- time.Since(begin)
			}()
			time.Sleep(time.Second)
			edit(p, pass, clock)
			if d := <-waited; d > time.Minute {
				t.Errorf("%s: the first waits %v", name, d)
			}
		})
	}
}

// Attempts that were under way when the server stated its quota say nothing about it.
func TestAttemptsBeforeAQuotaWasStated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clockx.System()
		p := new(pace.Pace)
		var passes []retry.Pass
		for range 100 {
			pass, err := p.Enter(t.Context(), retry.Entry{Number: 1, Patience: math.MaxInt64, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			passes = append(passes, pass)
		}
		p.Tell(1000, time.Second, 900, 100)
		for i, pass := range passes {
			x := retry.Exit{Ending: retry.Returned, Clock: clock}
			if i >= 96 {
				x.Verdict = retry.Verdict{Err: status(429), Class: retry.Throttled, Hint: time.Minute}
			}
			p.Leave(pass, x)
		}
		if d := p.Wait(); d != 0 {
			t.Errorf("four of a hundred hold all for %v", d)
		}
	})
}

// What was not made has not reached the server: whom a later guard refuses, and whose context has ended.
func TestAttemptsThatWereNotMadeHaveNotStarted(t *testing.T) {
	for name, c := range map[string]struct {
		told    bool
		refused error
		free    int
	}{
		"open, refused":  {false, errFull, 59},
		"open, canceled": {false, nil, 59},
		"told, refused":  {true, errFull, 9}, // those turns are used up
		"told, canceled": {true, nil, 59},
	} {
		clock := clockx.NewVirtual(epoch)
		p := new(pace.Pace)
		if c.told {
			p.Tell(60, time.Minute, 60, 0)
		}
		enter := func() retry.Pass {
			pass, err := p.Enter(t.Context(), retry.Entry{Number: 1, Patience: math.MaxInt64, Clock: clock})
			if err != nil || pass.Again {
				t.Fatalf("%s: %+v, %v", name, pass, err)
			}
			return pass
		}
		enter()
		started := p.Started()
		for range 50 {
			p.Leave(enter(), retry.Exit{Clock: clock, Verdict: retry.Verdict{Err: c.refused}})
		}
		if p.Started() != started {
			t.Errorf("%s: %d have started, want %d", name, p.Started(), started)
		}
		p.Tell(60, time.Minute, 59, started)
		free := 0
		for ; p.Wait() == 0; free++ {
			enter()
		}
		if free != c.free {
			t.Errorf("%s: %d may start, want %d", name, free, c.free)
		}
	}
}
