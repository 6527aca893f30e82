package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

var (
	errHiccup = errors.New("hiccup")
	errBusy   = retry.After(errors.New("busy"), time.Second)
)

// returns is an op that fails with err.
func returns(err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return 1, err }
}

func call(l *limit.Limit, op func(context.Context) (int, error)) error {
	_, err := limit.Op(l, retry.Policy{}, op)(context.Background())
	return err
}

func TestBoundFollowsTheSigns(t *testing.T) {
	l := limit.Limit{Start: 10}
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
		if !l.Acquire() {
			t.Fatalf("Acquire() = false with %d of %d places taken", l.InFlight(), l.Places())
		}
	}
	called := false
	v, err := limit.Op(&l, retry.Policy{}, func(context.Context) (int, error) { called = true; return 1, nil })(t.Context())
	if v != 0 || err != limit.ErrLimited || called {
		t.Errorf("Op = %d, %v, op called: %v; want 0, ErrLimited, not called", v, err, called)
	}
	l.Release(limit.NoSign)
	if err := call(&l, returns(nil)); err != nil {
		t.Errorf("Op = %v with a place free, want nil", err)
	}
}

// signs are how an attempt ends, in one letter.
var signs = map[rune]limit.Sign{'o': limit.Answer, '!': limit.Overload, 't': limit.Timeout, '-': limit.NoSign}

