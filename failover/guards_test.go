package failover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/limit"
)

// gate is a guard that has attempts wait, or refuses them, and checks its passes.
type gate struct {
	wait    time.Duration
	err     error
	inside  int // passes that were not left
	entered int
	again   bool // the guard is asked after its wait
	exits   []retry.Exit
}

func (g *gate) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	g.entered++
	if e.Earlier.Again {
		g.inside--
	}
	if g.err != nil {
		return retry.Pass{}, g.err
	}
	g.inside++
	if e.Earlier.Again {
		return retry.Pass{}, nil
	}
	return retry.Pass{Wait: g.wait, Again: g.again && g.wait > 0}, nil
}

func (g *gate) Leave(_ retry.Pass, x retry.Exit) {
	g.inside--
	g.exits = append(g.exits, x)
}

func (g *gate) left(t *testing.T, endings ...retry.Ending) {
	t.Helper()
	var got []retry.Ending
	for _, x := range g.exits {
		got = append(got, x.Ending)
	}
	for _, x := range g.exits {
		if x.Clock == nil {
			t.Error("an Exit without a clock")
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(endings) || g.inside != 0 {
		t.Errorf("left with %v, want %v; %d inside", got, endings, g.inside)
	}
}

// guarded returns a lab whose targets have gates.
func guarded(t *testing.T, targets string) (*lab, map[string]*gate) {
	l, gates := newLab(t, targets), map[string]*gate{}
	for _, target := range l.set.Targets {
		g := new(gate)
		gates[target.Name] = g
		target.Guards = []retry.Guard{nil, g}
	}
	l.timed = true
	return l, gates
}

// Rule 8: a target whose guards wait or refuse is passed over.
func TestGuardsPassOver(t *testing.T) {
	l, gates := guarded(t, "abc")
	gates["a"].wait = time.Second
	gates["b"].err = errors.New("full")
	before := new(gate)
	l.target("b").Guards = []retry.Guard{before, gates["b"]}
	l.call("c@0s")
	before.left(t, retry.NotMade)
	if err := before.exits[0].Verdict.Err; err != gates["b"].err {
		t.Errorf("an Exit with the error %v", err)
	}
	gates["a"].left(t, retry.NotMade)
	gates["b"].left(t)
	gates["c"].left(t, retry.Returned)
}

// If none admits, the run waits for the shortest turn, for real.
func TestShortestTurn(t *testing.T) {
	for _, again := range []bool{false, true} {
		l, gates := guarded(t, "abc")
		gates["a"].wait, gates["b"].wait, gates["c"].err = 3*time.Second, 2*time.Second, errors.New("full")
		gates["b"].again = again
		var held []string
		l.policy.Hooks.Guard = func(_ context.Context, h retry.Held) {
			held = append(held, fmt.Sprint(h.Guard, " ", h.Delay, " ", h.Err))
		}
		l.call("b@2s")
		gates["a"].left(t, retry.NotMade)
		gates["b"].left(t, retry.NotMade, retry.Returned)
		if got := strings.Join(held, "; "); got != "failover.targets 2s <nil>" {
			t.Errorf("Hooks.Guard gets %q", got)
		}
	}
}

// The end of a rest that was asked for, and another round, may come before a turn.
func TestWhatComesFirst(t *testing.T) {
	l, gates := guarded(t, "ab")
	l.call("a@0s")
	gates["a"].wait = 3 * time.Second
	l.target("b").Hold(time.Second)
	l.call("b@1s")
	l.target("b").Hold(0) // else a failure on trial has it rest
	l.answer("b", errDown, nil)
	l.call("b@1s b@1.1s") // the next round, after the backoff
	l.target("b").Hold(time.Minute)
	l.call("a@4.1s")
}

// If all refuse, it is the refusal of a guard: backoff, and it counts.
func TestAllGuardsRefuse(t *testing.T) {
	l, gates := guarded(t, "ab")
	l.policy.MaxAttempts = 3
	full := errors.New("full")
	gates["a"].err, gates["b"].err = full, retry.Stop(full)
	err := l.call("")
	if e := reason(t, err, retry.ReasonGuard); !errors.Is(err, full) || e.Elapsed != 300*time.Millisecond || gates["a"].entered != 3 {
		t.Errorf("after %v and %d times: %v", e.Elapsed, gates["a"].entered, err)
	}
	// The one that says to come back sooner counts.
	gates["a"].err, gates["b"].err = retry.After(full, 10*time.Second), retry.After(full, time.Second)
	e := reason(t, l.call(""), retry.ReasonGuard)
	if e.Elapsed != 2*time.Second+300*time.Millisecond {
		t.Errorf("after %v", e.Elapsed)
	}
}

// A target that rests by itself is not disturbed while another one's turn comes in time.
func TestTurnOrRest(t *testing.T) {
	l, gates := guarded(t, "ab")
	l.set.Failures, l.policy.MaxAttempts = 1, 1
	l.set.Rest = retry.Constant(time.Hour)
	l.answer("a", errDown)
	l.call("a@0s")
	gates["b"].wait = time.Second
	l.call("b@1s")
	l.callBefore(500*time.Millisecond, "a@1s")
}

// If the target begins to rest while a run waits for its turn, the run chooses again.
func TestRestInAWait(t *testing.T) {
	l, gates := guarded(t, "ab")
	l.set.Failures = 1
	gates["a"].wait, gates["b"].wait = time.Second, 2*time.Second
	l.clock.AfterFunc(500*time.Millisecond, func() { l.target("a").Hold(time.Hour) })
	l.call("b@3s")
	gates["a"].left(t, retry.NotMade, retry.NotMade)
}

// A guard that panics leaves nothing behind.
func TestGuardPanics(t *testing.T) {
	l, gates := guarded(t, "ab")
	p := &panics{}
	l.target("a").Guards = append(l.target("a").Guards, p)
	for _, in := range []string{"Enter", "Leave"} {
		*p = panics{in: in}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = failover.Do(t.Context(), l.policy, &l.set, l.op)
		}()
	}
	gates["a"].left(t, retry.NotMade, retry.Returned)
	p.in = ""
	l.call("a@0s")
}

type panics struct{ in string }

func (p *panics) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if p.in == "Enter" {
		panic(p.in)
	}
	return retry.Pass{}, nil
}

