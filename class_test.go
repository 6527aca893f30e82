package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrytest"
)

func ended(reason retry.Reason, attempts int, errs ...error) *retry.Error {
	return &retry.Error{Reason: reason, Attempts: attempts, Errs: errs}
}

// Every reason, after no attempt, one and two, alone and in each kind of tree.
func TestFinalByEveryEndOfARun(t *testing.T) {
	wrap := map[string]func(error) error{
		"alone":     func(err error) error { return err },
		"wrapped":   func(err error) error { return fmt.Errorf("orders: %w", err) },
		"joined":    func(err error) error { return errors.Join(errDown, err) },
		"behind As": func(err error) error { return shownAs{err} },
		"the last error of a run of one attempt": func(err error) error {
			return ended(retry.ReasonMaxAttempts, 1, err)
		},
		"the last error of a run that no reason ended": func(err error) error { return ended(retry.ReasonNone, 1, err) },
	}
	hide := map[string]func(error) error{
		"in a canceled run":             func(err error) error { return ended(retry.ReasonCanceled, 3, err) },
		"in a run that had to wait":     func(err error) error { return ended(retry.ReasonRetryAfter, 3, err) },
		"in a canceled run behind As":   func(err error) error { return shownAs{ended(retry.ReasonCanceled, 1, err)} },
		"an older error of another run": func(err error) error { return ended(retry.ReasonMaxAttempts, 1, err, errDown) },
		"beside nothing, as text":       func(err error) error { return errors.New(err.Error()) },
	}
	for reason := retry.ReasonNone; reason <= retry.ReasonGuard+1; reason++ {
		for attempts := range 4 {
			want := false
			switch reason {
			case retry.ReasonPermanent, retry.ReasonRefused, retry.ReasonNotIdempotent:
				want = true
			case retry.ReasonMaxAttempts, retry.ReasonMaxElapsed, retry.ReasonDeadline, retry.ReasonBudget, retry.ReasonGuard:
				want = attempts > 1
			}
			run := ended(reason, attempts, errDown)
			for name, wrap := range wrap {
				if got := retry.Final(wrap(run)); got != want {
					t.Errorf("%v after %d attempts, %s: %v, want %v", reason, attempts, name, got, want)
				}
				if got := retry.AlreadyRetried(wrap(run)) == retry.Permanent; got != want {
					t.Errorf("%v after %d attempts, %s: already retried: %v, want %v", reason, attempts, name, got, want)
				}
			}
			for name, hide := range hide {
				if retry.Final(hide(run)) {
					t.Errorf("%v after %d attempts, %s: it says no", reason, attempts, name)
				}
			}
		}
	}
}

