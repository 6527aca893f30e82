package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/failover"
)

var (
	errDown    = errors.New("down")                    // Transient
	errBad     = retry.Stop(errors.New("bad request")) // marked Permanent
	errRefused = retry.Undone(errors.New("refused"))   // did nothing
	errHang    = errors.New("hangs")                   // the op waits for the end of its context
	errFilter  = status(422)
	errKey     = status(401)
	errUsed    = status(402)
)

type status int

func (s status) Error() string   { return fmt.Sprint("status ", int(s)) }
func (s status) StatusCode() int { return int(s) }

// atOnce asks for a retry at once.
type atOnce struct{}

func (atOnce) Error() string             { return "at once" }
func (atOnce) RetryAfter() time.Duration { return 0 }
func (atOnce) RetryNow() bool            { return true }

func told(d time.Duration) error { return retry.After(status(429), d) }

// lab has targets a, b and c, and a log of the attempts at them.
type lab struct {
	*testing.T
	clock  *clockx.Virtual
	start  time.Time
	policy retry.Policy
	set    failover.Set[string]
	says   map[string]func() error // what a target answers; nil: a success
	log    []string
	timed  bool // the log has times
}

func newLab(t *testing.T, targets string) *lab {
	l := &lab{T: t, start: time.Unix(1000, 0), says: map[string]func() error{}}
	l.clock = clockx.NewVirtual(l.start)
	l.policy = retry.Policy{
		Name: "call", MaxAttempts: 6, Clock: l.clock, Rand: func() float64 { return 0 },
		Backoff: retry.Exponential{Base: 100 * time.Millisecond, Jitter: retry.NoJitter},
	}
	l.set.Rest = retry.Exponential{Base: 2 * time.Second, Max: time.Minute, Jitter: retry.NoJitter}
	l.set.Broken = func(err error) bool { return errors.Is(err, errKey) }
	l.set.Elsewhere = func(err error) bool { return errors.Is(err, errFilter) }
	for _, name := range targets {
		l.set.Targets = append(l.set.Targets, &failover.Target[string]{Name: string(name), Value: string(name)})
	}
	return l
}

func (l *lab) target(name string) *failover.Target[string] {
	for _, t := range l.set.Targets {
		if t.Name == name {
			return t
		}
	}
	l.Fatalf("no target %q", name)
	return nil
}

// answer has a target answer with these errors in turn, and then with the last.
func (l *lab) answer(name string, errs ...error) {
	n := 0
	l.says[name] = func() error {
		n++
		return errs[min(n, len(errs))-1]
	}
}

func (l *lab) op(ctx context.Context, t *failover.Target[string]) (string, error) {
	entry := t.Name
	if l.timed {
		entry += fmt.Sprint("@", l.clock.Now().Sub(l.start))
	}
	l.log = append(l.log, entry)
	if f := l.says[t.Name]; f != nil {
		if err := f(); err == errHang {
			_ = l.clock.Sleep(ctx, time.Hour)
			return t.Name, context.Cause(ctx)
		} else if err != nil {
			return t.Name, err
		}
	}
	return t.Name, nil
}

// call makes a call, and checks at which targets its attempts are made.
func (l *lab) call(want string) error {
	l.Helper()
	return l.callBefore(0, want)
}

// callBefore makes one with a deadline.
func (l *lab) callBefore(d time.Duration, want string) error {
	l.Helper()
	ctx := l.Context()
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = l.clock.WithTimeoutCause(ctx, d, nil)
		defer cancel()
	}
	l.log = nil
	_, err := failover.Do(ctx, l.policy, &l.set, l.op)
	if got := strings.Join(l.log, " "); got != want {
		l.Errorf("attempts at %q, want %q (%v)", got, want, err)
	}
	return err
}

func (l *lab) calls(n int, want string) {
	l.Helper()
	for range n {
		l.call(want)
	}
}

func (l *lab) rests(name string, want time.Duration) {
	l.Helper()
	if got := l.target(name).Resting(); got != want {
		l.Errorf("%s rests for %v, want %v", name, got, want)
	}
}

func reason(t *testing.T, err error, want retry.Reason) *retry.Error {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	if !ok || e.Reason != want {
		t.Fatalf("the error is %v, want the reason %v", err, want)
	}
	return e
}

