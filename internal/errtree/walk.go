package errtree

import (
	"reflect"
	"slices"
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
// before what err wraps. A small tree may hold an error at several places, and Walk visits
// it at each of them. In a large tree Walk visits each error about once.
func Walk(err error, visit func(error) Next) (stopped bool) {
	w := walk{visit: visit}
	return w.from(err)
}

// WalkSafely is Walk, but an error of which a method panics leads nowhere.
func WalkSafely(err error, visit func(error) Next) (stopped bool) {
	w := walk{visit: visit, safe: true}
	return w.branch(err)
}

// walk finds out whether visit returns Stop.
type walk struct {
	Asking
	visit    func(error) Next
	safe     bool
	branched bool
	seen     map[ID]bool // in a large tree
}

func (w *walk) from(err error) (stopped bool) {
	for !IsNil(err) {
		if w.visits++; w.visits > few && (w.branched || w.visits > long) {
			if w.seen == nil {
				w.seen = map[ID]bool{}
			}
			if w.seen[IDOf(err)] {
				return false
			}
			w.seen[IDOf(err)] = true
		}
		if where := w.visit(err); where != Into {
			return where == Stop
		}
		n, _ := w.lead(err)
		if n.Hidden != nil && w.branch(n.Hidden) || slices.ContainsFunc(n.Joined, w.branch) {
			return true
		}
		err = n.One
	}
	return false
}

func (w *walk) branch(err error) (stopped bool) {
	if w.safe {
		defer func() { _ = recover() }()
	}
	w.branched = true
	return w.from(err)
}

// Find returns the first error of type T in the tree of err, as errors.AsType does. An interface
// that methods As are to find must have the method Error.
func Find[T error](err error) (found T, ok bool) {
	ok = Walk(err, func(err error) Next {
		if found, ok = err.(T); !ok && Shy(err) != nil {
			found, ok = As[T](err)
		}
		if ok {
			return Stop
		}
		return Into
	})
	return found, ok
}

// Shy returns the method As of err, if it shows no error to whoever asks for any. Walk goes
// past what it may show to those who ask for a type.
func Shy(err error) asMethod {
	if e, ok := err.(asMethod); ok && Ask(e, New[error]()) == nil {
		return e
	}
	return nil
}

// Holds reports whether target is in the tree of err, as errors.Is does.
func Holds(err, target error) bool {
	comparable := reflect.ValueOf(target).Comparable()
	return Walk(err, func(err error) Next {
		if comparable && err == target || Is(err, target) {
			return Stop
		}
		return Into
	})
}

// Is reports whether err itself, without what it leads to, claims to be target.
func Is(err, target error) bool {
	if _, ok := err.(isMethod); !ok {
		return false
	}
	n := new(Asking).Look(err)
	return n.Hidden == nil && n.Is != nil && n.Is.Is(target)
}