// How many places an overload costs depends on how many attempts were in flight recently.
func TestFalls(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start int
		steps string // 'a' acquires a place; the others are how an attempt ends
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
		l := limit.Limit{Start: tt.start}
		for i, step := range tt.steps {
			if sign, ends := signs[step]; ends {
				l.Release(sign)
			} else if !l.Acquire() {
				t.Fatalf("%s: Acquire() = false at step %d", tt.name, i)
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
		l := limit.Limit{Start: tt.start}
		for i, step := range tt.steps {
			if sign, ends := signs[step]; ends {
				l.Release(sign)
			} else if !l.Acquire() {
				t.Fatalf("%s: Acquire() = false at step %d", tt.name, i)
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
	l := limit.Limit{}
	for l.Places() > 8 {
		l.Acquire()
		l.Release(limit.Overload)
	}
	for range 3 { // of four in flight
		l.Acquire()
	}
	for range 200 {
		l.Acquire()
		l.Release(limit.Answer)
	}
	if got := l.Places(); got != 20 {
		t.Errorf("Places() = %d, want the 20 of the start", got)
	}
	for range 1000 {
		l.Acquire()
		l.Release(limit.Answer)
	}
	if got := l.Places(); got != 20 {
		t.Errorf("Places() = %d, want 20: four are in use", got)
	}
}

// With as many timeouts as answers get lost the places grow to the most, while all are in
// use: from 20 to 200.
func TestRareTimeoutsLetItGrow(t *testing.T) {
	l, r := limit.Limit{Max: 200}, rand.New(rand.NewPCG(1, 2))
	for range 40_000 {
		for l.Acquire() {
		}
		sign := limit.Answer
		if r.Float64() < .1 {
			sign = limit.Timeout
		}
		l.Release(sign)
	}
	if got := l.Places(); got < 198 {
		t.Errorf("of .1 that time out: %d places, want the most, 200", got)
	}
}

// With a fraction of throttled errors that have nothing to do with the load, the number
// of places settles where the package comment says, while all are in use.
func TestRandomOverloadsSettle(t *testing.T) {
	for _, p := range []float64{.1, .03, .01} {
		l, r := limit.Limit{Start: 20}, rand.New(rand.NewPCG(1, 2))
		sum := 0
		const settle, steps = 100_000, 1_000_000
		for i := range settle + steps {
			for l.Acquire() {
			}
			sign := limit.Answer
			if r.Float64() < p {
				sign = limit.Overload
			}
			l.Release(sign)
			if i >= settle {
				sum += l.Places()
			}
		}
		if got, want := float64(sum)/steps, 2/p; got < .85*want || got > 1.1*want {
			t.Errorf("of %v lost: %.1f places, want about %.1f", p, got, want)
		} else {
			t.Logf("of %v lost: %.1f places", p, got)
		}
	}
}

// Every ending of an attempt, and what ten places become: with the caller's
// place five of ten are in use.
func TestWhatEndsMean(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	lost, lose := context.WithCancelCause(t.Context())
	lose(hedge.ErrLost)
	silent, giveUp := context.WithCancelCause(t.Context())
	giveUp(retry.ErrAttemptTimeout)
	sibling, fail := context.WithCancelCause(t.Context())
	fail(context.DeadlineExceeded)
	const down, stay, up = 9, 10, 11 // 10.1 is 10, until ten more
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"success", t.Context(), nil, up},
		{"permanent", t.Context(), retry.Stop(errHiccup), up},
		{"an answer", t.Context(), retry.Answer(errBusy), up},
		{"an answer after the caller's deadline", late, retry.Answer(errBusy), up},
		{"transient", t.Context(), errHiccup, stay},
		{"unprocessed", t.Context(), limit.ErrLimited, stay},
		{"throttled", t.Context(), fmt.Errorf("call: %w", errBusy), down},
		{"attempt's timeout", t.Context(), retry.ErrAttemptTimeout, down},
		{"a timeout far below", t.Context(), errors.Join(errHiccup, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)), down},
		{"a timeout beside what did not", t.Context(), errors.Join(inTime{}, context.DeadlineExceeded), down},
		{"did not time out", t.Context(), inTime{}, stay},
		{"a timeout beside what did not, that will not go away", t.Context(), retry.Stop(errors.Join(inTime{}, context.DeadlineExceeded)), down},
		{"a timeout that will not go away", t.Context(), retry.Stop(context.DeadlineExceeded), down},
		{"a refused retry", t.Context(), retry.Refuse(errHiccup), stay}, // a failure that says nothing of the load
		{"a run that was refused", t.Context(), &retry.Error{Reason: retry.ReasonRefused, Attempts: 1}, stay},
		{"caller's deadline", late, errHiccup, down},
		{"success after the caller's deadline", late, nil, up},
		{"canceled", canceled, errHiccup, stay},
		{"canceled, and timed out", canceled, context.DeadlineExceeded, stay},
		{"canceled, and success", canceled, nil, stay},
		{"lost to a hedge", lost, context.Canceled, stay},
		{"canceled by a timeout of the attempt", silent, context.Canceled, down},
		{"success after a timeout of the attempt", silent, nil, up},
		{"canceled since a sibling timed out", sibling, context.Canceled, stay},
		{"value not accepted", t.Context(), retry.ErrRejected, up},
		{"value not accepted, and when to ask again", t.Context(), retry.After(retry.ErrRejected, time.Second), up},
		{"canceled, and value not accepted", canceled, retry.ErrRejected, stay},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := limit.Limit{Start: 10}
			for range 4 {
				l.Acquire()
			}
			op := limit.Op(&l, retry.Policy{}, returns(tt.err))
			v, err := op(tt.ctx)
			if v != 1 || err != tt.err {
				t.Errorf("Op = %d, %v, want what op returned", v, err)
			}
			if tt.want == up {
				for range 9 { // up by a tenth, then by a little less
					if l.Places() != 10 {
						t.Errorf("Places() = %d too early", l.Places())
					}
					_, _ = op(tt.ctx)
				}
				_, _ = op(tt.ctx)
			}
			if tt.want == stay {
				for range 20 {
					_, _ = op(tt.ctx)
				}
			}
			if got := l.Places(); got != tt.want {
				t.Errorf("Places() = %d, want %d", got, tt.want)
			}
			if got := l.InFlight(); got != 4 {
				t.Errorf("InFlight() = %d, want 4", got)
			}
		})
	}
}

type inTime struct{}

func (inTime) Error() string { return "a network's error" }
func (inTime) Timeout() bool { return false }

