package retry

// May call: none of its neighbours.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry/internal/errtree"
	"github.com/goretry/retry/internal/neterr"
	"github.com/goretry/retry/internal/paced"
)

var (
	// ErrRejected is the error of an attempt whose value [Until] did not accept. It is Transient.
	ErrRejected = errors.New("retry: value not accepted")

	// ErrAttemptTimeout is the cause ([context.Cause]) of an attempt's context once
	// Policy.AttemptTimeout has passed. errors.Is says that it is a [context.DeadlineExceeded], and
	// its method Timeout returns true.
	ErrAttemptTimeout error = attemptTimeout{}

	// ErrPaced is the Cause of an [Error] with [ReasonGuard] if a guard would have admitted the next
	// attempt too late. It is Unprocessed: nothing was sent. If it has a method RetryAfter()
	// time.Duration, that is the wait, and a run around this one waits for it.
	ErrPaced error = paced.Err{}
)

type attemptTimeout struct{}

func (attemptTimeout) Error() string        { return "retry: attempt timed out" }
func (attemptTimeout) Timeout() bool        { return true }
func (attemptTimeout) Temporary() bool      { return true }
func (attemptTimeout) Is(target error) bool { return target == context.DeadlineExceeded }
func (attemptTimeout) ErrorType() string    { return "retry.attempt_timeout" } // the error.type of telemetry

// errPanic is the error of an attempt that did not return.
var errPanic error = panicked{}

type panicked struct{}

func (panicked) Error() string     { return "retry: panic or runtime.Goexit during the run" }
func (panicked) ErrorType() string { return ReasonPanic.errorType() }

// Reason says why a run ended.
type Reason uint8

const (
	ReasonNone          Reason = iota // it has not ended, or it succeeded
	ReasonPermanent                   // the error will not go away
	ReasonRefused                     // the server asked for no retry
	ReasonNotIdempotent               // op may have run, and Policy.NonIdempotent forbids a second run
	ReasonMaxAttempts                 // Policy.MaxAttempts were made
	ReasonMaxElapsed                  // the next wait would have passed Policy.MaxElapsed
	ReasonDeadline                    // the caller's deadline passed, or the next wait would have
	ReasonRetryAfter                  // the server asked for more than Policy.MaxRetryAfter
	ReasonBudget                      // Policy.Budget refused the retry
	ReasonCanceled                    // the caller's context was canceled, or [Attempts] were canceled between two attempts
	ReasonPanic                       // op or a func of the policy panicked or called runtime.Goexit; only hooks and Attempts.Err show it
	ReasonGuard                       // a guard has refused the next attempt, or would have admitted it too late
)

