package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

func TestHooksSeeARun(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts = 3
	log := record(&p)
	errs := []error{classed(retry.Transient), retry.After(errDown, 5*time.Second), nil}
	p.Classify = byClass
	n := 0
	got, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		v.Advance(100 * ms)
		n++
		return n, errs[n-1]
	})
	if got != 3 || err != nil {
		t.Fatalf("Do() = %v, %v", got, err)
	}
	want := "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) wait(7s) attempt(3) attemptDone(3) done(none)"
	if log.String() != want {
		t.Errorf("hooks saw\n%s, want\n%s", log, want)
	}
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	begun := []retry.Attempt{
		{Name: "op", Number: 1, Start: at(0)},
		{Name: "op", Number: 2, Start: at(1100 * ms), Elapsed: 1100 * ms},
		{Name: "op", Number: 3, Start: at(8200 * ms), Elapsed: 8200 * ms},
	}
	if !slices.Equal(log.begun, begun) {
		t.Errorf("Attempt saw\n%+v, want\n%+v", log.begun, begun)
	}
	done := []retry.Attempt{
		{Name: "op", Number: 1, Start: at(0), Duration: 100 * ms, Elapsed: 100 * ms, Err: errs[0], Class: retry.Transient, Delay: time.Second},
		{Name: "op", Number: 2, Start: at(1100 * ms), Duration: 100 * ms, Elapsed: 1200 * ms, Err: errDown, Class: retry.Throttled, Delay: 7 * time.Second, Hint: 5 * time.Second},
		{Name: "op", Number: 3, Start: at(8200 * ms), Duration: 100 * ms, Elapsed: 8300 * ms},
	}
	if !slices.Equal(log.attempts, done) {
		t.Errorf("AttemptDone saw\n%+v, want\n%+v", log.attempts, done)
	}
	if !slices.Equal(log.waits, done[:2]) {
		t.Errorf("Wait saw\n%+v, want\n%+v", log.waits, done[:2])
	}
	if want := (retry.Summary{Name: "op", Attempts: 3, Elapsed: 8300 * ms, Waited: 8 * time.Second}); log.summary != want {
		t.Errorf("Done saw %+v, want %+v", log.summary, want)
	}
}

func TestHooksSeeAFirstTrySuccess(t *testing.T) {
	for _, took := range []time.Duration{0, time.Second} {
		p, v := virtual()
		log := record(&p)
		_ = retry.Run(t.Context(), p, func(context.Context) error { v.Advance(took); return nil })
		if want := (retry.Attempt{Name: "op", Number: 1, Start: epoch, Duration: took, Elapsed: took}); log.attempts[0] != want {
			t.Errorf("AttemptDone saw %+v, want %+v", log.attempts[0], want)
		}
		if want := (retry.Summary{Name: "op", Attempts: 1, Elapsed: took}); log.summary != want {
			t.Errorf("Done saw %+v, want %+v", log.summary, want)
		}
	}
}

func TestHooksSeeARunGiveUp(t *testing.T) {
	p, _ := virtual()
	p.MaxAttempts = 2
	log := record(&p)
	err := retry.Run(t.Context(), p, func(context.Context) error { return errDown })
	want := retry.Summary{
		Name: "op", Attempts: 2, Elapsed: time.Second, Waited: time.Second, Reason: retry.ReasonMaxAttempts, Err: err,
	}
	if log.summary != want {
		t.Errorf("Done saw %+v, want %+v", log.summary, want)
	}
	if got, want := log.String(), "start attempt(1) attemptDone(1) wait(1s) attempt(2) attemptDone(2) done(max_attempts)"; got != want {
		t.Errorf("hooks saw\n%s, want no wait after the last attempt:\n%s", got, want)
	}
	if last := log.attempts[1]; last.Delay != 0 || last.Class != retry.Transient {
		t.Errorf("the last AttemptDone saw %+v, want no delay and its class", last)
	}
}

func TestEachHookIsCalledAlone(t *testing.T) {
	calls := 0
	for name, hooks := range map[string]retry.Hooks{
		"Start": {Start: func(ctx context.Context, _ retry.Policy) context.Context { calls++; return ctx }},
		"Attempt": {Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			calls++
			if time.Since(a.Start) > time.Hour {
				t.Errorf("Attempt saw Start = %v", a.Start)
			}
			return ctx
		}},
		"AttemptDone": {AttemptDone: func(_ context.Context, a retry.Attempt) {
			calls++
			if time.Since(a.Start) > time.Hour || a.Duration < 0 || a.Duration > time.Hour {
				t.Errorf("AttemptDone saw %+v", a)
			}
		}},
		"Wait": {Wait: func(_ context.Context, a retry.Attempt) {
			calls++
			if time.Since(a.Start) > time.Hour || a.Duration < 0 || a.Duration > time.Hour {
				t.Errorf("Wait saw %+v", a)
			}
		}},
		"Done": {Done: func(_ context.Context, s retry.Summary) {
			calls++
			if s.Attempts != 1 || s.Elapsed < 0 || s.Elapsed > time.Hour {
				t.Errorf("Done saw %+v", s)
			}
		}},
	} {
		calls = 0
		_ = retry.Run(t.Context(), retry.Policy{Hooks: hooks, Backoff: retry.Constant(1)}, func(ctx context.Context) error {
			if name == "Wait" && retry.AttemptNumber(ctx) == 1 {
				return errDown
			}
			return nil
		})
		if calls != 1 {
			t.Errorf("%s was called %d times, want once", name, calls)
		}
	}
}

func TestHooksSeeTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Name: "x"}
		log := record(&p)
		start := time.Now()
		_ = retry.Run(t.Context(), p, func(context.Context) error { time.Sleep(time.Second); return nil })
		want := retry.Attempt{Name: "x", Number: 1, Start: start, Duration: time.Second, Elapsed: time.Second}
		if log.attempts[0] != want || !log.begun[0].Start.Equal(start) {
			t.Errorf("hooks saw %+v, want %+v", log.attempts[0], want)
		}
	})
}

// What an attempt's error means is not told of the next one.
func TestHooksSeeNoOldClass(t *testing.T) {
	for name, end := range map[string]func(p *retry.Policy, cancel func()) (op func(context.Context) error){
		"canceled in op": func(_ *retry.Policy, cancel func()) func(context.Context) error {
			return func(ctx context.Context) error {
				if retry.AttemptNumber(ctx) == 2 {
					cancel()
				}
				return hinted(time.Second)
			}
		},
		"canceled in a hook": func(p *retry.Policy, cancel func()) func(context.Context) error {
			p.Hooks.Attempt = func(ctx context.Context, a retry.Attempt) context.Context {
				if a.Number == 2 {
					cancel()
				}
				return ctx
			}
			return func(context.Context) error { return hinted(time.Second) }
		},
		"panic in the classifier": func(p *retry.Policy, _ func()) func(context.Context) error {
			p.Classify = func(err error) retry.Class {
				if err == errDown {
					panic("boom")
				}
				return retry.Unknown
			}
			return func(ctx context.Context) error {
				if retry.AttemptNumber(ctx) == 2 {
					return errDown
				}
				return hinted(time.Second)
			}
		},
	} {
		p, _ := virtual()
		ctx, cancel := context.WithCancel(t.Context())
		op := end(&p, cancel)
		log := record(&p)
		caught(func() { _ = retry.Run(ctx, p, op) })
		if a := log.attempts[1]; a.Class != retry.Unknown || a.Hint != 0 || a.Err == nil {
			t.Errorf("%s: AttemptDone saw %+v, want no class and no hint", name, a)
		}
	}
}

type key string

// with returns hooks that leave their name in the contexts they return.
func with(name string, trail *[]string) retry.Hooks {
	note := func(ctx context.Context, event string) {
		*trail = append(*trail, strings.Join([]string{name, event, value(ctx, "run"), value(ctx, "attempt")}, ":"))
	}
	add := func(ctx context.Context, k key) context.Context {
		return context.WithValue(ctx, k, value(ctx, k)+name)
	}
	return retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { return add(ctx, "run") },
		Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return add(ctx, "attempt") },
		AttemptDone: func(ctx context.Context, _ retry.Attempt) { note(ctx, "attemptDone") },
		Wait:        func(ctx context.Context, _ retry.Attempt) { note(ctx, "wait") },
		Done:        func(ctx context.Context, _ retry.Summary) { note(ctx, "done") },
	}
}

func value(ctx context.Context, k key) string {
	s, _ := ctx.Value(k).(string)
	return s
}

func TestHooksPassContexts(t *testing.T) {
	var trail []string
	p, _ := virtual()
	p.MaxAttempts = 2
	p.Hooks = retry.JoinHooks(with("a", &trail), retry.Hooks{}, with("b", &trail))
	_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
		trail = append(trail, "op:"+value(ctx, "run")+":"+value(ctx, "attempt"))
		return errDown
	})
	want := []string{
		"op:ab:ab", "b:attemptDone:ab:ab", "a:attemptDone:ab:ab", "a:wait:ab:", "b:wait:ab:",
		"op:ab:ab", "b:attemptDone:ab:ab", "a:attemptDone:ab:ab", "b:done:ab:", "a:done:ab:",
	}
	if !slices.Equal(trail, want) {
		t.Errorf("the trail is\n%q, want\n%q", trail, want)
	}
}

// If a Start does not return, what the hooks before it have begun has an end: each of
// their Dones is called once, in reverse, with a context that one of them returned.
func TestStartThatPanicsClosesTheHooksBeforeIt(t *testing.T) {
	for by, run := range doors {
		for end, leave := range departures {
			for _, nested := range []bool{false, true} {
				t.Run(fmt.Sprint(by, " ", end, " nested:", nested), func(t *testing.T) {
					var trail []string
					told := func(name string) retry.Hooks {
						return retry.Hooks{
							Start: func(ctx context.Context, _ retry.Policy) context.Context {
								trail = append(trail, name)
								return context.WithValue(ctx, key("run"), value(ctx, "run")+name)
							},
							Done: func(ctx context.Context, s retry.Summary) {
								e, _ := s.Err.(*retry.Error)
								if s.Name != "op" || s.Attempts != 0 || s.Reason != retry.ReasonPanic || e == nil || e.Attempts != 0 || e.Reason != retry.ReasonPanic || e.Name != "op" {
									t.Errorf("Done of %s got %+v", name, s)
								}
								trail = append(trail, name+":"+value(ctx, "run"))
							},
						}
					}
					bad := retry.Hooks{
						Start: func(context.Context, retry.Policy) context.Context { leave(); return nil },
						Done:  func(context.Context, retry.Summary) { trail = append(trail, "bad") },
					}
					a, b, c := told("a"), told("b"), told("c")
					b.Start = nil // counts as one that returned
					p, _ := virtual()
					if p.Hooks = retry.JoinHooks(a, b, c, bad, told("d")); nested {
						p.Hooks = retry.JoinHooks(retry.JoinHooks(a, b), retry.JoinHooks(c, retry.JoinHooks(bad, told("d"))))
					}
					got := apart(func() {
						_ = run(t.Context(), p, func(context.Context) error { t.Error("an attempt"); return nil })
					})
					want := []string{"a", "c", "c:ac", "b:ac", "a:ac"}
					if nested {
						want = []string{"a", "c", "c:ac", "b:a", "a:a"}
					}
					if !slices.Equal(trail, want) {
						t.Errorf("the trail is %v, want %v", trail, want)
					}
					if end == "panic" && got != "boom" {
						t.Errorf("recovered %v, want boom", got)
					}
				})
			}
		}
	}
}

