package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/budgettest"
)

func TestLoopDecidesWithoutAClock(t *testing.T) {
	p := retry.Policy{
		Name: "job", MaxAttempts: 3, MaxElapsed: time.Hour,
		Backoff: retry.Linear{Base: time.Minute, Max: time.Hour, Jitter: retry.NoJitter},
	}
	now := epoch
	loop := p.Start(now)
	if loop.Attempts() != 0 || loop.Err() != nil {
		t.Errorf("at first Attempts = %d, Err = %v", loop.Attempts(), loop.Err())
	}
	for i, want := range []time.Duration{time.Minute, 2 * time.Minute} {
		now = now.Add(10 * time.Second) // the attempt
		wait, ok := loop.Next(now, errDown)
		if wait != want || !ok || loop.Attempts() != i+1 || loop.Err() != nil {
			t.Fatalf("Next() = %v, %v after %d attempts (%v), want %v, true", wait, ok, loop.Attempts(), loop.Err(), want)
		}
		now = now.Add(wait)
	}
	if wait, ok := loop.Next(now, errDown); wait != 0 || ok {
		t.Errorf("Next() = %v, %v after the last attempt, want 0, false", wait, ok)
	}
	e := wantReason(t, loop.Err(), retry.ReasonMaxAttempts)
	if e.Name != "job" || e.Attempts != 3 || e.Elapsed != 3*time.Minute+20*time.Second || e.Waited != 3*time.Minute || len(e.Errs) != 3 {
		t.Errorf("Error = %+v", e)
	}
	for _, err := range []error{nil, errDown} {
		if wait, ok := loop.Next(now, err); wait != 0 || ok || loop.Err() != error(e) || loop.Attempts() != 3 {
			t.Errorf("after the end Next(%v) = %v, %v, and Err = %v", err, wait, ok, loop.Err())
		}
	}
}

func TestLoopSuccess(t *testing.T) {
	for _, fails := range []int{0, 2} {
		loop := retry.Policy{}.Start(epoch)
		for range fails {
			if _, ok := loop.Next(epoch, errDown); !ok {
				t.Fatal("the run ended")
			}
		}
		if wait, ok := loop.Next(epoch, nil); wait != 0 || ok || loop.Err() != nil || loop.Attempts() != fails+1 {
			t.Errorf("Next(nil) = %v, %v, Err = %v, %d attempts", wait, ok, loop.Err(), loop.Attempts())
		}
	}
}

func TestResume(t *testing.T) {
	p := retry.Policy{MaxAttempts: 4, MaxElapsed: time.Hour, Backoff: retry.Exponential{Base: time.Second, Jitter: retry.NoJitter}}
	loop := p.Resume(epoch, 2, 3*time.Second)
	if loop.Attempts() != 2 {
		t.Errorf("Attempts = %d, want 2", loop.Attempts())
	}
	if wait, ok := loop.Next(epoch, errDown); wait != 4*time.Second || !ok {
		t.Errorf("Next() = %v, %v, want the third wait: 4s, true", wait, ok)
	}
	now := epoch.Add(4 * time.Second)
	loop.Next(now, errDown)
	e := wantReason(t, loop.Err(), retry.ReasonMaxAttempts)
	if e.Attempts != 4 || e.Waited != 7*time.Second || e.Elapsed != 7*time.Second || len(e.Errs) != 2 {
		t.Errorf("Error = %+v, want 4 attempts and 7s waited", e)
	}

	for _, tt := range []struct {
		name     string
		attempts int
		waited   time.Duration
		want     retry.Reason
	}{
		{"too late", 1, time.Hour, retry.ReasonMaxElapsed},
		{"too often", 9, 0, retry.ReasonMaxAttempts},
		{"more often than an int counts", math.MaxInt, 0, retry.ReasonMaxAttempts},
		{"negative numbers count as zero", -9, -time.Hour, retry.ReasonNone},
	} {
		loop := p.Resume(epoch, tt.attempts, tt.waited)
		_, ok := loop.Next(epoch, errDown)
		if tt.want == retry.ReasonNone {
			if !ok || loop.Attempts() != 1 {
				t.Errorf("%s: Next() = %v after %d attempts, want true after 1", tt.name, ok, loop.Attempts())
			}
			loop.Next(epoch, retry.Stop(errDown))
			if e := gaveUp(t, loop.Err()); e.Elapsed != 0 || e.Waited != time.Second {
				t.Errorf("%s: Error = %+v, want only the second wait's 1s", tt.name, e)
			}
			continue
		}
		wantReason(t, loop.Err(), tt.want)
	}
}

