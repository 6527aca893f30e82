package retry_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func TestExitHoldsTheFactsOfTheAttempt(t *testing.T) {
	const s = time.Second
	after := func(d time.Duration, err error) func(context.Context, *clockx.Virtual, func()) error {
		return func(_ context.Context, v *clockx.Virtual, _ func()) error { v.Advance(d); return err }
	}
	leaves := func(err error) func(context.Context, *clockx.Virtual, func()) error {
		return func(_ context.Context, v *clockx.Virtual, cancel func()) error { v.Advance(s); cancel(); return err }
	}
	hangs := func(ctx context.Context, v *clockx.Virtual, _ func()) error { return v.Sleep(ctx, time.Hour) }
	type verdict = retry.Verdict
	for name, tt := range map[string]struct {
		timeout, deadline time.Duration
		edit              func(*retry.Policy)
		op                func(ctx context.Context, v *clockx.Virtual, cancel func()) error
		ending            retry.Ending
		took, allowed     time.Duration
		verdict           verdict
	}{
		"success":                              {0, 0, nil, after(s, nil), retry.Returned, s, 0, verdict{}},
		"success within its timeout":           {3 * s, 5 * s, nil, after(s, nil), retry.Returned, s, 3 * s, verdict{}},
		"success within the caller's deadline": {5 * s, 3 * s, nil, after(s, nil), retry.Returned, s, 3 * s, verdict{}},
		"success after the deadline":           {s, 0, nil, after(2*s, nil), retry.Returned, 2 * s, s, verdict{}},
		"success after a cancel":               {0, 0, nil, leaves(nil), retry.Canceled, s, 0, verdict{}}, // op may return nil since it was told to end
		"success after the caller's deadline":  {0, s, nil, after(2*s, nil), retry.Returned, 2 * s, s, verdict{}},
		"answer after the attempt timeout":     {s, 0, nil, after(2*s, retry.Answer(errDown)), retry.Returned, 2 * s, s, verdict{Err: errDown, Class: retry.Permanent, Answered: true, Marked: true}},
		"answer after the caller's deadline":   {0, s, nil, after(2*s, retry.Answer(errDown)), retry.Returned, 2 * s, s, verdict{Err: errDown, Class: retry.Permanent, Answered: true, Marked: true}},
		"answer after a cancel":                {0, 0, nil, leaves(retry.Answer(errDown)), retry.Canceled, s, 0, verdict{Err: errDown, Class: retry.Permanent, Answered: true, Marked: true}},
		"failure":                              {3 * s, 0, nil, after(s, errDown), retry.Returned, s, 3 * s, verdict{Err: errDown, Class: retry.Transient}},
		"throttled":                            {0, 0, nil, after(0, retry.After(errDown, 2*s)), retry.Returned, 0, 0, verdict{Err: errDown, Class: retry.Throttled, Hint: 2 * s, Marked: true}},
		"answer":                               {0, 0, nil, after(0, retry.Answer(errDown)), retry.Returned, 0, 0, verdict{Err: errDown, Class: retry.Permanent, Answered: true, Marked: true}},
		"refused":                              {0, 0, nil, after(0, retry.Refuse(errDown)), retry.Returned, 0, 0, verdict{Err: errDown, Class: retry.Permanent, Refused: true, Marked: true}},
		"undone":                               {0, 0, nil, after(0, retry.Undone(errDown)), retry.Returned, 0, 0, verdict{Err: errDown, Class: retry.Transient, Undone: true}},
		"not accepted":                         {0, 0, nil, after(0, retry.ErrRejected), retry.Returned, 0, 0, verdict{Err: retry.ErrRejected, Class: retry.Transient, Answered: true}},
		"by Classify":                          {0, 0, func(p *retry.Policy) { p.Classify = func(error) retry.Class { return retry.Unprocessed } }, after(0, errDown), retry.Returned, 0, 0, verdict{Err: errDown, Class: retry.Unprocessed, Undone: true}},
		"not idempotent":                       {0, 0, func(p *retry.Policy) { p.NonIdempotent = true }, after(0, errDown), retry.Returned, 0, 0, verdict{Err: errDown, Class: retry.Transient}}, // a verdict says facts: what follows for the policy is not there
		"attempt timeout":                      {2 * s, 5 * s, nil, hangs, retry.Expired, 2 * s, 2 * s, verdict{Err: context.DeadlineExceeded, Class: retry.TimedOut}},
		"attempt timeout, and the error does not say so": {2 * s, 0, nil, after(3*s, errDown), retry.Expired, 3 * s, 2 * s, verdict{Err: errDown, Class: retry.TimedOut}},
		"permanent after the attempt timeout":            {2 * s, 0, nil, after(3*s, retry.Stop(errDown)), retry.Expired, 3 * s, 2 * s, verdict{Err: errDown, Class: retry.Permanent, Marked: true}},
		"timed out within its time":                      {2 * s, 0, nil, after(s, context.DeadlineExceeded), retry.Returned, s, 2 * s, verdict{Err: context.DeadlineExceeded, Class: retry.TimedOut}},
		"canceled":                                       {3 * s, 0, nil, leaves(retry.Stop(errDown)), retry.Canceled, s, 3 * s, verdict{Err: errDown}},
		"failure just before its timeout":                {2 * s, 0, nil, after(2*s-1, errDown), retry.Returned, 2*s - 1, 2 * s, verdict{Err: errDown, Class: retry.Transient}},
		"the caller's deadline":                          {5 * s, 2 * s, nil, hangs, retry.Expired, 2 * s, 2 * s, verdict{Err: context.DeadlineExceeded}},
		"late after the caller's deadline":               {0, 2 * s, nil, after(5*s, errDown), retry.Expired, 5 * s, 2 * s, verdict{Err: errDown}},
	} {
		for door, run := range doors {
			p, v := virtual()
			p.MaxAttempts, p.AttemptTimeout = 1, tt.timeout
			if tt.edit != nil {
				tt.edit(&p)
			}
			ctx, cancel := context.WithCancel(t.Context())
			stop := context.CancelFunc(func() {})
			if tt.deadline > 0 {
				ctx, stop = v.WithTimeoutCause(ctx, tt.deadline, nil)
			}
			g, h := &gate{}, &gate{}
			p.Guards = []retry.Guard{g, nil, h}
			if name == "success" { // what guards take is no part of it
				g.script = []enter{takes(v, s, sleeps(2*s))}
			}
			_ = run(ctx, p, func(ctx context.Context) error { return tt.op(ctx, v, cancel) })
			stop()
			cancel()
			want := retry.Exit{Ending: tt.ending, Verdict: tt.verdict, Took: tt.took, Allowed: tt.allowed, Clock: v}
			for _, g := range []*gate{g, h} {
				if g.check(t); len(g.exits) != 1 || g.exits[0] != want {
					t.Errorf("%s, %s: exits\n%+v, want\n%+v", name, door, g.exits, want)
				}
			}
		}
	}
}

