// Package errtree goes through what errors wrap, depth first, as errors.As does. It is
// the one place that knows how an error holds others. A nil pointer is no error: its
// methods may panic, and are not called. A panic in another method passes through.
package errtree

import (
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
// visit returns Stop. It reports whether visit has.
func Walk(err error, visit func(error) Next) (stopped bool) {
	for !IsNil(err) { // a chain costs no stack
		switch visit(err) {
		case Stop:
			return true
		case Past:
			return false
		}
		var joined []error
		err, joined = Below(err)
		for _, err := range joined {
			if Walk(err, visit) {
				return true
			}
		}
	}
	return false
}

// Below returns what err wraps: one error, or several that are joined, some of which
// may be nil. Below a run that gave up, a *retry.Error, is the error of its last
// attempt. err must not be a nil pointer.
//
//lint:ignore ST1008 the errors are what is asked for
func Below(err error) (one error, joined []error) {
	switch e := err.(type) {
	case run:
		return e.Last(), nil
	case interface{ Unwrap() error }:
		return e.Unwrap(), nil
	case interface{ Unwrap() []error }:
		return nil, e.Unwrap()
	}
	return nil, nil
}

// run is what only a *retry.Error has: package retry cannot be imported here.
type run interface {
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
	Walk(e.Last(), func(err error) Next {
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
	e, ok := err.(interface{ As(any) bool })
	if !ok {
		return found, false
	}
	target := new(T)
	ok = e.As(target) && !IsNil(*target) // there are methods that return true and set nothing
	return *target, ok
}

// IsNil reports whether err is nil, or a nil pointer.
func IsNil(err error) bool {
	v := reflect.ValueOf(err)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
