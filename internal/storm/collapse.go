package storm

import (
	"context"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// PublishedCollapse is the simulation simple_collapse_sim of Marc Brooker's
// simulator_example: a server that gets slower with each request it holds, a spike
// that overloads it for a few seconds, and clients that stop waiting. Retries at
// once keep it overloaded for good.
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
	token.Budget = &retry.TokenBudget{}
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
			row.Windows = append(row.Windows, CollapseWindow{from.Seconds(), to.Seconds(), median(goodputs), median(retries)})
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

// median returns the middle one of some numbers, of two the upper.
func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
