package storm

import "github.com/goretry/retry"

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
// and as many with a RatioBudget without a floor.
func Amplification(s Service, failures []float64, attempts int, ratio float64) (rows []AmplificationRow) {
	policies := []retry.Policy{
		{Name: "none", MaxAttempts: 1},
		{Name: "unbudgeted", MaxAttempts: attempts},
		{Name: "ratio", MaxAttempts: attempts, Budget: &retry.RatioBudget{Ratio: ratio, MinPerSecond: -1}},
	}
	progress := s.Progress
	for i, failure := range failures {
		for j, p := range policies {
			s.Failure, s.Progress = failure, part(progress, i*len(policies)+j, len(failures)*len(policies))
			r := s.Run(p)
			rows = append(rows, AmplificationRow{p.Name, failure, r.Load(), r.Success()})
		}
	}
	return rows
}

// PublishedAmplification is the Service of that experiment: 100 clients with 10
// calls per second each, and one budget. Its failures are .1, .5 and 1, the
// attempts 4 and the ratio .1.
var PublishedAmplification = Service{Rate: 1000, Processes: 100, Shared: true, Seed: 1}
