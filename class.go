package retry

// May call: finding.go, classifier_tables.go, errors.go.

import (
	"cmp"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
	"github.com/goretry/retry/internal/neterr"
	"github.com/goretry/retry/internal/sysno"
)

// This file visits the trees of errors for what they mean. What a single error means is in
// classifier_tables.go.

// facts are a Class, and what else a queue, a database or Supervise wants to know.
type facts = clienterr.Facts

// classOf returns the class of what f says to a run. lasting says that the run begins a new
// session with each attempt: see Supervise.
func classOf(f facts, lasting bool) Class {
	if lasting && f.Is(clienterr.Renewed) {
		return Transient
	}
	return Class(f.Class())
}

// opinion is what an error says, with all that it wraps. The zero opinion is that of no
// error.
type opinion struct {
	facts     facts
	otherwise facts // if no error decides
}

// add returns what two errors say, of which the first wraps the second.
func (o opinion) add(below opinion) opinion {
	return opinion{cmp.Or(o.facts, below.facts), stronger(o.otherwise, below.otherwise)}
}

// decided returns the facts of all errors that have been visited.
func (o opinion) decided() facts { return cmp.Or(o.facts, o.otherwise) }

// judge judges the errors of one tree by the rules of DefaultClassifier, for which there
// are no marks.
type judge struct{ errtree.Fold[opinion] }

// judged returns what an error at a place in its tree means.
func judged(err error, at place) facts {
	j := judge{errtree.Fold[opinion]{Add: opinion.add}}
	j.Visit = j.visit
	return j.Of(err, at).decided()
}

func init() { clienterr.Judge = func(err error) facts { return judged(err, 0) } }

// visit returns what one error says, and where to go on if that does not decide.
func (j *judge) visit(err error, at place) (o opinion, then place, next error) {
	err = unwrapped(err)
	if e, ok := err.(*Error); ok {
		return opinion{facts: j.run(e, at)}, at, nil
	}
	switch {
	case errtree.IsNil(err):
		return opinion{}, at, nil
	case reflect.TypeOf(err) == errorString:
		return opinion{facts: factsOfSentinel(err)}, at, nil
	}
	if e, ok := err.(sysno.Number); ok {
		return opinion{facts: facts(sysno.Class(e))}, at, nil
	}
	switch neterr.Of(err) {
	case neterr.Wrapped: // the first one that was met
		return opinion{}, at, errors.Unwrap(err)
	case neterr.URL:
		return opinion{facts: j.url(err, at|system)}, at, nil
	case neterr.Op:
		return opinion{facts: j.op(err, at|system)}, at, nil
	}
	if inner := inOS(err); inner != nil { // whose own Timeout method only calls that of inner
		return opinion{}, at | system, inner
	}
	says := read(err, at)
	if f := factsOf(err, says); f != 0 {
		if Class(f.Class()) == Permanent && aboutTLS(reflect.TypeOf(err)) && within(err, early) {
			f |= clienterr.Renewed
		}
		return opinion{facts: f}, at, nil
	}
	if says.alone {
		return opinion{otherwise: otherwise(err, says)}, at, nil
	}
	n := j.Look(err)
	if f := j.shown(n, at); f != 0 {
		return opinion{facts: f}, at, nil
	}
	if says.connects && n.One != nil { // nothing was sent yet
		f := j.Of(n.One, at).decided()
		switch Class(f.Class()) {
		case Unknown, Transient, TimedOut:
			f = facts(Unprocessed)
		}
		return opinion{facts: f}, at, nil
	}
	return opinion{j.joined(n.Joined, at), otherwise(err, says)}, at, n.One
}

// otherwise returns what err means if no error decides. says is what err says.
func otherwise(err error, says saying) facts {
	switch {
	case timedOut(err):
		return facts(TimedOut)
	case says.Hint != 0 && Class(says.Guess.Class()) != Throttled:
		return facts(Transient)
	}
	return says.Guess
}

// stronger returns which of two such facts to use. A timeout says more than a wait, and than words.
func stronger(a, b facts) facts {
	if Class(b.Class()) == TimedOut {
		return b
	}
	return cmp.Or(a, b)
}

