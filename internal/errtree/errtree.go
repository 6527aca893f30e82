// Package errtree goes through what errors wrap, depth first, as errors.As does. It is
// the one place that knows how an error holds others. A nil pointer is no error: its
// methods may panic, and are not called. A panic in another method passes through.
package errtree

import (
	"errors"
	"reflect"
	"strings"
)

// Next says where to go from an error.
type Next uint8

const (
	Into Next = iota // to what the error wraps
	Past             // to what follows in the tree, without what the error wraps
	Stop             // nowhere
)

// Walk calls visit for err and for what it wraps, an error before what it wraps, until
// visit returns Stop. It reports whether visit has. What only a method As shows comes
// before what err wraps. A small tree may hold an error at
// several places, and Walk visits it at each of them. In a large tree Walk visits each
// error about once.
func Walk(err error, visit func(error) Next) (stopped bool) {
	w := walk{visit: visit}
	return w.from(err)
}

type walk struct {
	visit  func(error) Next
	seen   seen
	errs   map[ID]struct{} // of a large tree
	hidden Hidden
}

func (w *walk) from(err error) (stopped bool) {
	for !IsNil(err) && w.first(err) { // a chain costs no stack
		switch w.visit(err) {
		case Stop:
			return true
		case Past:
			return false
		}
		one, joined := Below(err)
		if hidden, _ := w.hidden.Below(err, one, joined); hidden != nil && w.branch(hidden) {
			return true
		}
		for _, err := range joined {
			if w.branch(err) {
				return true
			}
		}
		err = one
	}
	return false
}

// first reports whether err may be visited for the first time.
func (w *walk) first(err error) bool {
	if !w.seen.full() {
		return true
	}
	id := IDOf(err)
	if _, seen := w.errs[id]; seen {
		return false
	}
	if w.errs == nil {
		w.errs = map[ID]struct{}{}
	}
	w.errs[id] = struct{}{}
	return true
}

func (w *walk) branch(err error) (stopped bool) {
	w.seen.branch()
	return w.from(err)
}

// Below returns what err wraps: one error, or several that are joined, some of which
// may be nil. Below a run that gave up, a *retry.Error, is the error of its last
// attempt. A slice of errors joins them. err must not be a nil pointer.
//
//lint:ignore ST1008 the errors are what is asked for
func Below(err error) (one error, joined []error) {
	switch e := err.(type) {
	case run:
		return LastAttempt(e), nil
	case interface{ Unwrap() error }:
		return e.Unwrap(), nil
	case interface{ Unwrap() []error }:
		return nil, e.Unwrap()
	}
	return nil, listed(err)
}

// Alone reports whether no error of type t leads to another one, by Unwrap, As or Is.
func Alone(t reflect.Type) bool {
	if t.Kind() == reflect.Slice && t.Elem().Implements(reflect.TypeFor[error]()) {
		return false
	}
	for _, method := range [...]reflect.Type{
		reflect.TypeFor[interface{ Unwrap() error }](), reflect.TypeFor[interface{ Unwrap() []error }](),
		reflect.TypeFor[asMethod](), reflect.TypeFor[isMethod](),
	} {
		if t.Implements(method) {
			return false
		}
	}
	return true
}

// listed returns the errors in err, if it is a slice of errors without a method Unwrap, such
// as the WriteErrors of segmentio's kafka-go, the MultiError of Google's datastore, or the
// Aggregate of Kubernetes, whose method Is shows less. Their nil errors stand for parts that succeeded, so they prove that
// something happened.
func listed(err error) (errs []error) {
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Slice || !v.Type().Elem().Implements(reflect.TypeFor[error]()) {
		return nil
	}
	errs = make([]error, v.Len())
	for i := range errs {
		if errs[i], _ = v.Index(i).Interface().(error); IsNil(errs[i]) {
			errs[i] = errSucceeded
		}
	}
	return errs
}

var errSucceeded = errors.New("a part succeeded")

// LastAttempt returns the error of the last attempt of a run that gave up, nil if it made none.
// Package retry sets it.
var LastAttempt func(run error) error

// run is what only a *retry.Error has: package retry cannot be imported here.
type run interface {
	error
	Last() error
	Timeout() bool
	ErrorType() string
	Unwrap() []error
}

// Reason returns why a run ended, as a text: the reason, and if that is an error which
// only another run in it has made permanent, that one's too.
func Reason(e run) string {
	reason := reasonOf(e)
	if reason != permanent {
		return reason
	}
	Walk(LastAttempt(e), func(err error) Next {
		if inner, ok := err.(run); ok && reasonOf(inner) != permanent {
			reason += ": " + reasonOf(inner) + " inside"
			return Stop
		}
		return Into
	})
	return reason
}

const permanent = "permanent"

func reasonOf(e run) string { return strings.TrimPrefix(e.ErrorType(), "retry.") }

// As returns what err's own method As finds, without a look at what err wraps. So a
// type can show errors that no method Unwrap returns: hashicorp's go-multierror hides
// all but its first one.
func As[T error](err error) (found T, ok bool) {
	e, ok := err.(asMethod)
	if !ok {
		return found, false
	}
	target := new(T)
	ok = e.As(target) && !IsNil(*target) // there are methods that return true and set nothing
	return *target, ok
}

type (
	asMethod = interface{ As(any) bool }
	isMethod = interface{ Is(error) bool }
)

// IsNil reports whether err is nil, or a nil pointer.
func IsNil(err error) bool {
	v := reflect.ValueOf(err)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