// The deadline of a retry is its own, and the caller's is that much nearer.
func TestExitOfARetry(t *testing.T) {
	p, v := virtual()
	g := guarded(&p)
	_ = retry.Run(limited(t, v, 10*time.Second), p, func(context.Context) error { v.Advance(time.Second); return errDown })
	for i, want := range []time.Duration{10 * time.Second, 8 * time.Second, 5 * time.Second} {
		if x := g.exits[i]; x.Allowed != want || x.Took != time.Second || x.Ending != retry.Returned {
			t.Errorf("attempt %d: %+v, want %v allowed", i+1, x, want)
		}
	}
}

// dated is a context whose deadline passes unnoticed.
type dated struct {
	context.Context
	at time.Time
}

func (d dated) Deadline() (time.Time, bool) { return d.at, true }

// An attempt that began after its deadline had one, though no time.
func TestExitOfAnAttemptThatBeganLate(t *testing.T) {
	p, v := virtual()
	g := guarded(&p)
	_ = retry.Run(dated{t.Context(), epoch.Add(-time.Hour)}, p, func(context.Context) error { v.Advance(time.Second); return errDown })
	if x := g.exits[0]; x.Allowed != 1 || x.Took != time.Second || x.Ending != retry.Expired {
		t.Errorf("exit %+v, want a nanosecond allowed", x)
	}
}

