package pace_test

import (
	"context"
	"errors"
	"math"
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

// A Pace that hears of throttled attempts while another guard is in the policy, too.
func TestPaceBesideAnotherGuardHearsOfThrottledAttempts(t *testing.T) {
	for name, guards := range map[string]func(*pace.Pace) []retry.Guard{
		"alone":  func(p *pace.Pace) []retry.Guard { return []retry.Guard{p} },
		"first":  func(p *pace.Pace) []retry.Guard { return []retry.Guard{p, make(places, 1)} },
		"second": func(p *pace.Pace) []retry.Guard { return []retry.Guard{nil, make(places, 1), p} },
	} {
		p, v := virtual()
		pace := &pace.Pace{Clock: v}
		p.MaxAttempts, p.Guards = 3, guards(pace)
		_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.After(errFlaky, 0) })
		if r := pace.Rate(); math.IsInf(r, 1) {
			t.Errorf("%s: rate %v after three throttled attempts", name, r)
		}
	}
}

// Nor does an open pace learn from that attempt, which the run does not ask at all.
func TestResumedRunTellsAnOpenPaceNothingOfItsFirstAttempt(t *testing.T) {
	for _, resumed := range []bool{true, false} { // the first of three runs, which are enough
		synctest.Test(t, func(t *testing.T) {
			var pace pace.Pace
			for i := range 3 {
				a := retry.Policy{Guards: []retry.Guard{&pace}, MaxAttempts: 1}.Attempts(t.Context())
				if resumed && i == 0 {
					a.Resumed()
				}
				for a.Next() {
					a.Judged(retry.Verdict{Err: errFlaky, Class: retry.Throttled})
				}
				time.Sleep(time.Second)
			}
			if open := math.IsInf(pace.Rate(), 1); open != resumed {
				t.Errorf("the first run is resumed: %v, and the pace is open: %v", resumed, open)
			}
		})
	}
}

// A Pace that paces from the second attempt on counts its waits, and not the attempts.
func TestWaitedIsWithoutAttemptsUnderAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Guards: []retry.Guard{new(pace.Pace)}, Backoff: retry.Constant(0), ThrottleBackoff: retry.Constant(0), MaxAttempts: 4}
		start := time.Now()
		err := retry.Run(t.Context(), p, func(context.Context) error {
			time.Sleep(time.Second)
			return status(429)
		})
		e, _ := errors.AsType[*retry.Error](err)
		if took := time.Since(start); e.Elapsed != took || e.Waited != took-4*time.Second {
			t.Errorf("4 attempts of a second in %v: elapsed %v, waited %v", took, e.Elapsed, e.Waited)
		}
	})
}

func TestHoldUnderOpenPaces(t *testing.T) {
	for _, guards := range [][]retry.Guard{nil, {nil}, {(*pace.Pace)(nil)}} {
		a := retry.Policy{Guards: guards}.Attempts(t.Context())
		a.Next()
		leave := a.Hold()
		a.Done(retry.After(errFlaky, 0))
		leave(retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errFlaky, Class: retry.Throttled}})
		a.Close()
	}
	// Each of three throttled streams counts once: when it has ended, and not before.
	v := clockx.NewVirtual(epoch)
	pace := &pace.Pace{Clock: v}
	p := retry.Policy{Guards: []retry.Guard{pace}, Clock: v, MaxAttempts: 1}
	throttled := retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errFlaky, Class: retry.Throttled}}
	a := p.Attempts(t.Context())
	a.Next()
	leave := a.Hold()
	a.Done(retry.After(errFlaky, 0))
	leave(retry.Exit{Ending: retry.Returned}) // this one counts nothing
	for i := range 3 {
		a := p.Attempts(t.Context())
		if !a.Next() {
			t.Fatal(a.Err())
		}
		leave := a.Hold()
		a.Done(retry.After(errFlaky, 0))
		if open := math.IsInf(pace.Rate(), 1); !open {
			t.Errorf("after %d streams and one more, which goes on, the rate is %v", i, pace.Rate())
		}
		leave(throttled)
		leave(throttled)
		leave(throttled)
		if open := math.IsInf(pace.Rate(), 1); open != (i < 2) {
			t.Errorf("after %d streams the rate is %v", i+1, pace.Rate())
		}
		v.Advance(time.Second)
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

func TestOpenPaceHearsOfAdmittedAttempts(t *testing.T) {
	for ending, paced := range map[retry.Ending]bool{retry.Returned: true, retry.Expired: true, retry.NotMade: false} {
		v := clockx.NewVirtual(epoch)
		pace := new(pace.Pace)
		p := retry.Policy{Clock: v, Guards: []retry.Guard{nil, pace}}
		for range 3 {
			leave, err := p.Admit(t.Context(), retry.Entry{})
			if err != nil {
				t.Fatal(err)
			}
			v.Advance(time.Second)
			leave(retry.Exit{Ending: ending, Verdict: retry.Verdict{Err: errFlaky, Class: retry.Throttled}})
		}
		if r := pace.Rate(); math.IsInf(r, 1) == paced {
			t.Errorf("%v: rate %v", ending, r)
		}
	}
}

// A pace without a clock is on that of the first policy, by whichever way it is used.
func TestAdmitOnTheClockOfThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clockx.NewVirtual(epoch)
		pace := new(pace.Pace)
		pace.SetRand(func() float64 { return 0 })
		leave, err := retry.Policy{Clock: v, Guards: []retry.Guard{pace}}.Admit(t.Context(), retry.Entry{})
		if err != nil {
			t.Fatal(err)
		}
		leave(retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errFlaky, Class: retry.Throttled}})
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
