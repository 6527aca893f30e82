package storm

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

// Service is clients, one or more servers, and the network between them. The zero value
// is one client that calls a perfect server once. Negative numbers count as zero, except
// in Queue.
//
// Each call is a [retry.Loop]. A policy's AttemptTimeout is how long its client
// waits for an answer. To the policy an answer that does not come is
// [retry.ErrAttemptTimeout], a failure is Transient, and a refusal what its
// [Answer] says.
type Service struct {
	Processes int  // that call, with a budget each; 0: 1
	Shared    bool // all processes share one budget, which none of them begins with

	// CallsPerProcess is how many calls a process begins before it ends. Then a new one
	// takes its place, with a budget, a limit and a hedge that nobody has used. 0: it
	// never ends.
	CallsPerProcess int

	Rate   float64 // calls per second of all processes together; 0: each client makes one call, at once
	Spikes []Spike // when the rate is another; they must not overlap

	// Closed clients make one call at a time, and think in between: for a random
	// time, Clients/Rate on average. If not closed, calls come at random times,
	// whatever has become of the earlier ones, and Clients counts only without a
	// Rate.
	Closed  bool
	Clients int // who belong to the processes in turn; 0: 1

	// Duration is how long calls begin, with a Rate; 0 means a minute. Calls that
	// have begun are followed for as long again.
	Duration time.Duration

	// Servers is how many servers there are side by side, each of them as the fields
	// below say; 0: 1. They are replicas behind a balancer, which sends each request to
	// any of them at random. If Sharded, all requests of a call go to the same one, and
	// the result is that of the servers that an outage hits. If then Apart, each process
	// has a budget for each of them.
	Servers        int
	Sharded, Apart bool

	Workers     int           // requests that the server works on at once; 0: no limit but Capacity
	Latency     time.Duration // the time that a request takes to be worked on
	Exponential bool          // that time, and the one between two beginnings, are random, with these means
	Capacity    float64       // requests that a server without Workers begins per second, one after the other; 0: no limit
	Slowdown    time.Duration // is added to Latency for each request that the server works on, this one included
	Discipline  Discipline    // which of the requests is worked on
	Drop        bool          // what nobody waits for any more is dropped, waiting or half done; else it is served
	Queue       int           // requests that may wait to begin; 0: no limit; negative: none may wait
	Full        Answer        // to one more; Hang and Slow count as Unavailable
	Refusing    time.Duration // the work of refusing one because the queue is full: the next request that begins takes as much longer
	Failure     float64       // the share of the requests that fail, at random
	Lost        float64       // the share of the others whose answer gets lost, at random: the client waits until its timeout
	Outages     []Outage      // in order; they must not overlap

	Network time.Duration // the mean of a message's time, each way; exponentially distributed
	Timeout time.Duration // the AttemptTimeout of policies that have none; 0: they wait for ever

	// Gateway is how long a gateway before the server waits for an answer; 0: there is
	// none. Then it answers as Unavailable does, which proves nothing: the server works
	// on. It counts from when the request was sent, and matters only if it is shorter
	// than the Timeout.
	Gateway time.Duration

	// Quota is what all servers together take: a request beyond it gets TooMany at once,
	// without a hint. A zero Rate means none.
	Quota Quota

	Pace       bool            // each process has a pace.Pace that was told its part of the Quota; not with Hedge
	Limit      *limit.Adaptive // each process has one with the same fields around its requests; nil: none
	Hedge      bool            // an attempt that has taken HedgeDelay gets a second request, as package hedge does
	HedgeDelay time.Duration   // 0: measured, so that every twentieth attempt gets one

	Bucket   time.Duration // of the result; 0: 100 ms
	Timed    time.Duration // when the calls begin whose times count
	Seed     uint64
	Parallel int    // runs that Trials makes at once, each with memory of its own; 0, and at most: as many as there are processors
	Ran      func() // is called after each of these runs, by the goroutine that called Trials; may be nil
}

