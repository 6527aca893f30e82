package retryqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retryqueue"
)

// story notes what happens in a delivery, with the time since its start.
type story struct {
	start time.Time
	lines []string
}

func (s *story) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%v ", time.Since(s.start))+fmt.Sprintf(format, args...))
}

func (s *story) hooks() retry.Hooks {
	return retry.Hooks{
		Start:   func(ctx context.Context, p retry.Policy) context.Context { s.note("Start"); return ctx },
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context { s.note("Attempt %d", a.Number); return ctx },
		AttemptDone: func(ctx context.Context, a retry.Attempt) {
			s.note("AttemptDone %d: %v, %v, delay %v", a.Number, a.Err, a.Class, a.Delay)
		},
		Wait: func(_ context.Context, a retry.Attempt) { s.note("Wait %v", a.Delay) },
		Done: func(_ context.Context, d retry.Summary) { s.note("Done %d, %v: %v", d.Attempts, d.Reason, d.Err) },
	}
}

// The attempt of a delivery says whether another one follows, or why none does.
func TestAttemptOfADeliverySaysWhatFollows(t *testing.T) {
	for name, tt := range map[string]struct {
		p    retry.Policy
		err  error
		want retry.Reason
	}{
		"success":      {want: retry.ReasonNone},
		"again":        {err: errDown, want: retry.ReasonNone},
		"permanent":    {err: retry.Stop(errDown), want: retry.ReasonPermanent},
		"an answer":    {err: retry.Answer(errDown), want: retry.ReasonPermanent},
		"the last one": {p: retry.Policy{MaxAttempts: 1}, err: errDown, want: retry.ReasonMaxAttempts},
		"the budget":   {p: retry.Policy{Budget: &budget.Token{Capacity: -1}}, err: errDown, want: retry.ReasonNone}, // it is only delivered later
	} {
		var got []retry.Reason
		tt.p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { got = append(got, a.Reason) }
		err := retryqueue.Delivery{Number: 1}.Handle(t.Context(), tt.p, func(context.Context) error { return tt.err },
			func(context.Context, retryqueue.Decision) error { return nil })
		if err != nil || len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tt.want)
		}
	}
}

// tell handles a delivery of an hour-old message in a bubble, and returns what happened.
func tell(t *testing.T, m retryqueue.Delivery, p retry.Policy, handle func(context.Context) error, settled error) (s *story, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s = &story{start: time.Now()}
		m.Stored, m.Now = s.start.Add(-time.Hour), s.start.Add(-time.Minute) // Handle reads the time itself
		p.Name = "job"
		p.Hooks = retry.JoinHooks(p.Hooks, s.hooks())
		err = m.Handle(t.Context(), p, handle, func(_ context.Context, d retryqueue.Decision) error {
			why := "<nil>"
			if d.Err != nil {
				why = d.Err.Error()
			}
			s.note("settle %v in %v: %s", d.Action, d.Delay, why)
			time.Sleep(time.Second)
			return settled
		})
	})
	return s, err
}

