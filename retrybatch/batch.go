package retrybatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/engine"
)

// Do calls send with items, then with the items that failed and may be retried, until
// none is left or p gives up. It returns a value for each item, by index: the last one
// that send returned for the item, or zero. The error is nil if all items are done,
// and an *[Error] otherwise.
//
// send returns a value for each item of the slice it got, in the same order, and nil,
// a [Partial], or the error of a call that failed as a whole. Do calls it on the
// caller's goroutine. The first slice is items itself, so send must not change its
// elements; each later slice is new. A panic or runtime.Goexit in send passes through.
//
// Without items Do calls nothing and returns nil, nil. It panics if ctx or send is
// nil.
func Do[T, R any](ctx context.Context, p retry.Policy, items []T, send func(context.Context, []T) ([]R, error)) ([]R, error) {
	if send == nil {
		panic("retrybatch: nil send")
	}
	if ctx == nil {
		panic("retrybatch: nil context")
	}
	if len(items) == 0 {
		return nil, nil
	}
	b := &batch[T, R]{policy: p, send: send, items: items}
	p.Classify = b.classify
	err := retry.Run(ctx, p, b.call)
	if b.values == nil {
		b.values = make([]R, len(items))
	}
	if err, ok := errors.AsType[*retry.Error](err); ok {
		return b.values, b.failure(err)
	}
	return b.values, nil
}

// Run is [Do] for a send without values.
func Run[T any](ctx context.Context, p retry.Policy, items []T, send func(context.Context, []T) error) error {
	if send == nil {
		panic("retrybatch: nil send")
	}
	_, err := Do(ctx, p, items, func(ctx context.Context, open []T) ([]struct{}, error) {
		return make([]struct{}, len(open)), send(ctx, open) // which takes no memory
	})
	return err
}

// batch is one Do. The run of [retry.Run] decides when to call and when to give up.
// The batch knows which items are open, and makes a call's answer the one error that
// the run judges.
type batch[T, R any] struct {
	policy retry.Policy // the caller's
	send   func(context.Context, []T) ([]R, error)
	items  []T
	values []R         // by item; nil before the first ones
	calls  int         // that returned
	open   []item      // neither done nor failed permanently, by index; nil: all
	failed []item      // permanently, by call and index
	left   *unfinished // the error of the latest call that left items undone
	whole  bool        // the latest call failed as a whole: its error is that of each open item
}

// item is what is known of an item that failed: in its latest call, if it is open.
type item struct {
	index, attempts int
	err             error // without marks on top
	class           retry.Class
	hint            time.Duration
	reason          retry.Reason // why it failed permanently, ReasonNone while it is open
}

// call is an attempt of the run.
func (b *batch[T, R]) call(ctx context.Context) error {
	batch := b.next()
	values, err := b.send(ctx, batch)
	b.calls++
	p := partialIn(err)
	b.whole = err != nil && p == nil
	switch {
	case b.whole:
		if len(values) == len(batch) {
			b.keep(values, false)
		}
		return err
	case len(values) != len(batch):
		return b.misfit("retrybatch: send returned %s for %s", count(len(values), "value"), count(len(batch), "item"))
	case p == nil:
		p = &partial{}
	}
	if position, found := p.outside(len(batch)); found {
		return b.misfit("retrybatch: send returned an error for item %d of %d", position, len(batch))
	}
	b.keep(values, p.failed == 0)
	b.sort(len(batch), p, around(err))
	return b.outcome()
}

// next returns the items of the next call.
func (b *batch[T, R]) next() []T {
	if b.open == nil {
		return b.items
	}
	batch := make([]T, len(b.open))
	for i, it := range b.open {
		batch[i] = b.items[it.index]
	}
	return batch
}

// index returns the index in items of position i of the latest call.
func (b *batch[T, R]) index(i int) int {
	if b.open == nil {
		return i
	}
	return b.open[i].index
}

// keep takes the values of a call. It copies them unless the call was the last: send
// may use its slice again.
func (b *batch[T, R]) keep(values []R, last bool) {
	switch {
	case b.open == nil && last:
		b.values = values
		return
	case b.values == nil:
		b.values = make([]R, len(b.items))
	}
	for i, v := range values {
		b.values[b.index(i)] = v
	}
}

// misfit is the error of a call whose answer does not fit its items.
func (b *batch[T, R]) misfit(format string, args ...any) error {
	b.whole = true
	return retry.Stop(fmt.Errorf(format, args...))
}

// sort divides the n items of a call: those that p does not name are done, the others
// are open or have failed permanently.
func (b *batch[T, R]) sort(n int, p *partial, outer marks) {
	open := b.open[:0] // an item moves to the front, or stays
	if b.open == nil {
		open = make([]item, 0, min(n, p.failed))
	}
	for i := range n {
		err := p.errs[i]
		if err == nil {
			continue
		}
		it := b.judge(err, outer)
		it.index = b.index(i)
		if it.reason == retry.ReasonNone {
			open = append(open, it)
		} else {
			b.failed = append(b.failed, it)
		}
	}
	b.open = open
}

