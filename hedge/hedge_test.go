package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/budgettest"
	"github.com/goretry/retry/internal/hedging"
	"github.com/goretry/retry/limit"
)

var (
	errHiccup = errors.New("hiccup")
	errCough  = errors.New("cough")
	errGone   = errors.New("gone")
)

const ms = time.Millisecond

// plenty is a budget of hedges that grants all: for what is not about budgets.
var plenty = &budget.Token{Cost: -1}

// repeated returns the text of what a hedge has panicked with, and reports whether recovered
// is the error with which that is repeated on the caller's goroutine.
func repeated(recovered any) (text string, ok bool) {
	err, _ := recovered.(error)
	text, ok = strings.CutPrefix(fmt.Sprint(err), "hedge: panic in a hedge: ")
	text, stack, _ := strings.Cut(text, "\n\n")
	return text, ok && strings.HasPrefix(stack, "goroutine ")
}

// raced is Race as an op, of which each call is an attempt.
func raced[T any](p retry.Policy, h *hedge.Hedge, op func(context.Context) (T, error), v hedge.Value[T]) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { return hedge.Race(ctx, p, h, op, v) }
}

// step is what one call of a script's op does.
type step struct {
	takes time.Duration
	err   error
	deaf  bool // to its context
	then  func()
}

// script is an op whose n-th call takes the n-th step and returns n. It writes down
// what became of the contexts of the calls.
type script struct {
	steps []step

	mu      sync.Mutex
	calls   int
	numbers []int   // hedge.Number in each call
	causes  []error // why each call was cut short, nil if it was not
	ctxs    []context.Context
}

func (s *script) op(ctx context.Context) (int, error) {
	s.mu.Lock()
	n := s.calls
	if s.calls++; n >= len(s.steps) {
		s.mu.Unlock()
		panic("the script has run out")
	}
	s.numbers = append(s.numbers, hedge.Number(ctx))
	s.causes = append(s.causes, nil)
	s.ctxs = append(s.ctxs, ctx)
	s.mu.Unlock()
	do := s.steps[n]
	if do.deaf {
		time.Sleep(do.takes)
	} else {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.causes[n] = context.Cause(ctx)
			s.mu.Unlock()
			return 0, ctx.Err()
		case <-time.After(do.takes):
		}
	}
	if do.then != nil {
		do.then()
	}
	return n + 1, do.err
}

// ok and fails are steps.
func ok(takes time.Duration) step               { return step{takes: takes} }
func fails(takes time.Duration, err error) step { return step{takes: takes, err: err} }

// told is a Hedge that writes down what it tells.
type told struct {
	hedge.Hedge
	got []hedge.Summary
}

func after100ms() *told {
	h := &told{Hedge: hedge.Hedge{Delay: 100 * ms, Budget: plenty}}
	h.Hedged = func(_ context.Context, s hedge.Summary) { h.got = append(h.got, s) }
	return h
}

func TestRaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		most  int
		steps []step
		value int
		err   error
		at    time.Duration
		want  *hedge.Summary // without Name and Delay; nil: not told
	}{
		{name: "quick", steps: []step{ok(99 * ms)}, value: 1, at: 99 * ms},
		{name: "the hedge is faster", steps: []step{ok(time.Second), ok(50 * ms)},
			value: 2, at: 150 * ms, want: &hedge.Summary{Started: 2, Winner: 2}},
		{name: "the first is faster", steps: []step{ok(120 * ms), ok(50 * ms)},
			value: 1, at: 120 * ms, want: &hedge.Summary{Started: 2, Winner: 1}},
		{name: "three", most: 3, steps: []step{ok(time.Second), ok(time.Second), ok(10 * ms)},
			value: 3, at: 210 * ms, want: &hedge.Summary{Started: 3, Winner: 3}},
		{name: "a failure before the delay", steps: []step{fails(10*ms, errHiccup)},
			value: 1, err: errHiccup, at: 10 * ms},
		{name: "a failure after the delay", steps: []step{fails(110*ms, errHiccup), ok(50 * ms)},
			value: 2, at: 150 * ms, want: &hedge.Summary{Started: 2, Winner: 2, Refused: hedging.RefusedFailed}},
		{name: "no hedge after a failure", most: 3, steps: []step{fails(110*ms, errHiccup), ok(500 * ms)},
			value: 2, at: 600 * ms, want: &hedge.Summary{Started: 2, Winner: 2, Refused: hedging.RefusedFailed}},
		{name: "a hedge fails, the first is waited for", most: 4, steps: []step{ok(time.Second), fails(50*ms, errHiccup)},
			value: 1, at: time.Second, want: &hedge.Summary{Started: 2, Winner: 1, Refused: hedging.RefusedFailed}},
		{name: "a Permanent error is an answer", steps: []step{ok(time.Second), fails(50*ms, retry.Stop(errGone))},
			value: 2, err: errGone, at: 150 * ms, want: &hedge.Summary{Started: 2}},
		{name: "a Permanent error of the first", steps: []step{fails(120*ms, retry.Stop(errGone)), ok(50 * ms)},
			value: 1, err: errGone, at: 120 * ms, want: &hedge.Summary{Started: 2}},
		{name: "a Permanent error after a failure", steps: []step{fails(110*ms, errHiccup), fails(50*ms, retry.Stop(errGone))},
			value: 2, err: errGone, at: 150 * ms, want: &hedge.Summary{Started: 2, Refused: hedging.RefusedFailed}},
		{name: "both fail", steps: []step{fails(120*ms, errHiccup), fails(50*ms, errCough)},
			value: 2, err: errCough, at: 150 * ms, want: &hedge.Summary{Started: 2, Refused: hedging.RefusedFailed}},
		{name: "both fail, the first last", steps: []step{fails(170*ms, errHiccup), fails(50*ms, errCough)},
			value: 1, err: errHiccup, at: 170 * ms, want: &hedge.Summary{Started: 2, Refused: hedging.RefusedFailed}},
		{name: "a refusal of the hedge", steps: []step{ok(time.Second), fails(50*ms, retry.Refuse(errGone))},
			value: 1, at: time.Second, want: &hedge.Summary{Started: 2, Winner: 1, Refused: hedging.RefusedFailed}},
		{name: "a refusal of the first", steps: []step{fails(120*ms, retry.Refuse(errGone)), ok(50 * ms)},
			value: 2, at: 150 * ms, want: &hedge.Summary{Started: 2, Winner: 2, Refused: hedging.RefusedFailed}},
		{name: "not yet", steps: []step{fails(120*ms, retry.ErrRejected), ok(50 * ms)},
			value: 2, at: 150 * ms, want: &hedge.Summary{Started: 2, Winner: 2, Refused: hedging.RefusedFailed}},
		{name: "a deaf loser is waited for", steps: []step{{takes: time.Second, deaf: true}, ok(50 * ms)},
			value: 2, at: time.Second, want: &hedge.Summary{Started: 2, Winner: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := after100ms()
				h.MaxInFlight = tt.most
				s := script{steps: tt.steps}
				start := time.Now()
				v, err := raced(retry.Policy{Name: "fetch"}, &h.Hedge, s.op, hedge.Value[int]{})(t.Context())
				took := time.Since(start)
				if v != tt.value || !errors.Is(err, tt.err) || took != tt.at {
					t.Errorf("Race = %d, %v after %v, want %d, %v after %v", v, err, took, tt.value, tt.err, tt.at)
				}
				if s.calls != len(tt.steps) {
					t.Errorf("%d calls, want %d", s.calls, len(tt.steps))
				}
				for i, n := range s.numbers {
					if n != i+1 {
						t.Errorf("Number = %d in call %d", n, i+1)
					}
				}
				for i, ctx := range s.ctxs {
					if ctx.Err() == nil {
						t.Errorf("the context of attempt %d is open after the call", i+1)
					}
				}
				if tt.want == nil {
					if len(h.got) != 0 {
						t.Errorf("Hedged was told %+v, want nothing", h.got)
					}
					return
				}
				tt.want.Name, tt.want.Delay = "fetch", 100*ms
				if len(h.got) != 1 || h.got[0] != *tt.want {
					t.Errorf("Hedged was told %+v, want %+v", h.got, *tt.want)
				}
			})
		})
	}
}

func TestLosersContextEndsWithErrLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: plenty}
		s := script{steps: []step{ok(time.Second), ok(time.Second), ok(50 * ms)}}
		_, _ = raced(retry.Policy{}, &h, s.op, hedge.Value[int]{})(t.Context())
		if want := []error{hedge.ErrLost, hedge.ErrLost, nil}; !slices.Equal(s.causes, want) {
			t.Errorf("causes %v, want %v", s.causes, want)
		}
	})
}

func TestAllErrorsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, Budget: plenty}
		s := script{steps: []step{fails(120*ms, errHiccup), fails(50*ms, errCough)}}
		v, err := raced(retry.Policy{}, &h, s.op, hedge.Value[int]{})(t.Context())
		if v != 2 || !errors.Is(err, errHiccup) || !errors.Is(err, errCough) {
			t.Errorf("Race = %d, %v, want the last value and both errors", v, err)
		}
		if want := "hedge: 2 attempts failed: cough; hiccup"; err.Error() != want {
			t.Errorf("Error() = %q, want %q", err, want)
		}
		errs := err.(interface{ Unwrap() []error }).Unwrap()
		if !slices.Equal(errs, []error{errCough, errHiccup}) {
			t.Errorf("Unwrap() = %v, want the newest first", errs)
		}
	})
}

// A server that refuses a retry says so for the run, whichever copy it has answered,
// and whatever becomes of the other one.
func TestRefusalOfEitherEndsTheRun(t *testing.T) {
	for name, steps := range map[string][]step{
		"the first, early": {fails(10*ms, retry.Refuse(errGone))},
		"the first, first": {fails(120*ms, retry.Refuse(errGone)), fails(50*ms, errHiccup)},
		"the first, last":  {fails(170*ms, retry.Refuse(errGone)), fails(50*ms, errHiccup)},
		"the hedge, first": {fails(170*ms, errHiccup), fails(50*ms, retry.Refuse(errGone))},
		"the hedge, last":  {fails(120*ms, errHiccup), fails(50*ms, retry.Refuse(errGone))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script{steps: steps}
				_, err := hedge.Do(t.Context(), retry.Policy{}, &after100ms().Hedge, s.op)
				e, _ := errors.AsType[*retry.Error](err)
				if e == nil || e.Reason != retry.ReasonRefused || !errors.Is(err, errGone) || s.calls != len(steps) {
					t.Errorf("%d calls, and %v; want %d, and a refusal", s.calls, err, len(steps))
				}
			})
		})
	}
}

func TestErrorsCanBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script{steps: []step{fails(120*ms, errHiccup), fails(50*ms, errCough)}}
		_, err := raced(retry.Policy{}, &after100ms().Hedge, s.op, hedge.Value[int]{})(t.Context())
		if other := err; err != other { // panics if the type cannot be compared
			t.Error("an error differs from itself")
		}
	})
}

// An op that polls gets answers, which only are not yet the one that is wanted.
func TestPollsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hedge.Hedge
		op := raced(retry.Policy{}, &h, func(context.Context) (int, error) {
			time.Sleep(10 * ms)
			return 0, retry.ErrRejected
		}, hedge.Value[int]{})
		for range 500 {
			_, _ = op(t.Context())
		}
		if got := h.Wait(); got > 20*ms {
			t.Errorf("after 500 answers within 10ms the delay is %v, want at most 20ms", got)
		}
	})
}

func TestNeverIsNoNumber(t *testing.T) {
	if got := fmt.Sprintf("%T", hedge.Never); got != "time.Duration" {
		t.Errorf("Never is of type %s: as an untyped constant it would do for Policy.MaxAttempts, where it means without end", got)
	}
}

// A quick failure is the retry policy's; the race begins again with each attempt.
func TestRetryAroundRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		s := script{steps: []step{
			fails(200*ms, errHiccup), fails(200*ms, errCough), // at 0 and 100 ms
			ok(time.Second), ok(0), // at 1.3 s and 1.4 s
		}}
		var attempts []retry.Attempt
		p := retry.Policy{
			Backoff: retry.Constant(time.Second),
			Hooks:   retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) { attempts = append(attempts, a) }},
		}
		start := time.Now()
		v, err := hedge.Do(t.Context(), p, &h.Hedge, s.op)
		if took := time.Since(start); v != 4 || err != nil || took != 1400*ms || s.calls != 4 {
			t.Errorf("Do = %d, %v after %v and %d calls, want 4, nil after 1.4s and 4", v, err, took, s.calls)
		}
		if len(attempts) != 2 || attempts[0].Duration != 300*ms || attempts[1].Duration != 100*ms {
			t.Errorf("attempts %+v, want two, of 300ms and 100ms", attempts)
		}
		if !slices.Equal(s.numbers, []int{1, 2, 1, 2}) {
			t.Errorf("Number was %v, want 1 2 1 2", s.numbers)
		}
	})
}

