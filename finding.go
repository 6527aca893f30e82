package retry

// May call: classifier_tables.go, errors.go.

import (
	"cmp"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"time"

	"github.com/goretry/retry/internal/errtree"
	"github.com/goretry/retry/internal/sysno"
)

// This file visits the trees of errors for marks, inner runs and waits. The visitor for the
// class is in class.go.

// finding is what the tree of an error says about a run, beside its class. The zero finding
// is that of no error.
type finding struct {
	mark     *mark         // the first one that decides: it hides all else in the tree, but for did and final
	run      *Error        // of the first inner run
	hint     time.Duration // the first wait that a server asked for; hint.Now for a retry at once, if none asked for a wait
	stopped  time.Duration // a wait inside a Stop, of which only Refuse takes note
	rejected rejection
	did      bool // the call may have done something: there is an error outside of marks of Undone
	final    bool // an inner run or an error says so: see Final
}

// rejection says whether ErrRejected is in a tree.
type rejection uint8

const (
	absent  rejection = iota
	claimed           // an error is it by its method Is only
	itself
)

// add returns what two errors say, of which one is above the other in the tree, or before it. A
// mark below hides what is above it, too: the wait, the rejection and the run.
func (above finding) add(below finding) finding {
	f := above
	switch {
	case above.mark != nil:
	case below.mark != nil:
		f = below
	default:
		f.run = cmp.Or(above.run, below.run)
		f.rejected = max(above.rejected, below.rejected)
		f.stopped = cmp.Or(above.stopped, below.stopped)
		if f.hint <= 0 {
			f.hint = cmp.Or(max(below.hint, 0), f.hint, below.hint)
		}
	}
	f.did, f.final = above.did || below.did, above.final || below.final
	return f
}

// refused reports whether a server refused a retry, of this run or of the first inner one.
func (f finding) refused() bool {
	if f.mark != nil {
		return f.mark.refused
	}
	return f.run != nil && f.run.Reason == ReasonRefused
}

// A place says where in a tree an error is.
type place = uint8

const (
	// system: inside an error of net, net/url or os. The fields of an error count there only
	// if its type is known.
	system place = 1 << iota

	// shownByAs: in what a method As has found when it was asked for a type. That method is not
	// asked again about what is inside.
	shownByAs
)

// examine returns what the tree of err says beside its class.
func examine(err error) finding {
	x := examiner{errtree.Fold[finding]{Add: finding.add}}
	x.Visit = x.visit
	return x.Of(err, 0)
}

// examiner visits the errors of a tree.
type examiner struct{ errtree.Fold[finding] }

// visit returns what one error says, and where to go on.
func (x *examiner) visit(err error, at place) (f finding, then place, next error) {
	at, f.did, err = throughSystem(err, at)
	switch e := err.(type) {
	case *Error:
		return f.add(x.ofRun(e, at)), at, nil
	case *mark:
		return f.add(x.ofMark(e, at)), at, nil
	}
	if bare(err) {
		f.did = true
		if err == ErrRejected {
			f.rejected = itself
		}
		return f, at, nil
	}
	says := read(err, at)
	f.hint = says.Hint
	if e, ok := err.(interface{ Final() bool }); ok {
		f.final = e.Final()
	}
	if says.alone {
		f.did = true
		return f, at, nil
	}
	n := x.Look(err)
	f = f.add(x.shown(err, n, at))
	if n.One == nil {
		f = f.add(x.joined(n.Joined, at))
	}
	return f, at, n.One
}

// throughSystem goes in one step through what fmt.Errorf and the packages net, net/url and os
// have put around an error, which says nothing itself. It returns that error with its
// place. sent says that a client may have sent a request, and then followed a redirect.
func throughSystem(err error, at place) (_ place, sent bool, _ error) {
	err = unwrapped(err)
	for inner := inSystem(err); inner != nil; inner = inSystem(err) {
		if _, ok := err.(*url.Error); ok {
			sent = true
		}
		err, at = unwrapped(inner), at|system
	}
	return at, sent, err
}

