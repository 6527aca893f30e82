package retry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/pace"
)

func wantAllocs(t *testing.T, want float64, f func()) {
	t.Helper()
	if got := testing.AllocsPerRun(1000, f); got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}

// emptyHooks are set and do nothing.
var emptyHooks = retry.Hooks{
	Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
	Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
	AttemptDone: func(context.Context, retry.Attempt) {},
	Wait:        func(context.Context, retry.Attempt) {},
	Done:        func(context.Context, retry.Summary) {},
}

func TestFirstTrySuccessAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for name, p := range map[string]retry.Policy{
		"zero policy":      {},
		"named":            {Name: "x", MaxElapsed: time.Hour, NonIdempotent: true, Backoff: retry.Constant(1)},
		"earned budget":    {Budget: &retry.EarnedBudget{}},
		"token budget":     {Budget: &budget.Token{}},
		"ratio budget":     {Budget: &budget.Ratio{Window: 24 * time.Hour}},
		"hooks":            {Hooks: emptyHooks},
		"joined hooks":     {Hooks: retry.JoinHooks(emptyHooks, emptyHooks)},
		"virtual clock":    {Clock: clockx.NewVirtual(epoch)},
		"open pace":        {Guards: []retry.Guard{new(pace.Pace)}},
		"open pace, clock": {Guards: []retry.Guard{new(pace.Pace)}, Clock: clockx.NewVirtual(epoch)},
	} {
		t.Run(name, func(t *testing.T) {
			wantAllocs(t, 0, func() { sink, _ = retry.Do(ctx, p, fetch) })
			wantAllocs(t, 0, func() { _ = retry.Run(ctx, p, func(context.Context) error { return nil }) })
		})
	}
}

// A Loop that does not leave its function is on the stack: Start and Resume are inlined.
func TestLoopAllocatesNothing(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Budget: &retry.EarnedBudget{}}
	wantAllocs(t, 0, func() { _, _ = p.Start(epoch).Next(epoch, nil) })
	wantAllocs(t, 0, func() { _, _ = p.Resume(epoch, 1, time.Second).Next(epoch, nil) })
}

// The README's own policy has a timeout, so it says what that costs.
func TestTimeoutAllocatesFourTimes(t *testing.T) {
	p := retry.Policy{Name: "get-user", MaxAttempts: 4, AttemptTimeout: 2 * time.Second, Budget: &retry.EarnedBudget{}}
	wantAllocs(t, 4, func() { sink, _ = retry.Do(t.Context(), p, fetch) })
}

// idle is a guard that holds nothing, and keeper one that holds a pointer.
type (
	idle   struct{}
	keeper struct{ row }
)

func (idle) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (idle) Leave(retry.Pass, retry.Exit)                           {}
func (k *keeper) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{Held: k, Round: 1 << 40}, nil
}
func (k *keeper) Leave(p retry.Pass, _ retry.Exit) { p.Held.(*keeper).id++ }

// Guards add no allocation to an attempt or a run, whatever it comes to.
func TestGuardsAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector a sync.Pool drops things at random")
	}
	ctx := t.Context()
	lists := map[string][]retry.Guard{"idle": {idle{}}, "pointer": {new(keeper)}, "both": {new(keeper), idle{}}, "with a pace": {new(pace.Pace), nil, new(keeper)}}
	v := clockx.NewVirtual(epoch)
	for name, p := range map[string]retry.Policy{
		"first try":                      {},
		"first try on a clock":           {Clock: v},
		"first try with hooks":           {Hooks: emptyHooks},
		"first try with a timeout":       {AttemptTimeout: time.Minute},
		"first try with MaxElapsed":      {MaxElapsed: time.Minute},
		"three failures":                 {MaxAttempts: 4, Clock: v},
		"three failures with a timeout":  {MaxAttempts: 4, Clock: v, AttemptTimeout: time.Minute},
		"three failures and no success":  {MaxAttempts: 3, Clock: v},
		"three failures and a hook each": {MaxAttempts: 4, Clock: v, Hooks: emptyHooks},
	} {
		measure := func(guards []retry.Guard) float64 {
			p := p
			p.Guards = guards
			calls := 0
			op := func(context.Context) (row, error) {
				if calls++; p.MaxAttempts > 0 && calls%4 != 0 {
					return row{}, errFlaky
				}
				return ada, nil
			}
			return testing.AllocsPerRun(1000, func() { sink, _ = retry.Do(ctx, p, op) })
		}
		want := measure(nil)
		for list, guards := range lists {
			want := want
			if p.Hooks.Start != nil { // it gets a copy of the list
				want++
			}
			if got := measure(guards); got != want {
				t.Errorf("%s, %s: %v allocations, want %v", name, list, got, want)
			}
		}
	}
}

