package retry_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goretry/retry"
)

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