// A timeout that the caller of Attempts sees to counts as one of the run.
func TestExitOfAnUntimedAttempt(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct{ timeout, deadline, want time.Duration }{
		{0, 0, 0}, {2 * s, 0, 2 * s}, {2 * s, 5 * s, 2 * s}, {5 * s, 2 * s, 2 * s}, {0, 2 * s, 2 * s},
	} {
		p, v := virtual()
		g := &gate{}
		p.AttemptTimeout, p.Guards = tt.timeout, []retry.Guard{g}
		a := p.Attempts(limited(t, v, tt.deadline))
		a.Untimed()
		a.Next()
		v.Advance(s)
		given := retry.Verdict{Err: errDown, Class: retry.TimedOut, Once: true, End: retry.ReasonBudget, Partial: true, Undone: true}
		a.Judged(given)
		if want := (retry.Exit{Ending: retry.Returned, Verdict: given, Took: s, Allowed: tt.want, Clock: v}); g.exits[0] != want {
			t.Errorf("%+v: exit\n%+v, want\n%+v", tt, g.exits[0], want)
		}
	}
}

func TestExitOfARetryThatPanics(t *testing.T) {
	for _, back := range []bool{false, true} {
		p, v := virtual()
		want := time.Second
		if back {
			p.Clock, want = backward{v, new(time.Duration)}, 0
		}
		g := guarded(&p)
		calls := 0
		apart(func() {
			_ = retry.Run(t.Context(), p, func(context.Context) error {
				if calls++; calls == 1 {
					return errDown
				}
				v.Advance(time.Second)
				panic("boom")
			})
		})
		if x := g.exits[1]; x.Ending != retry.Panicked || x.Took != want {
			t.Errorf("clock set back: %v; exit %+v, want %v", back, x, want)
		}
	}
}

// What does not return where, and what the guards hear: each pass comes back once.
func TestGuardsAreLeftWhateverPanics(t *testing.T) {
	panicked := retry.Exit{Ending: retry.Panicked, Took: time.Second, Allowed: time.Minute}
	returned := retry.Exit{Ending: retry.Returned, Took: time.Second, Allowed: time.Minute, Verdict: retry.Verdict{Err: errDown, Class: retry.Transient}}
	full := retry.Exit{Verdict: retry.Verdict{Err: errFull}}
	all := func(x retry.Exit) [3][]retry.Exit { return [3][]retry.Exit{{x}, {x}, {x}} }
	always := func(step enter) func(func()) []enter { return func(func()) []enter { return []enter{step} } }
	for name, tt := range map[string]struct {
		edit   func(p *retry.Policy, v *clockx.Virtual, leave func())
		first  func(leave func()) []enter // of the first of three guards
		second func(leave func()) []enter
		want   [3][]retry.Exit
	}{
		"op": {want: all(panicked)},
		"Hooks.Start": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Hooks.Start = func(context.Context, retry.Policy) context.Context { leave(); return nil }
		}},
		"Hooks.Attempt": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Hooks.Attempt = func(context.Context, retry.Attempt) context.Context { leave(); return nil }
		}, want: all(retry.Exit{})},
		"AttemptDone": {edit: func(p *retry.Policy, v *clockx.Virtual, leave func()) {
			p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { leave() }
		}, want: all(returned)},
		"Hooks.Wait": {edit: func(p *retry.Policy, v *clockx.Virtual, leave func()) {
			p.Hooks.Wait = func(context.Context, retry.Attempt) { leave() }
		}, want: all(returned)},
		"Hooks.Done": {edit: func(p *retry.Policy, v *clockx.Virtual, leave func()) {
			p.MaxAttempts = 1
			p.Hooks.Done = func(context.Context, retry.Summary) { leave() }
		}, want: all(returned)},
		"Budget.Withdraw": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) { p.Budget = badBudget{withdraw: leave} }, want: all(returned)},
		"Budget.End": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.MaxAttempts = 1
			p.Budget = badBudget{end: leave}
		}, want: all(returned)},
		"Backoff": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { leave(); return 0 })
		}, want: all(returned)},
		"Classify": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Classify = func(error) retry.Class { leave(); return 0 }
		}, want: all(panicked)},
		"WithTimeoutCause": {edit: func(p *retry.Policy, v *clockx.Virtual, leave func()) { p.Clock = &hookedClock{v, leave} }, want: all(retry.Exit{})},
		"Enter":            {second: func(leave func()) []enter { return []enter{breaks(leave)} }, want: [3][]retry.Exit{{{}}}},
		"Enter again":      {second: func(leave func()) []enter { return []enter{asksAgain(1), breaks(leave)} }, want: [3][]retry.Exit{{{}}, {{}}}},
		"Enter of another": {second: always(sleeps(1)), first: func(leave func()) []enter { return []enter{asksAgain(1), asksAgain(1), breaks(leave)} }, want: [3][]retry.Exit{{{}}}},
		"Hooks.Guard in a wait": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Hooks.Guard = func(context.Context, retry.Held) { leave() }
		}, second: always(sleeps(time.Second)), want: [3][]retry.Exit{{{}}, {{}}}},
		"Hooks.Guard after a refusal": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Hooks.Guard = func(context.Context, retry.Held) { leave() }
		}, second: always(refuses(errFull)), want: [3][]retry.Exit{{full}}},
		"Hooks.Guard after the last refusal": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Hooks.Guard = func(context.Context, retry.Held) { leave() }
		}, second: always(refuses(retry.Stop(errFull))), want: [3][]retry.Exit{{full}}},
		"Backoff after a refusal": {edit: func(p *retry.Policy, _ *clockx.Virtual, leave func()) {
			p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { leave(); return 0 })
		}, second: always(refuses(errFull)), want: [3][]retry.Exit{{full}}},
		"Clock.Sleep in a wait": {edit: func(p *retry.Policy, v *clockx.Virtual, leave func()) { p.Clock = &awakeClock{v, leave} }, second: always(sleeps(time.Second)), want: [3][]retry.Exit{{{}}, {{}}}},
	} {
		for end, leave := range departures {
			for door, run := range doors {
				t.Run(fmt.Sprint(name, "/", end, "/", door), func(t *testing.T) {
					p, v := virtual()
					p.AttemptTimeout = time.Minute
					if tt.edit != nil {
						tt.edit(&p, v, leave)
					}
					seen := record(&p)
					a, b, c := &gate{}, &gate{}, &gate{}
					if tt.first != nil {
						a.script = tt.first(leave)
					}
					if tt.second != nil {
						b.script = tt.second(leave)
					}
					p.Guards = []retry.Guard{a, nil, b, c}
					apart(func() {
						_ = run(t.Context(), p, func(context.Context) error {
							v.Advance(time.Second)
							if tt.edit == nil && tt.second == nil {
								leave()
							}
							return errDown
						})
						t.Error("it returned")
					})
					for i, g := range []*gate{a, b, c} {
						g.check(t)
						want := slices.Clone(tt.want[i])
						for i := range want {
							want[i].Clock = on(p)
							if want[i].Ending == retry.Panicked && len(g.exits) > i {
								want[i].Verdict = g.exits[i].Verdict
							}
						}
						if !slices.Equal(g.exits, want) {
							t.Errorf("exits of guard %d\n%+v, want\n%+v", i+1, g.exits, want)
						}
						for _, x := range g.exits {
							if x.Ending == retry.Panicked && (x.Verdict.Err == nil || x.Verdict.Class != retry.Unknown) {
								t.Errorf("the verdict of a panic is %+v", x.Verdict)
							}
						}
					}
					if seen.summary.Reason != retry.ReasonPanic && name != "Hooks.Start" && name != "Hooks.Done" && name != "Hooks.Guard after the last refusal" && name != "Budget.End" ||
						v.Pending() != 0 {
						t.Errorf("%+v, and %d timers", seen.summary, v.Pending())
					}
				})
			}
		}
	}
}

