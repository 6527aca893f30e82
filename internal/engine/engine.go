// Package engine gives the other packages of this module what Policy.Judge does not
// return: package retry's full verdict on a single error, that a retry follows, and
// whether a run ended in a wait. Package retry sets Judge and InWait, since this
// package cannot import it. Errors may be nil pointers: see IsNil.
package engine

import (
	"context"
	"math"
	"reflect"
	"time"

	"github.com/goretry/retry/clockx"
)

// Verdict is what one error means, whatever else has happened in its run.
type Verdict struct {
	Err    error // without marks of Stop, Refuse and After on top
	Marked bool  // a mark decided, and not a classifier
	Class  uint8 // a retry.Class
	Hint   time.Duration
	End    uint8 // a retry.Reason: why no retry may follow, ReasonNone if one may
}

// A Refusal is an error of this module's packages which may say that the server turned
// the call away without doing anything, and named a retry time, which may be now. It
// is then Throttled, and safe to repeat. A method RetryAfter that returns 0 cannot say
// that. Other modules cannot implement Refusal.
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

// IsNil reports whether err is nil, or a nil pointer, whose methods may panic.
func IsNil(err error) bool {
	v := reflect.ValueOf(err)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Left returns the time until the deadline of ctx on clock, or math.MaxInt64 if there
// is none. A nil clock is the system's. Left may be negative before ctx has ended: a
// connection with the same deadline often fails before the timer of ctx fires.
func Left(ctx context.Context, clock clockx.Clock) time.Duration {
	deadline, ok := ctx.Deadline()
	switch {
	case !ok:
		return math.MaxInt64
	case clock == nil:
		return time.Until(deadline)
	}
	return deadline.Sub(clock.Now())
}
