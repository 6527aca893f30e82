package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
)

// scene is an Adaptive whose attempts have ten seconds, in a bubble.
type scene struct {
	*limit.Adaptive
	t *testing.T
}

// begin starts attempts, and returns how each is ended.
func (s scene) begin(n int) (end []func(retry.Exit)) {
	s.t.Helper()
	for range n {
		began := time.Now()
		p, err := s.Enter(context.Background(), retry.Entry{})
		if err != nil {
			s.t.Fatalf("Enter has refused with %d in flight of %d", s.InFlight(), s.Places())
		}
		end = append(end, func(x retry.Exit) {
			x.Took, x.Allowed = time.Since(began), 10*time.Second
			s.Leave(p, x)
		})
	}
	return end
}

// each has n attempts after each other take so long, and end so.
func (s scene) each(n int, takes time.Duration, x retry.Exit) {
	s.t.Helper()
	for range n {
		end := s.begin(1)[0]
		time.Sleep(takes)
		end(x)
	}
}

// atOnce has n attempts take so long together, and end so.
func (s scene) atOnce(n int, takes time.Duration, x retry.Exit) {
	s.t.Helper()
	ends := s.begin(n)
	time.Sleep(takes)
	for _, end := range ends {
		end(x)
	}
}

func (s scene) wantPlaces(want int, when string) {
	s.t.Helper()
	if got := s.Places(); got != want {
		s.t.Errorf("%s: Places() = %d, want %d", when, got, want)
	}
}

// play runs f with a new Adaptive that has seen a minute of quick answers, of which each began beside
// so many others.
func play(t *testing.T, a *limit.Adaptive, others int, f func(s scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := scene{a, t}
		beside := s.begin(others)
		s.each(300, 200*time.Millisecond, answer)
		for _, end := range beside {
			end(retry.Exit{})
		}
		f(s)
	})
}

// How an attempt ends, by what that says.
var (
	answer  = retry.Exit{Ending: retry.Returned}
	timeout = retry.Exit{Ending: retry.Expired, Verdict: retry.Verdict{Err: errHiccup}}
)

// After eight timeouts in a row nothing is answered. Then twice as many attempts as usual ask, and
// half of these after as many timeouts more. What has begun before tells nothing.
func TestSilence(t *testing.T) {
	play(t, new(limit.Adaptive), 10, func(s scene) {
		before := s.begin(30)
		s.atOnce(7, 10*time.Second, timeout)
		s.wantPlaces(math.MaxInt, "after seven timeouts")
		before[0](timeout)
		s.wantPlaces(20, "after eight")
		for _, end := range before[1:] {
			end(timeout)
		}
		s.wantPlaces(20, "after those that began before")
		s.atOnce(7, 10*time.Second, timeout)
		s.wantPlaces(20, "after seven more")
		s.each(1, 10*time.Second, timeout)
		s.wantPlaces(10, "after eight more")
		s.atOnce(8, 10*time.Second, timeout)
		s.wantPlaces(5, "after another row")
		s.atOnce(5, 10*time.Second, timeout)
		s.atOnce(3, 10*time.Second, timeout)
		s.wantPlaces(4, "half of what is usual stays")

		waiting := s.begin(3)
		s.each(1, 200*time.Millisecond, answer)
		s.wantPlaces(20+3, "after an answer: the others may hang")
		for _, end := range waiting {
			end(answer)
		}
		s.each(16+2*23+1, 200*time.Millisecond, answer)
		s.wantPlaces(math.MaxInt, "after quick answers, of which none found it full")
	})
}

// An answer between, or one that was too slow to be quick a moment ago, shows that it is no silence.
func TestTimeoutsThatAreNoSilence(t *testing.T) {
	for name, f := range map[string]func(s scene){
		"an answer between": func(s scene) {
			s.atOnce(7, 10*time.Second, timeout)
			s.each(1, 200*time.Millisecond, answer)
			s.atOnce(7, 10*time.Second, timeout)
		},
		"an answer has just come": func(s scene) {
			ends := s.begin(20)
			time.Sleep(9 * time.Second)
			ends[0](answer)
			time.Sleep(time.Second)
			for _, end := range ends[1:] {
				end(timeout)
			}
		},
		"half of the attempts hang": func(s scene) {
			for range 200 {
				s.each(1, 200*time.Millisecond, answer)
				s.atOnce(1, 10*time.Second, timeout)
			}
			s.atOnce(12, 10*time.Second, timeout) // which happens once in four thousand
		},
		"other errors": func(s scene) {
			s.atOnce(100, 10*time.Second, retry.Exit{Ending: retry.Returned, Verdict: retry.Policy{}.Judge(errHiccup)})
			s.atOnce(100, 10*time.Second, retry.Exit{Ending: retry.Canceled})
		},
	} {
		play(t, new(limit.Adaptive), 10, func(s scene) {
			f(s)
			s.wantPlaces(math.MaxInt, name)
		})
	}
}

