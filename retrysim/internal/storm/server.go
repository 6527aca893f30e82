package storm

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/goretry/retry"
)

// What an attempt returns, by how it ends. It is one request: if that was refused,
// nothing was done.
var errs = [lost + 1]error{
	fails:       errors.New("storm: failed"),
	unavailable: errors.New("storm: 503"),
	tooMany:     retry.After(errors.New("storm: 429"), 0),
	refused:     retry.Undone(&net.OpError{Op: "dial", Net: "storm", Err: errors.New("refused")}),
	timesOut:    retry.ErrAttemptTimeout,
	lost:        context.Canceled,
}

// server is the state of one of a Service's servers: the requests that wait, and those
// that it works on.
//
// A request waits until a worker is free, or until it is its turn at a server with
// a Capacity. It has the worker until it is done. Its turn is over before that:
// then the next one begins, and both are worked on. A request that no other has to
// wait for, and slows down no other, is not here at all: what becomes of it is
// known when it arrives.
type server struct {
	ring    int32   // a request that is none: those that wait are a ring from it, the oldest next
	pool    []int32 // in place of it those that wait, in no order, if the Discipline is Random
	waiting int
	busy    int           // workers, or 1 in a turn; all requests if they share the workers
	held    int           // requests that are worked on
	owed    time.Duration // work of refusals that no request has taken longer for yet
	sharing
}

// places are the requests at all servers.
type places struct {
	requests []*[chunk]request
	unused   []int32
}

// request is one at the server. try is out of date once its call has ended that
// attempt: then nobody waits for it.
type request struct {
	call      int32
	server    int32
	next      int32 // that waits, the newer one; or the place in the pool
	previous  int32
	try       uint32
	departure uint32 // counts the requests in this place: an event of another is out of date
	begun     bool
	wasted    bool // its answer comes too late
}

const none = -1

// arrive has the server take a request of a call.
func (s *service) arrive(i int32, try uint32) {
	number := s.call(i).server
	if !s.Sharded && s.Servers > 1 {
		number = int32(s.rand.IntN(s.Servers))
	}
	v, out := &s.servers[number], s.result(number)
	outcome := answers[s.Refusal(int(number), s.now)]
	queued := s.Workers > 0 || s.Capacity > 0
	crowded := queued && v.busy >= max(s.Workers, 1)
	waiting := v.waiting
	if s.Discipline == Sharing {
		waiting = v.busy - s.Workers
	}
	if s.Quota.Rate > 0 && outcome == 0 {
		if s.quota.refill(s.now); s.quota.level < 1 {
			outcome = tooMany
		} else {
			s.quota.level--
		}
	}
	if outcome == 0 && crowded && s.Queue != 0 && waiting >= s.Queue {
		outcome = cmp.Or(answers[s.Full], unavailable)
		v.owed = later(v.owed, max(s.Refusing, 0))
	}
	switch {
	case outcome != 0:
		out.At(s.now).Done++
		s.answer(i, try, s.now, outcome, false)
	case s.Drop && !s.current(i, try):
		out.At(s.now).Done++
	case !queued && s.Slowdown <= 0:
		done := s.Work(int(number), s.now, s.takes(v))
		out.At(done).Work(s.answer(i, try, done, s.luck(), false))
	default:
		n := s.enter(i, try, number)
		switch {
		case s.Discipline == Sharing:
			s.share(n)
		case crowded:
			s.wait(n)
		default:
			s.start(n, false)
		}
	}
}

