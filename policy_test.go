package retry_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

func TestAttemptLimit(t *testing.T) {
	for _, tt := range []struct {
		attempts int
		elapsed  time.Duration
		want     int
	}{
		{0, 0, 3},
		{0, -time.Second, 3}, // counts as zero
		{0, time.Nanosecond, 3},
		{0, 3 * time.Millisecond, 3},
		{0, 5*time.Millisecond - 1, 4},
		{0, time.Minute, 60_000},
		{0, math.MaxInt64, int(min(math.MaxInt64/time.Millisecond, math.MaxInt))},
		{5, time.Minute, 5},
		{1, 0, 1},
		{retry.Unlimited, 0, math.MaxInt},
		{math.MinInt, time.Minute, math.MaxInt},
	} {
		p := retry.Policy{MaxAttempts: tt.attempts, MaxElapsed: tt.elapsed}
		if got := p.AttemptLimit(); got != tt.want {
			t.Errorf("AttemptLimit() of %d attempts in %v = %d, want %d", tt.attempts, tt.elapsed, got, tt.want)
		}
	}
}

// A policy that says fifteen minutes is not over after three attempts.
func TestMaxElapsedAloneSetsNoLimitOnAttempts(t *testing.T) {
	p, v := virtual()
	p.MaxAttempts, p.MaxElapsed = 0, 15*time.Minute
	p.Backoff = retry.Constant(time.Minute)
	began := v.Now()
	op, calls := failing(99, errDown)
	_, err := retry.Do(t.Context(), p, op)
	wantReason(t, err, retry.ReasonMaxElapsed)
	if took := v.Now().Sub(began); *calls != 16 || took != 15*time.Minute {
		t.Errorf("%d calls in %v, want 16 in 15m", *calls, took)
	}
}

func TestJudge(t *testing.T) {
	p := retry.Policy{Classify: byClass, MaxRetryAfter: time.Second}
	for _, tt := range []struct {
		err  error
		want retry.Class
		hint time.Duration
	}{
		{nil, retry.Unknown, 0},
		{errors.New("never seen"), retry.Transient, 0},
		{classed(retry.Unprocessed), retry.Unprocessed, 0},
		{retry.Stop(classed(retry.Throttled)), retry.Permanent, 0},
		{retry.Stop(hinted(time.Second)), retry.Permanent, 0},
		{retry.Stop(retry.After(errDown, time.Hour)), retry.Permanent, 0},
		{retry.Refuse(hinted(time.Second)), retry.Permanent, time.Second},
		{retry.Refuse(retry.After(errDown, time.Hour)), retry.Permanent, time.Hour},
		{fmt.Errorf("busy: %w", retry.After(errDown, time.Hour)), retry.Throttled, time.Hour}, // not cut to MaxRetryAfter
		{context.DeadlineExceeded, retry.TimedOut, 0},
		{classed(retry.TimedOut), retry.TimedOut, 0},
		{sql.ErrNoRows, retry.Permanent, 0},
		{retry.ErrRejected, retry.Transient, 0},
	} {
		if v := p.Judge(tt.err); v.Class != tt.want || v.Hint != tt.hint {
			t.Errorf("Judge(%v) = %v, %v, want %v, %v", tt.err, v.Class, v.Hint, tt.want, tt.hint)
		}
	}
}

func TestJudgeWithoutClassify(t *testing.T) {
	for err, want := range map[error]retry.Class{
		errors.New("never seen"): retry.Transient, sql.ErrNoRows: retry.Permanent, retry.ErrRejected: retry.Transient,
	} {
		if v := (retry.Policy{}).Judge(err); v.Class != want || v.Hint != 0 {
			t.Errorf("Judge(%v) = %v, %v, want %v and no hint", err, v.Class, v.Hint, want)
		}
	}
}

// A backoff that wants the larger of the two, and not the sum.
func TestBackoffSeesTheHint(t *testing.T) {
	p := retry.Policy{
		MaxRetryAfter: time.Hour,
		Rand:          func() float64 { return 0 },
		Backoff:       retry.BackoffFunc(func(s retry.Step) time.Duration { return max(time.Minute-s.Hint, 0) }),
	}
	for _, hint := range []time.Duration{0, time.Second, time.Hour} {
		loop := p.Start(epoch)
		wait, ok := loop.Next(epoch, retry.After(errDown, hint))
		if want := max(hint, time.Minute); !ok || wait != want {
			t.Errorf("with a hint of %v the wait is %v, want %v", hint, wait, want)
		}
	}
}