func TestFinalByMarks(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"nil":             {nil, false},
		"a poll":          {ended(retry.ReasonMaxAttempts, 5, retry.ErrRejected), false}, // it may come again
		"a poll, wrapped": {ended(retry.ReasonMaxElapsed, 5, fmt.Errorf("job: %w", retry.ErrRejected)), false},
		"after a poll":    {ended(retry.ReasonMaxAttempts, 5, retry.ErrRejected, errDown), true},
		"a nil *Error":    {(*retry.Error)(nil), false},
		"plain":           {errDown, false},
		"permanent":       {context.Canceled, false}, // by itself no verdict of a layer that retries
		"Stop":            {retry.Stop(errDown), true},
		"Refuse":          {fmt.Errorf("x: %w", retry.Refuse(errDown)), true},
		"behind As":       {shownAs{retry.Stop(errDown)}, true},
		"After":           {retry.After(errDown, time.Second), false},
		"After first":     {errors.Join(retry.After(errDown, 0), retry.Stop(errDown)), false}, // as a run takes it
		"Stop in a run":   {ended(retry.ReasonMaxAttempts, 1, fmt.Errorf("x: %w", retry.Stop(errDown))), false},
		"Stop around one": {retry.Stop(ended(retry.ReasonCanceled, 1, errDown)), true},
		"After and a run": {errors.Join(ended(retry.ReasonMaxAttempts, 2, errDown), retry.After(errDown, 0)), true},
		"Stop beside one": {errors.Join(ended(retry.ReasonCanceled, 1, errDown), retry.Stop(errDown)), true},
		"a run of none":   {errors.Join(ended(retry.ReasonMaxAttempts, 1), errDown), false},
		"two runs":        {errors.Join(ended(retry.ReasonCanceled, 1, errDown), ended(retry.ReasonBudget, 2, errDown)), true},
	} {
		if got := retry.Final(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// shownAs shows an error by its method As alone.
type shownAs struct{ err error }

func (b shownAs) Error() string      { return b.err.Error() }
func (b shownAs) As(target any) bool { return errors.As(b.err, target) }

func TestNilPointersSayNothing(t *testing.T) {
	if retry.Final(fmt.Errorf("orders: %w", (*url.Error)(nil))) {
		t.Error("a nil pointer refuses a retry")
	}
}

// answered is the error of a package that knows whether the error is an answer.
type answered bool

func (a answered) Error() string { return "answered" }
func (a answered) Final() bool   { return bool(a) }

// nilAnswered has a method that does not survive a nil pointer.
type nilAnswered struct{ final bool }

func (a *nilAnswered) Error() string { return "answered" }
func (a *nilAnswered) Final() bool   { return a.final }

func TestAnErrorMaySayThatItIsFinal(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"yes":                       {answered(true), true},
		"no":                        {answered(false), false},
		"wrapped":                   {fmt.Errorf("orders: %w", answered(true)), true},
		"below one that says no":    {fmt.Errorf("%w, %w", answered(false), answered(true)), true},
		"joined":                    {errors.Join(errors.New("x"), answered(true)), true},
		"in a run of one attempt":   {&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{answered(true)}}, true},
		"in a canceled run":         {&retry.Error{Reason: retry.ReasonCanceled, Attempts: 1, Errs: []error{answered(true)}}, false},
		"an older error of a run":   {&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{answered(true), errors.New("x")}}, false},
		"a nil pointer, which none": {(*nilAnswered)(nil), false},
	} {
		if got := retry.Final(tt.err); got != tt.want {
			t.Errorf("%s: Final = %v, want %v", name, got, tt.want)
		}
	}
	if p := (retry.Policy{}); p.Judge(answered(true)).Class != retry.Transient {
		t.Error("the method has decided the class")
	}
}

// errMiss is what a cache returns for a key that it does not hold.
var errMiss error = miss{"user:7"}

type miss struct{ key string }

func (m miss) Error() string { return "no " + m.key }