// A refusal, and a wait, cost what a retry does: the one allocation that a run needs from then on.
func TestRefusalsAndWaitsAllocateOnce(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector a sync.Pool drops things at random")
	}
	p := retry.Policy{Clock: clockx.NewVirtual(epoch)}
	for name, want := range map[string]float64{"refusal": 1, "wait": 0, "another wait": 0} {
		asked := 0
		p.Guards = []retry.Guard{stubborn(func(e retry.Entry) (retry.Pass, error) {
			asked++
			switch {
			case asked%3 == 0:
				return retry.Pass{}, nil
			case name == "refusal":
				return retry.Pass{}, errFull
			}
			return retry.Pass{Wait: 1, Again: name != "wait"}, nil
		})}
		if got := testing.AllocsPerRun(999, func() { sink, _ = retry.Do(t.Context(), p, fetch) }); got > want {
			t.Errorf("%s: %v allocations, want at most %v", name, got, want)
		}
	}
}

// stubborn is a guard that is one func.
type stubborn func(retry.Entry) (retry.Pass, error)

func (s stubborn) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) { return s(e) }
func (stubborn) Leave(retry.Pass, retry.Exit)                                 {}

// One allocation for the first retry, which holds all that a run needs from then
// on, and one for each from the fourth on: the context that carries the number.
func TestThreeRetriesAllocateOnce(t *testing.T) {
	ctx := t.Context()
	v := clockx.NewVirtual(epoch)
	for name, p := range map[string]retry.Policy{
		"plain":         {Clock: v},
		"earned budget": {Clock: v, Budget: refilled{new(retry.EarnedBudget)}},
		"token budget":  {Clock: v, Budget: &budget.Token{Cost: -1}},
		"hooks":         {Clock: v, Hooks: emptyHooks},
		"system clock":  {Backoff: retry.Constant(1)},
	} {
		if race.Enabled && name == "system clock" {
			continue // under the race detector a sync.Pool drops things at random
		}
		for _, failures := range []int{1, 3, 20} {
			p.MaxAttempts = retry.Unlimited
			calls := 0
			op := func(context.Context) (row, error) {
				if calls++; calls%(failures+1) != 0 {
					return row{}, errFlaky
				}
				return row{}, nil
			}
			want := max(1, failures-2)
			if failures > 4 {
				want++ // the errors move out
			}
			runs := 1000
			if name == "system clock" {
				runs = 20 // its waits are real, and each takes a clock tick of the system
			}
			if got := testing.AllocsPerRun(runs, func() { sink, _ = retry.Do(ctx, p, op) }); got != float64(want) {
				t.Errorf("%s, %d failures: %v allocations, want %d", name, failures, got, want)
			}
		}
	}
}

// refilled is a budget that never runs out.
type refilled struct{ *retry.EarnedBudget }

func (b refilled) Withdraw(w retry.Withdrawal) bool {
	b.EarnedBudget.End(retry.Outcome{Retried: w.Class, Retries: 1, Sent: 1, OK: true, Clock: w.Clock})
	return b.EarnedBudget.Withdraw(w)
}

func TestJudgingAnErrorAllocatesNothing(t *testing.T) {
	for _, err := range []error{errDown, dial(viaSyscall(111)), &retry.Error{Errs: []error{errDown}}, status(503), errors.Join(errDown, errDown)} {
		wantAllocs(t, 0, func() { _ = retry.DefaultClassifier(err) })
	}
}

func TestBackoffsAllocateNothing(t *testing.T) {
	for _, b := range []retry.Backoff{retry.Exponential{}, retry.Linear{}, retry.Decorrelated{}, retry.Schedule{1}, retry.Constant(1)} {
		wantAllocs(t, 0, func() { _ = b.Delay(retry.Step{Retry: 3, Rand: .5}) })
	}
}