// A dependency that has never answered says nothing of a load: it may not be there.
func TestNoLimitBeforeTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene{new(limit.Adaptive), t}
		for range 10 {
			s.atOnce(100, 10*time.Second, timeout)
		}
		s.wantPlaces(math.MaxInt, "after a thousand timeouts")
	})
}

// The first answers, which all began together, may be as slow as they are without a load.
func TestNoLimitAfterTheFirstAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene{new(limit.Adaptive), t}
		s.atOnce(100, 9500*time.Millisecond, answer)
		s.wantPlaces(math.MaxInt, "after a hundred slow answers")
	})
}

// Max is a bound from the first attempt on, and no guess goes below Min.
func TestMinAndMax(t *testing.T) {
	for _, tt := range []struct{ min, max, first, least int }{
		{0, 0, math.MaxInt, 1}, {0, 300, 300, 1}, {5, 300, 300, 5}, {5, 0, math.MaxInt, 5},
		{-3, -3, math.MaxInt, 1}, {7, 3, 7, 7}, // a Max below Min is Min
	} {
		play(t, &limit.Adaptive{Min: tt.min, Max: tt.max}, 1, func(s scene) {
			s.wantPlaces(tt.first, fmt.Sprintf("%+v, at first", tt))
			if tt.first < math.MaxInt {
				ends := s.begin(tt.first)
				if _, err := s.Enter(t.Context(), retry.Entry{}); err != limit.ErrLimited {
					t.Errorf("%+v: Enter = %v with %d in flight, want ErrLimited", tt, err, s.InFlight())
				}
				for _, end := range ends {
					end(retry.Exit{})
				}
			}
			s.each(100, 10*time.Second, timeout)
			s.wantPlaces(tt.least, fmt.Sprintf("%+v, in a silence", tt))
		})
	}
}

// queue is a server that works on ten requests at a time, for 200 ms each.
type queue struct{ workers chan struct{} }

func (q queue) serve(ctx context.Context) (int, error) {
	done := make(chan struct{})
	go func() {
		q.workers <- struct{}{}
		time.Sleep(200 * time.Millisecond)
		<-q.workers
		close(done)
	}()
	select {
	case <-done:
		return 200, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// slowing is a server that takes two seconds more after half a minute, whatever it has to do.
func slowing(began time.Time) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		d := 200 * time.Millisecond
		if time.Since(began) > 30*time.Second {
			d += 2 * time.Second
		}
		select {
		case <-time.After(d):
			return 200, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// callers make calls at a rate for two minutes, and return how many there are in flight and places
// at most in the last half minute.
func callers(a *limit.Adaptive, rate int, op func(context.Context) (int, error)) (flight, places int) {
	p := retry.Policy{MaxAttempts: 2, AttemptTimeout: 3 * time.Second, Guards: []retry.Guard{a}}
	for i := range 120 * rate {
		go func() { _, _ = retry.Do(context.Background(), p, op) }()
		time.Sleep(time.Second / time.Duration(rate))
		if i > 90*rate {
			flight, places = max(flight, a.InFlight()), max(places, a.Places())
		}
	}
	time.Sleep(time.Minute)
	return flight, places
}

// A queue: fewer attempts in flight make the answers quicker, so the limit stays. The server works on
// ten of them, fifty per second, and in three eighths of the three seconds it could do 56.
func TestALimitThatHelpsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue{make(chan struct{}, 10)}
		if flight, places := callers(new(limit.Adaptive), 75, q.serve); flight < 10 || places > 2*56 {
			t.Errorf("%d in flight of %d, want the work for ten, and at most 112", flight, places)
		}
	})
}

