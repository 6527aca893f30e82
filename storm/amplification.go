package storm

import (
	"cmp"
	"time"

	"github.com/goretry/retry"
)

// Amplification is the experiment of "Fixing retries with token buckets and
// circuit breakers" (Marc Brooker, 2022): how much load retries add when a share
// of all requests fails, whatever the load.
//
// Zero values stand for the published experiment.
type Amplification struct {
	Clients    int            // 0: 100
	Rate       float64        // of each client's calls, per second; 0: 10
	Failures   []float64      // nil: 0.1, 0.5 and 1
	Attempts   int            // of the policies with retries; 0: 4
	Ratio      float64        // of the budget, which has no floor; 0: 0.1; negative: none
	BudgetEach bool           // each client has a budget of its own, else all share one
	Duration   time.Duration  // 0: a minute
	Policies   []retry.Policy // nil: none, unbudgeted and ratio
	Seed       uint64
	Progress   func(done float64) // told the share that is done, now and then; may be nil
}

// AmplificationRow is one policy's result at one failure rate.
type AmplificationRow struct {
	Policy  string  `json:"policy"`
	Failure float64 `json:"failure"` // the share of requests that fail
	Clients int     `json:"clients"`
	Load    float64 `json:"load"`    // attempts per call
	Success float64 `json:"success"` // the share of the calls that succeed
}

// Run returns a row for each failure rate and policy.
func (x Amplification) Run() []AmplificationRow {
	x.Clients, x.Attempts = cmp.Or(x.Clients, 100), cmp.Or(x.Attempts, 4)
	x.Rate, x.Ratio = cmp.Or(x.Rate, 10), cmp.Or(x.Ratio, .1)
	if x.Failures == nil {
		x.Failures = []float64{.1, .5, 1}
	}
	if x.Policies == nil {
		x.Policies = []retry.Policy{
			{Name: "none", MaxAttempts: 1},
			{Name: "unbudgeted", MaxAttempts: x.Attempts},
			{Name: "ratio", MaxAttempts: x.Attempts, Budget: &retry.RatioBudget{Ratio: x.Ratio, MinPerSecond: -1}},
		}
	}
	var rows []AmplificationRow
	for i, failure := range x.Failures {
		for j, p := range x.Policies {
			r := Service{
				Clients:    x.Clients,
				Rate:       x.Rate * float64(x.Clients),
				Duration:   x.Duration,
				Failure:    failure,
				BudgetEach: x.BudgetEach,
				Seed:       x.Seed,
				Progress:   part(x.Progress, i*len(x.Policies)+j, len(x.Failures)*len(x.Policies)),
			}.Run(p)
			rows = append(rows, AmplificationRow{p.Name, failure, x.Clients, r.Load(), r.Success()})
		}
	}
	return rows
}