// run returns what the error of an inner run means to an outer run.
func (j *judge) run(e *Error, at place) facts {
	switch {
	case e == nil:
		return facts(Transient)
	case e.Reason == ReasonRefused:
		return facts(Permanent)
	case e.Reason == ReasonNotIdempotent:
		return facts(Permanent) | clienterr.Blames
	case e.Reason == ReasonPermanent:
		last := j.Of(e.lastAttempt(), at).decided()
		if e.Marked && !(e.Answered && last.Is(clienterr.Answered)) || Class(last.Class()) != Permanent { // a mark or the run's policy has made it so
			return facts(Permanent) | clienterr.Blames
		}
		return last
	case e.Attempts == 0 && e.Reason == ReasonGuard: // whoever comes later may come in time
		return facts(Unprocessed)
	case e.Attempts == 0: // an error that Supervise had before its pause is not this run's
		return facts(Transient)
	case e.Undone:
		return facts(Unprocessed)
	}
	last := j.Of(e.lastAttempt(), at).decided()
	switch {
	case Class(last.Class()) != Unprocessed:
		return cmp.Or(last, facts(Transient))
	case e.Attempts != len(e.Errs):
		return facts(Transient) // Errs does not hold every attempt's error
	}
	for _, err := range e.Errs[:len(e.Errs)-1] {
		if f := j.Branch(err, at).decided(); Class(f.Class()) != Unprocessed {
			return facts(Transient)
		}
	}
	return facts(Unprocessed)
}

// url judges errors of http.Client and url.Parse. They prove nothing, since the client
// may have sent the request and then followed a redirect.
func (j *judge) url(err error, at place) facts {
	if neterr.URL.Operation(err) == "parse" {
		return facts(Permanent)
	}
	return doubted(j.Of(neterr.URL.Inner(err), at).decided())
}

// op judges errors of packages net and crypto/tls.
func (j *judge) op(err error, at place) facts {
	op, inner := neterr.Op.Operation(err), neterr.Op.Inner(err)
	// crypto/tls has no exported name for the alerts that it returns: numbers of one byte.
	if v := reflect.ValueOf(inner); v.Kind() == reflect.Uint8 && strings.HasSuffix(op, " error") {
		return clienterr.Alert(v.Uint())
	}
	f := j.Of(inner, at).decided()
	switch {
	case op == "dial" && (Class(f.Class()) != Permanent || notYet(inner)):
		return facts(Unprocessed)
	case op == "read", op == "write":
		return doubted(f) // "no route to host" on an established connection proves nothing
	}
	return f
}

// notYet reports whether connect failed for a reason that may pass: the socket of a server
// that has not started does not exist, and a service without endpoints is EPERM where
// the kernel balances connections. A socket that may not be made is another thing.
func notYet(err error) bool {
	if e, ok := err.(*os.SyscallError); ok {
		if e.Syscall != "connect" {
			return false
		}
		err = e.Err
	}
	number, ok := err.(sysno.Number)
	return ok && slices.Contains(sysno.Passing, number)
}

// joined judges joined errors. The first known class counts, but Unprocessed only if
// everything that is joined is.
func (j *judge) joined(errs []error, at place) facts {
	first, proven := facts(Unknown), true
	for _, err := range errs {
		if err == nil {
			continue
		}
		f := j.Branch(err, at).decided()
		proven = proven && f == facts(Unprocessed)
		if first == 0 || first == facts(Unprocessed) && f != 0 {
			first = f
		}
	}
	if !proven {
		return doubted(first)
	}
	return first
}

// doubted returns what to use instead of f if something else may have happened too.
func doubted(f facts) facts {
	if Class(f.Class()) == Unprocessed {
		return facts(Transient)
	}
	return f
}

// shown judges what only the methods As and Is of an error show. They do not show
// everything, so they prove nothing.
func (j *judge) shown(n errtree.Node, at place) facts {
	o, ask := j.Hidden(n.Hidden, at)
	if f := o.decided(); f != 0 {
		return doubted(f)
	}
	if !ask || at&shownByAs != 0 {
		return 0
	}
	if n.As != nil {
		for _, fresh := range shownAs {
			if found := errtree.Ask(n.As, fresh()); found != nil {
				if f := j.Branch(found, at|shownByAs).decided(); f != 0 {
					return doubted(f)
				}
			}
		}
	}
	if n.Is != nil {
		for _, known := range shownIs {
			if n.Is.Is(known.err) {
				return doubted(facts(known.class))
			}
		}
	}
	return 0
}