// The Attempt of one of three joined hooks panics or exits. Those before it learn that
// there is no attempt, with the contexts that they have made.
func TestJoinedAttemptThatPanicsIsDoneToTheHooksBeforeIt(t *testing.T) {
	for end, leave := range departures {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprint(end, " nested:", nested), func(t *testing.T) {
				var trail []string
				told := func(name string) retry.Hooks {
					return retry.Hooks{
						Attempt: func(ctx context.Context, _ retry.Attempt) context.Context {
							trail = append(trail, name)
							return context.WithValue(ctx, key("attempt"), value(ctx, "attempt")+name)
						},
						AttemptDone: func(ctx context.Context, a retry.Attempt) {
							if a.Name != "op" || a.Number != 1 || a.Err == nil || a.Reason != retry.ReasonPanic {
								t.Errorf("AttemptDone of %s got %+v", name, a)
							}
							trail = append(trail, name+":"+value(ctx, "attempt"))
						},
						Done: func(context.Context, retry.Summary) { trail = append(trail, name+" done") },
					}
				}
				bad := retry.Hooks{
					Attempt:     func(context.Context, retry.Attempt) context.Context { leave(); return nil },
					AttemptDone: func(context.Context, retry.Attempt) { trail = append(trail, "bad") },
				}
				p, _ := virtual()
				if p.Hooks = retry.JoinHooks(told("a"), bad, told("b")); nested {
					p.Hooks = retry.JoinHooks(retry.JoinHooks(told("a"), bad), told("b"))
				}
				apart(func() {
					_ = retry.Run(t.Context(), p, func(context.Context) error { t.Error("op was called"); return nil })
				})
				if want := []string{"a", "a:a", "b done", "a done"}; !slices.Equal(trail, want) {
					t.Errorf("the trail is %v, want %v", trail, want)
				}
			})
		}
	}
}

// One of three joined hooks panics or exits. The others are called all the same, each as
// often as without that, and the panic goes on.
func TestJoinedHookThatPanicsKeepsNoOtherFromBeingCalled(t *testing.T) {
	for end, leave := range departures {
		for _, event := range []string{"AttemptDone", "Wait", "Done"} {
			for bad := range 3 {
				t.Run(fmt.Sprintf("%s in %s of hook %d", end, event, bad+1), func(t *testing.T) {
					var trail []string
					hook := func(n int) retry.Hooks {
						note := func(in string) {
							trail = append(trail, fmt.Sprint(in, n+1))
							if n == bad && in == event {
								leave()
							}
						}
						return retry.Hooks{
							AttemptDone: func(context.Context, retry.Attempt) { note("AttemptDone") },
							Wait:        func(context.Context, retry.Attempt) { note("Wait") },
							Done:        func(context.Context, retry.Summary) { note("Done") },
						}
					}
					p, _ := virtual()
					p.MaxAttempts = 2
					p.Hooks = retry.JoinHooks(hook(0), retry.Hooks{}, hook(1), hook(2))
					got := apart(func() {
						_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
						t.Error("Run returned")
					})
					want := []string{"AttemptDone3", "AttemptDone2", "AttemptDone1"}
					switch event {
					case "Wait":
						want = append(want, "Wait1", "Wait2", "Wait3")
					case "Done":
						want = slices.Concat(want, []string{"Wait1", "Wait2", "Wait3"}, want)
					}
					want = append(want, "Done3", "Done2", "Done1")
					if !slices.Equal(trail, want) {
						t.Errorf("called %v, want %v", trail, want)
					}
					if end == "panic" && got != "boom" {
						t.Errorf("recovered %v, want boom", got)
					}
				})
			}
		}
	}
}

