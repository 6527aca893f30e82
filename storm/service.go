package storm

import (
	"errors"
	"math"
	"net"
	"time"

	"github.com/goretry/retry"
)

// Service is clients, a server, and what lies between them. The zero value is
// one client that calls a perfect server once. Negative numbers count as zero.
//
// Each call is a [retry.Loop]. A policy's AttemptTimeout is how long its client
// waits for an answer; the server still does the work that nobody waits for any
// more. To the policy an answer that does not come is [retry.ErrAttemptTimeout],
// a failure is Transient, a request that finds the queue full is Throttled, and
// one that an outage refuses Unprocessed. Where these take no time, a policy with
// neither waits nor limits retries for ever at one instant: Run does not return.
type Service struct {
	Clients int     // 0: 1
	Rate    float64 // calls per second of all clients together; 0: each client makes one call, at once
	Spikes  []Spike // when the rate is another; they must not overlap

	// Closed clients make one call at a time, and think in between: for a random
	// time, Clients/Rate on average. The others call at random times, whatever has
	// become of their earlier calls.
	Closed bool

	// Duration is how long calls begin, with a Rate; 0 means a minute. Calls that
	// have begun are followed for as long again.
	Duration time.Duration

	Latency  time.Duration // the server's time for a request
	Slowdown time.Duration // is added to it for each request that the server holds, this one included
	Capacity float64       // requests that it begins per second, one after the other; 0: no limit
	Queue    int           // requests that may wait to begin; one more is refused; 0: no limit
	Failure  float64       // the share of the requests that fail, at random
	Outages  []Outage      // in order; they must not overlap

	Network    time.Duration // the mean of a message's time, each way; exponentially distributed
	Timeout    time.Duration // the AttemptTimeout of policies that have none; 0: they wait for ever
	BudgetEach bool          // each client has a budget of its own, else all share one

	Bucket   time.Duration // of the result; 0: 100 ms
	Seed     uint64
	Progress func(done float64) // told the share that is done, now and then; may be nil

	watch func(now time.Duration, attempt int) // told each attempt that is sent; may be nil
}

// Spike is a time in which clients call at another rate.
type Spike struct {
	From, To time.Duration
	Rate     float64
}

// Outage is a time in which the server does no work. What it was doing, and what
// comes in, waits until the end.
type Outage struct {
	From, To time.Duration
	Refuse   bool // requests that come in fail at once instead
}

// What may happen to a request, other than an answer in time.
var (
	errFailed  = errors.New("storm: failed")
	errBusy    = retry.After(errors.New("storm: queue full"), 0)
	errRefused = &net.OpError{Op: "dial", Net: "storm", Err: errors.New("down")}
)

// What happens in a service. The last four end an attempt.
const (
	calls    kind = iota // a client calls: the one of the event's index if Closed, else any
	sends                // the call's wait is over
	arrives              // its request reaches the server
	strays               // a request does whose client has given up
	departs              // the server is done with a request
	succeeds             // the call learns that its request succeeded
	fails                // that it failed
	refused              // that the server is down
	busy                 // that the queue is full
	timesOut             // the call waits no longer for an answer
)

// call is a client's call: little more than its Loop, since there may be millions.
type call struct {
	began time.Duration
	sent  time.Duration // its latest attempt
	loop  retry.Loop
}

// chunk is how many calls are allocated at once: a Loop must not be moved.
const chunk = 1024

type service struct {
	Service
	*kernel
	policies []retry.Policy // one, or one for each client
	timeout  time.Duration
	calls    []*[chunk]call
	free     []int // indices of calls that are over

	held  int           // requests at the server; counted only for Slowdown
	begun time.Duration // when the server has begun all that waits
	out   *Result
}