// badBudget is a budget that does not return from one of its methods.
type badBudget struct{ withdraw, end func() }

func call(f func()) {
	if f != nil {
		f()
	}
}

func (b badBudget) Withdraw(retry.Withdrawal) bool { call(b.withdraw); return true }
func (b badBudget) End(retry.Outcome)              { call(b.end) }

// awakeClock is one that cannot sleep.
type awakeClock struct {
	*clockx.Virtual
	leave func()
}

func (c *awakeClock) Sleep(context.Context, time.Duration) error { c.leave(); return nil }

// A Leave that does not return keeps no other guard from being left.
func TestGuardsAreLeftThoughALeavePanics(t *testing.T) {
	for end, leave := range departures {
		for door, run := range doors {
			for bad := range 8 { // a bit for each guard
				for when, tt := range map[string]struct {
					script []enter
					op     func() error
					ending retry.Ending
				}{
					"refused": {[]enter{refuses(retry.Stop(errFull))}, nil, retry.NotMade},
					"success": {nil, func() error { return nil }, retry.Returned},
					"failure": {nil, func() error { return errDown }, retry.Returned},
					"panic":   {nil, func() error { panic("op") }, retry.Panicked},
				} {
					p, _ := virtual()
					seen := record(&p)
					gates := []*gate{{name: "a", log: seen.add}, {name: "b", log: seen.add}, {name: "c", log: seen.add}, {name: "d", log: seen.add, script: tt.script}}
					for i, g := range gates {
						if p.Guards = append(p.Guards, g); bad&(1<<i) != 0 {
							g.onLeave = leave
						}
					}
					apart(func() { _ = run(t.Context(), p, func(context.Context) error { return tt.op() }) })
					var left []string
					for _, word := range seen.words {
						if len(word) > 6 && word[:6] == "leave " {
							left = append(left, word[6:])
						}
					}
					want := []string{"d " + endings[tt.ending], "c " + endings[tt.ending], "b " + endings[tt.ending], "a " + endings[tt.ending]}
					if when == "refused" {
						want = want[1:]
					}
					if when == "failure" && bad == 0 {
						want = slices.Repeat(want, 5)
						if door == "Supervise" {
							want = slices.Repeat(want[:4], 5)
						}
					}
					if !slices.Equal(left, want) {
						t.Errorf("%s in %03b, %s, %s: left %v, want %v", end, bad, door, when, left, want)
					}
					for _, g := range gates {
						g.check(t)
					}
				}
			}
		}
	}
}

