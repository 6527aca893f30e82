package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/race"
)

// healthy is how long an op must be up.
const healthy = 10 * sec

// life is one call of op: how long it is up, and what it returns.
type life struct {
	up  time.Duration
	err error
}

// supervision is what one call of Supervise is made with.
type supervision struct {
	maxAttempts   int
	maxElapsed    time.Duration
	deadline      time.Duration // of the caller, 0: none
	cancel        time.Duration // when the caller cancels, 0: never
	maxRetryAfter time.Duration
	nonIdempotent bool
	refuse        bool // the budget refuses every retry
	lives         [3]life
}

// diary is what is seen of a call of Supervise, line by line. Errs are written with
// %#v: their addresses tell a mark from what it marks.
type diary struct{ lines []string }

func (d *diary) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// expected is the call by the rules.
func (s supervision) expected() *diary {
	d := new(diary)
	now, called := time.Duration(0), 0
	ended := func() retry.Reason {
		switch {
		case s.cancel > 0 && now >= s.cancel && (s.deadline == 0 || s.cancel < s.deadline):
			return retry.ReasonCanceled
		case s.deadline > 0 && now >= s.deadline:
			return retry.ReasonDeadline
		}
		return retry.ReasonNone
	}
	sleep := func(took time.Duration) (whole bool) {
		end := now + took
		for _, at := range []time.Duration{s.cancel, s.deadline} {
			if at > 0 && at <= end {
				end, whole = min(end, max(at, now)), true
			}
		}
		now = end
		return !whole
	}
	var last []error
	pause, pauseFor := time.Duration(0), ""
	for {
		began, waited, errs, retried := now, time.Duration(0), last, retry.Unknown
		finish := func(n int, why retry.Reason) {
			d.add("done %v: %d attempts, %v elapsed, %v waited", why, n, now-began, waited)
			if why != retry.ReasonNone {
				d.add("%v: %d attempts, %v elapsed, %v waited, %#v", why, n, now-began, waited, errs)
			}
		}
		d.add("%v start", now)
		if why := ended(); why != retry.ReasonNone {
			finish(0, why)
			return d
		}
		if last != nil {
			d.add("wait after 0 of %v: %s", pause, pauseFor)
			sleep(pause)
			waited = now - began
			if why := ended(); why != retry.ReasonNone {
				finish(0, why)
				return d
			}
		}
		paused := waited
		errs = nil
		again := false
		for n := 1; !again; n++ {
			d.add("attempt %d", n)
			l, up := life{}, now
			if called < len(s.lives) {
				l = s.lives[called]
			}
			called++
			d.add("%v op %d", now, n)
			if !sleep(l.up) {
				l.err = errEnded
			}
			if l.err == nil {
				d.add("end %v true", retried)
				d.add("attemptDone %d after %v: <nil>, then %v", n, now-up, time.Duration(0))
				finish(n, retry.ReasonNone)
				return d
			}
			class, hint, first := retry.Transient, time.Duration(0), sec
			err := l.err
			switch {
			case errors.Is(err, errHint):
				class, hint, first, err = retry.Throttled, sec, least, errHint
			case errors.Is(err, errLongHint):
				class, hint, first, err = retry.Throttled, 3*hour, least, errLongHint
			case errors.Is(err, errStop):
				class, err = retry.Permanent, errStop
			case errors.Is(err, errRefused):
				class, err = retry.Permanent, errRefused
			}
			errs = append(errs, err)
			live, paid := now-up >= healthy, true
			backoff := first
			if !live && class != retry.Throttled {
				backoff = sec << (n - 1)
			}
			wait := min(hint, hour) + backoff
			why := ended()
			switch {
			case why != retry.ReasonNone:
			case err == errRefused:
				why = retry.ReasonRefused
			case class == retry.Permanent:
				why = retry.ReasonPermanent
			case s.nonIdempotent && hint == 0:
				why = retry.ReasonNotIdempotent
			case !live && s.maxAttempts > 0 && n >= s.maxAttempts:
				why = retry.ReasonMaxAttempts
			case s.maxRetryAfter > 0 && hint > s.maxRetryAfter:
				why = retry.ReasonRetryAfter
			case !live && s.maxElapsed > 0 && now-began-paused+wait > s.maxElapsed:
				why = retry.ReasonMaxElapsed
			case s.deadline > 0 && now+wait >= s.deadline:
				why = retry.ReasonDeadline
			case live:
			default:
				if d.add("withdraw %v", class); s.refuse { // the retry comes later
					paid = false
					wait += backoff + sec
					if s.maxElapsed > 0 {
						wait = min(wait, s.maxElapsed-(now-began-paused))
					}
					if s.deadline > 0 && now+wait >= s.deadline {
						why = retry.ReasonDeadline
					}
				}
			}
			told := wait
			if live || why != retry.ReasonNone {
				d.add("end %v %v", retried, why == retry.ReasonNone)
				told = 0
			}
			d.add("attemptDone %d after %v: %v, then %v", n, now-up, err, told)
			switch {
			case why != retry.ReasonNone:
				finish(n, why)
				return d
			case live:
				finish(n, why)
				last, again = []error{err}, true
				pause, pauseFor = wait, fmt.Sprintf("%v, %v, %v", err, class, hint)
			default:
				d.add("wait after %d of %v: %v, %v, %v", n, wait, err, class, hint)
				if paid {
					retried = class
				}
				before := now
				sleep(wait)
				waited += now - before
				if why := ended(); why != retry.ReasonNone {
					d.add("end %v false", retried)
					finish(n, why)
					return d
				}
			}
		}
	}
}

