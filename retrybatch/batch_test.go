package retrybatch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/budgettest"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

var errBusy = errors.New("busy")

// failing returns a send that fails the items for which fails returns an error.
func failing(fails func(call, item int) error) func(context.Context, []int) error {
	return func(ctx context.Context, open []int) error {
		failed := map[int]error{}
		for i, item := range open {
			failed[i] = fails(retry.AttemptNumber(ctx), item)
		}
		return retrybatch.Partial(failed)
	}
}

func batchError(t *testing.T, err error) *retrybatch.Error {
	t.Helper()
	e, ok := errors.AsType[*retrybatch.Error](err)
	if !ok {
		t.Fatalf("err = %v, want an *Error", err)
	}
	return e
}

func TestOnlyFailedItemsAreSentAgain(t *testing.T) {
	h := retrytest.New(t, retry.Policy{Backoff: retry.Constant(time.Second)})
	var calls [][]int
	err := retrybatch.Run(t.Context(), h.Policy, []int{10, 11, 12, 13}, func(ctx context.Context, open []int) error {
		calls = append(calls, slices.Clone(open))
		return failing(func(call, item int) error {
			if call == 1 && item%2 == 1 || call == 2 && item == 13 {
				return errBusy
			}
			return nil
		})(ctx, open)
	})
	if want := [][]int{{10, 11, 12, 13}, {11, 13}, {13}}; err != nil || !reflect.DeepEqual(calls, want) {
		t.Errorf("calls %v, error %v; want %v and none", calls, err, want)
	}
	h.AssertDelays(time.Second, time.Second)
}

func TestFirstSliceIsTheCallers(t *testing.T) {
	items := []int{1, 2, 3}
	_ = retrybatch.Run(t.Context(), retry.Policy{}, items, func(_ context.Context, open []int) error {
		if &open[0] != &items[0] {
			t.Error("the first call gets a copy")
		}
		return nil
	})
}

func TestNoItems(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := retry.Policy{Hooks: retry.Hooks{Done: func(context.Context, retry.Summary) { t.Error("a run was made") }}}
	values, err := retrybatch.Do(ctx, p, nil, func(context.Context, []int) ([]int, error) {
		t.Error("send was called")
		return nil, nil
	})
	if values != nil || err != nil {
		t.Errorf("Do() = %v, %v; want nil, nil", values, err)
	}
}

func TestNilArguments(t *testing.T) {
	send := func(context.Context, []int) error { return nil }
	var none context.Context
	for _, tt := range []struct {
		name string
		call func()
		want string
	}{
		{"Run, nil send", func() { _ = retrybatch.Run(t.Context(), retry.Policy{}, []int{}, nil) }, "retrybatch: nil send"},
		{"Do, nil send", func() { _, _ = retrybatch.Do[int, int](t.Context(), retry.Policy{}, nil, nil) }, "retrybatch: nil send"},
		{"nil context", func() { _ = retrybatch.Run(none, retry.Policy{}, []int{}, send) }, "retrybatch: nil context"},
	} {
		func() {
			defer func() {
				if got := recover(); got != tt.want {
					t.Errorf("%s: panic %v, want %q", tt.name, got, tt.want)
				}
			}()
			tt.call()
		}()
	}
}

