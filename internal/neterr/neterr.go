// Package neterr knows what packages net, net/url and fmt put around errors, by the paths and names of the types, without
// their code: net would add 160 KiB to a program that has no network, and link it to the system's C library, and
// fmt.Errorf 24 KiB.
package neterr

import (
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/goretry/retry/internal/errtree"
)

// Kind says which error of these packages an error is.
type Kind uint8

const (
	Other   Kind = iota // none of these
	URL                 // a *url.Error
	Op                  // a *net.OpError
	DNS                 // a *net.DNSError
	Wrapped             // what fmt.Errorf returns for one %w
)

// A type is remembered by its number in package errtree, once it was met: names take longer to compare than all else.
var (
	types  [Wrapped + 1]atomic.Uintptr // of the kinds
	others [256]atomic.Uintptr         // that are none of these, each at a place that follows from it
	fields [DNS + 1]offsets            // written before types
)

// offsets are those of the fields Op and Err, and of those that a Condition is for.
type offsets struct {
	op, inner  atomic.Uintptr
	conditions [3]atomic.Uintptr
}

// Of returns the kind of err, which may be nil, or a nil pointer.
func Of(err error) Kind {
	t := errtree.IDOf(err).Kind()
	switch t {
	case others[place(t)].Load(), 0:
		return Other
	case types[URL].Load():
		return URL
	case types[Op].Load():
		return Op
	case types[DNS].Load():
		return DNS
	case types[Wrapped].Load():
		return Wrapped
	}
	return meet(reflect.TypeOf(err), t)
}

// Wraps reports whether err is of kind [Wrapped], if Of has met one before: it is only a comparison.
func Wraps(err error) bool { return errtree.IDOf(err).Kind() == types[Wrapped].Load() }

func place(t uintptr) uintptr { return (t>>5 ^ t>>13) % uintptr(len(others)) }

// meet returns the kind of errors of type t by its name, and remembers it.
//
//go:noinline
func meet(t reflect.Type, number uintptr) Kind {
	k := Other
	if t.Kind() == reflect.Pointer {
		is := func(pkg, name string) bool { return t.Elem().Name() == name && t.Elem().PkgPath() == pkg }
		switch {
		case is("net/url", "Error"):
			k = URL
		case is("net", "OpError"):
			k = Op
		case is("net", "DNSError"):
			k = DNS
		case is("fmt", "wrapError"):
			k = Wrapped
		}
	}
	if k == Other || k <= DNS && !k.learn(t.Elem()) {
		others[place(number)].Store(number)
		return Other
	}
	types[k].Store(number)
	return k
}

// learn notes where the fields of a kind are, and reports whether t has all of them.
func (k Kind) learn(t reflect.Type) bool {
	at, known := &fields[k], 0
	for i := range t.NumField() {
		f := t.Field(i)
		offset, kind := &at.op, reflect.String
		switch f.Name {
		case "Op":
		case "Err":
			offset, kind = &at.inner, reflect.Interface
		case "IsNotFound":
			offset, kind = &at.conditions[NotFound], reflect.Bool
		case "IsTimeout":
			offset, kind = &at.conditions[Timeout], reflect.Bool
		case "IsTemporary":
			offset, kind = &at.conditions[Temporary], reflect.Bool
		default:
			continue
		}
		if f.Type.Kind() == kind { // Err of DNS is a text
			offset.Store(f.Offset)
			known++
		}
	}
	return known == [...]int{URL: 2, Op: 2, DNS: 3}[k]
}

// Inner returns the error in one of kind [URL] or [Op]: nil if it has none, or is a nil pointer.
func (k Kind) Inner(err error) error {
	value := errtree.IDOf(err).Value()
	if value == nil {
		return nil
	}
	return *(*error)(unsafe.Add(value, fields[k].inner.Load()))
}

// Operation returns the field Op of an error of kind [URL] or [Op], which is no nil pointer: "dial", "Get".
func (k Kind) Operation(err error) string {
	return *(*string)(unsafe.Add(errtree.IDOf(err).Value(), fields[k].op.Load()))
}

// A Condition is one that an error of kind [DNS] may say.
type Condition uint8

const (
	NotFound Condition = iota
	Timeout
	Temporary
)

// Says reports whether an error of kind [DNS], which is no nil pointer, says that.
func Says(err error, c Condition) bool {
	return *(*bool)(unsafe.Add(errtree.IDOf(err).Value(), fields[DNS].conditions[c].Load()))
}
