package main

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry/retrysim/internal/storm"
)

// quotas compares clients of a server with quotas. Loads are those of one row each.
func quotas(o *options) job {
	p := storm.DocumentedProvider
	processes, loads, seeds := []int{1, 12, 200}, []float64{1.5}, 3
	o.add(
		param{"processes", &processes, 1, 1e4, "", "`numbers` of processes that share the quotas"},
		param{"load", &loads, .01, 100, "", "calls offered, as `multiples` of the quota"},
		param{"peaks", &p.Peaks, 0, 0, "", "put three quarters of the calls into the first quarter of each minute"},
		param{"backlog", &p.Backlog, 0, many, "", "`number` of calls to finish instead; one that fails is made again"},
		param{"workers", &p.Workers, 1, 1e5, "", "`number` of workers that finish the backlog"},
		param{"requests", &p.Requests.Rate, .01, fast, "", "requests allowed, a `rate`"},
		param{"burst", &p.Requests.Burst, 1, many, "", "`number` of requests allowed at once"},
		param{"window", &p.Requests.Window, 0, forever, "", "`time` after which the quota of requests is full again at once; 0: it fills steadily"},
		param{"tokens", &p.Tokens.Rate, 1, fast, "", "tokens allowed, a `rate`; a call needs 1000 on average"},
		param{"token-burst", &p.Tokens.Burst, 1, 1e12, "", "`number` of tokens allowed at once"},
		param{"counts", &p.Counts, 0, 0, "", "refused requests count against the quota"},
		param{"no-hints", &p.NoHints, 0, 0, "", "a 429 does not say how long to wait"},
		param{"stray", &p.Stray, 0, 1, "", "`share` of requests answered 429 whatever the rate"},
		param{"stray-hint", &p.StrayHint, 0, 3600, "", "`time` that such an answer asks for; 0: a second"},
		param{"calm", &p.Calm, 0, 0, "", "nothing else goes wrong"},
		param{"answer", &p.Mean, .001, 60, "", "mean `time` of an answer"},
		param{"fixed", &p.Fixed, 0, 0, "", "each answer takes exactly that time, a refusal too: an open loop as a gateway has it"},
		param{"life", &p.Life, 0, forever, "", "mean `time` that a process lives; then another takes its place. 0: for ever"},
		param{"each", &p.Each, 0, many, "", "`number` of calls that a process makes at most; 0: any"},
		param{"duration", &p.Duration, 61, 3600, "", "`time` simulated, without a backlog"},
		param{"seeds", &seeds, 1, 1000, "", "`number` of runs to take the mean of"},
		param{"seed", &p.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(ctx context.Context) (*report, error) {
		rows := []map[string]any{}
		title, clients := "Quotas: processes that do not know of each other share them", clientNames(storm.ProviderClients)
		legend := "wasted: the share of the requests that are answered 429. goodput of quota: calls that succeed, as a share of what the quota lets through, from the second minute on. " +
			"p50, p99: how long calls take that succeed. fairness: 1 if as many calls succeed in each process (Jain's index)."
		columns := []string{"processes", "load", "client", "requests", "wasted", "calls that fail", "goodput of quota", "p50", "p99", "fairness"}
		r := experiment("quotas", title, legend, nil, columns...)
		if p.Backlog > 0 {
			loads = loads[:1]
		}
		o.progress.left(len(processes) * len(loads) * len(clients))
		for _, n := range processes {
			for _, load := range loads {
				p.Processes, p.Load = n, load
				calls := load * min(p.Requests.Rate, p.Tokens.Rate/1000) * p.Duration.Seconds()
				if err := bounded("load", calls, many); err != nil && p.Backlog == 0 {
					return nil, err
				}
				name := fmt.Sprintf("%g %%", 100*load)
				if p.Backlog > 0 {
					name = "backlog"
				}
				for _, client := range clients {
					if ctx.Err() != nil {
						return nil, interruptedAfter(len(rows), len(processes)*len(loads)*len(clients), "rows")
					}
					x := storm.CompareClients(p, []string{client}, seeds)[client]
					o.progress.step()
					rows = append(rows, map[string]any{"processes": n, "load": load, "result": x})
					row := []any{n, name, client, x.Sent, percent(x.Waste()), percent(x.Failing()), percent(x.Goodput),
						x.Median.Round(100 * time.Millisecond), x.P99.Round(100 * time.Millisecond), fmt.Sprintf("%.2f", x.Fairness)}
					r.add(row...)
				}
			}
		}
		r.doc["rows"] = rows
		return r, nil
	}
}

func clientNames(clients []storm.ProviderClient) (names []string) {
	for _, c := range clients {
		names = append(names, c.Name)
	}
	return names
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