// Neither the wait nor what the next retry gets as the wait before is negative.
func TestNegativeDelayIsNone(t *testing.T) {
	loop := retry.Policy{Backoff: retry.BackoffFunc(func(s retry.Step) time.Duration {
		if s.Prev != 0 {
			t.Errorf("Prev of retry %d is %d ns, want 0", s.Retry, s.Prev)
		}
		return -1
	})}.Start(epoch)
	for n := range 2 {
		if wait, ok := loop.Next(epoch, errDown); !ok || wait != 0 {
			t.Errorf("after %d retries the wait is %d ns, %v, want 0", n, wait, ok)
		}
	}
}

// Without Rand the waits differ from run to run, and fill the backoff's range.
func TestJitterIsRandomByDefault(t *testing.T) {
	var least, most time.Duration = time.Hour, 0
	for range 1000 {
		loop := retry.Policy{}.Start(epoch)
		wait, _ := loop.Next(epoch, errDown)
		least, most = min(least, wait), max(most, wait)
	}
	if least < 0 || least > 10*time.Millisecond || most < 90*time.Millisecond || most >= 100*time.Millisecond {
		t.Errorf("1000 first waits lie between %v and %v, want them between 0 and 100ms", least, most)
	}
}

func TestShortestMaxRetryAfter(t *testing.T) {
	loop := retry.Policy{MaxRetryAfter: 1}.Start(epoch)
	loop.Next(epoch, retry.After(errDown, 2))
	wantReason(t, loop.Err(), retry.ReasonRetryAfter)
}

