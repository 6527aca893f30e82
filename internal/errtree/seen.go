package errtree

import (
	"reflect"
	"unsafe"
)

// ID tells one error from another, also if the two cannot be compared, or if a comparison
// would go through all that they hold. Errors of one ID are the same variable. Copies of
// a value may have several.
type ID struct{ kind, value unsafe.Pointer }

// IDOf returns the ID of err.
func IDOf(err error) ID { return *(*ID)(unsafe.Pointer(&err)) } // the two words of an interface

// few is how many errors are visited before a walk begins to remember them.
const few = 64

// seen counts the errors of a walk, and says when it must remember them: without that, a tree
// whose branches hold the same errors could cost 2ⁿ. A tree without branches needs no memory,
// nor does one with few errors, some of which may be visited again.
type seen struct {
	branched bool
	visits   int
}

// branch says that more than one way goes on from here.
func (s *seen) branch() { s.branched = true }

// full counts an error, and reports whether the walk must remember it.
func (s *seen) full() bool {
	if s.branched {
		s.visits++
	}
	return s.visits > few
}

// same reports whether a and b are one error: the same variable, or equal values, as a
// method that returns a part of a slice makes them. It goes no deeper than a few values,
// below which they count as equal.
func same(a, b error) bool {
	if IDOf(a) == IDOf(b) {
		return true
	}
	looks := 32
	return equal(reflect.ValueOf(a), reflect.ValueOf(b), &looks)
}

func equal(a, b reflect.Value, looks *int) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		return false
	}
	if *looks--; *looks < 0 {
		return true
	}
	switch a.Kind() {
	case reflect.Interface:
		return equal(a.Elem(), b.Elem(), looks)
	case reflect.Slice:
		return a.Len() == b.Len() && a.Pointer() == b.Pointer()
	case reflect.Map, reflect.Func:
		return a.Pointer() == b.Pointer()
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i), looks) {
				return false
			}
		}
		return true
	case reflect.Array:
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i), looks) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}
