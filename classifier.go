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
// Permanent for an error that holds an [*Error], else Unknown. With it in
// Policy.Classify the attempts of the layers add up instead of multiplying.
func AlreadyRetried(err error) Class {
	if _, ok := errors.AsType[*Error](err); ok {
		return Permanent
	}
	return Unknown
}

// Judge returns what err means to a run with this policy, for code that wraps an op.
// The class comes from a mark of [Stop], [Refuse] or [After], from Classify, or from
// [DefaultClassifier]. It is Unknown only for a nil err. hint is the wait that a
// server asked for, or 0: always 0 for an error marked by Stop. It may exceed
// MaxRetryAfter.
func (p Policy) Judge(err error) (c Class, hint time.Duration) {
	if err == nil {
		return Unknown, 0
	}
	v := p.judge(err)
	return v.class, v.hint
}

// verdict is what a single error means to a run.
type verdict struct {
	class  Class
	hint   time.Duration // the wait that the server asked for; 0 if none
	marked bool          // a mark decided, and not a classifier
	end    Reason        // why no retry may follow, whatever else has happened, or ReasonNone
}

// judge returns what err means for this policy. It is the one place where an error
// gets its class.
func (p *Policy) judge(err error) verdict {
	var found finding
	switch {
	case reflect.TypeOf(err) != plain: // most errors are of the plain type, and have no tree to walk
		found = inspect(err)
	case p.Classify != nil: // else DefaultClassifier says what ErrRejected is
		found.rejected = err == ErrRejected
	}
	v := verdict{hint: found.hint}
	switch m := found.mark; {
	case m != nil && m.stop:
		v.class, v.marked = Permanent, true
	case m != nil:
		v.class, v.marked = Throttled, true
	case found.rejected:
		v.class = Transient
	default:
		v.class = p.classify(err)
	}
	v.end = p.ends(v.class, v.hint, found.turnedAway)
	if v.end == ReasonPermanent && found.isRefused() {
		v.end = ReasonRefused
	}
	return v
}

// classify returns the class that the classifiers give to an error without a mark.
func (p *Policy) classify(err error) (c Class) {
	if p.Classify != nil {
		c = p.Classify(err)
	}
	if c == Unknown || c > Unprocessed {
		c = DefaultClassifier(err)
	}
	return cmp.Or(c, Transient)
}

// finding is what the tree of an error holds besides its class.
type finding struct {
	mark       *mark         // the first one; if there is one, nothing else counts but the hint
	rejected   bool          // there is an ErrRejected
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

// add takes what was found further on in the tree.
func (f *finding) add(more finding) {
	if more.mark != nil {
		*f = more
		return
	}
	if !f.run {
		f.run, f.refused = more.run, more.refused
	}
	f.rejected, f.hint, f.turnedAway = f.rejected || more.rejected, cmp.Or(f.hint, more.hint), f.turnedAway || more.turnedAway
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

// inspectMark returns what a mark says. The wait in the error that it marks counts if
// the server refused: the mark only says that this run must not wait for it.
func inspectMark(m *mark) finding {
	f := finding{mark: m, hint: m.hint}
	if m.refused {
		f.hint = inspect(m.err).hint
	}
	return f
}

// inspect walks the tree of err as errors.As does.
func inspect(err error) (f finding) {
	var seen silentTypes
	system := false
	for {
		t := reflect.TypeOf(err)
		if t == plain {
			f.rejected = f.rejected || err == ErrRejected
			return f
		}
		switch e := err.(type) {
		case nil, errno:
			return f
		case *mark:
			return inspectMark(e)
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
			for _, err := range e.Unwrap() {
				f.add(inspect(err))
				if f.mark != nil {
					return f
				}
			}
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
