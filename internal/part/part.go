// Package part is how package retryqueue makes one attempt of a run that is spread over
// processes: a queue waits and counts. Package retry has the code, since that is a run like
// any other to hooks and contexts, but does not export it: nobody else needs it.
package part

import (
	"context"
	"time"
)

// Part is one attempt of such a run, such as a delivery of a message. Verdict is
// retry.Verdict, and Failure *retry.Error: this package cannot import retry, which imports it.
type Part[Verdict, Failure any] struct {
	// Earlier is how many attempts were made before this part. Hooks count on from there.
	// retry.AttemptNumber does not: it counts the attempts of this process, and is 1. A
	// negative number counts as zero.
	Earlier int

	// Op makes the attempt, and says what came of it: the zero Verdict is a success. If Op
	// is nil, no attempt is made. Hooks then get only Start and Done.
	Op func(context.Context) Verdict

	// Decide returns the wait before the next attempt, or false if none is to follow. A
	// negative wait counts as zero. Decide gets what Op returned, with the class TimedOut
	// in place of Transient if the attempt's own deadline has passed. It is not called
	// after an error if the caller's context has ended: that error says nothing about the
	// run. Nil means that no attempt follows.
	Decide func(Verdict) (wait time.Duration, again bool)

	// Why returns the *Error that says why Decide has returned false, nil after a success. Hooks.AttemptDone
	// gets its reason. Nil means that it is not known.
	Why func() Failure

	// Settle is called at the end, in any case but that of a panic, with the run's context:
	// to tell others what was decided. Hooks.Done gets the *Error that it returns. That is
	// nil unless the run has given up for good. A nil Settle returns nil.
	Settle func(context.Context) Failure
}

// Run makes a part of a run, and is set by package retry:
//
//	func(context.Context, retry.Policy, Part[retry.Verdict, *retry.Error])
//
// It is what retry.Do is for a single attempt: it calls the policy's Hooks in the same order
// with the same values, makes the same contexts, and reads the policy's Clock. But it decides
// nothing, so it does not use the policy's limits, Backoff, Budget and Guards: Decide does,
// for example by a Loop that it resumes. Times in Hooks are those of the part.
//
// A panic or runtime.Goexit in a func of the part passes through, and Hooks.Done gets
// ReasonPanic. Run panics if the context is nil.
var Run any
