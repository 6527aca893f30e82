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

// Kind returns a number that errors of the same type have, and no others: 0 of no error.
func (id ID) Kind() uintptr { return uintptr(id.kind) }

// Value returns what an error of a pointer's type points to.
func (id ID) Value() unsafe.Pointer { return id.value }

// same reports whether a and b are one error: the same variable, or equal values, as a
// method that returns a part of a slice makes them. It goes no deeper than a few values,
// below which they count as equal.
func same(a, b error) bool {
	looks := 32
	return IDOf(a) == IDOf(b) || equal(reflect.ValueOf(a), reflect.ValueOf(b), &looks)
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
	// Value.Equal, with all that it needs, would add 8 KiB to a program.
	switch {
	case a.CanInt():
		return a.Int() == b.Int()
	case a.CanUint():
		return a.Uint() == b.Uint()
	case a.CanFloat():
		return a.Float() == b.Float()
	case a.CanComplex():
		return a.Complex() == b.Complex()
	case a.Kind() == reflect.String:
		return a.String() == b.String()
	case a.Kind() == reflect.Bool:
		return a.Bool() == b.Bool()
	}
	return a.Pointer() == b.Pointer()
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
