package otelretry

import (
	"context"
	"errors"

	"github.com/goretry/retry"
)

// What an attempt's end and a run's end mean to those who watch is decided here.

// failure is what is told of an attempt that returned an error.
type failure struct {
	class     retry.Class
	errorType string // empty if it is no fault of what was called: see failureOf
}

// failureOf judges a failed attempt; ctx is the attempt's. Two kinds have no
// error.type, and are no errors: an attempt that the caller's cancel ended, and one
// whose value Until did not accept, for a poll is no outage.
func failureOf(ctx context.Context, a retry.Attempt) failure {
	if a.Class == retry.Transient && rejected(a.Err) {
		return failure{class: a.Class}
	}
	f := failure{a.Class, errorType(a.Err)}
	if a.Class == retry.Unknown && f.errorType != panicType {
		if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			f.errorType = ""
		}
	}
	return f
}

// panicType is the error.type of an attempt that did not return.
var panicType = runErrorType(retry.ReasonPanic)

// rejected reports whether err is ErrRejected, but not that of an inner run.
func rejected(err error) bool {
	if err == retry.ErrRejected {
		return true
	}
	switch e := err.(type) {
	case *retry.Error:
		return false
	case interface{ Unwrap() error }:
		return rejected(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if rejected(err) {
				return true
			}
		}
	case interface{ Is(error) bool }: // an iteration of Ticks
		return e.Is(retry.ErrRejected)
	}
	return false
}

// ending is what is told of a run at its end.
type ending struct {
	retried bool // more than one attempt was made
	reason  retry.Reason
}

func endingOf(s *retry.Summary) ending { return ending{s.Attempts > 1, s.Reason} }

// endings is how many there are: each reason twice.
const endings = 2 * (int(retry.ReasonPanic) + 2)

// number returns one that only this ending has; those of reasons that are not
// known share one.
func (e ending) number() int {
	n := 2 * int(min(e.reason, retry.ReasonPanic+1))
	if e.retried {
		n++
	}
	return n
}

// outcome returns how the run ended.
func (e ending) outcome() string {
	switch {
	case e.reason == retry.ReasonCanceled:
		return "canceled"
	case e.reason == retry.ReasonNone && !e.retried:
		return "success_first_try"
	case e.reason == retry.ReasonNone:
		return "success_after_retry"
	case !e.retried:
		return "failure_first_try"
	}
	return "failure_after_retry"
}

// errorType returns the error.type of a run that failed, else "". A run that its
// caller canceled has not failed.
func (e ending) errorType() string {
	if e.reason == retry.ReasonNone || e.reason == retry.ReasonCanceled {
		return ""
	}
	return runErrorType(e.reason)
}

func runErrorType(reason retry.Reason) string { return (&retry.Error{Reason: reason}).ErrorType() }
