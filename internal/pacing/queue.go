package pacing

import (
	"container/list"
	"time"
)

const fifth = 5 // one turn in so many goes to who came first

// Turn is an attempt that a Pacer has let start, or that waits.
type Turn[T any] struct {
	Owner T             // for the caller
	Bill  *Bill         // what it costs, in units of a quota that was told by Know; nil, or a Cost that is not positive or not finite: 1
	Late  time.Duration // for which t would have to wait, if it has left the queue since that is too long

	size float64 // units that it takes
	said int     // what the Bill has said of attempts before

	// While it waits:
	ends   time.Time // when its time is over; zero: never
	latest time.Time // when it is to start at the latest, so that half of it is left
	urgent bool      // that was less than hurried from when it came
	number uint64    // in the order of arrival
	heap   int       // its place there, from 1 on; 0: it has less than half of its time
	came   *list.Element

	// Once it has started:
	ticket uint64 // of the Pacer's health; 0 without a quota
	paid   bool   // the start has made debt, or used up slots
	term   uint64 // of the Pacer then
}

// Waits reports whether t is in the queue. Only who owns t may call it.
func (t *Turn[T]) Waits() bool { return t.came != nil }

// left returns how long t may wait yet, so that half of its time is left: Never if it has no end.
func (t *Turn[T]) left(now time.Time) time.Duration {
	if t.ends.IsZero() {
		return Never
	}
	return max(t.latest.Sub(now), 0)
}

// before reports whether t's time is over before u's. Of those that have as much, who came first goes first.
func (t *Turn[T]) before(u *Turn[T]) bool {
	switch {
	case t.ends.Equal(u.ends):
		return t.number < u.number
	case t.ends.IsZero() || u.ends.IsZero():
		return u.ends.IsZero()
	}
	return t.ends.Before(u.ends)
}

// queue is the turns that wait: the earliest deadline goes first. Those of whose time less than half is left go last: to
// others it still makes a difference. The zero value is empty.
type queue[T any] struct {
	heap   []*Turn[T] // those that have more than half of their time, ordered by before
	came   list.List  // all, in the order of arrival
	pushed uint64     // turns that have come
	size   float64    // the sum of the sizes of those that wait
	served uint64     // turns that have started from it
}

// first returns the turn that is to start next, or nil: that with the earliest deadline, but every fifth time, unless
// it is urgent, the one that came first, so that nobody waits for ever.
func (q *queue[T]) first(urgent bool) *Turn[T] {
	if q.served%fifth == fifth-1 && !urgent {
		return q.oldest()
	}
	return q.head()
}

// head returns the turn with the earliest deadline, or nil.
func (q *queue[T]) head() *Turn[T] {
	if len(q.heap) == 0 {
		return q.oldest()
	}
	return q.heap[0]
}

// oldest returns the turn that came first, or nil.
func (q *queue[T]) oldest() *Turn[T] {
	if q.came.Len() == 0 {
		return nil
	}
	return q.came.Front().Value.(*Turn[T])
}

// expire has turns go last of whose time less than half is left, when they would be the next, and reports whether there
// are any.
func (q *queue[T]) expire(now time.Time) (any bool) {
	for len(q.heap) > 0 && q.heap[0].left(now) == 0 && now.Sub(q.heap[0].latest) > lag { // a timer may be late
		q.unheap(q.heap[0])
		any = true
	}
	return any
}

// ahead returns the size of the turns that start before t, which waits.
func (q *queue[T]) ahead(t *Turn[T]) (n float64) {
	if t.number == q.pushed && t.ends.IsZero() { // all of them: the loop takes its time
		return q.size - t.size
	}
	for _, u := range q.heap {
		if u.before(t) {
			n += u.size
		}
	}
	return n + min(n/(fifth-1), q.size-t.size-n) // every fifth turn goes to one that came earlier
}

func (q *queue[T]) push(t *Turn[T]) {
	q.pushed++
	t.number, t.came = q.pushed, q.came.PushBack(t)
	q.size += t.size
	q.heap = append(q.heap, t)
	t.heap = len(q.heap)
	q.up(t)
}

func (q *queue[T]) remove(t *Turn[T]) {
	q.came.Remove(t.came)
	t.came = nil
	if q.size -= t.size; q.came.Len() == 0 {
		q.size = 0 // no rounding errors stay
	}
	if t.heap > 0 {
		q.unheap(t)
	}
}

// unheap takes t out of the heap.
func (q *queue[T]) unheap(t *Turn[T]) {
	last := q.heap[len(q.heap)-1]
	q.heap[len(q.heap)-1] = nil
	q.heap = q.heap[:len(q.heap)-1]
	if last != t {
		q.put(last, t.heap)
		q.up(last)
		q.down(last)
	}
	t.heap = 0
}

// put puts t at a place of the heap, whose first is 1.
func (q *queue[T]) put(t *Turn[T], at int) { q.heap[at-1], t.heap = t, at }

// up moves t up until those above it start before it.
func (q *queue[T]) up(t *Turn[T]) {
	for at := t.heap; at > 1; at /= 2 {
		above := q.heap[at/2-1]
		if !t.before(above) {
			return
		}
		q.put(above, at)
		q.put(t, at/2)
	}
}

// down moves t down until it starts before those below it.
func (q *queue[T]) down(t *Turn[T]) {
	for at := 2 * t.heap; at <= len(q.heap); at = 2 * t.heap {
		below := q.heap[at-1]
		if at < len(q.heap) && q.heap[at].before(below) {
			below = q.heap[at]
		}
		if !below.before(t) {
			return
		}
		from := below.heap
		q.put(below, t.heap)
		q.put(t, from)
	}
}

// longest returns for how long the most patient turn may wait yet.
func (q *queue[T]) longest(now time.Time) (longest time.Duration) {
	for _, t := range q.heap {
		longest = max(longest, t.left(now))
	}
	return longest
}

// shift moves all times, since the clock was set back.
func (q *queue[T]) shift(by time.Duration) {
	for e := q.came.Front(); e != nil; e = e.Next() {
		if t := e.Value.(*Turn[T]); !t.ends.IsZero() {
			t.ends, t.latest = t.ends.Add(by), t.latest.Add(by)
		}
	}
}

// removeIf removes the turns that are to leave, and returns them.
func (q *queue[T]) removeIf(leaves func(*Turn[T]) bool) (gone []*Turn[T]) {
	for e := q.came.Front(); e != nil; {
		t := e.Value.(*Turn[T])
		e = e.Next() // t may leave
		if leaves(t) {
			q.remove(t)
			gone = append(gone, t)
		}
	}
	return gone
}