// Rule 1: the first, and after a failure the next at once. After a round comes the backoff, which counts rounds.
func TestOrderAndRounds(t *testing.T) {
	l := newLab(t, "abc")
	l.timed = true
	l.call("a@0s")
	for _, name := range []string{"a", "b", "c"} {
		l.answer(name, errDown)
	}
	l.policy.MaxAttempts = 7
	l.set.Failures = 100
	err := l.call("a@0s b@0s c@0s a@100ms b@100ms c@100ms a@300ms")
	e := reason(t, err, retry.ReasonMaxAttempts)
	l.policy.ThrottleBackoff = retry.Constant(5 * time.Second)
	l.answer("c", status(429))
	l.call("a@300ms b@300ms c@300ms a@5.3s b@5.3s c@5.3s a@10.3s")
	if e.Attempts != 7 || e.Waited != 300*time.Millisecond {
		t.Errorf("%d attempts, %v waited, want 7 and 300ms", e.Attempts, e.Waited)
	}
}

// A single failure sends this call elsewhere, and no other.
func TestOneFailureRestsNobody(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", errDown, nil)
	l.call("a b")
	l.rests("a", 0)
	l.call("a")
}

// Rule 2: the run that was told keeps to it; to others it is a preference.
func TestWhatTheServerAsks(t *testing.T) {
	l := newLab(t, "ab")
	l.timed = true
	l.answer("a", told(20*time.Second), nil)
	l.call("a@0s b@0s")
	l.rests("a", 20*time.Second)
	l.call("b@0s")
	l.answer("b", told(30*time.Second), errDown, nil)
	l.call("b@0s a@0s") // none is free: a is tried, and is well
	l.rests("a", 0)
	l.clock.Advance(30 * time.Second)
	l.call("a@30s")

	l.answer("a", told(5*time.Second))
	l.answer("b", told(3*time.Second), nil)
	l.call("a@30s b@30s b@33.1s") // the first of the two is over, and the backoff
}

func TestLongestHintCounts(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", told(20*time.Second))
	l.answer("b", errBad)
	l.call("a b")
	l.answer("a", told(5*time.Second))
	l.target("b").Hold(time.Minute)
	l.policy.MaxAttempts = 1
	l.call("a")
	l.rests("a", 20*time.Second)
	l.answer("a", told(40*time.Second))
	l.call("a")
	l.rests("a", 40*time.Second)
}

// Six in a row that are told to wait, over two seconds, bind all runs.
func TestAllAreRefused(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", told(20*time.Second))
	l.answer("b", told(10*time.Second))
	l.policy.MaxAttempts = 2
	for range 5 {
		l.callBefore(time.Second, "a b")
		l.clock.Advance(400 * time.Millisecond)
	}
	l.callBefore(time.Second, "a b") // the sixth, after two seconds
	err := l.callBefore(time.Second, "")
	e := reason(t, err, retry.ReasonGuard)
	if !errors.Is(err, retry.ErrPaced) || e.Guard != "failover.targets" || !strings.Contains(err.Error(), "10s") {
		t.Errorf("the error is %v, want an ErrPaced that says 10 s", err)
	}
	l.timed = true
	l.answer("b", nil)
	l.call("b@12s") // waits for the first that may be asked
	l.rests("a", 10*time.Second)
}

// No run waits for a server that wishes for more than MaxRetryAfter: the error says when it will be asked.
func TestAllAreRefusedForLong(t *testing.T) {
	l := newLab(t, "a")
	l.answer("a", told(time.Hour))
	for range 6 {
		l.call("a")
		l.clock.Advance(400 * time.Millisecond)
	}
	l.rests("a", 5*time.Minute-400*time.Millisecond)
	err := l.call("")
	late, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err)
	if !errors.Is(err, retry.ErrPaced) || !ok || late.RetryAfter() != 5*time.Minute-400*time.Millisecond {
		t.Errorf("the error is %v, want an ErrPaced that says when a is asked", err)
	}
	l.clock.Advance(5 * time.Minute)
	l.call("a")
}

