package otelretry

import (
	"context"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
)

// This file decides what the end of an attempt and of a run means in telemetry.

// failure is what spans and measurements show of an attempt that returned an error.
type failure struct {
	class     retry.Class
	errorType string // empty if it is no fault of what was called: see errtext.Failed
}

// failureOf judges a failed attempt; ctx is the attempt's.
func failureOf(ctx context.Context, a retry.Attempt) failure {
	f := failure{class: a.Class}
	if errtext.Failed(ctx, a) {
		f.errorType = errorType(a.Err)
	}
	return f
}

// guarded is what an attempt is counted by that a guard had wait, or has refused.
type guarded struct {
	guard   string
	refused bool
}

func guardedBy(h *retry.Held) guarded {
	guard, _ := admit(&guardTypes, h.Guard)
	return guarded{guard, h.Err != nil}
}

func (g guarded) result() string {
	if g.refused {
		return "refused"
	}
	return "waited"
}

// panicType is the error.type of an attempt that did not return.
var panicType = runErrorType(retry.ReasonPanic)

// ending is what they show of a run at its end.
type ending struct {
	retried bool // more than one attempt was made
	reason  retry.Reason
}

func endingOf(s *retry.Summary) ending { return ending{s.Attempts > 1, s.Reason} }

// lastReason is the last that is known.
const lastReason = retry.ReasonGuard

// endings is how many there are: each reason twice.
const endings = 2 * (int(lastReason) + 2)

// number returns one that only this ending has; those of reasons that are not
// known share one.
func (e ending) number() int {
	n := 2 * int(min(e.reason, lastReason+1))
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

// givenUp is what a run that gave up is counted by.
type givenUp struct {
	reason    retry.Reason
	errorType string // of its last attempt or its guard's refusal, empty if that was no fault: see lastFault
	guard     string // that has ended it, or ""
}

func givenUpBy(s *retry.Summary) givenUp {
	g := givenUp{reason: s.Reason, errorType: lastFault(s)}
	if e, ok := s.Err.(*retry.Error); ok && e != nil && e.Guard != "" {
		g.guard, _ = admit(&guardTypes, e.Guard)
	}
	return g
}

// lastFault returns the error.type of the guard's refusal that ended a run, or else of its
// last attempt as its span has it, "" if there was no attempt, or if the caller's cancel
// ended it.
func lastFault(s *retry.Summary) string {
	if s.Reason == retry.ReasonPanic {
		return panicType
	}
	e, ok := s.Err.(*retry.Error)
	if ok && s.Reason == retry.ReasonGuard && e.Cause != nil {
		return errorType(e.Cause)
	}
	if !ok || s.Attempts == 0 || len(e.Errs) == 0 || s.Reason == retry.ReasonCanceled && !e.InWait {
		return ""
	}
	last := retry.Attempt{Err: e.Last(), Class: retry.Transient}
	if s.Reason == retry.ReasonPermanent || s.Reason == retry.ReasonRefused {
		last.Class = retry.Permanent
	}
	return failureOf(context.Background(), last).errorType
}

func runErrorType(reason retry.Reason) string { return (&retry.Error{Reason: reason}).ErrorType() }