func TestPolicySaysWhatAnErrorMeans(t *testing.T) {
	for _, class := range []retry.Class{retry.Throttled, retry.TimedOut} {
		l := limit.Limit{Start: 10}
		p := retry.Policy{Classify: func(error) retry.Class { return class }}
		_, _ = limit.Op(&l, p, returns(errHiccup))(t.Context())
		if got := l.Places(); got != 5 {
			t.Errorf("Places() = %d, want 5: the policy calls it %v", got, class)
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
		want           limit.Sign
	}{
		{"half of its time", time.Second, time.Second, 500 * time.Millisecond, nil, limit.Prompt},
		{"more than half", time.Second, time.Second, 501 * time.Millisecond, nil, limit.Answer},
		{"a permanent error", time.Second, time.Second, 0, retry.Stop(errHiccup), limit.Prompt},
		{"an answer that is no value", time.Second, time.Second, 0, retry.Answer(errHiccup), limit.Prompt},
		{"a failure", time.Second, time.Second, 0, errHiccup, limit.NoSign},
		{"a rejection", time.Second, time.Second, 0, errBusy, limit.Overload},
		{"the caller left it less", time.Second, 400 * time.Millisecond, 0, nil, limit.Answer},
		{"the longest time left", time.Second, math.MaxInt64, 0, nil, limit.Prompt},
		{"the shortest timeout of the attempt", 1, time.Second, 0, nil, limit.Prompt},
		{"no timeout of the attempt", 0, time.Second, 0, nil, limit.Answer},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			defer cancel()
			time.Sleep(tt.took)
			if got := limit.SignOf(ctx, retry.Policy{AttemptTimeout: tt.timeout}, tt.err); got != tt.want {
				t.Errorf("%s: SignOf = %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}

// Twelve places, all in use: how many timeouts cost nothing after these answers.
func TestPromptAnswersExcuseTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sign   limit.Sign
		before int
		want   int
	}{
		{"none", limit.Answer, 0, 1},
		{"answers excuse none that come later", limit.Answer, 100, 1},
		{"a prompt one excuses three", limit.Prompt, 1, 1 + 3},
		{"as many as are in flight excuse four", limit.Prompt, 2, 1 + 4},
		{"and more of them no more", limit.Prompt, 100, 1 + 4},
	} {
		l := limit.Limit{Start: 12, Max: 12}
		for l.Acquire() {
		}
		end := func(s limit.Sign) {
			l.Release(s)
			l.Acquire()
		}
		for range tt.before {
			end(tt.sign)
		}
		free := -1
		for l.Places() == 12 {
			free++
			end(limit.Timeout)
		}
		if free != tt.want {
			t.Errorf("%s: %d timeouts cost nothing, want %d", tt.name, free, tt.want)
		}
	}
}

func TestUnknownSignSaysNothing(t *testing.T) {
	l := limit.Limit{Start: 2}
	for range 20 {
		l.Acquire()
		l.Release(limit.Timeout + 1)
	}
	if l.Places() != 2 || l.InFlight() != 0 {
		t.Errorf("%d places and %d in flight, want 2 and 0", l.Places(), l.InFlight())
	}
}

func TestGrowsOnlyWhenHalfOfThePlacesAreInUse(t *testing.T) {
	for inUse, want := range map[int]int{4: 10, 5: 11} {
		l := limit.Limit{Start: 10}
		for range inUse - 1 {
			l.Acquire()
		}
		for range 11 {
			l.Acquire()
			l.Release(limit.Answer)
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
		l := limit.Limit{Start: tt.start, Min: tt.low, Max: tt.high}
		if got := l.Places(); got != tt.want {
			t.Errorf("%+v: Places() = %d, want %d", tt, got, tt.want)
		}
		for range 200 {
			l.Acquire()
			l.Release(limit.Overload)
		}
		if got := l.Places(); got != tt.least {
			t.Errorf("%+v: Places() = %d after overloads, want %d", tt, got, tt.least)
		}
		if tt.great > 1000 {
			continue
		}
		for range tt.great * tt.great { // half as many lead there
			for l.Acquire() {
			}
			l.Release(limit.Answer)
		}
		if got := l.Places(); got != tt.great {
			t.Errorf("%+v: Places() = %d after successes, want %d", tt, got, tt.great)
		}
	}
}

func TestNilLimitLimitsNothing(t *testing.T) {
	var l *limit.Limit
	for range 3 {
		if !l.Acquire() {
			t.Error("Acquire() = false")
		}
	}
	if l.InFlight() != 0 || l.Places() != math.MaxInt {
		t.Errorf("InFlight() = %d, Places() = %d, want 0 and no limit", l.InFlight(), l.Places())
	}
	for range 5 {
		l.Release(limit.Overload)
	}
	if err := call(l, returns(nil)); err != nil {
		t.Errorf("Op = %v, want nil", err)
	}
}

func TestWrongUsePanics(t *testing.T) {
	for want, f := range map[string]func(){
		"limit: Release without Acquire": func() { new(limit.Limit).Release(limit.Answer) },
		"limit: nil op":                  func() { limit.Op[int](&limit.Limit{}, retry.Policy{}, nil) },
		"limit: nil op ":                 func() { _, _ = limit.Do[int](t.Context(), retry.Policy{}, nil, nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != strings.TrimSpace(want) {
					t.Errorf("panicked with %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic with a nil op and a nil Limit")
		}
	}()
	limit.Op[int](nil, retry.Policy{}, nil)
}

func TestPlaceComesBackAfterAPanicAndGoexit(t *testing.T) {
	l := limit.Limit{Start: 10}
	for name, leave := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_ = call(&l, func(context.Context) (int, error) { leave(); return 0, nil })
		})
		wg.Wait()
		if l.InFlight() != 0 || l.Places() != 10 {
			t.Errorf("after %s: %d in flight, %d places, want 0 and 10", name, l.InFlight(), l.Places())
		}
	}
}

// No more attempts run at a time than there are places, and all places come back.
func TestBoundHoldsUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Limit{Start: 7, Max: 7}
		running, most, refused := 0, 0, 0
		var mu sync.Mutex
		op := limit.Op(&l, retry.Policy{}, func(context.Context) (int, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return 0, nil
		})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%10) * time.Second)
				if _, err := op(t.Context()); err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if most != 7 || l.InFlight() != 0 || l.Places() != 7 {
			t.Errorf("at most %d at a time, then %d in flight of %d, want 7, 0, 7", most, l.InFlight(), l.Places())
		}
		if refused == 0 || refused == 1000 {
			t.Errorf("%d of 1000 refused", refused)
		}
	})
}