// What was told before an answer proves nothing, nor does a rest that is over.
func TestProofsOfARefusal(t *testing.T) {
	l := newLab(t, "a")
	l.policy.MaxAttempts = 1
	for _, answer := range []error{told(20 * time.Second), nil, told(20 * time.Second)} {
		l.answer("a", answer)
		for range 5 {
			l.callBefore(time.Second, "a")
			l.clock.Advance(time.Second)
		}
	}
	l.callBefore(time.Second, "a") // the sixth
	l.callBefore(time.Second, "")

	l = newLab(t, "a")
	l.policy.MaxAttempts = 1
	l.call("a")
	l.target("a").Hold(10 * time.Second)
	l.clock.Advance(11 * time.Second)
	l.answer("a", told(20*time.Second))
	l.callBefore(time.Second, "a")
	l.callBefore(time.Second, "a") // one refusal is a preference
}

// After a Hold a target is on trial, also one that was never used.
func TestTrialAfterHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, used := range []bool{true, false} {
			l := newLab(t, "ab")
			l.policy.Clock = nil
			if used {
				l.call("a")
			}
			l.target("a").Hold(time.Second)
			time.Sleep(time.Second)
			l.during(nil, func() { l.call("b") })
			l.call("a")
		}
	})
}

// Those who wait for the end of such a rest come back over as long again, or half of what they have.
func TestComeBackSpread(t *testing.T) {
	for _, tt := range []struct {
		random   float64
		deadline time.Duration
		want     string
	}{{0, 0, "a@10s"}, {.5, 0, "a@15s"}, {.9, 0, "a@19s"}, {.9, 14 * time.Second, "a@11.8s"}} {
		l := newLab(t, "a")
		l.call("a") // a Hold before that would be on the system's clock
		l.timed = true
		l.target("a").Hold(10 * time.Second)
		l.policy.Rand = func() float64 { return tt.random }
		l.callBefore(tt.deadline, tt.want)
	}
}

func TestHintBeyondMaxRetryAfter(t *testing.T) {
	l := newLab(t, "ab")
	l.policy.MaxRetryAfter = time.Minute
	l.policy.Backoff = retry.Constant(25 * time.Second)
	l.answer("a", told(61*time.Second))
	l.answer("b", errDown, errDown, errDown, nil)
	l.set.Failures = 100
	l.call("a b b b b") // not a, though 75 s have passed
	l.rests("a", 0)
	l.answer("a", told(time.Hour))
	l.call("a b")
	l.rests("a", time.Minute)
	l.answer("b", told(time.Hour))
	l.clock.Advance(time.Minute)
	reason(t, l.call("a b"), retry.ReasonRetryAfter)
}

// Rule 3: three failures in a row have a target rest, and any answer starts the row over.
func TestRest(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", errDown)
	l.calls(3, "a b")
	l.rests("a", 2*time.Second)
	l.call("b")
	for _, answer := range []error{nil, errBad, retry.Answer(errBad), status(404), errFilter} {
		l := newLab(t, "ab")
		l.policy.MaxAttempts = 2
		l.answer("a", errDown, errDown, answer, errDown, errDown, errDown)
		l.calls(2, "a b")
		if l.log = nil; answer == errFilter {
			l.call("a b")
		} else {
			l.call("a")
		}
		l.calls(2, "a b")
		l.rests("a", 0)
		l.call("a b")
		l.rests("a", 2*time.Second)
	}
	for _, failure := range []error{errDown, status(429), retry.ErrAttemptTimeout, errRefused} {
		l := newLab(t, "ab")
		l.answer("a", failure)
		l.calls(3, "a b")
		l.rests("a", 2*time.Second)
	}
	l = newLab(t, "ab")
	l.set.Failures = 1
	l.answer("a", errDown)
	l.call("a b")
	l.rests("a", 2*time.Second)
}

// Each run goes by the rules of its own Set, though others use the target meanwhile.
func TestRulesOfTheRun(t *testing.T) {
	l := newLab(t, "ab")
	l.set.Failures = 1
	nested := true
	l.says["a"] = func() error {
		if nested {
			nested = false
			l.during(nil, func() {}) // by a Set with three Failures
		}
		return errDown
	}
	l.call("a b")
	l.rests("a", 2*time.Second)
}

