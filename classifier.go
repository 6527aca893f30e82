package retry

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/internal/engine"
)

// Class says what an error means for a retry.
type Class uint8

const (
	Unknown     Class = iota // no opinion: the next classifier decides; if none does, Transient
	Permanent                // trying again gives the same error
	Transient                // trying again may work
	TimedOut                 // like Transient, but no answer came in time: the server may still be at work
	Throttled                // trying again later may work: the server is too busy
	Unprocessed              // trying again may work, and op provably did nothing: safe even if op must not run twice
)

var classes = [...]string{"unknown", "permanent", "transient", "timed_out", "throttled", "unprocessed"}

// String returns the class as one lower-case word: "timed_out".
func (c Class) String() string {
	if int(c) >= len(classes) {
		return classes[Unknown]
	}
	return classes[c]
}

// Classifier returns what an error means, or Unknown if it has no opinion. It gets the
// error that op returned, and should search it with errors.As and errors.Is. It is
// never called with nil, a marked error or [ErrRejected].
type Classifier func(error) Class

// Classifiers calls one classifier after the other and returns the first class that is
// not Unknown. Nil classifiers are skipped.
func Classifiers(cs ...Classifier) Classifier {
	cs = slices.Clone(cs)
	return func(err error) Class {
		for _, classify := range cs {
			if classify == nil {
				continue
			}
			if c := classify(err); c != Unknown {
				return c
			}
		}
		return Unknown
	}
}

// AlreadyRetried is a [Classifier] for the outer of two layers that both retry:
// Permanent for an error that holds a run which was [Final], else Unknown. With it in
// Policy.Classify the attempts of the layers add up instead of multiplying.
func AlreadyRetried(err error) Class {
	if holdsFinalRun(err) {
		return Permanent
	}
	return Unknown
}

// Final reports whether a server that failed with err should tell its caller not to
// call again, since the retries of layers multiply. That is so if one of these is true:
//
//   - err is marked by [Stop] or [Refuse], outside of any *[Error].
//   - It holds a run that ended because the error is permanent, because a server refused
//     a retry, or because the work may have been done.
//   - It holds a run that has retried and come to a limit. A run of one attempt has not
//     retried, so the layer above may. Neither has one whose last error is ErrRejected:
//     it has polled.
//
// A run that was canceled does not count, whatever it holds: a sibling may have failed,
// or the caller may have left. Neither does a run that ended because a server asked for
// too long a wait: the caller gets that wait instead. Final(nil) is false. How a server
// tells its caller is a matter of the protocol: see package retryhttp.
func Final(err error) bool {
	if err == nil {
		return false
	}
	m := inspect(err).mark
	return m != nil && m.class == Permanent || holdsFinalRun(err)
}

// holdsFinalRun walks the tree of err as errors.As does, and into an inner run only
// through its last error.
func holdsFinalRun(err error) bool {
	for !engine.IsNil(err) { // the methods of a nil pointer may not survive
		if e, ok := err.(*Error); ok {
			switch e.Reason {
			case ReasonPermanent, ReasonRefused, ReasonNotIdempotent:
				return true
			case ReasonMaxAttempts, ReasonMaxElapsed, ReasonDeadline, ReasonBudget:
				if e.Attempts > 1 && !within(e.Last(), isRejected) {
					return true
				}
			case ReasonCanceled, ReasonRetryAfter:
				return false
			}
			err = e.Last()
			continue
		}
		if e, ok := err.(asMethod); ok {
			if inner, ok := find[*Error](e); ok && holdsFinalRun(inner) {
				return true
			}
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(e.Unwrap(), holdsFinalRun)
		default:
			return false
		}
	}
	return false
}

func isRejected(err error) bool { return err == ErrRejected }

// finding is what the tree of an error holds besides its class.
type finding struct {
	mark       *mark         // the first one that decides; if there is one, its class counts
	undone     bool          // there is a mark of Undone; of joined errors each must have one
	rejected   bool          // there is an ErrRejected
	answered   bool          // there is one that is not only found by a method Is: errGoesOn has that
	refused    bool          // the first inner run to be found ended with ReasonRefused
	run        bool          // there is an inner run
	hint       time.Duration // the first wait that a server asked for
	turnedAway bool          // a server named a retry time, which may be now: engine.Refusal
}

func (f *finding) isRefused() bool {
	if f.mark != nil {
		return f.mark.refused
	}
	return f.refused
}

