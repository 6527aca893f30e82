package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

var (
	errDown = errors.New("server is down")
	errGone = errors.New("no such user")
)

// service is the operation that both libraries call. It fails with one error
// after the other and then returns "ada", and notes when it was called.
type service struct {
	errs  []error
	calls []time.Time
}

// failing returns the same service for each side.
func failing(errs ...error) (theirs, ours *service) {
	return &service{errs: errs}, &service{errs: errs}
}

// down returns the error of a server that is down, so many times.
func down(times int) []error { return slices.Repeat([]error{errDown}, times) }

// get is the operation with a value: beside an error, the number of the call.
func (s *service) get() (string, error) {
	n := len(s.calls)
	s.calls = append(s.calls, time.Now())
	if n < len(s.errs) {
		return fmt.Sprint("call ", n+1), s.errs[n]
	}
	return "ada", nil
}

// ping is the operation without a value.
func (s *service) ping() error {
	_, err := s.get()
	return err
}

// outcome tells what a library made of the service: the value, or those of the
// known errors that errors.Is finds, and the calls with the waits between them.
func (s *service) outcome(value string, err error) string {
	if err != nil {
		var found []string
		for _, known := range []error{errDown, errGone, context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, known) {
				found = append(found, known.Error())
			}
		}
		value = strings.Join(found, ", ")
	}
	waits := []time.Duration{}
	for i := 1; i < len(s.calls); i++ {
		waits = append(waits, s.calls[i].Sub(s.calls[i-1]))
	}
	return fmt.Sprintf("%s; calls %d, waits %v", value, len(s.calls), waits)
}

// last returns the final attempt's error from one of our runs.
func last(err error) error {
	if e, ok := errors.AsType[*retry.Error](err); ok {
		return e.Last()
	}
	return nil
}

// same fails the test unless both sides did what is wanted.
func same[T any](t *testing.T, what string, theirs, ours, want T) {
	t.Helper()
	equal(t, "their "+what, theirs, want)
	equal(t, "our "+what, ours, want)
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func seconds(list ...float64) []time.Duration {
	var ds []time.Duration
	for _, s := range list {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

// delays returns the first n waits of a backoff without jitter.
func delays(b retry.Backoff, n int) []time.Duration {
	var ds []time.Duration
	for i := range n {
		ds = append(ds, b.Delay(retry.Step{Retry: i + 1}))
	}
	return ds
}

// window fails the test unless many draws fill the window from low to high and
// never leave it.
func window(t *testing.T, what string, draw func() time.Duration, low, high time.Duration) {
	t.Helper()
	least, most := draw(), draw()
	for range 10_000 {
		d := draw()
		least, most = min(least, d), max(most, d)
	}
	near := (high - low) / 20
	if least < low || least > low+near || most > high || most < high-near {
		t.Errorf("%s lie in [%v, %v], want [%v, %v]", what, least, most, low, high)
	}
}

// table returns a func that runs one row's subtest in a bubble of its own. In
// the end each row of the table in README.md must have had one.
func table(t *testing.T, library string) (row func(name string, f func(*testing.T))) {
	var ran []string
	t.Cleanup(func() {
		for _, name := range rows(t, library) {
			if !slices.Contains(ran, name) {
				t.Errorf("README.md has a row %q for %s, but there is no such subtest", name, library)
			}
		}
	})
	return func(name string, f func(*testing.T)) {
		ran = append(ran, name)
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

// rows returns the first column of a library's table in README.md.
func rows(t *testing.T, library string) []string {
	doc, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "\n| "+library+" | here |\n|---|---|\n")
	if !found {
		t.Fatalf("README.md has no table for %s", library)
	}
	body, _, _ := strings.Cut(rest, "\n\n")
	var names []string
	for line := range strings.Lines(body) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		names = append(names, strings.ReplaceAll(name, "`", ""))
	}
	return names
}
