package storm

import (
	"cmp"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/pacing"
)

// ProviderClient is how the processes that call a [Provider] retry.
type ProviderClient struct {
	Name  string
	start func(s *provision) func(process int32) client
}

// ProviderClients are this library's policy for such a server without and with paces, each of which was told
// an equal part of the quota of requests, the rules of other clients, and one queue of all processes that knows the quotas.
var ProviderClients = []ProviderClient{
	{"policy", each(func(s *provision) client { return s.own() })},
	{"policy without a budget", each(func(s *provision) client {
		c := s.own()
		c.policy.Budget = nil
		return c
	})},
	{"openai-go", each(func(s *provision) client { return &simple{s, openaiGo} })},
	{"go-retryablehttp", each(func(s *provision) client { return &simple{s, retryablehttp} })},
	{"AWS adaptive", each(func(s *provision) client {
		return &adaptive{simple: simple{s, awsStandard}, last: s.now, tokens: 500, paid: map[int32]int{}}
	})},
	{"pace of its part", func(s *provision) func(int32) client {
		return func(process int32) client { return s.paced(process) }
	}},
	{"one queue", func(s *provision) func(int32) client {
		q := &knowing{own: s.own(), quotas: s.left}
		q.policy.Budget = nil
		return func(int32) client { return q }
	}},
}

func each(fresh func(*provision) client) func(*provision) func(int32) client {
	return func(s *provision) func(int32) client { return func(int32) client { return fresh(s) } }
}

// own is a process with this library's policy for such a server.
type own struct {
	*provision
	policy  retry.Policy
	isPaced bool // a pace limits the retries that follow a 429
}

func (s *provision) own() *own {
	p := retry.Policy{MaxAttempts: 5, MaxRetryAfter: time.Minute, Budget: &retry.EarnedBudget{}}
	return &own{provision: s, policy: s.ready(p)}
}

func (c *own) begin(i int32)   { c.start(i); c.send(i) }
func (c *own) attempt(i int32) { c.send(i) }
func (c *own) wake()           {}
func (c *own) abandon(int32)   {}

func (c *own) start(i int32) {
	call, p := &c.calls[i], c.policy
	if c.isPaced {
		p, call.waiver = waiving(p)
	}
	call.loop = p.Start(c.Now())
}

func (c *own) answered(i int32, answer kind) {
	call := &c.calls[i]
	if answer == succeeds {
		call.loop.Next(c.Now(), nil)
		c.finish(i, true)
		return
	}
	err := errs[answer]
	if answer == tooMany && call.hint > 0 {
		err = retry.After(err, call.hint)
	}
	v := c.policy.Judge(err)
	call.waiver.waive(answer == tooMany)
	if wait, ok := call.loop.Judged(c.Now(), v); ok && wait < call.deadline-c.now {
		c.again(i, wait)
	} else {
		c.give(i)
	}
}

// give ends a call that failed.
func (c *own) give(i int32) {
	if call := &c.calls[i]; call.loop.Err() == nil {
		call.loop.Next(c.Now(), retry.Stop(errs[timesOut])) // its place in the budget
	}
	c.finish(i, false)
}

// pacedClient is a process whose calls share a pace.Pace.
type pacedClient struct {
	*own
	process int32
	pacer   pacing.Pacer
}

func (s *provision) paced(process int32) *pacedClient {
	c := &pacedClient{own: s.own(), process: process}
	c.isPaced = true
	part := 1 / float64(s.Processes)
	c.pacer.Know(s.Now(), part*s.Requests.Rate, part*s.Requests.Burst)
	return c
}

func (c *pacedClient) begin(i int32) { c.start(i); c.attempt(i) }

func (c *pacedClient) attempt(i int32) {
	call := &c.calls[i]
	call.turn = &pacing.Turn{Owner: i}
	left := call.deadline - c.now
	if call.deadline < math.MaxInt64 {
		left /= 2
	}
	switch wait, ok := c.pacer.Enter(c.Now(), call.turn, left); {
	case !ok:
		c.give(i)
	case wait > 0:
		c.queue(i)
	default:
		c.send(i)
	}
	c.wake()
}

func (c *pacedClient) abandon(i int32) {
	c.pacer.Leave(c.calls[i].turn)
	c.give(i)
}

// wake sends those whose turns have come.
func (c *pacedClient) wake() {
	for t := c.pacer.First(); t != nil; t = c.pacer.First() {
		switch {
		case c.pacer.TryStart(c.Now(), t):
			c.send(t.Owner.(int32))
		case t.Late > 0:
			c.give(t.Owner.(int32))
		default:
			wait, _ := c.pacer.Sleep(t)
			c.wakeProcess(c.process, wait)
			return
		}
	}
}

func (c *pacedClient) answered(i int32, answer kind) {
	c.pacer.End(c.Now(), c.calls[i].turn, meaning[answer], c.calls[i].hint, false)
	c.wake()
	c.own.answered(i, answer)
}

// meaning says what an answer tells of a quota. Others tell nothing.
var meaning = map[kind]health.Outcome{succeeds: health.Passed, tooMany: health.Failed}

