package otelretry

import "github.com/goretry/retry"

// outcome returns how a run ended.
func outcome(attempts int, reason retry.Reason) string {
	switch {
	case reason == retry.ReasonCanceled:
		return "canceled"
	case reason == retry.ReasonNone && attempts <= 1:
		return "success_first_try"
	case reason == retry.ReasonNone:
		return "success_after_retry"
	case attempts <= 1:
		return "failure_first_try"
	}
	return "failure_after_retry"
}

// failed reports whether a run that ended so has failed: not if its caller
// canceled it.
func failed(reason retry.Reason) bool {
	return reason != retry.ReasonNone && reason != retry.ReasonCanceled
}

// runErrorType returns the error.type of a run that failed.
func runErrorType(reason retry.Reason) string { return (&retry.Error{Reason: reason}).ErrorType() }