func TestLongest(t *testing.T) {
	const ms, never = time.Millisecond, time.Duration(math.MaxInt64)
	top := retry.Exponential{Base: sec}.Delay(retry.Step{Retry: 1, Rand: 1})
	for _, tt := range []struct {
		name string
		p    retry.Policy
		want time.Duration
	}{
		{"no timeout", retry.Policy{MaxAttempts: 1, MaxElapsed: sec}, never},
		{"one attempt", retry.Policy{AttemptTimeout: 2 * sec, MaxAttempts: 1}, 2 * sec},
		{"the default: a server may ask for five minutes, twice", retry.Policy{AttemptTimeout: sec}, 3*sec + 2*(5*time.Minute+30*sec) - 2},
		{"a tenth of the hint, where it is more than the backoff", retry.Policy{AttemptTimeout: sec, MaxAttempts: 2, MaxRetryAfter: 20 * sec, Backoff: retry.Constant(sec)}, 2*sec + 22*sec - 1},
		{"else the backoff", retry.Policy{AttemptTimeout: sec, MaxAttempts: 2, MaxRetryAfter: 5 * sec, Backoff: retry.Constant(sec)}, 2*sec + 6*sec},
		{"the longest jitter", retry.Policy{AttemptTimeout: sec, MaxAttempts: 2, MaxRetryAfter: 1, Backoff: retry.Exponential{Base: sec}}, 2*sec + 1 + top},
		{"the longer backoff of two", retry.Policy{AttemptTimeout: sec, MaxAttempts: 3, MaxRetryAfter: 1, Backoff: retry.Schedule{sec, 5 * sec}, ThrottleBackoff: retry.Constant(2 * sec)}, 3*sec + 7*sec + 2},
		{"no limit", retry.Policy{AttemptTimeout: sec, MaxAttempts: retry.Unlimited}, never},
		{"a limit on time", retry.Policy{AttemptTimeout: sec, MaxElapsed: time.Minute}, 61 * sec},
		{"and on attempts", retry.Policy{AttemptTimeout: sec, MaxElapsed: time.Minute, MaxAttempts: 2, MaxRetryAfter: sec, Backoff: retry.Constant(0)}, 2*sec + 1100*ms - 1},
		{"the shortest limit on time", retry.Policy{AttemptTimeout: sec, MaxElapsed: 1}, sec + 1},
		{"no wait fits", retry.Policy{AttemptTimeout: sec, MaxElapsed: time.Minute, Backoff: retry.Constant(2 * time.Minute)}, 61 * sec},
		{"a pace", retry.Policy{AttemptTimeout: sec, MaxAttempts: 1, Guards: []retry.Guard{new(pace.Pace)}}, never},
		{"a pace with a limit on time", retry.Policy{AttemptTimeout: sec, MaxElapsed: time.Minute, MaxAttempts: 1, Guards: []retry.Guard{new(pace.Pace)}}, 61 * sec},
		{"too long to count", retry.Policy{AttemptTimeout: never / 2, MaxAttempts: 5}, never},
		{"as many as it counts", retry.Policy{AttemptTimeout: 1, MaxAttempts: 100_000, MaxRetryAfter: 1, Backoff: retry.Constant(0)}, 199_999},
		{"one more", retry.Policy{AttemptTimeout: 1, MaxAttempts: 100_001, MaxRetryAfter: 1, Backoff: retry.Constant(0)}, never},
		{"too many to count", retry.Policy{AttemptTimeout: 1, MaxAttempts: 1 << 30, MaxRetryAfter: 1, Backoff: retry.Constant(0)}, never},
		{"too many to count, with a limit on time", retry.Policy{AttemptTimeout: 1, MaxElapsed: time.Hour, MaxRetryAfter: 1, Backoff: retry.Constant(0)}, time.Hour + 1},
		{"negative numbers", retry.Policy{AttemptTimeout: -1, MaxAttempts: 1}, never},
		{"a func", retry.Policy{AttemptTimeout: sec, MaxAttempts: 3, MaxRetryAfter: 1, Backoff: retry.BackoffFunc(func(s retry.Step) time.Duration {
			return time.Duration(s.Retry)*sec + time.Duration(s.Rand*8)*sec
		})}, 3*sec + 8*sec + 9*sec + 2},
		{"a func of the smallest numbers", retry.Policy{AttemptTimeout: sec, MaxAttempts: 3, MaxRetryAfter: 1, Backoff: retry.BackoffFunc(func(s retry.Step) time.Duration {
			if s.Rand == 0 && s.Hint == 0 && s.Prev == 0 {
				return 5 * sec
			}
			return 0
		})}, 3*sec + 2*5*sec},
	} {
		if got := tt.p.Longest(); got != tt.want {
			t.Errorf("%s: Longest() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// asking is an error that asks for a wait, and is not Throttled for that.
type asking struct{ wait time.Duration }

func (asking) Error() string               { return "asking" }
func (a asking) RetryAfter() time.Duration { return a.wait }

// backoffs are all that the package has, with waits of some nanoseconds.
var backoffs = []retry.Backoff{
	nil, retry.Constant(0), retry.Constant(7), retry.Schedule{5, 0, 2}, retry.Schedule{0, 10},
	retry.Exponential{Base: 2, Max: 9}, retry.Exponential{Base: 3, Max: 40, Factor: 3, Jitter: retry.NoJitter},
	retry.Linear{Base: 2, Max: 5, Jitter: retry.EqualJitter},
	retry.Decorrelated{Base: 2, Max: 30},
}

// A Loop decides as every run does. With times of some nanoseconds, all that attempts
// and servers can do is tried. With a limit on time Longest is a bound.
func TestLongestIsExact(t *testing.T) {
	var random float64
	compared := 0
	for i, backoff := range backoffs[1:] {
		for _, throttled := range []retry.Backoff{nil, retry.Constant(0), retry.Constant(7), retry.Constant(20), retry.Schedule{20, 30}} {
			for _, elapsed := range []time.Duration{0, 4, 7, 11, 27, 35} {
				if i == len(backoffs)-2 && throttled != nil { // Decorrelated, with another
					continue
				}
				if compared++; !longTests && compared%3 != 0 {
					continue
				}
				p := retry.Policy{
					MaxAttempts: 3, AttemptTimeout: 2, MaxElapsed: elapsed, MaxRetryAfter: 3, Backoff: backoff, ThrottleBackoff: throttled,
					Rand: func() float64 { return random },
				}
				if longest, got := longestOf(p, &random), p.Longest(); got < longest || elapsed == 0 && got > longest || elapsed > 0 && got > elapsed+p.AttemptTimeout {
					t.Errorf("%#v, then %#v, at most %d: Longest() = %d, and the longest run takes %d", backoff, throttled, elapsed, got, longest)
				}
			}
		}
	}
	t.Log("policies:", compared)
}

// After a retry without a delay Decorrelated starts anew, a few nanoseconds above where
// rounding has brought it.
func TestLongestWithTwoBackoffsIsABound(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 5, AttemptTimeout: 1, MaxRetryAfter: 5 * time.Minute, Backoff: retry.Decorrelated{Base: sec, Max: hour},
		ThrottleBackoff: retry.Constant(0), Rand: func() float64 { return 1 },
	}
	loop, now := p.Start(epoch), epoch
	for n := range p.MaxAttempts - 1 {
		var err error = asking{p.MaxRetryAfter}
		if n == 2 {
			err = retry.After(errDown, p.MaxRetryAfter)
		}
		now = now.Add(p.AttemptTimeout)
		wait, _ := loop.Next(now, err)
		now = now.Add(wait)
	}
	if took := now.Add(p.AttemptTimeout).Sub(epoch); took > p.Longest() {
		t.Errorf("a run took %d, longer than %d", took, p.Longest())
	}
}

// deed is what one attempt does, and what the next wait gets.
type deed struct {
	took, hint time.Duration
	throttled  bool
	random     float64
}

// longestOf tries every run.
func longestOf(p retry.Policy, random *float64) (longest time.Duration) {
	var steps []deed
	for took := range p.AttemptTimeout + 1 {
		for hint := range p.MaxRetryAfter + 1 {
			for _, throttled := range []bool{false, true} {
				for _, random := range []float64{0, .5, 1} {
					steps = append(steps, deed{took, hint, throttled, random})
				}
			}
		}
	}
	var try func(made []deed)
	try = func(made []deed) {
		loop, now := p.Start(epoch), epoch
		for _, s := range made {
			*random = s.random
			var err error = asking{s.hint}
			if s.throttled {
				err = retry.After(errDown, s.hint)
			}
			now = now.Add(s.took)
			wait, ok := loop.Next(now, err)
			if !ok {
				longest = max(longest, now.Sub(epoch))
				return
			}
			now = now.Add(wait)
		}
		longest = max(longest, now.Sub(epoch)+p.AttemptTimeout)
		if len(made) < p.MaxAttempts-1 {
			for _, s := range steps {
				try(append(made, s))
			}
		}
	}
	try(nil)
	return longest
}

// Random policies, with the runs that Do makes.
func TestNoRunIsLongerThanLongest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	reached := 0
	for range 3000 {
		v := clockx.NewVirtual(epoch)
		worst := r.IntN(2) == 0
		p := retry.Policy{
			Clock: v, MaxAttempts: 1 + r.IntN(6), AttemptTimeout: 1 + time.Duration(r.IntN(20)), MaxRetryAfter: 1 + time.Duration(r.IntN(25)),
			Backoff: backoffs[1+r.IntN(len(backoffs)-1)], ThrottleBackoff: backoffs[r.IntN(len(backoffs))],
			Rand: func() float64 {
				if worst {
					return 1
				}
				return r.Float64()
			},
		}
		if r.IntN(2) == 0 {
			p.MaxElapsed = time.Duration(r.IntN(100))
		}
		if r.IntN(8) == 0 {
			pace := &pace.Pace{Clock: v}
			pace.Hold(time.Duration(r.IntN(60)))
			p.Guards = []retry.Guard{pace}
		}
		err := retry.Run(t.Context(), p, func(ctx context.Context) error {
			took, hint := time.Hour, p.MaxRetryAfter
			if !worst {
				took, hint = time.Duration(r.IntN(25)), time.Duration(r.IntN(25))
			}
			_ = v.Sleep(ctx, took)
			if r.IntN(2) == 0 {
				return asking{hint}
			}
			return retry.After(errDown, hint)
		})
		e, _ := errors.AsType[*retry.Error](err)
		switch longest := p.Longest(); {
		case e.Elapsed > longest:
			t.Fatalf("%s: a run took %v, longer than %v", fmt.Sprintf("%+v", p), e.Elapsed, longest)
		case e.Elapsed == longest:
			reached++
		}
	}
	if t.Log("reached:", reached); reached < 300 {
		t.Errorf("Longest was reached %d times: too few", reached)
	}
}
