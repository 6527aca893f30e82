package retrybatch

import (
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/engine"
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

	// Err says why. Its Reason, Attempts and Cause are the item's: an item that failed
	// permanently has the number of that call, and no Cause. Errs holds only the item's
	// last error, without outermost marks, and is empty if no call was made. Name,
	// Elapsed and Waited are the run's.
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
		if err := f.Err.Last(); err != nil {
			s += fmt.Sprintf(": item %d: %v", f.Index, err)
		} else if f.Err != nil && f.Err.Cause != nil {
			s += fmt.Sprintf(": item %d: %v", f.Index, f.Err.Cause)
		}
	}
	return s
}

// reasons counts the failed items by reason, in the order of the constants.
func (e *Error) reasons() string {
	var counts [256]int
	for _, f := range e.Failed {
		if f.Err != nil {
			counts[f.Err.Reason]++
		}
	}
	var texts []string
	for reason, n := range counts {
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%d %v", n, retry.Reason(reason)))
		}
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

// unfinished is the error, for the run and its hooks, of a call that left items
// undone.
type unfinished struct {
	failed, items int
	shown         item
	class         retry.Class
	hint          time.Duration
	proven        bool // each open item may be sent again under Policy.NonIdempotent
}

func (u *unfinished) Error() string {
	return fmt.Sprintf("%d of %s failed: item %d: %v", u.failed, count(u.items, "item"), u.shown.index, u.shown.err)
}

func (u *unfinished) RetryAfter() time.Duration { return u.hint }

// TurnedAway tells the run that no open item was processed, even if the hint is 0.
func (u *unfinished) TurnedAway() engine.Proof { return engine.Proof(u.proven) }

// ErrorType returns the error.type of telemetry.
func (u *unfinished) ErrorType() string { return "retrybatch.partial" }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