// On a machine of 32 bits a fast loop reaches the end of an int within days.
func TestUnlimitedGoesOnPastTheLastInt(t *testing.T) {
	loop := retry.Policy{MaxAttempts: retry.Unlimited}.Resume(epoch, math.MaxInt-1, 0)
	for range 3 {
		if _, ok := loop.Next(epoch, errDown); !ok || loop.Attempts() != math.MaxInt {
			t.Errorf("Next() = %v (%v) after %d attempts, want true", ok, loop.Err(), loop.Attempts())
		}
	}
}

func TestLoopTellsTheBudget(t *testing.T) {
	budget := &countingBudget{}
	p := retry.Policy{Budget: budget, Classify: byClass, MaxAttempts: retry.Unlimited}
	loop := p.Start(epoch)
	loop.Next(epoch, classed(retry.Throttled))
	loop.Next(epoch, classed(retry.Unprocessed))
	loop.Next(epoch, nil)
	loop.Next(epoch, nil)
	if want := (countingBudget{asked: 2, ended: 1, retried: retry.Unprocessed, ok: true}); *budget != want {
		t.Errorf("the budget saw %+v, want %+v", *budget, want)
	}
	*budget = countingBudget{refuse: true}
	loop = p.Start(epoch)
	loop.Next(epoch, errDown)
	wantReason(t, loop.Err(), retry.ReasonBudget)
	if want := (countingBudget{refuse: true, asked: 1, ended: 1}); *budget != want {
		t.Errorf("the refusing budget saw %+v, want %+v", *budget, want)
	}
	*budget = countingBudget{}
	p.Start(epoch).Close() // no success
	if want := (countingBudget{ended: 1}); *budget != want {
		t.Errorf("the budget of a closed Loop saw %+v, want %+v", *budget, want)
	}
}

// No classifier gets nil, nor an error that comes after the end.
func TestLoopJudgesEachFailureOnce(t *testing.T) {
	var judged []error
	p := retry.Policy{Classify: func(err error) retry.Class { judged = append(judged, err); return retry.Unknown }}
	loop := p.Start(epoch)
	loop.Next(epoch, errDown)
	loop.Next(epoch, nil)
	loop.Next(epoch, errDown)
	loop.Next(epoch, nil)
	if !slices.Equal(judged, []error{errDown}) {
		t.Errorf("judged %v, want only the first", judged)
	}
}

// Only Supervise goes on when a name is not found.
func TestLoopEndsIfANameIsNotFound(t *testing.T) {
	loop, missing := retry.Policy{}.Start(epoch), &net.DNSError{IsNotFound: true}
	if _, ok := loop.Next(epoch, missing); ok {
		t.Error("another attempt follows")
	}
	wantReason(t, loop.Err(), retry.ReasonPermanent)
	if c := (retry.Policy{}).Judge(missing).Class; c != retry.Permanent {
		t.Errorf("Judge = %v, want permanent", c)
	}
}

// A message queue hands the message back between attempts: the loop ends early,
// and its budget is told.
func TestLoopGivenUpEarly(t *testing.T) {
	budget := new(budgettest.Places)
	loop := retry.Policy{Budget: budget}.Start(epoch)
	loop.Next(epoch, errDown)
	loop.Next(epoch, retry.Stop(errors.New("handed back")))
	if budget.Balance() != 1 {
		t.Error("the place was not given back")
	}
}

// asked is a budget that notes what it is asked.
type asked struct {
	countingBudget
	questions []string
}

