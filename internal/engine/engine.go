// Package engine shows the other packages of this module what package retry
// decides about a single error, where Policy.Judge does not say enough. Package
// retry sets Judge; this package cannot import it.
package engine

import "time"

// Verdict is what one error means, whatever else has happened in its run.
type Verdict struct {
	Err    error // without marks of Stop, Refuse and After on top
	Marked bool  // a mark decided, and not a classifier
	Class  uint8 // a retry.Class
	Hint   time.Duration
	End    uint8 // a retry.Reason: why no retry may follow, ReasonNone if one may
}

// Judge returns what err means to a run of policy, a *retry.Policy. err must not be
// nil.
var Judge func(policy any, err error) Verdict