// Run lets the clients call with policy p and returns what became of it. The same
// Service gives the same Result, whatever the machine.
//
// The run has p's clock, random numbers and budget replaced by its own: the budget
// is a fresh one with the same fields. A Budget that is not this library's is used
// as it is, and shared by all clients. Hooks are not called.
func (s Service) Run(p retry.Policy) *Result {
	s.Clients = max(s.Clients, 1)
	if s.Bucket <= 0 {
		s.Bucket = 100 * time.Millisecond
	}
	if s.Duration <= 0 {
		s.Duration = time.Minute
	}
	s.Closed = s.Closed && s.Rate > 0
	r := &service{Service: s, kernel: newKernel(s.Seed), timeout: p.AttemptTimeout}
	r.out = &Result{Policy: p.Name, Bucket: s.Bucket, Runs: 1, Ended: map[retry.Reason]int{}}
	r.out.last = maxBuckets
	end := time.Duration(math.MaxInt64)
	if s.Rate > 0 {
		end = later(s.Duration, s.Duration)
		r.out.last = int((s.Duration-1)/s.Bucket) + 1
	}
	if r.timeout <= 0 {
		r.timeout = s.Timeout
	}
	r.policies = make([]retry.Policy, 1)
	if s.BudgetEach {
		r.policies = make([]retry.Policy, s.Clients)
	}
	for i := range r.policies {
		r.policies[i] = r.ready(p)
	}
	r.open()
	r.loop(end)
	return r.out
}

// open schedules the first calls.
func (s *service) open() {
	if s.Rate > 0 && !s.Closed {
		s.think(0)
		return
	}
	for i := range s.Clients {
		if i%chunk == 0 {
			s.calls = append(s.calls, new([chunk]call))
		}
		if s.Closed {
			s.think(i)
		} else {
			s.schedule(0, calls, i)
		}
	}
}

func (s *service) loop(end time.Duration) {
	for n := 0; ; n++ {
		e, ok := s.next()
		if !ok || e.at > end {
			return
		}
		if n%(1<<16) == 0 && s.Progress != nil && s.Rate > 0 {
			s.Progress(min(float64(s.now)/float64(s.Duration), 1))
		}
		i := int(e.index)
		switch e.kind {
		case calls:
			s.begin(i)
		case sends:
			s.send(i)
		case arrives:
			s.arrive(i, s.call(i).sent)
		case strays:
			s.serve()
		case departs:
			s.held--
		case succeeds:
			s.end(i, nil)
		case fails:
			s.end(i, errFailed)
		case refused:
			s.end(i, errRefused)
		case busy:
			s.end(i, errBusy)
		case timesOut:
			s.end(i, retry.ErrAttemptTimeout)
		}
	}
}

// think schedules the next call of a client, or of all of them if they are not
// closed. A wait that would pass a change of the rate is drawn anew from there:
// the exponential distribution has no memory.
func (s *service) think(client int) {
	clients := 1.0
	if s.Closed {
		clients = float64(s.Clients)
	}
	for at := s.now; at < s.Duration; {
		rate, until := s.rate(at)
		if rate > 0 {
			wait := times(time.Second, exponential(s.arrivals)*clients/rate)
			if wait < until-at {
				s.schedule(at+wait-s.now, calls, client)
				return
			}
		}
		at = until
	}
}

// rate returns the calls per second at an instant, and until when they hold.
func (s *service) rate(at time.Duration) (rate float64, until time.Duration) {
	until = s.Duration
	for _, spike := range s.Spikes {
		if spike.From <= at && at < spike.To {
			return spike.Rate, min(spike.To, s.Duration)
		}
		if spike.From > at {
			until = min(until, spike.From)
		}
	}
	return s.Rate, until
}

// begin starts a call of a client.
func (s *service) begin(i int) {
	client := i
	if s.Rate > 0 && !s.Closed {
		s.think(0)
		client, i = s.arrivals.IntN(s.Clients), s.slot()
	}
	c := s.call(i)
	c.loop = s.policies[client%len(s.policies)].Start(s.time())
	c.began = s.now
	s.out.Asked++
	s.out.at(s.now).Asked++
	s.send(i)
}