// reasons are the error.type of each. Others that know all reasons: ends in verdict.go, ofRun
// in finding.go, run in class.go, and endings in otel, which counts on the order.
var reasons = [...]string{
	"retry.none", "retry.permanent", "retry.refused", "retry.not_idempotent", "retry.max_attempts", "retry.max_elapsed",
	"retry.deadline", "retry.retry_after", "retry.budget", "retry.canceled", "retry.panic", "retry.guard",
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

// Error is what a run returns when it gives up, even after a single attempt. It says why, and
// wraps what the attempts returned: [errors.Is] and [errors.As] search all of Errs and Cause. With
// ReasonCanceled errors.Is also finds [context.Canceled], with ReasonDeadline
// [context.DeadlineExceeded]. The caller and Hooks.Done get the same *Error: do not change it.
//
// Return the *Error itself to an outer run. That run ignores the marks in it, but obeys the wait
// of an After mark. It obeys all marks in an error taken from Errs.
type Error struct {
	Name     string        // Policy.Name
	Attempts int           // how many were made
	Elapsed  time.Duration // how long the run took, on the policy's clock
	Waited   time.Duration // the part of Elapsed in which no attempt was running
	Guard    string        // with ReasonGuard the type of the guard, such as "limit.Limit"; else ""
	hint     time.Duration // the wait that the last attempt's error asked for, since its After mark is removed; see finding
	Reason   Reason
	InWait   bool // the caller ended the run between two attempts, or before the first
	Undone   bool // every attempt's Verdict was Undone, and none was Partial
	Answered bool // the last error was an Answer: all but the caller count a success
	Marked   bool // a mark ended the run (Stop, Answer or Refuse), and no classifier
	ahead    bool // with ReasonDeadline: it has not passed, but the next wait would have passed it

	// Errs has the attempts' errors, oldest first, without marks on top: the first and the latest
	// seven. If [Supervise] ended in the pause between two runs, it has the error before the pause.
	Errs []error

	// Cause is [context.Cause] of the caller's context if that ended the run, context.DeadlineExceeded
	// if the next wait would have passed its deadline, and the clock's error if its Sleep failed.
	// With ReasonGuard it is the guard's error, or an [ErrPaced]; with ReasonBudget what the retry
	// would have cost and what was left, if the budget has a method Price; with ReasonRetryAfter
	// the wait and the limit that it exceeds. Otherwise it is nil.
	Cause error
}

// Error returns one line: what gave up, after how many attempts and how long, why, the last error,
// and the Cause. If the last error says only that a context has ended or that a body was used up,
// the latest of Errs that says more follows it, cut to 256 bytes. "; " stands for a new line.
func (e *Error) Error() string {
	if e == nil {
		return "retry: nil *Error" // a nil *Error that was converted to an error
	}
	return oneLine(e.text())
}

func (e *Error) text() string {
	name := e.Name
	if name == "" {
		name = "retry"
	}
	last := e.lastAttempt()
	by := ""
	if e.Guard != "" {
		by = e.Guard + ": "
	}
	if e.Attempts == 0 && e.Cause != nil {
		return name + ": not attempted (" + e.Reason.String() + "): " + by + fmt.Sprint(e.Cause) + e.again()
	}
	reason := errtree.Reason(e)
	switch {
	case (e.Reason == ReasonBudget || e.Reason == ReasonRetryAfter) && e.Cause != nil:
		reason += ": " + fmt.Sprint(e.Cause)
	case e.ahead:
		reason += ": the next wait would pass it"
	}
	after := " after " + attemptsText(e.Attempts) + " in " + brief(e.Elapsed).String()
	s := name + ": gave up" + after + " (" + reason + ")"
	if e.Answered {
		s = name + ": answered" + after
	}
	if last != nil {
		text := fmt.Sprint(last) // Sprint, because it survives a nil pointer
		s += ": " + text
		if hides(text) {
			if hidden := e.hidden(); !strings.Contains(s, hidden) {
				s += "; before that: " + hidden
			}
		}
	}
	if e.Cause != nil && !e.Is(e.Cause) {
		if cause := fmt.Sprint(e.Cause); by != "" || !strings.Contains(s, cause) {
			s += "; cause: " + by + cause + e.again()
		}
	}
	return s
}

// again returns the wait that a guard asks for with its refusal, if the text of that does not say it.
func (e *Error) again() string {
	asks, ok := errtree.Find[interface {
		error
		RetryAfter() time.Duration
	}](e.Cause)
	if !ok || e.Guard == "" || asks.RetryAfter() <= 0 || errtree.Is(e.Cause, ErrPaced) {
		return ""
	}
	return "; retry after " + brief(asks.RetryAfter()).String()
}

// tooLong is the Cause of an Error with ReasonRetryAfter.
type tooLong struct{ wait, limit time.Duration }

func (t tooLong) Error() string {
	wait := brief(t.wait)
	if wait <= t.limit {
		wait = t.wait
	}
	return wait.String() + " is more than " + t.limit.String()
}

// oneLine returns a text with "; " between its lines, without blanks around that and without lines
// that are empty. With funcs of package strings a small program would be 24 KiB larger.
func oneLine(text string) string {
	s := make([]byte, 0, len(text))
	begins := false // a line that is not the first one
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '\r' || c == '\n':
			for begins = true; len(s) > 0 && isBlank(s[len(s)-1]); {
				s = s[:len(s)-1]
			}
		case begins && isBlank(c):
		case begins && len(s) > 0:
			s, begins = append(s, ';', ' ', c), false
		default:
			s, begins = append(s, c), false
		}
	}
	return string(s)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// hidden returns the text of the latest error before the last one that hides nothing, or "". Of
