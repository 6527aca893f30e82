package relay

import (
	"reflect"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/engine"
)

// Refuses reports whether the caller of a server that failed with err must not ask
// again. That is so if one of these is true:
//
//   - err is marked by [retry.Stop] or [retry.Refuse], outside of any *[retry.Error].
//   - It holds a run that ended because the error will not go away, because a
//     server said no, or because the work may have been done.
//   - It holds a run that made retries and came to a limit. A run of one attempt has
//     not retried, so the layer above may.
//
// A run that was canceled says nothing, whatever it holds: a sibling may have failed,
// or the caller left. Nor does one that a server asked to wait for too long: that wait
// is the message. A nil err refuses nothing.
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
	for err != nil {
		if e, ok := err.(*retry.Error); ok {
			final, open := verdict(e)
			if !open {
				return final
			}
			err = e.Last()
			continue
		}
		if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
			return false // its methods may not survive that
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
			for _, err := range e.Unwrap() {
				if holdsVerdict(err) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// verdict returns what the end of a run says, or that its last error is to be looked
// at.
func verdict(e *retry.Error) (refuses, open bool) {
	if e == nil {
		return false, false
	}
	switch e.Reason {
	case retry.ReasonPermanent, retry.ReasonRefused, retry.ReasonNotIdempotent:
		return true, false
	case retry.ReasonMaxAttempts, retry.ReasonMaxElapsed, retry.ReasonDeadline, retry.ReasonBudget:
		return e.Attempts > 1, e.Attempts <= 1
	case retry.ReasonCanceled, retry.ReasonRetryAfter:
		return false, false
	}
	return false, true
}
