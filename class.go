package retry

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
	"github.com/goretry/retry/internal/sysno"
)

// This file visits the trees of errors for their class. What a single error means is in
// classifier_tables.go.

// opinion is what an error says, with all that it wraps. The zero opinion is that of no
// error.
type opinion struct {
	class     Class
	otherwise Class // the class if no error decides
}

// add returns what two errors say, of which the first wraps the second.
func (o opinion) add(below opinion) opinion {
	return opinion{cmp.Or(o.class, below.class), stronger(o.otherwise, below.otherwise)}
}

// judge judges the errors of one tree by the rules of DefaultClassifier, for which there
// are no marks.
type judge struct {
	errtree.Fold[opinion]
	lasting bool // what may be there later is Transient: see Supervise
}

// class returns the class of an error at a place in its tree. lasting is of the run.
func class(err error, at place, lasting bool) Class {
	j := judge{errtree.Fold[opinion]{Add: opinion.add}, lasting}
	j.Visit = j.visit
	return j.of(err, at)
}

func (j *judge) of(err error, at place) Class {
	o := j.Of(err, at)
	return cmp.Or(o.class, o.otherwise)
}

// branch is of for one of several errors in the same place.
func (j *judge) branch(err error, at place) Class {
	o := j.Branch(err, at)
	return cmp.Or(o.class, o.otherwise)
}

// visit returns what one error says, and where to go on if that does not decide.
func (j *judge) visit(err error, at place) (o opinion, then place, next error) {
	if e, ok := err.(*Error); ok {
		return opinion{class: j.run(e, at)}, at, nil
	}
	switch {
	case errtree.IsNil(err):
		return opinion{}, at, nil
	case reflect.TypeOf(err) == errorString:
		return opinion{class: classifySentinel(err)}, at, nil
	}
	switch e := err.(type) {
	case sysno.Number:
		return opinion{class: Class(sysno.Class(e))}, at, nil
	case *url.Error:
		return opinion{class: j.url(e, at|system)}, at, nil
	case *net.OpError:
		return opinion{class: j.op(e, at|system)}, at, nil
	}
	if inner, ok := systemError(err); ok {
		return opinion{}, at | system, inner
	}
	says := read(err, at)
	if c := classifyNode(err, says, j.lasting); c != Unknown {
		if c == Permanent && j.lasting && aboutTLS(reflect.TypeOf(err)) && within(err, early) {
			c = Transient
		}
		return opinion{class: c}, at, nil
	}
	n := j.Look(err)
	if c := j.behind(n, at); c != Unknown {
		return opinion{class: c}, at, nil
	}
	return opinion{j.joined(n.Joined, at), otherwise(err, says)}, at, n.One
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
	last := j.of(e.Last(), at)
	switch {
	case last != Unprocessed:
		return cmp.Or(last, Transient)
	case e.Attempts != len(e.Errs):
		return Transient // Errs does not hold every attempt's error
	}
	for _, err := range e.Errs[:len(e.Errs)-1] {
		if j.branch(err, at) != Unprocessed {
			return Transient
		}
	}
	return Unprocessed
}

// url judges errors of http.Client and url.Parse. They prove nothing, since the client
// may have sent the request and then followed a redirect.
func (j *judge) url(e *url.Error, at place) Class {
	if e.Op == "parse" || refusedByClient(e.Err) {
		return Permanent
	}
	return doubted(j.of(e.Err, at))
}

// op judges errors of packages net and crypto/tls.
func (j *judge) op(e *net.OpError, at place) Class {
	// crypto/tls has no exported name for the alerts that it returns: numbers of one byte.
	if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 && strings.HasSuffix(e.Op, " error") {
		return Class(clienterr.Alert(v.Uint()))
	}
	c := j.of(e.Err, at)
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
	number, ok := err.(sysno.Number)
	return ok && slices.Contains(sysno.Passing, number)
}

// joined judges joined errors. The first known class counts, but Unprocessed only if
// everything that is joined is.
func (j *judge) joined(errs []error, at place) Class {
	first, proven := Unknown, true
	for _, err := range errs {
		if err == nil {
			continue
		}
		c := j.branch(err, at)
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

// behind judges what only the methods As and Is of an error show. They do not show
// everything, so they prove nothing.
func (j *judge) behind(n errtree.Node, at place) Class {
	if n.Hidden != nil {
		if c := j.branch(n.Hidden, at); c != Unknown {
			return doubted(c)
		}
	}
	if at&behind != 0 {
		return Unknown
	}
	if n.As != nil && j.MayAsk(n) {
		for _, t := range behindAs {
			target := reflect.New(t)
			if !n.As.As(target.Interface()) {
				continue
			}
			found, _ := target.Elem().Interface().(error)
			if errtree.IsNil(found) {
				continue // there are methods that return true and set nothing
			}
			if c := j.branch(found, at|behind); c != Unknown {
				return doubted(c)
			}
		}
	}
	if n.Is != nil && j.MayAsk(n) {
		for _, known := range behindIs {
			if n.Is.Is(known.err) {
				return doubted(known.class)
			}
		}
	}
	return Unknown
}