func TestServersHintKeepsHedgesOff(t *testing.T) {
	for name, first := range map[string][]step{
		"from a hedge":               {ok(150 * ms), fails(20*ms, retry.After(errHiccup, 5*time.Second))},
		"from a loser":               {{takes: 120 * ms, err: retry.After(errHiccup, 5*time.Second), deaf: true}, ok(10 * ms)},
		"in an error before a delay": {fails(10*ms, retry.After(errHiccup, 5*time.Second))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := after100ms()
				s := script{steps: append(first, ok(150*ms), ok(150*ms), ok(time.Second), ok(10*ms))}
				op := raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{})
				_, _ = op(t.Context())
				hinted := time.Now()
				if len(first) == 2 {
					hinted = hinted.Add(-30 * ms) // the first attempt ended at 150 ms, the hint was there at 120
					if name == "from a loser" {
						hinted = time.Now()
					}
				}
				h.got = nil
				_, _ = op(t.Context())
				time.Sleep(time.Until(hinted.Add(4900*ms - 1)))
				_, _ = op(t.Context()) // asks for a hedge at 5 s - 1 ns
				time.Sleep(time.Until(hinted.Add(5 * time.Second)))
				_, _ = op(t.Context())
				var refused []error
				for _, s := range h.got {
					refused = append(refused, s.Refused)
				}
				if !slices.Equal(refused, []error{hedging.RefusedPushback, hedging.RefusedPushback, nil}) || s.calls != len(s.steps) {
					t.Errorf("refused %v, %d calls, want pushback twice, then a hedge", refused, s.calls)
				}
			})
		})
	}
}

// A shorter hint does not end a longer one.
func TestLongestHintCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		s := script{steps: []step{
			fails(0, retry.After(errHiccup, time.Minute)), fails(0, retry.After(errHiccup, time.Second)), ok(150 * ms),
		}}
		op := raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{})
		for range 2 {
			_, _ = op(t.Context())
		}
		time.Sleep(10 * time.Second)
		_, _ = op(t.Context())
		if len(h.got) != 1 || h.got[0].Refused != hedging.RefusedPushback {
			t.Errorf("told %+v, want one pushback", h.got)
		}
	})
}

// A server may send an instant where a time belongs.
func TestAbsurdHintKeepsHedgesOffForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		s := script{steps: []step{fails(0, retry.After(errHiccup, math.MaxInt64)), ok(150 * ms), ok(150 * ms), ok(time.Second)}}
		op := raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{})
		_, _ = op(t.Context())
		time.Sleep(time.Hour - 100*ms - 1)
		_, _ = op(t.Context())
		time.Sleep(time.Second)
		_, _ = op(t.Context())
		if len(h.got) != 2 || h.got[0].Refused != hedging.RefusedPushback || h.got[1].Started != 2 {
			t.Errorf("told %+v, want a pushback, and a hedge after the hour", h.got)
		}
	})
}

func TestDeadlineWithinTheDelayNeedsNoTimer(t *testing.T) {
	for _, tt := range []struct {
		deadline time.Duration
		calls    int
	}{{99 * ms, 1}, {100 * ms, 1}, {101 * ms, 2}} {
		synctest.Test(t, func(t *testing.T) {
			h := after100ms()
			s := script{steps: []step{{takes: 200 * ms, deaf: true}, ok(0)}}
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			defer cancel()
			_, _ = raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{})(ctx)
			if s.calls != tt.calls || len(h.got) != tt.calls-1 {
				t.Errorf("deadline after %v: %d calls, told %+v, want %d calls", tt.deadline, s.calls, h.got, tt.calls)
			}
		})
	}
}

func TestNoHedgeOnceTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		s := script{steps: []step{{takes: 200 * ms, deaf: true}}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		v, err := raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{})(ctx)
		if v != 1 || err != nil || s.calls != 1 {
			t.Errorf("Race = %d, %v with %d calls, want the late success and one call", v, err, s.calls)
		}
		if len(h.got) != 1 || h.got[0].Started != 1 || h.got[0].Refused != nil {
			t.Errorf("told %+v, want one attempt, nothing refused", h.got)
		}
	})
}

// The caller's cancel is not a failed attempt.
func TestCancelEndsAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := after100ms()
		h.MaxInFlight = 3
		s := script{steps: []step{ok(time.Hour), ok(time.Hour)}}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(150*ms, func() { cancel(errGone) })
		start := time.Now()
		_, err := raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{})(ctx)
		if took := time.Since(start); !errors.Is(err, context.Canceled) || took != 150*ms {
			t.Errorf("Race = %v after %v, want canceled after 150ms", err, took)
		}
		if !slices.Equal(s.causes, []error{errGone, errGone}) {
			t.Errorf("causes %v, want the caller's", s.causes)
		}
		if len(h.got) != 1 || h.got[0].Refused != nil || h.got[0].Winner != 0 {
			t.Errorf("told %+v, want no winner, nothing refused", h.got)
		}
	})
}

func TestNothingIsMeasuredWhereNothingCanBeHedged(t *testing.T) {
	type key struct{}
	virtual := clockx.NewVirtual(time.Now())
	for name, tt := range map[string]struct {
		p retry.Policy
		h *hedge.Hedge
	}{
		"not idempotent":     {retry.Policy{NonIdempotent: true}, &hedge.Hedge{}},
		"nil":                {retry.Policy{}, nil},
		"never":              {retry.Policy{}, &hedge.Hedge{Delay: hedge.Never}},
		"negative delay":     {retry.Policy{}, &hedge.Hedge{Delay: -time.Hour}},
		"one in flight":      {retry.Policy{}, &hedge.Hedge{MaxInFlight: 1}},
		"negative in flight": {retry.Policy{}, &hedge.Hedge{MaxInFlight: -1}},
		"never, virtual":     {retry.Policy{Clock: virtual}, &hedge.Hedge{Delay: hedge.Never}},
	} {
		ctx := context.WithValue(t.Context(), key{}, name)
		op := func(got context.Context) (int, error) {
			if got != ctx {
				t.Errorf("%s: op has a context of its own", name)
			}
			return 1, nil
		}
		if v, err := hedge.Race(ctx, tt.p, tt.h, op, hedge.Value[int]{}); v != 1 || err != nil {
			t.Errorf("%s: Race = %d, %v", name, v, err)
		}
		if v, err := hedge.Do(ctx, tt.p, tt.h, op); v != 1 || err != nil {
			t.Errorf("%s: Do = %d, %v", name, v, err)
		}
	}
	if got := (*hedge.Hedge)(nil).Wait(); got != hedge.Never {
		t.Errorf("Wait() = %v of a nil Hedge, want Never", got)
	}
}

func TestWrongUsePanics(t *testing.T) {
	var none context.Context
	op := func(context.Context) (int, error) { return 1, nil }
	virtual := retry.Policy{Clock: clockx.NewVirtual(time.Now())}
	for name, tt := range map[string]struct {
		f    func()
		want []string
	}{
		"nil op":               {func() { _, _ = hedge.Race(t.Context(), retry.Policy{}, nil, nil, hedge.Value[int]{}) }, []string{"hedge: nil op"}},
		"Do, nil op":           {func() { _, _ = hedge.Do[int](t.Context(), retry.Policy{}, nil, nil) }, []string{"hedge: nil op"}},
		"nil context":          {func() { _, _ = hedge.Race(none, retry.Policy{}, &hedge.Hedge{}, op, hedge.Value[int]{}) }, []string{"hedge: nil context"}},
		"a virtual clock":      {func() { _, _ = hedge.Race(t.Context(), virtual, &hedge.Hedge{}, op, hedge.Value[int]{}) }, []string{"testing/synctest", "Never"}},
		"Do, on virtual clock": {func() { _, _ = hedge.Do(t.Context(), virtual, &hedge.Hedge{}, op) }, []string{"testing/synctest", "Never"}},
	} {
		func() {
			defer func() {
				got, _ := recover().(string)
				for _, want := range tt.want {
					if !strings.Contains(got, want) {
						t.Errorf("%s: panicked with %q, want %q in it", name, got, want)
					}
				}
			}()
			tt.f()
		}()
	}
}

