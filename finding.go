package retry

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/goretry/retry/internal/errtree"
)

// This file walks the trees of errors for marks, inner runs and waits. The walk for the
// class is in class.go.

// finding is what the tree of an error says about a run, beside its class.
type finding struct {
	mark     *mark         // the first one that decides; nothing behind it counts, but for final
	hint     time.Duration // the first wait that a server asked for
	undone   bool          // each error is inside a mark of Undone
	rejected bool          // there is an ErrRejected
	answered bool          // there is ErrRejected itself, and not only an error whose method Is claims to be it
	run      bool          // there is an inner run
	refused  bool          // the first inner run ended with ReasonRefused
	final    bool          // an inner run or an error says so: see Final
}

// place says where in a tree an error is.
type place uint8

const (
	// system: inside an error of net, net/url or os. The fields of an error count there only
	// if its type is known.
	system place = 1 << iota

	// behind: in what a method As finds when it is asked for a type. It is asked about all of
	// that.
	behind
)

// spot is an error at a place.
type spot struct {
	id errtree.ID
	at place
}

// examine returns what the tree of err says beside its class.
func examine(err error) finding {
	var x examiner
	return x.examine(err, 0)
}

// examiner examines an error, with the marks and the runs in it.
type examiner struct {
	asking
	inner   int // marks and runs so far
	results map[spot]finding
}

// few is how many inner marks and runs are examined before their findings are kept. Joined errors
// may hold the same ones, which could cost 2ⁿ.
const few = 16

func (x *examiner) examine(err error, at place) finding {
	f := finding{undone: true}
	var seen errtree.Seen
	x.walk(&f, err, at, &seen)
	return f
}

// walk adds to f what the tree of err says. It goes down a chain in a loop, so that a
// long one costs no stack.
func (x *examiner) walk(f *finding, err error, at place, seen *errtree.Seen) {
	var silent silentTypes
	for err != nil {
		x.visits++
		t := reflect.TypeOf(err)
		if t == errorString {
			if err == ErrRejected {
				f.add(finding{rejected: true, answered: true})
			}
			break
		}
		if !seen.First(err, uint8(at)) {
			return
		}
		switch e := err.(type) {
		case errno:
			err = nil
			continue
		case *Error:
			f.add(x.within(e, at))
			err = nil
			continue
		case *mark:
			inner := x.within(e, at)
			if e.class != Unknown && !inner.undone {
				f.undone = false
			}
			f.add(inner)
			return
		}
		if errtree.IsNil(err) {
			break
		}
		switch e := err.(type) {
		case *url.Error: // the client may have sent a request, and then followed a redirect
			f.undone = false
			err, at = e.Err, at|system
			continue
		case *net.OpError:
			err, at = e.Err, at|system
			continue
		}
		if inner, ok := systemError(err); ok {
			err, at = inner, at|system
			continue
		}
		if silent.has(t) {
			err = errors.Unwrap(err)
			continue
		}
		says := read(err, at)
		final, ok := err.(finalMethod)
		f.add(finding{hint: says.Hint, final: ok && final.Final()})
		one, joined := errtree.Below(err)
		x.behind(f, err, one, joined, at, seen)
		if slices.ContainsFunc(joined, func(err error) bool { return err != nil }) {
			for _, err := range joined {
				if err != nil {
					seen.Branch()
					x.walk(f, err, at, seen)
				}
			}
			return
		}
		err = one
	}
	f.undone = false
}

// add takes what was found in another error, but for undone.
func (f *finding) add(more finding) {
	f.final = f.final || more.final
	switch {
	case f.mark != nil:
		return
	case more.mark != nil:
		more.undone, more.final = f.undone, f.final
		*f = more
		return
	}
	if !f.run {
		f.run, f.refused = more.run, more.refused
	}
	f.rejected, f.answered = f.rejected || more.rejected, f.answered || more.answered
	f.hint = cmp.Or(f.hint, more.hint)
}

// behind adds what only the methods As and Is of err show. A mark counts only if there is
// no *Error, since the mark may be inside it.
func (x *examiner) behind(f *finding, err, one error, joined []error, at place, seen *errtree.Seen) {
	m := x.of(err, one, joined)
	if m.hidden != nil {
		seen.Branch()
		x.walk(f, m.hidden, at, seen)
	}
	if at&behind != 0 {
		return
	}
	if x.mayAsk(m, m.as != nil) {
		if inner, ok := errtree.As[*Error](err); ok {
			f.add(x.within(inner, at|behind))
			return
		}
		if inner, ok := errtree.As[*mark](err); ok {
			f.add(x.within(inner, at|behind))
			return
		}
		if asks, ok := errtree.As[asksWait](err); ok {
			f.add(finding{hint: askedWait(asks)})
		}
	}
	if x.mayAsk(m, m.is != nil) && m.is.Is(ErrRejected) {
		f.add(finding{rejected: true})
	}
}