func TestValues(t *testing.T) {
	t.Run("all done at once: send's own slice", func(t *testing.T) {
		own := []string{"a", "b"}
		values, err := retrybatch.Do(t.Context(), retry.Policy{}, []int{1, 2}, func(context.Context, []int) ([]string, error) { return own, nil })
		if err != nil || &values[0] != &own[0] {
			t.Errorf("Do() = %v, %v; want send's slice", values, err)
		}
	})
	t.Run("send's slice is not written to", func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{})
		own := []int{1, 2}
		values, err := retrybatch.Do(t.Context(), h.Policy, []int{1, 2}, func(ctx context.Context, open []int) ([]int, error) {
			if retry.AttemptNumber(ctx) == 1 {
				return own, retrybatch.Partial(map[int]error{1: errBusy})
			}
			return []int{20}, nil
		})
		if want := []int{1, 20}; err != nil || !slices.Equal(values, want) || own[1] != 2 {
			t.Errorf("Do() = %v, %v; want %v; send's first slice is now %v", values, err, want, own)
		}
	})
	for name, first := range map[string]error{
		"send uses its slice again":                     retrybatch.Partial(map[int]error{1: errBusy}),
		"send uses its slice again after a failed call": errBusy,
	} {
		t.Run(name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{})
			var own []int
			values, err := retrybatch.Do(t.Context(), h.Policy, []int{1, 2}, func(ctx context.Context, open []int) ([]int, error) {
				own = own[:0]
				for _, n := range open {
					own = append(own, 10*n+retry.AttemptNumber(ctx))
				}
				switch retry.AttemptNumber(ctx) {
				case 1:
					return own, first
				case 2:
					return own, retrybatch.Partial(map[int]error{len(open) - 1: errBusy})
				}
				return own, nil
			})
			want := []int{11, 23}
			if first == errBusy {
				want = []int{12, 23}
			}
			if err != nil || !slices.Equal(values, want) {
				t.Errorf("Do() = %v, %v; want %v", values, err, want)
			}
		})
	}
	t.Run("none at all", func(t *testing.T) {
		values, err := retrybatch.Do(t.Context(), retry.Policy{}, []int{1, 2}, func(context.Context, []int) ([]int, error) {
			return nil, retry.Stop(errBusy)
		})
		if !slices.Equal(values, []int{0, 0}) || err == nil {
			t.Errorf("Do() = %v, %v; want two zeros and an error", values, err)
		}
	})
}

// An answer that does not fit ends the run: a guess would lose items or send some
// twice.
func TestAnswersThatDoNotFit(t *testing.T) {
	partial := func(positions ...int) error {
		errs := map[int]error{}
		for _, i := range positions {
			errs[i] = errBusy
		}
		return retrybatch.Partial(errs)
	}
	for _, tt := range []struct {
		name   string
		items  int
		values int
		err    error
		want   string
	}{
		{"too few values", 4, 3, nil, "retrybatch: send returned 3 values for 4 items"},
		{"too many", 1, 2, nil, "retrybatch: send returned 2 values for 1 item"},
		{"none", 2, 0, partial(0), "retrybatch: send returned 0 values for 2 items"},
		{"one", 2, 1, partial(0), "retrybatch: send returned 1 value for 2 items"},
		{"below", 4, 4, partial(2, -1), "retrybatch: send returned an error for item -1 of 4"},
		{"the lowest", 4, 4, partial(9, -1, 8, -7), "retrybatch: send returned an error for item -7 of 4"},
		{"just above", 4, 4, partial(0, 4), "retrybatch: send returned an error for item 4 of 4"},
		{"under a mark", 4, 4, retry.After(partial(4), time.Second), "retrybatch: send returned an error for item 4 of 4"},
	} {
		h := retrytest.New(t, retry.Policy{Classify: func(err error) retry.Class {
			t.Errorf("%s: Classify got %v", tt.name, err)
			return retry.Transient
		}})
		_, err := retrybatch.Do(t.Context(), h.Policy, make([]int, tt.items), func(context.Context, []int) ([]int, error) {
			return make([]int, tt.values), tt.err
		})
		e := batchError(t, err)
		if len(e.Failed) != tt.items || len(h.Attempts()) != 1 {
			t.Errorf("%s: %d items failed in %d calls, want all %d in one", tt.name, len(e.Failed), len(h.Attempts()), tt.items)
		}
		for _, f := range e.Failed {
			if f.Err.Reason != retry.ReasonPermanent || f.Err.Last().Error() != tt.want {
				t.Errorf("%s: item %d: %v, %v; want permanent, %s", tt.name, f.Index, f.Err.Reason, f.Err.Last(), tt.want)
			}
		}
	}
}

// A nil error beside a bad position names no item.
func TestNilErrorsNameNothing(t *testing.T) {
	if err := retrybatch.Partial(map[int]error{-1: nil, 3: nil}); err != nil {
		t.Errorf("Partial() = %v, want nil", err)
	}
	if err := retrybatch.Partial(nil); err != nil {
		t.Errorf("Partial(nil) = %v", err)
	}
	h := retrytest.New(t, retry.Policy{})
	err := retrybatch.Run(t.Context(), h.Policy, []int{1, 2}, func(ctx context.Context, open []int) error {
		if retry.AttemptNumber(ctx) > 1 {
			return nil
		}
		return retrybatch.Partial(map[int]error{-1: nil, 1: errBusy, 7: nil})
	})
	if err != nil || len(h.Attempts()) != 2 {
		t.Errorf("err = %v after %d calls, want none after 2", err, len(h.Attempts()))
	}
}

