package retry

import (
	"cmp"
	"reflect"
	"time"
)

// Verdict is what one error means to a run, whatever else has happened in the run.
// [Policy.Judge] returns it. Code that makes attempts for others, and knows more than
// the error says, gives its own to [Attempts.Judged] or [Loop.Judged]. The zero Verdict
// is that of a success.
type Verdict struct {
	// Err is the error, without marks on top. Nil is a success, and all other fields are
	// zero then.
	Err error

	// Class is what Err means. Unknown, and a number that is no Class, count as Transient.
	Class Class

	// Hint is how long a server asked to wait, 0 if it did not. It may exceed
	// Policy.MaxRetryAfter.
	Hint time.Duration

	// End is why no retry may follow, whatever else has happened in the run. With
	// ReasonNone the policy decides by the other fields. Judge sets End by these fields:
	// so who changes one of them sets End to ReasonNone, and the run decides anew.
	End Reason

	// Undone says that the attempt did nothing, or that all it did was undone. Without it
	// Policy.NonIdempotent forbids a retry.
	Undone bool

	// Partial says that Undone is true only of what the next attempt would do again: the
	// rest is done. So a run around this one must not start over. See Error.Undone.
	Partial bool

	// Answered says that the dependency has answered. If not IsAnswer, the answer is not
	// yet the one wanted, as with [ErrRejected]: a retry is no extra load, and takes
	// nothing from Policy.Budget.
	Answered bool

	// Marked says that a mark has decided the class, and no classifier.
	Marked bool
}

// Judge returns what err means to a run with this policy. The class comes from a mark
// of [Stop], [Answer], [Refuse] or [After], from Classify, or from [DefaultClassifier].
// It is Unknown only for a nil err. Hint is 0 for an error marked by Stop or Answer.
func (p Policy) Judge(err error) Verdict {
	if err == nil {
		return Verdict{}
	}
	return p.judge(err, false)
}

// judge says what err means to a run. lasting says that the run goes on until its op is
// healthy: then a name that is not found is Transient, since it may be found later.
func (p *Policy) judge(err error, lasting bool) Verdict {
	if reflect.TypeOf(err) != errorString || p.Classify != nil {
		return p.judgeTree(err, lasting)
	}
	// An error without a tree, as most are, needs no more.
	v := Verdict{Err: err, Class: cmp.Or(classifySentinel(err), Transient), Answered: err == ErrRejected}
	v.End = p.ends(&v)
	return v
}

//go:noinline
func (p *Policy) judgeTree(err error, lasting bool) Verdict {
	found := examine(err, scope{class: p.Classify == nil, rest: true, behind: true, fields: true, lasting: lasting})
	v := Verdict{Err: unmarked(err), Hint: found.hint, Undone: found.undone, Answered: found.answered}
	switch m := found.mark; {
	case m != nil:
		v.Class, v.Marked = m.class, true
		v.Answered = m.answered || v.Answered && m.class != Permanent
	case found.rejected:
		v.Class = Transient
	case p.Classify == nil:
		v.Class = cmp.Or(found.class, Transient)
	default:
		v.Class = p.Classify(v.Err)
		if v.Class == Unprocessed { // it vouches for that; what DefaultClassifier finds is no proof
			v.Undone = true
		}
		if v.Class == Unknown || v.Class > Unprocessed {
			v.Class = cmp.Or(classify(v.Err, lasting), Transient)
		}
	}
	refused := found.refused
	if found.mark != nil {
		refused = found.mark.refused
	}
	if v.End = p.ends(&v); v.End == ReasonPermanent && refused {
		v.End = ReasonRefused
	}
	return v
}

// ends returns why a verdict ends a run by itself, or ReasonNone.
func (p *Policy) ends(v *Verdict) Reason {
	switch {
	case v.End != ReasonNone:
		return v.End
	case v.Class == Permanent:
		return ReasonPermanent
	case p.NonIdempotent && !v.Undone:
		return ReasonNotIdempotent
	case v.Hint > p.maxRetryAfter():
		return ReasonRetryAfter
	}
	return ReasonNone
}

// IsAnswer reports whether Err is an [Answer]: it ends the run, and is no failure.
func (v Verdict) IsAnswer() bool { return v.Answered && v.End == ReasonPermanent }

// checked returns a verdict that the caller of a run gives, as the run takes it.
func (v Verdict) checked(p *Policy) Verdict {
	if v.Err == nil {
		panic("retry: a Verdict without Err")
	}
	v.Err, v.Hint = unmarked(v.Err), max(v.Hint, 0)
	if v.Class == Unknown || v.Class > Unprocessed {
		v.Class = Transient
	}
	v.End = p.ends(&v)
	return v
}