func TestHooksThatReturnNoContextChangeNothing(t *testing.T) {
	none := retry.Hooks{
		Start:   func(context.Context, retry.Policy) context.Context { return nil },
		Attempt: func(context.Context, retry.Attempt) context.Context { return nil },
	}
	for _, hooks := range []retry.Hooks{none, retry.JoinHooks(none, none)} {
		p, _ := virtual()
		p.Hooks = hooks
		ctx := context.WithValue(t.Context(), key("x"), "kept")
		if err := retry.Run(ctx, p, func(ctx context.Context) error {
			if value(ctx, "x") != "kept" {
				t.Error("the caller's context was lost")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestStartSeesThePolicy(t *testing.T) {
	p := retry.Policy{MaxAttempts: 7}.Named("orders")
	p.Hooks.Start = func(ctx context.Context, got retry.Policy) context.Context {
		if got.Name != "orders" || got.MaxAttempts != 7 {
			t.Errorf("Start saw %q with %d attempts", got.Name, got.MaxAttempts)
		}
		return ctx
	}
	_ = retry.Run(t.Context(), p, func(context.Context) error { return nil })
}

func TestSlogHooks(t *testing.T) {
	var out bytes.Buffer
	logged := func(level slog.Level, ctx context.Context, op func(context.Context) error) string {
		t.Helper()
		out.Reset()
		p, _ := virtual()
		p.MaxAttempts = 2
		p.Hooks = retry.SlogHooks(slog.New(timeless(&out, level)))
		_ = retry.Run(ctx, p, op)
		return out.String()
	}
	busy := func(context.Context) error { return retry.After(errDown, time.Second) }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name  string
		level slog.Level
		ctx   context.Context
		op    func(context.Context) error
		want  string
	}{
		{"a success", slog.LevelDebug, t.Context(), func(context.Context) error { return nil }, `
level=DEBUG msg=attempt name=op attempt=1 duration=0s
`},
		{"giving up", slog.LevelDebug, t.Context(), busy, `
level=DEBUG msg=attempt name=op attempt=1 duration=0s class=throttled error=down delay=2s hint=1s
level=DEBUG msg=attempt name=op attempt=2 duration=0s class=throttled error=down hint=1s
level=WARN msg="gave up" name=op reason=max_attempts attempts=2 elapsed=2s waited=2s error="op: gave up after 2 attempts in 2s (max_attempts): down"
`},
		{"giving up, as most see it", slog.LevelInfo, t.Context(), busy, `
level=WARN msg="gave up" name=op reason=max_attempts attempts=2 elapsed=2s waited=2s error="op: gave up after 2 attempts in 2s (max_attempts): down"
`},
		{"an answer", slog.LevelInfo, t.Context(), func(context.Context) error { return retry.Stop(errDown) }, `
level=INFO msg="gave up" name=op reason=permanent attempts=1 elapsed=0s waited=0s error="op: gave up after 1 attempt in 0s (permanent): down"
`},
		{"refused", slog.LevelInfo, t.Context(), func(context.Context) error { return retry.Refuse(errDown) }, `
level=WARN msg="gave up" name=op reason=refused attempts=1 elapsed=0s waited=0s error="op: gave up after 1 attempt in 0s (refused): down"
`},
		{"an answer, where only warnings are seen", slog.LevelWarn, t.Context(), func(context.Context) error { return retry.Stop(errDown) }, "\n"},
		{"canceled", slog.LevelDebug, canceled, busy, `
level=DEBUG msg="gave up" name=op reason=canceled attempts=0 elapsed=0s waited=0s error="op: not attempted (canceled): context canceled"
`},
		{"canceled, as most see it", slog.LevelInfo, canceled, busy, "\n"},
	} {
		if got := logged(tt.level, tt.ctx, tt.op); got != tt.want[1:] {
			t.Errorf("%s logs\n%s, want\n%s", tt.name, got, tt.want[1:])
		}
	}
}

// A worker that fails for hours gives up nothing: it must not do so unseen.
func TestSlogHooksWarnOfARunThatKeepsFailing(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		attempts int
		want     []string // attempts that are logged at WARN
	}{
		{"failing", errDown, 64 + 1, []string{"16", "32", "64"}},
		{"failing at last", errDown, 64, []string{"16", "32"}}, // the run gives up, and says so
		{"polling", fmt.Errorf("x: %w", retry.ErrRejected), 64 + 1, nil},
	} {
		var out strings.Builder
		p, _ := virtual()
		p.MaxAttempts, p.Backoff = tt.attempts, retry.Constant(time.Second)
		p.Hooks = retry.SlogHooks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
		_ = retry.Run(t.Context(), p, func(context.Context) error { return tt.err })
		var got []string
		for line := range strings.Lines(out.String()) {
			if _, rest, ok := strings.Cut(line, `level=WARN msg="still failing" name=op attempt=`); ok {
				number, _, _ := strings.Cut(rest, " ")
				got = append(got, number)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: WARN at %v, want %v:\n%s", tt.name, got, tt.want, &out)
		}
	}
}

func TestSlogHooksLogTheWaitForAGuard(t *testing.T) {
	var out strings.Builder
	clock := clockx.NewVirtual(epoch)
	p := retry.Policy{Name: "op", Clock: clock, Guards: []retry.Guard{&gate{script: []enter{admits, sleeps(time.Second)}}}}
	_ = retry.Run(t.Context(), p, works)
	p.Hooks = retry.SlogHooks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	_ = retry.Run(t.Context(), p, works)
	if want := `level=DEBUG msg="waiting for a guard" name=op attempt=1 guard=retry_test.gate delay=1s`; !strings.Contains(out.String(), want) {
		t.Errorf("log\n%s, want %s", &out, want)
	}
}

// The least wait is one: it is logged, and none is not.
func TestSlogHooksLogTheShortestWait(t *testing.T) {
	var out strings.Builder
	hooks := retry.SlogHooks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	hooks.AttemptDone(t.Context(), retry.Attempt{Err: errDown, Delay: 1, Hint: 1})
	hooks.AttemptDone(t.Context(), retry.Attempt{Err: errDown})
	if logged := out.String(); strings.Count(logged, "delay=1ns hint=1ns") != 1 || strings.Count(logged, "delay=") != 1 {
		t.Errorf("logged\n%s, want one wait", logged)
	}
}

// timeless is a handler that leaves out when.
func timeless(to io.Writer, level slog.Level) slog.Handler {
	return slog.NewTextHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

func TestSlogHooksWithoutALoggerUseTheDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	hooks := retry.SlogHooks(nil)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil))) // after the hooks were built
	p, _ := virtual()
	p.Hooks = hooks
	_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.Stop(errDown) })
	if !strings.Contains(out.String(), "reason=permanent") {
		t.Errorf("the default logger got %q", &out)
	}
}