func TestAnswerIsASuccessToAllButTheCaller(t *testing.T) {
	for _, tt := range []struct {
		name     string
		errs     []error // of the attempts before
		text     string
		retried  retry.Class
		attempts int
	}{
		{"at once", nil, "get: answered after 1 attempt in 0s: no user:7", retry.Unknown, 1},
		{"after a retry", []error{errDown}, "get: answered after 2 attempts in 1s: no user:7", retry.Transient, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			b := new(countingBudget)
			p := retry.Policy{
				Name: "get", NonIdempotent: len(tt.errs) == 0, Budget: b, Backoff: retry.Constant(time.Second), Clock: clockx.NewVirtual(epoch),
				Hooks: retry.SlogHooks(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))),
			}
			seen := record(&p)
			v, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) {
				if n := retry.AttemptNumber(ctx); n <= len(tt.errs) {
					return 0, tt.errs[n-1]
				}
				return 7, fmt.Errorf("get: %w", retry.Answer(errMiss))
			})
			e, ok := errors.AsType[*retry.Error](err)
			if v != 7 || !ok || !e.Answered || e.Reason != retry.ReasonPermanent || e.Attempts != tt.attempts {
				t.Fatalf("Do = %v, %#v", v, err)
			}
			if m, ok := errors.AsType[miss](err); !ok || m.key != "user:7" || !errors.Is(err, errMiss) {
				t.Errorf("%v does not hold the answer", err)
			}
			if got := strings.Replace(err.Error(), "get: no", "no", 1); got != tt.text {
				t.Errorf("the error is %q, want %q", got, tt.text)
			}
			if b.ended != 1 || !b.ok || b.retried != tt.retried {
				t.Errorf("the budget was told %+v", b)
			}
			if s := seen.summary; !s.Answered || !errors.Is(s.Err, err) || s.Reason != retry.ReasonPermanent {
				t.Errorf("Done got %+v", s)
			}
			for i, a := range seen.attempts {
				if want := i == tt.attempts-1; a.Answered != want {
					t.Errorf("AttemptDone got %+v, want Answered %v", a, want)
				}
			}
			if log.Len() > 0 {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

func TestOnlyTheMarkIsAnAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		end      retry.Reason
		answered bool
	}{
		"marked":                     {retry.Answer(errMiss), retry.ReasonPermanent, true},
		"wrapped":                    {fmt.Errorf("get: %w", retry.Answer(errMiss)), retry.ReasonPermanent, true},
		"throttled without the mark": {retry.Answer(retry.After(errMiss, time.Hour)), retry.ReasonPermanent, true},
		"joined, as the first":       {errors.Join(retry.Answer(errMiss), retry.Stop(errDown)), retry.ReasonPermanent, true},
		"joined, as the second":      {errors.Join(retry.Stop(errDown), retry.Answer(errMiss)), retry.ReasonPermanent, false},
		"in another mark":            {retry.Stop(retry.Answer(errMiss)), retry.ReasonPermanent, false},
		"refused":                    {retry.Refuse(retry.Answer(errMiss)), retry.ReasonRefused, false},
		"a poll that was stopped":    {retry.Stop(retry.ErrRejected), retry.ReasonPermanent, false},
		"not marked":                 {errMiss, retry.ReasonNone, false},
	} {
		v := retry.Policy{}.Judge(tt.err)
		if (retry.Policy{}).Ends(v) != tt.end || v.Answered != tt.answered || v.Hint != 0 {
			t.Errorf("%s: Judge = %+v", name, v)
		}
	}
	if v := (retry.Policy{}).Judge(retry.After(retry.Answer(errMiss), time.Second)); v.Class != retry.Throttled || v.Answered {
		t.Errorf("Judge = %+v, want a Throttled error that costs the budget", v)
	}
	if !retry.Final(retry.Answer(errMiss)) {
		t.Error("an answer is not final")
	}
	if retry.Answer(nil) != nil {
		t.Error("Answer(nil) is an error")
	}
}

// A poll with the server's interval is no 429: not to a guard, not to ThrottleBackoff, and not
// to whoever gives a verdict.
func TestAPollWithAnIntervalIsNotThrottled(t *testing.T) {
	for name, err := range map[string]error{
		"marked":            retry.After(retry.ErrRejected, time.Second),
		"wrapped":           fmt.Errorf("job: %w", retry.After(retry.ErrRejected, time.Second)),
		"wrapped below":     retry.After(fmt.Errorf("job: %w", retry.ErrRejected), time.Second),
		"joined":            retry.After(errors.Join(errDown, retry.ErrRejected), time.Second),
		"undone":            retry.Undone(retry.After(retry.ErrRejected, time.Second)),
		"in a method":       waitsFor{time.Second, retry.ErrRejected},
		"marked, in a mark": retry.After(retry.After(retry.ErrRejected, time.Minute), time.Second),
	} {
		h := retrytest.New(t, retry.Policy{MaxAttempts: 2, ThrottleBackoff: retry.Constant(time.Hour), Backoff: retry.Constant(0)})
		p := h.Policy
		var seen []retry.Verdict
		p.Guards = []retry.Guard{callback{func(x retry.Exit) { seen = append(seen, x.Verdict) }}}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return err })
		h.AssertDelays(time.Second)
		for _, v := range seen {
			if v.Class != retry.Transient || !v.Answered || v.Hint != time.Second {
				t.Errorf("%s: a guard heard %+v", name, v)
			}
		}
		if len(seen) != 2 {
			t.Errorf("%s: a guard heard of %d attempts", name, len(seen))
		}
	}
	p := retry.Policy{Backoff: retry.Constant(0), ThrottleBackoff: retry.Constant(time.Hour)}
	loop := p.Start(time.Time{})
	if wait, ok := loop.Judged(time.Time{}, retry.Verdict{Err: errDown, Class: retry.Throttled, Answered: true}); wait != 0 || !ok {
		t.Errorf("Judged: %v, %v", wait, ok)
	}
	if v := p.Judge(retry.After(errDown, time.Second)); v.Class != retry.Throttled {
		t.Errorf("After: %+v", v)
	}
}

