package clockx_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/race"
)

var (
	start    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	errCause = errors.New("the cause")
)

func TestVirtualSleepIsAdvancing(t *testing.T) {
	v := clockx.NewVirtual(start)
	for _, tt := range []struct{ sleep, want time.Duration }{
		{time.Second, time.Second},
		{0, time.Second},
		{-time.Hour, time.Second},
		{time.Hour, time.Hour + time.Second},
		{1<<63 - 1, 1<<63 - 1}, // the end of time
		{1<<63 - 1, 1<<63 - 1},
	} {
		if err := v.Sleep(t.Context(), tt.sleep); err != nil {
			t.Errorf("Sleep(%v) = %v, want nil", tt.sleep, err)
		}
		if got := v.Now().Sub(start); got != tt.want {
			t.Errorf("after Sleep(%v) it is %v, want %v", tt.sleep, got, tt.want)
		}
	}
}

func TestVirtualNowHasNoMonotonicReading(t *testing.T) {
	now := time.Now()
	if got := clockx.NewVirtual(now).Now(); got != now.Round(0) {
		t.Errorf("Now() = %v, want %v", got, now.Round(0))
	}
}

func TestCanceledSleepDoesNotAdvance(t *testing.T) {
	v := clockx.NewVirtual(start)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Sleep(ctx, time.Second); err != context.Canceled {
		t.Errorf("Sleep() = %v, want Canceled", err)
	}
	if !v.Now().Equal(start) {
		t.Errorf("it is %v, want the clock to stay", v.Now().Sub(start))
	}
}

func TestSleepStopsWhereItsContextEnds(t *testing.T) {
	v := clockx.NewVirtual(start)
	ctx, cancel := context.WithCancel(t.Context())
	v.AfterFunc(300*time.Millisecond, cancel)
	if err := v.Sleep(ctx, time.Second); err != context.Canceled {
		t.Errorf("Sleep() = %v, want Canceled", err)
	}
	if got := v.Now().Sub(start); got != 300*time.Millisecond {
		t.Errorf("it is %v, want 300ms", got)
	}
}

func TestDoneContextWinsOverAnElapsedSleep(t *testing.T) {
	v := clockx.NewVirtual(start)
	ctx, cancel := v.WithTimeoutCause(t.Context(), time.Second, nil)
	defer cancel()
	if err := v.Sleep(ctx, time.Second); err != context.DeadlineExceeded {
		t.Errorf("Sleep() = %v, want DeadlineExceeded: both are due", err)
	}
}

func TestTimersFireInOrderAtTheirInstants(t *testing.T) {
	v := clockx.NewVirtual(start)
	var got []string
	note := func(name string) func() {
		return func() { got = append(got, name+" at "+v.Now().Sub(start).String()) }
	}
	v.AfterFunc(3*time.Second, note("d"))
	v.AfterFunc(time.Second, note("a"))
	stop := v.AfterFunc(2*time.Second, note("never"))
	v.AfterFunc(2*time.Second, func() {
		note("b")()
		v.AfterFunc(500*time.Millisecond, note("c")) // from within, still inside the sleep
		v.AfterFunc(0, note("b at once"))
	})
	v.AfterFunc(3*time.Second, note("e")) // same instant: the older one first
	v.AfterFunc(time.Hour, note("late"))
	if !stop() || stop() {
		t.Error("stop() is not true once, then false")
	}
	v.Advance(10 * time.Second)
	want := []string{"a at 1s", "b at 2s", "b at once at 2s", "c at 2.5s", "d at 3s", "e at 3s"}
	if !slices.Equal(got, want) {
		t.Errorf("fired %q, want %q", got, want)
	}
	if n := v.Pending(); n != 1 {
		t.Errorf("Pending() = %d, want the late one", n)
	}
	if got := v.Now().Sub(start); got != 10*time.Second {
		t.Errorf("it is %v, want 10s", got)
	}
}

func TestAllThatIsDueAtOneInstantFires(t *testing.T) {
	v := clockx.NewVirtual(start)
	first, cancel := v.WithTimeoutCause(t.Context(), time.Second, nil)
	defer cancel()
	second, cancel := v.WithTimeoutCause(t.Context(), time.Second, nil)
	defer cancel()
	if err := v.Sleep(first, time.Minute); err != context.DeadlineExceeded || second.Err() != context.DeadlineExceeded {
		t.Errorf("Sleep() = %v, and the other context ended with %v, want both past their deadline", err, second.Err())
	}
	if got := v.Now().Sub(start); got != time.Second || v.Pending() != 0 {
		t.Errorf("it is %v, and %d timers are left, want 1s and none", got, v.Pending())
	}
}

