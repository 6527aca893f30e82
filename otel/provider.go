package otelretry

import (
	"reflect"
	"sync/atomic"
)

// source gives what was made from a provider: the one of an option, or else the
// global one. That may be set, and set again, after Hooks was called.
type source[P, T any] struct {
	global func() P // nil if an option gave a provider
	make   func(P) T
	latest atomic.Pointer[made[P, T]]
}

type made[P, T any] struct {
	from P
	it   T
}

func (s *source[P, T]) init(option P, global func() P, make func(P) T) {
	if any(option) == nil {
		s.global, s.make = global, make
		option = global()
	}
	s.latest.Store(&made[P, T]{option, make(option)})
}

func (s *source[P, T]) get() T {
	m := s.latest.Load()
	if s.global == nil {
		return m.it
	}
	if p := s.global(); !same(m.from, p) {
		m = &made[P, T]{p, s.make(p)}
		s.latest.Store(m)
	}
	return m.it
}

// same compares two providers. Of two that cannot be compared it knows the type.
func same(a, b any) bool {
	t := reflect.TypeOf(a)
	if t != reflect.TypeOf(b) {
		return false
	}
	return t.Kind() != reflect.Pointer && !reflect.ValueOf(a).Comparable() || a == b
}
