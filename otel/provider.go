package otelretry

import (
	"reflect"
	"sync/atomic"
)

// source gives what was built from a provider: the one of an option, or else the
// global one. That may be set, and set again, after Hooks was called.
type source[P, T any] struct {
	global func() P // nil if an option gave a provider
	build  func(p P, global bool) T
	latest atomic.Pointer[built[P, T]]
}

type built[P, T any] struct {
	from    P
	pointer bool // from is one: to compare it cannot panic
	value   T
}

func (s *source[P, T]) init(option P, global func() P, build func(p P, global bool) T) {
	s.build = build
	if any(option) == nil {
		s.global = global
		option = global()
	}
	s.renew(option)
}

func (s *source[P, T]) get() T {
	b := s.latest.Load()
	if s.global == nil {
		return b.value
	}
	p := s.global()
	if b.pointer && any(b.from) == any(p) { // mostly
		return b.value
	}
	if equal, _ := same(b.from, p); !equal {
		b = s.renew(p)
	}
	return b.value
}

func (s *source[P, T]) renew(p P) *built[P, T] {
	b := &built[P, T]{p, reflect.ValueOf(p).Kind() == reflect.Pointer, s.build(p, s.global != nil)}
	s.latest.Store(b)
	return b
}

// same compares two providers. Of two that cannot be compared it only knows that
// they have one type; known is false then.
func same(a, b any) (equal, known bool) {
	defer func() {
		if recover() != nil {
			equal = true
		}
	}()
	return a == b, true
}

// absent reports whether p is nil, or a nil pointer.
func absent(p any) bool {
	v := reflect.ValueOf(p)
	return p == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
