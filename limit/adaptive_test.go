package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
)

// How an attempt ends, by what that means for the load.
var (
	noSign   = retry.Exit{Ending: retry.Returned, Verdict: retry.Policy{}.Judge(errHiccup)}
	answer   = retry.Exit{Ending: retry.Returned}
	prompt   = retry.Exit{Ending: retry.Returned, Took: 1, Allowed: 2}
	overload = retry.Exit{Ending: retry.Returned, Verdict: retry.Policy{}.Judge(errBusy)}
	timeout  = retry.Exit{Ending: retry.Expired, Verdict: retry.Verdict{Err: errHiccup}}
)

func TestBoundFollowsTheSigns(t *testing.T) {
	l := limit.Adaptive{Start: 10}
	for _, step := range []struct {
		name  string
		err   error
		times int
		want  int
	}{
		{"throttled", errBusy, 1, 5},
		{"timed out", context.DeadlineExceeded, 1, 2},
		{"transient, and success, one at a time", errHiccup, 2, 3},
	} {
		for range step.times {
			_ = call(&l, returns(step.err))
			if step.err == errHiccup {
				_ = call(&l, returns(nil))
			}
		}
		if got := l.Places(); got != step.want {
			t.Errorf("after %s: Places() = %d, want %d", step.name, got, step.want)
		}
	}
	for range 3 {
		if !enter(&l) {
			t.Fatalf("Enter has refused with %d of %d places taken", l.InFlight(), l.Places())
		}
	}
	called := false
	v, err := retry.Do(t.Context(), under(&l), func(context.Context) (int, error) { called = true; return 1, nil })
	if v != 0 || !errors.Is(err, limit.ErrLimited) || called {
		t.Errorf("Do = %d, %v, op called: %v; want 0, ErrLimited, not called", v, err, called)
	}
	l.Leave(retry.Pass{}, noSign)
	if err := call(&l, returns(nil)); err != nil {
		t.Errorf("Do = %v with a place free, want nil", err)
	}
}

// signs are how an attempt ends, in one letter.
var signs = map[rune]retry.Exit{'o': answer, '!': overload, 't': timeout, '-': noSign}