func (p *panics) Leave(retry.Pass, retry.Exit) {
	if p.in == "Leave" {
		panic(p.in)
	}
}

// The guards of a target get what its attempt has come to, and not what the run makes of it.
func TestGuardsExit(t *testing.T) {
	l, gates := guarded(t, "ab")
	l.policy.AttemptTimeout = 5 * time.Second
	l.target("a").Timeout = time.Second
	for _, tt := range []struct {
		err   error
		class retry.Class
		end   retry.Ending
	}{{errKey, retry.Permanent, retry.Returned}, {errFilter, retry.Permanent, retry.Returned}, {errDown, retry.Transient, retry.Returned}, {errHang, retry.TimedOut, retry.Expired}, {nil, retry.Unknown, retry.Returned}} {
		l.target("a").Hold(0)
		gates["a"].exits = nil
		l.answer("a", tt.err)
		_, _ = failover.Do(t.Context(), l.policy, &l.set, l.op)
		x := gates["a"].exits[0]
		if x.Ending != tt.end || x.Verdict.Class != tt.class || x.Allowed != time.Second {
			t.Errorf("after %v: %v, %v, %v", tt.err, x.Ending, x.Verdict.Class, x.Allowed)
		}
	}
	// Those of the policy get the longest timeout.
	g := new(gate)
	l.policy.Guards = []retry.Guard{g}
	l.answer("a", nil)
	l.answer("b", errHang)
	l.target("a").Hold(time.Hour)
	l.policy.MaxAttempts = 1
	_, _ = failover.Do(t.Context(), l.policy, &l.set, l.op)
	if x := g.exits[0]; x.Ending != retry.Expired || x.Verdict.Class != retry.TimedOut || x.Allowed != 5*time.Second {
		t.Errorf("a guard of the policy gets %v, %v, %v", x.Ending, x.Verdict.Class, x.Allowed)
	}
	l.target("b").Timeout, g.exits = 3*time.Second, nil // the longest is shorter now
	l.target("a").Hold(time.Hour)
	_, _ = failover.Do(t.Context(), l.policy, &l.set, l.op)
	if x := g.exits[0]; x.Ending != retry.Expired || x.Allowed != 3*time.Second {
		t.Errorf("a guard of the policy gets %v, %v", x.Ending, x.Allowed)
	}
	l.target("b").Timeout = 0
	l.answer("b", nil)
	gates["b"].exits = nil
	_, _ = failover.Do(t.Context(), l.policy, &l.set, l.op)
	if x := gates["b"].exits[0]; x.Allowed != 5*time.Second {
		t.Errorf("b is allowed %v", x.Allowed)
	}
}