// judge returns what err means for an item of the latest call.
func (b *batch[T, R]) judge(err error, outer marks) item {
	v := engine.Judge(&b.policy, err)
	switch {
	case retry.Class(v.Class) == retry.Permanent:
	case outer.stop != nil:
		v = engine.Judge(&b.policy, outer.stop(err))
	case outer.after:
		v = engine.Judge(&b.policy, retry.After(err, max(v.Hint, outer.hint)))
	}
	return item{
		attempts: b.calls, err: v.Err,
		class: retry.Class(v.Class), hint: v.Hint, reason: retry.Reason(v.End),
	}
}

// outcome returns the error of a call that was answered, nil if all items are done.
func (b *batch[T, R]) outcome() error {
	if len(b.open)+len(b.failed) == 0 {
		return nil
	}
	u := &unfinished{failed: len(b.open) + len(b.failed), items: len(b.items)}
	b.left = u
	if len(b.open) == 0 {
		other := slices.IndexFunc(b.failed, func(it item) bool { return it.reason != retry.ReasonPermanent })
		u.shown = b.failed[max(other, 0)]
		u.class, u.hint = u.shown.class, u.shown.hint
		if u.shown.reason == retry.ReasonRefused {
			return retry.Refuse(u)
		}
		return u
	}
	u.shown = b.open[0]
	u.class = slices.MaxFunc(b.open, func(x, y item) int { return cmp.Compare(rank(x.class), rank(y.class)) }).class
	for _, it := range b.open {
		u.hint = max(u.hint, it.hint)
	}
	u.proven = b.policy.NonIdempotent // else its items were not open
	return u
}

// rank orders the classes of a call's open items: the highest is the call's. One
// Throttled item makes the call Throttled. It is Unprocessed only if all items are.
func rank(c retry.Class) int {
	return slices.Index([]retry.Class{retry.Unprocessed, retry.Transient, retry.TimedOut, retry.Throttled}, c)
}

// classify is the run's Policy.Classify.
func (b *batch[T, R]) classify(err error) retry.Class {
	if u, ok := err.(*unfinished); ok && u == b.left {
		return u.class
	}
	if b.policy.Classify == nil {
		return retry.Unknown
	}
	return b.policy.Classify(err)
}

// failure returns the error of Do for that of its run.
func (b *batch[T, R]) failure(run *retry.Error) *Error {
	if b.left != nil {
		b.left.proven = false // for an outer run: items that are done must not be sent again
	}
	n := len(b.open)
	if b.open == nil {
		n = len(b.items)
	}
	e := &Error{Items: len(b.items), Err: run, Failed: make([]Failure, 0, len(b.failed)+n)}
	for _, it := range b.failed {
		e.add(it, nil)
	}
	for i := range n {
		it := item{index: b.index(i), attempts: run.Attempts, reason: run.Reason, err: run.Last()}
		if !b.whole && b.open != nil {
			it.err = b.open[i].err
		}
		e.add(it, run.Cause)
	}
	slices.SortFunc(e.Failed, func(x, y Failure) int { return cmp.Compare(x.Index, y.Index) })
	return e
}

func (e *Error) add(it item, cause error) {
	err := &retry.Error{
		Name: e.Err.Name, Reason: it.reason, Attempts: it.attempts, Elapsed: e.Err.Elapsed, Waited: e.Err.Waited, Cause: cause,
	}
	if it.err != nil {
		err.Errs = []error{it.err}
	}
	e.Failed = append(e.Failed, Failure{it.index, err})
}

// partialIn returns the Partial that err is, or that it alone wraps, or nil. A Partial
// that is joined with another error says nothing about that error's items, and an
// inner run's Partial has positions in another slice.
func partialIn(err error) *partial {
	for !engine.IsNil(err) {
		switch e := err.(type) {
		case *partial:
			return e
		case *retry.Error:
			return nil
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			errs := e.Unwrap()
			if len(errs) != 1 { // errors.Join(err, nil) has one
				return nil
			}
			err = errs[0]
		default:
			return nil
		}
	}
	return nil
}

// marks is what the marks and methods around a Partial mean for each of its items.
type marks struct {
	stop  func(error) error // Stop or Refuse, nil for neither
	after bool
	hint  time.Duration
}

// around returns what is around the Partial in err.
func around(err error) marks {
	if err == nil {
		return marks{}
	}
	v := engine.Judge(&unopinionated, err)
	switch retry.Reason(v.End) {
	case retry.ReasonPermanent:
		return marks{stop: retry.Stop}
	case retry.ReasonRefused:
		return marks{stop: retry.Refuse}
	}
	return marks{after: v.Marked || v.Hint > 0, hint: v.Hint}
}

// unopinionated is a policy that judges errors only by marks and hints.
var unopinionated = retry.Policy{Classify: func(error) retry.Class { return retry.Transient }}
