package storm

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/pacing"
)

// Provider is a server whose callers share quotas of requests and of tokens, as the
// APIs of language models have them, and the processes that call it. Its answers take
// 1 to 60 seconds. Now and then it is overloaded, fails, hangs or breaks a connection.
//
// Calls come at random at a Load, or are a Backlog that workers finish.
type Provider struct {
	Requests, Tokens Quota
	Counts           bool          // a request that is turned away takes from the quota of requests too
	NoHints          bool          // a 429 does not say how long to wait
	Mean             time.Duration // of the time of an answer
	Fixed            bool          // each answer takes exactly Mean, a refusal too
	Stray            float64       // the share of requests that gets 429 though there is quota left
	StrayHint        time.Duration // of such an answer; 0 means a second
	Calm             bool          // nothing else goes wrong

	Processes int
	Life      time.Duration // of a process, on average; then another takes its place. 0 means for ever
	Each      int           // calls that a process makes at most; 0 means any number
	Load      float64       // calls, as a multiple of the quota; each has two minutes
	Peaks     bool          // three quarters of the calls come in the first quarter of each minute
	Duration  time.Duration
	Backlog   int // calls to be finished instead; one that fails is made again
	Workers   int // of all processes, that make them; at least two in each
	Seed      uint64

	Watch func(at time.Duration, throttled bool) // if not nil, gets every request
}

// Quota is a token bucket, or a number that is full again at the end of each window.
type Quota struct {
	Rate, Burst float64 // per second; how much fits
	Window      time.Duration
}

// DocumentedProvider has the quotas of the tables in bench/EXPERIMENTS.md: 1500 requests and
// three million tokens in a minute. A call needs 1000 tokens on average.
var DocumentedProvider = Provider{
	Requests: Quota{Rate: 25, Burst: 250}, Tokens: Quota{Rate: 50_000, Burst: 500_000}, Mean: 5 * time.Second,
	Processes: 12, Load: 1.5, Duration: 10 * time.Minute, Workers: 300, Seed: 1,
}

const (
	travel   = 20 * time.Millisecond // of a request
	refusal  = 50 * time.Millisecond // that an answer takes which is none
	patience = 90 * time.Second      // of an attempt
	lifetime = 2 * time.Minute       // of a call that is no part of a backlog
	meanCost = 1000                  // tokens
	warmUp   = time.Minute           // after which goodput is measured
)

// ProviderResult is what became of the calls to a Provider.
type ProviderResult struct {
	Client    string        `json:"client"`
	Sent      int           `json:"requests"`
	Throttled int           `json:"throttled"` // of them, answered with 429
	Succeeded int           `json:"succeeded"` // calls
	Failed    int           `json:"failed"`    // calls; of a backlog, tries
	Goodput   float64       `json:"goodput"`   // as a share of the quota
	Median    time.Duration `json:"median_ns"` // of the times that calls took which succeeded
	P99       time.Duration `json:"p99_ns"`
	Fairness  float64       `json:"fairness"` // Jain's index of the calls that succeeded, by process
	Took      time.Duration `json:"took_ns"`
}

// Waste returns the share of the requests that were answered with 429.
func (r ProviderResult) Waste() float64 { return ratio(r.Throttled, r.Sent) }

// Failing returns the share of the calls that failed.
func (r ProviderResult) Failing() float64 { return ratio(r.Failed, r.Failed+r.Succeeded) }

// CompareClients returns the mean result of some clients, by name, over so many seeds from
// p.Seed on. Without names it compares all.
func CompareClients(p Provider, names []string, seeds int) map[string]ProviderResult {
	means := map[string]ProviderResult{}
	for _, c := range ProviderClients {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		var sum ProviderResult
		for i := range seeds {
			run := p
			run.Seed += uint64(i)
			sum.add(run.Run(c), 1/float64(seeds))
		}
		means[c.Name] = sum
	}
	return means
}