func TestAfterFuncAtOnce(t *testing.T) {
	v := clockx.NewVirtual(start)
	for _, d := range []time.Duration{0, -1} {
		calls := 0
		if stop := v.AfterFunc(d, func() { calls++ }); calls != 1 || stop() || v.Pending() != 0 {
			t.Errorf("AfterFunc(%v) called %d times at once, and %d timers are left", d, calls, v.Pending())
		}
	}
}

// Only what takes time fires other timers.
func TestTimerThatSleepsForNoTime(t *testing.T) {
	v := clockx.NewVirtual(start)
	var got []string
	v.AfterFunc(time.Second, func() {
		v.Advance(0)
		v.Advance(-time.Second)
		got = append(got, "first")
	})
	v.AfterFunc(time.Second, func() { got = append(got, "second") })
	v.Advance(time.Second)
	if want := []string{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("fired %q, want %q", got, want)
	}
}

func TestOneNanosecondIsNotAtOnce(t *testing.T) {
	v := clockx.NewVirtual(start)
	fired := false
	v.AfterFunc(1, func() { fired = true })
	ctx, cancel := v.WithTimeoutCause(t.Context(), 1, nil)
	defer cancel()
	if fired || ctx.Err() != nil || v.Pending() != 2 {
		t.Errorf("at once: fired %v, Err() = %v, Pending() = %d; want a timer and a deadline that wait", fired, ctx.Err(), v.Pending())
	}
	v.Advance(1)
	if !fired || ctx.Err() != context.DeadlineExceeded || v.Pending() != 0 {
		t.Errorf("a nanosecond later: fired %v, Err() = %v, Pending() = %d", fired, ctx.Err(), v.Pending())
	}
}

func TestTimeGoesOnFromATimerThatSleeps(t *testing.T) {
	v := clockx.NewVirtual(start)
	v.AfterFunc(time.Second, func() { v.Advance(time.Minute) })
	v.Advance(2 * time.Second)
	if got, want := v.Now().Sub(start), time.Second+time.Minute; got != want {
		t.Errorf("it is %v, want %v: never back to 2s", got, want)
	}
}

// family is a context with what people derive from one.
type family struct {
	ctx    context.Context
	cancel context.CancelFunc
	std    context.Context // WithCancel of it
	valued context.Context // WithCancel of WithValue of it
	nested context.Context // a longer timeout on the same clock
}

func familyOf(t *testing.T, v clockx.Clock, parent context.Context, cause error) family {
	ctx, cancel := v.WithTimeoutCause(parent, time.Second, cause)
	f := family{ctx: ctx, cancel: cancel}
	var cancels [3]context.CancelFunc
	f.std, cancels[0] = context.WithCancel(ctx)
	f.valued, cancels[1] = context.WithCancel(context.WithValue(ctx, t, 1))
	f.nested, cancels[2] = v.WithTimeoutCause(ctx, time.Hour, nil)
	t.Cleanup(func() {
		for _, c := range cancels {
			c()
		}
		cancel()
	})
	return f
}

// What ended is told at once: no goroutine has to run first.
func (f family) check(t *testing.T, when string, err, cause, stdErr error) {
	t.Helper()
	for name, ctx := range map[string]context.Context{"itself": f.ctx, "std": f.std, "valued": f.valued, "nested": f.nested} {
		select {
		case <-ctx.Done():
			if err == nil {
				t.Errorf("%s, %s: Done is closed", when, name)
			}
		default:
			if err != nil {
				t.Errorf("%s, %s: Done is open", when, name)
			}
		}
		want := err
		if name == "std" || name == "valued" {
			want = stdErr
		}
		if got := ctx.Err(); got != want {
			t.Errorf("%s, %s: Err() = %v, want %v", when, name, got, want)
		}
		if got := context.Cause(ctx); got != cause {
			t.Errorf("%s, %s: Cause() = %v, want %v", when, name, got, cause)
		}
	}
}

