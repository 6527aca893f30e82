// Package engine shows the other packages of this module what package retry
// decides about a single error, where Policy.Judge does not say enough, that a retry
// follows, and where a run was when it ended. Package retry sets Judge and InWait;
// this package cannot import it. Both look at errors that may be nil pointers: IsNil.
package engine

import (
	"reflect"
	"time"
)

// Verdict is what one error means, whatever else has happened in its run.
type Verdict struct {
	Err    error // without marks of Stop, Refuse and After on top
	Marked bool  // a mark decided, and not a classifier
	Class  uint8 // a retry.Class
	Hint   time.Duration
	End    uint8 // a retry.Reason: why no retry may follow, ReasonNone if one may
}

// A Refusal is an error of this module's packages that may say that the server turned
// the call away without doing anything and named a time to come back, maybe now: it
// is Throttled, and safe to repeat. A method RetryAfter that returns 0 cannot say so.
// Other modules cannot have such a method.
type Refusal interface {
	error
	TurnedAway() Proof
}

// Proof reports whether it is certain that nothing was done.
type Proof bool

// Judge returns what err means to a run of policy, a *retry.Policy. err must not be
// nil.
var Judge func(policy any, err error) Verdict

// InWait reports whether the caller's context ended the run of err, an *Error, while
// it waited: its last attempt ended by itself.
var InWait func(err error) bool

// Follower is a retry.Budget that has something to do before each retry. A run calls
// Follow in place of Withdraw before a retry that follows retry.ErrRejected.
type Follower interface{ Follow() }

// IsNil reports whether err is nil, or a nil pointer, whose methods may panic.
func IsNil(err error) bool {
	v := reflect.ValueOf(err)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