func TestErrLimitedIsSafeToRetry(t *testing.T) {
	if c := retry.DefaultClassifier(limit.ErrLimited); c != retry.Unprocessed {
		t.Errorf("DefaultClassifier(ErrLimited) = %v, want unprocessed", c)
	}
	synctest.Test(t, func(t *testing.T) {
		l := limit.Limit{Start: 1}
		l.Acquire()
		time.AfterFunc(150*time.Millisecond, func() { l.Release(limit.Answer) })
		p := retry.Policy{NonIdempotent: true, Backoff: retry.Constant(100 * time.Millisecond)}
		start := time.Now()
		v, err := limit.Do(t.Context(), p, &l, returns(nil))
		if v != 1 || err != nil || time.Since(start) != 200*time.Millisecond {
			t.Errorf("Do = %d, %v after %v, want 1, nil after 200ms", v, err, time.Since(start))
		}
	})
}

// An ErrLimited that op returns is another Limit's, and op may have done something
// before.
func TestDoKnowsOnlyItsOwnLimit(t *testing.T) {
	calls := 0
	_, err := limit.Do(t.Context(), retry.Policy{NonIdempotent: true}, &limit.Limit{}, func(context.Context) (int, error) {
		calls++
		return 0, limit.ErrLimited
	})
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonNotIdempotent || e.Undone || calls != 1 {
		t.Errorf("%d calls, %v, want 1 that must not be repeated", calls, err)
	}
}

// Policy.Classify has a say in what an attempt without a place means.
func TestDoWithoutAPlace(t *testing.T) {
	full := &limit.Limit{Start: 1}
	full.Acquire()
	for _, tt := range []struct {
		classify retry.Classifier
		reason   retry.Reason
		attempts int
	}{
		{nil, retry.ReasonMaxAttempts, 3},
		{func(error) retry.Class { return retry.Permanent }, retry.ReasonPermanent, 1},
	} {
		v, err := limit.Do(t.Context(), retry.Policy{NonIdempotent: true, Classify: tt.classify, Backoff: retry.Constant(0)}, full, returns(nil))
		e, ok := errors.AsType[*retry.Error](err)
		if v != 0 || !ok || e.Reason != tt.reason || e.Attempts != tt.attempts || !e.Undone || !errors.Is(err, limit.ErrLimited) {
			t.Errorf("Do = %d, %#v, want 0 and %v after %d attempts that did nothing", v, err, tt.reason, tt.attempts)
		}
	}
}

