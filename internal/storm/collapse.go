package storm

import (
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Collapse is the simulation simple_collapse_sim of Marc Brooker's
// simulator_example: a server that gets slower with each request it holds, a spike
// that overloads it for a few seconds, and clients that stop waiting. Retries at
// once keep it overloaded for good.
// [PublishedCollapse] is that one.
type Collapse struct {
	Rate     float64 // calls per second
	Spike    Spike
	Duration time.Duration

	Latency  time.Duration
	Slowdown time.Duration // for each request that the server holds
	Network  time.Duration // for each message, on average
	Timeout  time.Duration

	Attempts int             // of the policies with retries
	Base     time.Duration   // of the backoff
	Windows  []time.Duration // borders of the rows' windows
	Policies []retry.Policy  // nil: none, naive, backoff and token
	Trials   int             // whose median the rows give
	Seed     uint64
	Progress func(done float64) // told the share that is done, now and then; may be nil
}

var PublishedCollapse = Collapse{
	Rate: 40, Spike: Spike{20 * time.Second, 25 * time.Second, 80}, Duration: 80 * time.Second,
	Latency: time.Second, Slowdown: 10 * time.Millisecond, Network: 100 * time.Millisecond, Timeout: 3 * time.Second,
	Attempts: 3, Base: 20 * time.Second, Trials: 51, Seed: 1,
	Windows: []time.Duration{5 * time.Second, 20 * time.Second, 25 * time.Second, 40 * time.Second, 60 * time.Second, 80 * time.Second},
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
func (x Collapse) Run() []CollapseRow {
	if x.Policies == nil {
		x.Policies = x.policies()
	}
	var rows []CollapseRow
	for i, p := range x.Policies {
		results := make([]*Result, x.Trials)
		for j := range results {
			results[j] = Service{
				Rate:     x.Rate,
				Spikes:   []Spike{x.Spike},
				Duration: x.Duration,
				Latency:  x.Latency,
				Slowdown: x.Slowdown,
				Network:  x.Network,
				Timeout:  x.Timeout,
				Seed:     x.Seed + uint64(j),
				Progress: part(x.Progress, i*x.Trials+j, len(x.Policies)*x.Trials),
			}.Run(p)
		}
		rows = append(rows, x.row(p, results))
	}
	return rows
}

func (x Collapse) row(p retry.Policy, trials []*Result) CollapseRow {
	row := CollapseRow{Policy: p.Name}
	var goodput func(*Result) float64 // in the window at hand, then in the last one
	for i, from := range x.Windows[:len(x.Windows)-1] {
		to := x.Windows[i+1]
		goodput = func(r *Result) float64 { return r.Goodput(from, to) }
		retries := func(r *Result) float64 { _, n := r.Rate(from, to); return n }
		row.Windows = append(row.Windows, CollapseWindow{from.Seconds(), to.Seconds(), median(trials, goodput), median(trials, retries)})
	}
	var up, down []*Result
	for _, r := range trials {
		if goodput(r) < .5 {
			down = append(down, r)
		} else {
			up = append(up, r)
		}
	}
	row.Down = float64(len(down)) / float64(len(trials))
	if len(down) > len(up) {
		up = down
	}
	row.Result = Merge(up)
	return row
}

// median returns the middle one of a number of the results, of two the upper.
func median(results []*Result, number func(*Result) float64) float64 {
	var all []float64
	for _, r := range results {
		all = append(all, number(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// policies returns none, retries at once, a backoff, and retries at once with a
// budget that all clients share.
func (x Collapse) policies() []retry.Policy {
	at := retry.Policy{MaxAttempts: x.Attempts, Backoff: retry.Constant(0)}
	backoff, token := at.Named("backoff"), at.Named("token")
	backoff.Backoff = retry.Exponential{Base: x.Base, Max: time.Hour}
	token.Budget = &retry.TokenBudget{}
	return []retry.Policy{{Name: "none", MaxAttempts: 1}, at.Named("naive"), backoff, token}
}
