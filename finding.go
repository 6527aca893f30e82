package retry

// May call: classifier_tables.go, errors.go.

import (
	"cmp"
	"io/fs"
	"os"
	"reflect"
	"time"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
	"github.com/goretry/retry/internal/neterr"
	"github.com/goretry/retry/internal/sysno"
)

// This file visits the trees of errors for marks, inner runs and waits. The visitor for the
// class is in class.go.

// finding is what the tree of an error says about a run, beside its class. The zero finding
// is that of no error.
type finding struct {
	mark     *mark         // the first one that decides: it hides all else in the tree, but for did and final
	run      *Error        // of the first inner run
	hint     time.Duration // the first wait in the tree, also of a mark: see wait. hint.Now for a retry at once, if there is none
	rejected rejection
	did      bool // the call may have done something: there is an error outside of marks of Undone
	final    bool // an inner run or an error says so: see Final
	refusal  bool // the headers of a response ask for no retry
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
		f.refusal = above.refusal || below.refusal
		if f.hint <= 0 {
			f.hint = cmp.Or(max(below.hint, 0), f.hint, below.hint)
		}
	}
	f.did, f.final = above.did || below.did, above.final || below.final
	return f
}

// wait returns how long a server asked to wait: what the mark says of that, if one decides. But Refuse
// says only that this run must not wait for it.
func (f finding) wait() time.Duration {
	if f.mark != nil && !f.mark.refused {
		return f.mark.hint
	}
	return f.hint
}

// refused reports whether a server refused a retry, of this run or of the first inner one.
func (f finding) refused() bool {
	if f.mark != nil {
		return f.mark.refused
	}
	return f.refusal || f.run != nil && f.run.Reason == ReasonRefused
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
	x.tree.Visit = x.visit
	return x.tree.Of(err, 0)
}

// examiner visits the errors of a tree.
type examiner struct{ tree errtree.Fold[finding] }

// visit returns what one error says, and where to go on.
func (x *examiner) visit(err error, at place) (f finding, then place, next error) {
	where, sent, inner := throughSystem(err, at)
	f.did = sent
	switch e := inner.(type) {
	case *Error:
		return f.add(x.ofRun(e, where)), where, nil
	case *mark:
		return f.add(x.ofMark(e, where)), where, nil
	}
	if bare(inner) {
		f.did = true
		if inner == ErrRejected {
			f.rejected = itself
		}
		return f, where, nil
	}
	says := read(inner, where)
	f.hint, f.refusal = says.Hint, says.Facts.Is(clienterr.Refuses)
	if e, ok := inner.(interface{ Final() bool }); ok {
		f.final = e.Final()
	}
	if says.alone {
		f.did = true
		return f, where, nil
	}
	n := x.tree.Look(inner)
	f = f.add(x.shown(inner, n, where))
	leaf := n.One == nil
	for _, part := range n.Joined {
		if part != nil {
			leaf = false
			f = f.add(x.tree.Branch(part, where))
		}
	}
	f.did = f.did || leaf // no mark is below it
	return f, where, n.One
}

// throughSystem goes in one step through what fmt.Errorf and the packages net, net/url and os
// have put around an error, which says nothing itself. It returns that error with its
// place. sent says that a client may have sent a request, and then followed a redirect.
func throughSystem(err error, at place) (where place, sent bool, inner error) {
	inner, where = unwrapped(err), at
	for below := inSystem(inner); below != nil; below = inSystem(inner) {
		if neterr.Of(inner) == neterr.URL {
			sent = true
		}
		inner, where = unwrapped(below), where|system
	}
	return where, sent, inner
}

// inSystem returns the error in one of packages net, net/url and os; nil if err is none of these,
// or has none.
func inSystem(err error) error {
	if kind := neterr.Of(err); kind == neterr.URL || kind == neterr.Op {
		return kind.Inner(err)
	}
	return inOS(err)
}

// inOS returns the error in one of package os.
func inOS(err error) error {
	switch e := err.(type) {
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
	case sysno.Number:
		return true
	case *os.SyscallError, *fs.PathError:
		return inSystem(err) == nil
	}
	if kind := neterr.Of(err); kind == neterr.URL || kind == neterr.Op {
		return inSystem(err) == nil
	}
	return errtree.IsNil(err)
}

// shown returns what only the methods As and Is of err show. A mark counts only if there is
// no *Error, since the mark may be inside it.
func (x *examiner) shown(err error, n errtree.Node, at place) finding {
	f, ask := x.tree.Hidden(n.Hidden, at)
	if !ask || at&shownByAs != 0 {
		return f
	}
	if n.As != nil {
		if inner, ok := errtree.As[*Error](err); ok {
			return f.add(x.tree.Branch(inner, at|shownByAs))
		}
		if inner, ok := errtree.As[*mark](err); ok {
			return f.add(x.tree.Branch(inner, at|shownByAs))
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

// ofMark returns what a mark says. Undone leaves all else to the error that it marks.
func (x *examiner) ofMark(m *mark, at place) finding {
	f := x.tree.Of(m.err, at)
	if m.undone() {
		f.did = false
		return f
	}
	f.mark, f.hint = m, cmp.Or(m.hint, f.hint)
	return f
}

// ofRun returns what the error of an inner run says. Marks and ErrRejected were for that run.
func (x *examiner) ofRun(e *Error, at place) finding {
	if e == nil {
		return finding{did: true}
	}
	x.tree.CountRun()
	last := x.tree.Of(e.lastAttempt(), at)
	return finding{run: e, hint: x.hintOfRun(e, last, at), did: true, final: finalRun(e, last)}
}

// hintOfRun returns the wait in a run's last error, or in a guard's after that.
func (x *examiner) hintOfRun(e *Error, last finding, at place) time.Duration {
	asked := cmp.Or(e.hint, last.wait())
	if e.Reason == ReasonGuard {
		asked = cmp.Or(x.tree.Branch(e.Cause, at).wait(), asked)
	}
	if e.Attempts > 1 { // it has retried at once, and failed again
		asked = max(asked, 0)
	}
	return asked
}

// finalRun reports whether another run would end as e did, whose last attempt has come to last.
func finalRun(e *Error, last finding) bool {
	switch e.Reason {
	case ReasonPermanent, ReasonRefused, ReasonNotIdempotent:
		return true
	case ReasonMaxAttempts, ReasonMaxElapsed, ReasonDeadline, ReasonBudget, ReasonGuard: // retries have not helped; a poll has only to go on
		return last.final || e.Attempts > 1 && last.rejected != itself
	case ReasonCanceled, ReasonRetryAfter: // a caller that waits may succeed
		return false
	default:
		return last.final
	}
}