// within returns what a *mark or a *Error says.
func (x *examiner) within(err error, at place) (f finding) {
	key := spot{errtree.IDOf(err), at}
	if x.inner++; x.inner > few {
		if f, ok := x.results[key]; ok {
			return f
		}
		if x.results == nil {
			x.results = map[spot]finding{}
		}
		defer func() { x.results[key] = f }()
	}
	switch e := err.(type) {
	case *mark:
		return x.ofMark(e, at)
	case *Error:
		return x.ofRun(e, at)
	}
	return f
}

// ofMark returns what a mark says. Undone leaves all else to the error that it marks. The
// wait in that error also counts if the server refused: the mark only says that this run
// must not wait for it.
func (x *examiner) ofMark(m *mark, at place) finding {
	inner := x.examine(m.err, at)
	switch {
	case m.class == Unknown:
		return inner
	case !m.refused:
		inner.hint = m.hint
	}
	return finding{mark: m, hint: inner.hint, undone: inner.undone, answered: inner.answered, final: inner.final}
}

// ofRun returns what the error of an inner run says. Only the wait in its last error, or in a
// guard's after that, counts: marks and ErrRejected were for the inner run.
func (x *examiner) ofRun(e *Error, at place) finding {
	if e == nil {
		return finding{}
	}
	x.passing++
	last := x.examine(e.Last(), at)
	f := finding{run: true, refused: e.Reason == ReasonRefused, hint: cmp.Or(e.hint, last.hint), final: last.final}
	if e.Reason == ReasonGuard {
		f.hint = cmp.Or(x.examine(e.Cause, at).hint, f.hint)
	}
	switch e.Reason {
	case ReasonPermanent, ReasonRefused, ReasonNotIdempotent:
		f.final = true
	case ReasonMaxAttempts, ReasonMaxElapsed, ReasonDeadline, ReasonBudget, ReasonGuard:
		f.final = f.final || e.Attempts > 1 && !last.answered
	case ReasonCanceled, ReasonRetryAfter:
		f.final = false
	}
	return f
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

// Methods that may hide parts of a tree.
type (
	asMethod = interface{ As(target any) bool }
	isMethod = interface{ Is(target error) bool }
)

// asking counts what methods As and Is show in a walk, and what it would cost to ask
// those that are to search it.
type asking struct {
	shown   errtree.Hidden
	visits  int // errors
	passing int // errors that make a search longer: runs, and those whose methods search what they wrap, too
}

// shows is what the methods of one error may add to what it wraps.
type shows struct {
	hidden error    // what As shows and Unwrap does not
	as     asMethod // to be asked for types, if not nil
	is     isMethod // to be asked, if not nil
	before int      // asking.passing, before hidden
}

// An error that hides others is asked about them only in a small tree. Of the errors that
// make a search longer each may double its cost.
const (
	mostVisits  = 64
	mostPassing = 3
)

// of returns what the methods of err may add to what Below returns for it.
func (a *asking) of(err, one error, joined []error) (s shows) {
	leads := one != nil || len(joined) > 0
	var shown errtree.Shown
	if as, ok := err.(asMethod); ok {
		if s.hidden, shown = a.shown.Below(err, one, joined); leads && shown != errtree.ShowsNone {
			a.passing++
		} else {
			s.as = as
		}
	}
	if _, ok := err.(isMethod); ok {
		if s.is = errtree.Asks(err, one, joined, shown); s.is == nil {
			a.passing++
		}
	}
	s.before = a.passing
	return s
}

// mayAsk reports whether a method may be asked, if there is one. What it hides has been
// walked through.
func (a *asking) mayAsk(s shows, has bool) bool {
	return has && (s.hidden == nil || a.visits <= mostVisits && a.passing-s.before <= mostPassing)
}

// within reports whether is returns true for an error in the tree of err, outside of
// inner runs.
func within(err error, is func(error) bool) bool {
	return errtree.Walk(err, func(err error) errtree.Next {
		if is(err) {
			return errtree.Stop
		}
		if _, ok := err.(*Error); ok {
			return errtree.Past
		}
		return errtree.Into
	})
}
