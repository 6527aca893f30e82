package pace_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// A service answers as a provider documents it: how it counts, how fast it refuses, and what it
// then says. It was written without regard to how a Pace learns.
type service struct {
	name  string
	least float64                               // of the quota passes, in percent, if one process has half more calls than that
	quota float64                               // units in a second
	count func(rng func() float64) counter      // how it counts
	took  time.Duration                         // about how long an answer takes
	late  [2]time.Duration                      // between which a refusal takes: 20 to 100 ms if both are zero
	says  func(wait time.Duration) error        // what a refusal says if the counter knows when it ends
	costs bool                                  // a request costs about a unit, at random; else each costs one
	users func(at time.Duration) (part float64) // of the quota that others use; nil: nobody
}

// A counter counts a request of some cost. It returns 0 if it lets it pass, and otherwise how long
// until another like it may pass. leave is called when the request has been answered.
type counter interface {
	admit(now time.Time, cost float64) (wait time.Duration)
	leave()
}

// services are what providers document.
var services = []service{
	{
		// OpenAI: requests per minute may be enforced per second, and refused requests count too.
		name: "OpenAI, 500 a minute", least: 75, quota: 500. / 60, took: 2 * time.Second, says: milliseconds,
		count: func(func() float64) counter { return &bucket{rate: 500. / 60, size: 500. / 60, debits: true} },
	},
	{
		// Anthropic: a token bucket, which is filled continuously; short bursts may exceed it.
		name: "Anthropic, 1000 a minute", least: 88, quota: 1000. / 60, took: 3 * time.Second, says: seconds,
		count: func(func() float64) counter { return &bucket{rate: 1000. / 60, size: 1000. / 60} },
	},
	{
		// Anthropic: input tokens per minute, in a bucket of a minute. The client does not tell
		// the pace what a request costs.
		name: "Anthropic, tokens", least: 100, quota: 8, took: 3 * time.Second, says: seconds, costs: true,
		count: func(func() float64) counter { return &bucket{rate: 8, size: 8 * 60} },
	},
	{
		// Azure OpenAI: requests per minute are evaluated over 1 or 10 seconds.
		name: "Azure OpenAI, 300 a minute", least: 62, quota: 5, took: 2 * time.Second, says: milliseconds,
		count: func(rng func() float64) counter { return &window{units: 50, per: 10 * time.Second, began: rng()} },
	},
	{
		// Google Cloud: a quota per minute, renewed with the minute, and exponential backoff.
		name: "Google Cloud, 1500 a minute", least: 90, quota: 25, took: 100 * time.Millisecond,
		says:  func(time.Duration) error { return retry.After(status(429), 0) },
		count: func(rng func() float64) counter { return &window{units: 1500, per: time.Minute, began: rng()} },
	},
	{
		// Google Workspace: per user and minute, 403 rateLimitExceeded.
		name: "Workspace, 300 in any minute", least: 58, quota: 5, took: 200 * time.Millisecond,
		says:  func(time.Duration) error { return retry.After(status(403), 0) },
		count: func(func() float64) counter { return &sliding{units: 300, per: time.Minute} },
	},
	{
		// GitHub: 900 points per minute; who exceeds them is refused for a minute, by 403.
		name: "GitHub, 900 a minute", least: 48, quota: 15, took: 200 * time.Millisecond,
		says: func(wait time.Duration) error {
			return retry.After(status(403), (wait + time.Second - 1).Truncate(time.Second))
		},
		count: func(func() float64) counter {
			return &penalty{counter: &sliding{units: 900, per: time.Minute}, lasts: time.Minute}
		},
	},
	{
		// AWS API Gateway: a token bucket, on a best-effort basis: here four nodes that do not know
		// each other. No Retry-After.
		name: "API Gateway, 20/s", least: 80, quota: 20, took: 50 * time.Millisecond,
		says: func(time.Duration) error { return status(429) },
		count: func(rng func() float64) counter {
			return &nodes{rng: rng, of: []counter{&bucket{rate: 5, size: 10}, &bucket{rate: 5, size: 10}, &bucket{rate: 5, size: 10}, &bucket{rate: 5, size: 10}}}
		},
	},
	{
		// Amazon S3: 503 SlowDown.
		name: "S3, 40/s", least: 95, quota: 40, took: 30 * time.Millisecond,
		says:  func(time.Duration) error { return slowDown{503} },
		count: func(func() float64) counter { return &bucket{rate: 40, size: 40} },
	},
	{
		// Stripe: 25 requests within any given second, and no Retry-After.
		name: "Stripe, 25/s", least: 82, quota: 25, took: 400 * time.Millisecond,
		says:  func(time.Duration) error { return status(429) },
		count: func(rng func() float64) counter { return &window{units: 25, per: time.Second, began: rng()} },
	},
	{
		// Shopify: a leaky bucket of 40 and 4 a second, Retry-After: 2.0.
		name: "Shopify, 4/s", least: 95, quota: 4, took: 200 * time.Millisecond,
		says:  func(time.Duration) error { return retry.After(status(429), 2*time.Second) },
		count: func(func() float64) counter { return &bucket{rate: 4, size: 40} },
	},
	{
		// Slack, tier 3: 50 and more a minute, and whole seconds.
		name: "Slack, 50 a minute", least: 55, quota: 50. / 60, took: 200 * time.Millisecond, says: seconds,
		count: func(rng func() float64) counter { return &window{units: 50, per: time.Minute, began: rng()} },
	},
	{
		// Salesforce: 25 concurrent requests, 403 REQUEST_LIMIT_EXCEEDED. Not a rate at all.
		name: "Salesforce, 25 at a time", least: 70, quota: 12.5, took: 2 * time.Second,
		says:  func(time.Duration) error { return retry.After(status(403), 0) },
		count: func(func() float64) counter { return &atOnce{places: 25} },
	},
	{
		// A gateway that holds requests for 2 to 10 seconds before it refuses them.
		name: "late refusals, 20/s", least: 85, quota: 20, took: 200 * time.Millisecond, late: [2]time.Duration{2 * time.Second, 10 * time.Second},
		says:  func(time.Duration) error { return status(429) },
		count: func(func() float64) counter { return &bucket{rate: 20, size: 20} },
	},
	{
		// A key that others use too: a fifth and seven tenths of the quota by turns.
		name: "shared, 20/s", least: 45, quota: 20, took: 200 * time.Millisecond, says: seconds,
		count: func(func() float64) counter { return &bucket{rate: 20, size: 20} },
		users: func(at time.Duration) float64 {
			if int(at.Minutes())%2 == 0 {
				return .2
			}
			return .7
		},
	},
}