// No queue: the answers take as long with half of the attempts, so the limit lets go. It refuses one
// attempt for each hundred that come.
func TestALimitThatDoesNotHelpLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(limit.Adaptive)
		guard := &counted{Guard: a}
		p := retry.Policy{MaxAttempts: 1, AttemptTimeout: 3 * time.Second, Guards: []retry.Guard{guard}}
		op := slowing(time.Now())
		var from int64
		for i := range 50 * 150 {
			go func() { _, _ = retry.Do(context.Background(), p, op) }()
			time.Sleep(20 * time.Millisecond)
			if i == 50*60 {
				from = guard.refused.Load()
			}
		}
		if from == 0 || from > 50*15 {
			t.Errorf("%d attempts are refused before it lets go, want some, in less than 15 s", from)
		}
		if refused := guard.refused.Load(); refused != from || a.Places() != math.MaxInt {
			t.Errorf("%d attempts more are refused, and there are %d places; want no limit", refused-from, a.Places())
		}
		time.Sleep(time.Minute)
	})
}

// counted counts what a guard refuses.
type counted struct {
	retry.Guard
	refused atomic.Int64
}

func (c *counted) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	p, err := c.Guard.Enter(ctx, e)
	if err != nil {
		c.refused.Add(1)
	}
	return p, err
}

// says returns what the end of an attempt says: a timeout is the eighth in a row, or else the next is
// unless there was an answer.
func says(t *testing.T, attempt func(t *testing.T, a *limit.Adaptive)) (what string) {
	t.Helper()
	play(t, new(limit.Adaptive), 0, func(s scene) {
		s.begin(1) // goes on, so that nothing is heard
		s.atOnce(7, 10*time.Second, timeout)
		attempt(s.t, s.Adaptive)
		if n := s.InFlight(); n != 1 {
			t.Errorf("%d in flight, want one: the place comes back", n)
		}
		if what = "timeout"; s.Places() < math.MaxInt {
			return
		}
		s.each(1, 10*time.Second, timeout)
		if what = "nothing"; s.Places() == math.MaxInt {
			what = "answer"
		}
	})
	return what
}

// What may have happened to the caller's context when op returns.
var (
	goesOn = func(*testing.T) (context.Context, func()) { return context.Background(), func() {} }
	late   = func(t *testing.T) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		t.Cleanup(cancel)
		return ctx, func() { time.Sleep(time.Second) }
	}
	canceled = canceledBy(nil)
	lost     = canceledBy(errors.New("another copy was faster"))
	silent   = canceledBy(retry.ErrAttemptTimeout)  // as a Transport ends an attempt
	sibling  = canceledBy(context.DeadlineExceeded) // as an errgroup does after a timeout of another call
)

func canceledBy(cause error) func(*testing.T) (context.Context, func()) {
	return func(*testing.T) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return ctx, func() { cancel(cause) }
	}
}

