// Package errtree goes through what errors wrap, depth first, as errors.As does. It is
// the one place that knows how an error holds others. A nil pointer is no error: its
// methods may panic, and are not called. A panic in another method passes through, but for
// WalkSafely.
//
// errors.As and errors.Is call methods As and Is of errors. If these search what their error
// wraps, a chain of n such errors costs 2ⁿ. Here the work grows with the number of errors.
package errtree

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

// Below returns what err wraps: one error, or several that are joined, some of which
// may be nil. Below a run that gave up, a *retry.Error, is the error of its last
// attempt. A slice of errors joins them. err must not be a nil pointer.
//
//lint:ignore ST1008 the errors are what is asked for
func Below(err error) (one error, joined []error) {
	switch e := err.(type) {
	case run:
		if last, ok := LastAttempt(e); ok {
			return last, nil
		}
		return nil, e.Unwrap()
	case interface{ Unwrap() error }:
		return e.Unwrap(), nil
	case interface{ Unwrap() []error }:
		return nil, e.Unwrap()
	}
	return nil, listed(err)
}

// listed returns the errors in err, if it is a slice of errors without a method Unwrap: the
// WriteErrors of segmentio's kafka-go, the MultiError of Google's datastore, or the Aggregate of
// Kubernetes. A nil error is a part that succeeded, which proves that something happened.
func listed(err error) (errs []error) {
	v := reflect.ValueOf(err)
	if !isList(v.Type()) {
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

func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Implements(reflect.TypeFor[error]())
}

var errSucceeded = errors.New("a part succeeded")

type (
	asMethod = interface{ As(any) bool }
	isMethod = interface{ Is(error) bool }
)

// Alone reports whether no error of type t leads to another one.
func Alone(t reflect.Type) bool {
	methods := []reflect.Type{
		reflect.TypeFor[interface{ Unwrap() error }](), reflect.TypeFor[interface{ Unwrap() []error }](),
		reflect.TypeFor[asMethod](), reflect.TypeFor[isMethod](),
	}
	return !isList(t) && !slices.ContainsFunc(methods, t.Implements)
}

// As returns what err's own method As finds, without a look at what err wraps. So a
// type can show errors that no method Unwrap returns: hashicorp's go-multierror hides
// all but its first one.
func As[T error](err error) (found T, ok bool) {
	if e, is := err.(asMethod); is {
		found, ok = Ask(e, New[T]()).(T)
	}
	return found, ok
}

// New returns a pointer to a new T, to [Ask] for it.
func New[T any]() any { return new(T) }

// Ask returns the error that e shows to those who ask for the type that target points to, or nil.
func Ask(e asMethod, target any) error {
	if !e.As(target) {
		return nil
	}
	found, _ := reflect.ValueOf(target).Elem().Interface().(error)
	if IsNil(found) { // there are methods that return true and set nothing
		return nil
	}
	return found
}

// IsNil reports whether err is nil, or a nil pointer.
func IsNil(err error) bool {
	v := reflect.ValueOf(err)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// LastAttempt returns the error of the last attempt of a run that gave up, nil if it made none. ok says
// that err is a *retry.Error. Package retry sets it.
var LastAttempt func(err error) (last error, ok bool)

// run is what a *retry.Error has, and a struct that embeds one: package retry cannot be imported here.
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
	if reason == "permanent" {
		last, _ := LastAttempt(e)
		Walk(last, func(err error) Next {
			if inner, ok := err.(run); ok && reasonOf(inner) != reason {
				reason += ": " + reasonOf(inner) + " inside"
				return Stop
			}
			return Into
		})
	}
	return reason
}

func reasonOf(e run) string { return strings.TrimPrefix(e.ErrorType(), "retry.") }