// add takes what was found further on in the tree, except for undone.
func (f *finding) add(more finding) {
	if more.mark != nil {
		more.undone = f.undone
		*f = more
		return
	}
	if !f.run {
		f.run, f.refused = more.run, more.refused
	}
	f.rejected, f.answered = f.rejected || more.rejected, f.answered || more.answered
	f.hint, f.turnedAway = cmp.Or(f.hint, more.hint), f.turnedAway || more.turnedAway
}

// addRun takes an inner run's *Error. Only the wait in its last error counts: marks
// and ErrRejected were for the inner run.
func (f *finding) addRun(e *Error) {
	if e == nil {
		f.add(finding{run: true})
		return
	}
	last := inspect(e.Last())
	f.add(finding{run: true, refused: e.Reason == ReasonRefused, hint: cmp.Or(e.hint, last.hint), turnedAway: last.turnedAway})
}

// inspectMark returns what a mark says. Undone leaves all else to the error that it
// marks. The wait in that error also counts if the server refused: the mark only says
// that this run must not wait for it.
func inspectMark(m *mark) finding {
	inner := inspect(m.err)
	switch {
	case m.class == Unknown:
		inner.undone = true
		return inner
	case !m.refused:
		inner.hint = m.hint
	}
	return finding{mark: m, undone: inner.undone, answered: inner.answered, hint: inner.hint}
}

// inspect walks the tree of err as errors.As does.
func inspect(err error) (f finding) {
	var seen silentTypes
	system := false
	for {
		t := reflect.TypeOf(err)
		if t == plain {
			if err == ErrRejected {
				f.rejected, f.answered = true, true
			}
			return f
		}
		switch e := err.(type) {
		case nil, errno:
			return f
		case *mark:
			inner := inspectMark(e)
			f.add(inner)
			f.undone = f.undone || inner.undone
			return f
		case *Error:
			f.addRun(e)
			return f
		}
		if engine.IsNil(err) {
			return f
		}
		if inner, ok := systemError(err); ok {
			err, system = inner, true
			continue
		}
		if seen.has(t) {
			err = errors.Unwrap(err)
			continue
		}
		if f.hint == 0 {
			says := read(err, !system)
			f.hint, f.turnedAway = says.Hint, f.turnedAway || says.Timed
		}
		f.turnedAway = f.turnedAway || turnedAway(err)
		if e, ok := err.(asMethod); ok {
			f.add(inspectBehind(e))
			if f.mark != nil {
				return f
			}
		}
		if e, ok := err.(isMethod); ok && e.Is(ErrRejected) && !holdsRun(err) {
			f.rejected = true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			undone, any := true, false
			for _, err := range e.Unwrap() {
				if err == nil {
					continue
				}
				inner := inspect(err)
				if f.mark == nil {
					f.add(inner)
				}
				undone, any = undone && inner.undone, true
			}
			f.undone = f.undone || undone && any
			return f
		default:
			return f
		}
	}
}

// systemError returns what err wraps, if err is one of the types that packages net,
// net/url and os put around other errors. These types ask for no wait, and their
// Timeout methods only call that of the inner error.
func systemError(err error) (inner error, ok bool) {
	switch e := err.(type) {
	case *url.Error:
		return e.Err, true
	case *net.OpError:
		return e.Err, true
	case *os.SyscallError:
		return e.Err, true
	case *fs.PathError:
		return e.Err, true
	}
	return nil, false
}

// inspectBehind is inspect for errors that only the method As of e finds. A mark
// counts only if there is no *Error, since the mark may be inside it.
func inspectBehind(e asMethod) (f finding) {
	if inner, ok := find[*Error](e); ok {
		f.addRun(inner)
		return f
	}
	if m, ok := find[*mark](e); ok {
		return inspectMark(m)
	}
	if asks, ok := find[asksWait](e); ok {
		f.hint = askedWait(asks)
	}
	return f
}

// holdsRun reports whether the method As of err, if it has one, finds an *Error.
func holdsRun(err error) bool {
	e, ok := err.(asMethod)
	if ok {
		_, ok = find[*Error](e)
	}
	return ok
}

type asksWait interface {
	error
	RetryAfter() time.Duration
}

// askedWait returns the wait that err itself says the server asked for, or 0.
func askedWait(err error) time.Duration {
	if e, ok := err.(asksWait); ok {
		return max(e.RetryAfter(), 0)
	}
	return 0
}

// turnedAway reports whether err itself says that a server turned the call away.
func turnedAway(err error) bool {
	e, ok := err.(engine.Refusal)
	return ok && bool(e.TurnedAway())
}