// oversleeper sleeps three times as long as it is asked to.
type oversleeper struct{ *clockx.Virtual }

func (o oversleeper) Sleep(ctx context.Context, d time.Duration) error {
	return o.Virtual.Sleep(ctx, 3*d)
}

// A wait counts once, as it was, also if the hook after it panics.
func TestWaitBeforeAPanicCountsOnce(t *testing.T) {
	p, v := virtual()
	p.Clock = oversleeper{v}
	log := record(&p)
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
		if a.Number == 2 {
			panic("hook")
		}
		return ctx
	}})
	caught(func() { _ = retry.Run(t.Context(), p, func(context.Context) error { return errDown }) })
	if log.summary.Waited != 3*time.Second || log.summary.Attempts != 1 {
		t.Errorf("Done saw %v of waits and %d attempts, want 3s and 1", log.summary.Waited, log.summary.Attempts)
	}
}

// Time that the hook Wait takes is no part of the next attempt.
func TestTimeOfTheWaitHookIsAWait(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.Backoff = 2, retry.Constant(0)
	log := record(&p)
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Wait: func(context.Context, retry.Attempt) { v.Advance(time.Second) }})
	_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
	second := log.attempts[1]
	if second.Start != epoch.Add(time.Second) || second.Duration != 0 || log.summary.Waited != time.Second {
		t.Errorf("the second attempt began at %v and took %v after waits of %v, want one of 1s before it", second.Start, second.Duration, log.summary.Waited)
	}
}

// What takes time is measured also where one hook alone, or none, can see it.
func TestTimesAroundTheShortestWaits(t *testing.T) {
	p, v := virtual()
	op := func(context.Context) error { v.Advance(time.Second); return errDown }
	p.MaxAttempts, p.Backoff = 3, retry.Constant(1)
	if e := gaveUp(t, retry.Run(t.Context(), p, op)); e.Waited != 2 || e.Elapsed != 3*time.Second+2 {
		t.Errorf("waited %v of %v, want 2ns of 3.000000002s", e.Waited, e.Elapsed)
	}
	p.Backoff = retry.Constant(0)
	var took, elapsed []time.Duration
	p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
		took, elapsed = append(took, a.Duration), append(elapsed, a.Elapsed)
	}
	if e := gaveUp(t, retry.Run(t.Context(), p, op)); e.Waited != 0 || e.Elapsed != 3*time.Second {
		t.Errorf("waited %v of %v, want none of 3s", e.Waited, e.Elapsed)
	}
	if !slices.Equal(took, []time.Duration{time.Second, time.Second}) || !slices.Equal(elapsed, []time.Duration{time.Second, 2 * time.Second}) {
		t.Errorf("the hook Wait saw attempts of %v that ended after %v, want 1s each", took, elapsed)
	}
}

// Each hook works alone: what one needs is there though the others are nil.
func TestHooksAlone(t *testing.T) {
	run := func(hooks retry.Hooks, op func(context.Context, *clockx.Virtual) error) {
		p, v := virtual()
		p.MaxAttempts, p.Backoff, p.Hooks = 2, retry.Constant(0), hooks
		defer func() { _ = recover() }()
		_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
			v.Advance(time.Second)
			return op(ctx, v)
		})
	}
	t.Run("AttemptDone after a panic", func(t *testing.T) {
		var got []retry.Attempt
		run(retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) { got = append(got, a) }},
			func(context.Context, *clockx.Virtual) error { panic("boom") })
		if len(got) != 1 || got[0].Err == nil || got[0].Number != 1 || got[0].Duration != time.Second {
			t.Errorf("AttemptDone got %+v, want the attempt that panicked", got)
		}
	})
	t.Run("Done has the time", func(t *testing.T) {
		var got retry.Summary
		done := retry.Hooks{Done: func(_ context.Context, s retry.Summary) { got = s }}
		run(done, func(context.Context, *clockx.Virtual) error { return nil })
		if got.Elapsed != time.Second || got.Attempts != 1 {
			t.Errorf("Done got %+v, want 1 attempt in 1s", got)
		}
		run(done, func(context.Context, *clockx.Virtual) error { return errDown })
		if got.Elapsed != 2*time.Second || got.Attempts != 2 {
			t.Errorf("Done got %+v, want 2 attempts in 2s", got)
		}
	})
	t.Run("AttemptDone after a retry without a wait", func(t *testing.T) {
		var got []time.Time
		run(retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) { got = append(got, a.Start) }},
			func(context.Context, *clockx.Virtual) error { return errDown })
		if want := []time.Time{epoch, epoch.Add(time.Second)}; !slices.Equal(got, want) {
			t.Errorf("the attempts began at %v, want %v", got, want)
		}
	})
}