func TestPartialHidesItsErrors(t *testing.T) {
	err := retrybatch.Partial(map[int]error{3: retry.Stop(errBusy), 1: errors.New("full"), 9: nil})
	if errors.Is(err, errBusy) {
		t.Error("errors.Is looks into a Partial")
	}
	for range 20 { // maps have no order
		err := retrybatch.Partial(map[int]error{3: errBusy, 1: errors.New("full"), 9: nil, 2: errBusy})
		if got, want := err.Error(), "3 items failed: item 1: full"; got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
	}
	if got, want := retrybatch.Partial(map[int]error{3: errBusy}).Error(), "1 item failed: item 3: busy"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestClassifyJudgesItemsAndWholeCalls(t *testing.T) {
	p := retry.Policy{Classify: func(err error) retry.Class {
		if err == errBusy {
			return retry.Permanent
		}
		return retry.Unknown
	}}
	for name, send := range map[string]func(context.Context, []int) error{
		"whole call": func(context.Context, []int) error { return errBusy },
		"item":       failing(func(int, int) error { return errBusy }),
	} {
		h := retrytest.New(t, p)
		_ = retrybatch.Run(t.Context(), h.Policy, []int{0}, send)
		if n := len(h.Attempts()); n != 1 {
			t.Errorf("%s: %d calls, want 1", name, n)
		}
		h.AssertReason(retry.ReasonPermanent)
	}
}

func TestHooksSeeOneAttemptPerCall(t *testing.T) {
	h := retrytest.New(t, retry.Policy{Name: "put", Backoff: retry.Constant(time.Second)})
	errBad := errors.New("malformed")
	err := retrybatch.Run(t.Context(), h.Policy, make([]int, 5), func(ctx context.Context, open []int) error {
		switch retry.AttemptNumber(ctx) {
		case 1:
			return retrybatch.Partial(map[int]error{1: retry.Stop(errBad), 3: retry.After(errBusy, 2*time.Second), 4: errBusy})
		case 2:
			return errors.New("bad gateway")
		}
		return nil
	})
	var got []string
	for _, a := range h.Attempts() {
		got = append(got, fmt.Sprintf("%v: %v", a.Class, a.Err))
		if typed, ok := a.Err.(interface{ ErrorType() string }); ok != (a.Number != 2) || ok && typed.ErrorType() != "retrybatch.partial" {
			t.Errorf("attempt %d: %T has another error type", a.Number, a.Err)
		}
	}
	want := []string{
		"throttled: 3 of 5 items failed: item 3: busy",
		"transient: bad gateway",
		"permanent: 1 of 5 items failed: item 1: malformed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("attempts\n%q\nwant\n%q", got, want)
	}
	h.AssertDelays(3*time.Second, time.Second)
	h.AssertReason(retry.ReasonPermanent)
	e := batchError(t, err)
	if e.Err != h.Summary().Err {
		t.Error("Err is not the error that Hooks.Done gets")
	}
	if got, want := err.Error(), "put: 1 of 5 items failed after 3 attempts (1 permanent): item 1: malformed"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestErrorText(t *testing.T) {
	text := func(name string, attempts int, e *retrybatch.Error) *retrybatch.Error {
		e.Err = &retry.Error{Name: name, Attempts: attempts}
		return e
	}
	failure := func(index int, reason retry.Reason, cause error, errs ...error) retrybatch.Failure {
		return retrybatch.Failure{Index: index, Err: &retry.Error{Reason: reason, Cause: cause, Errs: errs}}
	}
	for _, tt := range []struct {
		err  *retrybatch.Error
		want string
	}{
		{nil, "retrybatch: nil *Error"},
		{&retrybatch.Error{}, "retrybatch: 0 of 0 items failed after 0 attempts"},
		{&retrybatch.Error{Items: 1, Failed: []retrybatch.Failure{{}}}, "retrybatch: 1 of 1 item failed after 0 attempts"},
		{text("", 1, &retrybatch.Error{Items: 2, Failed: []retrybatch.Failure{failure(1, retry.ReasonPermanent, nil, errBusy)}}),
			"retrybatch: 1 of 2 items failed after 1 attempt (1 permanent): item 1: busy"},
		{text("send-orders", 4, &retrybatch.Error{Items: 25, Failed: []retrybatch.Failure{
			failure(4, retry.ReasonMaxAttempts, nil, errors.New("SlowDown")),
			failure(7, retry.ReasonPermanent, nil, errBusy),
			failure(9, retry.ReasonMaxAttempts, nil, errBusy),
		}}), "send-orders: 3 of 25 items failed after 4 attempts (1 permanent, 2 max_attempts): item 4: SlowDown"},
		{text("x", 1, &retrybatch.Error{Items: 4, Failed: []retrybatch.Failure{
			failure(0, retry.ReasonPermanent, nil, errBusy),
			failure(1, retry.ReasonPermanent, nil, fmt.Errorf("post: %w", &retry.Error{Reason: retry.ReasonNotIdempotent})),
			failure(2, retry.ReasonMaxAttempts, nil, &retry.Error{Reason: retry.ReasonBudget}),
			failure(3, retry.ReasonPermanent, nil, &retry.Error{Reason: retry.ReasonNotIdempotent}),
		}}), "x: 4 of 4 items failed after 1 attempt (1 permanent, 2 permanent: not_idempotent inside, 1 max_attempts): item 0: busy"},
		{text("x", 0, &retrybatch.Error{Items: 1, Failed: []retrybatch.Failure{failure(0, retry.ReasonCanceled, errBusy)}}),
			"x: 1 of 1 item failed after 0 attempts (1 canceled): item 0: busy"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("text %q, want %q", got, tt.want)
		}
		var errs []error
		if tt.err != nil {
			if tt.err.Err != nil {
				errs = append(errs, tt.err.Err)
			}
			for _, f := range tt.err.Failed {
				if f.Err != nil {
					errs = append(errs, f.Err)
				}
			}
		}
		if got := tt.err.Unwrap(); !slices.Equal(got, errs) {
			t.Errorf("Unwrap() = %v, want %v", got, errs)
		}
	}
}

func TestErrorsOfTheTree(t *testing.T) {
	h := retrytest.New(t, retry.Policy{MaxAttempts: 2})
	errFull := errors.New("full")
	err := retrybatch.Run(t.Context(), h.Policy, []int{0, 1}, failing(func(call, item int) error {
		return []error{errBusy, errFull}[item]
	}))
	if !errors.Is(err, errBusy) || !errors.Is(err, errFull) {
		t.Error("errors.Is does not find the items' errors")
	}
	if run, _ := errors.AsType[*retry.Error](err); run != h.Summary().Err {
		t.Error("errors.AsType does not find the run's error first")
	}
}

func TestCanceledCallKeepsWhatItDecided(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errLeft := errors.New("left")
	h := retrytest.New(t, retry.Policy{})
	err := retrybatch.Run(ctx, h.Policy, []int{0, 1, 2}, func(context.Context, []int) error {
		cancel(errLeft)
		return retrybatch.Partial(map[int]error{0: retry.Stop(errBusy), 2: errBusy})
	})
	e := batchError(t, err)
	if len(e.Failed) != 2 || e.Err.Reason != retry.ReasonCanceled {
		t.Fatalf("err = %v", err)
	}
	if f := e.Failed[0].Err; f.Reason != retry.ReasonPermanent || f.Cause != nil {
		t.Errorf("item 0: %v, cause %v; want permanent and none", f.Reason, f.Cause)
	}
	if f := e.Failed[1].Err; f.Reason != retry.ReasonCanceled || f.Cause != errLeft || f.Last() != errBusy {
		t.Errorf("item 2: %#v", f)
	}
}

func TestCanceledBeforeTheFirstCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	values, err := retrybatch.Do(ctx, retry.Policy{}, []int{0, 1}, func(context.Context, []int) ([]int, error) {
		t.Error("send was called")
		return nil, nil
	})
	e := batchError(t, err)
	if len(e.Failed) != 2 || len(values) != 2 || !errors.Is(err, context.Canceled) {
		t.Fatalf("Do() = %v, %v", values, err)
	}
	for _, f := range e.Failed {
		if f.Err.Attempts != 0 || f.Err.Errs != nil || f.Err.Cause != context.Canceled {
			t.Errorf("item %d: %#v", f.Index, f.Err)
		}
	}
}

func TestCancelDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		p := retry.Policy{Backoff: retry.Constant(10 * time.Second)}
		e := batchError(t, retrybatch.Run(ctx, p, []int{0, 1}, failing(func(_, item int) error {
			return []error{errBusy, nil}[item]
		})))
		if f := e.Failed[0].Err; len(e.Failed) != 1 || f.Reason != retry.ReasonCanceled || f.Last() != errBusy || f.Attempts != 1 || f.Elapsed != time.Second {
			t.Errorf("failed: %v", e)
		}
	})
}

func TestAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}
		err := retrybatch.Run(t.Context(), p, []int{0, 1}, func(ctx context.Context, open []int) error {
			if retry.AttemptNumber(ctx) == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		if err != nil {
			t.Errorf("err = %v", err)
		}
	})
}

// What passes through send leaves a budget as it was.
func TestPanicAndGoexit(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("x") }, "Goexit": runtime.Goexit} {
		budget := new(budgettest.Places)
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			p := retry.Policy{Backoff: retry.Constant(0), Budget: budget}
			_ = retrybatch.Run(t.Context(), p, []int{0}, func(ctx context.Context, _ []int) error {
				if retry.AttemptNumber(ctx) == 2 {
					leave()
				}
				return errBusy
			})
			t.Errorf("%s: Run returned", name)
		}()
		if got := <-done; (got == nil) != (name == "Goexit") {
			t.Errorf("%s: recovered %v", name, got)
		}
		if got := budget.Balance(); got != 1 {
			t.Errorf("%s: Balance() = %v, want 1", name, got)
		}
	}
}

type typedNil struct{}

func (*typedNil) Error() string { return "nil" }
func (*typedNil) Unwrap() error { panic("a method of a nil pointer was called") }

func TestNilPointersAreErrors(t *testing.T) {
	h := retrytest.New(t, retry.Policy{MaxAttempts: 1})
	err := retrybatch.Run(t.Context(), h.Policy, []int{0, 1}, func(context.Context, []int) error { return (*typedNil)(nil) })
	if e := batchError(t, err); len(e.Failed) != 2 {
		t.Errorf("err = %v", err)
	}
	err = retrybatch.Run(t.Context(), h.Policy, []int{0, 1}, failing(func(_, item int) error {
		return []error{nil, (*typedNil)(nil)}[item]
	}))
	if e := batchError(t, err); len(e.Failed) != 1 || e.Failed[0].Index != 1 {
		t.Errorf("err = %v", err)
	}
}