// seconds is a Retry-After, which has whole seconds only.
func seconds(wait time.Duration) error {
	return retry.After(status(429), (wait + time.Second - 1).Truncate(time.Second))
}

// milliseconds is a retry-after-ms.
func milliseconds(wait time.Duration) error {
	return retry.After(status(429), (wait + time.Millisecond - 1).Truncate(time.Millisecond))
}

// slowDown is an error of S3's client.
type slowDown struct{ status }

func (slowDown) ErrorCode() string { return "SlowDown" }

// bucket is a token bucket, or a leaky one, which admits the same.
type bucket struct {
	rate, size float64
	debits     bool // a refused request takes from it too, down to -size
	used       float64
	at         time.Time
}

func (b *bucket) admit(now time.Time, cost float64) time.Duration {
	if !b.at.IsZero() {
		b.used = max(b.used-now.Sub(b.at).Seconds()*b.rate, 0)
	}
	b.at = now
	over := b.used + min(cost, b.size) - b.size
	if over <= 1e-9 {
		b.used += cost
		return 0
	}
	if b.debits {
		b.used = min(b.used+cost, 2*b.size)
		over = b.used + min(cost, b.size) - b.size
	}
	return time.Duration(math.Ceil(over / b.rate * 1e9))
}

func (*bucket) leave() {}

