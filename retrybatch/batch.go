package retrybatch

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Do calls send with items, then with the items that failed and may be retried, until
// none is left or p gives up. It returns a value for each item, by index: the last one
// that send returned for the item, or zero. The error is nil if all items are done,
// and an *[Error] otherwise.
//
// send returns a value for each item of the slice it got, in the same order, and nil,
// a [Partial], or the error of a call that failed as a whole. Do calls it on the
// caller's goroutine. The first slice has the elements of items, so send must not
// change them; each later slice is new. A panic or runtime.Goexit in send passes through.
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
	b := &batch[T, R]{policy: p, send: send, items: slices.Clip(items)} // so that append in send copies
	a := p.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		a.Judged(b.call(a.Context()))
	}
	if b.values == nil {
		b.values = make([]R, len(items))
	}
	if err, ok := a.Err().(*retry.Error); ok {
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

// batch is one Do. The run decides when to call and when to give up. The batch knows
// which items are open, and gives the run one verdict on each call.
type batch[T, R any] struct {
	policy retry.Policy
	send   func(context.Context, []T) ([]R, error)
	items  []T
	values []R    // by item; nil before the first ones
	calls  int    // that returned
	open   []item // neither done nor failed permanently, by index; nil: all
	failed []item // permanently, by call and index
	answer partials
	whole  bool // the latest call failed as a whole: its error is that of each open item
	acted  bool // a call that failed as a whole may have done something to each open item
}

// item is what is known of an item that failed: in its latest call, if it is open.
type item struct {
	index         int
	attempts      int32
	acted         bool // a call may have done something to it: see retry.Error.Undone
	retry.Verdict      // on its error
}

// call is an attempt of the run.
func (b *batch[T, R]) call(ctx context.Context) retry.Verdict {
	batch := b.next()
	values, err := b.send(ctx, batch)
	b.calls++
	var ok bool
	b.answer, ok = b.answer[:0].with(err)
	if b.whole = err != nil && !ok; b.whole {
		if len(values) == len(batch) {
			b.keep(values, false)
		}
		v := b.policy.Judge(err)
		b.acted = b.acted || !v.Undone
		return v
	}
	if len(values) != len(batch) {
		return b.misfit("retrybatch: send returned %s for %s", count(len(values), "value"), count(len(batch), "item"))
	}
	for _, p := range b.answer {
		if position, found := p.outside(len(batch)); found {
			return b.misfit("retrybatch: send returned an error for item %d of %d", position, len(batch))
		}
	}
	b.keep(values, err == nil)
	b.sort(len(batch), around(err))
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

// misfit is the verdict on a call whose answer does not fit its items.
func (b *batch[T, R]) misfit(format string, args ...any) retry.Verdict {
	b.whole, b.acted = true, true
	return retry.Verdict{Err: fmt.Errorf(format, args...), Class: retry.Permanent}
}

// sort divides the n items of a call: those that have no error in b.answer are done,
// the others are open or have failed permanently.
func (b *batch[T, R]) sort(n int, outer marks) {
	open := b.open[:0] // an item moves to the front, or stays
	if b.open == nil {
		open = make([]item, 0, min(n, b.answer.atMost()))
	}
	for i := range n {
		err := b.answer.at(i)
		if err == nil {
			continue
		}
		it := item{b.index(i), int32(min(b.calls, math.MaxInt32)), b.acted || b.open != nil && b.open[i].acted, outer.judge(&b.policy, err)}
		it.acted = it.acted || !it.Undone
		if b.policy.Ends(it.Verdict) == retry.ReasonNone {
			open = append(open, it)
		} else {
			b.failed = append(b.failed, it)
		}
	}
	b.open = open
}

// outcome returns the verdict on a call that was answered: all open items are to be
// sent again, and the others are done or must not be.
func (b *batch[T, R]) outcome() retry.Verdict {
	if len(b.open)+len(b.failed) == 0 {
		return retry.Verdict{}
	}
	u := &unfinished{failed: len(b.open) + len(b.failed), items: len(b.items)}
	if len(b.open) == 0 {
		shown := slices.IndexFunc(b.failed, func(it item) bool { return b.policy.Ends(it.Verdict) != retry.ReasonPermanent })
		if shown < 0 {
			shown = max(slices.IndexFunc(b.failed, func(it item) bool { return !it.Answered }), 0)
		}
		u.shown = b.failed[shown]
		v := retry.Verdict{Err: u, Class: u.shown.Class, Hint: u.shown.Hint, Now: u.shown.Now, Answered: u.shown.Answered, Marked: u.shown.Marked}
		if ends := b.policy.Ends(u.shown.Verdict); ends != retry.ReasonPermanent {
			v.End = ends
		}
		return v
	}
	u.shown = b.open[0]
	v := retry.Verdict{Err: u, Now: true, Undone: true, Answered: true, Partial: len(b.open) < len(b.items)}
	for _, it := range b.open {
		if rank(it.Class) > rank(v.Class) {
			v.Class = it.Class
		}
		v.Hint, v.Now = max(v.Hint, it.Hint), v.Now && it.Now
		v.Undone, v.Answered = v.Undone && it.Undone, v.Answered && it.Answered
	}
	return v
}

// rank orders the classes of a call's open items: the highest is the call's. One
// Throttled item makes the call Throttled. It is Unprocessed only if all items are.
// Unknown, which no item has, is below all.
func rank(c retry.Class) int {
	return slices.Index([]retry.Class{retry.Unprocessed, retry.Transient, retry.TimedOut, retry.Throttled}, c)
}

// failure returns the error of Do for that of its run.
func (b *batch[T, R]) failure(run *retry.Error) *Error {
	n := len(b.open)
	if b.open == nil {
		n = len(b.items)
	}
	e := &Error{Items: len(b.items), Err: run, Failed: make([]Failure, 0, len(b.failed)+n)}
	for _, it := range b.failed {
		reason := b.policy.Ends(it.Verdict)
		marked := it.Marked && (reason == retry.ReasonPermanent || reason == retry.ReasonRefused)
		e.add(it.index, it.Err, retry.Error{Reason: reason, Attempts: int(it.attempts), Answered: it.IsAnswer(), Marked: marked, Undone: !it.acted})
	}
	for i := range n {
		var last error
		if len(run.Errs) > 0 {
			last = run.Last()
		}
		acted := b.acted
		if b.open != nil {
			acted = acted || b.open[i].acted
			if !b.whole {
				last = b.open[i].Err
			}
		}
		e.add(b.index(i), last, retry.Error{Reason: run.Reason, Attempts: run.Attempts, Cause: run.Cause, Answered: run.Answered,
			InWait: run.InWait, Marked: run.Marked, Undone: !acted})
	}
	slices.SortFunc(e.Failed, func(x, y Failure) int { return cmp.Compare(x.Index, y.Index) })
	return e
}

// add adds the failure of an item with its last error.
func (e *Error) add(index int, last error, failed retry.Error) {
	failed.Name, failed.Elapsed, failed.Waited = e.Err.Name, e.Err.Elapsed, e.Err.Waited
	if last != nil {
		failed.Errs = []error{last}
	}
	e.Failed = append(e.Failed, Failure{index, &failed})
}

// marks is what the marks and methods around a Partial mean for each of its items.
type marks struct {
	stop   func(error) error // Stop, Answer or Refuse, nil for none
	after  bool
	hint   time.Duration
	now    bool // beside a hint of 0
	undone bool
}

// around returns what is around the Partials in err.
func around(err error) marks {
	v := unopinionated.Judge(err)
	m := marks{after: v.Marked || v.Hint > 0 || v.Now, hint: v.Hint, now: v.Now, undone: v.Undone}
	switch {
	case v.Refused:
		m.stop = retry.Refuse
	case v.IsAnswer():
		m.stop = retry.Answer
	case v.Class == retry.Permanent:
		m.stop = retry.Stop
	}
	return m
}

// unopinionated is a policy that judges errors only by marks and hints.
var unopinionated = retry.Policy{Classify: func(error) retry.Class { return retry.Transient }}

// judge returns what err means for an item inside these marks.
func (m marks) judge(p *retry.Policy, err error) retry.Verdict {
	v := p.Judge(err)
	if v.Class == retry.Permanent || m.stop == nil && !m.after && !m.undone {
		return v
	}
	if m.undone || v.Undone { // as Policy.Classify says, which is not called for a mark
		err = retry.Undone(err)
	}
	switch {
	case m.stop != nil:
		err = m.stop(err)
	case m.after:
		err = retry.After(err, max(v.Hint, m.hint))
		now := v.Now || m.now
		v = p.Judge(err)
		v.Now = now && v.Hint == 0
		return v
	}
	return p.Judge(err)
}