// An outer run must not take a batch of which a part is done for one that did nothing.
func TestOuterRuns(t *testing.T) {
	unprocessed := func(error) retry.Class { return retry.Unprocessed }
	inner := retry.Policy{MaxAttempts: 1, Classify: unprocessed}
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		send   func(context.Context, []int) error
		want   retry.Class
	}{
		{"a part done, the rest unprocessed", inner, failing(func(_, item int) error { return []error{nil, errBusy}[item] }), retry.Transient},
		{"nothing done", inner, func(context.Context, []int) error { return errBusy }, retry.Unprocessed},
		{"all permanent", retry.Policy{}, failing(func(_, item int) error { return []error{nil, retry.Stop(errBusy)}[item] }), retry.Permanent},
		{"one permanent", retry.Policy{MaxAttempts: 1}, failing(func(_, item int) error {
			return []error{retry.Stop(errBusy), retry.After(errBusy, 0)}[item]
		}), retry.Transient},
		{"a dial", retry.Policy{MaxAttempts: 1}, func(context.Context, []int) error { return &retry.Error{Reason: retry.ReasonPermanent} }, retry.Permanent},
	} {
		err := retrybatch.Run(t.Context(), tt.policy, []int{0, 1}, tt.send)
		if got := retry.DefaultClassifier(err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// An item's error says what calls may have done to that item, and how the run has ended for it.
func TestFailuresSayWhatWasDone(t *testing.T) {
	undone := retry.Undone(errBusy)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	type failure struct {
		undone, marked, inWait bool
		reason                 retry.Reason
	}
	for name, tt := range map[string]struct {
		ctx   context.Context
		calls []error // of three items
		want  []failure
	}{
		"no call": {canceled, nil, []failure{{true, false, true, retry.ReasonCanceled}, {true, false, true, retry.ReasonCanceled}, {true, false, true, retry.ReasonCanceled}}},
		"each its own": {t.Context(), []error{
			retrybatch.Partial(map[int]error{0: undone, 1: errBusy, 2: retry.Stop(undone)}),
			retrybatch.Partial(map[int]error{0: undone, 1: undone}),
		}, []failure{{true, false, false, retry.ReasonMaxAttempts}, {false, false, false, retry.ReasonMaxAttempts}, {true, true, false, retry.ReasonPermanent}}},
		"a call that may have done all": {t.Context(), []error{errBusy, retrybatch.Partial(map[int]error{0: undone, 1: retry.Stop(undone)})},
			[]failure{{false, false, false, retry.ReasonMaxAttempts}, {false, true, false, retry.ReasonPermanent}}},
		"a call that did nothing": {t.Context(), []error{undone, retrybatch.Partial(map[int]error{0: undone, 1: retry.Refuse(errBusy)})},
			[]failure{{true, false, false, retry.ReasonMaxAttempts}, {false, true, false, retry.ReasonRefused}}},
		"all calls did nothing": {t.Context(), []error{retrybatch.Partial(map[int]error{1: undone}), undone},
			[]failure{{true, false, false, retry.ReasonMaxAttempts}}},
		"the call stopped": {t.Context(), []error{retry.Stop(undone)}, []failure{{true, true, false, retry.ReasonPermanent}, {true, true, false, retry.ReasonPermanent}, {true, true, false, retry.ReasonPermanent}}},
	} {
		n := 0
		err := retrybatch.Run(tt.ctx, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, []int{0, 1, 2}, func(context.Context, []int) error {
			n++
			return tt.calls[n-1]
		})
		var got []failure
		for _, f := range batchError(t, err).Failed {
			got = append(got, failure{f.Err.Undone, f.Err.Marked, f.Err.InWait, f.Err.Reason})
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: undone, marked, in a wait: %v, want %v", name, got, tt.want)
		}
	}
}

// A call is a success to all but the caller if each of its items has an answer or is done.
func TestAnswers(t *testing.T) {
	answer := retry.Answer(errBusy)
	for name, tt := range map[string]struct {
		send     func(context.Context, []int) error
		calls    int
		answered []bool // of the failed items, and of the run
		once     bool   // Policy.NonIdempotent
	}{
		"one, one is done": {failing(func(_, item int) error { return []error{answer, nil}[item] }), 1, []bool{true, true}, false},
		"both":             {func(context.Context, []int) error { return answer }, 1, []bool{true, true, true}, false},
		"one, one is done later": {failing(func(call, item int) error {
			if item == 1 && call == 1 {
				return errBusy
			}
			return []error{answer, nil}[item]
		}), 2, []bool{true, true}, false},
		"one, one has failed": {failing(func(_, item int) error { return []error{answer, retry.Stop(errBusy)}[item] }), 1, []bool{true, false, false}, false},
		"one, one stays open": {failing(func(_, item int) error { return []error{answer, errBusy}[item] }), 3, []bool{true, false, false}, false},
		"marked as a whole": {func(ctx context.Context, open []int) error {
			return retry.Answer(retrybatch.Partial(map[int]error{1: errBusy}))
		}, 1, []bool{true, true}, false},
		"not a poll's refusal":       {failing(func(_, item int) error { return []error{retry.Stop(retry.ErrRejected), nil}[item] }), 1, []bool{false, false}, false},
		"a poll that must not go on": {failing(func(_, item int) error { return []error{retry.ErrRejected, nil}[item] }), 1, []bool{false, false}, true},
	} {
		var last retry.Summary
		p := retry.Policy{NonIdempotent: tt.once, Backoff: retry.Constant(0), Hooks: retry.Hooks{Done: func(_ context.Context, s retry.Summary) { last = s }}}
		e := batchError(t, retrybatch.Run(t.Context(), p, []int{0, 1}, tt.send))
		var got []bool
		for _, f := range e.Failed {
			got = append(got, f.Err.Answered)
		}
		if got = append(got, e.Err.Answered); !slices.Equal(got, tt.answered) || last.Answered != e.Err.Answered || last.Attempts != tt.calls {
			t.Errorf("%s: Answered %v after %d calls, want %v after %d", name, got, last.Attempts, tt.answered, tt.calls)
		}
	}
}

// What the run's error says of all calls together: whether a run around it may start
// over.
func TestUndone(t *testing.T) {
	nothing := retry.Undone(errBusy)
	for name, tt := range map[string]struct {
		errs []error // of items 0 and 1, in each call
		want bool
	}{
		"both":             {[]error{nothing, nothing}, true},
		"one, one is done": {[]error{nothing, nil}, false},
		"one":              {[]error{nothing, errBusy}, false},
		"one has ended":    {[]error{nothing, retry.Stop(nothing)}, false},
	} {
		err := retrybatch.Run(t.Context(), retry.Policy{Backoff: retry.Constant(0)}, []int{0, 1}, failing(func(_, item int) error { return tt.errs[item] }))
		if e := batchError(t, err); e.Err.Undone != tt.want {
			t.Errorf("%s: Undone = %v, want %v", name, e.Err.Undone, tt.want)
		}
	}
}

func TestHooksGetTheUsersPolicy(t *testing.T) {
	var got string
	p := retry.Policy{
		Name: "x", MaxAttempts: 2, AttemptTimeout: time.Second, NonIdempotent: true, Backoff: retry.Constant(0),
		Classify: retry.DefaultClassifier, Budget: &budget.Token{}, Clock: clockx.NewVirtual(time.Unix(0, 0)),
	}
	p.Hooks.Start = func(_ context.Context, p retry.Policy) context.Context { got = fmt.Sprintf("%#v", p); return nil }
	_ = retrybatch.Run(t.Context(), p, []int{0}, func(context.Context, []int) error { return errBusy })
	if want := fmt.Sprintf("%#v", p); got != want {
		t.Errorf("Hooks.Start got\n%s\nwant\n%s", got, want)
	}
}

// What send appends to its slice does not get into the caller's array.
func TestAppendInSendCopies(t *testing.T) {
	orders := []int{0, 1, 2, 3}
	err := retrybatch.Run(t.Context(), retry.Policy{}, orders[:2], func(_ context.Context, open []int) error {
		_ = append(open, 7)
		return nil
	})
	if want := []int{0, 1, 2, 3}; err != nil || !slices.Equal(orders, want) {
		t.Errorf("%v, %v after Run, want %v", orders, err, want)
	}
}

// Both copies of a hedged call return a Partial: an item is done if one of them has
// done it.
func TestHedgedSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int
		copies := 0
		var mu sync.Mutex
		send := func(_ context.Context, open []int) error {
			mu.Lock()
			calls = append(calls, open)
			copies++
			named := map[int][]int{1: {0, 1, 2}, 2: {1, 2, 3}, 3: {0}, 4: {1}}[copies]
			mu.Unlock()
			time.Sleep(time.Second)
			failed := map[int]error{}
			for _, position := range named {
				failed[position] = errBusy
			}
			return retrybatch.Partial(failed)
		}
		users := &hedge.Hedge{Delay: 10 * time.Millisecond, Budget: (*budget.Token)(nil)} // which grants all
		p := retry.Policy{Backoff: retry.Constant(0)}
		err := retrybatch.Run(t.Context(), p, []int{0, 1, 2, 3}, func(ctx context.Context, open []int) error {
			_, err := hedge.Race(ctx, p, users, func(ctx context.Context) (struct{}, error) { return struct{}{}, send(ctx, open) }, hedge.Value[struct{}]{})
			return err
		})
		want := [][]int{{0, 1, 2, 3}, {0, 1, 2, 3}, {1, 2}, {1, 2}}
		if err != nil || !reflect.DeepEqual(calls, want) {
			t.Errorf("%v, calls with %v, want %v", err, calls, want)
		}
	})
}

