package hedge

import (
	"context"

	"github.com/goretry/retry"
)

// attempt is one attempt of a race, and the context it gets. The race's mutex guards next, which
// makes the list, and whoever holds it may call cancel. The rest is of the goroutine that makes the
// attempt, until that has ended.
type attempt[T any] struct {
	context.Context
	cancel context.CancelCauseFunc
	next   *attempt[T]
	passes passes
	value  T
	err    error
	number int32
	stage  stage
	owned  bool // op has returned value and err, and the race has to hand them over or to discard them
}

// stage says how far an attempt has come in its race.
//
//	wanted ── race.start ──▶ running ── race.count ──▶ counted, or won
type stage uint8

const (
	wanted  stage = iota // it has a context, and no place in the race yet: guards or a budget may refuse it
	running              // its end is owed to hedging.Call, also if something panics
	counted              // the race has counted its end, and does not return it
	won                  // the race has counted its end, and returns it unless something panics
)

func (a *attempt[T]) attemptNumber() int { return int(a.number) }

func (a *attempt[T]) Value(key any) any {
	if _, ok := key.(numberKey); ok {
		return a
	}
	return a.Context.Value(key)
}

// judge returns what the end of a's op means to the race, and what it means to the guards. If the
// caller or a faster copy has ended the context, an error that is no Answer means nothing about the
// copy: Classify does not see it, and its class counts for nobody. A server's hint in it still
// keeps hedges off, but is none for the guards, to whom the copy was canceled.
func (a *attempt[T]) judge(classify retry.Classifier) (v, told retry.Verdict) {
	expired := context.Cause(a) == retry.ErrAttemptTimeout
	cutShort := a.err != nil && a.Err() != nil && !expired
	if cutShort {
		classify = nil
	}
	v = retry.Policy{Classify: classify}.Judge(a.err)
	told = v
	if e, ok := v.Err.(interface{ Verdict() retry.Verdict }); ok {
		told = e.Verdict()
	}
	if cutShort && !v.IsAnswer() {
		v, told = retry.Verdict{Err: v.Err, Hint: v.Hint}, retry.Verdict{Err: told.Err}
	}
	return v, told
}