var (
	errDown     = errors.New("down")
	errEnded    = errors.New("the context ended")
	errHint     = errors.New("come back in a second")
	errLongHint = errors.New("come back in three hours")
	errStop     = errors.New("never")
	errRefused  = errors.New("not by you")
)

// ledger is a budget that writes down what it is told.
type ledger struct {
	*diary
	refuse bool
}

func (l ledger) Withdraw(w retry.Withdrawal) bool {
	l.add("withdraw %v", w.Class)
	return !l.refuse
}

func (l ledger) End(o retry.Outcome) { l.add("end %v %v", o.Retried, o.OK) }

// seen is the call itself, on clock.
func (s supervision) seen(clock clockx.Clock, after func(time.Duration, func())) *diary {
	d := new(diary)
	start := clock.Now()
	now := func() time.Duration { return clock.Now().Sub(start) }
	p := retry.Policy{
		MaxAttempts: s.maxAttempts, MaxElapsed: s.maxElapsed, MaxRetryAfter: s.maxRetryAfter, NonIdempotent: s.nonIdempotent, Clock: clock, Budget: ledger{d, s.refuse},
		Rand:    func() float64 { return 0 },
		Backoff: retry.Exponential{Base: sec, Jitter: retry.NoJitter}, ThrottleBackoff: retry.Constant(least),
		Hooks: retry.Hooks{
			Start:   func(ctx context.Context, _ retry.Policy) context.Context { d.add("%v start", now()); return ctx },
			Attempt: func(ctx context.Context, a retry.Attempt) context.Context { d.add("attempt %d", a.Number); return ctx },
			AttemptDone: func(_ context.Context, a retry.Attempt) {
				d.add("attemptDone %d after %v: %v, then %v", a.Number, a.Duration, a.Err, a.Delay)
			},
			Wait: func(_ context.Context, a retry.Attempt) {
				d.add("wait after %d of %v: %v, %v, %v", a.Number, a.Delay, a.Err, a.Class, a.Hint)
			},
			Done: func(_ context.Context, s retry.Summary) {
				d.add("done %v: %d attempts, %v elapsed, %v waited", s.Reason, s.Attempts, s.Elapsed, s.Waited)
			},
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.cancel > 0 {
		after(s.cancel, cancel)
	}
	if s.deadline > 0 {
		ctx, cancel = clock.WithTimeoutCause(ctx, s.deadline, nil)
		defer cancel()
	}
	called := 0
	err := retry.Supervise(ctx, p, healthy, func(ctx context.Context) error {
		d.add("%v op %d", now(), retry.AttemptNumber(ctx))
		l := life{}
		if called < len(s.lives) {
			l = s.lives[called]
		}
		called++
		if clock.Sleep(ctx, l.up) != nil {
			return errEnded
		}
		return l.err
	})
	if e, ok := err.(*retry.Error); ok {
		d.add("%v: %d attempts, %v elapsed, %v waited, %#v", e.Reason, e.Attempts, e.Elapsed, e.Waited, e.Errs)
	}
	return d
}

func TestEverySupervise(t *testing.T) {
	var all []life
	for _, up := range []time.Duration{0, healthy - 1, healthy} {
		for _, err := range []error{errDown, retry.After(errHint, sec), retry.After(errLongHint, 3*hour), retry.Stop(errStop), retry.Refuse(errRefused)} {
			all = append(all, life{up, err})
		}
	}
	compared := 0
	compare := func(s supervision, clock clockx.Clock, after func(time.Duration, func())) {
		compared++
		got, want := s.seen(clock, after).lines, s.expected().lines
		if !slices.Equal(got, want) {
			t.Fatalf("%+v on %T gave\n\t%s\nwant\n\t%s", s, clock, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	for i := range len(all) * len(all) * len(all) {
		if race.Enabled && i%16 != 0 || !longTests && i%4 != 0 {
			continue // few under the race detector: there is one goroutine
		}
		s := supervision{lives: [3]life{all[i%len(all)], all[i/len(all)%len(all)], all[i/len(all)/len(all)]}}
		for _, s.maxAttempts = range []int{0, 1, 2} {
			for _, s.maxElapsed = range []time.Duration{0, 3 * sec} {
				for _, end := range [][2]time.Duration{{}, {healthy + sec/2, 0}, {0, healthy + sec/2}, {0, healthy + sec}, {0, 2*healthy + 2*sec + sec/2}, {2*healthy + 5*sec, 0}, {healthy + 3*sec, 0}} {
					s.deadline, s.cancel = end[0], end[1]
					s.nonIdempotent, s.refuse, s.maxRetryAfter = i%5 == 4, i%7 == 6, time.Duration(i%3/2)*2*hour
					v := clockx.NewVirtual(epoch)
					compare(s, v, func(d time.Duration, f func()) { v.AfterFunc(d, f) })
				}
			}
		}
		s.deadline = 0
		if i%16 == 0 {
			synctest.Test(t, func(t *testing.T) {
				for _, s.cancel = range []time.Duration{0, healthy + sec/2, 2*healthy + sec/4} {
					compare(s, clockx.System(), func(d time.Duration, f func()) { time.AfterFunc(d, f) })
				}
			})
		}
	}
	t.Logf("compared %d calls", compared)
}
