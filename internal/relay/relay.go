package relay

import (
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/engine"
)

// Refuses reports whether the caller of a server that failed with err must not retry.
// That is so if one of these is true:
//
//   - err is marked by [retry.Stop] or [retry.Refuse], outside of any *[retry.Error].
//   - It holds a run that ended because the error is permanent, because a server
//     refused a retry, or because the work may have been done.
//   - It holds a run that made retries and came to a limit. A run of one attempt has
//     not retried, so the layer above may.
//
// A run that was canceled does not count, whatever it holds: a sibling may have
// failed, or the caller may have left. Neither does a run that ended because a server
// asked for too long a wait: the caller gets that wait instead. For a nil err Refuses
// returns false.
func Refuses(err error) bool {
	if err == nil {
		return false
	}
	v := engine.Judge(&retry.Policy{}, err)
	return v.Marked && retry.Class(v.Class) == retry.Permanent || holdsVerdict(err)
}

// holdsVerdict walks the tree of err as errors.As does, and into an inner run only
// through its last error.
func holdsVerdict(err error) bool {
	for !engine.IsNil(err) { // the methods of a nil pointer may not survive
		if e, ok := err.(*retry.Error); ok {
			switch e.Reason {
			case retry.ReasonPermanent, retry.ReasonRefused, retry.ReasonNotIdempotent:
				return true
			case retry.ReasonMaxAttempts, retry.ReasonMaxElapsed, retry.ReasonDeadline, retry.ReasonBudget:
				if e.Attempts > 1 {
					return true
				}
			case retry.ReasonCanceled, retry.ReasonRetryAfter:
				return false
			}
			err = e.Last()
			continue
		}
		if e, ok := err.(interface{ As(any) bool }); ok {
			var inner *retry.Error
			if e.As(&inner) && holdsVerdict(inner) {
				return true
			}
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(e.Unwrap(), holdsVerdict)
		default:
			return false
		}
	}
	return false
}