// A wait that the server asks for is no failure of its own.
func TestHintsDoNotCount(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", told(time.Second))
	for range 4 {
		l.call("a b")
		l.rests("a", time.Second)
		l.clock.Advance(time.Second)
	}
	l.answer("a", nil)
	l.during(nil, func() { l.call("a") }) // it is not on trial
}

// A key that is revoked rests at once, and longer each time.
func TestBroken(t *testing.T) {
	l := newLab(t, "ab")
	l.policy.NonIdempotent = true
	l.answer("a", errKey)
	for _, rest := range []time.Duration{2, 4, 8, 16} {
		if err := l.call("a b"); err != nil {
			t.Errorf("the error is %v", err)
		}
		l.rests("a", rest*time.Second)
		l.call("b")
		l.clock.Advance(rest * time.Second)
	}
	l.answer("b", errKey)
	reason(t, l.call("a b"), retry.ReasonPermanent)
}

// Rule 4: who is not blamed.
func TestNotBlamed(t *testing.T) {
	for name, ends := range map[string]func(l *lab, ctx context.Context, cancel func()){
		"canceled": func(l *lab, ctx context.Context, cancel func()) {
			_, _ = failover.Do(ctx, l.policy, &l.set, func(context.Context, *failover.Target[string]) (int, error) { cancel(); return 0, errDown })
		},
		"panics": func(l *lab, ctx context.Context, _ func()) {
			defer func() { _ = recover() }()
			_, _ = failover.Do(ctx, l.policy, &l.set, func(context.Context, *failover.Target[string]) (int, error) { panic("p") })
		},
	} {
		l := newLab(t, "ab")
		runs := 0
		l.policy.Hooks.Done = func(context.Context, retry.Summary) { runs++ }
		for n := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			ends(l, ctx, cancel)
			cancel()
			if runs != n+1 {
				t.Errorf("%s: %d runs are over, want %d", name, runs, n+1)
			}
		}
		if got := l.target("a").Resting(); got != 0 {
			t.Errorf("%s: it rests for %v", name, got)
		}
	}
}

// A caller's deadline is a failure, unless others are answered meanwhile.
func TestCallersDeadline(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", errHang)
	for range 3 {
		l.callBefore(time.Second, "a")
	}
	l.rests("a", 2*time.Second)
	l.call("b")

	l = newLab(t, "ab")
	for range 5 {
		ctx, cancel := l.clock.WithTimeoutCause(t.Context(), time.Second, nil)
		_, err := failover.Do(ctx, l.policy, &l.set, func(ctx context.Context, _ *failover.Target[string]) (int, error) {
			l.call("a")
			_ = l.clock.Sleep(ctx, time.Minute)
			return 0, ctx.Err()
		})
		cancel()
		reason(t, err, retry.ReasonDeadline)
	}
	l.rests("a", 0)
}

// Three attempts that began before somebody was answered say nothing, though they all take until their deadlines.
func TestCallersDeadlinesAfterAnAnswer(t *testing.T) {
	for _, answered := range []bool{true, false} {
		l := newLab(t, "ab")
		var nest func(n int)
		nest = func(n int) {
			ctx, cancel := l.clock.WithTimeoutCause(t.Context(), time.Minute, nil)
			defer cancel()
			_, _ = failover.Do(ctx, l.policy, &l.set, func(ctx context.Context, _ *failover.Target[string]) (int, error) {
				if n > 1 {
					nest(n - 1)
				} else if answered {
					l.call("a")
				}
				_ = l.clock.Sleep(ctx, time.Hour)
				return 0, ctx.Err()
			})
		}
		nest(3)
		if rests := l.target("a").Resting() > 0; rests == answered {
			t.Errorf("others are answered: %v; it rests: %v", answered, rests)
		}
	}
}

// during makes an attempt of another call at a, and lets f run before it ends with err.
func (l *lab) during(err error, f func()) {
	p := l.policy
	p.MaxAttempts = 1
	only := failover.Set[string]{Targets: []*failover.Target[string]{l.target("a")}, Rest: l.set.Rest}
	_, _ = failover.Do(l.Context(), p, &only, func(context.Context, *failover.Target[string]) (int, error) { f(); return 0, err })
}