// DefaultClassifier knows the errors of the standard library, and these methods of
// other errors: ErrorCode (AWS), StatusCode and HTTPStatusCode (HTTP), SQLState (SQL
// drivers), SafeToRetry (pgx), Retryable and RetryableError (AWS), RetryAfter,
// Timeout. It decides by type, interface and code.
//
// It knows the errors of popular clients without importing them:
//
//   - by exported fields: StatusCode, HTTPStatusCode, HTTPStatus and HTTPCode, a
//     *http.Response, a http.Header beside a status, and RetryAfter;
//   - by marker methods, such as NotFound, which are not called;
//   - by a table of types and codes: gRPC, Kafka, Redis, MongoDB, SQL Server and more,
//     all in docs/clients.md.
//
// An outer status goes before an inner cause.
//
// It compares texts in two places only: a few permanent net/http errors have nothing
// else, and the first word of an error of Redis is its code. Error types of
// crypto/tls, crypto/x509 and net/http are recognized by their names: they are found
// by Unwrap, but not through an As method that knows only their types.
//
// The most specific knowledge wins. A timeout is TimedOut, but a dial that times out
// is Unprocessed, and a failed dial is Permanent if a bad certificate was the cause.
// Of joined errors the first known one decides. An error is Unprocessed only if
// everything joined in it is. Inside a [*url.Error] it is only Transient, because
// http.Client may already have sent the request and followed a redirect. So is an
// error that is recognized only through its own As or Is method. An [*Error] of an
// inner run is Unprocessed only if all of its attempts were.
//
// A nil pointer in err is Unknown, except that a nil *[Error] is Transient. Methods of
// nil pointers are not called. A panic in a method of err passes through.
func DefaultClassifier(err error) Class {
	if reflect.TypeOf(err) == plain {
		return classifySentinel(err)
	}
	switch c := classify(err, scope{behind: true, fields: true}); c {
	case refused:
		return Throttled
	case Throttled:
		// A resource is exhausted, which proves nothing. With a hint, Throttled would mean
		// that a server turned the call away.
		if f := inspect(err); f.hint > 0 || f.turnedAway {
			return Transient
		}
		return c
	default:
		return c
	}
}

// refused is the class, within classify, of an error that is Throttled and proves that
// op did nothing: a server has turned the call away, and said how long to wait.
const refused = Unprocessed + 1

// proves reports whether an error of class c proves that op did nothing.
func proves(c Class) bool { return c == Unprocessed || c == refused }

// doubted returns the class to use instead of c if something else may have happened
// too.
func doubted(c Class) Class {
	switch c {
	case Unprocessed:
		return Transient
	case refused:
		return Throttled
	}
	return c
}

// scope says where to look.
type scope struct {
	// behind: through methods As and Is. What they return is judged without this, since
	// an As may return an error that wraps its own.
	behind bool

	// fields of errors, which are ignored inside the errors of net, net/url and os.
	fields bool
}

// classify judges the tree of err. It walks down a chain in a loop, so that a long
// one costs no stack.
func classify(err error, look scope) Class {
	otherwise, hinted := Unknown, false
	var seen silentTypes
	for {
		t := reflect.TypeOf(err)
		if t == plain {
			return cmp.Or(classifySentinel(err), otherwise)
		}
		switch e := err.(type) {
		case nil:
			return otherwise
		case errno:
			return cmp.Or(classifyErrno(e), otherwise)
		case *Error:
			return e.class(look)
		}
		if engine.IsNil(err) {
			return otherwise
		}
		if inner, ok := systemError(err); ok {
			look.fields = false
			switch e := err.(type) {
			case *url.Error:
				return cmp.Or(classifyURL(e, look), otherwise)
			case *net.OpError:
				return cmp.Or(classifyOp(e, look), otherwise)
			}
			err = inner
			continue
		}
		if seen.has(t) {
			err = errors.Unwrap(err)
			continue
		}
		says := read(err, look.fields)
		if says.Hint > 0 {
			otherwise, hinted = cmp.Or(otherwise, Transient), true
		}
		c := classifyNode(err, says, hinted)
		if c == Unknown && look.behind {
			c = classifyBehind(err, look)
		}
		if c != Unknown {
			return c
		}
		if timedOut(err) {
			otherwise = TimedOut
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return cmp.Or(classifyAll(e.Unwrap(), look), otherwise)
		default:
			return otherwise
		}
	}
}

