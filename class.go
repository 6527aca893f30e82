package retry

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
)

// This file walks the trees of errors for their class. What a single error means is in
// classifier_tables.go.

// judge judges the errors of one tree by the rules of DefaultClassifier, for which there
// are no marks.
type judge struct {
	asking
	lasting  bool // what may be there later is Transient: see Supervise
	seen     errtree.Seen
	opinions map[spot]opinion // in a large tree
}

// opinion is what an error says, with all that it wraps.
type opinion struct {
	class     Class
	otherwise Class // the class if no error decides: a timeout goes before a wait
}

// passed is an error on the way down a chain, and what it says if no error decides.
type passed struct {
	spot
	otherwise Class
}

func (j *judge) class(err error, at place) Class {
	o := j.opinion(err, at)
	return cmp.Or(o.class, o.otherwise)
}

// opinion returns what the tree of err says. It goes down a chain in a loop, so that a
// long one costs no stack.
func (j *judge) opinion(err error, at place) opinion {
	var (
		silent silentTypes
		path   []passed // in a large tree
		aside  Class    // what was passed says if no error decides
		end    opinion  // of what decides, or of the last error
	)
	for err != nil {
		j.visits++
		t := reflect.TypeOf(err)
		if t == errorString {
			end.class = classifySentinel(err)
			break
		}
		if j.seen.Full() {
			here := spot{errtree.IDOf(err), at}
			if known, ok := j.opinions[here]; ok {
				end = known
				break
			}
			j.remember(here, opinion{}) // an error that holds itself adds nothing
			path = append(path, passed{spot: here})
		}
		var ok bool
		if end.class, ok = j.typed(err, at); ok || errtree.IsNil(err) {
			break
		}
		if inner, ok := systemError(err); ok {
			err, at = inner, at|system
			continue
		}
		if silent.has(t) {
			err = errors.Unwrap(err)
			continue
		}
		says := read(err, at)
		if end.class = classifyNode(err, says, j.lasting); end.class != Unknown {
			if end.class == Permanent && j.lasting && aboutTLS(t) && within(err, early) {
				end.class = Transient
			}
			break
		}
		one, joined := errtree.Below(err)
		if end.class = j.behind(err, one, joined, at); end.class != Unknown {
			break
		}
		its := otherwise(err, says)
		if aside = stronger(aside, its); len(path) > 0 {
			path[len(path)-1].otherwise = its
		}
		if len(joined) > 0 {
			end.class = j.joined(joined, at)
			break
		}
		err = one
	}
	for below := end; len(path) > 0; path = path[:len(path)-1] {
		last := path[len(path)-1]
		below.otherwise = stronger(last.otherwise, below.otherwise)
		j.remember(last.spot, below)
	}
	return opinion{end.class, stronger(aside, end.otherwise)}
}

func (j *judge) remember(here spot, o opinion) {
	if j.opinions == nil {
		j.opinions = map[spot]opinion{}
	}
	j.opinions[here] = o
}

// otherwise returns the class of err if no error decides. says is what err says.
func otherwise(err error, says saying) Class {
	switch {
	case timedOut(err):
		return TimedOut
	case says.Hint > 0:
		return Transient
	}
	return Unknown
}

// stronger returns which of two such classes to use. A timeout says more than a wait.
func stronger(a, b Class) Class {
	if b == TimedOut {
		return b
	}
	return cmp.Or(a, b)
}

// typed judges err with all that is below it, if it is of a type that decides more than
// its own meaning.
func (j *judge) typed(err error, at place) (c Class, ok bool) {
	switch e := err.(type) {
	case errno:
		return classifyErrno(e), true
	case *Error:
		return j.run(e, at), true
	case *url.Error:
		return j.url(e, at|system), true
	case *net.OpError:
		return j.op(e, at|system), true
	}
	return Unknown, false
}