var errUnsent = errors.New("not sent")

// counted is a budget that counts.
type counted struct {
	log    []string
	refuse bool
}

func (b *counted) Withdraw(w retry.Withdrawal) bool {
	b.log = append(b.log, fmt.Sprint("pay ", w.Retry, " ", w.Class))
	return !b.refuse
}

func (b *counted) End(o retry.Outcome) {
	b.log = append(b.log, fmt.Sprint("end ", o.Retries, " ", o.Sent, " ", o.Retried, " ", o.OK))
}

// Rule 9: the first switch is free if nothing was done. All else pays.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name     string
		a, b     []error
		attempts string
		want     string
	}{
		{"none", []error{nil}, nil, "a", "end 0 0 unknown true"},
		{"throttled", []error{status(429)}, []error{nil}, "a b", "end 0 0 unknown true"},
		{"unprocessed", []error{errUnsent, nil}, []error{errDown}, "a b a", "pay 1 transient; end 1 1 transient true"},
		{"broken", []error{errKey}, []error{nil}, "a b", "end 0 0 unknown true"},
		{"elsewhere", []error{errFilter}, []error{nil}, "a b", "end 0 0 unknown true"},
		{"transient", []error{errDown}, []error{nil}, "a b", "pay 1 transient; end 1 1 transient true"},
		{"timed out", []error{retry.ErrAttemptTimeout}, []error{nil}, "a b", "pay 1 timed_out; end 1 1 timed_out true"},
		{"the second switch", []error{errDown, status(429)}, []error{status(429), nil}, "a b a b",
			"pay 1 transient; pay 2 throttled; pay 3 throttled; end 3 3 throttled true"},
	} {
		l := newLab(t, "ab")
		b := new(counted)
		l.policy.Budget = b
		l.policy.Classify = func(err error) retry.Class {
			switch {
			case errors.Is(err, retry.ErrAttemptTimeout):
				return retry.TimedOut
			case errors.Is(err, errUnsent):
				return retry.Unprocessed
			}
			return retry.Unknown
		}
		l.answer("a", tt.a...)
		if tt.b != nil {
			l.answer("b", tt.b...)
		}
		t.Run(tt.name, func(t *testing.T) {
			l.T = t
			l.call(tt.attempts)
			if got := strings.Join(b.log, "; "); got != tt.want {
				t.Errorf("the budget gets %q, want %q", got, tt.want)
			}
		})
	}

	// Without tokens one dead target costs no calls, and there is no second round.
	l := newLab(t, "ab")
	l.policy.Budget = &counted{refuse: true}
	l.answer("a", status(429))
	if err := l.call("a b"); err != nil {
		t.Errorf("the error is %v", err)
	}
	l.answer("b", status(429))
	reason(t, l.call("a b"), retry.ReasonBudget)

	// A free switch that has become a round pays.
	l, gates := guarded(t, "ab")
	b := &counted{refuse: true}
	l.policy.Budget = b
	l.answer("a", status(429))
	gates["b"].wait = time.Hour
	err := l.call("a@0s")
	if got := strings.Join(b.log, "; "); got != "pay 1 throttled; end 0 0 unknown false" || err == nil {
		t.Errorf("the budget gets %q, %v", got, err)
	}
	b.refuse, b.log = false, nil
	l.answer("a", retry.ErrRejected, status(429), nil) // a poll costs nothing
	l.call("a@0s a@100ms a@300ms")
	if got := strings.Join(b.log, "; "); got != "pay 1 throttled; end 1 1 throttled true" {
		t.Errorf("the budget gets %q", got)
	}
}