func (a *asked) Withdraw(w retry.Withdrawal) bool {
	a.questions = append(a.questions, fmt.Sprint(w.Retry, w.Class))
	return true
}

func TestLoopNumbersTheRetriesThatItAsksFor(t *testing.T) {
	for _, made := range []int{0, 7} { // a run that is resumed counts its own
		budget := &asked{}
		loop := retry.Policy{Budget: budget, Classify: byClass, MaxAttempts: made + 4}.Resume(epoch, made, 0)
		loop.Next(epoch, classed(retry.Throttled))
		loop.Next(epoch, classed(retry.Unprocessed))
		loop.Next(epoch, errDown)
		if want := []string{"1 throttled", "2 unprocessed", "3 transient"}; !slices.Equal(budget.questions, want) {
			t.Errorf("asked %q, want %q", budget.questions, want)
		}
	}
}

// A poll that was answered "not yet" adds no load that a failure causes: its budget is
// not checked, and does not count it.
func TestRetryAfterErrRejectedAsksNoBudget(t *testing.T) {
	inner := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{retry.ErrRejected}}
	for _, tt := range []struct {
		name string
		err  error
		asks bool
	}{
		{"bare", retry.ErrRejected, false},
		{"wrapped", fmt.Errorf("pending: %w", retry.ErrRejected), false},
		{"joined", errors.Join(errDown, retry.ErrRejected), false},
		{"with a hint", retry.After(retry.ErrRejected, time.Second), false},
		{"wrapped, with a hint", fmt.Errorf("pending: %w", retry.After(retry.ErrRejected, time.Second)), false},
		{"with a hint, wrapped", retry.After(fmt.Errorf("pending: %w", retry.ErrRejected), time.Second), false},
		{"joined with a hint", errors.Join(hinted(time.Second), retry.ErrRejected), false},
		{"beside an inner run", errors.Join(inner, retry.ErrRejected), false},
		{"inside an inner run", inner, true},
		{"inside an inner run, wrapped", fmt.Errorf("poll: %w", inner), true},
		{"a failure", errDown, true},
		{"a hint", hinted(time.Second), true},
		{"as method Is says", isRejected{}, true},
	} {
		p, v := virtual()
		script := []error{classed(retry.Throttled), tt.err, tt.err, errDown, nil}
		p.Classify = byClass
		want := []string{"1 throttled", "2 transient"}
		if tt.asks {
			class := p.Judge(tt.err).Class
			want = []string{"1 throttled", "2 " + class.String(), "3 " + class.String(), "4 transient"}
		}
		check := func(by string, budget *asked) {
			t.Helper()
			if !slices.Equal(budget.questions, want) || budget.retried != retry.Transient || !budget.ok || budget.ended != 1 {
				t.Errorf("%s, %s: the budget saw %q, and %v at the end, want %q and transient", tt.name, by, budget.questions, budget.retried, want)
			}
		}
		budget := &asked{}
		p.Budget = budget
		calls := 0
		if err := retry.Run(t.Context(), p, func(context.Context) error { calls++; return script[calls-1] }); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		check("by Do", budget)
		budget = &asked{}
		p.Budget = budget
		loop := p.Start(v.Now())
		for _, err := range script {
			loop.Next(v.Now(), err)
		}
		check("by Loop", budget)
	}
}

// noted is a budget whose Withdraw is an event.
type noted struct {
	asked
	*events
}

func (n *noted) Withdraw(w retry.Withdrawal) bool {
	n.add("withdraw")
	return n.asked.Withdraw(w)
}

// A budget is asked before the wait, but not for a retry that follows ErrRejected.
func TestBudgetHearsOfEachRetryButPolls(t *testing.T) {
	p, _ := virtual()
	budget := &noted{}
	p.Budget = budget
	budget.events = record(&p)
	errs := []error{errDown, retry.ErrRejected, retry.Stop(retry.ErrRejected)}
	_ = retry.Run(t.Context(), p, func(ctx context.Context) error { return errs[retry.AttemptNumber(ctx)-1] })
	const want = "start attempt(1) withdraw attemptDone(1) wait(1s) attempt(2) attemptDone(2) wait(2s) attempt(3) attemptDone(3) done(permanent)"
	if got := budget.events.String(); got != want {
		t.Errorf("the run called\n%s, want\n%s", got, want)
	}
}