// News of what began before a rest neither lengthens nor ends it.
func TestLateNews(t *testing.T) {
	for _, late := range []error{nil, errDown, status(404)} {
		l := newLab(t, "ab")
		l.answer("a", errDown)
		l.during(late, func() {
			l.calls(3, "a b")
			l.clock.Advance(time.Second)
		})
		l.rests("a", time.Second)
	}
	l := newLab(t, "ab")
	l.answer("a", told(20*time.Second))
	l.during(nil, func() { l.call("a b") })
	l.rests("a", 20*time.Second)
}

// Rule 5: one attempt at a time, one more for each that is answered, ten end it.
func TestTrial(t *testing.T) {
	l := newLab(t, "ab")
	rest := func(want time.Duration) {
		t.Helper()
		l.rests("a", want)
		l.clock.Advance(want)
	}
	l.answer("a", errDown)
	l.calls(3, "a b")
	rest(2 * time.Second)
	l.call("a b") // one failure is enough
	rest(4 * time.Second)
	l.answer("a", nil)
	for places := 1; places <= 10; places++ {
		var full func(n int)
		full = func(n int) {
			if n == 0 {
				l.call("b") // no place is left
				return
			}
			l.during(retry.ErrRejected, func() { full(n - 1) })
		}
		if places < 3 { // all of them end as answered
			full(places)
			l.target("a").Hold(0)
			l.set.Failures = 1
			l.answer("a", errDown, nil)
			l.call("a b")
			l.clock.Advance(2 * time.Second)
			l.calls(places, "a")
		}
	}

	// Fail, ok, fail, ok: the rests grow, until ten are answered.
	l = newLab(t, "ab")
	l.answer("a", errDown)
	l.calls(3, "a b")
	for _, want := range []time.Duration{2, 4, 8, 16} {
		rest(want * time.Second)
		l.answer("a", nil, nil, errDown)
		l.calls(2, "a")
		l.call("a b")
	}
	rest(32 * time.Second)
	l.answer("a", nil)
	l.calls(9, "a")
	l.answer("a", errDown, nil)
	l.call("a b") // one is missing
	rest(60 * time.Second)
	l.calls(10, "a")
	l.answer("a", errDown)
	l.calls(3, "a b")
	l.rests("a", 2*time.Second)
}

