package errtree

import "slices"

// Fold goes through a tree for what it says as a whole. Visit knows what one error says, and
// Fold how to go on: a long chain costs no stack, and in a large tree each error is visited
// about once at each place, wherever the tree holds it.
type Fold[T any] struct {
	// Visit returns what err says itself, and where to go on: nil is nowhere. It adds what else
	// is below err by Of, Branch and Hidden. at is whatever else makes a difference to Visit: it
	// says the same of one error at one place.
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

// Branch is Of for one of several ways that go on from an error. If these lead to the same
// errors, a tree could cost 2ⁿ, so Of remembers those of a large tree.
func (f *Fold[T]) Branch(err error, at uint8) T {
	f.branched = true
	return f.Of(err, at)
}

// Hidden is Branch for the Hidden of a Node, which may be nil. ask says whether to ask the As and
// the Is of that Node: not if they may search what is hidden, and would take long.
func (f *Fold[T]) Hidden(hidden error, at uint8) (says T, ask bool) {
	if hidden == nil {
		return says, true
	}
	passing := f.passing
	says = f.Branch(hidden, at)
	return says, f.visits <= few && f.passing-passing <= mostPassing
}

// Of returns what the tree of err says.
func (f *Fold[T]) Of(err error, at uint8) (says T) {
	for first := true; err != nil; first = false {
		if f.visits++; f.visits > few && (f.branched || f.visits > long) {
			return f.Add(says, f.remembered(err, at))
		}
		var own T
		if own, at, err = f.Visit(err, at); first { // alone, mostly
			says = own
		} else {
			says = f.Add(says, own)
		}
	}
	return says
}

// remembered is Of in a large tree.
func (f *Fold[T]) remembered(err error, at uint8) (says T) {
	if f.said == nil {
		f.said = map[visit]T{}
	}
	type passed struct {
		visit
		says T // the error itself
	}
	var path []passed
	for err != nil {
		here := visit{IDOf(err), at}
		said, known := f.said[here]
		if known {
			says = said
			break
		}
		f.said[here] = says // nothing yet
		var own T
		own, at, err = f.Visit(err, at)
		path = append(path, passed{here, own})
	}
	for _, p := range slices.Backward(path) {
		says = f.Add(p.says, says)
		f.said[p.visit] = says
	}
	return says
}