// an inner run it is that of what its last attempt failed with: texts of runs within runs, each
// twice, would be twice as long for each.
func (e *Error) hidden() string {
	for _, err := range slices.Backward(e.Errs[:len(e.Errs)-1]) {
		run, within := errtree.Find[*Error](err)
		for range keep {
			if within {
				err = run.lastAttempt()
				run, within = errtree.Find[*Error](err)
			}
		}
		if err == nil || within {
			continue
		}
		if text := fmt.Sprint(err); !hides(text) {
			return shortened(text)
		}
	}
	return ""
}

// hides reports whether an error's text ends as those errors do that say nothing of the server,
// because the attempt could not be made to its end, whatever a client has put around that.
func hides(text string) bool {
	for _, end := range [...]string{
		"context deadline exceeded", "context canceled", "(Client.Timeout exceeded while awaiting headers)",
		"file already closed", "read/write on closed pipe", "with Body length 0", // of a body that an attempt before has read
		"before resuming publishing", // Pub/Sub's, after the error of a message with the same key
	} {
		if strings.HasSuffix(text, end) {
			return true
		}
	}
	return false
}

// shortened returns text, or the beginning of one that is longer than 256 bytes.
func shortened(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) { // not within a character
		end--
	}
	return text[:end] + "…"
}

// Last returns the final attempt's error, or the Cause. It is never nil.
func (e *Error) Last() error {
	switch last := e.lastAttempt(); {
	case last != nil:
		return last
	case e != nil && e.Cause != nil:
		return e.Cause
	}
	return errNoAttempt
}

// errNoAttempt is the Last of an Error that no run has made.
var errNoAttempt = errors.New("retry: no attempt was made")

// lastAttempt returns the final attempt's error, nil if none was made.
func (e *Error) lastAttempt() error {
	if e == nil || len(e.Errs) == 0 {
		return nil
	}
	return e.Errs[len(e.Errs)-1]
}

func init() {
	errtree.LastAttempt = func(err error) (error, bool) {
		run, ok := err.(*Error)
		return run.lastAttempt(), ok
	}
}