// Spike is a time in which clients call at another rate.
type Spike struct {
	From, To time.Duration
	Rate     float64
}

// Outage is a time in which the server does no work, or works slowly. What it was
// doing waits until the end, and so does what comes in, unless that gets an Answer.
type Outage struct {
	From, To time.Duration
	Answer   Answer
	Factor   float64 // of a Slow one: how many times as long work takes; below 1: 1
	Servers  int     // how many of them it hits; 0: all
}

// Discipline says which of the requests at a server is worked on.
type Discipline uint8

// With FIFO, the oldest of the requests that wait is begun first; with LIFO the newest;
// with Random any. With Sharing none waits: a server with Workers shares them equally
// among all its requests, as the processes on a machine share its cores. Then its Queue
// is how many more requests than workers there may be. Without Workers it counts as FIFO.
const (
	FIFO Discipline = iota
	LIFO
	Random
	Sharing
)

// Answer is what a server does with a request that it cannot take.
type Answer uint8

// Hang keeps the request waiting. Unavailable, TooMany and Refused answer at once: as
// a 503 does, which is Transient; as a 429 does, which is Throttled; and as a closed
// port does, which is Unprocessed. Slow is for outages only: it takes the request, and
// works slowly.
const (
	Hang Answer = iota
	Unavailable
	TooMany
	Refused
	Slow
)

// hit returns how many of the servers an outage hits, and the greatest number if one
// hits all or there is none.
func (s Service) hit() (most int) {
	for _, o := range s.Outages {
		if o.Servers <= 0 {
			return math.MaxInt
		}
		most = max(most, o.Servers)
	}
	if most == 0 {
		return math.MaxInt
	}
	return most
}

// MaxRate returns how many requests per second all servers together can sustain, or
// +Inf if there is no limit.
func (s Service) MaxRate() float64 {
	servers := float64(max(s.Servers, 1))
	if s.Quota.Rate > 0 {
		quota := s.Quota.Rate
		s.Quota = Quota{}
		return min(quota, s.MaxRate())
	}
	if s.Workers > 0 {
		return servers * float64(s.Workers) / max(s.Latency+time.Duration(s.Workers)*max(s.Slowdown, 0), 1).Seconds()
	}
	most := 1 / max(s.Slowdown, 0).Seconds()
	if s.Capacity > 0 {
		most = min(most, s.Capacity)
	}
	return servers * most
}

// What happens in a service.
const (
	calls       kind = iota // a client calls: the one of the event's index if Closed, else any
	sends                   // the call's wait is over
	arrives                 // its request reaches the server
	passes                  // the attempt may be hedged
	departs                 // the server is done with the request of the event's index
	proceeds                // at the server of the event's index a turn is over, or the next of those that share it is done
	turns                   // it may be the call's turn, under a pace
	succeeds                // the call learns that its request succeeded; this and the rest end an attempt
	fails                   // that it failed
	unavailable             // that it was answered with a 503
	tooMany                 // with a 429
	refused                 // that nobody listens
	timesOut                // the call waits no longer for an answer
	lost                    // another request of the attempt was faster; never an event
	vanishes                // its answer gets lost; never an event
)

// call is a client's call: little more than its Loop, since there may be millions.
// What stands in an event, or at the server, of another of its tries is out of date.
type call struct {
	began   time.Duration
	sent    time.Duration // its latest attempt
	try     uint32        // counts the attempts that were made in this place
	request int32         // its latest at a server's workers or queue; none, or over
	server  int32         // that it goes to, if Sharded
	loop    *retry.Loop
	waiver  *waiver // of a call under a pace
}

// over as a call's request says that the call has ended, or not begun.
const over = -2

// chunk is how many calls are allocated at once: one slice that grows would copy them all.
const chunk = 1024

// A run of more attempts is given up, see Result.Flooded.
const floodStart, floodPerCall = 200_000, 100