// Whether a miss is an answer to the outer op's caller, only that op knows.
func TestOuterRunFailsWithAnInnerAnswer(t *testing.T) {
	inner := func(ctx context.Context) error {
		return retry.Run(ctx, retry.Policy{}, func(context.Context) error { return retry.Answer(errMiss) })
	}
	for _, marked := range []bool{false, true} {
		b := new(countingBudget)
		p := retry.Policy{Budget: b}
		seen := record(&p)
		err := retry.Run(t.Context(), p, func(ctx context.Context) error {
			err := inner(ctx)
			if marked {
				err = retry.Answer(err)
			}
			return err
		})
		e, _ := errors.AsType[*retry.Error](err)
		if e.Reason != retry.ReasonPermanent || e.Attempts != 1 || !errors.Is(err, errMiss) {
			t.Errorf("marked %v: %v", marked, err)
		}
		if e.Answered != marked || b.ok != marked || seen.summary.Answered != marked || seen.attempts[0].Answered != marked {
			t.Errorf("marked %v: Answered %v, budget %v, Summary %v", marked, e.Answered, b.ok, seen.summary.Answered)
		}
	}
}

func TestAnswerThroughOtherDoors(t *testing.T) {
	p := retry.Policy{Backoff: retry.Constant(0)}
	check := func(name string, err error) {
		t.Helper()
		if e, ok := err.(*retry.Error); !ok || !e.Answered || !errors.Is(err, errMiss) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := new(countingBudget)
	p.Budget = b
	loop := p.Start(epoch)
	loop.Next(epoch, retry.Answer(errMiss))
	if check("Loop", loop.Err()); !b.ok {
		t.Error("Loop: the budget was told of a failure")
	}
	a := p.Attempts(t.Context())
	a.Next()
	a.Judged(retry.Verdict{Err: errMiss, Class: retry.Permanent, Answered: true, Marked: true})
	check("Attempts.Judged", a.Err())
	check("Supervise", retry.Supervise(t.Context(), p, 0, func(context.Context) error { return retry.Answer(errMiss) }))

	seen := record(&p)
	p.RunPart(t.Context(), retry.Part{Op: func(context.Context) retry.Verdict { return p.Judge(retry.Answer(errMiss)) }})
	if !seen.attempts[0].Answered {
		t.Errorf("RunPart: AttemptDone got %+v", seen.attempts[0])
	}
}

// A verdict that is Permanent and Answered by a slip of the code that gives it is a failure.
func TestOnlyAMarkedVerdictIsAnAnswer(t *testing.T) {
	slip := retry.Verdict{Err: errMiss, Class: retry.Permanent, Answered: true}
	if slip.IsAnswer() {
		t.Error("IsAnswer without Marked")
	}
	b := new(countingBudget)
	p := retry.Policy{Budget: b}
	seen := record(&p)
	a := p.Attempts(t.Context())
	a.Next()
	again := a.Judged(slip)
	if e, ok := a.Err().(*retry.Error); again || !ok || e.Reason != retry.ReasonPermanent || e.Answered || b.ended != 1 || b.ok || seen.attempts[0].Answered {
		t.Errorf("the run ended with %v, the budget saw %+v, hooks %+v", a.Err(), *b, seen.attempts)
	}
}