// Whatever ends an attempt or the call: both budgets get back what they gave.
func TestPanicAndGoexitReachTheCaller(t *testing.T) {
	boom := func() { panic(errGone) }
	for _, tt := range []struct {
		name   string
		steps  []step
		at     time.Duration
		exits  bool
		bare   bool // the panic's own value, not an error with a stack
		values []int
	}{
		{name: "panic in a hedge", steps: []step{ok(time.Hour), {takes: 50 * ms, then: boom}}, at: 150 * ms, values: []int{}},
		{name: "panic in a hedge over a success", steps: []step{ok(120 * ms), {takes: 50 * ms, deaf: true, then: boom}}, at: 150 * ms, values: []int{1}},
		{name: "Goexit in a hedge", steps: []step{ok(time.Hour), {takes: 50 * ms, then: runtime.Goexit}}, at: 150 * ms, exits: true},
		{name: "Goexit in a hedge over a success", steps: []step{ok(120 * ms), {takes: 50 * ms, deaf: true, then: runtime.Goexit}}, at: 150 * ms, exits: true, values: []int{1}},
		{name: "panic in the first", steps: []step{{takes: 50 * ms, then: boom}}, at: 50 * ms, bare: true},
		{name: "panic in the first beside a hedge", steps: []step{{takes: 120 * ms, then: boom}, ok(time.Hour)}, at: 120 * ms, bare: true},
		{name: "panic in the first over a success", steps: []step{{takes: 200 * ms, deaf: true, then: boom}, ok(10 * ms)}, at: 200 * ms, bare: true, values: []int{2}},
		{name: "Goexit in the first beside a hedge", steps: []step{{takes: 120 * ms, then: runtime.Goexit}, ok(time.Hour)}, at: 120 * ms, exits: true},
		{name: "panic in both", steps: []step{{takes: 120 * ms, then: boom}, {takes: 30 * ms, deaf: true, then: func() { panic("other") }}}, at: 130 * ms, bare: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own, theirs := new(budgettest.Places), new(budgettest.Places)
				h := after100ms()
				h.Budget = own
				s := script{steps: tt.steps}
				var discarded []int
				op := raced(retry.Policy{Budget: theirs}, &h.Hedge, s.op, hedge.Value[int]{Discard: func(v int) { discarded = append(discarded, v) }})
				start := time.Now()
				var recovered any
				exited := true
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() {
						if recovered = recover(); recovered != nil {
							exited = false
						}
					}()
					_, _ = op(t.Context())
					exited = false
				})
				wg.Wait()
				if took := time.Since(start); took != tt.at || exited != tt.exits {
					t.Errorf("exited: %v, after %v, want %v after %v", exited, took, tt.exits, tt.at)
				}
				p, wrapped := repeated(recovered)
				switch {
				case tt.exits:
					if recovered != nil {
						t.Errorf("panicked with %v", recovered)
					}
				case tt.bare:
					if recovered != errGone {
						t.Errorf("panicked with %v, want what the first attempt did", recovered)
					}
				case !wrapped || p != "gone" || !errors.Is(recovered.(error), errGone) || !strings.Contains(recovered.(error).Error(), "script).op"):
					t.Errorf("panicked with %v, want the hedge's panic with its stack", recovered)
				}
				if own.Balance() != 1 || theirs.Balance() != 1 {
					t.Errorf("balances %v and %v, want 1", own.Balance(), theirs.Balance())
				}
				if !slices.Equal(discarded, tt.values) {
					t.Errorf("discarded %v, want %v", discarded, tt.values)
				}
				if len(h.got) != len(tt.steps)-1 || len(h.got) == 1 && h.got[0].Winner != 0 {
					t.Errorf("told %+v, want it for a hedged call, without a winner", h.got)
				}
				for i, ctx := range s.ctxs {
					if ctx.Err() == nil {
						t.Errorf("the context of attempt %d is open", i+1)
					}
				}
			})
		})
	}
}

func TestPanicInTheClassifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := new(budgettest.Places)
		p := retry.Policy{Budget: own, Classify: func(err error) retry.Class {
			if err == errHiccup {
				panic("classify")
			}
			return retry.Unknown
		}}
		h := hedge.Hedge{Delay: 100 * ms, Budget: own}
		s := script{steps: []step{ok(time.Second), fails(50*ms, errHiccup)}}
		var discarded []int
		defer func() {
			v := recover()
			if text, ok := repeated(v); !ok || text != "classify" || errors.Unwrap(v.(error)) != nil {
				t.Errorf("recovered %v, want the classifier's panic", v)
			}
			if own.Balance() != 1 || !slices.Equal(discarded, []int{2}) {
				t.Errorf("balance %v, discarded %v, want 1 and the value beside the error", own.Balance(), discarded)
			}
		}()
		_, _ = raced(p, &h, s.op, hedge.Value[int]{Discard: func(v int) { discarded = append(discarded, v) }})(t.Context())
	})
}

// panickyBudget panics where a hedge is asked for.
type panickyBudget struct{ budget.Token }

func (*panickyBudget) Withdraw(retry.Withdrawal) bool { panic("no budget") }

func TestPanicInABudget(t *testing.T) {
	for name, deaf := range map[string]bool{"the first attempt ends": false, "the first attempt succeeds all the same": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := after100ms()
				h.Budget = new(panickyBudget)
				s := script{steps: []step{{takes: 120 * ms, deaf: deaf}}}
				var discarded []int
				start := time.Now()
				defer func() {
					v := recover()
					if text, ok := repeated(v); !ok || text != "no budget" {
						t.Errorf("recovered %v, want the budget's panic", v)
					}
					if want := map[bool]time.Duration{false: 100 * ms, true: 120 * ms}[deaf]; time.Since(start) != want {
						t.Errorf("it took %v, want %v", time.Since(start), want)
					}
					if want := map[bool][]int{true: {1}}[deaf]; s.ctxs[0].Err() == nil || !slices.Equal(discarded, want) {
						t.Errorf("discarded %v, want %v", discarded, want)
					}
					if len(h.got) != 1 || h.got[0].Winner != 0 {
						t.Errorf("told %+v, want no winner", h.got)
					}
				}()
				_, _ = raced(retry.Policy{}, &h.Hedge, s.op, hedge.Value[int]{Discard: func(v int) { discarded = append(discarded, v) }})(t.Context())
			})
		})
	}
}

