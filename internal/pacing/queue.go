package pacing

import (
	"container/heap"
	"container/list"
	"time"
)

const fifth = 5 // one turn in so many goes to who came first

// Turn is an attempt that waits in a Pacer's queue, or that it has let start.
type Turn struct {
	Owner any           // for the caller
	Bill  *Bill         // what it costs; nil: one unit
	Late  time.Duration // for which it would have to wait, if it has left the queue since that is too long

	size float64  // units that it takes: Know says what a unit is before the first attempt, and nothing later
	said *float64 // by the Bill before it came

	// While it waits:
	ends   time.Time // when its time is over; zero: never
	latest time.Time // when half of it is over, and it is to start at the latest
	urgent bool      // that was less than hurried from when it came
	wakes  time.Time // until when its owner sleeps; zero: until it is woken
	number uint64    // in the order of arrival
	place  int       // in queue.heap; -1: it is not there
	came   *list.Element

	// Once it has started:
	mode   mode   // of the Pacer then
	ticket uint64 // of the Pacer's health; 0 if it was open
}

// Waits reports whether t is in the queue. Only who owns t may call it.
func (t *Turn) Waits() bool { return t.came != nil }

// left returns how long t may wait yet, so that half of its time is left: Never if it has no end.
func (t *Turn) left(now time.Time) time.Duration {
	if t.ends.IsZero() {
		return Never
	}
	return max(t.latest.Sub(now), 0)
}

// before reports whether t's time is over before u's. Of those that have as much, who came first goes first.
func (t *Turn) before(u *Turn) bool {
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
type queue struct {
	heap   byDeadline // those that have more than half of their time
	came   list.List  // all, in the order of arrival
	pushed uint64     // turns that have come
	size   float64    // the sum of the sizes of those that wait
	served uint64     // turns that have started
}

// first returns the turn that is to start next, or nil: that with the earliest deadline, but every fifth time the one that
// came first, so that nobody waits for ever.
func (q *queue) first() *Turn {
	if q.served%fifth == fifth-1 {
		return q.oldest()
	}
	return q.head()
}

// head returns the turn with the earliest deadline, or nil.
func (q *queue) head() *Turn {
	if len(q.heap) == 0 {
		return q.oldest()
	}
	return q.heap[0]
}

// oldest returns the turn that came first, or nil.
func (q *queue) oldest() *Turn {
	if q.came.Len() == 0 {
		return nil
	}
	return q.came.Front().Value.(*Turn)
}

func (q *queue) push(t *Turn) {
	q.pushed++
	t.number, t.came = q.pushed, q.came.PushBack(t)
	q.size += t.size
	heap.Push(&q.heap, t)
}

func (q *queue) remove(t *Turn) {
	q.came.Remove(t.came)
	t.came = nil
	if q.size -= t.size; q.came.Len() == 0 {
		q.size = 0 // no rounding errors stay
	}
	if t.place >= 0 {
		heap.Remove(&q.heap, t.place)
	}
}

// removeIf removes the turns that are to leave, and returns them.
func (q *queue) removeIf(leaves func(*Turn) bool) (gone []*Turn) {
	for e := q.came.Front(); e != nil; {
		t := e.Value.(*Turn)
		e = e.Next() // t may leave
		if leaves(t) {
			q.remove(t)
			gone = append(gone, t)
		}
	}
	return gone
}

// expire has turns go last of whose time less than half is left, when they would be the next.
func (q *queue) expire(now time.Time) {
	for len(q.heap) > 0 && q.heap[0].left(now) == 0 && now.Sub(q.heap[0].latest) > lag { // a timer may be late
		heap.Pop(&q.heap)
	}
}

// ahead returns the size of the turns that start before t, which waits.
func (q *queue) ahead(t *Turn) (n float64) {
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

// longest returns for how long the most patient turn may wait yet.
func (q *queue) longest(now time.Time) (longest time.Duration) {
	for _, t := range q.heap {
		longest = max(longest, t.left(now))
	}
	return longest
}

// byDeadline is a heap of turns that know their places.
type byDeadline []*Turn

func (h byDeadline) Len() int           { return len(h) }
func (h byDeadline) Less(i, j int) bool { return h[i].before(h[j]) }

func (h byDeadline) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *byDeadline) Push(x any) {
	t := x.(*Turn)
	t.place = len(*h)
	*h = append(*h, t)
}

func (h *byDeadline) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	t.place = -1
	return t
}