func TestSummaryAfterAPanicInAttemptDoneCountsTheAttempt(t *testing.T) {
	p, _ := virtual()
	log := record(&p)
	calls := 0
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{AttemptDone: func(context.Context, retry.Attempt) { calls++; panic("boom") }})
	caught(func() { _ = retry.Run(t.Context(), p, func(context.Context) error { return nil }) })
	if log.summary.Attempts != 1 || calls != 1 {
		t.Errorf("Done got %+v after %d calls of AttemptDone, want 1 attempt and 1 call", log.summary, calls)
	}
}

// The wait that the hook Wait has cut short by a panic is as long as it was.
func TestSummaryAfterAPanicInWaitCountsTheWaitAsItWas(t *testing.T) {
	p, v := virtual()
	log := record(&p)
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Wait: func(context.Context, retry.Attempt) {
		v.Advance(time.Minute)
		panic("boom")
	}})
	caught(func() {
		_ = retry.Run(t.Context(), p, func(context.Context) error { v.Advance(time.Hour); return errDown })
	})
	if log.summary.Waited != time.Minute || log.summary.Elapsed != time.Hour+time.Minute {
		t.Errorf("Done got %v of waits in %v, want 1m of 1h1m", log.summary.Waited, log.summary.Elapsed)
	}
}

// The attempt's context ends when all have seen the attempt, whatever ended it.
func TestAttemptDoneGetsAContextThatHasNotEnded(t *testing.T) {
	for name, op := range map[string]func(context.Context) error{
		"success": func(context.Context) error { return nil },
		"failure": func(context.Context) error { return errDown },
		"panic":   func(context.Context) error { panic("boom") },
	} {
		p, v := virtual()
		p.AttemptTimeout = time.Minute
		done := 0
		p.Hooks.AttemptDone = func(ctx context.Context, _ retry.Attempt) {
			if done++; ctx.Err() != nil {
				t.Errorf("%s: AttemptDone got a context that has ended: %v", name, ctx.Err())
			}
		}
		caught(func() { _ = retry.Run(t.Context(), p, op) })
		if done == 0 || v.Pending() != 0 {
			t.Errorf("%s: AttemptDone was called %d times, and %d timeouts are left", name, done, v.Pending())
		}
	}
}

// After its last attempt a run waits for nothing: a panic in that attempt's hook
// changes no wait.
func TestSummaryAfterAPanicInTheLastAttemptDoneHasTheWaitsBefore(t *testing.T) {
	for last, want := range map[int]time.Duration{1: minute, 2: time.Second} {
		p, v := virtual()
		p.MaxAttempts = 2
		log := record(&p)
		p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) {
			if a.Number == last {
				v.Advance(minute)
				panic("boom")
			}
		}})
		caught(func() { _ = retry.Run(t.Context(), p, func(context.Context) error { return errDown }) })
		if log.summary.Waited != want || log.summary.Attempts != last {
			t.Errorf("after a panic in AttemptDone %d of 2 Done got %v of waits and %d attempts, want %v", last, log.summary.Waited, log.summary.Attempts, want)
		}
	}
}

// An attempt that the Attempt hook canceled has the cause as its error.
func TestAttemptDoneGetsTheCauseOfACancelInTheAttemptHook(t *testing.T) {
	p, _ := virtual()
	cause := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	log := record(&p)
	p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Attempt: func(ctx context.Context, _ retry.Attempt) context.Context { cancel(cause); return ctx }})
	wantReason(t, retry.Run(ctx, p, func(context.Context) error { t.Error("op was called"); return nil }), retry.ReasonCanceled)
	if len(log.attempts) != 1 || log.attempts[0].Err != cause {
		t.Errorf("AttemptDone got %+v, want the cause", log.attempts)
	}
}

// Nobody judges what an attempt returns once the caller has left.
func TestHooksGetNoVerdictOnACanceledAttempt(t *testing.T) {
	p, _ := virtual()
	seen := record(&p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = retry.Run(ctx, p, func(context.Context) error { cancel(); return retry.After(errDown, time.Second) })
	if a := seen.attempts[0]; a.Err != errDown || a.Class != retry.Unknown || a.Hint != 0 || a.Answered {
		t.Errorf("the hook saw %+v", a)
	}
}

// An attempt starts when the one before is over, with its hooks, also if no wait is between them.
func TestStartOfARetryWithoutAWait(t *testing.T) {
	for _, waitHook := range []bool{false, true} {
		p, v := virtual()
		p.MaxAttempts, p.Backoff = 2, retry.Constant(0)
		seen := record(&p)
		if !waitHook {
			p.Hooks.Wait = nil
		}
		p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{AttemptDone: func(context.Context, retry.Attempt) { v.Advance(time.Second) }})
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
		second, done := seen.begun[1], seen.attempts[1]
		if at := second.Start.Sub(epoch); at != time.Second || second.Elapsed != time.Second || done.Duration != 0 {
			t.Errorf("Hooks.Wait %v: the retry began at %v, Elapsed %v, and took %v; want 1s, 1s, 0s", waitHook, at, second.Elapsed, done.Duration)
		}
		if seen.summary.Waited != time.Second {
			t.Errorf("Hooks.Wait %v: Waited = %v, want 1s", waitHook, seen.summary.Waited)
		}
	}
}