// An attempt that hangs keeps others away for as long as the rest was.
func TestTrialHangs(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", errDown)
	l.calls(3, "a b")
	l.clock.Advance(2 * time.Second)
	l.during(errDown, func() {
		l.call("b")
		l.clock.Advance(2*time.Second - 1)
		l.call("b")
		l.clock.Advance(1)
		l.answer("a", nil)
		l.call("a")
	})
	l.rests("a", 0)
	// One that was not made, or whose caller has left, frees its place.
	l = newLab(t, "ab")
	l.answer("a", errDown)
	l.calls(3, "a b")
	l.clock.Advance(2 * time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	_, _ = failover.Do(ctx, l.policy, &l.set, func(context.Context, *failover.Target[string]) (int, error) { cancel(); return 0, errDown })
	l.answer("a", nil)
	l.call("a")
}

// Rule 6: if all rest, the one that failed longest ago is tried, and those that hang last.
func TestNoOutageOfOurs(t *testing.T) {
	l := newLab(t, "abc")
	l.set.Failures, l.policy.MaxAttempts, l.policy.AttemptTimeout = 1, 3, time.Second
	l.answer("a", errHang)
	l.answer("b", errDown)
	l.answer("c", errDown)
	l.set.Rest = retry.Constant(time.Hour)
	l.call("a b c")
	l.call("b c a")
	l.policy.MaxAttempts = 1
	l.call("b")
	l.call("c")
	l.answer("b", nil)
	l.call("b")
	l.rests("b", 0) // a success ends it at once
	l.call("b")
}

// A run whose other targets rest comes back to the one that works, and disturbs them once in a rest.
func TestRestingOnesAreNotDisturbed(t *testing.T) {
	l := newLab(t, "ab")
	l.set.Failures = 3
	l.set.Rest = retry.Constant(time.Hour)
	l.answer("a", errKey)
	l.call("a b")
	l.answer("a", errDown)
	l.answer("b", errDown, nil)
	l.call("b a b")
	l.answer("b", errDown, nil)
	l.call("b b")
}

// Hold is kept, whatever the others do.
func TestHold(t *testing.T) {
	l := newLab(t, "ab")
	l.call("a")
	l.timed = true
	l.target("a").Hold(time.Minute)
	l.target("a").Hold(time.Second) // a longer one stays
	l.rests("a", time.Minute)
	l.answer("b", errDown, nil)
	l.call("b@0s b@100ms")
	l.target("b").Hold(30 * time.Second)
	l.call("b@30.1s")
	l.target("a").Hold(0)
	l.rests("a", 0)
	l.call("a@30.1s")
	l.target("a").Hold(10 * time.Minute)
	l.target("b").Hold(10 * time.Minute)
	err := l.call("") // beyond MaxRetryAfter
	if reason(t, err, retry.ReasonGuard); !errors.Is(err, retry.ErrPaced) {
		t.Errorf("the error is %v, want ErrPaced", err)
	}
}

// A Hold without an end is a rest that comes too late, at whatever moment.
func TestHoldWithoutEnd(t *testing.T) {
	for _, most := range []time.Duration{0, math.MaxInt64} {
		l := newLab(t, "ab")
		l.policy.MaxRetryAfter = most
		l.call("a") // it knows the clock
		l.target("a").Hold(math.MaxInt64)
		l.target("b").Hold(math.MaxInt64)
		if err := l.callBefore(time.Hour, ""); !errors.Is(err, retry.ErrPaced) {
			t.Errorf("the error is %v, want ErrPaced", err)
		}
	}
}

// shouldRetry is an error of a client whose server says whether to retry.
type shouldRetry struct {
	StatusCode int
	Header     http.Header
}

func (*shouldRetry) Error() string { return "unavailable" }

// Elsewhere goes before what the server says of a retry: none, one at once, or one in an hour.
func TestElsewhereBeforeTheServersWord(t *testing.T) {
	for _, err := range []error{&shouldRetry{503, http.Header{"X-Should-Retry": {"false"}}}, atOnce{}, told(time.Hour)} {
		l := newLab(t, "ab")
		l.timed = true
		l.set.Elsewhere = func(e error) bool { return errors.Is(e, err) }
		l.answer("a", err)
		l.call("a@0s b@0s")
	}
}

// The only target that is left says why the run ends, unless its server wants no retry.
func TestNowhereElse(t *testing.T) {
	l := newLab(t, "a")
	l.set.Elsewhere = func(error) bool { return true }
	l.answer("a", errFilter)
	reason(t, l.call("a"), retry.ReasonPermanent)
	l.set.Broken = func(error) bool { return true }
	l.answer("a", &shouldRetry{503, http.Header{"X-Should-Retry": {"false"}}})
	reason(t, l.call("a"), retry.ReasonRefused)
}

// known is an error that knows its verdict.
type known struct{}

func (known) Error() string            { return "known" }
func (e known) Verdict() retry.Verdict { return retry.Verdict{Err: e, Class: retry.Transient} }

// A mark goes before the verdict that its error knows.
func TestMarkBeforeAVerdict(t *testing.T) {
	l := newLab(t, "ab")
	l.answer("a", known{})
	l.call("a b")
	l.answer("a", retry.Stop(known{}))
	l.call("a")
}

// A clock that is set back keeps nobody away.
func TestClockSetBack(t *testing.T) {
	for _, failure := range []error{errDown, told(20 * time.Second)} {
		l := newLab(t, "ab")
		l.set.Failures = 1
		l.answer("a", failure, nil)
		l.call("a b")
		l.clock = clockx.NewVirtual(l.start.Add(-time.Hour))
		l.policy.Clock = l.clock
		l.call("a")
	}
}

// Rule 7: permanent errors and marks end the run. A call that must not run twice needs proof.
func TestWhatEndsARun(t *testing.T) {
	always := func(error) bool { return true }
	for _, tt := range []struct {
		name  string
		err   error
		once  bool
		funcs bool
		want  string
	}{
		{"permanent", status(400), false, false, "a"},
		{"a Stop", errBad, false, true, "a"},
		{"a Refuse", retry.Refuse(errDown), false, true, "a"},
		{"an Answer", retry.Answer(errDown), false, true, "a"},
		{"known", status(400), false, true, "a b"},
		{"known, once", status(400), true, true, "a b"},
		{"once, no proof", errDown, true, false, "a"},
		{"once, a 429", told(time.Second), true, false, "a"},
		{"once, proof", errRefused, true, false, "a b"},
		{"elsewhere", errFilter, true, false, "a b"},
	} {
		l := newLab(t, "ab")
		l.policy.NonIdempotent = tt.once
		if tt.funcs {
			l.set.Broken, l.set.Elsewhere = always, always
		}
		l.answer("a", tt.err)
		l.log = nil
		l.Run(tt.name, func(t *testing.T) { l.T = t; l.call(tt.want) })
	}
	l := newLab(t, "ab")
	l.answer("a", errFilter)
	l.answer("b", errDown)
	l.policy.MaxAttempts = 3
	l.call("a b b") // not at a again
	l.answer("b", errFilter)
	err := l.call("a b")
	if e := reason(t, err, retry.ReasonPermanent); e.Last().Error() != "b: status 422" {
		t.Errorf("the last error is %v", e.Last())
	}
	l.set.Elsewhere = func(err error) bool { return errors.Is(err, errDown) } // though it is Transient
	l.answer("a", errDown)
	l.answer("b", errDown)
	reason(t, l.call("a b"), retry.ReasonPermanent)
}

// Rule 10: a target's own timeout.
func TestTimeout(t *testing.T) {
	l := newLab(t, "abc")
	l.timed = true
	for _, name := range []string{"a", "b", "c"} {
		l.answer(name, errHang)
	}
	l.policy.AttemptTimeout, l.policy.MaxAttempts = 2*time.Second, 3
	l.target("b").Timeout = 5 * time.Second
	l.target("c").Timeout = time.Second
	err := l.call("a@0s b@2s c@7s")
	if e := reason(t, err, retry.ReasonMaxAttempts); e.Elapsed != 8*time.Second || !errors.Is(e.Last(), retry.ErrAttemptTimeout) {
		t.Errorf("after %v: %v", e.Elapsed, err)
	}
	var classes []retry.Class
	l.policy.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { classes = append(classes, a.Class) }
	_, _ = failover.Do(t.Context(), l.policy, &l.set, func(ctx context.Context, t *failover.Target[string]) (int, error) {
		_ = l.clock.Sleep(ctx, t.Timeout) // as long as the timeout of the policy, if it has none
		return 0, errDown
	})
	if got := fmt.Sprint(classes); got != "[transient timed_out timed_out]" {
		t.Errorf("errors at the deadline are %v", got)
	}
}

// Rule 11: a poll goes on where it is, and so does a retry that a server wants at once.
func TestPolls(t *testing.T) {
	l := newLab(t, "ab")
	l.timed = true
	l.policy.MaxAttempts = 10
	l.answer("a", errDown, nil)
	l.answer("b", retry.ErrRejected, retry.After(retry.ErrRejected, time.Second), errDown, nil)
	l.call("a@0s b@0s b@100ms b@1.3s a@1.3s")
	l.rests("b", 0)
	l.policy.MaxAttempts = 1
	l.answer("a", retry.After(retry.ErrRejected, time.Minute))
	l.call("a@1.3s")
	l.rests("a", 0)
	l.policy.MaxAttempts = 10
	l.answer("a", atOnce{}, nil)
	l.call("a@1.3s a@1.3s")
}

// Rule 12: errors and contexts have the name.
func TestNames(t *testing.T) {
	l := newLab(t, "ab")
	l.policy.MaxAttempts = 3
	l.answer("a", errDown)
	l.answer("b", errKey, errUsed)
	var seen []string
	var attempts []context.Context
	note := func(ctx context.Context) { seen = append(seen, failover.Name(ctx)) }
	l.policy.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { note(ctx); return ctx }
	l.policy.Hooks.AttemptDone = func(ctx context.Context, a retry.Attempt) { note(ctx); seen = append(seen, a.Err.Error()) }
	_, err := failover.Do(t.Context(), l.policy, &l.set, func(ctx context.Context, target *failover.Target[string]) (string, error) {
		note(ctx)
		attempts = append(attempts, ctx)
		return l.op(ctx, target)
	})
	want := "a a a a: down b b b b: status 401 a a a a: down"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("seen %q, want %q", got, want)
	}
	e := reason(t, err, retry.ReasonMaxAttempts)
	if second := failover.Name(attempts[1]); second != "b" {
		t.Errorf("after the run the second attempt was at %q", second)
	}
	if !errors.Is(err, errDown) || !errors.Is(e.Errs[1], errKey) || failover.Name(t.Context()) != "" {
		t.Errorf("the error is %v", err)
	}
}

