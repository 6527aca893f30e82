// Package fault says for hooks whether an attempt has failed, and with what code. A module
// of its own imports nothing internal of the root, so otel has this folder once more: a
// test compares them.
package fault

import (
	"context"
	"errors"
	"net"
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
	left := most
	return holds(err, &left)
}

// most is how many errors rejected looks at.
const most = 1000

// holds is rejected for a part of a tree, of which left errors may be looked at. An error of
// which a method panics, as one of a nil pointer may, holds nothing.
func holds(err error, left *int) bool {
	defer func() { _ = recover() }()
	if *left--; *left < 0 {
		return false
	}
	if err == retry.ErrRejected {
		return true
	}
	if _, ok := err.(*retry.Error); ok {
		return false
	}
	if e, ok := err.(interface{ Is(error) bool }); ok && e.Is(retry.ErrRejected) { // as that of a tick of a Ticker
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return holds(e.Unwrap(), left)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return holds(err, left) })
	}
	return false
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
	if named, ok := errors.AsType[interface {
		error
		ErrorType() string
	}](err); ok {
		if run, ok := named.(*retry.Error); ok {
			if code := Code(Told(run)); code != "" { // what an inner run failed with says more than how it ended
				return code
			}
		}
		if name := named.ErrorType(); name != "" {
			return name
		}
	}
	if coded, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok && len(coded.SQLState()) == 5 {
		return coded.SQLState()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return "no_such_host"
	}
	status := 0
	if coded, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		status = coded.StatusCode()
	} else if coded, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		status = coded.HTTPStatusCode()
	}
	if status >= 400 && status < 600 {
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