// Of two hedges one exits and the other panics: the panic is what the caller gets.
func TestPanicWinsOverGoexit(t *testing.T) {
	exits := step{takes: 150 * ms, deaf: true, then: runtime.Goexit}
	panics := step{takes: 150 * ms, deaf: true, then: func() { panic(errGone) }}
	for name, steps := range map[string][]step{
		"after it":  {ok(time.Hour), exits, panics},
		"before it": {ok(time.Hour), panics, exits},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: plenty}
				s := script{steps: steps}
				var recovered any
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { recovered = recover() }()
					_, _ = raced(retry.Policy{}, &h, s.op, hedge.Value[int]{})(t.Context())
				})
				wg.Wait()
				if text, ok := repeated(recovered); !ok || text != "gone" {
					t.Errorf("recovered %v, want the panic", recovered)
				}
			})
		})
	}
}

func TestNoHedgeAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: plenty}
		s := script{steps: []step{{takes: time.Second, deaf: true}, {takes: 50 * ms, then: func() { panic(errGone) }}}}
		defer func() {
			if recover() == nil || s.calls != 2 {
				t.Errorf("%d calls, want two and a panic", s.calls)
			}
		}()
		_, _ = raced(retry.Policy{}, &h, s.op, hedge.Value[int]{})(t.Context())
	})
}

// A hook of the policy panics or exits when the value has won: nobody else could close it.
func TestValueIsClosedIfAHookPanics(t *testing.T) {
	for end, leave := range map[string]func(){"panic": func() { panic(errGone) }, "Goexit": runtime.Goexit, "neither": func() {}} {
		for _, in := range []string{"AttemptDone", "Done"} {
			var won closer
			p := retry.Policy{Hooks: retry.Hooks{
				AttemptDone: func(context.Context, retry.Attempt) {
					if in == "AttemptDone" {
						leave()
					}
				},
				Done: func(context.Context, retry.Summary) {
					if in == "Done" {
						leave()
					}
				},
			}}
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, _ = hedge.Do(t.Context(), p, &hedge.Hedge{}, func(context.Context) (*closer, error) { return &won, nil })
			})
			wg.Wait()
			want := 1
			if end == "neither" {
				want = 0
			}
			if won.closed != want {
				t.Errorf("%s in %s: closed %d times, want %d", end, in, won.closed, want)
			}
		}
	}
}

// A value beside an error is closed if a retry follows: nobody else gets it. Do returns
// that of the last attempt.
func TestValueOfAnAttemptThatIsRetriedIsClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		h *hedge.Hedge
		p retry.Policy
	}{
		"hedged":            {&hedge.Hedge{}, retry.Policy{}},
		"hedged, guards":    {&hedge.Hedge{}, retry.Policy{Guards: []retry.Guard{&watched{}}}},
		"nil":               {nil, retry.Policy{}},
		"Never":             {&hedge.Hedge{Delay: hedge.Never}, retry.Policy{}},
		"Never, guards":     {&hedge.Hedge{Delay: hedge.Never}, retry.Policy{Guards: []retry.Guard{&watched{}}}},
		"one at a time":     {&hedge.Hedge{MaxInFlight: 1}, retry.Policy{}},
		"not for this call": {&hedge.Hedge{}, retry.Policy{NonIdempotent: true}},
	} {
		for end, last := range map[string]error{"success": nil, "failure": retry.Undone(errHiccup)} {
			var values [3]closer
			n := 0
			p := tt.p
			p.MaxAttempts, p.Backoff = len(values), retry.Constant(0)
			v, err := hedge.Do(t.Context(), p, tt.h, func(context.Context) (*closer, error) {
				n++
				if n == len(values) {
					return &values[n-1], last
				}
				return &values[n-1], retry.Undone(errHiccup)
			})
			if v != &values[2] || (err == nil) != (last == nil) {
				t.Errorf("%s, %s: got the value %p and %v, want the last value and %v", name, end, v, err, last)
			}
			if got := [3]int{values[0].closed, values[1].closed, values[2].closed}; got != [3]int{1, 1, 0} {
				t.Errorf("%s, %s: values are closed %d times, want 1, 1, 0", name, end, got)
			}
		}
	}
}

// A value that a retry has closed is not closed again if that retry panics.
func TestPanicOfARetryClosesNothingTwice(t *testing.T) {
	var value closer
	defer func() {
		if got := recover(); got != "in the retry" || value.closed != 1 {
			t.Errorf("panic %v, closed %d times, want once", got, value.closed)
		}
	}()
	_, _ = hedge.Do(t.Context(), retry.Policy{Backoff: retry.Constant(0)}, &hedge.Hedge{}, func(ctx context.Context) (*closer, error) {
		if retry.AttemptNumber(ctx) > 1 {
			panic("in the retry")
		}
		return &value, errHiccup
	})
}

// Three attempts succeed, the third first. Whatever of the caller's own then panics or
// exits, each value is discarded once, the winner's as well, and each context ends.
func TestWhatAPanicLeavesIsFreed(t *testing.T) {
	for end, leave := range map[string]func(){"panic": func() { panic(errGone) }, "Goexit": runtime.Goexit} {
		for _, in := range []string{"Hedged", "Discard", "every Discard", "Hold", "Budget.End"} {
			t.Run(end+" in "+in, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					at := func(name string) {
						if in == name {
							leave()
						}
					}
					var discarded []int
					h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: endingBudget{func() { at("Budget.End") }}}
					h.Hedged = func(context.Context, hedge.Summary) { at("Hedged") }
					s := script{steps: []step{{takes: time.Second, deaf: true}, {takes: time.Second, deaf: true}, ok(10 * ms)}}
					op := raced(retry.Policy{}, &h, s.op, hedge.Value[int]{
						Discard: func(v int) {
							discarded = append(discarded, v)
							if len(discarded) == 1 {
								at("Discard")
							}
							at("every Discard")
						},
						Hold: func(v int, _ context.CancelFunc) int { at("Hold"); return v },
					})
					var recovered any
					returned := false
					var wg sync.WaitGroup
					wg.Go(func() {
						defer func() { recovered = recover() }()
						_, _ = op(t.Context())
						returned = true
					})
					wg.Wait()
					if want := map[string]any{"panic": errGone}[end]; recovered != want || returned {
						t.Errorf("recovered %v, returned: %v, want %v and no return", recovered, returned, want)
					}
					slices.Sort(discarded)
					if !slices.Equal(discarded, []int{1, 2, 3}) {
						t.Errorf("discarded %v, want each value once", discarded)
					}
					for i, ctx := range s.ctxs {
						if ctx.Err() == nil {
							t.Errorf("the context of attempt %d is open", i+1)
						}
					}
				})
			})
		}
	}
}

