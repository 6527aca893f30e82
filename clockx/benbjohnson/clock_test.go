package benbjohnson_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/clockx/benbjohnson"
)

// All tests run in synctest bubbles. There the real clock is the bubble's,
// synctest.Wait knows when a goroutine is asleep on a Mock, the millisecond that
// a Mock gives others after each tick takes no time, and a goroutine left behind
// fails the test.

var errCause = errors.New("cause")

// subject is a clock for New and what moves it.
type subject struct {
	clock clock.Clock
	mock  *clock.Mock // nil if it shows the bubble's time
}

// advance moves the clock by d and returns when all that follows has happened.
func (s subject) advance(d time.Duration) {
	if s.mock != nil {
		s.mock.Add(d)
	} else {
		time.Sleep(d)
	}
	synctest.Wait()
}

// each runs f on every kind of clock that New may be given.
func each(t *testing.T, f func(*testing.T, subject)) {
	for _, tt := range []struct {
		name string
		make func() subject
	}{
		{"real", func() subject { return subject{clock: clock.New()} }},
		{"mock", func() subject { m := clock.NewMock(); return subject{m, m} }},
		{"own real", func() subject { return subject{clock: own{use: clock.New()}} }},
		{"own mock", func() subject { m := clock.NewMock(); return subject{own{use: m}, m} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, tt.make()) })
		})
	}
}

// own is somebody's own clock, and has only what New says it uses: all else
// panics. Above all that is Timer, which deadlocks a Mock, but too rarely for a
// test to wait for it.
type own struct {
	clock.Clock // nil
	use         clock.Clock
}

func (c own) Now() time.Time { return c.use.Now() }

func (c own) AfterFunc(d time.Duration, f func()) *clock.Timer { return c.use.AfterFunc(d, f) }

// sleeper is a goroutine in Sleep.
type sleeper struct{ done chan error }

// goSleep returns when the goroutine is asleep, or has returned.
func goSleep(ctx context.Context, c clockx.Clock, d time.Duration) sleeper {
	s := sleeper{make(chan error, 1)}
	go func() { s.done <- c.Sleep(ctx, d) }()
	synctest.Wait()
	return s
}

func (s sleeper) wantAsleep(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.done:
		t.Fatalf("Sleep() = %v before its time", err)
	default:
	}
}

func (s sleeper) wantReturned(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-s.done:
		if err != want {
			t.Errorf("Sleep() = %v, want %v", err, want)
		}
	default:
		t.Fatalf("Sleep() still asleep, want %v", want)
	}
}

// wantNoTimer fails if m, which may be nil, has a timer left: then
// WaitForAllTimers moves it.
func wantNoTimer(t *testing.T, m *clock.Mock) {
	t.Helper()
	if m == nil {
		return
	}
	if now, after := m.Now(), m.WaitForAllTimers(); !after.Equal(now) {
		t.Errorf("timer left on the mock, due in %v, want none", after.Sub(now))
	}
}

func wantErr(t *testing.T, ctx context.Context, err, cause error) {
	t.Helper()
	if got := ctx.Err(); got != err {
		t.Errorf("Err() = %v, want %v", got, err)
	}
	if got := context.Cause(ctx); got != cause {
		t.Errorf("Cause() = %v, want %v", got, cause)
	}
	select {
	case <-ctx.Done():
		if err == nil {
			t.Error("Done() closed, want open")
		}
	default:
		if err != nil {
			t.Error("Done() open, want closed")
		}
	}
}

func TestSleepTakesItsTime(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		c := benbjohnson.New(s.clock)
		start := c.Now()
		sl := goSleep(t.Context(), c, time.Second)
		s.advance(time.Second - 1)
		sl.wantAsleep(t)
		s.advance(1)
		sl.wantReturned(t, nil)
		if got := c.Now().Sub(start); got != time.Second {
			t.Errorf("Now() moved by %v, want 1s", got)
		}
		wantNoTimer(t, s.mock)
	})
}

