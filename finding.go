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
	mark    *mark         // the first one that decides; nothing else in the tree counts, but for final and did
	hint    time.Duration // the first wait that a server asked for; hint.Now for a retry at once, if none asked for a wait
	stopped time.Duration // a wait inside a Stop, of which only Refuse takes note
	did     bool          // there is an error outside of marks of Undone
	run     bool          // there is an inner run
	refused bool          // the first inner run ended with ReasonRefused
	final   bool          // an inner run or an error says so: see Final

	claimsRejected bool // there is an ErrRejected, or an error whose method Is claims to be it
	isRejected     bool // there is ErrRejected itself
}

// add returns what two errors say, of which one is above the other in the tree, or before it. A
// mark below hides what is above it, too: the wait, the rejection and the run.
func (above finding) add(below finding) finding {
	f := above
	switch {
	case above.mark != nil:
	case below.mark != nil:
		f = below
	default:
		if !f.run {
			f.run, f.refused = below.run, below.refused
		}
		f.claimsRejected, f.isRejected = f.claimsRejected || below.claimsRejected, f.isRejected || below.isRejected
		if f.hint <= 0 {
			f.hint = cmp.Or(max(below.hint, 0), f.hint, below.hint)
		}
		f.stopped = cmp.Or(f.stopped, below.stopped)
	}
	f.did, f.final = above.did || below.did, above.final || below.final
	return f
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
	err = unwrapped(err)
	for { // in one step through what says nothing itself, as most errors of a network are
		inner := inSystem(err)
		if inner == nil {
			break
		}
		if _, ok := err.(*url.Error); ok { // the client may have sent a request, and then followed a redirect
			f.did = true
		}
		err, at = unwrapped(inner), at|system
	}
	switch e := err.(type) {
	case *Error:
		return f.add(x.ofRun(e, at)), at, nil
	case *mark:
		return f.add(x.ofMark(e, at)), at, nil
	case sysno.Number, *url.Error, *net.OpError, *os.SyscallError, *fs.PathError: // the last four without an error in them
		return finding{did: true}, at, nil
	}
	if errtree.IsNil(err) {
		return finding{did: true}, at, nil
	}
	if reflect.TypeOf(err) == errorString {
		is := err == ErrRejected
		return finding{did: true, claimsRejected: is, isRejected: is}, at, nil
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
	leaf := n.One == nil
	for _, err := range n.Joined {
		if err != nil {
			leaf = false
			f = f.add(x.Branch(err, at))
		}
	}
	f.did = f.did || leaf
	return f, at, n.One
}

// shown returns what only the methods As and Is of err show. A mark counts only if there is
// no *Error, since the mark may be inside it.
func (x *examiner) shown(err error, n errtree.Node, at place) (f finding) {
	if n.Hidden != nil {
		f = x.Branch(n.Hidden, at)
	}
	if at&shownByAs != 0 {
		return f
	}
	if n.As != nil && x.MayAsk(n) {
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
	if n.Is != nil && x.MayAsk(n) && n.Is.Is(ErrRejected) {
		f = f.add(finding{claimsRejected: true})
	}
	return f
}

// ofMark returns what a mark says. Undone leaves all else to the error that it marks. The
// wait in that error also counts if the server refused: the mark only says that this run
// must not wait for it.
func (x *examiner) ofMark(m *mark, at place) finding {
	inner := x.Of(m.err, at)
	if m.class == Unknown {
		inner.did = false
		return inner
	}
	f := finding{mark: m, hint: m.hint, stopped: cmp.Or(inner.hint, inner.stopped), did: inner.did, isRejected: inner.isRejected, final: inner.final}
	if m.refused {
		f.hint, f.stopped = f.stopped, inner.stopped
	}
	return f
}

// ofRun returns what the error of an inner run says. Only the wait in its last error, or in a
// guard's after that, counts: marks and ErrRejected were for the inner run.
func (x *examiner) ofRun(e *Error, at place) finding {
	f := finding{did: true}
	if e == nil {
		return f
	}
	x.Run()
	last := x.Of(e.lastAttempt(), at)
	f.run, f.refused, f.hint, f.final = true, e.Reason == ReasonRefused, cmp.Or(e.hint, last.hint), last.final
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
		f.final = f.final || e.Attempts > 1 && !last.isRejected
	case ReasonCanceled, ReasonRetryAfter: // a caller that waits may succeed
		f.final = false
	}
	return f
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

// systemError returns what err wraps, if it is one of the types that package os puts
// around other errors. These types ask for no wait, and their Timeout methods only call
// that of the inner error.
func systemError(err error) (inner error, ok bool) {
	switch e := err.(type) {
	case *os.SyscallError:
		return e.Err, true
	case *fs.PathError:
		return e.Err, true
	}
	return nil, false
}
