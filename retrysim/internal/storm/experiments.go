package storm

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

// Contention is the experiment of "Exponential Backoff And Jitter" (AWS
// Architecture Blog, 2015): clients that start together and each want to write
// the same row, whose version must not have changed since they read it. A message
// takes |Normal(Delay, Spread)|, the server no time. A client whose write failed
// waits for one message's time and its policy's backoff, then reads again.
type Contention struct {
	Clients       []int
	Trials        int           // whose mean the rows give
	Delay, Spread time.Duration // of a message
	Base, Max     time.Duration // of the backoffs
	Seed          uint64
}

// PublishedContention is the article's experiment.
var PublishedContention = Contention{
	Clients: []int{10, 20, 50, 100}, Trials: 100, Seed: 1,
	Delay: 10 * time.Millisecond, Spread: 2 * time.Millisecond,
	Base: 5 * time.Millisecond, Max: 2 * time.Second,
}

// ContentionRow is one policy's result with so many clients.
type ContentionRow struct {
	Policy  string  `json:"policy"`
	Clients int     `json:"clients"`
	Calls   float64 `json:"calls"`   // writes until each client had one succeed
	TimeMS  float64 `json:"time_ms"` // until the last of them knew
}

// Run returns a row for each number of clients and policy.
func (x Contention) Run() (rows []ContentionRow) {
	for _, n := range x.Clients {
		for _, p := range x.policies() {
			var calls int
			var total time.Duration
			for trial := range x.Trials {
				c, t := x.trial(p, n, x.Seed+uint64(trial))
				calls, total = calls+c, total+t
			}
			trials := float64(x.Trials)
			rows = append(rows, ContentionRow{p.Name, n, float64(calls) / trials, total.Seconds() * 1000 / trials})
		}
	}
	return rows
}

// policies returns the five of the article, whose windows are Base·2ⁿ with n from 1.
func (x Contention) policies() []retry.Policy {
	return []retry.Policy{
		{Name: "none", Backoff: retry.Constant(0)},
		{Name: "exponential", Backoff: retry.Exponential{Base: 2 * x.Base, Max: x.Max, Jitter: retry.NoJitter}},
		{Name: "equal", Backoff: retry.Exponential{Base: 2 * x.Base, Max: x.Max, Jitter: retry.EqualJitter}},
		{Name: "full", Backoff: retry.Exponential{Base: 2 * x.Base, Max: x.Max, Jitter: retry.FullJitter}},
		{Name: "decorrelated", Backoff: retry.Decorrelated{Base: x.Base, Max: x.Max}},
	}
}

// What happens under contention, to the client of the event's index, before it
// learns that its write succeeds or fails.
const (
	atRead  = sends   // its read reaches the server
	atWrite = arrives // its write does
)

// trial lets n clients compete once.
func (x Contention) trial(p retry.Policy, n int, seed uint64) (calls int, total time.Duration) {
	type client struct {
		loop *retry.Loop
		read int // the version it knows
	}
	k := newKernel(seed)
	p = k.ready(p)
	p.MaxAttempts = retry.Unlimited
	message := func() time.Duration {
		return (x.Delay + times(x.Spread, k.rand.NormFloat64())).Abs()
	}
	clients, version := make([]client, n), 0
	for i := range clients {
		clients[i].loop = p.Start(k.Now())
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
			outcome := fails
			if c.read == version {
				version++
				outcome = succeeds
			}
			k.schedule(message(), outcome, e.index, 0)
		default:
			if wait, ok := c.loop.Next(k.Now(), errs[e.kind()]); ok {
				k.schedule(wait+message(), atRead, e.index, 0)
			}
		}
	}
	return calls, k.now
}

// AmplificationRow is one policy's result at one failure rate.
type AmplificationRow struct {
	Policy  string  `json:"policy"`
	Failure float64 `json:"failure"` // the share of requests that fail
	Load    float64 `json:"load"`    // attempts per call
	Success float64 `json:"success"` // the share of the calls that succeed
}

