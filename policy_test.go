package retry_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/goretry/retry"
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