// run returns what the error of an inner run means to an outer run.
func (j *judge) run(e *Error, at place) Class {
	switch {
	case e == nil:
		return Transient
	case e.Reason == ReasonPermanent, e.Reason == ReasonRefused, e.Reason == ReasonNotIdempotent:
		return Permanent
	case e.Attempts == 0 && e.Reason == ReasonGuard: // whoever comes later may come in time
		return Unprocessed
	case e.Attempts == 0: // an error that Supervise had before its pause is not this run's
		return Transient
	case e.Undone:
		return Unprocessed
	}
	last := j.class(e.Last(), at)
	switch {
	case last != Unprocessed:
		return cmp.Or(last, Transient)
	case e.Attempts != len(e.Errs):
		return Transient // Errs does not hold every attempt's error
	}
	for _, err := range e.Errs[:len(e.Errs)-1] {
		j.seen.Branch()
		if j.class(err, at) != Unprocessed {
			return Transient
		}
	}
	return Unprocessed
}

// url judges errors of http.Client and url.Parse. They prove nothing, since the client
// may have sent the request and then followed a redirect.
func (j *judge) url(e *url.Error, at place) Class {
	switch {
	case e == nil:
		return Unknown
	case e.Op == "parse", refusedByClient(e.Err):
		return Permanent
	}
	return doubted(j.class(e.Err, at))
}

// op judges errors of packages net and crypto/tls.
func (j *judge) op(e *net.OpError, at place) Class {
	if e == nil {
		return Unknown
	}
	// crypto/tls has no exported name for the alerts that it returns: numbers of one byte.
	if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 && strings.HasSuffix(e.Op, " error") {
		return Class(clienterr.Alert(v.Uint()))
	}
	c := j.class(e.Err, at)
	switch {
	case e.Op == "dial" && (c != Permanent || notYet(e.Err)):
		return Unprocessed
	case e.Op == "read", e.Op == "write":
		return doubted(c) // "no route to host" on an established connection proves nothing
	}
	return c
}

// notYet reports whether connect failed for a reason that may pass: the socket of a server
// that has not started does not exist, and a service without endpoints is EPERM where
// the kernel balances connections. A socket that may not be made is another thing.
func notYet(err error) bool {
	if e, ok := err.(*os.SyscallError); ok {
		if e.Syscall != "connect" {
			return false
		}
		err = e.Err
	}
	number, ok := err.(errno)
	return ok && slices.Contains(passing, number)
}

// joined judges joined errors. The first known class counts, but Unprocessed only if
// everything that is joined is.
func (j *judge) joined(errs []error, at place) Class {
	first, proven := Unknown, true
	for _, err := range errs {
		if err == nil {
			continue
		}
		j.seen.Branch()
		c := j.class(err, at)
		proven = proven && c == Unprocessed
		if first == Unknown || first == Unprocessed && c != Unknown {
			first = c
		}
	}
	if !proven {
		return doubted(first)
	}
	return first
}

// doubted returns the class to use instead of c if something else may have happened
// too.
func doubted(c Class) Class {
	if c == Unprocessed {
		return Transient
	}
	return c
}

// behind judges what only the methods As and Is of err show. They do not show
// everything, so they prove nothing.
func (j *judge) behind(err, one error, joined []error, at place) Class {
	m := j.of(err, one, joined)
	if m.hidden != nil {
		j.seen.Branch()
		if c := j.class(m.hidden, at); c != Unknown {
			return doubted(c)
		}
	}
	if at&behind != 0 {
		return Unknown
	}
	if j.mayAsk(m, m.as != nil) {
		for _, t := range behindAs {
			target := reflect.New(t)
			if !m.as.As(target.Interface()) {
				continue
			}
			found, _ := target.Elem().Interface().(error)
			if errtree.IsNil(found) {
				continue // there are methods that return true and set nothing
			}
			if c := j.class(found, at|behind); c != Unknown {
				return doubted(c)
			}
		}
	}
	if j.mayAsk(m, m.is != nil) {
		for _, known := range behindIs {
			if m.is.Is(known.err) {
				return doubted(known.class)
			}
		}
	}
	return Unknown
}
