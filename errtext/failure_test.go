package errtext_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
	"github.com/goretry/retry/limit"
)

type sqlError string

func (s sqlError) Error() string    { return "ERROR" }
func (s sqlError) SQLState() string { return string(s) }

type statusError int

func (s statusError) Error() string   { return "status" }
func (s statusError) StatusCode() int { return int(s) }

type httpError int

func (s httpError) Error() string       { return "status" }
func (s httpError) HTTPStatusCode() int { return int(s) }

func TestCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), ""},
		{fmt.Errorf("reserve: %w", limit.ErrLimited), "limit.limited"},
		{sqlError("40P01"), "40P01"},
		{sqlError("no"), ""},
		{&net.DNSError{IsNotFound: true}, "no_such_host"},
		{&net.DNSError{}, ""},
		{statusError(503), "503"},
		{statusError(200), ""},
		{statusError(399), ""},
		{statusError(400), "400"},
		{statusError(599), "599"},
		{statusError(600), ""},
		{httpError(404), "404"},
		{&retry.Error{Reason: retry.ReasonBudget, Errs: []error{statusError(429)}}, "429"},
		{&retry.Error{Reason: retry.ReasonBudget, Errs: []error{errors.New("plain")}}, "retry.budget"},
		{&retry.Error{Reason: retry.ReasonGuard, Cause: limit.ErrLimited}, "limit.limited"},
		{&retry.Error{Reason: retry.ReasonGuard, Attempts: 1, Errs: []error{statusError(503)}, Cause: limit.ErrLimited}, "503"},
		{&retry.Error{Reason: retry.ReasonGuard, Cause: errors.New("open")}, "retry.guard"},
		{&retry.Error{Reason: retry.ReasonDeadline, Cause: context.DeadlineExceeded}, "retry.deadline"},
		{&retry.Error{Reason: retry.ReasonDeadline, Attempts: 1, Cause: limit.ErrLimited}, "retry.deadline"}, // its error is not known
		{errors.Join(limit.ErrLimited, &retry.Error{Reason: retry.ReasonBudget}), "limit.limited"},           // the first
		{errors.Join(&shy{limit.ErrLimited}, &retry.Error{Reason: retry.ReasonBudget}), "limit.limited"},
		{errors.Join(statusError(503), sqlError("40001")), "40001"}, // the more exact one
	} {
		if got := errtext.Code(tt.err); got != tt.want {
			t.Errorf("Code(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

// refused is like the error of a tick of a Ticker.
type refused struct{}

func (refused) Error() string        { return "refused" }
func (refused) Is(target error) bool { return target == retry.ErrRejected }

func TestFailed(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	run := func(err error) error { return &retry.Error{Attempts: 1, Errs: []error{err}} }
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		err   error
		class retry.Class
		want  bool
	}{
		{"a success", t.Context(), nil, retry.Unknown, false},
		{"an error", t.Context(), errDown, retry.Transient, true},
		{"a permanent error", t.Context(), errDown, retry.Permanent, true},
		{"a value not accepted", t.Context(), retry.ErrRejected, retry.Transient, false},
		{"with a hint", t.Context(), retry.After(retry.ErrRejected, time.Second), retry.Throttled, false},
		{"wrapped", t.Context(), fmt.Errorf("poll: %w", retry.After(retry.ErrRejected, 0)), retry.Throttled, false},
		{"joined", t.Context(), errors.Join(errDown, retry.ErrRejected), retry.Transient, false},
		{"an error that is like one", t.Context(), fmt.Errorf("a: %w", refused{}), retry.Transient, false},
		{"and one that is not", t.Context(), retry.ErrAttemptTimeout, retry.Transient, true},
		{"stopped", t.Context(), retry.Stop(retry.ErrRejected), retry.Permanent, true},
		{"of an inner run", t.Context(), fmt.Errorf("load: %w", run(retry.ErrRejected)), retry.Transient, true},
		{"beside an inner run", t.Context(), errors.Join(run(errDown), retry.ErrRejected), retry.Transient, false},
		{"canceled meanwhile", canceled, retry.ErrRejected, retry.Unknown, false},
		{"at the deadline", expired, retry.ErrRejected, retry.Unknown, false},
		{"the caller's cancel", canceled, errDown, retry.Unknown, false},
		{"the caller's deadline", expired, errDown, retry.Unknown, true},
		{"a cancel after the error", canceled, errDown, retry.Transient, true},
	} {
		if got := errtext.Failed(tt.ctx, retry.Attempt{Err: tt.err, Class: tt.class}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if errtext.Failed(t.Context(), retry.Attempt{Err: errDown, Class: retry.Permanent, Answered: true}) {
		t.Error("an answer is a failure")
	}

	// A panic of op, as hooks see it, also after a cancel.
	ctx, cancel := context.WithCancel(t.Context())
	var got []bool
	p := retry.Policy{Hooks: retry.Hooks{AttemptDone: func(ctx context.Context, a retry.Attempt) {
		got = append(got, errtext.Failed(ctx, a))
	}}}
	func() {
		defer func() { _ = recover() }()
		_ = retry.Run(ctx, p, func(context.Context) error { cancel(); panic("op") })
	}()
	if len(got) != 1 || !got[0] {
		t.Errorf("a panic: failed %v, want true", got)
	}
}

// What cannot be looked through is a failure, whose tree never ends or panics.
func TestFailedWithoutTheHelpOfTheError(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	doubled := errDown // 2^60 ways through 60 errors
	for range 60 {
		doubled = joined{doubled, doubled}
	}
	for _, err := range []error{doubled, &looped{}, &broken{}, (*strict)(nil), (*retry.Error)(nil), (*url.Error)(nil), fmt.Errorf("a: %w", (*strict)(nil)), errors.Join(errDown, &broken{})} {
		if !errtext.Failed(t.Context(), retry.Attempt{Err: err, Class: retry.Transient}) || !errtext.Failed(t.Context(), retry.Attempt{Err: err}) || errtext.Failed(canceled, retry.Attempt{Err: err}) {
			t.Errorf("%T: Failed depends on its methods", err)
		}
	}
	if errtext.Failed(t.Context(), retry.Attempt{Err: joined{&broken{}, (*strict)(nil), retry.ErrRejected}, Class: retry.Transient}) {
		t.Error("an error that panics hides the rejection beside it")
	}
}

// A code is found beside an error that panics, and in a tree without an end.
func TestCodeWithoutTheHelpOfTheError(t *testing.T) {
	run := &retry.Error{Reason: retry.ReasonBudget, Attempts: 1}
	run.Errs = []error{run}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&broken{}, ""},
		{(*strict)(nil), ""},
		{&looped{}, ""},
		{joined{&broken{}, (*strict)(nil), &looped{}, statusError(503)}, "503"},
		{opaque{joined{statusError(503), &broken{}}}, "503"},
		{run, "retry.budget"},
	} {
		if got := errtext.Code(tt.err); got != tt.want {
			t.Errorf("Code(%T) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestCodeReadsAThousandErrors(t *testing.T) {
	for wrapped, want := range map[int]string{999: "503", 1000: ""} {
		var err error = statusError(503)
		for range wrapped {
			err = opaque{err}
		}
		if got := errtext.Code(err); got != want {
			t.Errorf("below %d errors: Code = %q, want %q", wrapped, got, want)
		}
	}
}

func TestFailedCostsNoAllocation(t *testing.T) {
	a := retry.Attempt{Err: fmt.Errorf("load: %w", errDown), Class: retry.Transient}
	if got := testing.AllocsPerRun(100, func() { errtext.Failed(context.Background(), a) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// A passing error searches what it wraps, by all of its methods, and counts their calls. errors.Is
// and errors.As ask it, and then what it wraps: a chain of n costs them 2ⁿ.
type passing struct {
	err   error
	calls *int
}

func (p *passing) Error() string        { return "passing" }
func (p *passing) Unwrap() error        { *p.calls++; return p.err }
func (p *passing) Is(target error) bool { *p.calls++; return errors.Is(p.err, target) }
func (p *passing) As(target any) bool   { *p.calls++; return errors.As(p.err, target) }

// passingValue is one that is no pointer, and passingAll one that joins.
type passingValue struct{ *passing }

type passingAll struct{ *passing }

func (p passingAll) Unwrap() []error { *p.calls++; return []error{p.err, errDown} }

// hider shows what it holds by As alone, as the chains of hashicorp/go-multierror do, beside what
// it unwraps.
type hider struct {
	*passing
	hidden error
}

func (h hider) Is(target error) bool { *h.calls++; return errors.Is(h.hidden, target) }
func (h hider) As(target any) bool   { *h.calls++; return errors.As(h.hidden, target) }

// Hooks look at strangers' errors on op's goroutine.
func TestNoTreeCostsMoreThanItsErrors(t *testing.T) {
	const n = 60
	for name, wrap := range map[string]func(error, *int) error{
		"pointers": func(err error, calls *int) error { return &passing{err, calls} },
		"values":   func(err error, calls *int) error { return passingValue{&passing{err, calls}} },
		"joined":   func(err error, calls *int) error { return passingAll{&passing{err, calls}} },
		"hidden":   func(err error, calls *int) error { return hider{&passing{errDown, calls}, err} },
	} {
		for _, tt := range []struct {
			err      error
			code     string
			rejected bool
		}{
			{errDown, "", false}, {statusError(503), "503", false}, {retry.ErrRejected, "", true}, {sqlError("40001"), "40001", false},
			{&net.DNSError{IsNotFound: true}, "no_such_host", false}, {&retry.Error{Attempts: 1, Errs: []error{httpError(502)}}, "502", false},
		} {
			calls := 0
			err := tt.err
			for range n {
				err = wrap(err, &calls)
			}
			if got := errtext.Code(err); got != tt.code {
				t.Errorf("%s, %v: Code = %q, want %q", name, tt.err, got, tt.code)
			}
			if got := errtext.Failed(t.Context(), retry.Attempt{Err: err, Class: retry.Transient}); got == tt.rejected {
				t.Errorf("%s, %v: Failed = %v", name, tt.err, got)
			}
			if calls > 12*n {
				t.Errorf("%s, %v: %d calls of methods for %d errors", name, tt.err, calls, n)
			}
		}
	}
}

// An error that is shown only to those who know its type counts too.
func TestCodeOfAnErrorThatOnlyItsTypeShows(t *testing.T) {
	for err, want := range map[error]string{&shy{statusError(503)}: "503", &shy{sqlError("40001")}: "40001", &shy{httpError(502)}: "502"} {
		if got := errtext.Code(fmt.Errorf("x: %w", err)); got != want {
			t.Errorf("Code = %q, want %q", got, want)
		}
	}
}

// shy has no error for whoever asks for any.
type shy struct{ err error }

func (*shy) Error() string { return "shy" }
func (s *shy) As(target any) bool {
	if _, ok := target.(*error); ok {
		return false
	}
	return errors.As(s.err, target)
}
