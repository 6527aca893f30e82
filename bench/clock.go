package bench

import (
	"container/heap"
	"sync"
	"time"
)

// jump is the cheapest clock there is: it moves on when it is waited on. It is
// one goroutine's.
type jump struct {
	now   time.Time
	fired chan time.Time
}

func newJump() *jump {
	c := make(chan time.Time)
	close(c)
	return &jump{now: time.Unix(0, 0), fired: c}
}

func (j *jump) Now() time.Time { return j.now }

func (j *jump) After(d time.Duration) <-chan time.Time {
	j.now = j.now.Add(d)
	return j.fired
}

// mock is a clock for many goroutines: it stands still until all of them wait.
type mock struct {
	mu   sync.Mutex
	now  time.Time
	busy int
	due  alarms
}

// run calls f on n goroutines and returns when all of them have.
func (m *mock) run(n int, f func()) {
	m.busy = n
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			f()
			m.mu.Lock()
			m.rest()
			m.mu.Unlock()
		})
	}
	all.Wait()
}

func (m *mock) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *mock) After(d time.Duration) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := alarm{m.now.Add(d), make(chan time.Time, 1)}
	heap.Push(&m.due, a)
	m.rest()
	return a.c
}

// rest says that a goroutine waits or has ended. The last one moves the time.
func (m *mock) rest() {
	if m.busy--; m.busy > 0 || len(m.due) == 0 {
		return
	}
	for m.now = m.due[0].at; len(m.due) > 0 && m.due[0].at.Equal(m.now); m.busy++ {
		heap.Pop(&m.due).(alarm).c <- m.now
	}
}

type alarm struct {
	at time.Time
	c  chan time.Time
}

type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}