// window counts anew at the end of each window.
type window struct {
	units float64
	per   time.Duration
	began float64 // the part of per by which windows end earlier than that of the epoch
	used  float64
	n     int64
}

func (w *window) admit(now time.Time, cost float64) time.Duration {
	at := now.Sub(epoch) + time.Duration(w.began*float64(w.per))
	if n := int64(at / w.per); n != w.n {
		w.n, w.used = n, 0
	}
	if w.used+cost > w.units {
		return w.per - at%w.per
	}
	w.used += cost
	return 0
}

func (*window) leave() {}

// sliding counts what it has let pass within the last window.
type sliding struct {
	units int
	per   time.Duration
	log   []time.Time
}

func (s *sliding) admit(now time.Time, _ float64) time.Duration {
	for len(s.log) > 0 && now.Sub(s.log[0]) >= s.per {
		s.log = s.log[1:]
	}
	if len(s.log) >= s.units {
		return s.per - now.Sub(s.log[0])
	}
	s.log = append(s.log, now)
	return 0
}

func (*sliding) leave() {}

// penalty refuses all for some time once its counter has refused one.
type penalty struct {
	counter
	lasts time.Duration
	until time.Time
}

func (p *penalty) admit(now time.Time, cost float64) time.Duration {
	if wait := p.until.Sub(now); wait > 0 {
		return wait
	}
	if p.counter.admit(now, cost) > 0 {
		p.until = now.Add(p.lasts)
		return p.lasts
	}
	return 0
}

// nodes are counters of which a request meets any.
type nodes struct {
	rng func() float64
	of  []counter
}

func (n *nodes) admit(now time.Time, cost float64) time.Duration {
	return n.of[int(n.rng()*float64(len(n.of)))].admit(now, cost)
}

func (*nodes) leave() {}

// atOnce is how many requests may be under way.
type atOnce struct{ places int }

func (a *atOnce) admit(time.Time, float64) time.Duration {
	if a.places == 0 {
		return time.Second
	}
	a.places--
	return 0
}

func (a *atOnce) leave() { a.places++ }

// serving is a service at work.
type serving struct {
	service
	mu              sync.Mutex
	counter         counter
	rng             *rand.Rand
	passed, refused float64 // units, requests
	requests        float64
}

func (s service) serve(seed uint64) *serving {
	v := &serving{service: s, rng: rand.New(rand.NewPCG(seed, 1))}
	v.counter = s.count(v.rng.Float64)
	return v
}

// random is a number in [0,1) that is the same in each run with a seed, for one goroutine.
func (s *serving) random() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64()
}

// call is a request of a cost.
func (s *serving) call(ctx context.Context, cost float64) error {
	s.mu.Lock()
	s.requests++
	wait := s.counter.admit(time.Now(), cost)
	part := s.rng.Float64()
	took := time.Duration((.5 + part) * float64(s.took))
	if wait > 0 {
		s.refused++
		if late := s.late; late[1] > 0 {
			took = late[0] + time.Duration(part*float64(late[1]-late[0]))
		} else {
			took = 20*time.Millisecond + time.Duration(part*float64(80*time.Millisecond))
		}
	} else {
		s.passed += cost
	}
	s.mu.Unlock()
	err := clockx.System().Sleep(ctx, took)
	if wait > 0 {
		if err != nil {
			return err
		}
		return s.says(wait)
	}
	s.mu.Lock()
	s.counter.leave()
	s.mu.Unlock()
	return err
}

// others are the requests of other users of the quota, until ctx ends. Nobody retries them.
func (s *serving) others(ctx context.Context) {
	for begin := time.Now(); ctx.Err() == nil; {
		rate := s.quota * s.users(time.Since(begin))
		_ = clockx.System().Sleep(ctx, time.Duration(-math.Log(1-s.random())/rate*1e9))
		s.mu.Lock()
		if s.counter.admit(time.Now(), 1) == 0 {
			s.counter.leave()
		}
		s.mu.Unlock()
	}
}
