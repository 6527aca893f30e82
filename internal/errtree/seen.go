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

// Seen remembers which errors a walk has visited. Without it, a tree whose branches
// hold the same errors could cost 2ⁿ. It costs nothing for a tree without branches, or
// with few errors: these may be visited again. The zero Seen is ready to use.
type Seen struct {
	branched bool
	visits   int
	errs     map[visit]struct{}
}

type visit struct {
	id  ID
	how uint8
}

// Branch says that more than one way goes on from here.
func (s *Seen) Branch() { s.branched = true }

// Full reports whether the walk has come to where it must remember.
func (s *Seen) Full() bool {
	if s.branched {
		s.visits++
	}
	return s.visits > few
}

// First reports whether err may be visited for the first time in a certain way.
func (s *Seen) First(err error, how uint8) bool {
	if !s.Full() {
		return true
	}
	key := visit{IDOf(err), how}
	if _, seen := s.errs[key]; seen {
		return false
	}
	if s.errs == nil {
		s.errs = map[visit]struct{}{}
	}
	s.errs[key] = struct{}{}
	return true
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