// A refusal counts only if nothing else is to come: the next round at another target, or the end of a rest.
func TestARefusalOfOneGuardStopsNoOther(t *testing.T) {
	t.Run("for good", func(t *testing.T) {
		for _, refused := range []string{"a", "b"} {
			l, gates := guarded(t, "ab")
			gates[refused].err = retry.Stop(errors.New("no quota"))
			well := map[string]string{"a": "b", "b": "a"}[refused]
			l.answer(well, errDown, nil)
			if err := l.call(well + "@0s " + well + "@100ms"); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("for long", func(t *testing.T) {
		l, gates := guarded(t, "ab")
		gates["b"].err = retry.After(errors.New("full"), 30*time.Second)
		l.answer("a", errDown, nil)
		if err := l.callBefore(10*time.Second, "a@0s a@100ms"); err != nil {
			t.Error(err)
		}
	})
	t.Run("and a rest", func(t *testing.T) {
		l, gates := guarded(t, "ab")
		_ = l.call("a@0s") // from now on a knows the clock
		l.target("a").Hold(time.Second)
		gates["b"].err = retry.Stop(errors.New("no quota"))
		if err := l.call("a@1s"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a limit", func(t *testing.T) {
		l := newLab(t, "ab")
		l.timed, l.policy.MaxAttempts, l.set.Failures = true, 4, 100
		full := &limit.Limit{Max: 1}
		if _, err := full.Enter(t.Context(), retry.Entry{}); err != nil {
			t.Fatal(err)
		}
		l.target("b").Guards = []retry.Guard{full}
		l.answer("a", errDown)
		_ = l.call("a@0s a@100ms a@300ms a@700ms")
	})
}

// waker has attempts wait for a place, and knows not for how long.
type waker struct {
	mu   sync.Mutex
	wait chan struct{} // nil: there is room
}

func (g *waker) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return retry.Pass{Wake: g.wait, Again: g.wait != nil}, nil
}

func (*waker) Leave(retry.Pass, retry.Exit) {}

func (g *waker) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.wait)
	g.wait = nil
}

// A turn of which nobody knows when it comes is waited for if all else is too late.
func TestAnUnknownTurnBeforeARestThatIsTooLong(t *testing.T) {
	l := newLab(t, "ab")
	l.timed = true
	g := &waker{wait: make(chan struct{})}
	l.target("a").Guards = []retry.Guard{g}
	l.answer("b", told(time.Minute), nil)
	l.clock.AfterFunc(10*time.Millisecond, g.open)
	if err := l.callBefore(30*time.Second, "b@0s a@10ms"); err != nil {
		t.Error(err)
	}
}

// guardFunc is a guard that only enters.
type guardFunc func(retry.Entry) (retry.Pass, error)

func (f guardFunc) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) { return f(e) }
func (guardFunc) Leave(retry.Pass, retry.Exit)                                 {}