// slot returns the index of a call that is not in use.
func (s *service) slot() int {
	if len(s.free) == 0 {
		s.calls = append(s.calls, new([chunk]call))
		for i := range chunk {
			s.free = append(s.free, len(s.calls)*chunk-1-i)
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return i
}

func (s *service) call(i int) *call { return &s.calls[i/chunk][i%chunk] }

// send sends a call's request on its way.
func (s *service) send(i int) {
	s.out.Sent++
	s.out.at(s.now).Sent++
	if s.watch != nil {
		s.watch(s.now, s.call(i).loop.Attempts()+1)
	}
	leg := s.leg()
	if leg == 0 { // then the call, which is far away in memory, is not looked at
		s.arrive(i, s.now)
		return
	}
	s.call(i).sent = s.now
	if s.timeout > 0 && leg > s.timeout {
		s.schedule(s.timeout, timesOut, i)
		s.schedule(leg, strays, 0)
		return
	}
	s.schedule(leg, arrives, i)
}

// leg returns how long a message takes.
func (s *service) leg() time.Duration {
	if s.Network <= 0 {
		return 0
	}
	return times(s.Network, exponential(s.rand))
}

// arrive has the server take a request that a call has sent. What the call will
// learn, and when, is known from here on.
func (s *service) arrive(i int, sent time.Duration) {
	done, outcome := s.serve()
	answer := later(done, s.leg()) - s.now
	if left := later(sent, s.timeout) - s.now; s.timeout > 0 && answer > left {
		answer, outcome = left, timesOut
	}
	s.schedule(answer, outcome, i)
}

// serve takes a request that arrives now, and returns when the server is done
// with it and how it ends.
func (s *service) serve() (done time.Duration, outcome kind) {
	done, outcome = s.admit()
	s.out.at(done).Done++
	return done, outcome
}

func (s *service) admit() (done time.Duration, outcome kind) {
	for _, o := range s.Outages {
		if o.Refuse && o.From <= s.now && s.now < o.To {
			return s.now, refused
		}
	}
	begins := s.now
	if s.Capacity > 0 {
		turn := times(time.Second, 1/s.Capacity)
		s.begun = max(s.begun, s.now)
		if s.Queue > 0 && s.backlog() > times(turn, float64(s.Queue)) {
			return s.now, busy
		}
		s.begun = s.work(s.begun, turn)
		begins = s.begun
	}
	takes := max(s.Latency, 0)
	if s.Slowdown > 0 {
		s.held++
		takes = later(takes, times(s.Slowdown, float64(s.held)))
	}
	done = s.work(begins, takes)
	if s.Slowdown > 0 {
		s.schedule(done-s.now, departs, 0)
	}
	if s.Failure > 0 && s.rand.Float64() < s.Failure {
		return done, fails
	}
	return done, succeeds
}

// work returns when work that begins at an instant and takes d is done: no outage
// is time to work.
func (s *service) work(at, d time.Duration) time.Duration {
	for _, o := range s.Outages {
		if at < o.To && (o.From <= at || o.From < later(at, d)) {
			d -= max(o.From-at, 0)
			at = o.To
		}
	}
	return later(at, d)
}

// backlog returns how long the server will work until it has begun all that waits.
func (s *service) backlog() time.Duration {
	d := s.begun - s.now
	for _, o := range s.Outages {
		d -= max(min(o.To, s.begun)-max(o.From, s.now), 0)
	}
	return d
}

// end takes how a call's attempt ended.
func (s *service) end(i int, err error) {
	c := s.call(i)
	wait, more := c.loop.Next(s.time(), err)
	if more {
		s.schedule(wait, sends, i)
		return
	}
	reason := retry.ReasonNone
	if e, ok := c.loop.Err().(*retry.Error); ok {
		reason = e.Reason
	} else {
		s.out.Succeeded++
		s.out.at(s.now).Succeeded++
		s.out.at(c.began).Good++
		s.out.times.add(s.now - c.began)
	}
	s.out.Ended[reason]++
	c.loop = retry.Loop{} // it holds on to its errors
	switch {
	case s.Rate <= 0:
	case s.Closed:
		s.think(i)
	default:
		s.free = append(s.free, i)
	}
}

// part returns the progress of the i-th of n parts.
func part(progress func(float64), i, n int) func(float64) {
	return func(done float64) {
		if progress != nil {
			progress((float64(i) + done) / float64(n))
		}
	}
}
