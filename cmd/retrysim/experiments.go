package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/storm"
)

// experiment returns the report of an experiment.
func experiment(name, title string, rows any, header ...string) *report {
	return &report{title: title, header: header, doc: map[string]any{"experiment": name, "rows": rows}, figure: figure{height: 230}}
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
		r := experiment("contention", "Contention: N clients update the same row", rows, "clients", "policy", "calls", "time")
		r.figure.panels = []panel{{y: "calls until all have written", x: "clients"}, {y: "seconds until then", x: "clients"}}
		for _, row := range rows {
			r.add(row.Clients, row.Policy, fmt.Sprintf("%.1f", row.Calls), fmt.Sprintf("%.0f ms", row.TimeMS))
			r.figure.point(row.Policy, float64(row.Clients), row.Calls, row.TimeMS/1000)
		}
		return r, nil
	}
}

func amplification(o *options) job {
	s, each := storm.PublishedAmplification, 10.0
	failures, attempts, ratio, apart := []float64{.1, .5, 1}, 4, .1, false
	s.Duration = time.Minute
	o.add(
		param{"failure", &failures, 0, 1, "", "`shares` of requests that fail"},
		param{"clients", &s.Processes, 1, 1e6, "", "`number` of clients"},
		param{"rate", &each, 1e-6, fast, "", "calls of each, a `rate`"},
		param{"attempts", &attempts, 1, 100, "", "`number` of attempts with retries"},
		param{"ratio", &ratio, 1e-9, 1, "", "of the budget, a `share`"},
		param{"duration", &s.Duration, 1e-3, forever, "", "`time` simulated"},
		param{"each", &apart, 0, 0, "", "each client has a budget of its own, else all share one"},
		param{"seed", &s.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		s.Rate, s.Shared = each*float64(s.Processes), !apart
		rows := storm.Amplification(s, failures, attempts, ratio)
		r := experiment("amplification", "Amplification: a share of all requests fails", rows, "failure", "policy", "load", "success")
		const x = "share of requests that fail"
		r.figure.panels = []panel{{y: "requests sent per call", x: x}, {y: "share of calls that succeed", x: x}}
		for _, row := range rows {
			r.add(row.Failure, row.Policy, fmt.Sprintf("%.3f", row.Load), fmt.Sprintf("%.3f", row.Success))
			r.figure.point(row.Policy, row.Failure, row.Load, row.Success)
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
		param{"duration", &x.Duration, 1, forever, "", "`time` simulated"},
		param{"latency", &x.Latency, 0, forever, "", "the server's `time` for a request"},
		param{"slowdown", &x.Slowdown, 0, forever, "", "`time` added for each request it holds"},
		param{"network", &x.Network, 0, forever, "", "mean `time` of a message, each way"},
		param{"timeout", &x.Timeout, 1e-9, forever, "", "`time` that a client waits for an answer"},
		param{"attempts", &x.Attempts, 1, 100, "", "`number` of attempts with retries"},
		param{"base", &x.Base, 1e-9, forever, "", "`time` that the backoff starts from"},
		param{"windows", &x.Windows, 0, forever, "", "`times` between which to measure, up to -duration"},
		param{"trials", &x.Trials, 1, many, "", "`number` of trials to take the median of"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that all chance follows from"},
	)
	return func(context.Context) (*report, error) {
		if spike.From >= x.Duration {
			return nil, wrong("-at: want a spike that begins before the end after %v", x.Duration)
		}
		spike.To = spike.From + lasts
		x.Spikes = []storm.Spike{spike}
		if !o.given("windows") {
			x.Windows = slices.DeleteFunc(slices.Clone(x.Windows), func(d time.Duration) bool { return d >= x.Duration })
			x.Windows = append(x.Windows, x.Duration)
		}
		ordered := slices.Compact(slices.Sorted(slices.Values(x.Windows)))
		if len(ordered) < 2 || !slices.Equal(ordered, x.Windows) || slices.Max(ordered) > x.Duration {
			return nil, wrong("-windows: want two times or more, in order, up to -duration, such as 5s,20s,80s")
		}
		x.Progress = o.progress
		rows := x.Run()
		r := experiment("collapse", "Collapse: a spike, and what retries make of it", rows, "goodput")
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
		r := experiment("herd", "Herd: all clients fail at the same instant", rows, "policy", "retry", "peak")
		r.figure.panels = []panel{{x: "retry", y: fmt.Sprintf("most that arrive in %v; the policy without jitter is not drawn", x.Bucket)}}
		for _, row := range rows {
			r.add(row.Policy, row.Retry, fmt.Sprintf("%.1f", row.Peak))
			if row.Policy != "none" { // of whom all do
				r.figure.point(row.Policy, float64(row.Retry), row.Peak)
			}
		}
		return r, nil
	}
}

func layers(o *options) job {
	attempts, depths := []int{3, 4}, []int{1, 2, 3}
	o.add(
		param{"attempts", &attempts, 1, 100, "", "`numbers` of attempts in each layer"},
		param{"depth", &depths, 1, 20, "", "`numbers` of layers"},
	)
	return func(context.Context) (*report, error) {
		if calls := math.Pow(float64(slices.Max(attempts)), float64(slices.Max(depths))); calls > 1e6 {
			return nil, wrong("-depth: %d layers of %d attempts are %.2g calls, want at most 1e6", slices.Max(depths), slices.Max(attempts), calls)
		}
		type row struct {
			Attempts int  `json:"attempts"`
			Depth    int  `json:"depth"`
			Guarded  bool `json:"guarded"` // the layers have Classify: retry.AlreadyRetried
			Calls    int  `json:"calls"`   // requests that reach the server
		}
		var rows []row
		r := experiment("layers", "Layers: every one of them retries", nil, "attempts", "layers", "guarded", "calls")
		r.figure.panels = []panel{{x: "layers", y: "calls that reach the server"}}
		for _, k := range attempts {
			for _, n := range depths {
				p, name := retry.Policy{MaxAttempts: k}, fmt.Sprintf("%d attempts", k)
				for _, guarded := range []bool{false, true} {
					if guarded {
						p.Classify, name = retry.AlreadyRetried, fmt.Sprintf("%d, guarded", k)
					}
					calls := storm.Layers(p, n)
					rows = append(rows, row{k, n, guarded, calls})
					r.add(k, n, guarded, calls)
					r.figure.point(name, float64(n), float64(calls))
				}
			}
		}
		r.doc["rows"] = rows
		return r, nil
	}
}