func TestHeldPassesOutliveTheAttempt(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.AttemptTimeout = 3, time.Minute
	g, h := &gate{}, &gate{script: []enter{sleeps(time.Second)}}
	p.Guards = []retry.Guard{g, nil, h}
	a := p.Attempts(t.Context())
	defer a.Close()
	wantPanic(t, "retry: Hold without Next", func() { a.Hold() })
	a.Next()
	v.Advance(time.Second)
	first, again := a.Hold(), a.Hold() // the second one keeps nothing
	v.Advance(time.Second)
	if !a.Done(errDown) || len(g.exits)+len(h.exits) != 0 {
		t.Errorf("left when the attempt was done: %v, %v", g.exits, h.exits)
	}
	wantPanic(t, "retry: Hold without Next", func() { a.Hold() })
	a.Next()
	if len(g.open) != 2 || len(h.open) != 2 {
		t.Errorf("open are %v and %v, want two of each", g.open, h.open)
	}
	a.Done(errDown) // its passes are not held
	a.Next()
	v.Advance(time.Second)
	last := a.Hold()
	a.Done(nil)
	again(retry.Exit{Ending: retry.Canceled})
	v.Advance(time.Hour)
	last(retry.Exit{Ending: retry.Returned, Took: time.Hour}) // its times are those up to Hold
	first(retry.Exit{Ending: retry.Expired, Verdict: retry.Verdict{Err: errDown, Class: retry.TimedOut}, Took: 2, Allowed: 3})
	for range 2 {
		first(retry.Exit{})
		last(retry.Exit{})
	}
	want := []retry.Exit{
		{Ending: retry.Returned, Verdict: retry.Verdict{Err: errDown, Class: retry.Transient}, Allowed: time.Minute, Clock: v},
		{Ending: retry.Returned, Took: time.Second, Allowed: time.Minute, Clock: v},
		{Ending: retry.Expired, Verdict: retry.Verdict{Err: errDown, Class: retry.TimedOut}, Took: time.Second, Allowed: time.Minute, Clock: v},
	}
	for _, g := range []*gate{g, h} {
		if g.check(t); !slices.Equal(g.exits, want) {
			t.Errorf("exits\n%+v, want\n%+v", g.exits, want)
		}
	}
	wantPanic(t, "retry: Hold without Next", func() { a.Hold() })
}

// A panic in the attempt leaves what is held to who holds it.
func TestHeldPassesOutliveAPanic(t *testing.T) {
	p, _ := virtual()
	g := guarded(&p)
	seen := record(&p)
	var leave func(retry.Exit)
	apart(func() {
		a := p.Attempts(t.Context())
		defer a.Close()
		a.Next()
		leave = a.Hold()
		panic("boom")
	})
	if len(g.exits) != 0 || seen.summary.Reason != retry.ReasonPanic {
		t.Errorf("%v, %+v", g.exits, seen.summary)
	}
	leave(retry.Exit{Ending: retry.Panicked})
	if g.check(t); len(g.exits) != 1 || g.exits[0].Ending != retry.Panicked {
		t.Error(g.exits)
	}
}