func TestHandle(t *testing.T) {
	takes := func(err error) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(time.Minute)
			return err
		}
	}
	errLost := errors.New("lost")
	const dead = "job: gave up after 3 attempts in 1h1m0s (max_attempts): down"
	for name, tt := range map[string]struct {
		number  int
		p       retry.Policy
		handle  func(context.Context) error
		settled error
		want    string
	}{
		"success": {2, retry.Policy{}, takes(nil), nil, `0s Start
0s Attempt 2
1m0s AttemptDone 2: <nil>, unknown, delay 0s
1m0s settle ack in 0s: <nil>
1m1s Done 2, none: <nil>`},
		"the number is not known": {0, retry.Policy{}, takes(nil), nil, `0s Start
0s Attempt 1
1m0s AttemptDone 1: <nil>, unknown, delay 0s
1m0s settle ack in 0s: <nil>
1m1s Done 1, none: <nil>`},
		"retry": {1, retry.Policy{Backoff: retry.Constant(time.Hour)}, takes(errDown), nil, `0s Start
0s Attempt 1
1m0s AttemptDone 1: down, transient, delay 1h0m0s
1m0s Wait 1h0m0s
1m0s settle retry in 1h0m0s: <nil>
1m1s Done 1, none: <nil>`},
		"postponed": {2, retry.Policy{Backoff: retry.Constant(time.Hour), Budget: &budget.Token{Capacity: -1}}, takes(errDown), nil, `0s Start
0s Attempt 2
1m0s AttemptDone 2: down, transient, delay 2h0m1s
1m0s Wait 2h0m1s
1m0s settle retry in 2h0m1s: job: gave up after 2 attempts in 1h1m0s (budget: a retry costs 14 tokens, 0 are left): down
1m1s Done 2, none: <nil>`},
		"dead": {3, retry.Policy{}, takes(errDown), nil, `0s Start
0s Attempt 3
1m0s AttemptDone 3: down, transient, delay 0s
1m0s settle dead in 0s: ` + dead + `
1m1s Done 3, max_attempts: ` + dead},
		"dead, and not stored": {3, retry.Policy{}, takes(errDown), errLost, `0s Start
0s Attempt 3
1m0s AttemptDone 3: down, transient, delay 0s
1m0s settle dead in 0s: ` + dead + `
1m1s Done 3, none: <nil>`},
		"too old": {2, retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Constant(0)}, takes(errDown), nil, `0s Start
0s Attempt 2
1m0s AttemptDone 2: down, transient, delay 0s
1m0s settle dead in 0s: job: gave up after 2 attempts in 1h1m0s (max_elapsed): down
1m1s Done 2, max_elapsed: job: gave up after 2 attempts in 1h1m0s (max_elapsed): down`},
		"refused by Before": {4, retry.Policy{}, nil, nil, `0s Start
0s settle dead in 0s: job: gave up after 3 attempts in 1h0m0s (max_attempts): retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement
1s Done 3, max_attempts: job: gave up after 3 attempts in 1h0m0s (max_attempts): retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement`},
		"timed out": {1, retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}, takes(errDown), nil, `0s Start
0s Attempt 1
1m0s AttemptDone 1: down, timed_out, delay 0s
1m0s Wait 0s
1m0s settle retry in 0s: <nil>
1m1s Done 1, none: <nil>`},
		"a mark, and a class by Patient": {1, retry.Policy{Backoff: retry.Constant(0)}, takes(retry.Undone(status(401))), nil, `0s Start
0s Attempt 1
1m0s AttemptDone 1: ` + status(401).Error() + `, transient, delay 0s
1m0s Wait 0s
1m0s settle retry in 0s: <nil>
1m1s Done 1, none: <nil>`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := tell(t, retryqueue.Delivery{Number: tt.number}, tt.p, tt.handle, tt.settled)
			if got := strings.Join(s.lines, "\n"); got != tt.want {
				t.Errorf("it went\n%s\nwant\n%s", got, tt.want)
			}
			if err != tt.settled {
				t.Errorf("Handle() = %v, want what settle returned: %v", err, tt.settled)
			}
		})
	}
}

// The context's end says nothing about a message, whose handler may be far: but a
// success counts.
func TestHandleWhoseContextEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		hook string // that ends it
		err  error
		want retryqueue.Action
		runs bool
	}{
		"before Handle": {"none", nil, retryqueue.Undecided, false},
		"by Start":      {"Start", nil, retryqueue.Undecided, false},
		"by Attempt":    {"Attempt", nil, retryqueue.Undecided, false},
		"failure":       {"handle", retry.Stop(errDown), retryqueue.Undecided, true},
		"success":       {"handle", nil, retryqueue.Ack, true},
		"answer":        {"handle", retry.Answer(errDown), retryqueue.Ack, true},
		"not yet":       {"handle", retry.ErrRejected, retryqueue.Undecided, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := func(hook string) {
			if tt.hook == hook || tt.hook == "none" {
				cancel()
			}
		}
		ended("")
		var summary retry.Summary
		p := retry.Policy{MaxAttempts: 1, Hooks: retry.Hooks{
			Start:   func(context.Context, retry.Policy) context.Context { ended("Start"); return nil },
			Attempt: func(context.Context, retry.Attempt) context.Context { ended("Attempt"); return nil },
			Done:    func(_ context.Context, s retry.Summary) { summary = s },
		}}
		ran := false
		var got []retryqueue.Decision
		err := retryqueue.Delivery{Number: 1}.Handle(ctx, p,
			func(context.Context) error { ran = true; ended("handle"); return tt.err },
			func(_ context.Context, d retryqueue.Decision) error { got = append(got, d); return nil })
		cancel()
		if len(got) != 1 || got[0] != (retryqueue.Decision{Action: tt.want}) || ran != tt.runs || err != nil {
			t.Errorf("%s: settle got %+v, want %v; the handler ran: %v", name, got, tt.want, ran)
		}
		if summary.Err != nil || summary.Reason != retry.ReasonNone {
			t.Errorf("%s: Done got %+v, want no error", name, summary)
		}
	}
}