// endingBudget grants everything, and calls a func at the end of a call.
type endingBudget struct{ end func() }

func (endingBudget) Withdraw(retry.Withdrawal) bool { return true }
func (b endingBudget) End(retry.Outcome)            { b.end() }

// An answer is no failure: the errors of those that failed before it are dropped.
func TestPermanentErrorStandsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: plenty}
		s := script{steps: []step{fails(250*ms, errHiccup), fails(200*ms, errCough), fails(150*ms, retry.Stop(errGone))}}
		v, err := raced(retry.Policy{}, &h, s.op, hedge.Value[int]{})(t.Context())
		if v != 3 || !errors.Is(err, errGone) || errors.Is(err, errHiccup) || errors.Is(err, errCough) {
			t.Errorf("Race = %d, %v, want 3 and only the permanent error", v, err)
		}
	})
}

func TestZeroValueOfASuccessIsAValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, Budget: plenty}
		discarded := 0
		_, _ = raced(retry.Policy{}, &h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 1 {
				time.Sleep(time.Second)
			}
			return 0, nil
		}, hedge.Value[int]{Discard: func(int) { discarded++ }})(t.Context())
		if discarded != 1 {
			t.Errorf("Discard was called %d times, want once", discarded)
		}
	})
}

func TestNumberOfTheInnermostCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hedge.Hedge
		h.Delay = 100 * ms
		var got []int
		inner := raced(retry.Policy{}, &h, func(ctx context.Context) (int, error) {
			got = append(got, hedge.Number(ctx))
			return 0, nil
		}, hedge.Value[int]{})
		outer := raced(retry.Policy{}, &h, func(ctx context.Context) (int, error) {
			if n := hedge.Number(ctx); n == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return inner(ctx)
		}, hedge.Value[int]{})
		_, _ = outer(t.Context())
		if !slices.Equal(got, []int{1}) || hedge.Number(t.Context()) != 1 {
			t.Errorf("Number = %v in the inner call of a hedge, %d outside, want 1 and 1", got, hedge.Number(t.Context()))
		}
	})
}

func TestOtherClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &countingClock{Clock: clockx.System()}
		h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: plenty}
		s := script{steps: []step{ok(10 * ms), ok(time.Second), ok(time.Second), ok(10 * ms), ok(time.Second), ok(50 * ms)}}
		op := raced(retry.Policy{Clock: clock}, &h, s.op, hedge.Value[int]{})
		start := time.Now()
		for range 3 {
			_, _ = op(t.Context())
		}
		if took := time.Since(start); took != 370*ms || s.calls != 6 {
			t.Errorf("%d calls in %v, want 6 in 370ms", s.calls, took)
		}
		if clock.open != 0 || clock.made != 5 {
			t.Errorf("%d of %d timeouts are open, want none of 5", clock.open, clock.made)
		}
	})
}

// countingClock counts the timeouts that were not canceled.
type countingClock struct {
	clockx.Clock
	mu         sync.Mutex
	made, open int
}

func (c *countingClock) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := c.Clock.WithTimeoutCause(ctx, d, cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	c.open++
	once := sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	})
	return ctx, func() { cancel(); once() }
}

// Three attempts run, and the second succeeds. Whichever use of its clock or of its
// context panics: the caller gets the panic, no goroutine waits, neither the policy's
// budget nor its guard holds a place, and what the attempts hold is freed.
func TestPanicInAClockOrContextReachesTheCaller(t *testing.T) {
	for _, in := range []string{"Now", "WithTimeoutCause", "cancel", "Err"} {
		panics := true
		for n := 1; panics; n++ {
			t.Run(fmt.Sprint(in, " ", n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					budget, guard := new(budgettest.Places), new(watched)
					f := &failing{in: in, left: n}
					h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 3, Budget: plenty}
					s := script{steps: []step{{takes: time.Second, deaf: true}, ok(150 * ms), {takes: time.Second, deaf: true}}}
					var discarded []int
					op := raced(retry.Policy{Clock: failingClock{clockx.System(), f}, Budget: budget, Guards: []retry.Guard{guard}}, &h, s.op, hedge.Value[int]{
						Discard: func(v int) { discarded = append(discarded, v) },
					})
					returned := 0
					defer func() {
						recovered := recover()
						if _, ok := repeated(recovered); ok {
							recovered = errors.Unwrap(recovered.(error))
						}
						panics = f.left <= 0
						if want := any(errGone); panics && recovered != want || !panics && (recovered != nil || returned != 2) {
							t.Errorf("recovered %v, returned %d", recovered, returned)
						}
						if budget.Balance() != 1 {
							t.Errorf("the policy's budget has the balance %v, want 1", budget.Balance())
						}
						if guard.held != 0 {
							t.Errorf("the guard holds %d places", guard.held)
						}
						for _, x := range guard.exits {
							if x.Took > time.Second || x.Ending == retry.NotMade && x.Took != 0 {
								t.Errorf("the guard got %+v", x)
							}
						}
						for i, ctx := range s.ctxs {
							if ctx.Err() == nil {
								t.Errorf("the context of attempt %d is open", i+1)
							}
							if end := i + 1; s.causes[i] == nil && end != returned && !slices.Contains(discarded, end) {
								t.Errorf("discarded %v, and not the value of attempt %d", discarded, end)
							}
						}
					}()
					returned, _ = op(failingContext{t.Context(), f})
				})
			})
		}
	}
}

// Five attempts run, and end as the script says. Whichever time the caller's context, or that of a
// clock, panics when it lets go of a func, once or ever after: the caller gets the panic as soon as
// no attempt runs, and every value is freed once.
func TestPanicInAStopReachesTheCallerAtOnce(t *testing.T) {
	late := step{takes: 460 * ms, deaf: true} // has a value when the call is over
	waits := ok(time.Hour)
	failing5 := make([]step, 5)
	for i := range failing5 {
		failing5[i] = fails(time.Duration(460-100*i)*ms, errHiccup)
	}
	for name, steps := range map[string][]step{
		"the first wins": {ok(450 * ms), waits, waits, waits, waits},
		"a hedge wins":   {waits, ok(350 * ms), waits, waits, waits},
		"two have ended": {late, ok(350 * ms), waits, waits, waits},
		"panics":         {waits, {takes: 350 * ms, then: func() { panic("op") }}, waits, waits, waits},
		"exits":          {waits, {takes: 350 * ms, then: runtime.Goexit}, waits, waits, waits},
		"all fail":       failing5,
	} {
		for _, in := range []string{"context", "clock"} {
			for _, ever := range []bool{false, true} {
				panics := true
				for n := 1; panics; n++ {
					name := fmt.Sprint(name, ", ", in, " ", n, ", ever ", ever)
					synctest.Test(t, func(t *testing.T) {
						panics = panicInAStop(t, name, steps, &failing{in: in, ever: ever, left: n})
					})
				}
			}
		}
	}
}

