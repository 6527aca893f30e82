package retrydebug

import (
	"math"
	"math/bits"
	"time"

	"github.com/goretry/retry"
)

type span struct {
	name   string
	long   string        // in a sentence
	bar    string        // how long each cell is, on the page
	cells  int           // how many
	second time.Duration // how long each is, in seconds
	from   int           // where they begin in operation.cells
}

// spans are the windows of time that the page shows, each in cells.
var spans = [...]span{
	{"10s", "ten seconds", "1s", 10, 1, 0},
	{"1m", "minute", "5s", 12, 5, 10},
	{"1h", "hour", "1m", 60, 60, 22},
}

const allCells = 10 + 12 + 60

// outcome says how a run ended.
type outcome uint8

const (
	firstTry   outcome = iota // a success, and no attempt has failed
	afterRetry                // a success, and one has
	failed                    // any reason but these two
	permanent
	canceled
	outcomes
)

func outcomeOf(reason retry.Reason, retried bool) outcome {
	switch {
	case reason == retry.ReasonPermanent:
		return permanent
	case reason == retry.ReasonCanceled:
		return canceled
	case reason != retry.ReasonNone:
		return failed
	case retried:
		return afterRetry
	}
	return firstTry
}

const (
	// buckets is how many durations of runs are distinguished. Bucket 0 is for runs below
	// shortest. Each other bucket ends at twice its start.
	buckets  = 24
	shortest = 100 * time.Microsecond

	// reasons is how many reasons are distinguished. If package retry gets more than
	// that, the rest count as the last one.
	reasons = 16
)

// counts are those of the runs that ended within some time.
type counts struct {
	attempts uint64
	ended    [outcomes]uint32
	took     [buckets]uint32
	reasons  [reasons]uint32
}

// count counts a run.
func (c *counts) count(o outcome, s *retry.Summary) {
	c.ended[o]++
	c.attempts += uint64(max(s.Attempts, 0))
	c.took[min(bits.Len64(uint64(max(s.Elapsed, 0)/shortest)), buckets-1)]++
	if s.Reason != retry.ReasonNone {
		c.reasons[min(s.Reason, reasons-1)]++
	}
}

func (c *counts) add(o *counts) {
	c.attempts += o.attempts
	for i, n := range o.ended {
		c.ended[i] += n
	}
	for i, n := range o.took {
		c.took[i] += n
	}
	for i, n := range o.reasons {
		c.reasons[i] += n
	}
}

func (c *counts) runs() (n uint64) {
	for _, ended := range c.ended {
		n += uint64(ended)
	}
	return n
}

// quantile returns how long the q-th part of the runs took at most, and 0 without
// runs. It is the geometric mean of a bucket's bounds, and so differs by a factor of
// at most √2 from any time in it.
func (c *counts) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(c.runs())))
	for i, n := range c.took {
		if uint64(n) >= rank && rank > 0 {
			return time.Duration(math.Exp2(float64(i)-0.5) * float64(shortest))
		}
		rank -= uint64(n)
	}
	return 0
}

// cells are those of all windows.
type cells struct{ ring[counts] }

// ring has a T for each cell of all windows.
type ring[T any] [allCells]struct {
	number int64 // since the Recorder's first use
	value  T
}

// at returns what cell number of a window counts; nil if that is not known.
func (r *ring[T]) at(s span, number int64) *T {
	if number < 0 {
		return nil
	}
	if c := &r[s.from+int(number%int64(s.cells))]; c.number == number {
		return &c.value
	}
	return nil
}

// begin returns what cell number of a window counts, anew if the window has come to it;
// nil if it is too old for the window.
func (r *ring[T]) begin(s span, number int64) *T {
	if c := &r[s.from+int(number%int64(s.cells))]; c.number < number {
		var zero T
		c.number, c.value = number, zero
	}
	return r.at(s, number)
}

// add adds what was counted in a second. What is too old for a window is left out.
func (cs *cells) add(second int64, c *counts) {
	for _, s := range spans {
		if at := cs.begin(s, second/int64(s.second)); at != nil {
			at.add(c)
		}
	}
}

// window returns what was counted in window i as it is at age: the sum, and the
// cells, oldest first. The cells cover the given time.
func (cs *cells) window(i int, age time.Duration) (sum counts, history []counts, covered time.Duration) {
	s := spans[i]
	width := s.second * time.Second
	newest := int64(age / width)
	history = make([]counts, s.cells)
	for j := range history {
		if c := cs.at(s, newest-int64(s.cells-1-j)); c != nil {
			history[j] = *c
			sum.add(c)
		}
	}
	return sum, history, min(age, age-time.Duration(newest-int64(s.cells-1))*width)
}