// A switch that a guard of the policy refuses comes after the backoff, and is made elsewhere all the same.
func TestARefusedSwitch(t *testing.T) {
	full := errors.New("full")
	for _, tt := range []struct {
		refusal error
		want    string
	}{
		{full, "a@0s b@100ms"},
		{retry.After(full, time.Second), "a@0s b@6s"}, // the refusal is throttled
	} {
		l := newLab(t, "ab")
		l.timed = true
		l.policy.ThrottleBackoff = retry.Constant(5 * time.Second)
		entered := 0
		l.policy.Guards = []retry.Guard{guardFunc(func(retry.Entry) (retry.Pass, error) {
			if entered++; entered == 2 {
				return retry.Pass{}, tt.refusal
			}
			return retry.Pass{}, nil
		})}
		l.answer("a", errDown)
		if err := l.call(tt.want); err != nil {
			t.Error(err)
		}
	}
}

// A guard that refuses a turn which it has promised stops no other target.
func TestARefusedTurn(t *testing.T) {
	l := newLab(t, "ab")
	l.timed = true
	entered := 0
	l.target("a").Guards = []retry.Guard{guardFunc(func(retry.Entry) (retry.Pass, error) {
		if entered++; entered == 2 {
			return retry.Pass{}, errors.New("full")
		}
		return retry.Pass{Wait: time.Second}, nil
	})}
	entered = 2
	l.call("b@0s") // from now on b knows the clock
	entered = 0
	l.target("b").Hold(3 * time.Second)
	if err := l.call("b@3s"); err != nil {
		t.Error(err)
	}
	for _, targets := range []string{"a", "ab"} {
		l := newLab(t, targets)
		l.timed = true
		entered := 0
		l.target("a").Guards = []retry.Guard{guardFunc(func(retry.Entry) (retry.Pass, error) {
			switch entered++; entered {
			case 1:
				return retry.Pass{Wait: time.Second, Again: true}, nil
			case 2:
				return retry.Pass{}, errors.New("full")
			}
			return retry.Pass{}, nil
		})}
		want := "a@1.1s"
		if targets == "ab" {
			l.target("b").Guards = []retry.Guard{&gate{wait: time.Hour}}
			want = "a@100ms" // it is refused when it is asked for the turn
		}
		if err := l.call(want); err != nil {
			t.Error(err)
		}
	}
}

// A target that begins to rest while its guards are asked is left, and others are asked.
func TestRestWhileAGuardIsAsked(t *testing.T) {
	l := newLab(t, "ab")
	l.timed = true
	entered := 0
	l.target("a").Guards = []retry.Guard{guardFunc(func(retry.Entry) (retry.Pass, error) {
		if entered++; entered == 1 {
			for range 3 {
				l.during(errDown, func() {})
			}
		}
		return retry.Pass{}, nil
	})}
	l.call("b@0s")
	l.rests("a", 2*time.Second)
}

// The retry that nobody has to pay for is one, and a round is paid once.
func TestOneGift(t *testing.T) {
	l, gates := guarded(t, "abc")
	b := new(counted)
	l.policy.Budget, l.set.Failures = b, 100
	gates["c"].err = errors.New("full")
	l.answer("a", status(429))
	l.answer("b", errDown, errDown, nil)
	l.clock.AfterFunc(50*time.Millisecond, func() { gates["a"].err = errors.New("full") })
	l.call("a@0s b@0s b@100ms b@300ms")
	if got := strings.Join(b.log, "; "); got != "pay 1 transient; pay 2 transient; end 2 2 transient true" {
		t.Errorf("the budget gets %q", got)
	}

	l, _ = guarded(t, "ab")
	b = new(counted)
	l.policy.Budget = b
	entered := 0
	l.target("b").Guards = []retry.Guard{guardFunc(func(retry.Entry) (retry.Pass, error) {
		if entered++; entered == 2 {
			return retry.Pass{}, errors.New("full")
		}
		return retry.Pass{}, nil
	})}
	l.answer("a", status(429))
	l.answer("b", retry.ErrRejected, nil)
	l.call("a@0s b@0s b@300ms") // a poll, which is refused once
	if got := strings.Join(b.log, "; "); got != "end 0 0 unknown true" {
		t.Errorf("the budget gets %q", got)
	}

	l, gates = guarded(t, "ab")
	b = new(counted)
	l.policy.Budget = b
	gates["b"].wait = time.Hour
	l.answer("a", status(429), nil)
	l.clock.AfterFunc(50*time.Millisecond, func() { l.target("a").Hold(time.Second) })
	l.call("a@0s a@1.05s") // the round has begun, and waits once more
	if got := strings.Join(b.log, "; "); got != "pay 1 throttled; end 1 1 throttled true" {
		t.Errorf("the budget gets %q", got)
	}
}

