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
	As     asMethod // nil if there is nothing to ask it for; MayAsk must allow it
	Is     isMethod // likewise
	before int      // Asking.passing, before Hidden
}

// Asking counts the errors of a walk, and what it would cost to ask their methods As and Is,
// which may search what the errors hide. Its zero value is ready to use.
type Asking struct {
	visits  int // errors
	hidden  int // errors that only methods As have shown
	passing int // errors that make a search longer: runs, and those whose methods search what they wrap, too
}

const (
	// few is how many errors are a small tree.
	few = 64

	// mostPassing is how many errors may make a search longer. Each of them may double its cost.
	mostPassing = 3

	// mostHidden limits a walk through a tree that methods As make while they are called: it
	// might have no end.
	mostHidden = 1000
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
	n.before = a.passing
	return n
}

// lead is Look without As and Is. shows says that the method As shows some error to whoever
// asks for any, as those do that pass the question on to what Unwrap returns.
func (a *Asking) lead(err error) (n Node, shows bool) {
	n.One, n.Joined = Below(err)
	found, shows := As[error](err)
	isFound := func(err error) bool { return err != nil && same(found, err) }
	if !shows || isFound(err) || isFound(n.One) || slices.ContainsFunc(n.Joined, isFound) {
		return n, shows
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

// Run counts a *retry.Error, whose methods search all of its errors.
func (a *Asking) Run() { a.passing++ }

// MayAsk reports whether the methods of n's error may be asked. If they may search what they
// hide, that is so in a small tree only. Call it after a walk through n.Hidden, which tells what
// that would cost.
func (a *Asking) MayAsk(n Node) bool {
	return n.Hidden == nil || a.visits <= few && a.passing-n.before <= mostPassing
}

// Ask returns the error that e shows to those who ask for type t, or nil.
func Ask(e asMethod, t reflect.Type) error {
	target := reflect.New(t)
	if !e.As(target.Interface()) {
		return nil
	}
	found, _ := target.Elem().Interface().(error)
	if IsNil(found) { // there are methods that return true and set nothing
		return nil
	}
	return found
}
