package pacing

import (
	"container/list"
	"time"
)

const (
	urgent  = 4 * time.Second // patience of the most urgent; of the next 16 times, and 256 times that
	classes = 4               // of urgency
	fifth   = 5               // one turn in so many goes to who came first
)

// Turn is an attempt that a Pacer has let start, or that waits.
type Turn[T any] struct {
	Owner T             // for the caller
	Cost  float64       // in units of a quota that was told by Know; one that is not positive, or not finite, counts as 1
	Retry bool          // goes before first attempts that are as urgent
	Late  time.Duration // for which t would have to wait, if it has left the queue since that is too long

	size float64 // units that it takes

	// While it waits:
	line     int       // of the queue
	number   uint64    // in the order of arrival
	deadline time.Time // when its patience ends; zero: never
	place    *list.Element

	// Once it has started:
	paid bool   // the start has made debt, or used up slots
	term uint64 // of the Pacer then
}

// Waits reports whether t is in the queue. Only who owns t may call it.
func (t *Turn[T]) Waits() bool { return t.place != nil }

// left returns for how long t waits yet: Never if its patience has no end.
func (t *Turn[T]) left(now time.Time) time.Duration {
	if t.deadline.IsZero() {
		return Never
	}
	return max(t.deadline.Sub(now), 0)
}

// queue is the turns that wait. There is a line for each class of urgency and, before it, one for the
// retries of that class. The zero value is empty.
type queue[T any] struct {
	lines  [2 * classes]line[T]
	came   uint64 // turns that have entered
	served uint64 // turns that have started from it
}

// line is turns in the order of arrival.
type line[T any] struct {
	turns list.List
	size  float64 // the sum of theirs
}

// lineOf returns the line of an attempt: the less patience, the more urgent it is.
func lineOf(patience time.Duration, retry bool) (i int) {
	for limit := urgent; i < 2*(classes-1) && patience > limit; limit *= 16 {
		i += 2
	}
	if !retry {
		i++
	}
	return i
}

func (q *queue[T]) len() (n int) {
	for i := range q.lines {
		n += q.lines[i].turns.Len()
	}
	return n
}

// size returns the sum of the sizes of all turns.
func (q *queue[T]) size() float64 { return q.upTo(len(q.lines)) }

// upTo returns the size of so many first lines.
func (q *queue[T]) upTo(lines int) (n float64) {
	for i := range lines {
		n += q.lines[i].size
	}
	return n
}

// ahead returns the size of the turns that start before one that comes now, to the end of a line.
func (q *queue[T]) ahead(line int) float64 {
	n := q.upTo(line + 1)
	return n + min(n/(fifth-1), q.size()-n) // those that are less urgent have come before
}

// first returns the turn that is to start next, or nil: the most urgent one, but every fifth time the
// one that came first, so that nobody waits for ever.
func (q *queue[T]) first() (first *Turn[T]) {
	for i := range q.lines {
		e := q.lines[i].turns.Front()
		if e == nil {
			continue
		}
		t := e.Value.(*Turn[T])
		if q.served%fifth != fifth-1 {
			return t
		}
		if first == nil || t.number < first.number {
			first = t
		}
	}
	return first
}

// patience returns for how long the most patient turn waits yet.
func (q *queue[T]) patience(now time.Time) (longest time.Duration) {
	for i := range q.lines {
		for e := q.lines[i].turns.Front(); e != nil; e = e.Next() {
			longest = max(longest, e.Value.(*Turn[T]).left(now))
		}
	}
	return longest
}

// shift moves all times, since the clock was set back.
func (q *queue[T]) shift(by time.Duration) {
	for i := range q.lines {
		for e := q.lines[i].turns.Front(); e != nil; e = e.Next() {
			if t := e.Value.(*Turn[T]); !t.deadline.IsZero() {
				t.deadline = t.deadline.Add(by)
			}
		}
	}
}

func (q *queue[T]) push(t *Turn[T]) {
	q.came++
	t.number = q.came
	l := &q.lines[t.line]
	l.size += t.size
	t.place = l.turns.PushBack(t)
}

func (q *queue[T]) remove(t *Turn[T]) {
	l := &q.lines[t.line]
	l.turns.Remove(t.place)
	t.place = nil
	l.size -= t.size
	if l.turns.Len() == 0 {
		l.size = 0 // no rounding errors stay
	}
}

// removeLate removes the turns that do not wait for so long, and returns them, with Late set.
func (q *queue[T]) removeLate(now time.Time, wait time.Duration) (late []*Turn[T]) {
	for i := range q.lines {
		for e := q.lines[i].turns.Front(); e != nil; {
			t := e.Value.(*Turn[T])
			e = e.Next() // t may leave
			if t.left(now) < wait {
				q.remove(t)
				t.Late = wait
				late = append(late, t)
			}
		}
	}
	return late
}