// Context is called before Start, and not for a message that is dead already: such a one may have
// ended its process there.
func TestContextOfADelivery(t *testing.T) {
	type key struct{}
	for name, tt := range map[string]struct {
		number int
		gives  func(context.Context) context.Context
		calls  int
		want   any
	}{
		"a value": {2, func(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, "own") }, 1, "own"},
		"nil":     {2, func(context.Context) context.Context { return nil }, 1, nil},
		"dead":    {4, func(context.Context) context.Context { t.Error("Context is called"); return nil }, 0, nil},
	} {
		var seen []any
		see := func(ctx context.Context) { seen = append(seen, ctx.Value(key{})) }
		p := retry.Policy{MaxAttempts: 3, Hooks: retry.Hooks{Start: func(ctx context.Context, _ retry.Policy) context.Context { see(ctx); return ctx }}}
		calls := 0
		m := retryqueue.Delivery{Number: tt.number, Context: func(ctx context.Context) context.Context { calls++; return tt.gives(ctx) }}
		_ = m.Handle(t.Context(), p, func(ctx context.Context) error { see(ctx); return nil },
			func(ctx context.Context, _ retryqueue.Decision) error { see(ctx); return nil })
		if want := 2 + tt.calls; calls != tt.calls || len(seen) != want || slices.ContainsFunc(seen, func(v any) bool { return v != tt.want }) {
			t.Errorf("%s: after %d calls of Context Start, handle and settle see %v, want %v", name, calls, seen, tt.want)
		}
	}
}

// Done is called once, before settle, with what says to a gate how its dependency does.
func TestDoneOfADelivery(t *testing.T) {
	errOther := errors.New("other")
	ends := func(cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx
		}
	}
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, tt := range map[string]struct {
		number  int
		p       retry.Policy
		context func(context.Context) context.Context
		handle  func(ctx context.Context, cancel func()) error
		want    error // nil: a success; errStop: nothing
	}{
		"success":                         {handle: func(context.Context, func()) error { return nil }},
		"success of one that is canceled": {handle: func(_ context.Context, cancel func()) error { cancel(); return nil }},
		"failure":                         {handle: func(context.Context, func()) error { return errOther }, want: errOther},
		"its own cancellation":            {handle: func(context.Context, func()) error { return context.Canceled }, want: context.Canceled},
		"timeout":                         {p: retry.Policy{AttemptTimeout: time.Second}, handle: func(ctx context.Context, _ func()) error { return wait(ctx) }, want: context.DeadlineExceeded},
		"the process stops":               {handle: func(ctx context.Context, cancel func()) error { cancel(); return wait(ctx) }, want: errStop},
		"it has stopped":                  {context: ends(errOther), want: errStop},
		"dead":                            {number: 4, want: errStop},
		"panic":                           {handle: func(context.Context, func()) error { panic("boom") }, want: errStop},
		"Goexit":                          {handle: func(context.Context, func()) error { runtime.Goexit(); return nil }, want: errStop},
		"panic of Context":                {context: func(context.Context) context.Context { panic("boom") }, want: errStop},
		"an attempt that its hook cancels": {p: retry.Policy{Hooks: retry.Hooks{Attempt: func(ctx context.Context, _ retry.Attempt) context.Context { return ends(errOther)(ctx) }}},
			handle: func(ctx context.Context, _ func()) error { return wait(ctx) }, want: errStop},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var told []error
			settled := -1 // how often it was told before
			m := retryqueue.Delivery{Number: tt.number, Context: tt.context, Done: func(err error) { told = append(told, err) }}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_ = m.Handle(ctx, tt.p, func(ctx context.Context) error { return tt.handle(ctx, cancel) },
					func(context.Context, retryqueue.Decision) error { settled = len(told); return nil })
			}()
			<-ended
			stop := tt.want == errStop
			switch {
			case len(told) != 1:
				t.Errorf("%s: Done is called %d times", name, len(told))
			case stop && (retry.Policy{}).Judge(told[0]).Class != retry.Permanent, !stop && told[0] != tt.want:
				t.Errorf("%s: Done gets %v, want %v", name, told[0], tt.want)
			case settled == 0 && !strings.Contains(name, "panic") && name != "Goexit":
				t.Errorf("%s: Done is called after settle", name)
			}
		})
	}
}

var errStop = errors.New("an error that says nothing")

// The deadline of a consumer does not limit a wait that the queue makes.
func TestDeadlineOfTheContextDoesNotLimitTheWait(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got retryqueue.Decision
	_ = retryqueue.Delivery{Number: 1}.Handle(ctx, retry.Policy{Backoff: retry.Constant(time.Hour)}, func(context.Context) error { return errDown },
		func(_ context.Context, d retryqueue.Decision) error { got = d; return nil })
	if got.Action != retryqueue.Retry || got.Delay != time.Hour {
		t.Errorf("settle got %+v, want Retry in 1h", got)
	}
}

