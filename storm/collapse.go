package storm

import (
	"cmp"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Collapse is the simulation simple_collapse_sim of Marc Brooker's
// simulator_example: a server that gets slower with each request it holds, a spike
// that overloads it for a few seconds, and clients that stop waiting. Retries at
// once keep it overloaded for good.
//
// Zero values stand for the published experiment.
type Collapse struct {
	Rate     float64       // calls per second; 0: 40
	Spike    Spike         // 0: 80 calls per second from 20 s to 25 s
	Duration time.Duration // 0: 80 s

	Latency  time.Duration // 0: 1 s
	Slowdown time.Duration // 0: 10 ms for each request that the server holds
	Network  time.Duration // 0: 100 ms for each message on average
	Timeout  time.Duration // 0: 3 s

	Attempts int             // of the policies with retries; 0: 3
	Base     time.Duration   // of the backoff; 0: 20 s
	Windows  []time.Duration // borders of the rows' windows; nil: 5, 20, 25, 40, 60 and 80 s
	Policies []retry.Policy  // nil: none, naive, backoff and token
	Trials   int             // whose median the rows give; 0: 51
	Seed     uint64
	Progress func(done float64) // told the share that is done, now and then; may be nil
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
	x = x.withDefaults()
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
	row.Result = merge(up)
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

func (x Collapse) withDefaults() Collapse {
	const s = time.Second
	x.Rate, x.Spike = cmp.Or(x.Rate, 40), cmp.Or(x.Spike, Spike{20 * s, 25 * s, 80})
	x.Duration, x.Timeout = cmp.Or(x.Duration, 80*s), cmp.Or(x.Timeout, 3*s)
	x.Latency, x.Slowdown = cmp.Or(x.Latency, s), cmp.Or(x.Slowdown, s/100)
	x.Network, x.Base = cmp.Or(x.Network, s/10), cmp.Or(x.Base, 20*s)
	x.Attempts, x.Trials = cmp.Or(x.Attempts, 3), cmp.Or(x.Trials, 51)
	if len(x.Windows) < 2 {
		x.Windows = []time.Duration{5 * s, 20 * s, 25 * s, 40 * s, 60 * s, 80 * s}
	}
	if x.Policies == nil {
		at := retry.Policy{MaxAttempts: x.Attempts, Backoff: retry.Constant(0)}
		backoff := at.Named("backoff")
		backoff.Backoff = retry.Exponential{Base: x.Base, Max: time.Hour}
		token := at.Named("token")
		token.Budget = &retry.TokenBudget{}
		x.Policies = []retry.Policy{{Name: "none", MaxAttempts: 1}, at.Named("naive"), backoff, token}
	}
	return x
}