// Amplification is the experiment of "Fixing retries with token buckets and
// circuit breakers" (Marc Brooker, 2022): how much load three policies add when a
// share of all requests fails, whatever the load. They are none, so many attempts,
// and as many with a budget.Ratio.
func Amplification(s Service, failures []float64, attempts int, ratio float64) (rows []AmplificationRow) {
	policies := []retry.Policy{
		{Name: "none", MaxAttempts: 1},
		{Name: "unbudgeted", MaxAttempts: attempts},
		{Name: "ratio", MaxAttempts: attempts, Budget: &budget.Ratio{Ratio: ratio}},
	}
	for _, f := range failures {
		s.Failure = f
		for i, r := range s.Trials(context.Background(), policies, 1) {
			rows = append(rows, AmplificationRow{policies[i].Name, f, r[0].Load(), r[0].Success()})
		}
	}
	return rows
}

// PublishedAmplification is the Service of that experiment: 100 clients with 10
// calls per second each, and one budget. Its failures are .1, .5 and 1, the
// attempts 4 and the ratio .1.
var PublishedAmplification = Service{Rate: 1000, Processes: 100, Shared: true, Seed: 1}

// PublishedCollapse is the simulation simple_collapse_sim of Marc Brooker's
// simulator_example: a server that gets slower with each request it holds, a spike
// that overloads it for a few seconds, and clients that stop waiting. Immediate
// retries keep it overloaded for ever.
var PublishedCollapse = Collapse{
	Service: Service{
		Rate: 40, Spikes: []Spike{{20 * time.Second, 25 * time.Second, 80}}, Duration: 80 * time.Second,
		Latency: time.Second, Slowdown: 10 * time.Millisecond, Network: 100 * time.Millisecond, Timeout: 3 * time.Second, Seed: 1,
	},
	Attempts: 3, Base: 20 * time.Second, Trials: 51,
	Windows: []time.Duration{5 * time.Second, 20 * time.Second, 25 * time.Second, 40 * time.Second, 60 * time.Second, 80 * time.Second},
}

// Collapse is a Service that four policies meet: none, retries at once, a backoff,
// and retries at once with a budget.
type Collapse struct {
	Service
	Attempts int             // of the policies with retries
	Base     time.Duration   // of the backoff
	Windows  []time.Duration // borders of the rows' windows
	Trials   int             // whose median the rows give
}

// CollapseRow is one policy's result. A trial ends up or down and hardly ever in
// between, and chance decides: so a mean would describe no trial at all.
type CollapseRow struct {
	Policy  string           `json:"policy"`
	Windows []CollapseWindow `json:"windows"` // the median trial in each
	Down    float64          `json:"down"`    // the share of trials with a goodput below one half in the last window
	Result  *Result          `json:"-"`       // of the trials that ended as most did, up or down
}

// CollapseWindow is what happened between two instants.
type CollapseWindow struct {
	FromS   float64 `json:"from_s"`
	ToS     float64 `json:"to_s"`
	Goodput float64 `json:"goodput"` // calls that succeeded, as a share of those that began
	Retries float64 `json:"retries_per_s"`
}

// Run returns a row for each policy.
func (x Collapse) Run() (rows []CollapseRow) {
	at := retry.Policy{MaxAttempts: x.Attempts, Backoff: retry.Constant(0)}
	backoff, token := at.Named("backoff"), at.Named("token")
	backoff.Backoff = retry.Exponential{Base: x.Base, Max: time.Hour}
	token.Budget = &budget.Token{}
	policies := []retry.Policy{{Name: "none", MaxAttempts: 1}, at.Named("naive"), backoff, token}
	for i, trials := range x.Service.Trials(context.Background(), policies, x.Trials) {
		row := CollapseRow{Policy: policies[i].Name}
		for i, from := range x.Windows[:len(x.Windows)-1] {
			to := x.Windows[i+1]
			var goodputs, retries []float64
			for _, r := range trials {
				_, n := r.Rate(from, to)
				goodputs, retries = append(goodputs, r.Goodput(from, to)), append(retries, n)
			}
			row.Windows = append(row.Windows, CollapseWindow{from.Seconds(), to.Seconds(), Quantile(goodputs, .5), Quantile(retries, .5)})
		}
		ends := func(r *Result) bool { return r.Goodput(x.Windows[len(x.Windows)-2], x.Windows[len(x.Windows)-1]) < .5 }
		up := slices.DeleteFunc(slices.Clone(trials), ends)
		row.Down = 1 - float64(len(up))/float64(len(trials))
		if row.Down > .5 {
			up = slices.DeleteFunc(trials, func(r *Result) bool { return !ends(r) })
		}
		row.Result = Merge(up)
		rows = append(rows, row)
	}
	return rows
}