func TestAdmit(t *testing.T) {
	p, v := virtual()
	p.MaxElapsed = time.Hour
	seen := record(&p)
	g, h := &gate{name: "g", log: seen.add}, &gate{name: "h", log: seen.add}
	p.Guards = []retry.Guard{g, nil, h}
	given := retry.Entry{Name: "other", Number: 3, Class: retry.Throttled, Hedge: true, Patience: time.Hour, Clock: clockx.System(), Earlier: retry.Pass{Again: true, Held: 1}}
	leave, err := p.Admit(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*gate{g, h} {
		e := g.entries[0]
		random := e.Rand
		e.Rand = nil // funcs cannot be compared
		if want := (retry.Entry{Name: "op", Number: 3, Class: retry.Throttled, Hedge: true, Clock: v}); !reflect.DeepEqual(e, want) || random == nil || random() != p.Rand() {
			t.Errorf("entry\n%+v, want\n%+v", e, want)
		}
	}
	x := retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errDown, Class: retry.Permanent}, Took: 1, Allowed: 2}
	var all sync.WaitGroup
	for range 8 { // who comes first
		all.Go(func() { leave(x) })
	}
	all.Wait()
	leave(x)
	x.Clock = v
	for _, g := range []*gate{g, h} {
		if g.check(t); len(g.exits) != 1 || g.exits[0] != x {
			t.Errorf("exits\n%+v, want\n%+v", g.exits, x)
		}
	}
	if got, want := seen.String(), "enter g enter h leave h returned leave g returned"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	if leave, err = p.Admit(t.Context(), retry.Entry{}); err != nil || g.entries[1].Number != 1 {
		t.Errorf("%v, entry %+v", err, g.entries[1])
	}
	leave(retry.Exit{})
}

func TestAdmitDoesNotWait(t *testing.T) {
	for name, tt := range map[string]struct {
		step  enter
		want  error // nil: an ErrPaced
		asked bool  // the pass is left
	}{
		"refused": {refuses(errFull), errFull, false}, "stopped": {refuses(retry.Stop(errFull)), errFull, false},
		"waits": {sleeps(1), nil, true}, "asks again": {asksAgain(time.Hour), nil, true},
	} {
		for _, hedge := range []bool{false, true} {
			p, v := virtual()
			_ = record(&p)
			p.Budget = &loggedBudget{log: t.Errorf}
			g, h, later := &gate{}, &gate{script: []enter{tt.step}}, &gate{}
			p.Guards = []retry.Guard{g, h, later}
			leave, err := p.Admit(t.Context(), retry.Entry{Hedge: hedge})
			if leave != nil || err == nil || !errors.Is(err, cmpOr(tt.want, retry.ErrPaced)) || tt.want == nil == (retry.DefaultClassifier(err) != retry.Unprocessed) {
				t.Errorf("%s: Admit() = leave is nil: %v, %v", name, leave == nil, err)
			}
			if v.Now() != epoch || len(later.entries) != 0 || len(g.exits) != 1 || !unsent(g.exits[0], cmpOr(tt.want, retry.ErrPaced)) || (len(h.exits) == 1) != tt.asked {
				t.Errorf("%s: exits %v, %v, after %v", name, g.exits, h.exits, v.Now().Sub(epoch))
			}
			g.check(t)
			h.check(t)
		}
	}
}

// cmpOr is cmp.Or for errors.
func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func TestAdmitLeavesWhateverPanics(t *testing.T) {
	for end, leave := range departures {
		for bad := range 4 {
			for when, tt := range map[string]struct {
				step enter
				err  error
			}{"Enter": {breaks(leave), nil}, "a refusal": {refuses(errFull), errFull}, "a wait": {sleeps(1), retry.ErrPaced}} {
				p, _ := virtual()
				g, h, last := &gate{}, &gate{}, &gate{script: []enter{tt.step}}
				if bad&1 != 0 {
					g.onLeave = leave
				}
				if bad&2 != 0 {
					h.onLeave = leave
				}
				p.Guards = []retry.Guard{g, h, last}
				apart(func() { _, _ = p.Admit(t.Context(), retry.Entry{}) })
				for _, g := range []*gate{g, h, last} {
					if g.check(t); len(g.exits) > 1 || len(g.exits) == 1 && !unsent(g.exits[0], tt.err) {
						t.Errorf("%s in %s: exits %v", end, when, g.exits)
					}
				}
				last.script = nil
				apart(func() {
					done, err := p.Admit(t.Context(), retry.Entry{})
					if err != nil {
						t.Error(err)
					}
					defer done(retry.Exit{Ending: retry.Panicked})
					done(retry.Exit{Ending: retry.Returned})
				})
				for _, g := range []*gate{g, h, last} {
					if g.check(t); g.exits[len(g.exits)-1].Ending != retry.Returned {
						t.Errorf("%s: exits %v", end, g.exits)
					}
				}
			}
		}
	}
}