func TestNoTargets(t *testing.T) {
	for _, targets := range [][]*failover.Target[string]{nil, {nil, nil}} {
		l := newLab(t, "")
		l.set.Targets = targets
		if e := reason(t, l.call(""), retry.ReasonGuard); e.Attempts != 0 {
			t.Errorf("%d attempts", e.Attempts)
		}
	}
	l := newLab(t, "ab")
	l.set.Targets[0] = nil
	l.call("b")
}

func TestSetWithoutTargets(t *testing.T) {
	for _, s := range []*failover.Set[string]{{}, {Targets: []*failover.Target[string]{nil}}} {
		_, err := failover.Do(t.Context(), retry.Policy{}, s, func(context.Context, *failover.Target[string]) (int, error) {
			t.Error("op is called")
			return 0, nil
		})
		if e, ok := errors.AsType[*retry.Error](err); !ok || e.Attempts != 0 || !strings.Contains(err.Error(), "the Set has no target") {
			t.Errorf("without a target: %v", err)
		}
	}
}

// What a server has asked of one run is a preference to others, and Hold does not make it a rest.
func TestHoldReplacesAPreference(t *testing.T) {
	l := newLab(t, "a")
	l.timed, l.policy.MaxAttempts = true, 1
	l.answer("a", told(4*time.Minute), nil)
	_ = l.call("a@0s")
	l.target("a").Hold(time.Second)
	_ = l.clock.Sleep(t.Context(), 2*time.Second)
	if err := l.callBefore(30*time.Second, "a@2s"); err != nil {
		t.Error(err)
	}
}