func TestVerdict(t *testing.T) {
	p := retry.Policy{NonIdempotent: true, MaxRetryAfter: time.Minute}
	for _, tt := range []struct {
		err  error
		want retry.Verdict
		ends retry.Reason
	}{
		{nil, retry.Verdict{}, retry.ReasonNone},
		{errDown, retry.Verdict{Err: errDown, Class: retry.Transient}, retry.ReasonNotIdempotent},
		{retry.Stop(errDown), retry.Verdict{Err: errDown, Marked: true, Class: retry.Permanent}, retry.ReasonPermanent},
		{retry.Refuse(hinted(time.Second)), retry.Verdict{Err: hinted(time.Second), Marked: true, Class: retry.Permanent, Hint: time.Second, Refused: true}, retry.ReasonRefused},
		{retry.Undone(errDown), retry.Verdict{Err: errDown, Class: retry.Transient, Undone: true}, retry.ReasonNone},
		{retry.After(errDown, time.Second), retry.Verdict{Err: errDown, Marked: true, Class: retry.Throttled, Hint: time.Second}, retry.ReasonNotIdempotent},
		{retry.Undone(retry.After(errDown, time.Hour)), retry.Verdict{Err: errDown, Marked: true, Class: retry.Throttled, Hint: time.Hour, Undone: true}, retry.ReasonRetryAfter},
		{retry.Undone(retry.ErrRejected), retry.Verdict{Err: retry.ErrRejected, Class: retry.Transient, Undone: true, Answered: true}, retry.ReasonNone},
		{retry.ErrRejected, retry.Verdict{Err: retry.ErrRejected, Class: retry.Transient, Answered: true}, retry.ReasonNotIdempotent},
	} {
		got := p.Judge(tt.err)
		if got != tt.want {
			t.Errorf("Judge(%v) = %+v, want %+v", tt.err, got, tt.want)
		}
		if ends := p.Ends(got); ends != tt.ends {
			t.Errorf("Ends(%+v) = %v, want %v", got, ends, tt.ends)
		}
	}
}

// The class of the last retry that was granted is what a budget gives back for.
func TestEndHasTheClassOfTheLastGrantedRetry(t *testing.T) {
	for want, errs := range map[retry.Class][]error{
		retry.Unknown:   {retry.ErrRejected, retry.ErrRejected},
		retry.Throttled: {classed(retry.Throttled), retry.ErrRejected},
	} {
		budget := &countingBudget{refuse: want == retry.Unknown}
		loop := retry.Policy{Budget: budget, Classify: byClass, Backoff: retry.Constant(0)}.Start(epoch)
		for _, err := range append(errs, nil) {
			loop.Next(epoch, err)
		}
		if budget.retried != want || !budget.ok || loop.Err() != nil {
			t.Errorf("after %v End got %v, %v, and the run %v", errs, budget.retried, budget.ok, loop.Err())
		}
	}
}

// isRejected is an ErrRejected by its method Is alone.
type isRejected struct{}

func (isRejected) Error() string        { return "not yet" }
func (isRejected) Is(target error) bool { return target == retry.ErrRejected }

// The backoff's own delay is what it builds on, not the server's wish.
func TestPrevLeavesTheHintOut(t *testing.T) {
	var prev []time.Duration
	p := retry.Policy{MaxAttempts: 4, Rand: func() float64 { return 0 }, Backoff: retry.BackoffFunc(func(s retry.Step) time.Duration {
		prev = append(prev, s.Prev)
		return time.Second
	})}
	loop := p.Start(epoch)
	for range 3 {
		if wait, _ := loop.Next(epoch, hinted(time.Minute)); wait != time.Minute+time.Second {
			t.Errorf("wait = %v, want hint and backoff", wait)
		}
	}
	if want := []time.Duration{0, time.Second, time.Second}; !slices.Equal(prev, want) {
		t.Errorf("Prev was %v, want %v", prev, want)
	}
}