// waiting are goroutines' functions, each as a caller would write it.
var waiting = map[string]func(context.Context) func(){
	"bare timer": func(ctx context.Context) func() {
		return func() {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	},
	"Run": func(ctx context.Context) func() {
		return func() { _ = retry.Run(ctx, hourly, func(context.Context) error { return errFlaky }) }
	},
	"Run below a frame that is larger still": func(ctx context.Context) func() {
		return func() {
			var more [96]byte
			_ = retry.Run(ctx, later, func(context.Context) error { return errFlaky })
			runtime.KeepAlive(&more)
		}
	},
	"Do with a pointer": func(ctx context.Context) func() {
		return func() {
			_, _ = retry.Do(ctx, hourly, func(context.Context) (*row, error) { return nil, errFlaky })
		}
	},
	"Do with 56 bytes": func(ctx context.Context) func() {
		return func() {
			_, _ = retry.Do(ctx, hourly, func(context.Context) (row, error) { return row{}, errFlaky })
		}
	},
	"Do with 56 bytes below a larger frame": func(ctx context.Context) func() {
		return func() {
			var more [32]byte
			_, _ = retry.Do(ctx, hourly, func(context.Context) (row, error) { return row{}, errFlaky })
			runtime.KeepAlive(&more)
		}
	},
	"Do with 56 bytes, a backoff that grows": func(ctx context.Context) func() {
		return func() {
			_, _ = retry.Do(ctx, growing, func(context.Context) (row, error) { return row{}, errFlaky })
		}
	},
	"Do with 56 bytes, the second wait": func(ctx context.Context) func() {
		return func() {
			_, _ = retry.Do(ctx, later, func(context.Context) (row, error) { return row{}, errFlaky })
		}
	},
	"Run for a guard": func(ctx context.Context) func() {
		return func() { _ = retry.Run(ctx, heldForHours, works) }
	},
	"Do with 56 bytes for a guard": func(ctx context.Context) func() {
		return func() { _, _ = retry.Do(ctx, heldForHours, fetch) }
	},
	"Do with 56 bytes, for a guard that asks again": func(ctx context.Context) func() {
		return func() { _, _ = retry.Do(ctx, askedForHours, fetch) }
	},
	"Run that a guard has refused": func(ctx context.Context) func() {
		return func() { _ = retry.Run(ctx, fullForHours, works) }
	},
	"Run for its turn": func(ctx context.Context) func() {
		pace := new(pace.Pace)
		pace.Hold(time.Minute)
		p := retry.Policy{Guards: []retry.Guard{pace}}
		return func() { _ = retry.Run(ctx, p, works) }
	},
}

var (
	heldForHours  = retry.Policy{Guards: []retry.Guard{stubborn(func(retry.Entry) (retry.Pass, error) { return retry.Pass{Wait: time.Hour}, nil })}}
	askedForHours = retry.Policy{Guards: []retry.Guard{stubborn(func(retry.Entry) (retry.Pass, error) { return retry.Pass{Wait: time.Hour, Again: true}, nil })}}
	fullForHours  = retry.Policy{Guards: []retry.Guard{stubborn(func(retry.Entry) (retry.Pass, error) { return retry.Pass{}, errFull })}, Backoff: retry.Constant(time.Hour)}
)

var (
	hourly  = retry.Policy{Backoff: retry.Constant(time.Hour)}
	growing = retry.Policy{Backoff: retry.Exponential{Base: time.Hour, Max: 2 * time.Hour}}
	later   = retry.Policy{Backoff: retry.Schedule{1, time.Hour}}
)

// Calls that wait, 5 000 or with RETRY_LONG=1 100 000, take at most 1.3 times the
// memory of as many goroutines on a bare timer, and those that wait for a guard twice as much.
// The first fit the stack that a goroutine begins with, also if the caller's frame is 32 bytes
// larger, and 96 around Run. Much more does not fit: a select for a timer and a context takes 400 bytes, and the
// arguments of Do 232. An op that does I/O has grown its stack before it fails: what its
// goroutine takes then is not ours. Each is
// measured in a process of its own, because the runtime learns from the stacks it
// has seen and keeps the goroutines it has made. The collector runs only when the
// process says so: at other moments it leaves spans that are half in use.
func TestMemoryOfWaitingCalls(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes stack frames larger")
	}
	if name := os.Getenv("RETRY_TEST_WAITING"); name != "" {
		fmt.Printf("bytes=%d\n", memoryOf(waiting[name](t.Context())))
		return
	}
	measure := func(name string) int {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryOfWaitingCalls$")
		cmd.Env = append(os.Environ(), "GOGC=off", "RETRY_TEST_WAITING="+name)
		out, err := cmd.CombinedOutput()
		n := 0
		if _, scanErr := fmt.Sscanf(string(out), "bytes=%d", &n); err != nil || scanErr != nil {
			t.Fatalf("%v, %v: %s", err, scanErr, out)
		}
		return n
	}
	bare := measure("bare timer")
	for name := range waiting {
		limit := bare * 13 / 10
		if strings.Contains(name, "guard") || strings.Contains(name, "turn") {
			limit = bare * 2
		}
		n := measure(name)
		for try := 1; n > limit && try < 5; try++ { // a busy machine only adds to what is in use
			n = measure(name)
		}
		t.Logf("a waiting %s takes %d bytes, %.2f times as many as a bare timer", name, n, float64(n)/float64(bare))
		if n > limit {
			t.Errorf("a waiting %s takes %d bytes, want at most %d", name, n, limit)
		}
	}
}

// memoryOf returns how many bytes of stack and heap a goroutine takes that is
// blocked in f.
func memoryOf(f func()) uint64 {
	n := uint64(5_000)
	if longTests {
		n = 100_000
	}
	before := inUse()
	for range n {
		go f()
	}
	now, last := inUse(), before
	for now != last { // until all of them sleep
		now, last = inUse(), now
	}
	return (now - before) / n
}

func inUse() uint64 {
	var m runtime.MemStats
	for range 100 {
		runtime.Gosched()
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.StackInuse + m.HeapAlloc
}
