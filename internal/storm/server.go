package storm

import (
	"cmp"
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
// a Capacity. It has the worker until it is done. Its turn is over before that:
// then the next one begins, and both are worked on. A request that no other has to
// wait for, and slows down no other, is not here at all: what becomes of it is
// known when it arrives.
type server struct {
	requests []*[chunk]request // the first is none: those that wait are a ring from it, the oldest next
	unused   []int32
	waiting  int
	busy     int // workers, or 1 in a turn
	held     int // requests that are worked on
}

// request is one at the server. try is out of date once its call has ended that
// attempt: then nobody waits for it.
type request struct {
	call      int32
	next      int32 // that waits, the newer one
	previous  int32
	try       uint32
	departure uint32 // counts the requests in this place: an event of another is out of date
	begun     bool
	wasted    bool // its answer comes too late
}

const none = -1

// arrive has the server take a request of a call.
func (s *service) arrive(i int32, try uint32) {
	outcome := answers[s.Refusal(s.now)]
	queued := s.Workers > 0 || s.Capacity > 0
	crowded := queued && s.busy >= max(s.Workers, 1)
	if outcome == 0 && crowded && s.Queue != 0 && s.waiting >= s.Queue {
		outcome = cmp.Or(answers[s.Full], unavailable)
	}
	switch {
	case outcome != 0:
		s.out.At(s.now).Done++
		s.answer(i, try, s.now, outcome, false)
	case s.Drop && !s.current(i, try):
		s.out.At(s.now).Done++
	case !queued && s.Slowdown <= 0:
		done := s.Work(s.now, s.takes())
		s.out.At(done).Work(s.answer(i, try, done, s.luck(), false))
	default:
		n := s.enter(i, try)
		if crowded {
			s.wait(n)
		} else {
			s.start(n, false)
		}
	}
}

// Refusal returns what the server answers at an instant because of an outage; Hang
// or Slow if nothing.
func (s Service) Refusal(at time.Duration) (a Answer) {
	for _, o := range s.Outages {
		if o.From <= at && at < o.To {
			a = o.Answer
		}
	}
	return a
}

// answers has how the attempt ends that gets an Answer; 0: the server takes it.
var answers = [...]kind{Unavailable: unavailable, TooMany: tooMany, Refused: refused, Slow: 0}

// luck returns how a request ends that is worked on.
func (s *service) luck() kind {
	if s.Failure > 0 && s.rand.Float64() < s.Failure {
		return fails
	}
	if s.Lost > 0 && s.rand.Float64() < s.Lost {
		return vanishes
	}
	return succeeds
}

// takes returns how long a request is worked on.
func (s *service) takes() time.Duration {
	return later(s.spread(max(s.Latency, 0)), times(max(s.Slowdown, 0), float64(s.held)))
}

func (s *service) spread(d time.Duration) time.Duration {
	if s.Exponential {
		return times(d, s.rand.ExpFloat64())
	}
	return d
}

// Work returns when work that begins at an instant and takes d is done: no outage
// is time to work, and a Slow one is worth less.
func (s Service) Work(at, d time.Duration) time.Duration {
	for _, o := range s.Outages {
		if at >= o.To || o.From > at && o.From >= later(at, d) {
			continue
		}
		d -= max(o.From-at, 0)
		at = max(at, o.From)
		if o.Answer == Slow {
			factor := max(o.Factor, 1)
			if slowly := times(d, factor); slowly <= o.To-at {
				return at + slowly
			}
			d -= times(o.To-at, 1/factor)
		}
		at = o.To
	}
	return later(at, d)
}

// enter makes a place for a request of a call.
func (s *service) enter(i int32, try uint32) int32 {
	if len(s.unused) == 0 {
		s.extend()
	}
	last := len(s.unused) - 1
	n := s.unused[last]
	s.unused = s.unused[:last]
	q := s.request(n)
	*q = request{call: i, try: try, departure: following(q.departure)}
	s.remember(i, try, n)
	return n
}

// extend makes room for more requests. There may be millions: they are not moved.
func (s *server) extend() {
	first := len(s.requests) * chunk
	s.requests = append(s.requests, new([chunk]request))
	for i := range chunk {
		if n := first + chunk - 1 - i; n > 0 { // the first is none
			s.unused = append(s.unused, int32(n))
		}
	}
}

func (s *server) request(n int32) *request { return &s.requests[n/chunk][n%chunk] }

// remember notes for a call that waits for it where its request is.
func (s *service) remember(i int32, try uint32, n int32) {
	switch {
	case !s.current(i, try):
	case try&1 == 1:
		s.guarded[i].second = n
	default:
		s.call(i).request = n
	}
}

// leave frees a request's place.
func (s *service) leave(n int32) {
	q := s.request(n)
	s.remember(q.call, q.try, none)
	q.departure = following(q.departure)
	s.unused = append(s.unused, n)
}

// wait puts a request behind those that wait. Its call may stop waiting meanwhile.
func (s *service) wait(n int32) {
	s.waiting++
	q, ring := s.request(n), s.request(0)
	q.previous, q.next = ring.previous, 0
	s.request(q.previous).next, ring.previous = n, n
	if c := s.call(q.call); s.timeout > 0 && s.hedgers == nil && s.current(q.call, q.try) {
		s.schedule(later(c.sent, s.timeout)-s.now, timesOut, q.call, q.try)
	}
}

// unlink takes a request from those that wait.
func (s *service) unlink(n int32) {
	s.waiting--
	q := *s.request(n)
	s.request(q.previous).next, s.request(q.next).previous = q.next, q.previous
}

// start begins a request; timed says that its timeout is scheduled.
func (s *service) start(n int32, timed bool) {
	q, at := s.request(n), s.now
	q.begun = true
	s.busy++
	s.held++
	if s.inTurns() {
		at = s.Work(at, s.spread(times(time.Second, 1/s.Capacity)))
		s.schedule(at-s.now, proceeds, none, 0)
	}
	done := s.Work(at, s.takes())
	s.schedule(done-s.now, departs, n, q.departure)
	q.wasted = s.answer(q.call, q.try, done, s.luck(), timed)
}

// inTurns reports whether requests begin one after the other.
func (s *service) inTurns() bool { return s.Workers <= 0 && s.Capacity > 0 }

// finish ends the work on a request.
func (s *service) finish(n int32, wasted bool) {
	s.out.At(s.now).Work(wasted)
	s.held--
	s.leave(n)
	if !s.inTurns() {
		s.proceed()
	}
}

// proceed frees a worker, or the turn, for one of the requests that wait.
func (s *service) proceed() {
	s.busy--
	n := s.request(0).next
	if s.LIFO {
		n = s.request(0).previous
	}
	if n != 0 {
		s.unlink(n)
		s.start(n, true)
	}
}

// abandon drops a request that nobody waits for any more.
func (s *service) abandon(n int32) {
	if s.request(n).begun {
		s.finish(n, true)
		return
	}
	s.unlink(n)
	s.out.At(s.now).Done++
	s.leave(n)
}
