package retry

// May call: policy.go, classifier.go, class.go, finding.go, classifier_tables.go, errors.go.

import (
	"cmp"
	"reflect"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// Verdict is what one error means to a run: facts, from which [Policy.Ends] concludes whether a
// retry may follow. [Policy.Judge] returns it, without Once and End. Code that makes attempts for
// others, and knows more than the error says, gives its own to [Attempts.Judged] or [Loop.Judged].
// The zero Verdict is that of a success.
//
// If v is Answered, but not IsAnswer, the answer is not yet the one wanted, as with [ErrRejected]:
// a retry takes nothing from Policy.Budget, and Throttled counts as Transient. After a Partial one
// a run around this one must not start over: see Error.Undone.
type Verdict struct {
	Err      error         // without marks on top; nil is a success, and all other fields are zero then
	Class    Class         // what Err means; Unknown, and a number that is no Class, count as Transient
	Hint     time.Duration // how long a server asked to wait, 0 if it did not; may exceed MaxRetryAfter
	Now      bool          // a server asked for a retry at once, without backoff; ignored beside a Hint
	Refused  bool          // the server asked for no retry, as Refuse says
	Once     bool          // the call must not run twice, as with Policy.NonIdempotent
	End      Reason        // why there must be no retry, whatever else is so; ReasonNone: the policy decides
	Undone   bool          // the attempt did nothing, or undid all: else Once and NonIdempotent forbid a retry
	Partial  bool          // Undone only says so of what the next attempt would do again: the rest is done
	Answered bool          // the dependency has answered
	Marked   bool          // a mark has decided the class, and no classifier; see IsAnswer
}

// Judge returns what err means to a run with this policy, by rule 4 of the package documentation.
// The class is Unknown only for a nil err. Hint is 0 for an error marked by [Stop] or [Answer].
func (p Policy) Judge(err error) (v Verdict) {
	if err != nil {
		v.judge(p.Classify, err, false)
	}
	return v
}

// judge makes v, which is zero, the verdict on err. A nil classify has no opinion. lasting says that the run goes on until
// its op is healthy: then a name that is not found is Transient, since it may be found later.
// A Verdict that is returned has no room in registers, and would be copied.
func (v *Verdict) judge(classify Classifier, err error, lasting bool) {
	only := unwrapped(err)
	if reflect.TypeOf(only) != errorString || classify != nil {
		v.judgeTree(classify, err, lasting)
		return
	}
	// An error without a tree, as most are, needs no more.
	v.Err, v.Class, v.Answered = err, cmp.Or(classOf(factsOfSentinel(only), lasting), Transient), only == ErrRejected
}

//go:noinline
func (v *Verdict) judgeTree(classify Classifier, err error, lasting bool) {
	found := examine(err)
	asked := found.wait()
	v.Err, v.Hint, v.Now, v.Undone, v.Answered = unmarked(err), max(asked, 0), asked == hint.Now, !found.did, found.rejected == itself
	switch m := found.mark; {
	case m != nil:
		v.Class, v.Marked = m.class, true
		v.Answered = m.answered || v.Answered && m.class != Permanent
		v.calm()
	case found.rejected != absent:
		v.Class = Transient
	case classify == nil:
		v.Class = cmp.Or(classOf(judged(err, 0), lasting), Transient)
	default:
		v.Class = classify(v.Err)
		if v.Class == Unprocessed { // it vouches for that; what DefaultClassifier finds is no proof
			v.Undone = true
		}
		if v.Class = orUnknown(v.Class); v.Class == Unknown {
			v.Class = cmp.Or(classOf(judged(v.Err, 0), lasting), Transient)
		}
	}
	v.Refused = v.Class == Permanent && found.refused()
}

// Ends returns why v ends a run with p, whatever else has happened in the run, or ReasonNone.
func (p Policy) Ends(v Verdict) Reason { return p.ends(&v) }

func (p *Policy) ends(v *Verdict) Reason {
	switch {
	case v.End != ReasonNone:
		return v.End
	case v.Refused:
		return ReasonRefused
	case v.Class == Permanent:
		return ReasonPermanent
	case (p.NonIdempotent || v.Once) && v.Err != nil && !v.Undone:
		return ReasonNotIdempotent
	case v.Hint > p.maxRetryAfter():
		return ReasonRetryAfter
	}
	return ReasonNone
}

// IsAnswer reports whether Err is an [Answer], and so no failure: v is Marked, Answered and
// Permanent, and nothing has refused a retry.
func (v Verdict) IsAnswer() bool {
	return v.Marked && v.Answered && v.Class == Permanent && !v.Refused && v.End == ReasonNone
}

// checked returns a verdict that the caller of a run gives, as the run takes it.
func (v Verdict) checked() Verdict {
	if v.Err == nil {
		panic("retry: a Verdict without Err")
	}
	v.Err, v.Hint = unmarked(v.Err), max(v.Hint, 0)
	v.Class = cmp.Or(orUnknown(v.Class), Transient)
	v.Now = v.Now && v.Hint == 0
	v.calm()
	return v
}

// asked returns the hint as decisions and findings have it.
func (v *Verdict) asked() time.Duration {
	if v.Now && v.Hint <= 0 {
		return hint.Now
	}
	return v.Hint
}

// calm makes a poll whose value is not yet the one wanted Transient: whoever answers is not
// too busy, however long it asks to wait.
func (v *Verdict) calm() {
	if v.Answered && v.Class == Throttled {
		v.Class = Transient
	}
}