// An attempt lasts until op returns: what the policy's funcs take comes after it.
func TestDurationIsThatOfOp(t *testing.T) {
	for _, doneHook := range []bool{false, true} {
		p, v := virtual()
		p.MaxAttempts, p.Backoff = 2, retry.Constant(time.Minute)
		p.Classify = func(error) retry.Class { v.Advance(time.Second); return retry.Transient }
		seen := record(&p)
		p.Hooks = retry.Hooks{Wait: p.Hooks.Wait}
		if doneHook {
			p.Hooks.Done = func(context.Context, retry.Summary) {}
		}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
		if got := seen.waits[0].Duration; got != 0 {
			t.Errorf("Hooks.Done %v: Duration = %v, want 0s", doneHook, got)
		}
	}
}

// randomTimes is a guard that takes its time, and has some attempts wait or refuses them.
type randomTimes struct {
	random *rand.Rand
	takes  func()
	exits  strings.Builder // what it is told
}

func (g *randomTimes) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	g.takes()
	switch g.random.IntN(6) {
	case 0:
		return retry.Pass{Wait: time.Second}, nil
	case 1:
		return retry.Pass{Wait: time.Second, Again: true}, nil
	case 2:
		return retry.Pass{}, errors.New("full")
	}
	return retry.Pass{}, nil
}

func (g *randomTimes) Leave(_ retry.Pass, x retry.Exit) {
	fmt.Fprintf(&g.exits, "; left with %v, %v, took %v, allowed %v", endings[x.Ending], x.Verdict.Class, x.Took, x.Allowed)
	g.takes()
}

// What a run does and returns, and when, and what its guards hear do not depend on which hooks watch
// it: random runs, whose own funcs all take their time, with each set of hooks, on a virtual clock and
// on the system's. Hooks.Start takes its time too, which is no part of the run.
func TestHooksChangeNothing(t *testing.T) {
	seeds := uint64(1500)
	if longTests {
		seeds = 20_000
	}
	names := slices.Sorted(maps.Keys(doors))
	run := func(ctx context.Context, seed uint64, hooks int, clock clockx.Clock, start time.Time, sleep func(time.Duration)) string {
		r := rand.New(rand.NewPCG(seed, 7))
		some := func() time.Duration { return time.Duration(r.IntN(3)) * time.Second }
		taking := func(d time.Duration) func() { return func() { sleep(d) } }
		p := retry.Policy{Clock: clock, MaxAttempts: 1 + r.IntN(4), MaxElapsed: 4 * some(), NonIdempotent: r.IntN(8) == 0, Rand: r.Float64}
		classify, backoff, leave, wait := taking(some()), taking(some()), taking(some()), some()
		p.Classify = func(error) retry.Class { classify(); return retry.Class(1 + r.IntN(5)) }
		p.Backoff = retry.BackoffFunc(func(retry.Step) time.Duration { backoff(); return wait })
		p.ThrottleBackoff = p.Backoff
		if r.IntN(2) == 0 {
			p.AttemptTimeout = 2 * time.Second
		}
		g := &randomTimes{random: r, takes: leave}
		if r.IntN(2) == 0 {
			p.Guards = []retry.Guard{g}
		}
		if r.IntN(2) == 0 {
			p.Budget = &grants{r, leave}
		}
		for i, set := range []func(*retry.Hooks){
			func(h *retry.Hooks) {
				h.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { return ctx }
			},
			func(h *retry.Hooks) { h.AttemptDone = func(context.Context, retry.Attempt) {} },
			func(h *retry.Hooks) { h.Wait = func(context.Context, retry.Attempt) {} },
			func(h *retry.Hooks) { h.Guard = func(context.Context, retry.Held) {} },
			func(h *retry.Hooks) { h.Done = func(context.Context, retry.Summary) {} },
			func(h *retry.Hooks) {
				h.Start = func(ctx context.Context, _ retry.Policy) context.Context {
					sleep(time.Minute)
					start = start.Add(time.Minute)
					return ctx
				}
			},
		} {
			if hooks>>i&1 != 0 {
				set(&p.Hooks)
			}
		}
		op, succeeds, n := taking(some()), r.IntN(6), 0
		err := doors[names[seed%uint64(len(names))]](ctx, p, func(context.Context) error {
			op()
			if n++; n == succeeds {
				return nil
			}
			return retry.After(errDown, some())
		})
		now := time.Now()
		if clock != nil {
			now = clock.Now()
		}
		what := fmt.Sprintf("%d calls in %v", n, now.Sub(start))
		if e, ok := errors.AsType[*retry.Error](err); ok {
			what += fmt.Sprintf(": %v, Attempts %d, Elapsed %v, Waited %v, Undone %v", e.Reason, e.Attempts, e.Elapsed, e.Waited, e.Undone)
		}
		return what + g.exits.String()
	}
	for seed := range seeds {
		onVirtual := func(hooks int) string {
			v := clockx.NewVirtual(epoch)
			return run(t.Context(), seed, hooks, v, epoch, v.Advance)
		}
		want := onVirtual(0)
		for hooks := range 64 {
			if got := onVirtual(hooks); got != want {
				t.Fatalf("seed %d, hooks %06b: %s; without: %s", seed, hooks, got, want)
			}
		}
		for _, hooks := range []int{0, int(seed % 64), 63} {
			synctest.Test(t, func(t *testing.T) {
				if got := run(t.Context(), seed, hooks, nil, time.Now(), time.Sleep); got != want {
					t.Fatalf("seed %d, hooks %06b, the system's clock: %s; on a virtual one: %s", seed, hooks, got, want)
				}
			})
		}
	}
}

