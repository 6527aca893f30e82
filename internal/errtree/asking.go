package errtree

// Asking counts what methods As and Is show in a walk, and what it would cost to ask those
// that are to search it. Its zero value is ready to use.
type Asking struct {
	shown   Hidden
	visits  int // errors
	passing int // errors that make a search longer: runs, and those whose methods search what they wrap, too
}

// Node is what one error leads to.
type Node struct {
	One    error    // as of Below
	Joined []error  // as of Below
	Hidden error    // what its method As shows and Unwrap does not
	As     asMethod // nil if there is nothing to ask it for; MayAsk must allow it
	Is     isMethod // likewise
	before int      // Asking.passing, before Hidden
}

// An error that hides others is asked about them only in a small tree. Of the errors that
// make a search longer each may double its cost.
const (
	mostVisits  = 64
	mostPassing = 3
)

// Look returns what err leads to. err must not be a nil pointer.
func (a *Asking) Look(err error) (n Node) {
	n.One, n.Joined = Below(err)
	leads := n.One != nil || len(n.Joined) > 0
	var shown Shown
	if as, ok := err.(asMethod); ok {
		if n.Hidden, shown = a.shown.Below(err, n.One, n.Joined); leads && shown != ShowsNone {
			a.passing++
		} else {
			n.As = as
		}
	}
	if _, ok := err.(isMethod); ok {
		if n.Is = Asks(err, n.One, n.Joined, shown); n.Is == nil {
			a.passing++
		}
	}
	n.before = a.passing
	return n
}

// Run counts a *retry.Error, whose methods search all of its errors.
func (a *Asking) Run() { a.passing++ }

// MayAsk reports whether the methods of n's error may be asked: they may search what they hide.
// Call it after a walk through n.Hidden, which tells what that would cost.
func (a *Asking) MayAsk(n Node) bool {
	return n.Hidden == nil || a.visits <= mostVisits && a.passing-n.before <= mostPassing
}