type service struct {
	Service
	*kernel
	places
	guards
	servers  []server
	policies []retry.Policy // one for each budget: of each process, and then of each server if they are Apart
	begun    []int          // calls of each process that is there now
	timeout  time.Duration
	means    [lost + 1]retry.Verdict // what each outcome means to the policies; zero for succeeds
	gateway  bool                    // the timeout is that of a gateway
	calls    []*[chunk]call
	free     []int32       // indices of calls that are over
	loops    []*retry.Loop // of calls that are over
	attempts int
	out      *Result
	others   *Result // of the servers that no outage hits; out if all are counted
	hit      int     // how many are: the first ones
	quota    bucket
}

// result returns where to count what happens at a server, which is only known before a
// request has arrived if they are Sharded.
func (s *service) result(server int32) *Result {
	if s.Sharded && int(server) >= s.hit {
		return s.others
	}
	return s.out
}

// Run lets the clients call with policy p and returns what became of it. The same
// Service gives the same Result: the run has a clock and random numbers of its own,
// and each process a fresh budget, see [Fresh]. Hooks are not called.
func (s Service) Run(p retry.Policy) *Result { return s.run(context.Background(), p) }

// run is Run that stops when ctx ends, and then returns nil.
func (s Service) run(ctx context.Context, p retry.Policy) *Result {
	s.Clients, s.Processes = max(s.Clients, 1), max(s.Processes, 1)
	s.Bucket = cmp.Or(max(s.Bucket, 0), 100*time.Millisecond)
	s.Duration = cmp.Or(max(s.Duration, 0), time.Minute)
	s.Closed = s.Closed && s.Rate > 0
	s.Servers, s.CallsPerProcess = max(s.Servers, 1), max(s.CallsPerProcess, 0)
	if s.Workers <= 0 && s.Discipline == Sharing {
		s.Discipline = FIFO
	}
	r := &service{Service: s, kernel: newKernel(s.Seed), servers: make([]server, s.Servers)}
	r.open()
	r.timeout = cmp.Or(max(p.AttemptTimeout, 0), max(s.Timeout, 0))
	if s.Gateway > 0 && (r.timeout <= 0 || s.Gateway < r.timeout) {
		r.timeout, r.gateway = s.Gateway, true
	}
	r.out = NewResult(s.Bucket, s.Duration)
	r.others = r.out
	if s.Sharded {
		r.others = NewResult(s.Bucket, s.Duration)
	}
	r.out.from, r.others.from = s.Timed, s.Timed
	r.hit = s.hit()
	end := later(s.Duration, s.Duration)
	if s.Rate <= 0 {
		end, r.out.last, r.others.last = math.MaxInt64, maxBuckets, maxBuckets
	}
	r.begun = make([]int, s.Processes)
	r.policies = make([]retry.Policy, r.budgets(s.Processes))
	if s.Shared {
		r.policies = r.policies[:r.budgets(1)]
	}
	for i := range r.policies {
		r.policies[i] = r.ready(p)
	}
	for outcome, err := range errs {
		if kind(outcome) == timesOut && r.gateway {
			err = errs[unavailable]
		}
		if err != nil {
			r.means[outcome] = r.policies[0].Judge(err) // once: the policies differ only in their budgets
		}
	}
	r.quota = bucket{Quota: s.Quota, level: s.Quota.Burst}
	r.guard()
	if s.Rate > 0 && !s.Closed {
		r.think(0)
	} else {
		for range s.Clients {
			r.think(r.place())
		}
	}
	if !r.loop(ctx, end) {
		return nil
	}
	r.close(end)
	return r.out
}

