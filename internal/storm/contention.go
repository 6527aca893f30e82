package storm

import (
	"time"

	"github.com/goretry/retry"
)

// Contention is the experiment of "Exponential Backoff And Jitter" (AWS
// Architecture Blog, 2015): clients that start together and each want to write
// the same row, whose version must not have changed since they read it. A message
// takes |Normal(Delay, Spread)|, the server no time. A client whose write failed
// waits for one message's time and its policy's backoff, then reads again.
// [PublishedContention] is the article's.
type Contention struct {
	Clients       []int
	Trials        int            // whose mean the rows give
	Delay, Spread time.Duration  // of a message
	Base, Max     time.Duration  // of the backoffs
	Policies      []retry.Policy // nil: the five of the article
	Seed          uint64
	Progress      func(done float64) // told the share that is done, now and then; may be nil
}

// PublishedContention is the article's experiment.
var PublishedContention = Contention{
	Clients: []int{10, 20, 50, 100}, Trials: 100,
	Delay: 10 * time.Millisecond, Spread: 2 * time.Millisecond,
	Base: 5 * time.Millisecond, Max: 2 * time.Second,
	Seed: 1,
}

// ContentionRow is one policy's result with so many clients.
type ContentionRow struct {
	Policy  string  `json:"policy"`
	Clients int     `json:"clients"`
	Calls   float64 `json:"calls"`   // writes until each client had one succeed
	TimeMS  float64 `json:"time_ms"` // until the last of them knew
}

// Run returns a row for each number of clients and policy.
func (x Contention) Run() []ContentionRow {
	if x.Policies == nil {
		x.Policies = x.policies()
	}
	var rows []ContentionRow
	for i, n := range x.Clients {
		for j, p := range x.Policies {
			progress := part(x.Progress, i*len(x.Policies)+j, len(x.Clients)*len(x.Policies))
			var calls int
			var total time.Duration
			for trial := range x.Trials {
				c, t := x.trial(p, n, x.Seed+uint64(trial))
				calls += c
				total += t
				progress(float64(trial+1) / float64(x.Trials))
			}
			trials := float64(x.Trials)
			rows = append(rows, ContentionRow{p.Name, n, float64(calls) / trials, total.Seconds() * 1000 / trials})
		}
	}
	return rows
}

// policies returns the five of the article, whose windows are Base·2ⁿ with n from 1.
func (x Contention) policies() []retry.Policy {
	policies := []retry.Policy{
		{Name: "none", Backoff: retry.Constant(0)},
		{Name: "exponential", Backoff: retry.Exponential{Base: 2 * x.Base, Max: x.Max, Jitter: retry.NoJitter}},
		{Name: "equal", Backoff: retry.Exponential{Base: 2 * x.Base, Max: x.Max, Jitter: retry.EqualJitter}},
		{Name: "full", Backoff: retry.Exponential{Base: 2 * x.Base, Max: x.Max, Jitter: retry.FullJitter}},
		{Name: "decorrelated", Backoff: retry.Decorrelated{Base: x.Base, Max: x.Max}},
	}
	for i := range policies {
		policies[i].MaxAttempts = retry.Unlimited
	}
	return policies
}

// What happens under contention, to the client of the event's index.
const (
	atRead  kind = iota // its read reaches the server
	atWrite             // its write does
	written             // it learns that its write succeeded
	stale               // it learns that it failed
)

// trial lets n clients compete once.
func (x Contention) trial(p retry.Policy, n int, seed uint64) (calls int, total time.Duration) {
	type client struct {
		loop retry.Loop
		read int // the version it knows
	}
	k := newKernel(seed)
	p = k.ready(p)
	message := func() time.Duration {
		return (x.Delay + times(x.Spread, normal(k.rand))).Abs()
	}
	clients, version := make([]client, n), 0
	for i := range clients {
		clients[i].loop = p.Start(k.time())
		k.schedule(message(), atRead, int32(i), 0)
	}
	for e, ok := k.next(); ok; e, ok = k.next() {
		c := &clients[e.index]
		switch e.kind() {
		case atRead:
			c.read = version
			k.schedule(message()+message(), atWrite, e.index, 0)
		case atWrite:
			calls++
			outcome := stale
			if c.read == version {
				version++
				outcome = written
			}
			k.schedule(message(), outcome, e.index, 0)
		case written:
			c.loop.Next(k.time(), nil)
		case stale:
			if wait, ok := c.loop.Next(k.time(), errs[fails]); ok {
				k.schedule(wait+message(), atRead, e.index, 0)
			}
		}
	}
	return calls, k.now
}
