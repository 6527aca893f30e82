package errtree

import "slices"

// Fold goes through a tree for what it says as a whole. Visit knows what one error says, and
// Fold how to go on: a long chain costs no stack, and in a large tree each error is visited
// about once at each place, wherever the tree holds it.
type Fold[T any] struct {
	// Visit returns what err says itself, and where to go on: nil is nowhere. It adds what else
	// is below err by Of and Branch. at is whatever else makes a difference to Visit: it says
	// the same of one error at one place.
	Visit func(err error, at uint8) (says T, then uint8, next error)

	// Add returns what two errors say, of which the first wraps the second. It is associative.
	// The zero T adds nothing, so that an error that holds itself does not either.
	Add func(above, below T) T

	Asking
	branched bool
	said     map[visit]T // in a large tree
}

// visit is an error at a place.
type visit struct {
	id ID
	at uint8
}

// passed is an error on the way down a chain, and what it says itself.
type passed[T any] struct {
	visit
	says T
}

// Branch is Of for one of several ways that go on from an error. If these lead to the same
// errors, a tree could cost 2ⁿ, so Of remembers those of a large tree.
func (f *Fold[T]) Branch(err error, at uint8) T {
	f.branched = true
	return f.Of(err, at)
}

// Of returns what the tree of err says.
func (f *Fold[T]) Of(err error, at uint8) (says T) {
	var below T
	var path []passed[T] // in a large tree
	known := false       // likewise: below has been visited before
	for first := true; err != nil; first = false {
		f.visits++
		remembers := f.branched && f.visits > few
		if remembers {
			here := visit{IDOf(err), at}
			if below, known = f.said[here]; known {
				break
			}
			f.remember(passed[T]{visit: here})
			path = append(path, passed[T]{visit: here})
		}
		var own T
		own, at, err = f.Visit(err, at)
		switch {
		case remembers:
			path[len(path)-1].says = own
		case first: // alone, mostly
			says = own
		default:
			says = f.Add(says, own)
		}
	}
	if path == nil && !known {
		return says
	}
	for _, p := range slices.Backward(path) {
		below = f.Add(p.says, below)
		f.remember(passed[T]{p.visit, below})
	}
	return f.Add(says, below)
}

func (f *Fold[T]) remember(p passed[T]) {
	if f.said == nil {
		f.said = map[visit]T{}
	}
	f.said[p.visit] = p.says
}
