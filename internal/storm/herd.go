package storm

import (
	"time"

	"github.com/goretry/retry"
)

// Herd has clients fail at the same instant, and go on failing: how many of them
// come back together? [DocumentedHerd] is the one of docs/storms.md.
type Herd struct {
	Clients int
	Retries int           // that each client makes
	Base    time.Duration // of the backoffs
	Bucket  time.Duration // in which arrivals are counted
	Trials  int           // whose mean the rows give
	Seed    uint64
}

// DocumentedHerd is the experiment of docs/storms.md.
var DocumentedHerd = Herd{Clients: 1000, Retries: 5, Base: 100 * time.Millisecond, Bucket: 10 * time.Millisecond, Trials: 20, Seed: 1}

// HerdRow is one policy's result for one retry.
type HerdRow struct {
	Policy   string    `json:"policy"`
	Retry    int       `json:"retry"` // 1 for the first
	Peak     float64   `json:"peak"`  // the most of these retries that arrive in one bucket
	Arrivals []float64 `json:"-"`     // of them in each bucket
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
		first := len(rows)
		for n := range x.Retries {
			rows = append(rows, HerdRow{Policy: b.name, Retry: n + 1})
		}
		for range x.Trials {
			counts := make([]map[int]int, x.Retries)
			for range x.Clients {
				at, loop := time.Duration(0), p.Start(epoch)
				for n := range x.Retries {
					wait, _ := loop.Next(epoch.Add(at), errs[fails])
					at += wait
					if counts[n] == nil {
						counts[n] = map[int]int{}
					}
					counts[n][int(at/x.Bucket)]++
				}
			}
			for n, buckets := range counts {
				rows[first+n].add(buckets, x.Trials)
			}
		}
	}
	return rows
}

// add adds one of so many trials: how many arrived in which bucket.
func (r *HerdRow) add(buckets map[int]int, trials int) {
	most := 0
	for i, n := range buckets {
		most = max(most, n)
		for len(r.Arrivals) <= i {
			r.Arrivals = append(r.Arrivals, 0)
		}
		r.Arrivals[i] += float64(n) / float64(trials)
	}
	r.Peak += float64(most) / float64(trials)
}
