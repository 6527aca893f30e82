package loadlab

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// sim is the time of a world: what happens in it, in order. It runs on one goroutine, and in a
// bubble of testing/synctest the clock of package time follows.
type sim struct {
	now    time.Duration
	events events
	count  int
	rand   *rand.Rand // what is nobody's luck, such as which of the waiting requests is next
}

type event struct {
	at time.Duration
	n  int // of two at one instant the earlier made is first
	f  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// after has f called after d.
func (s *sim) after(d time.Duration, f func()) {
	s.count++
	heap.Push(&s.events, event{s.now + max(d, 0), s.count, f})
}

// run lets happen what there is, until nothing is left.
func (s *sim) run() {
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		if e.at > s.now {
			time.Sleep(e.at - s.now)
			s.now = e.at
		}
		e.f()
	}
}