func TestAdmitWithoutGuards(t *testing.T) {
	for _, guards := range [][]retry.Guard{nil, {}, {nil}, {idle{}}} {
		leave, err := retry.Policy{Guards: guards}.Admit(t.Context(), retry.Entry{Hedge: true})
		if err != nil {
			t.Fatal(guards, err)
		}
		leave(retry.Exit{Ending: retry.Returned})
		leave(retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errDown, Class: retry.Throttled}})
	}
}

// What an attempt has come to, took and was allowed is known when op returns: nothing of that changes
// if Classify takes its time, passes a deadline or has the caller leave, nor if Hooks.Attempt took
// its time before.
func TestAnAttemptIsThatOfOpAlone(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		timeout, deadline time.Duration
		edit              func(p *retry.Policy, v *clockx.Virtual, cancel func())
		takes             time.Duration // op
		want              retry.Exit
	}{
		"Classify within the time":               {2 * s, 0, classifyTakes(s / 2), s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"Classify beyond the attempt's deadline": {2 * s, 0, classifyTakes(5 * s), s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"Classify up to the attempt's deadline":  {2 * s, 0, classifyTakes(s), s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"Classify beyond the caller's deadline":  {0, 2 * s, classifyTakes(5 * s), s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"Classify that has the caller leave": {2 * s, 0, func(p *retry.Policy, _ *clockx.Virtual, cancel func()) {
			p.Classify = func(error) retry.Class { cancel(); return 0 }
		}, s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"Classify after an op that was late":        {2 * s, 0, classifyTakes(s), 3 * s, retry.Exit{Ending: retry.Expired, Took: 3 * s, Allowed: 2 * s}},
		"Hooks.Attempt":                             {2 * s, 0, attemptTakes(s), 3 * s / 2, retry.Exit{Ending: retry.Returned, Took: 3 * s / 2, Allowed: 2 * s}},
		"Hooks.Attempt, longer than the timeout":    {2 * s, 0, attemptTakes(5 * s), s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"Hooks.Attempt before an op that was late":  {2 * s, 0, attemptTakes(s), 5 * s / 2, retry.Exit{Ending: retry.Expired, Took: 5 * s / 2, Allowed: 2 * s}},
		"Hooks.Attempt under the caller's deadline": {0, 4 * s, attemptTakes(s), 2 * s, retry.Exit{Ending: retry.Returned, Took: 2 * s, Allowed: 3 * s}},
		"Hooks.Attempt until the caller's deadline": {0, 4 * s, attemptTakes(s), 3 * s, retry.Exit{Ending: retry.Expired, Took: 3 * s, Allowed: 3 * s}},
		"Hooks.Start, longer than the timeout":      {2 * s, 0, startTakes(5 * s), s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 2 * s}},
		"all of them, and an op until the last tick": {2 * s, 0, func(p *retry.Policy, v *clockx.Virtual, cancel func()) {
			startTakes(s)(p, v, cancel)
			attemptTakes(s)(p, v, cancel)
			classifyTakes(s)(p, v, cancel)
		}, 2*s - 1, retry.Exit{Ending: retry.Returned, Took: 2*s - 1, Allowed: 2 * s}},
	} {
		for door, run := range doors {
			p, v := virtual()
			p.MaxAttempts, p.AttemptTimeout = 1, tt.timeout
			ctx, cancel := context.WithCancel(t.Context())
			stop := context.CancelFunc(func() {})
			if tt.deadline > 0 {
				ctx, stop = v.WithTimeoutCause(ctx, tt.deadline, nil)
			}
			tt.edit(&p, v, cancel)
			g := guarded(&p)
			seen := record(&p)
			_ = run(ctx, p, func(context.Context) error { v.Advance(tt.takes); return errDown })
			stop()
			cancel()
			want, class := tt.want, retry.Transient
			if want.Ending == retry.Expired {
				class = retry.TimedOut
			}
			if tt.want.Ending == retry.Expired && tt.timeout == 0 {
				class = retry.Unknown // nobody judges it
			}
			want.Clock, want.Verdict = v, retry.Verdict{Err: errDown, Class: class}
			if g.check(t); len(g.exits) != 1 || g.exits[0] != want || seen.attempts[0].Class != class {
				t.Errorf("%s, %s: exits\n%+v, want\n%+v; AttemptDone got %v", name, door, g.exits, want, seen.attempts[0].Class)
			}
		}
	}
}

func classifyTakes(d time.Duration) func(*retry.Policy, *clockx.Virtual, func()) {
	return func(p *retry.Policy, v *clockx.Virtual, _ func()) {
		p.Classify = func(error) retry.Class { v.Advance(d); return retry.Unknown }
	}
}

func attemptTakes(d time.Duration) func(*retry.Policy, *clockx.Virtual, func()) {
	return func(p *retry.Policy, v *clockx.Virtual, _ func()) {
		p.Hooks.Attempt = func(context.Context, retry.Attempt) context.Context { v.Advance(d); return nil }
	}
}

func startTakes(d time.Duration) func(*retry.Policy, *clockx.Virtual, func()) {
	return func(p *retry.Policy, v *clockx.Virtual, _ func()) {
		p.Hooks.Start = func(context.Context, retry.Policy) context.Context { v.Advance(d); return nil }
	}
}

// An attempt ends when op returns, whatever panics after that, and with the error of op.
func TestAPanicAfterOpChangesNothingOfItsAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(p *retry.Policy, v *clockx.Virtual)
		op   error
		want error // of AttemptDone
	}{
		"Leave": {func(p *retry.Policy, v *clockx.Virtual) {
			p.Guards = []retry.Guard{&gate{onLeave: func() { v.Advance(2 * time.Second); panic("leave") }}}
		}, errDown, errDown},
		"Leave, after a success": {func(p *retry.Policy, v *clockx.Virtual) {
			p.Guards = []retry.Guard{&gate{onLeave: func() { v.Advance(2 * time.Second); panic("leave") }}}
		}, nil, errPanicked},
		"Backoff": {func(p *retry.Policy, v *clockx.Virtual) {
			p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { v.Advance(2 * time.Second); panic("backoff") })
		}, errDown, errDown},
		"Classify": {func(p *retry.Policy, v *clockx.Virtual) {
			p.Classify = func(error) retry.Class { v.Advance(2 * time.Second); panic("classify") }
		}, errDown, errDown},
		"Budget.End, after a success": {func(p *retry.Policy, v *clockx.Virtual) { p.Budget = endPanics{} }, nil, nil},
		"Budget.End":                  {func(p *retry.Policy, v *clockx.Virtual) { p.Budget, p.MaxAttempts = endPanics{}, 1 }, errDown, errDown},
	} {
		p, v := virtual()
		tt.edit(&p, v)
		seen := record(&p)
		apart(func() {
			_ = retry.Run(t.Context(), p, func(context.Context) error { v.Advance(time.Second); return tt.op })
		})
		a, s := seen.attempts[0], seen.summary
		if a.Duration != time.Second || s.Waited+a.Duration > s.Elapsed {
			t.Errorf("%s: op of 1s: Duration %v, Waited %v of Elapsed %v", name, a.Duration, s.Waited, s.Elapsed)
		}
		if a.Err != tt.want && (tt.want != errPanicked || a.Err == nil) {
			t.Errorf("%s: AttemptDone got %v, want %v", name, a.Err, tt.want)
		}
	}
}

var errPanicked = errors.New("any error")

// endPanics is a budget that panics at the end.
type endPanics struct{}

func (endPanics) Withdraw(retry.Withdrawal) bool { return true }
func (endPanics) End(retry.Outcome)              { panic("end") }

// A guard that panics when it is left makes no attempt of one that was canceled before op.
func TestAPanicInLeaveMakesNoAttempt(t *testing.T) {
	p, _ := virtual()
	ctx, cancel := context.WithCancel(t.Context())
	p.Guards = []retry.Guard{&gate{onLeave: func() { panic("leave") }}}
	p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { cancel(); return ctx }
	seen := record(&p)
	calls := 0
	apart(func() { _ = retry.Run(ctx, p, func(context.Context) error { calls++; return nil }) })
	e, ok := errors.AsType[*retry.Error](seen.summary.Err)
	if !ok || calls != 0 || seen.summary.Attempts != 0 || !e.Undone || len(e.Errs) > 0 || len(seen.attempts) != 1 {
		t.Errorf("%d calls, %d attempts, %+v", calls, seen.summary.Attempts, e)
	}
}