// Unwrap returns a new slice with Errs, the newest first, each error once, and then the Cause. So
// errors.As finds the latest error of a type.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	errs := make([]error, 0, len(e.Errs)+1)
	for i, err := range slices.Backward(e.Errs) {
		if !slices.ContainsFunc(e.Errs[i+1:], func(later error) bool { return errtree.IDOf(later) == errtree.IDOf(err) }) {
			errs = append(errs, err)
		}
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// Is reports whether target is context.Canceled and the reason is ReasonCanceled, or
// context.DeadlineExceeded and ReasonDeadline.
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

// Timeout reports whether the caller's deadline passed, or would have passed during the next wait,
// or whether the last attempt's error is a timeout. [net/url.Error] and os.IsTimeout call it.
func (e *Error) Timeout() bool {
	if e == nil || e.Reason == ReasonCanceled || e.Reason == ReasonGuard {
		return false
	}
	return e.Reason == ReasonDeadline || within(e.lastAttempt(), func(err error) bool {
		return timedOut(err) || errtree.Is(err, context.DeadlineExceeded)
	})
}

// Temporary reports whether the same call may succeed later, as package net means it: the run came
// to a limit of time, attempts, a budget or a guard, or the server asked for a longer wait than
// allowed. [net/url.Error] calls it.
func (e *Error) Temporary() bool {
	if e == nil {
		return false
	}
	switch e.Reason {
	case ReasonMaxAttempts, ReasonMaxElapsed, ReasonDeadline, ReasonRetryAfter, ReasonBudget, ReasonGuard:
		return true
	}
	return false
}

// timedOut reports whether err itself, without what it wraps, is a timeout.
func timedOut(err error) bool {
	e, ok := err.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// ErrorType returns the reason for spans and metrics: "retry.max_attempts".
func (e *Error) ErrorType() string {
	if e == nil {
		return "retry.unknown"
	}
	return e.Reason.errorType()
}

func attemptsText(attempts int) string {
	if attempts == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(attempts) + " attempts"
}

// brief rounds d to three digits, for people.
func brief(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit)
}

// mark is what Stop, Answer, Refuse, After and Undone put around an error.
type mark struct {
	err      error
	class    Class // what the mark decides; Unknown for Undone, which leaves the class to err
	answered bool  // Answer
	refused  bool  // Refuse
	hint     time.Duration
}

func (m *mark) undone() bool  { return m.class == Unknown }
func (m *mark) Error() string { return m.err.Error() }
func (m *mark) Unwrap() error { return m.err }

// ErrorType returns the error.type of the marked error, so that a mark changes no
// metric. If that error has no method ErrorType, it is the name of its type, or of the
// type inside what fmt.Errorf wrapped around it, as OpenTelemetry's conventions say.
func (m *mark) ErrorType() (name string) {
	if within(m.err, func(err error) bool {
		e, ok := err.(interface{ ErrorType() string })
		if ok {
			name = e.ErrorType()
		}
		return ok
	}) && name != "" {
		return name
	}
	neterr.Of(m.err) // meets it
	t := reflect.TypeOf(unwrapped(m.err))
	if t.Name() != "" {
		return t.PkgPath() + "." + t.Name()
	}
	return t.String()
}

// errorString is the type of the errors that errors.New returns, which is that of most errors.
var errorString = reflect.TypeOf(ErrRejected)

// unwrapped returns err without what fmt.Errorf has put around it for one %w, which says nothing itself. It may
// miss the first such error of all that neterr.Of has not met yet.
func unwrapped(err error) error {
	for neterr.Wraps(err) {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// within reports whether is returns true for an error in the tree of err, outside of
// inner runs.
func within(err error, is func(error) bool) bool {
	return errtree.Walk(err, func(err error) errtree.Next {
		if is(err) {
			return errtree.Stop
		}
		if _, ok := err.(*Error); ok {
			return errtree.Past
		}
		return errtree.Into
	})
}

func unmarked(err error) error {
	for {
		m, ok := err.(*mark)
		if !ok {
			return err
		}
		err = m.err
	}
}

// Stop marks err as permanent: the run that op returns it to ends, with ReasonPermanent. Like
// every mark it does not change the text of err, and is recognized anywhere in the error that op
// returns, except inside an *[Error], whose marks were for an inner run. Of several marks but Undone
// the outermost decides, and of joined errors the first that has one. Stop(nil) is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, class: Permanent}
}

// Answer marks err as an answer that op's caller expects, such as redis.Nil for a key that a cache
// does not hold, or a 404. The run ends, with ReasonPermanent, and returns an *[Error] that holds
// err: errors.Is and errors.As find it. To all others the attempt and the run have succeeded: to
// the budget, packages limit and hedge, SlogHooks and telemetry. Fields named Answered tell them.
// An outer run that gets that *Error ends too, but counts a failure, unless its op returns
// Answer(err). Answer(nil) is nil.
func Answer(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, class: Permanent, answered: true}
}

// Refuse marks err as coming from a server that asked not to be called again, because it is
// overloaded or has made its own retries. The class of err is Permanent, and the run ends with
// ReasonRefused. So does an outer run that gets its *[Error]. To package limit that is no answer,
// whereas an error marked by [Stop] is one. Refuse(nil) is nil.
func Refuse(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, class: Permanent, refused: true}
}

// After marks err as Throttled, from a server that asks not to be called again for d: see rule 7
// of the package documentation. If d is above Policy.MaxRetryAfter, the run ends. If d is zero or
// negative, the wait is not known: it is the backoff alone. If err is or wraps [ErrRejected], it
// stays Transient: a poll that the server wants to see again has not been throttled. After(nil, d)
// is nil.
//
// An error with a method RetryAfter() time.Duration needs no mark. If that returns 0, and a method
// RetryNow() bool returns true, the server asks for a retry at once.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, class: Throttled, hint: max(d, 0)}
}

// Undone marks err as the error of an op that did nothing, or undid all it did. That is the proof
// without which Policy.NonIdempotent forbids a retry. An op that makes several calls returns
// Undone if the first one did nothing. The mark does not change what err means: a permanent error
// still ends the run, and a wait that err asks for is obeyed. Of joined errors each one must be
// marked. Undone(nil) is nil.
func Undone(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err}
}