// timedOut reports whether err itself, without what it wraps, is a timeout.
func timedOut(err error) bool {
	e, ok := err.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// classifyNode judges one error without what it wraps. hinted says that err, or an
// error around it, asks for a wait.
func classifyNode(err error, says saying, hinted bool) Class {
	if says.known {
		if c := says.class(err, hinted); c != Unknown {
			return c
		}
	}
	if e, ok := err.(*net.DNSError); ok {
		switch {
		case e.IsNotFound:
			return Permanent
		case e.IsTimeout, e.IsTemporary:
			return Unprocessed
		}
		return Unknown
	}
	if err == net.ErrClosed {
		return Transient
	}
	if c := classifyMethods(err, says.Hint > 0, hinted); c != Unknown {
		return c
	}
	if c := classifyType(err); c != Unknown || says.known {
		return c
	}
	return says.class(err, hinted)
}

// classifyURL judges errors of http.Client and url.Parse. They prove nothing, since
// the client may have sent the request and then followed a redirect.
func classifyURL(e *url.Error, look scope) Class {
	if e.Op == "parse" || refusedByClient(e.Err) {
		return Permanent
	}
	return doubted(classify(e.Err, look))
}

// classifyOp judges errors of packages net and crypto/tls.
func classifyOp(e *net.OpError, look scope) Class {
	// crypto/tls has no exported name for the alerts that it returns: numbers of one byte.
	if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 && strings.HasSuffix(e.Op, " error") {
		return classifyAlert(v.Uint())
	}
	c := classify(e.Err, look)
	switch {
	case e.Op == "dial" && c != Permanent:
		return Unprocessed
	case e.Op == "read", e.Op == "write":
		return doubted(c) // "no route to host" on an established connection proves nothing
	}
	return c
}

// classifyAll judges what is joined.
func classifyAll(errs []error, look scope) Class {
	first, all := Unknown, true
	for _, err := range errs {
		if err == nil {
			continue
		}
		c := classify(err, look)
		all = all && proves(c)
		if first == Unknown || first == Unprocessed && c != Unknown {
			first = c
		}
	}
	if !all {
		return doubted(first)
	}
	return first
}

// class returns what the error of an inner run means to an outer run.
func (e *Error) class(look scope) Class {
	switch {
	case e == nil:
		return Transient
	case e.Reason == ReasonPermanent, e.Reason == ReasonRefused, e.Reason == ReasonNotIdempotent:
		return Permanent
	case e.Attempts == 0: // an error that Supervise had before its pause is not this run's
		return Transient
	case e.Undone:
		return Unprocessed
	}
	c := cmp.Or(classify(e.Last(), look), Transient)
	if !proves(c) {
		return c
	}
	if e.Attempts != len(e.Errs) {
		return Transient // Errs does not hold every attempt's error
	}
	for _, err := range e.Errs {
		if !proves(classify(err, look)) {
			return Transient
		}
	}
	return c
}

// Methods that may hide parts of a tree: hashicorp's go-multierror shows all errors
// except its first one only by these.
type (
	asMethod = interface{ As(target any) bool }
	isMethod = interface{ Is(target error) bool }
)

// find returns what the method As of e finds, if it is not nil.
func find[T error](e asMethod) (target T, ok bool) {
	ok = e.As(&target) && !engine.IsNil(target)
	return target, ok
}

// classifyBehind judges what only the methods As and Is of err show. They do not show
// everything, so they prove nothing.
func classifyBehind(err error, look scope) Class {
	look.behind = false
	if e, ok := err.(asMethod); ok {
		for _, t := range behindAs {
			target := reflect.New(t)
			if !e.As(target.Interface()) {
				continue
			}
			found, _ := target.Elem().Interface().(error)
			if engine.IsNil(found) {
				continue // there are methods that return true and set nothing
			}
			if c := classify(found, look); c != Unknown {
				return doubted(c)
			}
		}
	}
	if e, ok := err.(isMethod); ok {
		for _, known := range behindIs {
			if e.Is(known.err) {
				return doubted(known.class)
			}
		}
	}
	return Unknown
}

// within reports whether is returns true for an error in the tree of err. It does not
// look into an *Error, and does not call methods As and Is.
func within(err error, is func(error) bool) bool {
	for !engine.IsNil(err) {
		if is(err) {
			return true
		}
		switch e := err.(type) {
		case *Error:
			return false
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return within(err, is) })
		default:
			return false
		}
	}
	return false
}
