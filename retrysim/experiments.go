package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// experiment returns the report of an experiment. The legend says what its columns mean.
func experiment(name, title, legend string, rows any, header ...string) *report {
	return &report{title: title, legend: legend, header: header, doc: map[string]any{"experiment": name, "rows": rows}, figure: figure{height: 230}}
}

func contention(o *options) job {
	x := storm.PublishedContention
	o.add(
		param{"clients", &x.Clients, 1, many, "", "`numbers` of clients"},
		param{"trials", &x.Trials, 1, many, "", "`number` of trials to take the mean of"},
		param{"delay", &x.Delay, 0, forever, "", "mean `time` of a message"},
		param{"spread", &x.Spread, 0, forever, "", "its standard deviation, a `time`"},
		param{"base", &x.Base, 1e-9, forever, "", "`time` that backoffs start from"},
		param{"max", &x.Max, 1e-9, forever, "", "longest backoff, a `time`"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		rows := x.Run()
		r := experiment("contention", "Contention: N clients update the same row",
			"policy: the wait before another try; none: there is none, exponential: without jitter, the rest: with that jitter. calls: writes until each client has had one succeed. time: until the last of them knows that.", rows, "clients", "policy", "calls", "time")
		for _, row := range rows {
			r.add(row.Clients, row.Policy, fmt.Sprintf("%.1f", row.Calls), fmt.Sprintf("%.0f ms", row.TimeMS))
		}
		return r, nil
	}
}

func amplification(o *options) job {
	s, each := storm.PublishedAmplification, 10.0
	failures, attempts, ratio := []float64{.1, .5, 1}, 4, .1
	s.Duration = time.Minute
	o.add(
		param{"failure", &failures, 0, 1, "", "`shares` of requests that fail"},
		param{"clients", &s.Processes, 1, 1e6, "", "`number` of clients"},
		param{"rate", &each, 1e-6, fast, "", "calls of each, a `rate`"},
		param{"attempts", &attempts, 1, 100, "", "`number` of attempts with retries"},
		param{"ratio", &ratio, 1e-9, 1, "", "of the budget, a `share`"},
		param{"duration", &s.Duration, 1e-3, forever, "", "`time` simulated"},
		param{"seed", &s.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		s.Rate = each * float64(s.Processes)
		if err := bounded("rate", s.Rate*s.Duration.Seconds(), many); err != nil {
			return nil, err
		}
		rows := storm.Amplification(s, failures, attempts, ratio)
		r := experiment("amplification", "Amplification: a share of all requests fails",
			fmt.Sprintf("failure: that share. policy: none makes no retries, unbudgeted up to %d attempts, ratio as many within a budget.Ratio. load: requests per call. success: the share of the calls that succeed.", attempts), rows, "failure", "policy", "load", "success")
		for _, row := range rows {
			r.add(row.Failure, row.Policy, fmt.Sprintf("%.3f", row.Load), fmt.Sprintf("%.3f", row.Success))
		}
		return r, nil
	}
}

func collapse(o *options) job {
	x := storm.PublishedCollapse
	spike := x.Spikes[0]
	lasts := spike.To - spike.From
	o.add(
		param{"rate", &x.Rate, 1e-6, fast, "", "calls, a `rate`"},
		param{"spike", &spike.Rate, 1e-6, fast, "", "calls in the spike, a `rate`"},
		param{"at", &spike.From, 0, forever, "", "`time` at which the spike begins"},
		param{"for", &lasts, 1e-9, forever, "", "`time` that it lasts"},
		param{"duration", &x.Duration, 6, forever, "", "`time` simulated"},
		param{"latency", &x.Latency, 0, forever, "", "the server's `time` for a request"},
		param{"slowdown", &x.Slowdown, 0, forever, "", "`time` added for each request it holds"},
		param{"network", &x.Network, 0, forever, "", "mean `time` of a message, each way"},
		param{"timeout", &x.Timeout, 1e-9, forever, "", "`time` that a client waits for an answer"},
		param{"attempts", &x.Attempts, 1, 100, "", "`number` of attempts with retries"},
		param{"base", &x.Base, 1e-9, forever, "", "`time` that the backoff starts from"},
		param{"trials", &x.Trials, 1, many, "", "`number` of trials to take the median of"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		if spike.From >= x.Duration {
			return nil, wrong("-at: want a spike that begins before the end after %v", x.Duration)
		}
		if err := bounded("rate", x.Rate*x.Duration.Seconds(), many); err != nil {
			return nil, err
		}
		if err := bounded("spike", spike.Rate*min(lasts, x.Duration).Seconds(), many); err != nil {
			return nil, err
		}
		spike.To = spike.From + lasts
		x.Spikes = []storm.Spike{spike}
		x.Windows = slices.DeleteFunc(slices.Clone(x.Windows), func(d time.Duration) bool { return d >= x.Duration })
		x.Windows = append(x.Windows, x.Duration)
		rows := x.Run()
		r := experiment("collapse", "Collapse: a spike, and what retries make of it",
			"goodput: calls that succeed in these seconds, as a share of those that begin in them. none: no retries. naive: retries at once. backoff: retries after a wait. token: retries at once with a budget.Token.", rows, "goodput")
		for _, w := range rows[0].Windows {
			r.header = append(r.header, fmt.Sprintf("%g–%g s", w.FromS, w.ToS))
		}
		r.header = append(r.header, "trials that stay down")
		sent := panel{y: "requests sent per second", x: "seconds", from: spike.From.Seconds(), to: spike.To.Seconds(), band: "spike", names: true}
		good := sent
		good.y = "calls begun in that second that succeed, per second"
		names := []string{"no retries", "retries at once", fmt.Sprintf("backoff of %g s", x.Base.Seconds()), "at once + budget"}
		for i, row := range rows {
			cells := []any{row.Policy}
			for _, w := range row.Windows {
				cells = append(cells, fmt.Sprintf("%.2f", w.Goodput))
			}
			r.add(append(cells, fmt.Sprintf("%.0f %%", 100*row.Down))...)
			sent.lines = append(sent.lines, series{name: names[i], color: i, points: perSecond(row.Result, attempts)})
			good.lines = append(good.lines, series{name: names[i], color: i, points: perSecond(row.Result, successes)})
		}
		r.figure.panels = []panel{sent, good}
		return r, nil
	}
}

func herd(o *options) job {
	x := storm.DocumentedHerd
	o.add(
		param{"clients", &x.Clients, 1, many, "", "`number` of clients"},
		param{"retries", &x.Retries, 1, 100, "", "`number` of retries of each"},
		param{"base", &x.Base, 1e-6, 3600, "", "`time` that backoffs start from"},
		param{"bucket", &x.Bucket, 1e-3, 3600, "", "`time` in which arrivals are counted"},
		param{"trials", &x.Trials, 1, many, "", "`number` of trials to take the mean of"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		rows := x.Run()
		r := experiment("herd", "Herd: all clients fail at the same instant",
			"policy: the jitter of the waits. retry: the first, the second, and so on. peak: the most of these retries that arrive within one -bucket.", rows, "policy", "retry", "peak")
		for _, row := range rows {
			r.add(row.Policy, row.Retry, fmt.Sprintf("%.1f", row.Peak))
		}
		return r, nil
	}
}

func layers(o *options) job {
	attempts, depths := []int{3, 4}, []int{1, 2, 3}
	x := storm.Layers{Fails: 1, Calls: 10_000, Seed: 1}
	o.add(
		param{"attempts", &attempts, 1, 100, "", "`numbers` of attempts in each layer"},
		param{"depth", &depths, 1, 20, "", "`numbers` of layers"},
		param{"fails", &x.Fails, 0, 1, "", "`share` of the requests that fail at the bottom"},
		param{"calls", &x.Calls, 1, many, "", "`number` of calls to take the mean of, if not all requests fail"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		if x.Fails == 1 {
			x.Calls = 1 // all are equal
		}
		deepest, most := slices.Max(depths), slices.Max(attempts)
		if requests := math.Pow(float64(most), float64(deepest)) * float64(x.Calls); requests > many {
			return nil, wrong("-depth: %d layers of %d attempts are up to %.2g requests for %d calls, want at most %.0e", deepest, most, requests, x.Calls, many)
		}
		rows := []map[string]any{}
		r := experiment("layers", "Layers: every one of them retries",
			"attempts: of each layer. guarded: a layer does not retry what the one below it has retried (retry.AlreadyRetried). relayed: a layer that gives up tells its caller not to retry (retryhttp.Relay). succeed: the share of the calls.", nil, "attempts", "layers", "guarded", "relayed", "requests per call", "succeed")
		for _, k := range attempts {
			for _, n := range depths {
				for _, how := range []struct{ guarded, relayed bool }{{}, {guarded: true}, {relayed: true}} {
					x.Policy, x.Depth, x.Relayed = retry.Policy{MaxAttempts: k}, n, how.relayed
					if how.guarded {
						x.Policy.Classify = retry.AlreadyRetried
					}
					requests, success := x.Run()
					rows = append(rows, map[string]any{"attempts": k, "depth": n, "guarded": how.guarded, "relayed": how.relayed, "requests": requests, "success": success})
					r.add(k, n, how.guarded, how.relayed, fmt.Sprintf("%.4g", requests), fmt.Sprintf("%.2f %%", 100*success))
				}
			}
		}
		r.doc["rows"] = rows
		return r, nil
	}
}

func budgets(o *options) job {
	x := storm.DocumentedBudgets
	x.Every = 1
	o.add(
		param{"every", &x.Every, 1, many, "", "`number` of cells of which one is run"},
		param{"seeds", &x.Seeds, 1, many, "", "`number` of runs of a cell in which some rule loses more than no retries"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(ctx context.Context) (*report, error) {
		o.progress.left((len(storm.Cells())-1)/x.Every + 1)
		x.Met = o.progress.step
		rows := x.Run(ctx)
		if rows == nil {
			return nil, errors.New("interrupted before all cells were run")
		}
		r := experiment("budgets", fmt.Sprintf("Budgets in %d cells, each a server with some trouble", rows[0].Cells),
			"lost: the share of the calls in the mean cell. down: cells in whose last quarter most calls fail, though not without retries. "+
				"worse: cells that lose more than a hundredth of the calls more than without retries. Behind that the three figures for each kind of cell.", rows, "policy", "lost", "down", "worse")
		for _, k := range rows[0].Kinds {
			r.header = append(r.header, fmt.Sprintf("%s (%d)", k.Kind, k.Cells))
		}
		for _, row := range rows {
			cells := []any{row.Policy, fmt.Sprintf("%.2f %%", 100*row.Lost), row.Down, row.Worse}
			for _, k := range row.Kinds {
				cells = append(cells, k)
			}
			r.add(cells...)
		}
		return r, nil
	}
}
