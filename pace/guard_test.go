package pace_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
)

// A limit of two before a pace holds its places while attempts wait for their turn: at 0 s two
// take them, and of the others, which come again at 1 s and 2 s, one.
func TestOrderOfPaceAndLimit(t *testing.T) {
	for name, want := range map[string]int{"pace, limit": 20, "limit, pace": 3} {
		synctest.Test(t, func(t *testing.T) {
			pace := slowPace(clockx.System(), time.Second)
			limit := make(places, 2)
			p := retry.Policy{Guards: []retry.Guard{pace, limit}, MaxAttempts: 3, Backoff: retry.Constant(time.Second)}
			if name == "limit, pace" {
				slices.Reverse(p.Guards)
			}
			served := make(chan bool, 20)
			for range 20 {
				go func() {
					served <- retry.Run(t.Context(), p, func(context.Context) error { time.Sleep(1500 * time.Millisecond); return nil }) == nil
				}()
			}
			got := 0
			for range 20 {
				if <-served {
					got++
				}
			}
			if got != want || len(limit) != 0 {
				t.Errorf("%s: %d of 20 calls, want %d; %d places are taken", name, got, want, len(limit))
			}
		})
	}
}

func TestAdmitDoesNotWaitForATurn(t *testing.T) {
	pace := new(pace.Pace)
	pace.Hold(time.Second)
	_, err := retry.Policy{Guards: []retry.Guard{pace}}.Admit(t.Context(), retry.Entry{})
	if !errors.Is(err, retry.ErrPaced) {
		t.Errorf("under a pace that holds all: %v", err)
	}
}

// hint is a throttled attempt's.
func hint(d time.Duration) retry.Exit {
	return retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errFlaky, Class: retry.Throttled, Hint: d}}
}

// A Pace hears of throttled attempts while another guard is in the policy, too: six in a row hold all.
func TestPaceBesideAnotherGuardHearsOfThrottledAttempts(t *testing.T) {
	for name, guards := range map[string]func(*pace.Pace) []retry.Guard{
		"alone":  func(p *pace.Pace) []retry.Guard { return []retry.Guard{p} },
		"first":  func(p *pace.Pace) []retry.Guard { return []retry.Guard{p, make(places, 1)} },
		"second": func(p *pace.Pace) []retry.Guard { return []retry.Guard{nil, make(places, 1), p} },
	} {
		p, v := virtual()
		pace := &pace.Pace{Quota: 1000, Burst: 10, Clock: v}
		p.MaxAttempts, p.Guards = 1, guards(pace)
		for i := range 6 {
			if d := pace.Wait(); d != 0 {
				t.Errorf("%s: after %d throttled attempts the next waits %v", name, i, d)
			}
			v.Advance(400 * time.Millisecond)
			_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.After(errFlaky, 20*time.Second) })
		}
		if d := pace.Wait(); d != 20*time.Second {
			t.Errorf("%s: after six throttled attempts the next waits %v", name, d)
		}
	}
}

// A Pace counts its waits, and not the attempts.
func TestWaitedIsWithoutAttemptsUnderAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Guards: []retry.Guard{&pace.Pace{Quota: 1, Per: 3 * time.Second}}, Backoff: retry.Constant(0), ThrottleBackoff: retry.Constant(0), MaxAttempts: 4}
		start := time.Now()
		err := retry.Run(t.Context(), p, func(context.Context) error {
			time.Sleep(time.Second)
			return status(429)
		})
		e, _ := errors.AsType[*retry.Error](err)
		if took := time.Since(start); e.Elapsed != took || e.Waited != took-4*time.Second || took < 10*time.Second {
			t.Errorf("4 attempts of a second in %v: elapsed %v, waited %v", took, e.Elapsed, e.Waited)
		}
	})
}

// Each of six throttled streams counts once: when it has ended, and not before.
func TestStreamsUnderAPace(t *testing.T) {
	for _, guards := range [][]retry.Guard{nil, {nil}, {(*pace.Pace)(nil)}, {new(pace.Pace)}} {
		a := retry.Policy{Guards: guards}.Attempts(t.Context())
		a.Next()
		leave := a.Hold()
		a.Done(retry.After(errFlaky, 0))
		leave(hint(0))
		a.Close()
	}
	v := clockx.NewVirtual(epoch)
	pace := &pace.Pace{Quota: 1000, Burst: 10, Clock: v}
	p := retry.Policy{Guards: []retry.Guard{pace}, Clock: v, MaxAttempts: 1}
	for i := range 6 {
		v.Advance(400 * time.Millisecond)
		a := p.Attempts(t.Context())
		if !a.Next() {
			t.Fatal(a.Err())
		}
		leave := a.Hold()
		a.Done(retry.After(errFlaky, 0))
		if d := pace.Wait(); d != 0 {
			t.Errorf("after %d streams and one more, which goes on, the next waits %v", i, d)
		}
		for range 3 {
			leave(hint(time.Minute))
		}
		if d := pace.Wait(); (d > 0) != (i == 5) {
			t.Errorf("after %d streams the next waits %v", i+1, d)
		}
	}
}

// An attempt that was not made, or was there before the quota, says nothing about it.
func TestAdmittedAttemptsUnderAPace(t *testing.T) {
	for name, tt := range map[string]struct {
		ending retry.Ending
		before bool
		held   bool
	}{
		"returned": {retry.Returned, false, true}, "expired": {retry.Expired, false, true}, "not made": {retry.NotMade, false, false},
		"before the quota": {retry.Returned, true, false},
	} {
		v := clockx.NewVirtual(epoch)
		pace := &pace.Pace{Clock: v}
		p := retry.Policy{Clock: v, Guards: []retry.Guard{nil, pace}}
		if !tt.before {
			pace.Tell(1000, time.Second, 1000, 0)
		}
		var leaves []func(retry.Exit)
		for range 6 {
			leave, err := p.Admit(t.Context(), retry.Entry{})
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		if tt.before {
			pace.Tell(1000, time.Second, 1000, 6)
		}
		for _, leave := range leaves {
			x := hint(20 * time.Second)
			x.Ending = tt.ending
			v.Advance(400 * time.Millisecond)
			leave(x)
		}
		if d := pace.Wait(); (d > 0) != tt.held {
			t.Errorf("%s: the next waits %v", name, d)
		}
	}
}

// A pace without a clock is on that of the first policy, by whichever way it is used.
func TestAdmitOnTheClockOfThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clockx.NewVirtual(epoch)
		pace := new(pace.Pace)
		if _, err := (retry.Policy{Clock: v, Guards: []retry.Guard{pace}}).Admit(t.Context(), retry.Entry{}); err != nil {
			t.Fatal(err)
		}
		pace.Hold(time.Second)
		time.Sleep(time.Hour)
		if d := pace.Wait(); d != time.Second {
			t.Errorf("an hour of the system's clock later the wait is %v", d)
		}
		if v.Advance(time.Second); pace.Wait() != 0 {
			t.Errorf("a second later the wait is %v", pace.Wait())
		}
	})
}