// What is no error, and what is one that is no Partial, beside a Partial.
func TestJoinedPartials(t *testing.T) {
	one, both := retrybatch.Partial(map[int]error{0: errBusy}), retrybatch.Partial(map[int]error{0: errBusy, 1: errBusy})
	empty := fmt.Errorf("%w", (*typedNil)(nil))
	for _, tt := range []struct {
		name   string
		err    error
		failed []int
		text   string // in the error of item 0
	}{
		{"one names both items", errors.Join(one, both), []int{0}, "busy\nbusy"},
		{"deeper", errors.Join(nil, fmt.Errorf("x: %w", errors.Join(both, one, both))), []int{0}, "busy\nbusy\nbusy"},
		{"a nil pointer", errors.Join(both, (*typedNil)(nil)), []int{0, 1}, "busy\nnil"}, // is an error all the same
		{"an error around nothing", errors.Join(one, empty), []int{0, 1}, "busy\n"},
		{"a position that is not there", errors.Join(one, retrybatch.Partial(map[int]error{2: errBusy})), []int{0, 1}, "an error for item 2 of 2"},
	} {
		e := batchError(t, retrybatch.Run(t.Context(), retry.Policy{MaxAttempts: 1}, []int{0, 1}, func(context.Context, []int) error { return tt.err }))
		var failed []int
		for _, f := range e.Failed {
			failed = append(failed, f.Index)
		}
		if !slices.Equal(failed, tt.failed) || !strings.Contains(fmt.Sprint(e.Failed[0].Err.Last()), tt.text) {
			t.Errorf("%s: failed %v, %v; want %v, %q", tt.name, failed, e, tt.failed, tt.text)
		}
	}
}