// add adds a part of another result.
func (r *ProviderResult) add(o ProviderResult, part float64) {
	count := func(n int) int { return int(math.Round(float64(n) * part)) }
	r.Client = o.Client
	r.Sent, r.Throttled = r.Sent+count(o.Sent), r.Throttled+count(o.Throttled)
	r.Succeeded, r.Failed = r.Succeeded+count(o.Succeeded), r.Failed+count(o.Failed)
	r.Goodput, r.Fairness = r.Goodput+o.Goodput*part, r.Fairness+o.Fairness*part
	r.Median, r.P99, r.Took = r.Median+times(o.Median, part), r.P99+times(o.P99, part), r.Took+times(o.Took, part)
}

// bucket is what is left of a Quota.
type bucket struct {
	Quota
	level float64
	at    time.Duration
}

func (b *bucket) refill(now time.Duration) {
	switch {
	case b.Window <= 0:
		b.level = min(b.Burst, b.level+(now-b.at).Seconds()*b.Rate)
	case now/b.Window != b.at/b.Window:
		b.level = b.Burst
	}
	b.at = now
}

// wait returns how long until n fit.
func (b *bucket) wait(n float64) time.Duration {
	switch {
	case n <= b.level:
		return 0
	case b.Window > 0:
		return b.Window - b.at%b.Window
	}
	return inSeconds((n - b.level) / b.Rate)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// buckets are what is left of a provider's quotas.
type buckets struct{ requests, tokens bucket }

// wait returns how long until a request of so many tokens fits.
func (b *buckets) wait(now time.Duration, tokens float64) time.Duration {
	b.requests.refill(now)
	b.tokens.refill(now)
	return max(b.requests.wait(1), b.tokens.wait(tokens), 0)
}

// take takes such a request.
func (b *buckets) take(tokens float64) {
	b.requests.level--
	b.tokens.level -= tokens
}

// The events of a provision that are none of a service's. The others have its names:
// calls, sends, arrives, timesOut and how an attempt ends.
const (
	expires = departs  // the deadline of a call that waits for its turn
	wakes   = proceeds // the client of the event's process wanted to be woken
)

// provision is a run of a Provider: the server, and the calls.
type provision struct {
	Provider
	*kernel
	left      buckets
	fresh     func(process int32) client
	processes []process
	places    []int32 // the process that is there now; another takes its place
	calls     []providerCall
	backlog   []int32 // calls to be made, the oldest first
	by        []int   // calls that succeeded, by place
	took      []time.Duration
	inside    int // calls that succeeded while goodput was measured
	end       time.Duration
	out       ProviderResult
}

// process makes calls.
type process struct {
	client
	place  int32
	ends   time.Duration // when another takes its place; 0: never
	begun  int           // calls
	inside int           // of them, those that are not over
	woken  time.Duration // when it is to be woken; out of date if that has passed
}

// providerCall is a call to a Provider, or one that is made again.
type providerCall struct {
	process  int32  // before it begins, the place of one
	try      uint32 // counts what the call has waited for: events of another are out of date
	tokens   float64
	began    time.Duration
	deadline time.Duration // of all attempts; the end of time in a backlog
	hint     time.Duration // of the latest answer
	retries  int
	sent     time.Duration // when its latest attempt started
	loop     *retry.Loop   // of this library's clients
	waiver   *waiver       // of those under a pace
	turn     *pacing.Turn  // of the latest attempt
}

// A client is a process that makes calls. Its methods lead to send, again or finish, at
// once or later.
type client interface {
	begin(i int32)                 // a call begins
	attempt(i int32)               // its wait for a retry is over
	answered(i int32, answer kind) // an attempt is over
	wake()                         // as the client asked for
	abandon(i int32)               // the deadline of a call that waits for its turn has passed
}

// Run returns what becomes of the calls of a client.
func (p Provider) Run(c ProviderClient) ProviderResult {
	s := &provision{
		Provider: p, kernel: newKernel(p.Seed), by: make([]int, p.Processes),
		left: buckets{bucket{p.Requests, p.Requests.Burst, 0}, bucket{p.Tokens, p.Tokens.Burst, 0}},
	}
	s.out.Client = c.Name
	s.fresh = c.start(s)
	for i := range p.Processes {
		s.places = append(s.places, s.create(int32(i)))
	}
	if p.Backlog > 0 {
		s.finishBacklog()
	} else {
		s.takeLoad()
	}
	for e, ok := s.next(); ok && s.now < s.end; e, ok = s.next() {
		s.happen(e)
		if p.Backlog > 0 && s.out.Succeeded == p.Backlog {
			break
		}
	}
	return s.result()
}

// create lets a process begin, and returns its number.
func (s *provision) create(place int32) int32 {
	n := int32(len(s.processes))
	p := process{place: place}
	if s.Life > 0 {
		p.ends = s.now + times(s.Life, s.rand.ExpFloat64())
	}
	s.processes = append(s.processes, p)
	s.processes[n].client = s.fresh(n)
	return n
}

// at returns the process at a place that makes the next call.
func (s *provision) at(place int32) int32 {
	p := &s.processes[s.places[place]]
	if s.Each > 0 && p.begun >= s.Each || p.ends > 0 && s.now >= p.ends {
		s.places[place] = s.create(place)
	}
	return s.places[place]
}

// wakeProcess has a process woken in some time, or earlier.
func (s *provision) wakeProcess(n int32, wait time.Duration) {
	wait = min(wait, time.Hour) // it may be pacing.Never
	p := &s.processes[n]
	if at := s.now + wait; p.woken <= s.now || at < p.woken {
		p.woken = at
		s.schedule(wait, wakes, n, 0)
	}
}

// quota returns how many calls per second the quotas allow.
func (p *Provider) quota() float64 { return min(p.Requests.Rate, p.Tokens.Rate/meanCost) }

func (s *provision) takeLoad() {
	s.end = s.Duration + lifetime
	for at := time.Duration(0); ; {
		load := s.Load
		if s.Peaks {
			load /= 3
			if at%time.Minute < 15*time.Second {
				load *= 9
			}
		}
		at += inSeconds(s.arrivals.ExpFloat64() / (load * s.quota()))
		if at >= s.Duration {
			return
		}
		s.schedule(at, calls, s.add(s.arrivals.IntN(s.Processes)), 0)
	}
}

func (s *provision) finishBacklog() {
	s.end = inSeconds(4 * float64(s.Backlog) / s.quota())
	for range s.Backlog {
		s.backlog = append(s.backlog, s.add(0))
	}
	for i := range max(s.Workers/s.Processes, 2) * s.Processes {
		s.take(i % s.Processes)
	}
}

func (s *provision) add(process int) int32 {
	tokens := math.Floor(min(100+s.arrivals.ExpFloat64()*900, 8000))
	s.calls = append(s.calls, providerCall{process: int32(process), tokens: tokens})
	return int32(len(s.calls) - 1)
}

// take lets a worker of a process take a call from the backlog.
func (s *provision) take(process int) {
	if len(s.backlog) > 0 {
		s.calls[s.backlog[0]].process = int32(process)
		s.schedule(0, calls, s.backlog[0], s.calls[s.backlog[0]].try)
		s.backlog = s.backlog[1:]
	}
}

func (s *provision) happen(e event) {
	if e.kind() == wakes {
		s.processes[e.index].wake()
		return
	}
	c := &s.calls[e.index]
	if e.kind() == calls {
		c.process = s.at(c.process)
		s.processes[c.process].begun++
		s.processes[c.process].inside++
	}
	client := s.processes[c.process].client
	switch {
	case e.try() != c.try:
	case e.kind() == calls:
		c.began, c.deadline, c.retries = s.now, math.MaxInt64, 0
		if s.Backlog == 0 {
			c.deadline = s.now + lifetime
		}
		client.begin(e.index)
	case e.kind() == sends:
		client.attempt(e.index)
	case e.kind() == expires:
		client.abandon(e.index)
	case e.kind() == arrives:
		s.serve(e.index)
	default:
		client.answered(e.index, e.kind())
	}
}

// send makes an attempt of a call.
func (s *provision) send(i int32) {
	c := &s.calls[i]
	c.try = following(c.try)
	c.sent = s.now
	s.schedule(travel, arrives, i, c.try)
}

// again makes a call wait for a retry. One that would wait for its deadline fails.
func (s *provision) again(i int32, wait time.Duration) {
	c := &s.calls[i]
	c.try = following(c.try)
	c.retries++
	if wait >= c.deadline-s.now {
		s.finish(i, false)
		return
	}
	s.schedule(wait, sends, i, c.try)
}

// queue makes a call wait for its turn.
func (s *provision) queue(i int32) {
	c := &s.calls[i]
	c.try = following(c.try)
	if c.deadline < math.MaxInt64 {
		s.schedule(c.deadline-s.now, expires, i, c.try)
	}
}

// finish ends a call, or one try of a backlog's.
func (s *provision) finish(i int32, ok bool) {
	c := &s.calls[i]
	c.try = following(c.try)
	s.processes[c.process].inside--
	if ok {
		s.out.Succeeded++
		s.by[s.processes[c.process].place]++
		s.took = append(s.took, s.now-c.began)
		if s.now > warmUp && s.now < s.Duration {
			s.inside++
		}
	} else {
		s.out.Failed++
	}
	if s.Backlog > 0 {
		if !ok {
			s.backlog = append(s.backlog, i)
		}
		s.take(int(s.processes[c.process].place))
	}
}

// serve decides what becomes of a request that has reached the server.
func (s *provision) serve(i int32) {
	s.out.Sent++
	c := &s.calls[i]
	answer, after, hint := s.admit(c.tokens)
	if s.Watch != nil {
		s.Watch(s.now, answer == tooMany)
	}
	if left := min(patience-travel, c.deadline-s.now); after >= left {
		answer, after, hint = timesOut, left, 0
	}
	c.hint = hint
	s.schedule(after, answer, i, c.try)
}

func (s *provision) admit(tokens float64) (answer kind, after, hint time.Duration) {
	refusal := refusal
	if s.Fixed {
		refusal = s.Mean
	}
	const every, lasts = 2 * time.Minute, 5 * time.Second
	switch {
	case s.Calm:
	case s.now%every > every-lasts && s.rand.Float64() < .5: // overloaded: 529
		return unavailable, refusal, 0
	case s.rand.Float64() < .005:
		return unavailable, refusal, 0
	}
	if s.rand.Float64() < s.Stray {
		s.out.Throttled++
		return tooMany, refusal, cmp.Or(s.StrayHint, time.Second)
	}
	if wait := s.left.wait(s.now, tokens); wait > 0 {
		s.out.Throttled++
		if s.Counts {
			s.left.requests.level = max(s.left.requests.level-1, 0)
			wait = s.left.wait(s.now, tokens)
		}
		if s.NoHints {
			return tooMany, refusal, 0
		}
		return tooMany, refusal, wait.Truncate(time.Millisecond) + time.Millisecond
	}
	s.left.take(tokens)
	const sigma = .8 // of a lognormal time
	mean := math.Log(s.Mean.Seconds()) - sigma*sigma/2
	after = inSeconds(min(max(math.Exp(mean+sigma*s.rand.NormFloat64()), 1), 60))
	if s.Fixed {
		after = s.Mean
	}
	switch x := s.rand.Float64(); {
	case s.Calm || x > .005:
		return succeeds, after, 0
	case x > .002: // the connection breaks
		return fails, after, 0
	}
	return timesOut, math.MaxInt64, 0 // hangs
}

func (s *provision) result() ProviderResult {
	r := s.out
	r.Took = min(s.now, s.end)
	r.Goodput = float64(s.inside) / (s.quota() * (s.Duration - warmUp).Seconds())
	if s.Backlog > 0 {
		r.Goodput = float64(r.Succeeded) / (s.quota() * r.Took.Seconds())
	}
	if len(s.took) > 0 {
		r.Median, r.P99 = Quantile(s.took, .5), Quantile(s.took, .99)
	}
	var sum, squares float64
	for _, n := range s.by {
		sum, squares = sum+float64(n), squares+float64(n)*float64(n)
	}
	if squares > 0 {
		r.Fairness = sum * sum / (float64(len(s.by)) * squares)
	}
	return r
}