// loop makes happen what happens. It reports false if ctx has ended.
func (s *service) loop(ctx context.Context, end time.Duration) bool {
	events := 0
	for e, ok := s.next(); ok && e.at <= end; e, ok = s.next() {
		if events++; events%4096 == 0 && ctx.Err() != nil {
			return false
		}
		switch e.kind() {
		case calls:
			s.begin(e.index)
		case sends:
			s.send(e.index)
		case arrives:
			s.arrive(e.index, e.try())
		case departs:
			if q := s.request(e.index); q.departure == e.try() { // else it was dropped
				s.finish(e.index, q.wasted)
			}
		case proceeds:
			if s.Discipline == Sharing {
				s.complete(e.index, e.try())
			} else {
				s.proceed(e.index)
			}
		default:
			switch i, try, outcome := e.index, e.try(), e.kind(); {
			case !s.current(i, try):
			case outcome == passes:
				s.pass(i, try)
			case outcome == turns:
				s.reachTurn(i)
			case s.settled(i, try, outcome):
				s.end(i, outcome)
			}
		}
		if s.attempts > floodStart+floodPerCall*max(s.out.Asked, s.others.Asked) {
			s.out.Flooded = true
			return true
		}
	}
	return true
}

// close counts the time of the calls that still run.
func (s *service) close(end time.Duration) {
	if s.Rate <= 0 || s.out.Flooded {
		end = s.now
	}
	for _, calls := range s.calls {
		for i := range calls {
			if c := &calls[i]; c.request != over {
				s.result(c.server).time(c.began, end)
			}
		}
	}
}