func TestWhatEndsMean(t *testing.T) {
	pace := new(pace.Pace)
	pace.Hold(time.Minute)
	paced := retry.Run(context.Background(), retry.Policy{MaxElapsed: time.Second, Guards: []retry.Guard{pace}}, func(context.Context) error { return nil })
	if !errors.Is(paced, retry.ErrPaced) {
		t.Fatal(paced)
	}
	full := &limit.Limit{Max: 1}
	enter(full)
	limited := call(full, returns(nil))
	for _, tt := range []struct {
		name string
		end  func(*testing.T) (context.Context, func())
		err  error
		want string
	}{
		{"success", goesOn, nil, "answer"},
		{"permanent", goesOn, retry.Stop(errHiccup), "answer"},
		{"an answer", goesOn, retry.Answer(errBusy), "answer"},
		{"an answer after the caller's deadline", late, retry.Answer(errBusy), "answer"},
		{"an answer within another error, after the caller's deadline", late, fmt.Errorf("get: %w", retry.Answer(errBusy)), "answer"},
		{"an answer that holds a timeout", goesOn, retry.Answer(context.DeadlineExceeded), "answer"},
		{"transient", goesOn, errHiccup, "nothing"},
		{"unprocessed", goesOn, limit.ErrLimited, "nothing"},
		{"throttled", goesOn, fmt.Errorf("call: %w", errBusy), "nothing"},
		{"attempt's timeout", goesOn, retry.ErrAttemptTimeout, "timeout"},
		{"a timeout far below", goesOn, errors.Join(errHiccup, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)), "timeout"},
		{"a timeout beside what did not", goesOn, errors.Join(inTime{}, context.DeadlineExceeded), "timeout"},
		{"did not time out", goesOn, inTime{}, "nothing"},
		{"a timeout beside what did not, that will not go away", goesOn, retry.Stop(errors.Join(inTime{}, context.DeadlineExceeded)), "timeout"},
		{"a timeout that will not go away", goesOn, retry.Stop(context.DeadlineExceeded), "timeout"},
		{"a refused retry", goesOn, retry.Refuse(errHiccup), "nothing"}, // a failure that says nothing of the load
		{"a run that was refused", goesOn, &retry.Error{Reason: retry.ReasonRefused, Attempts: 1}, "nothing"},
		{"a run that its pace has ended", goesOn, paced, "nothing"},
		{"the same in another error", goesOn, fmt.Errorf("fetch: %w", paced), "nothing"},
		{"a run that another limit has ended", goesOn, limited, "nothing"},
		{"caller's deadline", late, errHiccup, "timeout"},
		{"permanent after the caller's deadline", late, retry.Stop(errHiccup), "timeout"},
		{"throttled after the caller's deadline", late, errBusy, "timeout"},
		{"success after the caller's deadline", late, nil, "answer"},
		{"canceled", canceled, errHiccup, "nothing"},
		{"canceled, and timed out", canceled, context.DeadlineExceeded, "nothing"},
		{"canceled, and success", canceled, nil, "nothing"},
		{"canceled, and an answer", canceled, retry.Answer(errHiccup), "nothing"},
		{"canceled, and throttled", canceled, errBusy, "nothing"},
		{"lost to a hedge", lost, context.Canceled, "nothing"},
		{"canceled by a timeout of the attempt", silent, context.Canceled, "timeout"},
		{"success after a timeout of the attempt", silent, nil, "answer"},
		{"an answer after a timeout of the attempt", silent, retry.Answer(errHiccup), "answer"},
		{"canceled since a sibling timed out", sibling, context.Canceled, "nothing"},
		{"value not accepted", goesOn, retry.ErrRejected, "answer"},
		{"value not accepted, and when to ask again", goesOn, retry.After(retry.ErrRejected, time.Second), "answer"},
		{"value not accepted after the caller's deadline", late, retry.ErrRejected, "timeout"},
		{"canceled, and value not accepted", canceled, retry.ErrRejected, "nothing"},
		{"a nil pointer", goesOn, fmt.Errorf("fetch: %w", (*url.Error)(nil)), "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := says(t, func(t *testing.T, a *limit.Adaptive) {
				ctx, end := tt.end(t)
				p := under(a)
				p.AttemptTimeout = 10 * time.Second
				v, err := retry.Do(ctx, p, func(context.Context) (int, error) { end(); return 1, tt.err })
				if v != 1 || (err == nil) != (tt.err == nil) {
					t.Errorf("Do = %d, %v", v, err)
				}
			})
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

type inTime struct{}

func (inTime) Error() string { return "a network's error" }
func (inTime) Timeout() bool { return false }

// Only what an attempt has come to says anything, and not how far it came.
func TestWhatExitsMean(t *testing.T) {
	for name, tt := range map[string]struct {
		exit retry.Exit
		want [2]string // after a success, and after an error that says that the server is overloaded
	}{
		"not made":      {retry.Exit{Ending: retry.NotMade}, [2]string{"nothing", "nothing"}},
		"returned":      {retry.Exit{Ending: retry.Returned}, [2]string{"answer", "nothing"}},
		"expired":       {retry.Exit{Ending: retry.Expired}, [2]string{"timeout", "timeout"}},
		"canceled":      {retry.Exit{Ending: retry.Canceled}, [2]string{"nothing", "nothing"}},
		"panicked":      {retry.Exit{Ending: retry.Panicked}, [2]string{"nothing", "nothing"}},
		"what is to be": {retry.Exit{Ending: retry.Panicked + 1}, [2]string{"nothing", "nothing"}},
	} {
		for i, err := range []error{nil, errBusy} {
			x := tt.exit
			x.Allowed = 10 * time.Second
			if err != nil {
				x.Verdict = retry.Policy{}.Judge(err)
			}
			got := says(t, func(t *testing.T, a *limit.Adaptive) {
				p, _ := a.Enter(t.Context(), retry.Entry{})
				a.Leave(p, x)
			})
			if got != tt.want[i] {
				t.Errorf("%s, with %v: %s, want %s", name, err, got, tt.want[i])
			}
		}
	}
}

