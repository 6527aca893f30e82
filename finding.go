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

	"github.com/goretry/retry/internal/errtree"
)

// This file walks the trees of errors. What a single error means is in
// classifier_tables.go.

// finding is what the tree of an error says.
type finding struct {
	class    Class         // by the rules of DefaultClassifier, for which there are no marks
	mark     *mark         // the first one that decides; nothing behind it counts, but for final
	hint     time.Duration // the first wait that a server asked for
	undone   bool          // there is a mark of Undone; of joined errors each must have one
	rejected bool          // there is an ErrRejected
	answered bool          // there is ErrRejected itself, and not only an error whose method Is claims to be it
	run      bool          // there is an inner run
	refused  bool          // the first inner run ended with ReasonRefused
	final    bool          // an inner run or an error says so: see Final
}

// scope says what to look for, and where.
type scope struct {
	class bool // the finding's class; without rest the walk ends with it
	rest  bool // all other fields

	// behind: through methods As and Is. What they return is judged without this, since
	// an As may return an error that wraps its own.
	behind bool

	// fields of errors, which are ignored inside the errors of net, net/url and os.
	fields bool

	lasting bool // a name that is not found is Transient
}

// examine walks the tree of err. It goes down a chain in a loop, so that a long one
// costs no stack.
func examine(err error, look scope) (f finding) {
	otherwise := Unknown // the class if no error decides
	var seen silentTypes
	for f.class == Unknown || look.rest {
		t := reflect.TypeOf(err)
		if t == errorString {
			f.addSentinel(err, look)
			break
		}
		if err == nil {
			break
		}
		if f.addKnown(err, look) {
			break
		}
		if errtree.IsNil(err) {
			break
		}
		if inner, ok := systemError(err); ok {
			err, look.fields = inner, false
			continue
		}
		if seen.has(t) {
			err = errors.Unwrap(err)
			continue
		}
		says := read(err, look.fields)
		if look.class && f.class == Unknown {
			if says.Hint > 0 {
				otherwise = cmp.Or(otherwise, Transient)
			}
			f.class = classifyNode(err, says, look)
			if f.class == Unknown && look.behind {
				f.class = classifyBehind(err, look)
			}
			if f.class == Unknown && timedOut(err) {
				otherwise = TimedOut
			}
		}
		if look.rest {
			answer, ok := err.(finalMethod)
			f.add(finding{hint: says.Hint, final: ok && answer.Final()})
			f.addBehind(err)
		}
		var joined []error
		err, joined = errtree.Below(err)
		if joined != nil {
			f.addJoined(joined, look)
			break
		}
	}
	f.class = cmp.Or(f.class, otherwise)
	return f
}

// addSentinel takes an error that errors.New has returned.
func (f *finding) addSentinel(err error, look scope) {
	if look.class {
		f.class = cmp.Or(f.class, classifySentinel(err))
	}
	if err == ErrRejected {
		f.addRejected()
	}
}

//go:noinline
func (f *finding) addRejected() { f.add(finding{rejected: true, answered: true}) }

// addKnown takes err and all that is below it, if it is of a type that decides more
// than its own meaning.
func (f *finding) addKnown(err error, look scope) bool {
	look.class = look.class && f.class == Unknown
	switch e := err.(type) {
	case errno:
		if look.class {
			f.class = classifyErrno(e)
		}
	case *Error:
		f.addBelow(examineRun(e, look))
	case *mark:
		f.addBelow(examineMark(e, look))
	case *url.Error:
		look.fields = false
		f.addBelow(examineURL(e, look))
	case *net.OpError:
		look.fields = false
		f.addBelow(examineOp(e, look))
	default:
		return false
	}
	return true
}

// add takes what was found beside or behind an error, where no proof counts.
func (f *finding) add(more finding) {
	f.final = f.final || more.final
	switch {
	case f.mark != nil:
		return
	case more.mark != nil:
		more.class, more.undone, more.final = f.class, f.undone, f.final
		*f = more
		return
	}
	if !f.run {
		f.run, f.refused = more.run, more.refused
	}
	f.rejected, f.answered = f.rejected || more.rejected, f.answered || more.answered
	f.hint = cmp.Or(f.hint, more.hint)
}

// addBelow takes all that was found below an error.
func (f *finding) addBelow(more finding) {
	if f.mark == nil {
		f.undone = f.undone || more.undone
	}
	f.class = cmp.Or(f.class, more.class)
	f.add(more)
}

// addJoined takes joined errors. The first known class counts, but Unprocessed only if
// everything that is joined is.
func (f *finding) addJoined(errs []error, look scope) {
	first, proven, undone := Unknown, true, slices.ContainsFunc(errs, func(err error) bool { return err != nil })
	for _, err := range errs {
		if err == nil {
			continue
		}
		more := examine(err, look)
		if first == Unknown || first == Unprocessed && more.class != Unknown {
			first = more.class
		}
		proven, undone = proven && more.class == Unprocessed, undone && more.undone
		f.add(more)
	}
	if f.class == Unknown {
		f.class = first
		if !proven {
			f.class = doubted(first)
		}
	}
	f.undone = f.undone || undone
}