// How many places an overload costs depends on how many attempts were in flight recently.
func TestFalls(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start int
		steps string // 'a' takes a place; the others are how an attempt ends
		want  int
	}{
		{"all of 200", 200, strings.Repeat("a", 200) + strings.Repeat("!", 200), 99}, // 99.65
		{"all of 10", 10, strings.Repeat("a", 10) + strings.Repeat("!", 10), 4},      // 4.53
		{"all of 200, half of the places", 400, strings.Repeat("a", 200) + strings.Repeat("!", 200), 242},
		{"one of 100", 100, strings.Repeat("a", 100) + "!", 99}, // 99.5
		{"three of 100", 100, strings.Repeat("a", 100) + "!!!", 98},
		{"one alone", 10, "a!", 5},
		{"two, one after the other", 10, "a!a!", 2},
		{"two at once", 10, "aa!", 7},
		{"the last of four, after three answers", 10, "aaaaooo!", 5},
		{"the last of four, after three that say nothing", 10, "aaaa---!", 5},
		{"the last of four, after two more began", 10, "aaaa---aa!", 8}, // 10 - 10/6
		{"the last of four, after three overloads", 10, "aaaa!!!!", 5},  // 10 × (7/8)⁴
		{"alone, after one answer of four", 10, "aaaao!", 8},            // 10.1 × 5/6
		{"three of four", 4, "aaaa!!!", 2},                              // 4, 3.5, 2.9, 2.3: n is 4, 3, 2
	} {
		l := limit.Adaptive{Start: tt.start}
		for i, step := range tt.steps {
			if x, ends := signs[step]; ends {
				l.Leave(retry.Pass{}, x)
			} else if !enter(&l) {
				t.Fatalf("%s: Enter has refused at step %d", tt.name, i)
			}
		}
		if got := l.Places(); got != tt.want {
			t.Errorf("%s: Places() = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A timeout costs places only if others time out too: more than a quarter of about as
// many attempts as there are places. 't' is a timeout.
func TestRareTimeoutsCostNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start int
		steps string
		want  int
	}{
		{"one of a hundred places", 100, "at", 100},
		{"eight in a row", 100, strings.Repeat("at", 8), 100},
		{"nine in a row", 100, strings.Repeat("at", 9), 50},
		{"nine, with two answers", 100, strings.Repeat("at", 8) + "aoaoat", 100},
		{"nine, with one answer", 100, strings.Repeat("at", 8) + "aoat", 50},
		{"nine, with failures that say nothing", 100, strings.Repeat("ata-", 9), 50},
		{"one of four, for ever", 100, strings.Repeat("aoaoaoat", 1000), 100},
		{"one of three, for long", 100, strings.Repeat("aoaoat", 100), 1},
		{"one of eleven places", 11, "at", 5},
		{"one of twelve", 12, "at", 12},
		{"what the server says counts at once", 100, "a!", 50},
		{"all of 200", 200, strings.Repeat("a", 200) + strings.Repeat("t", 200), 107},
	} {
		l := limit.Adaptive{Start: tt.start}
		for i, step := range tt.steps {
			if x, ends := signs[step]; ends {
				l.Leave(retry.Pass{}, x)
			} else if !enter(&l) {
				t.Fatalf("%s: Enter has refused at step %d", tt.name, i)
			}
		}
		if got := l.Places(); got != tt.want {
			t.Errorf("%s: Places() = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// After an outage the places come back, though few of them are in use: at forty answers
// a second within five seconds.
func TestPlacesComeBackAfterAnOutage(t *testing.T) {
	l := limit.Adaptive{}
	for l.Places() > 8 {
		enter(&l)
		l.Leave(retry.Pass{}, overload)
	}
	for range 3 { // of four in flight
		enter(&l)
	}
	for range 200 {
		enter(&l)
		l.Leave(retry.Pass{}, answer)
	}
	if got := l.Places(); got != 20 {
		t.Errorf("Places() = %d, want the 20 of the start", got)
	}
	for range 1000 {
		enter(&l)
		l.Leave(retry.Pass{}, answer)
	}
	if got := l.Places(); got != 20 {
		t.Errorf("Places() = %d, want 20: four are in use", got)
	}
}

// With as many timeouts as answers get lost the places grow to the most, while all are in
// use: from 20 to 200.
func TestRareTimeoutsLetItGrow(t *testing.T) {
	l, r := limit.Adaptive{Max: 200}, rand.New(rand.NewPCG(1, 2))
	for range 40_000 {
		for enter(&l) {
		}
		x := answer
		if r.Float64() < .1 {
			x = timeout
		}
		l.Leave(retry.Pass{}, x)
	}
	if got := l.Places(); got < 198 {
		t.Errorf("of .1 that time out: %d places, want the most, 200", got)
	}
}

// With a fraction of throttled errors that have nothing to do with the load, the number
// of places settles where the package comment says, while all are in use.
func TestRandomOverloadsSettle(t *testing.T) {
	for _, p := range []float64{.1, .03, .01} {
		l, r := limit.Adaptive{Start: 20}, rand.New(rand.NewPCG(1, 2))
		sum := 0
		settle, steps := 50_000, 200_000
		if os.Getenv("RETRY_LONG") == "1" {
			settle, steps = 100_000, 1_000_000
		}
		for i := range settle + steps {
			for enter(&l) {
			}
			x := answer
			if r.Float64() < p {
				x = overload
			}
			l.Leave(retry.Pass{}, x)
			if i >= settle {
				sum += l.Places()
			}
		}
		if got, want := float64(sum)/float64(steps), 2/p; got < .85*want || got > 1.1*want {
			t.Errorf("of %v lost: %.1f places, want about %.1f", p, got, want)
		} else {
			t.Logf("of %v lost: %.1f places", p, got)
		}
	}
}

// sign returns what an attempt says about the load: what it changes in Limits that are busy.
// attempt makes it, with one place of l that is free.
func sign(t *testing.T, attempt func(l *limit.Adaptive)) string {
	t.Helper()
	l := &limit.Adaptive{Start: 12, Max: 12}
	for range 11 {
		enter(l)
	}
	attempt(l)
	if n := l.InFlight(); n != 11 {
		t.Errorf("%d in flight, want 11: the place comes back, and no other", n)
	}
	if l.Places() < 12 {
		return "overload"
	}
	excused := -1 // timeouts, one after the other, until one is an overload
	for ; l.Places() == 12; excused++ {
		enter(l)
		l.Leave(retry.Pass{}, timeout)
	}
	one := &limit.Adaptive{Start: 1, Max: 2}
	attempt(one)
	switch grown := one.Places() == 2; {
	case excused == 4 && grown:
		return "prompt"
	case excused == 1 && grown:
		return "answer"
	case excused == 1:
		return "nothing"
	case excused == 0 && !grown:
		return "timeout"
	}
	t.Errorf("%d timeouts are excused, and one place became %d", excused, one.Places())
	return ""
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
	full := call(&limit.Adaptive{Start: 1}, func(context.Context) (int, error) { return 0, limit.ErrLimited })
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
		{"throttled", goesOn, fmt.Errorf("call: %w", errBusy), "overload"},
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
		{"a run that another limit has ended", goesOn, full, "nothing"},
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
			synctest.Test(t, func(t *testing.T) {
				got := sign(t, func(l *limit.Adaptive) {
					ctx, end := tt.end(t)
					v, err := retry.Do(ctx, under(l), func(context.Context) (int, error) { end(); return 1, tt.err })
					if v != 1 || (err == nil) != (tt.err == nil) {
						t.Errorf("Do = %d, %v", v, err)
					}
				})
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
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
		"returned":      {retry.Exit{Ending: retry.Returned}, [2]string{"answer", "overload"}},
		"expired":       {retry.Exit{Ending: retry.Expired}, [2]string{"timeout", "timeout"}},
		"canceled":      {retry.Exit{Ending: retry.Canceled}, [2]string{"nothing", "nothing"}},
		"panicked":      {retry.Exit{Ending: retry.Panicked}, [2]string{"nothing", "nothing"}},
		"what is to be": {retry.Exit{Ending: retry.Panicked + 1}, [2]string{"nothing", "nothing"}},
	} {
		for i, err := range []error{nil, errBusy} {
			x := tt.exit
			if err != nil {
				x.Verdict = retry.Policy{}.Judge(err)
			}
			got := sign(t, func(l *limit.Adaptive) {
				enter(l)
				l.Leave(retry.Pass{}, x)
			})
			if got != tt.want[i] {
				t.Errorf("%s, with %v: %s, want %s", name, err, got, tt.want[i])
			}
		}
	}
}

func TestPolicySaysWhatAnErrorMeans(t *testing.T) {
	for _, tt := range []struct {
		class retry.Class
		err   error
		want  string
	}{
		{retry.Throttled, errHiccup, "overload"},
		{retry.TimedOut, errHiccup, "timeout"},
		{retry.Permanent, errHiccup, "answer"},
		{retry.Transient, errHiccup, "nothing"},
		{retry.Unprocessed, errHiccup, "nothing"},
		{retry.Unknown, errHiccup, "nothing"},
		{retry.Unprocessed, context.DeadlineExceeded, "timeout"}, // a dial that timed out
		{retry.Permanent, context.DeadlineExceeded, "timeout"},
	} {
		got := sign(t, func(l *limit.Adaptive) {
			p := under(l)
			p.Classify = func(error) retry.Class { return tt.class }
			_ = retry.Run(t.Context(), p, func(context.Context) error { return tt.err })
		})
		if got != tt.want {
			t.Errorf("%v that the policy calls %v: %s, want %s", tt.err, tt.class, got, tt.want)
		}
	}
}

// What forbids a retry says nothing about the load.
func TestALoadIsNoMatterOfThePolicysVeto(t *testing.T) {
	for _, v := range []retry.Verdict{
		{Err: errHiccup, Class: retry.Throttled, End: retry.ReasonNotIdempotent},
		{Err: errHiccup, Class: retry.Throttled, Once: true},
		{Err: errHiccup, Class: retry.Throttled, Hint: time.Hour},
	} {
		got := sign(t, func(l *limit.Adaptive) {
			a := under(l).Attempts(t.Context())
			defer a.Close()
			for a.Next() {
				a.Judged(v)
			}
		})
		if got != "overload" {
			t.Errorf("%+v: %s, want overload", v, got)
		}
	}
}

// An answer is prompt if half of the attempt's time is left.
func TestPromptAnswers(t *testing.T) {
	for _, tt := range []struct {
		name           string
		timeout        time.Duration // of the policy
		deadline, took time.Duration
		err            error
		want           string
	}{
		{"half of its time", time.Second, time.Second, 500 * time.Millisecond, nil, "prompt"},
		{"more than half", time.Second, time.Second, 501 * time.Millisecond, nil, "answer"},
		{"a permanent error", time.Second, time.Second, 0, retry.Stop(errHiccup), "prompt"},
		{"an answer that is no value", time.Second, time.Second, 0, retry.Answer(errHiccup), "prompt"},
		{"a value not accepted", time.Second, time.Second, 0, retry.ErrRejected, "prompt"},
		{"a failure", time.Second, time.Second, 0, errHiccup, "nothing"},
		{"a rejection", time.Second, time.Second, 0, errBusy, "overload"},
		{"the caller left it less", time.Second, 400 * time.Millisecond, 200 * time.Millisecond, nil, "prompt"},
		{"more than half of what the caller left", time.Second, 400 * time.Millisecond, 201 * time.Millisecond, nil, "answer"},
		{"the longest time left", time.Second, math.MaxInt64, 0, nil, "prompt"},
		{"the shortest timeout of the attempt", 1, time.Second, 0, nil, "prompt"},
		{"no timeout of the attempt", 0, time.Second, 500 * time.Millisecond, nil, "prompt"},
		{"more than half of the caller's time", 0, time.Second, 501 * time.Millisecond, nil, "answer"},
		{"no timeout at all", 0, 0, 0, nil, "answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := sign(t, func(l *limit.Adaptive) {
					ctx := t.Context()
					if tt.deadline > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, tt.deadline)
						defer cancel()
					}
					p := under(l)
					p.AttemptTimeout = tt.timeout
					_ = retry.Run(ctx, p, func(context.Context) error { time.Sleep(tt.took); return tt.err })
				})
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
}

// Twelve places, all in use: how many timeouts cost nothing after these answers.
func TestPromptAnswersExcuseTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		x      retry.Exit
		before int
		want   int
	}{
		{"none", answer, 0, 1},
		{"answers excuse none that come later", answer, 100, 1},
		{"a prompt one excuses three", prompt, 1, 1 + 3},
		{"as many as are in flight excuse four", prompt, 2, 1 + 4},
		{"and more of them no more", prompt, 100, 1 + 4},
	} {
		l := limit.Adaptive{Start: 12, Max: 12}
		for enter(&l) {
		}
		end := func(x retry.Exit) {
			l.Leave(retry.Pass{}, x)
			enter(&l)
		}
		for range tt.before {
			end(tt.x)
		}
		free := -1
		for l.Places() == 12 {
			free++
			end(timeout)
		}
		if free != tt.want {
			t.Errorf("%s: %d timeouts cost nothing, want %d", tt.name, free, tt.want)
		}
	}
}

// took is an answer after so many milliseconds of the second that the attempt had.
func took(n time.Duration) retry.Exit {
	return retry.Exit{Ending: retry.Returned, Took: n * time.Millisecond, Allowed: time.Second}
}

// Forty places, all in use, and answers that have taken 100 ms before: how many answers of
// another time, one after the other, cost a place.
func TestSlowAnswersAreOverloads(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ends  []retry.Exit // in turns
		stale bool         // their attempts have begun before the first slow one
		fell  bool
	}{
		{"as usual", []retry.Exit{took(100)}, false, false},
		{"a quarter longer than usual, within a sixth of their time", []retry.Exit{took(166)}, false, false},
		{"more than that", []retry.Exit{took(167)}, false, true},
		{"twice as long", []retry.Exit{took(200)}, false, true},
		{"nearly too late", []retry.Exit{took(999)}, false, true},
		{"all at once, after a stop", []retry.Exit{took(900)}, true, false},
		{"every other one is as usual", []retry.Exit{took(900), took(100)}, false, false},
		{"every fourth one", []retry.Exit{took(900), took(900), took(900), took(100)}, false, false},
		{"no time was set", []retry.Exit{{Ending: retry.Returned, Took: time.Hour}}, false, false},
		{"with failures that say nothing", []retry.Exit{took(900), noSign}, false, true},
		{"slow permanent errors", []retry.Exit{{Ending: retry.Returned, Took: time.Second, Allowed: 2 * time.Second, Verdict: retry.Policy{}.Judge(retry.Stop(errHiccup))}}, false, true},
		{"slow failures", []retry.Exit{{Ending: retry.Returned, Took: time.Second, Allowed: 2 * time.Second, Verdict: retry.Policy{}.Judge(errHiccup)}}, false, false},
	} {
		l := limit.Adaptive{Start: 40, Max: 40}
		var passes []retry.Pass
		fill := func() {
			for p, err := l.Enter(t.Context(), retry.Entry{}); err == nil; p, err = l.Enter(t.Context(), retry.Entry{}) {
				passes = append(passes, p)
			}
		}
		next := func(x retry.Exit) {
			l.Leave(passes[0], x)
			passes = passes[1:]
		}
		fill()
		for range 100 {
			next(took(100))
			fill()
		}
		for i := range 39 {
			next(tt.ends[i%len(tt.ends)])
			if !tt.stale {
				fill()
			}
		}
		for i := range 200 {
			if !tt.stale {
				next(tt.ends[i%len(tt.ends)])
				fill()
			}
		}
		if fell := l.Places() < 40; fell != tt.fell {
			t.Errorf("%s: %d of 40 places are left", tt.name, l.Places())
		}
	}
}

// Slow answers leave twice the places of a load whose answers took as long as usual. If
// they are as slow with these, that is usual, and the places come back.
func TestSlowAnswersLeaveWhatTheUsualLoadNeeds(t *testing.T) {
	l := limit.Adaptive{Start: 40}
	var passes []retry.Pass
	enter := func() bool {
		p, err := l.Enter(t.Context(), retry.Entry{})
		if err == nil {
			passes = append(passes, p)
		}
		return err == nil
	}
	next := func(x retry.Exit) {
		l.Leave(passes[0], x)
		passes = passes[1:]
	}
	for range 6 { // one more than are in flight while it ends
		enter()
	}
	for range 1000 {
		next(took(100))
		enter()
	}
	fewest := l.Places()
	for range 2000 {
		for enter() {
		}
		next(took(500))
		fewest = min(fewest, l.Places())
	}
	if fewest < 9 || fewest > 10 || l.Places() < 40 {
		t.Errorf("places fall to %d, and rise to %d; want 10, twice the five others, and 40 or more", fewest, l.Places())
	}
}

func TestGrowsOnlyWhenHalfOfThePlacesAreInUse(t *testing.T) {
	for inUse, want := range map[int]int{4: 10, 5: 11} {
		l := limit.Adaptive{Start: 10}
		for range inUse - 1 {
			enter(&l)
		}
		for range 11 {
			enter(&l)
			l.Leave(retry.Pass{}, answer)
		}
		if got := l.Places(); got != want {
			t.Errorf("%d of 10 in use: Places() = %d, want %d", inUse, got, want)
		}
	}
}

func TestZeroAndBadNumbersHaveAMeaning(t *testing.T) {
	for _, tt := range []struct {
		start, low, high   int
		want, least, great int
	}{
		{0, 0, 0, 20, 1, 1000},
		{-1, -1, -1, 1, 1, 1},
		{5, 10, 0, 10, 10, 1000},
		{50, 0, 30, 30, 1, 30},
		{5, 10, 3, 10, 10, 10},
		{math.MaxInt, math.MaxInt, math.MaxInt, 65535, 65535, 65535},
		{math.MinInt, math.MinInt, math.MinInt, 1, 1, 1},
	} {
		l := limit.Adaptive{Start: tt.start, Min: tt.low, Max: tt.high}
		if got := l.Places(); got != tt.want {
			t.Errorf("%+v: Places() = %d, want %d", tt, got, tt.want)
		}
		for range 200 {
			enter(&l)
			l.Leave(retry.Pass{}, overload)
		}
		if got := l.Places(); got != tt.least {
			t.Errorf("%+v: Places() = %d after overloads, want %d", tt, got, tt.least)
		}
		if tt.great > 1000 {
			continue
		}
		for range tt.great * tt.great { // half as many lead there
			for enter(&l) {
			}
			l.Leave(retry.Pass{}, answer)
		}
		if got := l.Places(); got != tt.great {
			t.Errorf("%+v: Places() = %d after successes, want %d", tt, got, tt.great)
		}
	}
}

// hung is a server that does not answer. The client before it ends an attempt by canceling
// its context, as retryhttp.Transport does: the cause says that time has run out.
func hung(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCancelForAnAttemptsTimeoutIsAnOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Adaptive{Start: 20}
		for range 3 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(retry.ErrAttemptTimeout) })
			if err := retry.Run(ctx, under(&l), hung); err == nil {
				t.Error("a server that hangs has answered")
			}
		}
		if got := l.Places(); got != 5 {
			t.Errorf("Places() = %d after three timeouts of one attempt each, want 5", got) // 20, 20 since it may be chance, 10, 5
		}
	})
}

