package loadlab

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"
)

// outcome is what an attempt comes to.
type outcome int

const (
	ok        outcome = iota
	throttled         // a 429
	failed            // a 503, a reset
	expired
	canceled
)

// request is one attempt at a server. What becomes of it is for its own luck: the same call and
// attempt meet the same one whatever limits the others.
type request struct {
	rand *rand.Rand
	at   time.Duration
	kind int
}

// lognormal returns a time with this median.
func (r *request) lognormal(median time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(median) * math.Exp(sigma*r.rand.NormFloat64()))
}

// server answers each request once, or never. It works on for callers who have left.
type server interface {
	serve(s *sim, r *request, done func(outcome))
}

// free is a server of endless capacity: a request's answer, and how long it takes; negative: it
// does not come.
type free func(r *request) (outcome, time.Duration)

func (f free) serve(s *sim, r *request, done func(outcome)) {
	if o, d := f(r); d >= 0 {
		s.after(d, func() { done(o) })
	}
}

// span is a time.
type span struct{ from, until time.Duration }

func (p span) has(t time.Duration) bool { return p.from <= t && t < p.until }

// queued is a server of so many workers, and a queue.
type queued struct {
	workers int
	mean    time.Duration // of the time that a request takes, which is exponential
	order   string        // fifo, lifo or random: which of the waiting requests is next
	bound   int           // requests that may wait; then a 503 at once. 0: any number
	hang    span          // when nothing begins
	slow    span          // when requests take three times as long

	busy   int
	wait   []job
	waking bool
}

type job struct {
	r    *request
	done func(outcome)
}

func (q *queued) serve(s *sim, r *request, done func(outcome)) {
	if q.bound > 0 && len(q.wait) >= q.bound {
		s.after(time.Millisecond, func() { done(failed) })
		return
	}
	q.wait = append(q.wait, job{r, done})
	q.next(s)
}

func (q *queued) next(s *sim) {
	if q.hang.has(s.now) {
		if !q.waking {
			q.waking = true
			s.after(q.hang.until-s.now, func() { q.waking = false; q.next(s) })
		}
		return
	}
	for q.busy < q.workers && len(q.wait) > 0 {
		j := q.take(s)
		d := time.Duration(j.r.rand.ExpFloat64() * float64(q.mean))
		if q.slow.has(s.now) {
			d *= 3
		}
		q.busy++
		s.after(d, func() { q.busy--; j.done(ok); q.next(s) })
	}
}

// take takes the request that is next from the queue.
func (q *queued) take(s *sim) (j job) {
	last := len(q.wait) - 1
	switch q.order {
	case "lifo":
		j = q.wait[last]
		q.wait = q.wait[:last]
	case "random":
		i := s.rand.IntN(len(q.wait))
		j, q.wait[i] = q.wait[i], q.wait[last]
		q.wait = q.wait[:last]
	default:
		j = q.wait[0]
		q.wait = q.wait[1:]
	}
	return j
}

// shared is a server whose requests share its processors, as the goroutines of a Go program do:
// if there are twice as many as processors, all take twice as long. There is no queue.
type shared struct {
	processors int
	mean       time.Duration // of the processor time that a request takes, which is exponential
	hang       span
	slow       span

	done   float64 // seconds of work that each request has got that was there from the start
	since  time.Duration
	tasks  tasks
	ticket int
}

type task struct {
	end  float64 // of shared.done, at which it has got all
	done func(outcome)
}

type tasks []task

func (q tasks) Len() int           { return len(q) }
func (q tasks) Less(i, j int) bool { return q[i].end < q[j].end }
func (q tasks) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *tasks) Push(x any)        { *q = append(*q, x.(task)) }
func (q *tasks) Pop() any {
	old := *q
	t := old[len(old)-1]
	*q = old[:len(old)-1]
	return t
}

// speed is how much of a second each request gets in one.
func (p *shared) speed(now time.Duration) float64 {
	switch {
	case len(p.tasks) == 0 || p.hang.has(now):
		return 0
	case p.slow.has(now):
		return min(1, float64(p.processors)/float64(len(p.tasks))) / 3
	}
	return min(1, float64(p.processors)/float64(len(p.tasks)))
}

// advance gives all requests what they have got since it was last called. Nothing has come, ended
// or changed since.
func (p *shared) advance(now time.Duration) {
	p.done += (now - p.since).Seconds() * p.speed(p.since)
	p.since = now
}

func (p *shared) serve(s *sim, r *request, done func(outcome)) {
	if p.ticket == 0 {
		for _, t := range []time.Duration{p.hang.from, p.hang.until, p.slow.from, p.slow.until} {
			if t > s.now {
				s.after(t-s.now, func() { p.advance(s.now); p.schedule(s) })
			}
		}
	}
	p.advance(s.now)
	heap.Push(&p.tasks, task{p.done + r.rand.ExpFloat64()*p.mean.Seconds(), done})
	p.schedule(s)
}

// schedule has the request end that is next.
func (p *shared) schedule(s *sim) {
	p.ticket++
	speed, ticket := p.speed(s.now), p.ticket
	if speed == 0 {
		return
	}
	wait := time.Duration(math.Ceil((p.tasks[0].end - p.done) / speed * float64(time.Second)))
	s.after(wait, func() {
		if ticket != p.ticket {
			return
		}
		p.advance(s.now)
		first := heap.Pop(&p.tasks).(task)
		p.done = max(p.done, first.end)
		p.schedule(s)
		first.done(ok)
	})
}