// Refusal returns what a server answers at an instant because of an outage; Hang or Slow
// if nothing. The first server is number 0.
func (s Service) Refusal(server int, at time.Duration) (a Answer) {
	for _, o := range s.Outages {
		if o.hits(server) && o.From <= at && at < o.To {
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

// takes returns how long a request is worked on, that a server begins.
func (s *service) takes(v *server) time.Duration {
	owed := v.owed
	v.owed = 0
	return later(owed, later(s.spread(max(s.Latency, 0)), times(max(s.Slowdown, 0), float64(v.held))))
}

func (s *service) spread(d time.Duration) time.Duration {
	if s.Exponential {
		return times(d, s.rand.ExpFloat64())
	}
	return d
}

// hits reports whether an outage is one of a server.
func (o Outage) hits(server int) bool { return o.Servers <= 0 || server < o.Servers }

// Work returns when work that a server begins at an instant and takes d is done: no
// outage is time to work, and a Slow one is worth less.
func (s Service) Work(server int, at, d time.Duration) time.Duration {
	for _, o := range s.Outages {
		if !o.hits(server) || at >= o.To || o.From > at && o.From >= later(at, d) {
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

// open gives each server its ring.
func (s *service) open() {
	for i := range s.servers {
		n := s.take()
		s.servers[i].ring = n
		*s.request(n) = request{next: n, previous: n}
	}
}

// enter makes a place for a request of a call at a server.
func (s *service) enter(i int32, try uint32, server int32) int32 {
	n := s.take()
	q := s.request(n)
	*q = request{call: i, server: server, try: try, departure: following(q.departure)}
	s.remember(i, try, n)
	return n
}

// take returns a request that is not in use. There may be millions: they are not moved.
func (s *places) take() int32 {
	if len(s.unused) == 0 {
		last := (len(s.requests)+1)*chunk - 1
		s.requests = append(s.requests, new([chunk]request))
		for i := range chunk {
			s.unused = append(s.unused, int32(last-i))
		}
	}
	last := len(s.unused) - 1
	n := s.unused[last]
	s.unused = s.unused[:last]
	return n
}

func (s *places) request(n int32) *request { return &s.requests[n/chunk][n%chunk] }

// at returns the server of a request.
func (s *service) at(n int32) *server { return &s.servers[s.request(n).server] }

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
	v, q := s.at(n), s.request(n)
	v.waiting++
	if s.Discipline == Random {
		q.next = int32(len(v.pool))
		v.pool = append(v.pool, n)
	} else {
		ring := s.request(v.ring)
		q.previous, q.next = ring.previous, v.ring
		s.request(q.previous).next, ring.previous = n, n
	}
	s.patience(n)
}

// patience schedules the timeout of a request whose answer is not known yet.
func (s *service) patience(n int32) {
	q := s.request(n)
	if c := s.call(q.call); s.timeout > 0 && s.hedgers == nil && s.current(q.call, q.try) {
		s.schedule(later(c.sent, s.timeout)-s.now, timesOut, q.call, q.try)
	}
}

// unlink takes a request from those that wait.
func (s *service) unlink(n int32) {
	v, q := s.at(n), s.request(n)
	v.waiting--
	if s.Discipline == Random {
		last := len(v.pool) - 1
		v.pool[q.next] = v.pool[last]
		s.request(v.pool[last]).next = q.next
		v.pool = v.pool[:last]
		return
	}
	s.request(q.previous).next, s.request(q.next).previous = q.next, q.previous
}

// turn returns the request of those that wait whose turn it is.
func (s *service) turn(v *server) int32 {
	switch s.Discipline {
	case LIFO:
		return s.request(v.ring).previous
	case Random:
		return v.pool[s.rand.IntN(len(v.pool))]
	}
	return s.request(v.ring).next
}

// start begins a request; timed says that its timeout is scheduled.
func (s *service) start(n int32, timed bool) {
	q, v, at := s.request(n), s.at(n), s.now
	q.begun = true
	v.busy++
	v.held++
	if s.inTurns() {
		at = s.Work(int(q.server), at, later(v.owed, s.spread(times(time.Second, 1/s.Capacity))))
		v.owed = 0
		s.schedule(at-s.now, proceeds, q.server, 0)
	}
	done := s.Work(int(q.server), at, s.takes(v))
	s.schedule(done-s.now, departs, n, q.departure)
	q.wasted = s.answer(q.call, q.try, done, s.luck(), timed)
}

// inTurns reports whether requests begin one after the other.
func (s *service) inTurns() bool { return s.Workers <= 0 && s.Capacity > 0 }

// finish ends the work on a request.
func (s *service) finish(n int32, wasted bool) {
	number := s.request(n).server
	s.result(number).At(s.now).Work(wasted)
	s.servers[number].held--
	s.leave(n)
	switch {
	case s.Discipline == Sharing:
		s.unshare(number)
	case !s.inTurns():
		s.proceed(number)
	}
}

// proceed frees a worker, or the turn, of a server for one of the requests that wait.
func (s *service) proceed(server int32) {
	v := &s.servers[server]
	v.busy--
	if v.waiting > 0 {
		n := s.turn(v)
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
	s.result(s.request(n).server).At(s.now).Done++
	s.leave(n)
}