func TestDeadlinePasses(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, tt := range []struct {
		name   string
		parent context.Context
		cause  error
		want   error
		stdErr error
	}{
		{"below no parent", context.Background(), errCause, errCause, context.DeadlineExceeded},
		{"below no parent, no cause", context.Background(), nil, context.DeadlineExceeded, context.DeadlineExceeded},
		{"below a value", context.WithValue(context.Background(), t, 1), errCause, errCause, context.DeadlineExceeded},
		{"below a cancelable parent", parent, errCause, errCause, context.Canceled}, // see WithTimeoutCause
		{"below a cancelable parent, no cause", parent, nil, context.DeadlineExceeded, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := clockx.NewVirtual(start)
			f := familyOf(t, v, tt.parent, tt.cause)
			if at, ok := f.ctx.Deadline(); !ok || at != start.Add(time.Second) {
				t.Errorf("Deadline() = %v, %v, want in 1s", at, ok)
			}
			if at, ok := f.nested.Deadline(); !ok || at != start.Add(time.Second) {
				t.Errorf("nested Deadline() = %v, %v, want the parent's, in 1s", at, ok)
			}
			before := runtime.NumGoroutine()
			v.Advance(time.Second - 1)
			f.check(t, "just before", nil, nil, nil)
			v.Advance(1)
			f.check(t, "at the deadline", context.DeadlineExceeded, tt.want, tt.stdErr)
			f.cancel()
			f.check(t, "canceled later", context.DeadlineExceeded, tt.want, tt.stdErr)
			late, cancel := context.WithCancel(f.ctx)
			defer cancel()
			if late.Err() != context.DeadlineExceeded || context.Cause(late) != tt.want {
				t.Errorf("derived later: Err() = %v, Cause() = %v", late.Err(), context.Cause(late))
			}
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%d goroutines, %d before", after, before)
			}
		})
	}
}

func TestContextIsCanceled(t *testing.T) {
	for _, parent := range []context.Context{context.Background(), t.Context()} {
		v := clockx.NewVirtual(start)
		f := familyOf(t, v, parent, errCause)
		if n := v.Pending(); n != 2 {
			t.Errorf("Pending() = %d, want the two deadlines", n)
		}
		f.cancel()
		f.cancel()
		f.check(t, "canceled", context.Canceled, context.Canceled, context.Canceled)
		if n := v.Pending(); n != 1 {
			t.Errorf("Pending() = %d, want the nested one", n)
		}
		v.Advance(time.Minute)
		f.check(t, "past its deadline", context.Canceled, context.Canceled, context.Canceled)
	}
}

func TestParentIsCanceled(t *testing.T) {
	v := clockx.NewVirtual(start)
	parent, cancel := context.WithCancelCause(t.Context())
	f := familyOf(t, v, parent, errors.New("not this"))
	cancel(errCause)
	f.check(t, "the parent was canceled", context.Canceled, errCause, context.Canceled)
	f.cancel()
	v.Advance(time.Minute)
	f.check(t, "past its deadline", context.Canceled, errCause, context.Canceled)
	f = familyOf(t, v, parent, nil)
	f.check(t, "of a canceled parent", context.Canceled, errCause, context.Canceled)
}

func TestParentsDeadlineOnTheSameClock(t *testing.T) {
	for _, grand := range []context.Context{context.Background(), t.Context()} {
		v := clockx.NewVirtual(start)
		parent, cancel := v.WithTimeoutCause(grand, time.Millisecond, errCause)
		defer cancel()
		f := familyOf(t, v, parent, errors.New("not this"))
		v.Advance(time.Second)
		if f.ctx.Err() != context.DeadlineExceeded || context.Cause(f.ctx) != errCause || f.nested.Err() != context.DeadlineExceeded {
			t.Errorf("Err() = %v, Cause() = %v, nested %v, want the parent's", f.ctx.Err(), context.Cause(f.ctx), f.nested.Err())
		}
	}
}

func TestTheEarlierDeadlineIsShown(t *testing.T) {
	v := clockx.NewVirtual(start)
	parent, cancel := v.WithTimeoutCause(context.Background(), time.Hour, nil)
	defer cancel()
	ctx, cancel := v.WithTimeoutCause(parent, time.Minute, nil)
	defer cancel()
	if at, ok := ctx.Deadline(); !ok || at != start.Add(time.Minute) {
		t.Errorf("Deadline() = %v, %v, want its own, in a minute", at, ok)
	}
}