// grants is a budget that takes its time, and refuses a fifth of the retries.
type grants struct {
	random *rand.Rand
	takes  func()
}

func (g *grants) Withdraw(retry.Withdrawal) bool { g.takes(); return g.random.IntN(5) > 0 }
func (g *grants) End(retry.Outcome)              { g.takes() }

// An attempt says whether another one follows, or why the run ends, also if nobody waits: so one hook
// can log "retrying" and "giving up".
func TestAttemptSaysWhatFollows(t *testing.T) {
	canceled := errors.New("canceled in op")
	for name, tt := range map[string]struct {
		edit   func(*retry.Policy)
		errs   []error // of op, the last one from then on
		reason retry.Reason
		tries  int
	}{
		"success":               {nil, []error{nil}, retry.ReasonNone, 1},
		"success after retries": {nil, []error{errDown, errDown, nil}, retry.ReasonNone, 3},
		"attempts":              {nil, []error{errDown}, retry.ReasonMaxAttempts, 3},
		"permanent":             {nil, []error{errDown, retry.Stop(errDown)}, retry.ReasonPermanent, 2},
		"refused":               {nil, []error{errDown, retry.Refuse(errDown)}, retry.ReasonRefused, 2},
		"an answer":             {nil, []error{errDown, retry.Answer(errDown)}, retry.ReasonPermanent, 2},
		"not idempotent":        {func(p *retry.Policy) { p.NonIdempotent = true }, []error{retry.Undone(errDown), errDown}, retry.ReasonNotIdempotent, 2},
		"time": {func(p *retry.Policy) {
			p.MaxElapsed, p.Backoff = time.Second, retry.Schedule{time.Second, time.Nanosecond}
		}, []error{errDown}, retry.ReasonMaxElapsed, 2},
		"a long hint": {func(p *retry.Policy) { p.MaxRetryAfter = time.Minute }, []error{errDown, retry.After(errDown, time.Hour)}, retry.ReasonRetryAfter, 2},
		"the budget":  {func(p *retry.Policy) { p.Budget = refusing{} }, []error{errDown}, retry.ReasonBudget, 1},
		"canceled":    {nil, []error{errDown, canceled}, retry.ReasonCanceled, 2},
		"a panic":     {nil, []error{errDown, errNil}, retry.ReasonPanic, 2},
	} {
		for door, run := range doors {
			for _, backoff := range []retry.Backoff{retry.Constant(0), retry.Constant(time.Millisecond)} {
				p, _ := virtual()
				p.MaxAttempts, p.Backoff = 3, backoff
				if tt.edit != nil {
					tt.edit(&p)
				}
				if tt.reason == retry.ReasonBudget && door == "Supervise" {
					continue // it goes on later
				}
				var got []retry.Attempt
				var s retry.Summary
				p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { got = append(got, a) }
				p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
					if a.Reason != retry.ReasonNone {
						t.Errorf("%s, %s: Wait gets the reason %v", name, door, a.Reason)
					}
				}
				p.Hooks.Done = func(_ context.Context, done retry.Summary) { s = done }
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				func() {
					defer func() { _ = recover() }()
					_ = run(ctx, p, func(context.Context) error {
						calls++
						switch err := tt.errs[min(calls, len(tt.errs))-1]; err {
						case errNil:
							panic("boom")
						case canceled:
							cancel()
							return err
						default:
							return err
						}
					})
				}()
				cancel()
				if len(got) != tt.tries || s.Reason != tt.reason {
					t.Errorf("%s, %s: %d attempts and %v, want %d and %v", name, door, len(got), s.Reason, tt.tries, tt.reason)
					continue
				}
				for i, a := range got {
					want := retry.ReasonNone
					if i == len(got)-1 {
						want = tt.reason
					}
					if a.Reason != want {
						t.Errorf("%s, %s: attempt %d has the reason %v, want %v", name, door, a.Number, a.Reason, want)
					}
				}
			}
		}
	}
	// The end of a healthy session of Supervise is no end: another one follows.
	p, v := virtual()
	p.MaxAttempts = 1
	var reasons []retry.Reason
	p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { reasons = append(reasons, a.Reason) }
	op, _ := lives(v, life{minute, errDown}, life{0, errDown})
	_ = retry.Supervise(t.Context(), p, minute, op)
	if want := []retry.Reason{retry.ReasonNone, retry.ReasonMaxAttempts}; !slices.Equal(reasons, want) {
		t.Errorf("Supervise's attempts have the reasons %v, want %v", reasons, want)
	}
}

// errNil stands for a panic.
var errNil = errors.New("panic")

// refusing is a budget without tokens.
type refusing struct{}

func (refusing) Withdraw(retry.Withdrawal) bool { return false }
func (refusing) End(retry.Outcome)              {}
