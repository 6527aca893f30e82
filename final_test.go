package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/goretry/retry"
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
		"behind As": func(err error) error { return behindAs{err} },
		"the last error of a run of one attempt": func(err error) error {
			return ended(retry.ReasonMaxAttempts, 1, err)
		},
		"the last error of a run that no reason ended": func(err error) error { return ended(retry.ReasonNone, 1, err) },
	}
	hide := map[string]func(error) error{
		"in a canceled run":             func(err error) error { return ended(retry.ReasonCanceled, 3, err) },
		"in a run that had to wait":     func(err error) error { return ended(retry.ReasonRetryAfter, 3, err) },
		"in a canceled run behind As":   func(err error) error { return behindAs{ended(retry.ReasonCanceled, 1, err)} },
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
		"behind As":       {behindAs{retry.Stop(errDown)}, true},
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

// behindAs shows an error by its method As alone.
type behindAs struct{ err error }

func (b behindAs) Error() string      { return b.err.Error() }
func (b behindAs) As(target any) bool { return errors.As(b.err, target) }

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