func TestPanicInHandlePassesOnAndIsSettled(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		var reasons []retry.Reason
		p := retry.Policy{Backoff: retry.Constant(0), Hooks: retry.Hooks{Done: func(_ context.Context, s retry.Summary) { reasons = append(reasons, s.Reason) }}}
		var settled []retryqueue.Decision
		for _, in := range []string{"handle", "settle"} {
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_ = retryqueue.Delivery{}.Handle(t.Context(), p,
					func(context.Context) error {
						if in == "handle" {
							end()
						}
						return nil
					},
					func(_ context.Context, d retryqueue.Decision) error {
						settled = append(settled, d)
						if in == "settle" {
							end()
						}
						return nil
					})
			}()
			if got := <-done; (got == "boom") != (name == "panic") {
				t.Errorf("%s in %s: out comes %v", name, in, got)
			}
		}
		want := []retryqueue.Decision{{Action: retryqueue.Retry, Panicked: true}, {Action: retryqueue.Ack}}
		if !reflect.DeepEqual(settled, want) || !reflect.DeepEqual(reasons, []retry.Reason{retry.ReasonPanic, retry.ReasonPanic}) {
			t.Errorf("%s: settle got %+v, and Done %v", name, settled, reasons)
		}
	}
}

// A message whose handler panics is delivered as often as the policy says, or five times if
// it sets no limit: each of these panics may end a process.
func TestMessageWhoseHandlerPanicsEndsAsADeadLetter(t *testing.T) {
	for _, tt := range []struct {
		p    retry.Policy
		want int
	}{
		{retry.Policy{}, 3}, {retry.Policy{MaxAttempts: 9}, 9}, {retry.Policy{MaxAttempts: 1}, 1}, {retry.Policy{MaxAttempts: 9, NonIdempotent: true}, 9},
		{retry.Policy{MaxAttempts: retry.Unlimited}, 5}, {retry.Policy{MaxAttempts: retry.Unlimited, NonIdempotent: true}, 5},
		{retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: 1}, 1},
		{retry.Policy{MaxElapsed: 24 * time.Hour}, 5}, {retry.Policy{MaxElapsed: 24 * time.Hour, NonIdempotent: true}, 5},
		{retry.Policy{MaxElapsed: time.Hour, MaxAttempts: 9}, 9}, {retry.Policy{MaxElapsed: math.MaxInt64}, 5},
		{retry.Policy{MaxElapsed: 4 * time.Millisecond}, 4}, {retry.Policy{MaxAttempts: -7, MaxElapsed: time.Hour}, 5},
	} {
		tt.p.Backoff = retry.Constant(time.Second)
		if tt.p.MaxElapsed == 4*time.Millisecond {
			tt.p.Backoff = retry.Constant(0)
		}
		for n := 1; ; n++ {
			var d retryqueue.Decision
			func() {
				defer func() { _ = recover() }()
				_ = retryqueue.Delivery{Number: n}.Handle(t.Context(), tt.p,
					func(context.Context) error { panic("boom") },
					func(_ context.Context, decided retryqueue.Decision) error { d = decided; return nil })
			}()
			if d.Action == retryqueue.Retry && d.Delay <= time.Second && d.Err == nil && n < 20 {
				continue
			}
			if d.Action != retryqueue.Dead || n != tt.want || d.Err.Attempts != n || !errors.Is(d.Err, retryqueue.ErrPanicked) {
				t.Errorf("%+v: delivery %d ends as %+v, want a dead letter after %d that panicked", tt.p, n, d, tt.want)
			}
			break
		}
	}
	// One that fails is delivered on.
	var d retryqueue.Decision
	_ = retryqueue.Delivery{Number: 1000}.Handle(t.Context(), retry.Policy{MaxAttempts: retry.Unlimited},
		func(context.Context) error { return errDown },
		func(_ context.Context, decided retryqueue.Decision) error { d = decided; return nil })
	if d.Action != retryqueue.Retry {
		t.Errorf("a delivery without a panic ends as %+v, want a retry", d)
	}
}