func TestLoopOnAClockThatGoesBack(t *testing.T) {
	loop := retry.Policy{MaxAttempts: 1, MaxElapsed: time.Second}.Start(epoch)
	loop.Next(epoch.Add(-time.Hour), errDown)
	if e := gaveUp(t, loop.Err()); e.Elapsed != 0 {
		t.Errorf("Elapsed = %v, want no negative time", e.Elapsed)
	}
}

// A wait may end just at the limit, and a clock that goes back gives no time more.
func TestLastNanosecondOfMaxElapsed(t *testing.T) {
	for _, tt := range []struct {
		limit, elapsed, wait time.Duration
		want                 bool
	}{
		{time.Second, 0, time.Second, true},
		{time.Second, 0, time.Second + 1, false},
		{time.Second, 1, time.Second - 1, true},
		{time.Second, 1, time.Second, false},
		{time.Second, -time.Hour, time.Second, true},
		{time.Second, -time.Hour, time.Second + 1, false},
		{1, 0, 1, true},
		{1, 0, 2, false},
	} {
		loop := retry.Policy{MaxElapsed: tt.limit, Backoff: retry.Constant(tt.wait)}.Start(epoch)
		if _, ok := loop.Next(epoch.Add(tt.elapsed), errDown); ok != tt.want {
			t.Errorf("of %v %v have passed: a wait of %v is granted: %v, want %v", tt.limit, tt.elapsed, tt.wait, ok, tt.want)
		}
	}
}

// A retry may start as long as there is time before the deadline, if only a nanosecond.
func TestLastNanosecondBeforeTheDeadline(t *testing.T) {
	for left, want := range map[time.Duration]int{0: 1, 1: 2} {
		p, v := virtual()
		p.Backoff, p.MaxAttempts = retry.Constant(0), 2
		calls := 0
		_ = retry.Run(dated{t.Context(), epoch.Add(time.Second)}, p, func(context.Context) error {
			if calls++; calls == 1 {
				v.Advance(time.Second - left)
			}
			return errDown
		})
		if calls != want {
			t.Errorf("with %v left there are %d calls, want %d", left, calls, want)
		}
	}
}

// A server may ask many callers for the same wait: up to a tenth is added, or the
// backoff's delay if that is more.
func TestALongHintSpreads(t *testing.T) {
	for _, tt := range []struct {
		random     float64
		delay      time.Duration
		hint, want time.Duration
	}{
		{0, 0, 20 * time.Second, 20 * time.Second},
		{.5, 0, 20 * time.Second, 21 * time.Second},
		{.999, 0, 20 * time.Second, 21998 * time.Millisecond},
		{.999, 3 * time.Second, 20 * time.Second, 23 * time.Second},
		{.999, time.Second, 20 * time.Second, 21998 * time.Millisecond},
		{.999, time.Second, 0, time.Second},
		{.5, 0, 200 * 365 * 24 * time.Hour, 210 * 365 * 24 * time.Hour},
		{.5, 0, math.MaxInt64, math.MaxInt64},
	} {
		p := retry.Policy{Backoff: retry.Constant(tt.delay), MaxRetryAfter: math.MaxInt64, Rand: func() float64 { return tt.random }}
		loop := p.Start(epoch)
		wait, ok := loop.Next(epoch, hinted(tt.hint))
		if !ok || (wait-tt.want).Abs() > time.Microsecond {
			t.Errorf("%+v: wait %v, %v", tt, wait, ok)
		}
	}
}

// After the end no verdict counts, not even one that is wrong.
func TestJudgedAfterTheEnd(t *testing.T) {
	loop := retry.Policy{}.Start(epoch)
	loop.Next(epoch, nil)
	for _, v := range []retry.Verdict{{}, {Err: errDown}, {Class: retry.Permanent}} {
		if wait, ok := loop.Judged(epoch, v); wait != 0 || ok || loop.Attempts() != 1 {
			t.Errorf("Judged(%+v) = %v, %v after the end, want 0 and false", v, wait, ok)
		}
	}
}