func panicInAStop(t *testing.T, name string, steps []step, f *failing) (panics bool) {
	h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 6, Budget: plenty}
	s := script{steps: steps}
	var discarded []int
	op := raced(retry.Policy{Clock: stoppingClock{clockx.System(), f}}, &h, s.op, hedge.Value[int]{
		Discard: func(v int) { discarded = append(discarded, v) },
	})
	begun, returned := time.Now(), 0
	var recovered any
	done := make(chan struct{})
	go func() { // runtime.Goexit ends it
		defer close(done)
		defer func() { recovered = recover() }()
		returned, _ = op(stoppingContext{t.Context(), f, "context"})
	}()
	<-done
	panics = f.left <= 0
	if took := time.Since(begun); took > 460*ms {
		t.Errorf("%s: the call took %v", name, took)
	}
	if panics && !strings.Contains(fmt.Sprint(recovered), errGone.Error()) {
		t.Errorf("%s: recovered %v", name, recovered)
	}
	for i, ctx := range s.ctxs {
		if ctx.Err() == nil {
			t.Errorf("%s: the context of attempt %d is open", name, i+1)
		}
		owed := 0
		if s.causes[i] == nil && i+1 != returned && steps[i].then == nil {
			owed = 1
		}
		if got := times(discarded, i+1); got != owed {
			t.Errorf("%s: value %d was discarded %d times, want %d", name, i+1, got, owed)
		}
	}
	return panics
}

func times(all []int, one int) (n int) {
	for _, v := range all {
		if v == one {
			n++
		}
	}
	return n
}

// stoppingContext is a context with an AfterFunc of its own, whose stop may panic.
type stoppingContext struct {
	context.Context
	*failing
	name string
}

func (c stoppingContext) Value(any) any { return nil } // hides that it is one of package context

func (c stoppingContext) AfterFunc(f func()) (stop func() bool) {
	released := context.AfterFunc(c.Context, f)
	return func() bool {
		defer c.call(c.name)
		return released()
	}
}

type stoppingClock struct {
	clockx.Clock
	*failing
}

func (c stoppingClock) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := c.Clock.WithTimeoutCause(ctx, d, cause)
	return stoppingContext{ctx, c.failing, "clock"}, cancel
}

// failing panics when its method of that name is called for the left-th time, and ever after if
// it says so.
type failing struct {
	in   string
	ever bool
	mu   sync.Mutex
	left int
}

func (f *failing) call(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.in != method {
		return
	}
	if f.left--; f.left == 0 || f.ever && f.left < 0 {
		panic(errGone)
	}
}

type failingClock struct {
	clockx.Clock
	*failing
}

func (c failingClock) Now() time.Time {
	c.call("Now")
	return c.Clock.Now()
}

func (c failingClock) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	c.call("WithTimeoutCause")
	ctx, cancel := c.Clock.WithTimeoutCause(ctx, d, cause)
	return ctx, func() {
		cancel()
		c.call("cancel")
	}
}

type failingContext struct {
	context.Context
	*failing
}

func (c failingContext) Err() error {
	c.call("Err")
	return c.Context.Err()
}

// closer counts how often it was closed.
type closer struct{ closed int }

func (c *closer) Close() error { c.closed++; return nil }

// closerWithBody has a Close of its own, which closes its Body as well.
type closerWithBody struct {
	*closer
	Body io.ReadCloser
}

func TestLosersAreClosedOnceBeforeTheCallReturns(t *testing.T) {
	type body struct{ Body io.ReadCloser }
	for name, test := range map[string]func(*testing.T){
		"Close":             closes(func(c *closer) *closer { return c }),
		"an interface":      closes(func(c *closer) io.Closer { return c }),
		"Body":              closes(func(c *closer) *http.Response { return &http.Response{Body: readCloser{c}} }),
		"Close, not Body":   closes(func(c *closer) closerWithBody { return closerWithBody{c, readCloser{c}} }),
		"Body of a struct":  closes(func(c *closer) body { return body{readCloser{c}} }),
		"Body of a pointer": closes(func(c *closer) **body { b := &body{readCloser{c}}; return &b }),
		"an embedded Body":  closes(func(c *closer) struct{ *body } { return struct{ *body }{&body{readCloser{c}}} }),
	} {
		t.Run(name, test)
	}
}

type readCloser struct{ *closer }

func (readCloser) Read([]byte) (int, error) { return 0, io.EOF }

// closes tests with values of type T that a first attempt returns too late, beside
// an error or not.
func closes[T any](wrap func(*closer) T) func(*testing.T) {
	return func(t *testing.T) {
		for _, err := range []error{nil, errHiccup} {
			synctest.Test(t, func(t *testing.T) {
				var winner, loser closer
				h := hedge.Hedge{Delay: 100 * ms, Budget: plenty}
				_, _ = hedge.Do(t.Context(), retry.Policy{}, &h, func(ctx context.Context) (T, error) {
					if hedge.Number(ctx) == 1 {
						time.Sleep(time.Second)
						return wrap(&loser), err
					}
					return wrap(&winner), nil
				})
				if winner.closed != 0 || loser.closed != 1 {
					t.Errorf("winner closed %d times, loser %d, want 0 and 1", winner.closed, loser.closed)
				}
			})
		}
	}
}

// What cannot be closed is left alone.
func TestValuesWithoutAClose(t *testing.T) {
	type embedded struct{ *http.Response }
	type hidden struct{ body io.Closer }
	_ = hidden{}.body
	loses(t, 1)
	loses(t, (*closer)(nil))
	loses(t, io.Closer(nil))
	loses(t, io.Closer((*closer)(nil)))
	loses(t, (*http.Response)(nil))
	loses(t, &http.Response{})
	loses(t, embedded{})
	loses(t, hidden{})
	loses(t, struct{ Body string }{"text"})
	loses(t, struct{ Body *closer }{})
	loses(t, any(nil))
}

func loses[T any](t *testing.T, v T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, Budget: plenty}
		_, err := hedge.Do(t.Context(), retry.Policy{}, &h, func(ctx context.Context) (T, error) {
			if hedge.Number(ctx) == 1 {
				time.Sleep(time.Second)
			}
			return v, nil
		})
		if err != nil {
			t.Errorf("%T: %v", v, err)
		}
	})
}

func TestDiscardGetsWhatIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, MaxInFlight: 4, Budget: plenty}
		var discarded []int
		goroutine := ""
		v := hedge.Value[int]{Discard: func(v int) { discarded = append(discarded, v); goroutine = here() }}
		s := script{steps: []step{
			{takes: time.Second, deaf: true}, // 1, too late
			ok(time.Hour),                    // canceled: 0 beside an error is no value
			ok(10 * ms),                      // 3 wins
		}}
		got, err := raced(retry.Policy{}, &h, s.op, v)(t.Context())
		if got != 3 || err != nil || !slices.Equal(discarded, []int{1}) {
			t.Errorf("Race = %d, %v, discarded %v, want 3, nil, [1]", got, err, discarded)
		}
		if goroutine != here() {
			t.Errorf("Discard ran on %s, the caller on %s", goroutine, here())
		}
		s = script{steps: []step{fails(120*ms, errHiccup), fails(50*ms, errCough)}}
		discarded = nil
		got, _ = raced(retry.Policy{}, &h, s.op, v)(t.Context())
		if got != 2 || !slices.Equal(discarded, []int{1}) {
			t.Errorf("both failed: Op = %d, discarded %v, want 2 and [1]", got, discarded)
		}
	})
}

// here names the goroutine.
func here() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}

func TestHoldKeepsTheWinnersContext(t *testing.T) {
	for name, steps := range map[string][]step{
		"without a hedge": {ok(10 * ms)},
		"a hedge":         {ok(time.Second), ok(10 * ms)},
		"the first":       {ok(110 * ms), ok(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hedge.Hedge{Delay: 100 * ms, Budget: plenty}
				s := script{steps: steps}
				var release context.CancelFunc
				held := 0
				v, err := raced(retry.Policy{}, &h, s.op, hedge.Value[int]{Hold: func(v int, cancel context.CancelFunc) int {
					held++
					release = cancel
					return v + 10
				}})(t.Context())
				if v < 11 || err != nil || held != 1 {
					t.Fatalf("Race = %d, %v, held %d times, want what Hold returned", v, err, held)
				}
				winner := v - 10 - 1
				for i, ctx := range s.ctxs {
					if open := ctx.Err() == nil; open != (i == winner) {
						t.Errorf("the context of attempt %d is open: %v", i+1, open)
					}
				}
				release()
				release()
				if s.ctxs[winner].Err() == nil {
					t.Error("the winner's context is open after its release")
				}
			})
		})
	}
}

// What Value.Hold says of a call without hedges, and of one with an AttemptTimeout.
func TestWhatHoldCannotKeep(t *testing.T) {
	for name, tt := range map[string]struct {
		h           *hedge.Hedge
		timeout     time.Duration
		held, alive bool
	}{
		"hedged":         {&hedge.Hedge{}, 0, true, true},
		"AttemptTimeout": {&hedge.Hedge{}, time.Hour, true, false},
		"Never":          {&hedge.Hedge{Delay: hedge.Never}, 0, false, true},
		"nil":            {nil, 0, false, true},
	} {
		held := false
		var its context.Context
		release := func() {}
		_, _ = hedge.DoValue(t.Context(), retry.Policy{AttemptTimeout: tt.timeout}, tt.h,
			func(ctx context.Context) (int, error) { its = ctx; return 1, nil },
			hedge.Value[int]{Hold: func(v int, cancel context.CancelFunc) int { held, release = true, cancel; return v }})
		if alive := its.Err() == nil; held != tt.held || alive != tt.alive {
			t.Errorf("%s: held %v, context alive %v; want %v, %v", name, held, alive, tt.held, tt.alive)
		}
		release()
	}
}

func TestHoldIsForSuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 100 * ms, Budget: plenty}
		s := script{steps: []step{fails(10*ms, errHiccup)}}
		_, err := raced(retry.Policy{}, &h, s.op, hedge.Value[int]{Hold: func(int, context.CancelFunc) int {
			t.Error("Hold was called")
			return 0
		}})(t.Context())
		if err != errHiccup || s.ctxs[0].Err() == nil {
			t.Errorf("Race = %v, context ended: %v, want hiccup and an end", err, s.ctxs[0].Err() != nil)
		}
	})
}

// Delays of a nanosecond make hedge and first attempt end in any order, and timers
// fire while the call ends.
func TestManyCallsLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	own, theirs := new(budgettest.Places), new(budgettest.Places)
	var mu sync.Mutex
	opened, closed, hedges := 0, 0, 0
	h := hedge.Hedge{Delay: 1, MaxInFlight: 3, Budget: own, Hedged: func(_ context.Context, s hedge.Summary) {
		mu.Lock()
		defer mu.Unlock()
		hedges += s.Started - 1
	}}
	op := raced(retry.Policy{Budget: theirs}, &h, func(context.Context) (*int, error) {
		time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
		mu.Lock()
		defer mu.Unlock()
		opened++
		v := opened
		if v%7 == 0 {
			return &v, errHiccup
		}
		return &v, nil
	}, hedge.Value[*int]{Discard: func(*int) {
		mu.Lock()
		defer mu.Unlock()
		closed++
	}})
	var wg sync.WaitGroup
	const goroutines, calls = 8, 500
	for range goroutines {
		wg.Go(func() {
			for range calls {
				if v, _ := op(t.Context()); v == nil {
					t.Error("a nil value")
				}
			}
		})
	}
	wg.Wait()
	if opened-closed != goroutines*calls || hedges == 0 || opened-goroutines*calls != hedges {
		t.Errorf("%d opened, %d closed, %d hedges, want all but %d closed", opened, closed, hedges, goroutines*calls)
	}
	if own.Balance() != 1 || theirs.Balance() != 1 {
		t.Errorf("balances %v and %v, want 1", own.Balance(), theirs.Balance())
	}
	// wg's own goroutines may take a moment to go; those of hedges have gone.
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestRefusalsHaveATypeForMetrics(t *testing.T) {
	for refusal, want := range map[hedging.Refusal][2]string{
		hedging.RefusedPushback:     {"hedge.pushback", "hedge: a server has asked for a pause"},
		hedging.RefusedBudget:       {"hedge.budget", "hedge: Hedge.Budget refused"},
		hedging.RefusedPolicyBudget: {"hedge.policy_budget", "hedge: Policy.Budget refused"},
		hedging.RefusedFailed:       {"hedge.failed", "hedge: an attempt has failed"},
	} {
		if got := [2]string{refusal.ErrorType(), refusal.Error()}; got != want {
			t.Errorf("refusal %d is %q, want %q", refusal, got, want)
		}
	}
}

// Guards are left once if the func that is to keep a winner's places panics.
func TestKeepThatPanicsLeavesTheGuards(t *testing.T) {
	l := &limit.Limit{Max: 1}
	p := retry.Policy{Guards: []retry.Guard{l}}
	a := p.Attempts(t.Context())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Keep's panic is lost")
			}
		}()
		defer a.Close()
		a.Next()
		_, _ = hedge.Race(a.Context(), p, new(hedge.Hedge), func(context.Context) (int, error) { return 1, nil },
			hedge.Value[int]{Take: a.Hold, Keep: func(func(retry.Exit), retry.Exit) { panic("keep") }})
	}()
	if n := l.InFlight(); n != 0 {
		t.Errorf("%v places are taken", n)
	}
}
