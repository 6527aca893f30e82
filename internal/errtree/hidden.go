package errtree

import (
	"reflect"
	"slices"
)

// Methods As and Is may show errors that no method Unwrap returns. Many only pass the
// question on to what Unwrap returns. Then errors.As and errors.Is go through each
// level twice, and a tree of n such levels costs 2ⁿ. So Hidden and Asks find out with
// one question that is answered at once.

// Hidden counts the errors that only methods As have shown in a walk. Its zero value is
// ready to use.
type Hidden int

// mostHidden limits a walk through a tree that its methods As make while they are called: it
// might have no end.
const mostHidden = 1000

// Shown says what the method As of an error shows if it is asked for any error.
type Shown uint8

const (
	ShowsNone  Shown = iota // nothing: As knows single types only, or there is no As
	ShowsBelow              // what Unwrap returns
	ShowsOther              // another error
)

// Below returns the error that the method As of err shows and Unwrap does not return, or nil
// if there is none, or if there were too many. one and joined are what Below returns for
// err.
//
//lint:ignore ST1008 the error is what is asked for
func (h *Hidden) Below(err, one error, joined []error) (hidden error, shown Shown) {
	found, ok := As[error](err)
	if !ok {
		return nil, ShowsNone
	}
	if same(found, err) || one != nil && same(found, one) {
		return nil, ShowsBelow
	}
	for _, err := range joined {
		if err != nil && same(found, err) {
			return nil, ShowsBelow
		}
	}
	if *h++; *h > mostHidden {
		return nil, ShowsOther
	}
	return found, ShowsOther
}

// Asks returns err if it has a method Is of its own. It returns nil if the method passes the
// question on to what err wraps, or may do so. one and joined are what Below returns for
// err, and shown is what Hidden.Below does.
func Asks(err, one error, joined []error, shown Shown) interface{ Is(error) bool } {
	e, ok := err.(isMethod)
	if !ok || passesOn(e, one, joined, shown) {
		return nil
	}
	return e
}

// Is reports whether err itself, without what it wraps, claims to be target.
func Is(err, target error) bool {
	if _, ok := err.(isMethod); !ok {
		return false
	}
	one, joined := Below(err)
	_, shown := new(Hidden).Below(err, one, joined)
	if shown == ShowsOther {
		return false // Walk comes to what As shows, which Is may search
	}
	is := Asks(err, one, joined, shown)
	return is != nil && is.Is(target)
}

// passesOn reports whether e finds what it wraps. An error that costs much to compare, or
// cannot be compared, might be searched from end to end, so it counts as found. So does
// one beside another that As shows: e may search that one.
func passesOn(e isMethod, one error, joined []error, shown Shown) bool {
	if one == nil && len(joined) == 0 {
		return false
	}
	if shown == ShowsOther {
		return true
	}
	if i := slices.IndexFunc(joined, func(err error) bool { return !IsNil(err) }); i >= 0 {
		one = joined[i]
	}
	return !IsNil(one) && (!simple(reflect.TypeOf(one)) || e.Is(one))
}

// simple reports whether values of type t are compared without a look at other values.
func simple(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Slice, reflect.Map, reflect.Func:
		return false
	case reflect.Array:
		return simple(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !simple(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
