package errtree_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

type leaf string

func (l leaf) Error() string { return string(l) }

// unhurt is a type of which a nil pointer must not be called.
type unhurt struct{ err error }

func (u *unhurt) Error() string { return u.err.Error() }
func (u *unhurt) Unwrap() error { return u.err }

// shows has a method As over errors that nothing unwraps.
type shows []error

func (shows) Error() string { return "shows" }
func (s shows) As(target any) bool {
	return slices.ContainsFunc(s, func(err error) bool { return errors.As(err, target) })
}

// liar finds everything and sets nothing.
type liar struct{}

func (liar) Error() string { return "liar" }
func (liar) As(any) bool   { return true }

func visited(err error, answer func(error) errtree.Next) (seen []string, stopped bool) {
	stopped = errtree.Walk(err, func(err error) errtree.Next {
		if l, ok := err.(leaf); ok {
			seen = append(seen, string(l))
		}
		return answer(err)
	})
	return seen, stopped
}

func TestWalk(t *testing.T) {
	run := &retry.Error{Errs: []error{leaf("first"), leaf("last")}, Cause: leaf("cause")}
	tree := errors.Join(
		fmt.Errorf("x: %w", leaf("a")),
		(*unhurt)(nil),
		fmt.Errorf("%w, %w", &unhurt{leaf("b")}, errors.Join(leaf("c"), nil, leaf("d"))),
		run,
		leaf("e"),
	)
	into := func(error) errtree.Next { return errtree.Into }
	if seen, stopped := visited(tree, into); stopped || !slices.Equal(seen, []string{"a", "b", "c", "d", "last", "e"}) {
		t.Errorf("visited %v, stopped: %v", seen, stopped)
	}
	seen, stopped := visited(tree, func(err error) errtree.Next {
		if err == leaf("c") {
			return errtree.Stop
		}
		return errtree.Into
	})
	if !stopped || !slices.Equal(seen, []string{"a", "b", "c"}) {
		t.Errorf("visited %v, stopped: %v", seen, stopped)
	}
	seen, _ = visited(tree, func(err error) errtree.Next {
		if err == error(run) {
			return errtree.Past
		}
		return errtree.Into
	})
	if !slices.Equal(seen, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("visited %v", seen)
	}
	for _, none := range []error{nil, (*unhurt)(nil), (*retry.Error)(nil)} {
		if errtree.Walk(none, func(error) errtree.Next { return errtree.Stop }) || !errtree.IsNil(none) {
			t.Errorf("visited %T", none)
		}
	}
	if errtree.IsNil(leaf("")) || errtree.IsNil(&unhurt{}) {
		t.Error("an error is nil")
	}
}

// A run that ended with a run says why the inner one ended, for "permanent" says nothing.
func TestReason(t *testing.T) {
	run := func(reason retry.Reason, errs ...error) *retry.Error { return &retry.Error{Reason: reason, Errs: errs} }
	exhausted := run(retry.ReasonMaxAttempts, leaf("down"))
	for _, tt := range []struct {
		run  *retry.Error
		want string
	}{
		{run(retry.ReasonMaxAttempts, exhausted), "max_attempts"},
		{run(retry.ReasonPermanent, leaf("not found")), "permanent"},
		{run(retry.ReasonPermanent, exhausted, leaf("not found")), "permanent"},
		{run(retry.ReasonPermanent, fmt.Errorf("x: %w", exhausted)), "permanent: max_attempts inside"},
		{run(retry.ReasonPermanent, run(retry.ReasonPermanent, exhausted)), "permanent: max_attempts inside"},
		{run(retry.ReasonPermanent, errors.Join(exhausted, run(retry.ReasonCanceled))), "permanent: max_attempts inside"},
		{run(retry.ReasonPermanent, run(retry.ReasonPermanent, leaf("not found"))), "permanent"},
	} {
		if got := errtree.Reason(tt.run); got != tt.want {
			t.Errorf("Reason(%v) = %q, want %q", tt.run.Errs, got, tt.want)
		}
	}
}

func TestAs(t *testing.T) {
	if got, ok := errtree.As[leaf](shows{io.EOF, fmt.Errorf("x: %w", leaf("a"))}); !ok || got != "a" {
		t.Errorf("As = %q, %v", got, ok)
	}
	for _, err := range []error{shows{io.EOF}, fmt.Errorf("x: %w", leaf("a")), nil} {
		if got, ok := errtree.As[leaf](err); ok {
			t.Errorf("As(%v) = %q", err, got)
		}
	}
	if _, ok := errtree.As[*unhurt](liar{}); ok {
		t.Error("a nil pointer was found")
	}
}

// positions is kafka-go's WriteErrors: an error for each message, nil for one that was
// written.
type positions []error

func (positions) Error() string { return "positions" }

// chain is go-multierror's: As shows the first error, and Unwrap leads to the others.
type chain []error

func (chain) Error() string        { return "chain" }
func (c chain) As(target any) bool { return errors.As(c[0], target) }
func (c chain) Unwrap() error {
	if len(c) == 1 {
		return nil
	}
	return c[1:]
}

func TestWalkGoesThroughSlicesAndMethodsAs(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{positions{leaf("a"), nil, leaf("b")}, []string{"a", "b"}},
		{chain{leaf("a"), leaf("b"), fmt.Errorf("x: %w", leaf("c"))}, []string{"a", "b", "c"}},
		{chain{chain{leaf("a"), leaf("b")}, leaf("c")}, []string{"a", "b", "c"}},
		{shows{leaf("a")}, []string{"a"}},
	} {
		seen, _ := visited(tt.err, func(error) errtree.Next { return errtree.Into })
		if !slices.Equal(seen, tt.want) {
			t.Errorf("in %T: visited %v, want %v", tt.err, seen, tt.want)
		}
	}
	if _, joined := errtree.Below(positions{nil}); len(joined) != 1 || joined[0] == nil {
		t.Errorf("a part that succeeded is %v, want an error that says so", joined)
	}
}

func TestWalkVisitsSharedErrorsAboutOnce(t *testing.T) {
	err := error(leaf("a"))
	for range 1000 {
		err = errors.Join(err, &unhurt{err}) // fmt.Errorf would make a text of all
	}
	visits := 0
	errtree.Walk(err, func(error) errtree.Next { visits++; return errtree.Into })
	if visits > 3000 {
		t.Errorf("%d visits of 2001 errors", visits)
	}
}