// think schedules the next call of a client, or of all of them if they are not
// closed. A wait that would pass a change of the rate is drawn anew from there:
// the exponential distribution has no memory. Without a rate the call is at once.
func (s *service) think(client int32) {
	clients := 1.0
	if s.Closed {
		clients = float64(s.Clients)
	}
	if s.Rate <= 0 {
		s.schedule(0, calls, client, 0)
		return
	}
	for at := s.now; at < s.Duration; {
		rate, until := s.rate(at)
		if rate > 0 {
			wait := times(time.Second, s.arrivals.ExpFloat64()*clients/rate)
			if wait < until-at {
				s.schedule(at+wait-s.now, calls, client, 0)
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

// current reports whether a call still waits for what has this try: a hedge's is
// odd, the attempt's own one less.
func (s *service) current(i int32, try uint32) bool { return s.call(i).try == try&^1 }

// begin starts a call of a client.
func (s *service) begin(i int32) {
	process := int(i)
	if s.Rate > 0 && !s.Closed {
		s.think(0)
		process, i = s.arrivals.IntN(s.Processes), s.place()
	}
	process %= s.Processes
	if s.begun[process]++; s.CallsPerProcess > 0 && s.begun[process] > s.CallsPerProcess {
		s.replace(process)
	}
	c := s.call(i)
	if s.Sharded {
		c.server = int32(s.arrivals.IntN(s.Servers))
	}
	p := s.policies[s.budget(process, c.server)]
	if s.pacers != nil {
		p, c.waiver = waiving(p)
	}
	c.loop = s.newLoop(p)
	c.began, c.request = s.now, none
	s.guardCall(i, process)
	out := s.result(c.server)
	out.Asked++
	out.At(s.now).Asked++
	s.send(i)
}

// newLoop starts a run, in the place of a Loop that is over: one for each call on the heap
// is a third more processor time.
func (s *service) newLoop(p retry.Policy) (l *retry.Loop) {
	last := len(s.loops) - 1
	if last < 0 {
		return p.Start(s.Now())
	}
	l, s.loops = s.loops[last], s.loops[:last]
	//retryvet:ignore copied: it is new, and nobody has another
	*l = *p.Start(s.Now())
	return l
}

// budgets returns how many budgets so many processes have.
func (s *service) budgets(processes int) int {
	if s.Sharded && s.Apart {
		return processes * s.Servers
	}
	return processes
}

// budget returns which of the policies a process calls a server with.
func (s *service) budget(process int, server int32) int {
	if s.Shared {
		process = 0
	}
	if s.Sharded && s.Apart {
		return process*s.Servers + int(server)
	}
	return process
}

// replace puts a new process in the place of one, with its first call.
func (s *service) replace(process int) {
	s.begun[process] = 1
	if !s.Shared {
		for i := s.budgets(process); i < s.budgets(process+1); i++ {
			s.policies[i].Budget = Fresh(s.policies[i].Budget)
		}
	}
	s.guardProcess(process)
}

// place returns the index of a call that is not in use.
func (s *service) place() int32 {
	if len(s.free) == 0 {
		calls := new([chunk]call)
		for i := range calls {
			calls[i].request = over
			s.free = append(s.free, int32((len(s.calls)+1)*chunk-1-i))
		}
		s.calls = append(s.calls, calls)
		if s.limits != nil || s.hedgers != nil || s.pacers != nil {
			s.guarded = append(s.guarded, make([]guarded, chunk)...)
		}
	}
	last := len(s.free) - 1
	i := s.free[last]
	s.free = s.free[:last]
	return i
}

func (s *service) call(i int32) *call { return &s.calls[i/chunk][i%chunk] }

// send makes a call's next attempt, if its guards let it.
func (s *service) send(i int32) {
	if s.admitted(i) {
		s.attempt(i)
	}
}

// attempt makes an attempt.
func (s *service) attempt(i int32) {
	c := s.call(i)
	c.sent = s.now
	if s.hedgers != nil {
		s.race(i, c.try)
	}
	s.launch(i, c.try)
}

// launch sends a request on its way.
func (s *service) launch(i int32, try uint32) {
	s.attempts++
	out := s.result(s.call(i).server)
	out.Sent++
	out.At(s.now).Sent++
	leg := s.leg()
	if leg == 0 {
		s.arrive(i, try)
		return
	}
	if s.timeout > 0 && leg > s.timeout && s.hedgers == nil {
		s.schedule(s.timeout, timesOut, i, try)
	}
	s.schedule(leg, arrives, i, try)
}

// leg returns how long a message takes.
func (s *service) leg() time.Duration {
	if s.Network <= 0 {
		return 0
	}
	return times(s.Network, s.rand.ExpFloat64())
}

// answer lets a call learn what has become, or will have become at an instant, of
// its request, unless it stops waiting before. The timeout's own event may be
// scheduled already.
func (s *service) answer(i int32, try uint32, at time.Duration, outcome kind, timed bool) (late bool) {
	c := s.call(i)
	if !s.current(i, try) {
		return true
	}
	at = later(at, s.leg())
	if outcome == vanishes {
		at = math.MaxInt64
	}
	if deadline := later(c.sent, s.timeout); s.timeout > 0 && at > deadline {
		if !timed && s.hedgers == nil {
			s.schedule(deadline-s.now, timesOut, i, try)
		}
		return true
	}
	s.schedule(at-s.now, outcome, i, try)
	return false
}

// end takes how a call's attempt ended.
func (s *service) end(i int32, outcome kind) {
	c := s.call(i)
	c.try = following(c.try)
	if s.Drop && outcome == timesOut && c.request >= 0 {
		s.abandon(c.request)
	}
	c.request = none
	c.waiver.waive(s.pacers != nil && outcome == tooMany)
	if s.pacers != nil {
		s.guarded[i].pacer.End(s.Now(), s.guarded[i].turn, meaning[outcome], 0, false)
		s.stir(s.guarded[i].pacer)
	}
	wait, more := c.loop.Judged(s.Now(), s.means[outcome])
	if more {
		s.schedule(wait, sends, i, c.try)
		return
	}
	reason := retry.ReasonNone
	if e, ok := c.loop.Err().(*retry.Error); ok {
		reason = e.Reason
	}
	s.conclude(i, reason)
}

// conclude ends a call.
func (s *service) conclude(i int32, reason retry.Reason) {
	c := s.call(i)
	s.result(c.server).End(c.began, s.now, reason)
	*c.loop = retry.Loop{} // it holds on to its errors
	s.loops = append(s.loops, c.loop)
	c.loop, c.request = nil, over
	if s.Closed {
		s.think(i)
	} else {
		s.free = append(s.free, i)
	}
}
