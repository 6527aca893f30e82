package storm

import (
	"errors"
	"net"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

// What an attempt returns, by how it ends.
var errs = [...]error{
	fails:       errors.New("storm: failed"),
	unavailable: errors.New("storm: 503"),
	tooMany:     retry.After(errors.New("storm: 429"), 0),
	refused:     &net.OpError{Op: "dial", Net: "storm", Err: errors.New("refused")},
	limited:     limit.ErrLimited,
	timesOut:    retry.ErrAttemptTimeout,
}

// server is the state of a Service's server: the requests that wait in a list from
// the oldest to the newest, and those that it works on.
//
// A request waits until a worker is free, or until it is its turn at a server with
// a Capacity. It leaves the worker when it is done, but its turn before that: then
// it is worked on beside the others. A request that no other has to wait for, and
// slows down no other, is not here at all: what becomes of it is known when it
// arrives.
type server struct {
	requests []request
	unused   int32 // the first of a list
	oldest   int32 // of those that wait
	newest   int32
	waiting  int
	busy     int // workers, or the turn
	held     int // requests that are worked on
}

// request is one at the server. try is out of date once its call has ended that
// attempt: then nobody waits for it.
type request struct {
	done      time.Duration // when it will be, once it is worked on
	call      int32
	next      int32 // in the list
	previous  int32
	try       uint32
	departure uint32 // counts the requests in this place: an event of another is out of date
	stage     stage
	wasted    bool // its answer comes too late
}

type stage uint8

const (
	waits stage = iota
	turns       // it is its turn to begin
	works
)

const none = -1

func newServer() server { return server{unused: none, oldest: none, newest: none} }

// arrive has the server take a request of a call.
func (s *service) arrive(i int32, try uint32) {
	outcome := kind(0)
	for _, o := range s.Outages {
		if o.Answer != Hang && o.From <= s.now && s.now < o.To {
			outcome = answers[o.Answer]
		}
	}
	queued := s.Workers > 0 || s.Capacity > 0
	crowded := queued && s.busy >= max(s.Workers, 1)
	if outcome == 0 && crowded && s.Queue > 0 && s.waiting >= s.Queue {
		outcome = answers[max(s.Full, Unavailable)]
	}
	switch {
	case outcome != 0:
		s.out.At(s.now).Done++
		s.answer(i, try, s.now, outcome, false)
	case s.Drop && !s.current(i, try):
		s.out.At(s.now).Done++
	case !queued && s.Slowdown <= 0:
		done := s.Work(s.now, s.takes())
		b := s.out.At(done)
		b.Done++
		b.Worked++
		if s.answer(i, try, done, s.luck(), false) {
			b.Wasted++
		}
	default:
		n := s.enter(i, try)
		if crowded {
			s.wait(n)
		} else {
			s.start(n, false)
		}
	}
}

// answers has how the attempt ends that gets an Answer.
var answers = [...]kind{Unavailable: unavailable, TooMany: tooMany, Refused: refused}

// luck returns how a request ends that is worked on.
func (s *service) luck() kind {
	if s.Failure > 0 && s.rand.Float64() < s.Failure {
		return fails
	}
	return succeeds
}

// takes returns how long a request is worked on.
func (s *service) takes() time.Duration {
	d := s.spread(max(s.Latency, 0))
	if s.Slowdown > 0 {
		d = later(d, times(s.Slowdown, float64(s.held)))
	}
	return d
}

func (s *service) spread(d time.Duration) time.Duration {
	if s.Exponential {
		return times(d, exponential(s.rand))
	}
	return d
}

// Work returns when work that begins at an instant and takes d is done: no outage
// is time to work.
func (s Service) Work(at, d time.Duration) time.Duration {
	for _, o := range s.Outages {
		if at < o.To && (o.From <= at || o.From < later(at, d)) {
			d -= max(o.From-at, 0)
			at = o.To
		}
	}
	return later(at, d)
}

// enter makes a place for a request of a call.
func (s *service) enter(i int32, try uint32) int32 {
	n := s.unused
	if n == none {
		n = int32(len(s.requests))
		s.requests = append(s.requests, request{})
	} else {
		s.unused = s.requests[n].next
	}
	q := &s.requests[n]
	*q = request{call: i, try: try, next: none, previous: none, departure: following(q.departure)}
	s.remember(i, try, n)
	return n
}

// remember notes for a call that waits for it where its request is.
func (s *service) remember(i int32, try uint32, n int32) {
	switch {
	case !s.current(i, try):
	case try&1 == 1:
		s.races[i].second = n
	default:
		s.call(i).request = n
	}
}

// leave frees a request's place.
func (s *service) leave(n int32) {
	q := &s.requests[n]
	s.remember(q.call, q.try, none)
	q.departure = following(q.departure)
	q.next, s.unused = s.unused, n
}

// wait puts a request behind those that wait. Its call may stop waiting meanwhile.
func (s *service) wait(n int32) {
	s.waiting++
	q := &s.requests[n]
	q.stage, q.previous = waits, s.newest
	if s.newest == none {
		s.oldest = n
	} else {
		s.requests[s.newest].next = n
	}
	s.newest = n
	if c := s.call(q.call); s.timeout > 0 && s.hedgers == nil && s.current(q.call, q.try) {
		s.schedule(later(c.sent, s.timeout)-s.now, timesOut, q.call, q.try)
	}
}

// unlink takes a request from those that wait.
func (s *service) unlink(n int32) {
	s.waiting--
	q := &s.requests[n]
	if q.previous == none {
		s.oldest = q.next
	} else {
		s.requests[q.previous].next = q.next
	}
	if q.next == none {
		s.newest = q.previous
	} else {
		s.requests[q.next].previous = q.previous
	}
}

// start begins a request; timed says that its timeout is scheduled.
func (s *service) start(n int32, timed bool) {
	q := &s.requests[n]
	at := s.now
	q.stage = works
	if s.Workers > 0 {
		s.busy++
	} else if s.Capacity > 0 {
		s.busy++
		q.stage = turns
		at = s.Work(at, s.spread(times(time.Second, 1/s.Capacity)))
	}
	s.held++
	q.done = s.Work(at, s.takes())
	if q.stage == works {
		at = q.done
	}
	s.schedule(at-s.now, departs, n, q.departure)
	q.wasted = s.answer(q.call, q.try, q.done, s.luck(), timed)
}

// depart ends a stage of a request, if it is still there.
func (s *service) depart(n int32, departure uint32) {
	q := &s.requests[n]
	if q.departure != departure {
		return
	}
	if q.stage == turns {
		q.stage = works
		s.schedule(q.done-s.now, departs, n, departure)
		s.proceed()
		return
	}
	s.finish(n, q.wasted)
}

// finish ends the work on a request.
func (s *service) finish(n int32, wasted bool) {
	b := s.out.At(s.now)
	b.Done++
	b.Worked++
	if wasted {
		b.Wasted++
	}
	s.held--
	free := s.requests[n].stage == turns || s.Workers > 0
	s.leave(n)
	if free {
		s.proceed()
	}
}

// proceed frees a worker, or the turn, for one of the requests that wait.
func (s *service) proceed() {
	s.busy--
	n := s.oldest
	if s.LIFO {
		n = s.newest
	}
	if n != none {
		s.unlink(n)
		s.start(n, true)
	}
}

// abandon drops a request that nobody waits for any more.
func (s *service) abandon(n int32) {
	if s.requests[n].stage == waits {
		s.unlink(n)
		s.out.At(s.now).Done++
		s.leave(n)
		return
	}
	s.finish(n, true)
}