// The second attempt finds no place. It has done nothing, whatever the first one did, and
// the value is still what op has returned last.
func TestDoKeepsTheLastValue(t *testing.T) {
	l := limit.Limit{Start: 1}
	waits := 0
	p := retry.Policy{NonIdempotent: true, Backoff: retry.Constant(0), Hooks: retry.Hooks{Wait: func(context.Context, retry.Attempt) {
		if waits++; waits == 1 {
			l.Acquire()
		}
	}}}
	op := returns(retry.Undone(errHiccup))
	v, err := limit.Do(t.Context(), p, &l, op)
	if e, ok := errors.AsType[*retry.Error](err); v != 1 || !ok || e.Attempts != 3 || !e.Undone || e.Last() != limit.ErrLimited {
		t.Errorf("Do = %d, %v, want 1 and ErrLimited after 3 attempts that did nothing", v, err)
	}
}

// Do is retry.Do of Op: for all errors the same attempts, value, error and places.
func TestDoIsARunOfOp(t *testing.T) {
	ofOp := func(ctx context.Context, p retry.Policy, l *limit.Limit, op func(context.Context) (int, error)) (int, error) {
		return retry.Do(ctx, p, limit.Op(l, p, op))
	}
	for _, err := range []error{nil, errHiccup, errBusy, context.DeadlineExceeded, retry.Stop(errHiccup), retry.Undone(errHiccup), retry.ErrRejected} {
		for _, nonIdempotent := range []bool{false, true} {
			for _, limited := range []bool{false, true} {
				var got []string
				for _, do := range []func(context.Context, retry.Policy, *limit.Limit, func(context.Context) (int, error)) (int, error){limit.Do[int], ofOp} {
					var l *limit.Limit
					if limited {
						l = &limit.Limit{Start: 10}
					}
					h := retrytest.New(t, retry.Policy{NonIdempotent: nonIdempotent})
					v, err := do(t.Context(), h.Policy, l, returns(err))
					got = append(got, fmt.Sprintf("%d, %v after %d attempts, %d in flight of %d", v, err, len(h.Attempts()), l.InFlight(), l.Places()))
				}
				if got[0] != got[1] {
					t.Errorf("Do: %s\nOp: %s", got[0], got[1])
				}
			}
		}
	}
}

func TestHooksGetTheUsersPolicy(t *testing.T) {
	var got string
	p := retry.Policy{
		Name: "x", MaxAttempts: 2, AttemptTimeout: time.Second, NonIdempotent: true, Backoff: retry.Constant(0),
		Classify: retry.DefaultClassifier, Budget: &retry.TokenBudget{}, Clock: clockx.NewVirtual(time.Unix(0, 0)),
	}
	p.Hooks.Start = func(_ context.Context, p retry.Policy) context.Context { got = fmt.Sprintf("%#v", p); return nil }
	_, _ = limit.Do(t.Context(), p, &limit.Limit{}, returns(errHiccup))
	if want := fmt.Sprintf("%#v", p); got != want {
		t.Errorf("Hooks.Start got\n%s\nwant\n%s", got, want)
	}
}

// hung is a server that does not answer.
type hung struct{}

func (hung) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// limited is a RoundTripper under a Limit.
type limited struct{ l *limit.Limit }

func (b limited) RoundTrip(req *http.Request) (*http.Response, error) {
	return limit.Op(b.l, retry.Policy{}, func(context.Context) (*http.Response, error) { return hung{}.RoundTrip(req) })(req.Context())
}

// A Transport ends an attempt by canceling its context. The cause tells a limit below
// it that time has run out.
func TestTransportsTimeoutIsAnOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Limit{Start: 20}
		rt := &retryhttp.Transport{Base: limited{&l}, Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://192.0.2.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.RoundTrip(req); err == nil {
			t.Error("a server that hangs has answered")
		}
		if got := l.Places(); got != 5 {
			t.Errorf("Places() = %d after three timeouts of one attempt each, want 5", got) // 20, 20 since it may be chance, 10, 5
		}
	})
}