// inSystem returns the error in one of packages net, net/url and os; nil if err is none of these,
// or has none.
func inSystem(err error) error {
	switch e := err.(type) {
	case *url.Error:
		if e != nil {
			return e.Err
		}
	case *net.OpError:
		if e != nil {
			return e.Err
		}
	case *os.SyscallError:
		if e != nil {
			return e.Err
		}
	case *fs.PathError:
		if e != nil {
			return e.Err
		}
	}
	return nil
}

// bare reports whether err says nothing but which error it is, or is a nil pointer.
func bare(err error) bool {
	if reflect.TypeOf(err) == errorString {
		return true
	}
	switch err.(type) {
	case sysno.Number, *url.Error, *net.OpError, *os.SyscallError, *fs.PathError: // the last four without an error in them
		return true
	}
	return errtree.IsNil(err)
}

// joined returns what errors say that another one joins. If it joins none, no mark is below it.
func (x *examiner) joined(errs []error, at place) (f finding) {
	none := true
	for _, err := range errs {
		if err != nil {
			none = false
			f = f.add(x.Branch(err, at))
		}
	}
	f.did = f.did || none
	return f
}

// shown returns what only the methods As and Is of err show. A mark counts only if there is
// no *Error, since the mark may be inside it.
func (x *examiner) shown(err error, n errtree.Node, at place) finding {
	f := x.Hidden(&n, at)
	if at&shownByAs != 0 {
		return f
	}
	if n.As != nil {
		if inner, ok := errtree.As[*Error](err); ok {
			return f.add(x.Branch(inner, at|shownByAs))
		}
		if inner, ok := errtree.As[*mark](err); ok {
			return f.add(x.Branch(inner, at|shownByAs))
		}
		if asks, ok := errtree.As[asksWait](err); ok {
			f = f.add(finding{hint: askedWait(asks)})
		}
	}
	if n.Is != nil && n.Is.Is(ErrRejected) {
		f = f.add(finding{rejected: claimed})
	}
	return f
}

// ofMark returns what a mark says. Undone leaves all else to the error that it marks. The
// wait in that error also counts if the server refused: the mark only says that this run
// must not wait for it.
func (x *examiner) ofMark(m *mark, at place) finding {
	f := x.Of(m.err, at)
	switch {
	case m.class == Unknown:
		f.did = false
	case m.refused:
		f.mark, f.hint = m, cmp.Or(f.hint, f.stopped)
	default:
		f.mark, f.hint, f.stopped = m, m.hint, cmp.Or(f.hint, f.stopped)
	}
	return f
}

// ofRun returns what the error of an inner run says. Only the wait in its last error, or in a
// guard's after that, counts: marks and ErrRejected were for the inner run.
func (x *examiner) ofRun(e *Error, at place) finding {
	if e == nil {
		return finding{did: true}
	}
	x.Run()
	last := x.Of(e.lastAttempt(), at)
	f := finding{run: e, hint: cmp.Or(e.hint, last.hint), did: true, final: last.final}
	if e.Reason == ReasonGuard {
		f.hint = cmp.Or(x.Branch(e.Cause, at).hint, f.hint)
	}
	if e.Attempts > 1 { // it has retried at once, and failed again
		f.hint = max(f.hint, 0)
	}
	switch e.Reason {
	case ReasonPermanent, ReasonRefused, ReasonNotIdempotent: // another run would end so, too
		f.final = true
	case ReasonMaxAttempts, ReasonMaxElapsed, ReasonDeadline, ReasonBudget, ReasonGuard: // retries have not helped; a poll has only to go on
		f.final = f.final || e.Attempts > 1 && last.rejected != itself
	case ReasonCanceled, ReasonRetryAfter: // a caller that waits may succeed
		f.final = false
	}
	return f
}
