package errtext

import (
	"cmp"
	"context"
	"errors"
	"net"
	"reflect"
	"strconv"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

// Failed reports whether an attempt failed, for hooks that count failures. ctx is the attempt's, as
// AttemptDone gets it. Three kinds of errors are no failures of what was called: a
// [retry.Answer]; a value that Until did not accept, for a poll is no outage; and what an attempt
// returned because its caller had canceled it. An attempt without an error has not failed.
func Failed(ctx context.Context, a retry.Attempt) bool {
	switch {
	case a.Err == nil, a.Answered:
		return false
	case a.Class != retry.Permanent && rejected(a.Err):
		return false
	case a.Class == retry.Unknown && !panicked(a.Err):
		err := ctx.Err()
		return err == nil || errors.Is(err, context.DeadlineExceeded)
	}
	return true
}

// rejected reports whether ErrRejected is in the tree of err, but not in an inner run.
func rejected(err error) bool {
	if err == retry.ErrRejected { // most polls end here
		return true
	}
	found, left := false, most
	search(err, &left, func(err error) errtree.Next {
		if _, ok := err.(*retry.Error); ok {
			return errtree.Past
		}
		if found = err == retry.ErrRejected || errtree.Is(err, retry.ErrRejected); found {
			return errtree.Stop
		}
		return errtree.Into
	})
	return found
}

// panicked reports whether err stands for an attempt that did not return.
func panicked(err error) bool {
	defer func() { _ = recover() }() // an error whose method panics is another one
	e, ok := err.(interface{ ErrorType() string })
	return ok && e.ErrorType() == panicType
}

var panicType = (&retry.Error{Reason: retry.ReasonPanic}).ErrorType()

// Code returns a code that a person can act on, such as "503", for hooks that count failures by
// their cause. It is the first of these that the tree of err has: what a method ErrorType says, an
// SQLSTATE, "no_such_host", an HTTP status from 400 to 599. Of an inner run it is the code of its
// last attempt, or of what kept the run from making one. Code returns "" if there is none, or err
// is nil. An error below one of which a method panics does not count, nor do any after the first
// 1 000.
func Code(err error) string {
	c := codes{left: most}
	return c.of(err)
}

// codes are those in a tree of errors, of each kind the first.
type codes struct {
	left               int    // how many more errors are read
	errorType          string // goes before the others
	state              string
	unknownName        bool
	status, httpStatus int
}

// of returns the code of err.
func (c *codes) of(err error) string {
	search(err, &c.left, func(err error) errtree.Next {
		if c.read(err) {
			return errtree.Stop
		}
		if e := errtree.Shy(err); e != nil {
			for _, fresh := range codeTypes {
				if found := errtree.Ask(e, fresh()); found != nil && c.read(found) {
					return errtree.Stop
				}
			}
		}
		return errtree.Into
	})
	status := cmp.Or(c.status, c.httpStatus)
	switch {
	case c.errorType != "":
		return c.errorType
	case c.state != "":
		return c.state
	case c.unknownName:
		return "no_such_host"
	case status >= 400 && status < 600:
		return strconv.Itoa(status)
	}
	return ""
}

type (
	hasErrorType  = interface{ ErrorType() string }
	hasState      = interface{ SQLState() string }
	hasStatus     = interface{ StatusCode() int }
	hasHTTPStatus = interface{ HTTPStatusCode() int }
)

// codeTypes make targets of the types of errors that codes reads.
var codeTypes = [...]func() any{
	errtree.New[hasErrorType], errtree.New[hasState], errtree.New[*net.DNSError],
	errtree.New[hasStatus], errtree.New[hasHTTPStatus],
}

// read reads err itself, and reports whether it has a code that goes before all others.
func (c *codes) read(err error) (decided bool) {
	if run, ok := err.(*retry.Error); ok { // what an inner run failed with says more than how it ended
		inner := codes{left: c.left} // which ends, also if the run is below itself
		c.errorType = cmp.Or(inner.of(told(run)), run.ErrorType())
		return true
	}
	if e, ok := err.(hasErrorType); ok {
		if c.errorType = e.ErrorType(); c.errorType != "" {
			return true
		}
	}
	if e, ok := err.(hasState); ok && c.state == "" {
		if s := e.SQLState(); len(s) == 5 {
			c.state = s
		}
	}
	if e, ok := err.(*net.DNSError); ok && e.IsNotFound {
		c.unknownName = true
	}
	if e, ok := err.(hasStatus); ok && c.status == 0 {
		c.status = e.StatusCode()
	}
	if e, ok := err.(hasHTTPStatus); ok && c.httpStatus == 0 {
		c.httpStatus = e.HTTPStatusCode()
	}
	return false
}

// search calls visit for at most *left errors in the tree of err, until visit returns Stop.
func search(err error, left *int, visit func(error) errtree.Next) {
	if reflect.TypeOf(err) == plain { // a walk takes longer than all else about it
		visit(err)
		return
	}
	errtree.WalkSafely(err, func(err error) errtree.Next {
		if *left--; *left < 0 {
			return errtree.Stop
		}
		return visit(err)
	})
}

// plain is the type of an error that wraps nothing, and says nothing but its text.
var plain = reflect.TypeOf(errors.New(""))

// told returns the error that says most about a run: its last attempt's, or that which kept
// the run from making one, or nil.
func told(e *retry.Error) error {
	if e == nil || len(e.Errs) == 0 && (e.Attempts > 0 || e.Cause == nil) {
		return nil
	}
	return e.Last()
}