// TestSharedPolicy is for the race detector.
func TestSharedPolicy(t *testing.T) {
	p := retry.Policy{Backoff: retry.Constant(0), Budget: &budget.Token{Capacity: 1 << 20}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				values, err := retrybatch.Do(t.Context(), p, []int{0, 1, 2, 3}, func(ctx context.Context, open []int) ([]int, error) {
					if n := retry.AttemptNumber(ctx); n < 3 {
						return slices.Clone(open), retrybatch.Partial(map[int]error{len(open) - 1: errBusy})
					}
					return slices.Clone(open), nil
				})
				if want := []int{0, 1, 2, 3}; err != nil || !slices.Equal(values, want) {
					t.Errorf("Do() = %v, %v", values, err)
				}
			}
		})
	}
	wg.Wait()
}

// atOnce is an error by which the server asks for a retry at once.
type atOnce struct{ error }

func (atOnce) RetryAfter() time.Duration { return 0 }
func (atOnce) RetryNow() bool            { return true }

// A call is repeated at once if the server asks for that for all of its open items.
func TestRetryAtOnce(t *testing.T) {
	now := atOnce{errBusy}
	for _, tt := range []struct {
		name string
		errs []error
		all  func(error) error
		want time.Duration
	}{
		{"all", []error{now, now}, nil, 0},
		{"all that are open", []error{now, nil}, nil, 0},
		{"one", []error{now, errBusy}, nil, time.Second},
		{"the other one has a wait", []error{now, retry.After(errBusy, 2*time.Second)}, nil, 3 * time.Second},
		{"the whole call", []error{errBusy, errBusy}, func(err error) error { return errors.Join(err, now) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Second)})
			_ = retrybatch.Run(t.Context(), h.Policy, []int{0, 1}, func(_ context.Context, open []int) error {
				failed := map[int]error{}
				for i, item := range open {
					if err := tt.errs[item]; err != nil {
						failed[i] = err
					}
				}
				if tt.all == nil {
					return retrybatch.Partial(failed)
				}
				return tt.all(retrybatch.Partial(failed))
			})
			h.AssertDelays(tt.want)
		})
	}
}