// A connection with the deadline of ctx often fails before ctx ends.
func TestErrorAtTheDeadlineIsAnOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Limit{Start: 10, Max: 10}
		op := limit.Op(&l, retry.Policy{}, func(ctx context.Context) (int, error) {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline))
			return 0, errHiccup
		})
		for range 100 {
			before := l.Places()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = op(ctx)
			cancel()
			if after := l.Places(); after >= before && before > 1 {
				t.Fatalf("%d places before and %d after an overload", before, after)
			}
		}
	})
}

// The deadline of ctx is compared with the policy's clock.
func TestDeadlineIsOnThePolicysClock(t *testing.T) {
	clock := clockx.NewVirtual(time.Unix(1e9, 0))
	for _, tt := range []struct {
		left time.Duration
		want int
	}{{time.Nanosecond, 10}, {0, 5}} {
		l := limit.Limit{Start: 10}
		ctx, cancel := clock.WithTimeoutCause(t.Context(), time.Second, context.DeadlineExceeded)
		_, _ = limit.Op(&l, retry.Policy{Clock: deadlined{clock, tt.left}}, returns(errHiccup))(ctx)
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

func TestPanicInDo(t *testing.T) {
	l := limit.Limit{Start: 10}
	h := retrytest.New(t, retry.Policy{})
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v, want boom", got)
			}
		}()
		_, _ = limit.Do(t.Context(), h.Policy, &l, func(context.Context) (int, error) { panic("boom") })
	}()
	h.AssertReason(retry.ReasonPanic)
	if l.InFlight() != 0 || l.Places() != 10 {
		t.Errorf("%d in flight of %d, want 0 of 10", l.InFlight(), l.Places())
	}
}

func TestOpAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	full := &limit.Limit{Start: 1}
	full.Acquire()
	p := retry.Policy{Name: "x", Budget: &retry.TokenBudget{}}
	for name, op := range map[string]func(context.Context) (int, error){
		"success":   limit.Op(&limit.Limit{}, p, returns(nil)),
		"transient": limit.Op(&limit.Limit{}, p, returns(errHiccup)),
		"throttled": limit.Op(&limit.Limit{}, p, returns(errBusy)),
		"timed out": limit.Op(&limit.Limit{}, p, returns(retry.ErrAttemptTimeout)),
		"limited":   limit.Op(full, p, returns(nil)),
	} {
		if got := testing.AllocsPerRun(1000, func() { _, _ = op(context.Background()) }); got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
}

func BenchmarkOp(b *testing.B) {
	l := limit.Limit{Start: 1000}
	op := limit.Op(&l, retry.Policy{}, returns(nil))
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = op(context.Background())
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = op(context.Background())
			}
		})
	})
}

func TestNilPointersInErrors(t *testing.T) {
	op := limit.Op(&limit.Limit{}, retry.Policy{}, func(context.Context) (int, error) {
		return 0, fmt.Errorf("fetch: %w", (*url.Error)(nil))
	})
	if _, err := op(t.Context()); err == nil {
		t.Error("no error")
	}
}

// An attempt that ended because its turn under a Pace would have come too late did
// nothing, and says nothing about the load.
func TestPacedIsNoSign(t *testing.T) {
	pace := new(retry.Pace)
	pace.Hold(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := retry.Run(ctx, retry.Policy{Pace: pace}, func(context.Context) error { return nil })
	if got := limit.SignOf(ctx, retry.Policy{}, err); !errors.Is(err, retry.ErrPaced) || got != limit.NoSign {
		t.Errorf("the sign of %q is %d, want NoSign", err, got)
	}
	if got := limit.SignOf(ctx, retry.Policy{}, fmt.Errorf("fetch: %w", err)); got != limit.NoSign {
		t.Errorf("the sign of it wrapped is %d, want NoSign", got)
	}
	undone := retry.Policy{Classify: func(error) retry.Class { return retry.Unprocessed }}
	if got := limit.SignOf(ctx, undone, context.DeadlineExceeded); got != limit.Timeout {
		t.Errorf("the sign of a timeout that did nothing is %d, want Timeout", got)
	}
}
