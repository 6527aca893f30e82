// Package fault says for hooks whether an attempt has failed, and with what code. A module
// of its own imports nothing internal of the root, so otel has this folder once more: a
// test compares them.
package fault

import (
	"cmp"
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strconv"

	"github.com/goretry/retry"
)

// Failed reports whether an attempt failed; ctx is the attempt's, as AttemptDone
// gets it. Three kinds of errors are no failures of what was called: a [retry.Answer]; a
// value that Until did not accept, for a poll is no outage; and what an attempt returned
// because the caller had canceled it.
func Failed(ctx context.Context, a retry.Attempt) bool {
	switch {
	case a.Err == nil, a.Answered:
		return false
	case a.Class != retry.Permanent && rejected(a.Err):
		return false
	case a.Class == retry.Unknown && !panicked(a.Err):
		err := ctx.Err()
		return err == nil || errors.Is(err, context.DeadlineExceeded)
	}
	return true
}

// rejected reports whether ErrRejected is in the tree of err, but not in an inner run.
func rejected(err error) bool {
	if err == retry.ErrRejected { // most polls end here
		return true
	}
	w := walk{left: most, safe: true}
	return w.through(err, func(err error, itself bool) next {
		if err == retry.ErrRejected {
			return stop
		}
		if _, ok := err.(*retry.Error); ok {
			return past
		}
		if e, ok := err.(interface{ Is(error) bool }); ok && itself && e.Is(retry.ErrRejected) { // as that of a tick of a Ticker
			return stop
		}
		return into
	})
}

// panicked reports whether err stands for an attempt that did not return.
func panicked(err error) bool {
	defer func() { _ = recover() }() // an error whose method panics is another one
	e, ok := err.(interface{ ErrorType() string })
	return ok && e.ErrorType() == panicType
}

var panicType = (&retry.Error{Reason: retry.ReasonPanic}).ErrorType()

// Code returns a code that a person can act on, or "" if err has none: what a method
// ErrorType in its tree says, an SQLSTATE, no_such_host or the status of HTTP. Of an inner
// run it is that of the last attempt, or of what kept the run from making one. It is a part of
// err, as long as its methods make it.
// If a method panics, so does Code.
func Code(err error) string {
	var state string
	status, httpStatus := 0, 0
	unknownName := false
	code := ""
	w := walk{left: most}
	w.through(err, func(err error, _ bool) next {
		if run, ok := err.(*retry.Error); ok { // what an inner run failed with says more than how it ended
			if code = Code(Told(run)); code == "" {
				code = run.ErrorType()
			}
			return stop
		}
		if e, ok := err.(interface{ ErrorType() string }); ok {
			if code = e.ErrorType(); code != "" {
				return stop
			}
		}
		if e, ok := err.(interface{ SQLState() string }); ok && state == "" {
			if s := e.SQLState(); len(s) == 5 {
				state = s
			}
		}
		if e, ok := err.(*net.DNSError); ok && e.IsNotFound {
			unknownName = true
		}
		if e, ok := err.(interface{ StatusCode() int }); ok && status == 0 {
			status = e.StatusCode()
		}
		if e, ok := err.(interface{ HTTPStatusCode() int }); ok && httpStatus == 0 {
			httpStatus = e.HTTPStatusCode()
		}
		return into
	})
	status = cmp.Or(status, httpStatus)
	switch {
	case code != "":
		return code
	case state != "":
		return state
	case unknownName:
		return "no_such_host"
	case status >= 400 && status < 600:
		return strconv.Itoa(status)
	}
	return ""
}

// Told returns the error that says most about a run: its last attempt's, or that which kept
// the run from making one, or nil.
func Told(e *retry.Error) error {
	if e == nil || len(e.Errs) == 0 && (e.Attempts > 0 || e.Cause == nil) {
		return nil
	}
	return e.Last()
}

// A walk goes through the errors of one tree, in the order of errors.As. That calls the methods
// As and Is of each error: if they search what the error wraps, a chain of n errors costs it 2ⁿ.
// So a walk calls them only if they do not.
type walk struct {
	left int  // how many errors may still be visited
	safe bool // an error of which a method panics, as one of a nil pointer may, holds nothing
}

// most is how many errors of a tree are visited.
const most = 1000

type next uint8

const (
	into next = iota // to what the error wraps
	past             // to what follows in the tree
	stop             // nowhere
)

// through calls visit for err and what it wraps until visit returns stop, and reports whether it
// has. itself says that a method Is of the error does not search what the error wraps.
func (w *walk) through(err error, visit func(err error, itself bool) next) (stopped bool) {
	if w.safe {
		defer func() { _ = recover() }()
	}
	if w.left--; w.left < 0 || err == nil {
		return false
	}
	if e, ok := err.(*retry.Error); ok {
		return visit(e, false) == stop // its methods search, and both visits know it
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() && w.safe {
		return false
	}
	var one error
	var joined []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		one = e.Unwrap()
	case interface{ Unwrap() []error }:
		joined = e.Unwrap()
	}
	hidden, shows := shown(err)
	switch visit(err, !shows && !searches(err, one, joined)) {
	case stop:
		return true
	case past:
		return false
	}
	switch {
	case !shows:
		if w.asked(err, visit) {
			return true
		}
	case same(hidden, one) || same(hidden, err) || slices.ContainsFunc(joined, func(err error) bool { return same(hidden, err) }):
	default:
		if w.through(hidden, visit) {
			return true
		}
	}
	if one != nil {
		return w.through(one, visit)
	}
	return slices.ContainsFunc(joined, func(err error) bool { return w.through(err, visit) })
}

// shown returns an error that the method As of err shows, whatever its type. Those that search
// what they wrap answer that at once.
func shown(err error) (hidden error, ok bool) {
	e, ok := err.(interface{ As(any) bool })
	if !ok {
		return nil, false
	}
	var found error // which is on the heap
	ok = e.As(&found) && found != nil
	return found, ok
}

// asked calls visit for what the method As of err shows only to those who know its type.
func (w *walk) asked(err error, visit func(err error, itself bool) next) (stopped bool) {
	e, ok := err.(interface{ As(any) bool })
	if !ok {
		return false
	}
	var (
		named  interface{ ErrorType() string }
		state  interface{ SQLState() string }
		name   *net.DNSError
		status interface{ StatusCode() int }
		other  interface{ HTTPStatusCode() int }
	)
	for _, target := range [...]any{&named, &state, &name, &status, &other} {
		if !e.As(target) {
			continue
		}
		found, ok := reflect.ValueOf(target).Elem().Interface().(error)
		if ok && visit(found, false) == stop {
			return true
		}
	}
	return false
}

// searches reports whether the method Is of err, if it has one, searches what err wraps, or may
// do so: an error that is no pointer may cost much to compare.
func searches(err, one error, joined []error) bool {
	e, ok := err.(interface{ Is(error) bool })
	if i := slices.IndexFunc(joined, func(err error) bool { return err != nil }); i >= 0 {
		one = joined[i]
	}
	return ok && one != nil && (reflect.TypeOf(one).Kind() != reflect.Pointer || e.Is(one))
}

// same reports whether a and b are equal, and can be compared.
func same(a, b error) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}
