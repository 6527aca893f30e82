package retrybatch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

// Error is what [Do] and [Run] return unless all items are done. It wraps the run's
// error and each failed item's.
type Error struct {
	Items  int          // how many were given to Do
	Failed []Failure    // in the order of the items, never empty
	Err    *retry.Error // of the run: why it ended, after how many calls
}

// Failure is the outcome of an item that is not done.
type Failure struct {
	Index int // in the items given to Do

	// Err says why. All but its Name, Elapsed and Waited, which are the run's, is about the
	// item: one that failed permanently has the number of that call, and no Cause. Undone is
	// true if no call did anything to the item. Errs holds only the item's last error, without
	// outermost marks, and is empty if no call was made.
	Err *retry.Error
}

// Error returns one line: how many items failed, after how many calls and for which
// reasons, and the first failed item's last error.
func (e *Error) Error() string {
	if e == nil {
		return "retrybatch: nil *Error" // a nil *Error that was converted to an error
	}
	name, attempts := "retrybatch", 0
	if e.Err != nil {
		attempts = e.Err.Attempts
		if e.Err.Name != "" {
			name = e.Err.Name
		}
	}
	s := fmt.Sprintf("%s: %d of %s failed after %s", name, len(e.Failed), count(e.Items, "item"), count(attempts, "attempt"))
	if reasons := e.reasons(); reasons != "" {
		s += " (" + reasons + ")"
	}
	for _, f := range e.Failed[:min(1, len(e.Failed))] {
		if f.Err != nil && (len(f.Err.Errs) > 0 || f.Err.Cause != nil) {
			s += fmt.Sprintf(": item %d: %v", f.Index, f.Err.Last())
		}
	}
	return s
}

// reasons counts the failed items by reason, in the order of the constants. It names
// the reasons of inner runs as the text of a [retry.Error] does.
func (e *Error) reasons() string {
	type why struct {
		reason retry.Reason
		text   string
	}
	counts := map[why]int{}
	for _, f := range e.Failed {
		if f.Err != nil {
			counts[why{f.Err.Reason, errtree.Reason(f.Err)}]++
		}
	}
	whys := slices.SortedFunc(maps.Keys(counts), func(a, b why) int {
		return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.text, b.text))
	})
	var texts []string
	for _, w := range whys {
		texts = append(texts, fmt.Sprintf("%d %s", counts[w], w.text))
	}
	return strings.Join(texts, ", ")
}

// Unwrap returns a new slice of Err and each item's Err: [errors.AsType] for
// *[retry.Error] finds the run's.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	errs := make([]error, 0, 1+len(e.Failed))
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, f := range e.Failed {
		if f.Err != nil {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// Partial returns the error that send returns if only some items failed: errs has
// their errors by position in the slice that send got. All other items are done. An
// item with a nil error counts as done. Partial returns nil if errs holds no error. It
// keeps errs, so do not change errs afterwards.
//
// [errors.Is] and [errors.As] do not look into a Partial: one item's error or mark
// says nothing about another's.
func Partial(errs map[int]error) error {
	p := &partial{errs: errs}
	for i, err := range errs {
		if err != nil {
			if p.failed == 0 || i < p.first {
				p.first = i
			}
			p.failed++
		}
	}
	if p.failed == 0 {
		return nil
	}
	return p
}

type partial struct {
	errs          map[int]error
	failed, first int
}

func (p *partial) Error() string {
	return fmt.Sprintf("%s failed: item %d: %v", count(p.failed, "item"), p.first, p.errs[p.first])
}

// outside returns the lowest position of an error that a call of n items does not
// have.
func (p *partial) outside(n int) (position int, found bool) {
	for i, err := range p.errs {
		if err != nil && (i < 0 || i >= n) && (!found || i < position) {
			position, found = i, true
		}
	}
	return position, found
}

// partials are the answers to one call: one, or those of a hedge, of which an item is
// done if it is done by one of them. None of them says that all items are done.
type partials []*partial

// with adds the Partial that err is or wraps, or those that it joins, and reports
// whether err is no more than that. A Partial that is joined with another error says
// nothing about that error's items, and an inner run's Partial has positions in another
// slice.
func (ps partials) with(err error) (all partials, ok bool) {
	if errtree.IsNil(err) {
		return nil, false
	}
	switch e := err.(type) {
	case *partial:
		return append(ps, e), true
	case *retry.Error:
		return nil, false
	}
	one, joined := errtree.Below(err)
	if joined == nil {
		return ps.with(one)
	}
	for _, err := range joined {
		if err == nil {
			continue
		}
		if ps, ok = ps.with(err); !ok {
			return nil, false
		}
	}
	return ps, ok
}

// at returns the error of the item at a position of the call, nil if it is done.
func (ps partials) at(position int) error {
	if len(ps) == 1 {
		return ps[0].errs[position]
	}
	var errs []error
	for _, p := range ps {
		err := p.errs[position]
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// atMost returns how many items may have failed at most.
func (ps partials) atMost() int {
	if len(ps) == 0 {
		return 0
	}
	return ps[0].failed
}

// unfinished is the error, for the run and its hooks, of a call that left items
// undone.
type unfinished struct {
	failed, items int
	shown         item
}

func (u *unfinished) Error() string {
	return fmt.Sprintf("%d of %s failed: item %d: %v", u.failed, count(u.items, "item"), u.shown.index, u.shown.Err)
}

// ErrorType returns the error.type of telemetry.
func (u *unfinished) ErrorType() string { return "retrybatch.partial" }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