// The policy says what an error means.
func TestPolicySaysWhatAnErrorMeans(t *testing.T) {
	for class, want := range map[retry.Class]string{
		retry.Permanent: "answer", retry.Transient: "nothing", retry.Throttled: "nothing", retry.Unprocessed: "nothing", retry.TimedOut: "timeout",
	} {
		got := says(t, func(t *testing.T, a *limit.Adaptive) {
			p := under(a)
			p.AttemptTimeout, p.Classify = 10*time.Second, func(error) retry.Class { return class }
			_, _ = retry.Do(t.Context(), p, returns(errHiccup))
		})
		if got != want {
			t.Errorf("%v: %s, want %s", class, got, want)
		}
	}
}

// Attempts without a deadline cannot be late, and say nothing.
func TestAttemptsWithoutADeadlineSayNothing(t *testing.T) {
	got := says(t, func(t *testing.T, a *limit.Adaptive) {
		p, _ := a.Enter(t.Context(), retry.Entry{})
		a.Leave(p, answer)
	})
	if got != "nothing" {
		t.Errorf("%s, want nothing", got)
	}
}

// hung is a server that does not answer. The client before it ends an attempt by canceling
// its context, as retryhttp.Transport does: the cause says that time has run out.
func TestCancelForAnAttemptsTimeoutIsATimeout(t *testing.T) {
	got := says(t, func(t *testing.T, a *limit.Adaptive) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(retry.ErrAttemptTimeout) })
		p := under(a)
		p.AttemptTimeout = 10 * time.Second
		err := retry.Run(ctx, p, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if err == nil {
			t.Error("a server that hangs has answered")
		}
	})
	if got != "timeout" {
		t.Errorf("%s, want a timeout", got)
	}
}

// A connection with the deadline of ctx often fails before ctx ends.
func TestErrorAtTheDeadlineIsATimeout(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"the attempt's": time.Second, "the caller's": 0} {
		got := says(t, func(t *testing.T, a *limit.Adaptive) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			p := under(a)
			p.AttemptTimeout = timeout
			_ = retry.Run(ctx, p, func(ctx context.Context) error {
				deadline, _ := ctx.Deadline()
				time.Sleep(time.Until(deadline))
				return errHiccup
			})
		})
		if got != "timeout" {
			t.Errorf("%s: %s, want a timeout", name, got)
		}
	}
}

// The deadline of ctx is compared with the policy's clock, and so is all else.
func TestTheClockIsThePolicys(t *testing.T) {
	clock := clockx.NewVirtual(time.Unix(1e9, 0))
	a := new(limit.Adaptive)
	p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Minute, Clock: clock, Guards: []retry.Guard{a}}
	calls := func(n int, takes time.Duration, err error) {
		for range n {
			_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { clock.Advance(takes); return 0, err })
		}
	}
	calls(200, time.Second, nil)
	calls(7, time.Minute, errHiccup)
	if got := a.Places(); got != math.MaxInt {
		t.Errorf("Places() = %d after seven timeouts, want no limit", got)
	}
	calls(1, time.Minute, errHiccup)
	if got := a.Places(); got != 1 {
		t.Errorf("Places() = %d after eight, want 1", got)
	}
}

// broken is a clock that panics.
type broken struct{ clockx.Clock }

func (broken) Now() time.Time { panic("broken") }

// Whatever a clock does, places come back.
func TestAClockThatPanics(t *testing.T) {
	a := new(limit.Adaptive)
	p, _ := a.Enter(t.Context(), retry.Entry{})
	func() {
		defer func() {
			if got := recover(); got != "broken" {
				t.Errorf("panicked with %v", got)
			}
		}()
		a.Leave(p, retry.Exit{Clock: broken{}})
	}()
	if n := a.InFlight(); n != 0 {
		t.Errorf("%d in flight, want none", n)
	}
}