// A server that turned the item away, and may be asked again at once, processed
// nothing: a call that must not run twice is repeated, as without a batch.
func TestTurnedAwayIsRepeated(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 1}}}
	send := func(ctx context.Context, open []int) error {
		if open[0] != 0 {
			return nil
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if err := retryhttp.GaveUp(resp); err != nil {
			return retrybatch.Partial(map[int]error{0: err})
		}
		return nil
	}
	p := retry.Policy{NonIdempotent: true, Classify: retry.DefaultClassifier, Backoff: retry.Constant(0)} // each item is one request
	if err := retrybatch.Run(t.Context(), p, []int{0, 1}, send); err != nil || calls != 2 {
		t.Errorf("%d calls, %v; want 2 and no error", calls, err)
	}

	// To an outer run the whole batch is not: item 1 is done.
	calls = 0
	p.MaxAttempts = 1
	err := retrybatch.Run(t.Context(), p, []int{0, 1}, send)
	if got := retry.DefaultClassifier(err); got == retry.Unprocessed || got == retry.Throttled {
		t.Errorf("the class of %v is %v", err, got)
	}
}

// asking is an error that asks for a wait.
type asking struct {
	error
	wait time.Duration
}

func (a asking) RetryAfter() time.Duration { return a.wait }
func (a asking) Unwrap() error             { return a.error }

// A wait of 0 asks for nothing, and the shortest one does.
func TestPartialThatAsksForAWait(t *testing.T) {
	for wait, want := range map[time.Duration]retry.Class{0: retry.Transient, 1: retry.Throttled} {
		h := retrytest.New(t, retry.Policy{MaxAttempts: 1})
		_ = retrybatch.Run(t.Context(), h.Policy, []int{0}, func(context.Context, []int) error {
			return asking{retrybatch.Partial(map[int]error{0: errBusy}), wait}
		})
		if a := h.Attempts()[0]; a.Class != want || a.Hint != wait {
			t.Errorf("a wait of %v: class %v, hint %v; want %v and %v", wait, a.Class, a.Hint, want, wait)
		}
	}
}
