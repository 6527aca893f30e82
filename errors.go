package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrRejected is the error of an attempt whose value [Until] did not accept.
// It is Transient, and Policy.Classify never sees it.
var ErrRejected = errors.New("retry: value not accepted")

// ErrAttemptTimeout is the cause ([context.Cause]) of an attempt's context once
// Policy.AttemptTimeout has passed. It is a [context.DeadlineExceeded], and a
// net.Error that timed out.
var ErrAttemptTimeout error = attemptTimeout{}

type attemptTimeout struct{}

func (attemptTimeout) Error() string        { return "retry: attempt timed out" }
func (attemptTimeout) Timeout() bool        { return true }
func (attemptTimeout) Temporary() bool      { return true }
func (attemptTimeout) Is(target error) bool { return target == context.DeadlineExceeded }
func (attemptTimeout) ErrorType() string    { return "retry.attempt_timeout" } // the error.type of telemetry

// errPanic stands for the error of an attempt that did not return.
var errPanic error = panicked{}

type panicked struct{}

func (panicked) Error() string     { return "retry: panic or runtime.Goexit during the run" }
func (panicked) ErrorType() string { return ReasonPanic.errorType() }

// Reason says why a run ended.
type Reason uint8

const (
	ReasonNone          Reason = iota // it has not ended, or it succeeded
	ReasonPermanent                   // the error will not go away
	ReasonNotIdempotent               // op may have run, and Policy.NonIdempotent forbids a second time
	ReasonMaxAttempts                 // Policy.MaxAttempts were made
	ReasonMaxElapsed                  // the next wait would have passed Policy.MaxElapsed
	ReasonDeadline                    // the caller's deadline passed, or the next wait would have
	ReasonRetryAfter                  // the server asked for more than Policy.MaxRetryAfter
	ReasonBudget                      // Policy.Budget refused the retry
	ReasonCanceled                    // the caller's context was canceled
	ReasonPanic                       // op, or a func of the policy, panicked or called runtime.Goexit: only hooks see it
)

var reasons = [...]string{
	"retry.none", "retry.permanent", "retry.not_idempotent", "retry.max_attempts", "retry.max_elapsed",
	"retry.deadline", "retry.retry_after", "retry.budget", "retry.canceled", "retry.panic",
}

// String returns the reason as one lower-case word: "max_attempts".
func (r Reason) String() string { return r.errorType()[len("retry."):] }

func (r Reason) errorType() string {
	if int(r) >= len(reasons) {
		return "retry.unknown"
	}
	return reasons[r]
}

// keep is how many of a run's errors an Error holds.
const keep = 8

// Error is what every run that gave up returns, also after a single attempt. It
// tells why, and holds what the attempts returned: [errors.Is] and [errors.As]
// find all of it. With ReasonCanceled it is also a [context.Canceled], with
// ReasonDeadline a [context.DeadlineExceeded]. Hooks.Done gets the same one that
// the caller does: do not change it.
type Error struct {
	Name     string // the policy's
	Reason   Reason
	Attempts int           // how often op was called
	Elapsed  time.Duration // the whole run, on the policy's clock
	Waited   time.Duration // the part of it with no attempt running

	// Errs are the attempts' errors, oldest first, at most eight: the first,
	// then the latest seven. The last one is the final attempt's. A mark of Stop or
	// After is taken off unless something is wrapped around it. So return the *Error
	// itself to an outer run, not one of these: it ignores marks inside an *Error,
	// but heeds those in a bare error.
	Errs []error

	// Cause is [context.Cause] of the caller's context if that ended the run,
	// context.DeadlineExceeded for a wait that was not begun because the deadline
	// would pass in it, else nil.
	Cause error
}

// Error tells who gave up, after how much, why, and the last error. A cause that
// neither the reason nor the last error tells follows.
func (e *Error) Error() string {
	if e == nil {
		return "retry: nil *Error" // one that became an error on its way through an interface
	}
	name := e.Name
	if name == "" {
		name = "retry"
	}
	last := e.Last()
	if e.Attempts == 0 && e.Cause != nil {
		return fmt.Sprintf("%s: not attempted (%s): %v", name, e.Reason, e.Cause)
	}
	s := fmt.Sprintf("%s: gave up after %s in %v (%s)", name, count(e.Attempts), brief(e.Elapsed), e.Reason)
	if last != nil {
		s += ": " + last.Error()
	}
	if e.Cause != nil && !e.Is(e.Cause) && !strings.Contains(s, e.Cause.Error()) {
		s += "; cause: " + e.Cause.Error()
	}
	return s
}

// Last returns the final attempt's error, nil if there was none.
func (e *Error) Last() error {
	if e == nil || len(e.Errs) == 0 {
		return nil
	}
	return e.Errs[len(e.Errs)-1]
}

// Unwrap returns Errs, the newest first, and then Cause. So errors.As finds the
// latest error of a type.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	errs := make([]error, 0, len(e.Errs)+1)
	for _, err := range slices.Backward(e.Errs) {
		errs = append(errs, err)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// Is reports whether target is the context's error that the reason stands for,
// whatever cause the context was given.
func (e *Error) Is(target error) bool {
	switch {
	case e == nil:
		return false
	case e.Reason == ReasonCanceled:
		return target == context.Canceled
	case e.Reason == ReasonDeadline:
		return target == context.DeadlineExceeded
	}
	return false
}

// Timeout reports whether it was time that ran out: the caller's deadline, or the
// last attempt's own. It is how [net/url.Error] and os.IsTimeout ask.
func (e *Error) Timeout() bool {
	if e == nil || e.Reason == ReasonCanceled {
		return false
	}
	var last interface{ Timeout() bool }
	return e.Reason == ReasonDeadline || errors.As(e.Last(), &last) && last.Timeout()
}

// ErrorType returns the reason as an error.type for spans and metrics, of low
// cardinality: "retry.max_attempts".
func (e *Error) ErrorType() string {
	if e == nil {
		return "retry.unknown"
	}
	return e.Reason.errorType()
}

func count(attempts int) string {
	if attempts == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", attempts)
}

// brief rounds d to three digits, for people.
func brief(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit)
}

// mark is an error with the caller's own word on it.
type mark struct {
	err  error
	stop bool
	hint time.Duration
}

func (m *mark) Error() string { return m.err.Error() }
func (m *mark) Unwrap() error { return m.err }

// Stop marks err: the run that sees it ends, with ReasonPermanent. The text of
// err stays as it is, and so does any wrapping around the mark; outer runs do not
// see the mark. Stop(nil) is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, stop: true}
}

// After marks err as Throttled by a server that asks not to be called again for
// d. The wait before the retry is d and the backoff; with d above
// Policy.MaxRetryAfter the run ends. Zero or negative, d asks for no wait beyond
// the backoff. After(nil, d) is nil.
//
// An error with a method RetryAfter() time.Duration needs no mark.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, hint: max(d, 0)}
}