func TestSleepReturnsAtOnce(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		d    time.Duration
		want error
	}{
		{"zero", context.Background(), 0, nil},
		{"negative", context.Background(), -time.Second, nil},
		{"done", canceled, time.Second, context.Canceled},
		{"done and zero", canceled, 0, context.Canceled},
		{"done and negative", canceled, -time.Second, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, s subject) {
				c := benbjohnson.New(s.clock)
				start := c.Now()
				sl := goSleep(tt.ctx, c, tt.d)
				sl.wantReturned(t, tt.want)
				if got := c.Now().Sub(start); got != 0 {
					t.Errorf("Now() moved by %v, want 0s", got)
				}
				wantNoTimer(t, s.mock)
			})
		})
	}
}

func TestCancelDuringSleep(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := benbjohnson.New(s.clock)
		sl := goSleep(ctx, c, time.Hour)
		s.advance(time.Second)
		sl.wantAsleep(t)
		cancel(errCause)
		synctest.Wait()
		sl.wantReturned(t, context.Canceled)
		wantNoTimer(t, s.mock)
	})
}

func TestDeadlineDuringSleep(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		c := benbjohnson.New(s.clock)
		ctx, cancel := c.WithTimeoutCause(t.Context(), time.Second, errCause)
		defer cancel()
		sl := goSleep(ctx, c, time.Hour)
		s.advance(time.Second - 1)
		sl.wantAsleep(t)
		s.advance(1)
		sl.wantReturned(t, context.DeadlineExceeded)
		wantNoTimer(t, s.mock)
	})
}

// moved is a clock on which the first wait is over, and then has happened too,
// before whoever asked for it can begin to wait.
type moved struct {
	*clock.Mock
	then func()
	once sync.Once
}

func (c *moved) AfterFunc(d time.Duration, f func()) *clock.Timer {
	t := c.Mock.AfterFunc(d, f)
	c.move(d)
	return t
}

func (c *moved) Timer(d time.Duration) *clock.Timer {
	t := c.Mock.Timer(d)
	c.move(d)
	return t
}

func (c *moved) After(d time.Duration) <-chan time.Time { return c.Timer(d).C }

func (c *moved) move(d time.Duration) {
	c.once.Do(func() {
		c.Mock.Add(d)
		c.then()
		synctest.Wait()
	})
}

// Which branch a select takes is random where both are ready: a Sleep that
// leaves the answer to it is found out in 50 rounds.
const rounds = 50

func TestDoneWinsOverElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range rounds {
			ctx, cancel := context.WithCancel(t.Context())
			m := &moved{Mock: clock.NewMock(), then: cancel}
			if err := benbjohnson.New(m).Sleep(ctx, time.Second); err != context.Canceled {
				t.Fatalf("Sleep() = %v, want %v", err, context.Canceled)
			}
			wantNoTimer(t, m.Mock)
		}
	})
}

// A Timer that is Reset with its tick unread ends the next Sleep too early, or
// blocks the Mock for ever when it ticks again.
func TestSleepAfterUnreadTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range rounds {
			ctx, cancel := context.WithCancel(t.Context())
			m := &moved{Mock: clock.NewMock(), then: cancel}
			c := benbjohnson.New(m)
			_ = c.Sleep(ctx, time.Second)
			sl := goSleep(t.Context(), c, time.Second)
			m.Add(time.Second - 1)
			sl.wantAsleep(t)
			m.Add(1)
			synctest.Wait()
			sl.wantReturned(t, nil)
		}
	})
}

func TestManySleepOnOneMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewMock()
		c := benbjohnson.New(m)
		var many []sleeper
		for range 100 {
			many = append(many, goSleep(t.Context(), c, time.Second))
		}
		m.Add(time.Second - 1)
		synctest.Wait()
		for _, sl := range many {
			sl.wantAsleep(t)
		}
		m.Add(1)
		synctest.Wait()
		for _, sl := range many {
			sl.wantReturned(t, nil)
		}
		wantNoTimer(t, m)
	})
}