// Herd has clients fail at the same instant, and go on failing: how many of them
// come back together?
type Herd struct {
	Clients int
	Retries int           // that each client makes
	Base    time.Duration // of the backoffs
	Bucket  time.Duration // in which arrivals are counted
	Trials  int           // whose mean the rows give
	Seed    uint64
}

// DocumentedHerd is the experiment of bench/EXPERIMENTS.md.
var DocumentedHerd = Herd{Clients: 1000, Retries: 5, Base: 100 * time.Millisecond, Bucket: 10 * time.Millisecond, Trials: 20, Seed: 1}

// HerdRow is one policy's result for one retry.
type HerdRow struct {
	Policy string  `json:"policy"`
	Retry  int     `json:"retry"` // 1 for the first
	Peak   float64 `json:"peak"`  // the most of these retries that arrive in one bucket
}

// Run returns a row for each policy and retry. There is no server: when a client
// comes back is the sum of its waits.
func (x Herd) Run() (rows []HerdRow) {
	for i, b := range []struct {
		name string
		retry.Backoff
	}{
		{"none", retry.Exponential{Base: x.Base, Jitter: retry.NoJitter}},
		{"plusminus20", retry.Exponential{Base: x.Base, Jitter: retry.PlusMinus(.2)}},
		{"equal", retry.Exponential{Base: x.Base, Jitter: retry.EqualJitter}},
		{"full", retry.Exponential{Base: x.Base, Jitter: retry.FullJitter}},
		{"decorrelated", retry.Decorrelated{Base: x.Base}},
	} {
		k := newKernel(x.Seed + uint64(i))
		p := k.ready(retry.Policy{Name: b.name, MaxAttempts: x.Retries + 1, Backoff: b.Backoff})
		peaks := make([]int, x.Retries) // sums of all trials
		for range x.Trials {
			arrived, most := map[[2]int]int{}, make([]int, x.Retries) // by retry and bucket
			for range x.Clients {
				at, loop := time.Duration(0), p.Start(epoch)
				for n := range peaks {
					wait, _ := loop.Next(epoch.Add(at), errs[fails])
					at += wait
					bucket := [2]int{n, int(at / x.Bucket)}
					arrived[bucket]++
					most[n] = max(most[n], arrived[bucket])
				}
			}
			for n := range peaks {
				peaks[n] += most[n]
			}
		}
		for n, peak := range peaks {
			rows = append(rows, HerdRow{b.name, n + 1, float64(peak) / float64(x.Trials)})
		}
	}
	return rows
}

// Layers is calls through services that each call the next one, above a server of
// whose requests a share fails. All of them retry, at once.
type Layers struct {
	Policy retry.Policy // of each service; its Backoff does not count
	Depth  int          // services above the server
	Fails  float64      // the share of the server's requests that fail
	Calls  int          // of the first service; 0: 1
	Seed   uint64

	// Relayed services say no to a caller that must not ask again, as retryhttp.Relay
	// and the server interceptors of retrygrpc do.
	Relayed bool
}

// Run returns how many requests the server gets for a call, and the share of the calls
// that succeed. If all requests fail, k attempts in n layers make kⁿ; but k if they are
// relayed, or if the policy's Classify is retry.AlreadyRetried.
func (x Layers) Run() (requests, success float64) {
	calls, random := max(x.Calls, 1), rand.New(rand.NewPCG(x.Seed, 1))
	x.Policy.Backoff = retry.Constant(0)
	call := func(context.Context) error {
		requests++
		if random.Float64() < x.Fails {
			return errs[fails]
		}
		return nil
	}
	for range x.Depth {
		below := call
		call = func(ctx context.Context) error {
			err := retry.Run(ctx, x.Policy, below)
			if x.Relayed && retry.Final(err) {
				return retry.Refuse(errs[fails])
			}
			return err
		}
	}
	for range calls {
		if call(context.Background()) == nil {
			success++
		}
	}
	return requests / float64(calls), success / float64(calls)
}