// What ended it first counts, also if nobody has looked in between.
func TestTheFirstEndCounts(t *testing.T) {
	v := clockx.NewVirtual(start)
	parent, cancelParent := context.WithCancel(t.Context())
	ctx, cancel := v.WithTimeoutCause(parent, time.Second, errCause)
	defer cancel()
	cancelParent()
	v.Advance(time.Minute)
	if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
		t.Errorf("Err() = %v, Cause() = %v, want Canceled", ctx.Err(), context.Cause(ctx))
	}
}

// A deadline on the real clock that lies before the virtual one's is no reason to
// drop the virtual one.
func TestParentsDeadlineOnAnotherClock(t *testing.T) {
	parent, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	v := clockx.NewVirtual(start.AddDate(100, 0, 0))
	ctx, cancel := v.WithTimeoutCause(parent, time.Second, errCause)
	defer cancel()
	v.Advance(time.Second)
	if context.Cause(ctx) != errCause {
		t.Errorf("Cause() = %v after the timeout, want %v", context.Cause(ctx), errCause)
	}
}

func TestTimeoutThatIsOverAtOnce(t *testing.T) {
	v := clockx.NewVirtual(start)
	for _, d := range []time.Duration{0, -time.Second} {
		for _, clock := range []clockx.Clock{v, clockx.System()} {
			ctx, cancel := clock.WithTimeoutCause(t.Context(), d, errCause)
			defer cancel()
			if ctx.Err() != context.DeadlineExceeded || context.Cause(ctx) != errCause {
				t.Errorf("%T, %v: Err() = %v, Cause() = %v", clock, d, ctx.Err(), context.Cause(ctx))
			}
		}
	}
	if v.Pending() != 0 {
		t.Errorf("Pending() = %d, want 0", v.Pending())
	}
}

// Err never changes once it was seen, whoever ends the context and when.
func TestErrIsStable(t *testing.T) {
	for range 500 {
		v := clockx.NewVirtual(start)
		parent, cancelParent := context.WithCancel(t.Context())
		ctx, cancel := v.WithTimeoutCause(parent, time.Second, errCause)
		var wg sync.WaitGroup
		for _, end := range []func(){cancelParent, cancel, func() { v.Advance(time.Second) }} {
			wg.Go(end)
			wg.Go(func() {
				<-ctx.Done()
				if first, second := ctx.Err(), ctx.Err(); first == nil || first != second {
					t.Errorf("Err() = %v, then %v", first, second)
				}
			})
		}
		<-ctx.Done()
		first := ctx.Err()
		wg.Wait()
		if ctx.Err() != first {
			t.Errorf("Err() = %v, then %v", first, ctx.Err())
		}
	}
}

func TestVirtualIsFreeOfRaces(t *testing.T) {
	v := clockx.NewVirtual(start)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := v.Now()
			for range 200 {
				ctx, cancel := v.WithTimeoutCause(context.Background(), time.Second, nil)
				_ = v.Sleep(ctx, 10*time.Millisecond)
				cancel()
				if now := v.Now(); now.Before(last) {
					t.Errorf("time went back from %v to %v", last, now)
				} else {
					last = now
				}
			}
		})
	}
	wg.Wait()
	if n := v.Pending(); n != 0 {
		t.Errorf("Pending() = %d, want 0", n)
	}
}

// FuzzVirtual runs random operations on a clock and on a list of instants.
func FuzzVirtual(f *testing.F) {
	f.Add([]byte{0, 10, 1, 5, 2, 20})
	f.Fuzz(func(t *testing.T, program []byte) {
		v := clockx.NewVirtual(start)
		now, fired := time.Duration(0), 0
		type timer struct {
			at   time.Duration
			stop func() bool
		}
		var due []timer
		for len(program) >= 2 {
			op, d := program[0]%3, time.Duration(program[1])
			program = program[2:]
			switch op {
			case 0:
				at := now + d
				stop := v.AfterFunc(d, func() {
					fired++
					if got := v.Now().Sub(start); got != at {
						t.Errorf("a timer for %v fired at %v", at, got)
					}
				})
				if d > 0 {
					due = append(due, timer{at, stop})
				} else {
					fired--
				}
			case 1:
				if len(due) > 0 {
					if !due[0].stop() {
						t.Error("stop() = false for a pending timer")
					}
					due = due[1:]
				}
			case 2:
				v.Advance(d)
				now += d
				due = slices.DeleteFunc(due, func(x timer) bool {
					if x.at > now {
						return false
					}
					fired--
					return true
				})
			}
			if fired != 0 || v.Pending() != len(due) || v.Now().Sub(start) != now {
				t.Fatalf("%d timers too many fired, Pending() = %d, want %d; it is %v, want %v",
					fired, v.Pending(), len(due), v.Now().Sub(start), now)
			}
		}
	})
}

func TestSystemSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		canceled, cancelIt := context.WithCancel(t.Context())
		cancelIt()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, tt := range []struct {
			name string
			ctx  context.Context
			d    time.Duration
			took time.Duration
			err  error
		}{
			{"in full", t.Context(), time.Minute, time.Minute, nil},
			{"in full, no cancel possible", context.Background(), time.Minute, time.Minute, nil},
			{"a nanosecond", t.Context(), 1, 1, nil},
			{"zero", t.Context(), 0, 0, nil},
			{"negative", context.Background(), -time.Hour, 0, nil},
			{"done before", canceled, time.Minute, 0, context.Canceled},
			{"zero, but done", canceled, 0, 0, context.Canceled},
			{"cut short", short, time.Minute, 0, context.DeadlineExceeded}, // its second passed in the first rows
		} {
			before := time.Now()
			if err := clockx.System().Sleep(tt.ctx, tt.d); err != tt.err || time.Since(before) != tt.took {
				t.Errorf("%s: Sleep() = %v after %v, want %v after %v", tt.name, err, time.Since(before), tt.err, tt.took)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		before := time.Now()
		if err := clockx.System().Sleep(ctx, time.Minute); err != context.Canceled || time.Since(before) != time.Second {
			t.Errorf("canceled in mid-sleep: Sleep() = %v after %v, want Canceled after 1s", err, time.Since(before))
		}
	})
}

// Timers are pooled, and a timer that crossed the border of a synctest bubble
// would hang the test or kill the program.
func TestTimersDoNotCrossABubblesBorder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outside := func() {
		t.Helper()
		for range 10 {
			if err := clockx.System().Sleep(ctx, time.Microsecond); err != nil {
				t.Errorf("Sleep() = %v outside", err)
			}
		}
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := clockx.System().Sleep(short, time.Hour); err != context.DeadlineExceeded {
			t.Errorf("Sleep() = %v outside, want DeadlineExceeded", err)
		}
	}
	outside()
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			for range 10 {
				if err := clockx.System().Sleep(t.Context(), time.Hour); err != nil {
					t.Errorf("Sleep() = %v in the bubble", err)
				}
			}
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := clockx.System().Sleep(short, time.Hour); err != context.DeadlineExceeded {
				t.Errorf("Sleep() = %v in the bubble, want DeadlineExceeded", err)
			}
		})
		outside()
	}
}

func TestSystemSleepAllocatesNothing(t *testing.T) {
	for name, ctx := range map[string]context.Context{"cancelable": t.Context(), "not": context.Background()} {
		if got := testing.AllocsPerRun(1000, func() { _ = clockx.System().Sleep(ctx, 1) }); got != 0 && !race.Enabled {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
	v := clockx.NewVirtual(start)
	if got := testing.AllocsPerRun(1000, func() { _ = v.Sleep(t.Context(), 1) }); got != 0 {
		t.Errorf("virtual: %v allocations, want 0", got)
	}
}

// 100 000 sleeps that are cut short leave no goroutine and no memory behind.
func TestCutSleepsLeaveNothing(t *testing.T) {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // empties pools
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, before := runtime.NumGoroutine(), inUse()
	for range 100_000 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := clockx.System().Sleep(ctx, time.Hour); err != context.Canceled {
			t.Fatalf("Sleep() = %v, want Canceled", err)
		}
	}
	for runtime.NumGoroutine() > goroutines {
		runtime.Gosched()
	}
	if after := inUse(); after > before+1<<20 {
		t.Errorf("%d bytes are in use, %d were before", after, before)
	}
}

func BenchmarkSleep(b *testing.B) {
	v := clockx.NewVirtual(start)
	b.Run("virtual", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = v.Sleep(b.Context(), 1)
		}
	})
	b.Run("system", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = clockx.System().Sleep(b.Context(), 1)
		}
	})
	b.Run("bare timer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t := time.NewTimer(1)
			select {
			case <-b.Context().Done():
			case <-t.C:
			}
			t.Stop()
		}
	})
}
