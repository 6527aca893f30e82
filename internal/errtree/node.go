package errtree

import (
	"reflect"
	"slices"
)

// Node is what one error leads to.
type Node struct {
	One    error    // as of Below
	Joined []error  // as of Below
	Hidden error    // what its method As shows and Unwrap does not
	As     asMethod // nil if there is nothing to ask it for
	Is     isMethod // likewise
}

// Asking counts the errors of a walk, and what it would cost to ask their methods As and Is,
// which may search what the errors hide. Its zero value is ready to use.
type Asking struct {
	visits  int // errors
	hidden  int // errors that only methods As have shown
	passing int // errors that make a search longer: runs, and those whose methods search what they wrap, too
}

const (
	few         = 64      // errors are a small tree
	long        = 1 << 15 // errors without a branch may be a chain that ends in itself
	mostPassing = 3       // each of these may double the cost of a search
	mostHidden  = 1000    // methods As may make errors while they are called, without an end
)

// Look returns what err leads to. err must not be a nil pointer.
func (a *Asking) Look(err error) Node {
	n, shows := a.lead(err)
	wraps := n.One != nil || len(n.Joined) > 0
	if e, ok := err.(asMethod); ok {
		if wraps && shows {
			a.passing++
		} else {
			n.As = e
		}
	}
	if e, ok := err.(isMethod); ok {
		if wraps && (n.Hidden != nil || a.hidden > mostHidden || finds(e, n)) { // it may search those, too
			a.passing++
		} else {
			n.Is = e
		}
	}
	return n
}

// lead is Look without As and Is. shows says that the method As shows some error to whoever
// asks for any, as those do that pass the question on to what Unwrap returns.
func (a *Asking) lead(err error) (n Node, shows bool) {
	n.One, n.Joined = Below(err)
	found, shows := As[error](err)
	if !shows {
		return n, false
	}
	isFound := func(err error) bool { return err != nil && same(found, err) }
	if isFound(err) || isFound(n.One) || slices.ContainsFunc(n.Joined, isFound) {
		return n, true
	}
	if a.hidden++; a.hidden <= mostHidden {
		n.Hidden = found
	}
	return n, true
}

// finds reports whether e finds what its error wraps. What costs much to compare, or cannot be
// compared, might be searched from end to end, so it counts as found.
func finds(e isMethod, n Node) bool {
	one := n.One
	if i := slices.IndexFunc(n.Joined, func(err error) bool { return !IsNil(err) }); i >= 0 {
		one = n.Joined[i]
	}
	return !IsNil(one) && (!simple(reflect.TypeOf(one)) || e.Is(one))
}

// CountRun counts a *retry.Error, whose methods search all of its errors.
func (a *Asking) CountRun() { a.passing++ }
