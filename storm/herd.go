package storm

import (
	"cmp"
	"time"

	"github.com/goretry/retry"
)

// Herd has clients fail at the same instant, and go on failing: how many of them
// come back together? Zero values stand for the experiment of the documentation.
type Herd struct {
	Clients  int            // 0: 1000
	Retries  int            // how many each client makes; 0: 5
	Base     time.Duration  // of the backoffs; 0: 100 ms
	Bucket   time.Duration  // in which arrivals are counted; 0: 10 ms
	Policies []retry.Policy // nil: none, plusminus20, equal, full and decorrelated
	Trials   int            // whose mean the rows give; 0: 20
	Seed     uint64
	Progress func(done float64) // told the share that is done, now and then; may be nil
}

// HerdRow is one policy's result for one retry.
type HerdRow struct {
	Policy string  `json:"policy"`
	Retry  int     `json:"retry"` // 1 for the first
	Peak   float64 `json:"peak"`  // the most of these retries that arrive in one bucket
	Result *Result `json:"-"`     // of all trials and retries
}

// Run returns a row for each policy and retry.
func (x Herd) Run() []HerdRow {
	x.Clients, x.Retries, x.Trials = cmp.Or(x.Clients, 1000), cmp.Or(x.Retries, 5), cmp.Or(x.Trials, 20)
	x.Base, x.Bucket = cmp.Or(x.Base, 100*time.Millisecond), cmp.Or(x.Bucket, 10*time.Millisecond)
	if x.Policies == nil {
		spread := func(name string, j retry.Jitter) retry.Policy {
			return retry.Policy{Name: name, Backoff: retry.Exponential{Base: x.Base, Jitter: j}}
		}
		x.Policies = []retry.Policy{
			spread("none", retry.NoJitter),
			spread("plusminus20", retry.PlusMinus(.2)),
			spread("equal", retry.EqualJitter),
			spread("full", retry.FullJitter),
			{Name: "decorrelated", Backoff: retry.Decorrelated{Base: x.Base}},
		}
		for i := range x.Policies {
			x.Policies[i].MaxAttempts = x.Retries + 1
		}
	}
	var rows []HerdRow
	for i, p := range x.Policies {
		progress := part(x.Progress, i, len(x.Policies))
		results, peaks := make([]*Result, x.Trials), make([]int, x.Retries)
		for i := range results {
			arrivals := make([]map[time.Duration]int, x.Retries)
			for j := range arrivals {
				arrivals[j] = map[time.Duration]int{}
			}
			most := make([]int, x.Retries)
			results[i] = Service{
				Clients: x.Clients,
				Failure: 1,
				Bucket:  x.Bucket,
				Seed:    x.Seed + uint64(i),
				watch: func(now time.Duration, attempt int) {
					if r := attempt - 2; r >= 0 && r < x.Retries {
						arrivals[r][now/x.Bucket]++
						most[r] = max(most[r], arrivals[r][now/x.Bucket])
					}
				},
			}.Run(p)
			for r, n := range most {
				peaks[r] += n
			}
			progress(float64(i+1) / float64(x.Trials))
		}
		sum := merge(results)
		for r, n := range peaks {
			rows = append(rows, HerdRow{p.Name, r + 1, float64(n) / float64(x.Trials), sum})
		}
	}
	return rows
}