// A run that has been told to wait by the one target that is well tries a tired one meanwhile, though others have.
func TestATiredOneBesideOneThatHasToldTheRun(t *testing.T) {
	l := newLab(t, "ab")
	l.timed, l.set.Failures, l.set.Rest = true, 1, retry.Constant(time.Hour)
	both := l.set.Targets
	l.set.Targets, l.policy.MaxAttempts = both[1:], 1
	l.answer("b", errDown)
	_ = l.call("b@0s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.says["b"] = func() error { cancel(); return ctx.Err() } // it is tried, and nothing comes of it
	_, _ = failover.Do(ctx, l.policy, &l.set, l.op)
	l.set.Targets, l.policy.MaxAttempts = both, 3
	l.answer("a", told(time.Minute), nil)
	l.answer("b", nil)
	l.call("a@0s b@0s")
}

// What a server says as the caller's time ends is its word too.
func TestWordAtTheDeadline(t *testing.T) {
	l := newLab(t, "ab")
	l.says["a"] = func() error {
		_ = l.clock.Sleep(t.Context(), time.Second)
		return told(20 * time.Second)
	}
	for range 3 {
		_ = l.callBefore(time.Second, "a")
		l.rests("a", 20*time.Second)
		_ = l.clock.Sleep(t.Context(), 20*time.Second)
	}
}

// An attempt on trial keeps others away for a second, even if Rest is 0.
func TestTrialAfterNoRest(t *testing.T) {
	l := newLab(t, "ab")
	l.set.Failures, l.set.Rest = 1, retry.Constant(0)
	l.answer("a", errDown, nil)
	l.call("a b")
	l.during(nil, func() {
		l.call("b")
		_ = l.clock.Sleep(t.Context(), time.Second)
		l.call("a")
	})
}