// A connection with the deadline of ctx often fails before ctx ends.
func TestErrorAtTheDeadlineIsAnOverload(t *testing.T) {
	for name, p := range map[string]retry.Policy{"the attempt's": {AttemptTimeout: time.Second}, "the caller's": {}} {
		synctest.Test(t, func(t *testing.T) {
			l := limit.Adaptive{Start: 10, Max: 10}
			p.MaxAttempts, p.Guards = 1, []retry.Guard{&l}
			for range 100 {
				before := l.Places()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = retry.Run(ctx, p, func(ctx context.Context) error {
					deadline, _ := ctx.Deadline()
					time.Sleep(time.Until(deadline))
					return errHiccup
				})
				cancel()
				if after := l.Places(); after >= before && before > 1 {
					t.Fatalf("%s: %d places before and %d after an overload", name, before, after)
				}
			}
		})
	}
}

// The deadline of ctx is compared with the policy's clock.
func TestDeadlineIsOnThePolicysClock(t *testing.T) {
	clock := clockx.NewVirtual(time.Unix(1e9, 0))
	for _, tt := range []struct {
		left time.Duration
		want int
	}{{time.Nanosecond, 10}, {0, 5}} {
		l := limit.Adaptive{Start: 10}
		ctx, cancel := clock.WithTimeoutCause(t.Context(), time.Second, context.DeadlineExceeded)
		p := under(&l)
		p.Clock = deadlined{clock, tt.left}
		_, _ = retry.Do(ctx, p, returns(errHiccup))
		cancel()
		if got := l.Places(); got != tt.want {
			t.Errorf("%v before the deadline: Places() = %d after an error, want %d", tt.left, got, tt.want)
		}
	}
}

// deadlined is a clock that shows how long before second 1e9 + 1 it is.
type deadlined struct {
	clockx.Clock
	left time.Duration
}

func (c deadlined) Now() time.Time { return time.Unix(1e9+1, 0).Add(-c.left) }