// knowing is a queue for all processes that knows the quotas: the bound.
type knowing struct {
	*own
	quotas buckets
}

func (c *knowing) begin(i int32) { c.start(i); c.attempt(i) }

func (c *knowing) attempt(i int32) {
	call := &c.calls[i]
	wait := c.quotas.wait(c.now, call.tokens)
	if call.deadline < math.MaxInt64 && wait > (call.deadline-c.now)/2 {
		c.give(i)
		return
	}
	c.quotas.take(call.tokens)
	call.try = following(call.try)
	c.schedule(wait+time.Millisecond+travel, arrives, i, call.try)
}

// simple is a process whose retries follow one rule.
type simple struct {
	*provision
	rule func(s *provision, retries int, answer kind, hint time.Duration) (wait time.Duration, ok bool)
}

func (c *simple) begin(i int32)   { c.send(i) }
func (c *simple) attempt(i int32) { c.send(i) }
func (c *simple) wake()           {}
func (c *simple) abandon(int32)   {}

func (c *simple) answered(i int32, answer kind) {
	if answer == succeeds {
		c.finish(i, true)
		return
	}
	call := &c.calls[i]
	if wait, ok := c.rule(c.provision, call.retries, answer, call.hint); ok {
		c.again(i, wait)
		return
	}
	c.finish(i, false)
}

// openaiGo is the rule of openai-go: internal/requestconfig, retryDelay.
func openaiGo(s *provision, retries int, answer kind, hint time.Duration) (time.Duration, bool) {
	if retries >= 2 {
		return 0, false
	}
	if 0 < hint && hint < time.Minute {
		return hint, true
	}
	wait := min(500*time.Millisecond<<retries, 8*time.Second)
	return wait - times(wait/4, s.rand.Float64()), true
}

// retryablehttp is the rule of go-retryablehttp: DefaultBackoff.
func retryablehttp(s *provision, retries int, answer kind, hint time.Duration) (time.Duration, bool) {
	if retries >= 4 {
		return 0, false
	}
	if hint > 0 {
		return (hint + time.Second - 1).Truncate(time.Second), true
	}
	return min(time.Second<<retries, 30*time.Second), true
}

// awsStandard is the delay of aws-sdk-go-v2: aws/retry, ExponentialJitterBackoff.
func awsStandard(s *provision, retries int, answer kind, hint time.Duration) (time.Duration, bool) {
	if retries >= 2 {
		return 0, false
	}
	return min(times(2*time.Second<<retries, s.rand.Float64()), 20*time.Second), true
}

// adaptive is the adaptive mode of aws-sdk-go-v2: aws/retry, adaptive_ratelimit.go, with
// the retry tokens of its standard mode.
type adaptive struct {
	simple
	on                                  bool
	fill, level, most                   float64
	rate, slice, count, maxRate, window float64
	last, filled                        time.Duration
	tokens                              int
	paid                                map[int32]int // by a call for its latest retry
}

func (c *adaptive) begin(i int32) { c.attempt(i) }

// attempt takes a token. A call that finds none looks again when one should be there.
func (c *adaptive) attempt(i int32) {
	if !c.on {
		c.send(i)
		return
	}
	c.refill()
	if c.level >= 1 {
		c.level--
		c.send(i)
		return
	}
	c.calls[i].retries--
	c.again(i, max(inSeconds((1-c.level)/c.fill), 20*time.Millisecond))
}

func (c *adaptive) refill() {
	c.level = min(c.level+(c.now-c.filled).Seconds()*c.fill, c.most)
	c.filled = c.now
}

func (c *adaptive) answered(i int32, answer kind) {
	c.update(answer == tooMany)
	call := &c.calls[i]
	switch cost := cmp.Or(map[kind]int{timesOut: 10}[answer], 5); {
	case answer == succeeds: // gets back what its latest retry has cost: RetryCost's release
		c.tokens = min(c.tokens+1+c.paid[i], 500)
		delete(c.paid, i)
	case call.retries < 2 && c.tokens < cost:
		c.finish(i, false)
		return
	case call.retries < 2:
		c.tokens -= cost
		c.paid[i] = cost
	default:
		delete(c.paid, i)
	}
	c.simple.answered(i, answer)
}

func (c *adaptive) update(throttled bool) {
	half := math.Floor(c.now.Seconds()*2) / 2
	if c.count++; half > c.slice {
		c.rate = .8*c.count/(half-c.slice) + .2*c.rate
		c.count, c.slice = 0, half
	}
	var rate float64
	if throttled {
		use := c.rate
		if c.on {
			use = min(use, c.fill)
		}
		c.maxRate, c.last, c.on = use, c.now, true
		rate = use * .7
	} else {
		c.window = math.Cbrt(c.maxRate * .3 / .4)
		rate = .4*math.Pow((c.now-c.last).Seconds()-c.window, 3) + c.maxRate
	}
	c.refill()
	c.fill = max(min(rate, 2*c.rate), .5)
	c.most = max(c.fill, 1)
	c.level = min(c.level, c.most)
}