// unruly calls what it is given twice, and once more after Stop: so does a Mock
// when one goroutine stops or ticks a timer that another is about to tick.
type unruly struct {
	*clock.Mock
	late []func()
}

func (c *unruly) AfterFunc(d time.Duration, f func()) *clock.Timer {
	c.late = append(c.late, f)
	return c.Mock.AfterFunc(d, func() { f(); f() })
}

func (c *unruly) callLate() {
	for _, f := range c.late {
		f()
	}
}

func TestTimerCallsTwiceAndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, parent := range []context.Context{context.Background(), t.Context()} {
			m := &unruly{Mock: clock.NewMock()}
			c := benbjohnson.New(m)

			elapsed := goSleep(parent, c, time.Second)
			expired, cancelExpired := c.WithTimeoutCause(parent, time.Second, errCause)
			defer cancelExpired()
			m.Add(time.Second)
			synctest.Wait()

			ctx, cancel := context.WithCancel(parent)
			cut := goSleep(ctx, c, time.Second)
			canceled, cancelTimeout := c.WithTimeoutCause(parent, time.Second, errCause)
			cancel()
			cancelTimeout()
			synctest.Wait()
			m.callLate()

			elapsed.wantReturned(t, nil)
			cut.wantReturned(t, context.Canceled)
			wantErr(t, expired, context.DeadlineExceeded, errCause)
			wantErr(t, canceled, context.Canceled, context.Canceled)
		}
	})
}

func TestTimeoutPasses(t *testing.T) {
	for _, cancelable := range []bool{false, true} {
		for _, tt := range []struct{ cause, want error }{
			{errCause, errCause},
			{nil, context.DeadlineExceeded},
		} {
			t.Run(fmt.Sprintf("cancelable %t/cause %v", cancelable, tt.cause), func(t *testing.T) {
				each(t, func(t *testing.T, s subject) {
					parent := context.Background()
					if cancelable {
						parent = t.Context()
					}
					c := benbjohnson.New(s.clock)
					want := c.Now().Add(time.Second)
					ctx, cancel := c.WithTimeoutCause(parent, time.Second, tt.cause)
					defer cancel()
					if at, ok := ctx.Deadline(); !ok || !at.Equal(want) {
						t.Errorf("Deadline() = %v, %t, want %v, true", at, ok, want)
					}
					s.advance(time.Second - 1)
					wantErr(t, ctx, nil, nil)
					s.advance(1)
					wantErr(t, ctx, context.DeadlineExceeded, tt.want)
					wantNoTimer(t, s.mock)
				})
			})
		}
	}
}

func TestTimeoutAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		t.Run(d.String(), func(t *testing.T) {
			each(t, func(t *testing.T, s subject) {
				ctx, cancel := benbjohnson.New(s.clock).WithTimeoutCause(t.Context(), d, errCause)
				defer cancel()
				wantErr(t, ctx, context.DeadlineExceeded, errCause)
				wantNoTimer(t, s.mock)
			})
		})
	}
}

func TestCancelTimeout(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ctx, cancel := benbjohnson.New(s.clock).WithTimeoutCause(t.Context(), time.Second, errCause)
		cancel()
		cancel()
		wantErr(t, ctx, context.Canceled, context.Canceled)
		wantNoTimer(t, s.mock)
		s.advance(time.Second)
		wantErr(t, ctx, context.Canceled, context.Canceled)
	})
}

// Mock.WithTimeout hands the cancel on in a goroutine, which may or may not be
// in time for the next line: hence the rounds.
func TestParentCancelSeenAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		for range rounds {
			parent, cancelParent := context.WithCancelCause(t.Context())
			ctx, cancel := benbjohnson.New(s.clock).WithTimeoutCause(parent, time.Second, nil)
			child, cancelChild := context.WithCancel(ctx)
			cancelParent(errCause)
			wantErr(t, ctx, context.Canceled, errCause)
			wantErr(t, child, context.Canceled, errCause)
			cancelChild()
			cancel()
			wantNoTimer(t, s.mock)
		}
	})
}