// Hooks see the policy that the user wrote, and the number of the delivery. The
// handler's attempt is the first one of this process.
func TestHandleShowsHooksTheUsersPolicy(t *testing.T) {
	budget, clock := &budget.Token{}, clockx.NewVirtual(now)
	var seen retry.Policy
	type key struct{}
	p := retry.Policy{
		Name: "job", MaxAttempts: 9, MaxElapsed: time.Hour, AttemptTimeout: time.Minute, NonIdempotent: true, Budget: budget, Clock: clock,
		Hooks: retry.Hooks{Start: func(ctx context.Context, p retry.Policy) context.Context {
			seen = p
			return context.WithValue(ctx, key{}, "run")
		}},
	}
	_ = retryqueue.Delivery{Number: 7}.Handle(t.Context(), p, func(ctx context.Context) error {
		if n := retry.AttemptNumber(ctx); n != 1 || ctx.Value(key{}) != "run" {
			t.Errorf("handle is attempt %d of %v", n, ctx.Value(key{}))
		}
		return status(401)
	}, func(ctx context.Context, d retryqueue.Decision) error {
		if ctx.Value(key{}) != "run" || ctx.Err() != nil {
			t.Error("settle has another context than the run's")
		}
		return nil
	})
	if seen.Classify != nil || seen.Budget != budget || seen.Clock != clock || seen.Rand != nil {
		t.Errorf("Start got %+v", seen)
	}
	seen.Hooks, p.Hooks = retry.Hooks{}, retry.Hooks{}
	if !reflect.DeepEqual(seen, p) {
		t.Errorf("Start got %+v, want %+v", seen, p)
	}
}

// A queue of the same process, by Handle alone.
func ExampleDelivery_Handle() {
	policy := retry.Policy{Name: "send-invoice", MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Minute, Max: time.Hour, Jitter: retry.NoJitter}}
	send := func(context.Context) error { return errors.New("connection refused") }
	for number := 1; number <= 3; number++ {
		_ = retryqueue.Delivery{Number: number}.Handle(context.Background(), policy, send,
			func(_ context.Context, d retryqueue.Decision) error {
				switch d.Action {
				case retryqueue.Ack:
					fmt.Println("done")
				case retryqueue.Retry:
					fmt.Println("again in", d.Delay)
				case retryqueue.Dead:
					fmt.Println("dead:", d.Err.Reason)
				case retryqueue.Undecided:
					fmt.Println("back to the queue")
				}
				return nil
			})
	}
	// Output:
	// again in 1m0s
	// again in 2m0s
	// dead: max_attempts
}

// A shutdown does not lose what was decided: settle's context has the values of the run's, and goes on.
func TestContextOfSettleNeverEnds(t *testing.T) {
	type key struct{}
	for name, tt := range map[string]struct {
		handle func() error
		want   retryqueue.Action
	}{
		"success":   {func() error { return nil }, retryqueue.Ack},
		"undecided": {func() error { return errDown }, retryqueue.Undecided},
		"panic":     {func() error { panic("handler") }, retryqueue.Retry},
	} {
		ctx, shutdown := context.WithCancel(context.WithValue(t.Context(), key{}, name))
		var settled context.Context
		var got retryqueue.Action
		func() {
			defer func() { _ = recover() }()
			_ = retryqueue.Delivery{Number: 1}.Handle(ctx, retry.Policy{}, func(context.Context) error {
				shutdown()
				return tt.handle()
			}, func(ctx context.Context, d retryqueue.Decision) error {
				settled, got = ctx, d.Action
				return nil
			})
		}()
		if settled == nil || settled.Err() != nil || settled.Value(key{}) != name || got != tt.want {
			t.Errorf("%s: settle gets %v for %v, want a context that goes on, for %v", name, settled, got, tt.want)
		}
	}
}

// What a Gate's Changed does says nothing of the message: that is settled as without it, and the panic goes on.
func TestAPanicInDoneIsNotTheHandlers(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want retryqueue.Action
	}{
		"success": {nil, retryqueue.Ack},
		"failure": {errDown, retryqueue.Retry},
		"dead":    {retry.Stop(errDown), retryqueue.Dead},
	} {
		for _, end := range []func(){func() { panic("changed") }, runtime.Goexit} {
			var got []retryqueue.Decision
			var told []error
			passed := make(chan bool)
			go func() {
				went := false
				defer func() { _ = recover(); passed <- !went }()
				_ = retryqueue.Delivery{Number: 1, Done: func(err error) { told = append(told, err); end() }}.Handle(t.Context(), retry.Policy{},
					func(context.Context) error { return tt.err },
					func(_ context.Context, d retryqueue.Decision) error { got = append(got, d); return nil })
				went = true
			}()
			if !<-passed || len(told) != 1 || told[0] != tt.err {
				t.Errorf("%s: Done was told %v, or its panic does not go on", name, told)
			}
			if len(got) != 1 || got[0].Action != tt.want || got[0].Panicked {
				t.Errorf("%s: settle got %+v, want %v", name, got, tt.want)
			}
		}
	}
}