// A turn of which nobody knows when it comes is no reason to wait if another round can come.
func TestAnUnknownTurnOrARound(t *testing.T) {
	l := newLab(t, "ab")
	l.timed = true
	l.target("b").Guards = []retry.Guard{&waker{wait: make(chan struct{})}}
	l.answer("a", errDown, nil)
	l.call("a@0s a@100ms")
}

// Of several refusals the one that says to come back first counts, also if one comes in place of a turn.
func TestARefusalInPlaceOfATurn(t *testing.T) {
	l, gates := guarded(t, "ab")
	l.clock.AfterFunc(50*time.Millisecond, func() { gates["a"].err = nil })
	gates["a"].err = errors.New("full")
	entered := 0
	l.target("b").Guards = []retry.Guard{guardFunc(func(retry.Entry) (retry.Pass, error) {
		if entered++; entered == 1 {
			return retry.Pass{Wait: time.Second}, nil
		}
		return retry.Pass{}, retry.Stop(errors.New("shut down"))
	})}
	if err := l.call("a@100ms"); err != nil {
		t.Error(err)
	}
}

// A guard that is asked again after its wait gets the pass of that wait, and no other guard does.
func TestEarlierIsOfItsGuard(t *testing.T) {
	l := newLab(t, "a")
	var got []string
	guard := func(name string, again bool) retry.Guard {
		return guardFunc(func(e retry.Entry) (retry.Pass, error) {
			got = append(got, fmt.Sprint(name, e.Earlier.Wait))
			if again && !e.Earlier.Again {
				return retry.Pass{Wait: time.Second, Again: true}, nil
			}
			return retry.Pass{}, nil
		})
	}
	l.target("a").Guards = []retry.Guard{guard("x", false), guard("y", true), guard("z", false)}
	l.call("a")
	if s := strings.Join(got, " "); s != "x0s y0s y1s z0s" {
		t.Errorf("the guards get %s", s)
	}
}

// A target's own timeout is to its guards what the timeout of a run is.
func TestOwnTimeoutAsTheRuns(t *testing.T) {
	ops := map[string]func(context.Context) error{
		"cause":  context.Cause,
		"other":  func(context.Context) error { return errDown },
		"answer": func(context.Context) error { return retry.Answer(errDown) },
		"stop":   func(context.Context) error { return errBad },
		"nil":    func(context.Context) error { return nil },
	}
	for name, op := range ops {
		for _, deadline := range []time.Duration{0, 500 * time.Millisecond, time.Hour} {
			exit := func(other time.Duration) string {
				l, gates := guarded(t, "ab")
				l.policy.MaxAttempts = 1
				l.target("a").Timeout, l.target("b").Timeout = time.Second, other
				ctx := t.Context()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = l.clock.WithTimeoutCause(ctx, deadline, nil)
					defer cancel()
				}
				_, _ = failover.Do(ctx, l.policy, &l.set, func(ctx context.Context, _ *failover.Target[string]) (int, error) {
					_ = l.clock.Sleep(ctx, time.Hour)
					return 0, op(ctx)
				})
				x := gates["a"].exits[0]
				return fmt.Sprint(x.Ending, x.Allowed, x.Took, x.Verdict)
			}
			if same, own := exit(time.Second), exit(2*time.Second); own != same {
				t.Errorf("%s, deadline %v: the guards get %s, want %s", name, deadline, own, same)
			}
		}
	}
}