func TestDescendantsEndWithTimeout(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		c := benbjohnson.New(s.clock)
		for _, tt := range []struct {
			parent context.Context
			want   error
		}{
			{context.Background(), context.DeadlineExceeded},
			{t.Context(), context.Canceled},
		} {
			if c == clockx.System() {
				tt.want = context.DeadlineExceeded
			}
			ctx, cancel := c.WithTimeoutCause(tt.parent, time.Second, errCause)
			defer cancel()
			child, cancelChild := context.WithCancel(ctx)
			defer cancelChild()
			s.advance(time.Second)
			wantErr(t, child, tt.want, errCause)
		}
	})
}

func TestTimeoutBelowWallDeadline(t *testing.T) {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // in the bubble it is 2000
	for _, tt := range []struct {
		name  string
		start time.Time
	}{
		{"mock at 1970", time.Unix(0, 0)},
		{"mock past it", wall.AddDate(4, 0, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithDeadline(t.Context(), wall)
				defer cancelParent()
				m := clock.NewMock()
				m.Set(tt.start)
				c := benbjohnson.New(m)

				kept, cancelKept := c.WithTimeoutCause(parent, time.Second, errCause)
				defer cancelKept()
				m.Add(time.Second - 1)
				synctest.Wait()
				wantErr(t, kept, nil, nil)
				m.Add(1)
				synctest.Wait()
				wantErr(t, kept, context.DeadlineExceeded, errCause)

				outlived, cancelOutlived := c.WithTimeoutCause(parent, time.Second, errCause)
				defer cancelOutlived()
				time.Sleep(time.Until(wall))
				synctest.Wait()
				wantErr(t, outlived, context.DeadlineExceeded, context.DeadlineExceeded)
			})
		})
	}
}

// The race detector judges.
func TestErrWhileTimeoutPasses(t *testing.T) {
	for _, name := range []string{"background", "cancelable"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := context.Background()
				if name == "cancelable" {
					parent = t.Context()
				}
				m := clock.NewMock()
				ctx, cancel := benbjohnson.New(m).WithTimeoutCause(parent, time.Second, errCause)
				defer cancel()
				go func() { _ = ctx.Err() }()
				go func() { _ = context.Cause(ctx) }()
				m.Add(time.Second)
			})
		})
	}
}

func TestDoOnMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewMock()
		policy := retry.Policy{
			Clock:          benbjohnson.New(m),
			Backoff:        retry.Constant(2 * time.Second),
			AttemptTimeout: time.Second,
		}
		var began []time.Duration
		var cause error
		over := make(chan struct{})
		go func() {
			defer close(over)
			v, err := retry.Do(t.Context(), policy, func(ctx context.Context) (string, error) {
				began = append(began, m.Since(time.Unix(0, 0)))
				if len(began) == 1 {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return "", ctx.Err()
				}
				return "done", nil
			})
			if v != "done" || err != nil {
				t.Errorf("Do() = %q, %v, want done, nil", v, err)
			}
		}()
		for range 3 {
			synctest.Wait()
			m.Add(time.Second)
		}
		<-over
		if want := []time.Duration{0, 3 * time.Second}; !slices.Equal(began, want) {
			t.Errorf("attempts began at %v, want %v", began, want)
		}
		if cause != retry.ErrAttemptTimeout {
			t.Errorf("Cause() = %v, want %v", cause, retry.ErrAttemptTimeout)
		}
		wantNoTimer(t, m)
	})
}

func TestRealClockIsSystem(t *testing.T) {
	if got := benbjohnson.New(clock.New()); got != clockx.System() {
		t.Errorf("New(clock.New()) = %T, want %T", got, clockx.System())
	}
}

func TestNilClock(t *testing.T) {
	defer func() {
		if got, want := recover(), "benbjohnson: nil clock"; got != want {
			t.Errorf("New(nil) panicked with %v, want %v", got, want)
		}
	}()
	benbjohnson.New(nil)
}