// addBehind takes what only the method As or Is of err finds. A mark counts only if
// there is no *Error, since the mark may be inside it.
func (f *finding) addBehind(err error) {
	look := scope{rest: true, fields: true}
	if inner, ok := errtree.As[*Error](err); ok {
		f.add(examineRun(inner, look))
		return
	}
	if m, ok := errtree.As[*mark](err); ok {
		f.add(examineMark(m, look))
		return
	}
	if asks, ok := errtree.As[asksWait](err); ok {
		f.add(finding{hint: askedWait(asks)})
	}
	if e, ok := err.(isMethod); ok && e.Is(ErrRejected) {
		f.add(finding{rejected: true})
	}
}

// examineMark returns what a mark says. Undone leaves all else to the error that it
// marks. The wait in that error also counts if the server refused: the mark only says
// that this run must not wait for it.
func examineMark(m *mark, look scope) finding {
	inner := examine(m.err, look)
	switch {
	case m.class == Unknown:
		inner.undone = true
		return inner
	case !m.refused:
		inner.hint = m.hint
	}
	return finding{class: inner.class, mark: m, hint: inner.hint, undone: inner.undone, answered: inner.answered, final: inner.final}
}

// examineRun returns what the error of an inner run says. Only the wait in its last
// error counts: marks and ErrRejected were for the inner run.
func examineRun(e *Error, look scope) finding {
	if e == nil {
		return finding{class: Transient}
	}
	last := examine(e.Last(), look)
	f := finding{run: true, refused: e.Reason == ReasonRefused, hint: cmp.Or(e.hint, last.hint), final: last.final}
	if look.class {
		f.class = e.class(last.class, look)
	}
	switch e.Reason {
	case ReasonPermanent, ReasonRefused, ReasonNotIdempotent:
		f.final = true
	case ReasonMaxAttempts, ReasonMaxElapsed, ReasonDeadline, ReasonBudget, ReasonGuard:
		f.final = f.final || e.Attempts > 1 && !last.answered
	case ReasonCanceled, ReasonRetryAfter:
		f.final = false
	}
	return f
}

// class returns what the error of an inner run means to an outer run. last is the class
// of its last error.
func (e *Error) class(last Class, look scope) Class {
	switch {
	case e.Reason == ReasonPermanent, e.Reason == ReasonRefused, e.Reason == ReasonNotIdempotent:
		return Permanent
	case e.Attempts == 0 && e.Reason == ReasonGuard: // whoever comes later may come in time
		return Unprocessed
	case e.Attempts == 0: // an error that Supervise had before its pause is not this run's
		return Transient
	case e.Undone:
		return Unprocessed
	case last != Unprocessed:
		return cmp.Or(last, Transient)
	case e.Attempts != len(e.Errs):
		return Transient // Errs does not hold every attempt's error
	}
	look.rest = false
	for _, err := range e.Errs {
		if examine(err, look).class != Unprocessed {
			return Transient
		}
	}
	return Unprocessed
}

// examineURL judges errors of http.Client and url.Parse. They prove nothing, since the
// client may have sent the request and then followed a redirect.
func examineURL(e *url.Error, look scope) finding {
	if e == nil {
		return finding{}
	}
	f := examine(e.Err, look)
	f.undone = false
	if look.class && (e.Op == "parse" || refusedByClient(e.Err)) {
		f.class = Permanent
	}
	f.class = doubted(f.class)
	return f
}

// examineOp judges errors of packages net and crypto/tls.
func examineOp(e *net.OpError, look scope) finding {
	if e == nil {
		return finding{}
	}
	f := examine(e.Err, look)
	if !look.class {
		return f
	}
	// crypto/tls has no exported name for the alerts that it returns: numbers of one byte.
	if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 && strings.HasSuffix(e.Op, " error") {
		f.class = classifyAlert(v.Uint())
		return f
	}
	switch {
	case e.Op == "dial" && f.class != Permanent:
		f.class = Unprocessed
	case e.Op == "read", e.Op == "write":
		f.class = doubted(f.class) // "no route to host" on an established connection proves nothing
	}
	return f
}

// doubted returns the class to use instead of c if something else may have happened
// too.
func doubted(c Class) Class {
	if c == Unprocessed {
		return Transient
	}
	return c
}

// systemError returns what err wraps, if it is one of the types that package os puts
// around other errors. These types ask for no wait, and their Timeout methods only call
// that of the inner error.
func systemError(err error) (inner error, ok bool) {
	switch e := err.(type) {
	case *os.SyscallError:
		return e.Err, true
	case *fs.PathError:
		return e.Err, true
	}
	return nil, false
}

// Methods that may hide parts of a tree.
type (
	asMethod = interface{ As(target any) bool }
	isMethod = interface{ Is(target error) bool }
)

// classifyBehind judges what only the methods As and Is of err show. They do not show
// everything, so they prove nothing.
func classifyBehind(err error, look scope) Class {
	look.behind = false
	look.rest = false
	if e, ok := err.(asMethod); ok {
		for _, t := range behindAs {
			target := reflect.New(t)
			if !e.As(target.Interface()) {
				continue
			}
			found, _ := target.Elem().Interface().(error)
			if errtree.IsNil(found) {
				continue // there are methods that return true and set nothing
			}
			if c := examine(found, look).class; c != Unknown {
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
