package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry/storm"
)

var experiments = map[string]command{
	"contention":    {contention, "run contention -clients 10,100 -trials 100 -seed 1"},
	"amplification": {amplification, "run amplification -failure 0.1,0.5 -clients 100 -rate 10"},
	"collapse":      {collapse, "run collapse -spike 80/s -format svg -o collapse.svg"},
	"herd":          {herd, "run herd -clients 1000 -base 100ms"},
	"layers":        {layers, "run layers -attempts 3,4 -depth 1,2,3"},
}

func contention(o *options) func() (*report, error) {
	var x storm.Contention
	value(o, &x.Clients, "clients", "`numbers` of clients (default 10,20,50,100)", list(count))
	value(o, &x.Trials, "trials", "`number` of trials to take the mean of (default 100)", count)
	value(o, &x.Delay, "delay", "mean `time` of a message (default 10ms)", orNone)
	value(o, &x.Spread, "spread", "its standard deviation, a `time` (default 2ms)", orNone)
	value(o, &x.Base, "base", "`time` that backoffs start from (default 5ms)", duration)
	value(o, &x.Max, "max", "longest backoff, a `time` (default 2s)", duration)
	return func() (*report, error) {
		x.Seed, x.Progress = o.seed, o.progress
		rows := x.Run()
		r := &report{Rows: rows, title: "Contention: N clients update the same row", header: []string{"clients", "policy", "calls", "time"}}
		r.chart = chart{x: "clients", panels: []panel{{y: "calls until all have written"}, {y: "seconds until then"}}}
		for _, row := range rows {
			r.add(row.Clients, row.Policy, fmt.Sprintf("%.1f", row.Calls), fmt.Sprintf("%.0f ms", row.TimeMS))
			r.chart.point(0, row.Policy, float64(row.Clients), row.Calls)
			r.chart.point(1, row.Policy, float64(row.Clients), row.TimeMS/1000)
		}
		return r, nil
	}
}

func amplification(o *options) func() (*report, error) {
	var x storm.Amplification
	value(o, &x.Failures, "failure", "`shares` of requests that fail (default 0.1,0.5,1)", list(share))
	value(o, &x.Clients, "clients", "`number` of clients (default 100)", count)
	value(o, &x.Rate, "rate", "calls of each, a `rate` (default 10/s)", rate)
	value(o, &x.Attempts, "attempts", "`number` of attempts with retries (default 4)", count)
	value(o, &x.Ratio, "ratio", "of the budget, a `share` (default 0.1)", shareOrNone)
	value(o, &x.Duration, "duration", "`time` simulated (default 1m)", duration)
	o.BoolVar(&x.BudgetEach, "each", false, "each client has a budget of its own, else all share one")
	return func() (*report, error) {
		x.Seed, x.Progress = o.seed, o.progress
		rows := x.Run()
		r := &report{Rows: rows, title: "Amplification: a share of all requests fails", header: []string{"failure", "policy", "load", "success"}}
		r.chart = chart{x: "share of requests that fail", panels: []panel{{y: "requests sent per call"}, {y: "share of calls that succeed"}}}
		for _, row := range rows {
			r.add(row.Failure, row.Policy, fmt.Sprintf("%.3f", row.Load), fmt.Sprintf("%.3f", row.Success))
			r.chart.point(0, row.Policy, row.Failure, row.Load)
			r.chart.point(1, row.Policy, row.Failure, row.Success)
		}
		return r, nil
	}
}

func collapse(o *options) func() (*report, error) {
	const s = time.Second
	x := storm.Collapse{Duration: 80 * s, Base: 20 * s}
	x.Spike = storm.Spike{From: 20 * s, To: 5 * s, Rate: 80} // To is how long, until all flags are read
	value(o, &x.Rate, "rate", "calls, a `rate` (default 40/s)", rate)
	value(o, &x.Spike.Rate, "spike", "calls in the spike, a `rate` (default 80/s)", rate)
	value(o, &x.Spike.From, "at", "`time` at which the spike begins (default 20s)", instant)
	value(o, &x.Spike.To, "for", "`time` that it lasts (default 5s)", duration)
	value(o, &x.Duration, "duration", "`time` simulated (default 1m20s)", duration)
	value(o, &x.Latency, "latency", "the server's `time` for a request (default 1s)", orNone)
	value(o, &x.Slowdown, "slowdown", "`time` added for each request it holds (default 10ms)", orNone)
	value(o, &x.Network, "network", "mean `time` of a message, each way (default 100ms)", orNone)
	value(o, &x.Timeout, "timeout", "`time` that a client waits for an answer (default 3s)", duration)
	value(o, &x.Attempts, "attempts", "`number` of attempts with retries (default 3)", count)
	value(o, &x.Base, "base", "`time` that the backoff starts from (default 20s)", duration)
	value(o, &x.Windows, "windows", "`times` between which to measure (default 5s,20s,25s,40s,60s,80s, up to -duration)", list(instant))
	value(o, &x.Trials, "trials", "`number` of trials to take the median of (default 51)", count)
	return func() (*report, error) {
		if x.Spike.From >= x.Duration {
			return nil, fmt.Errorf("-at: want a spike that begins before the end after %v", x.Duration)
		}
		x.Spike.To += x.Spike.From
		if x.Windows == nil {
			for _, border := range []time.Duration{5 * s, 20 * s, 25 * s, 40 * s, 60 * s, 80 * s} {
				if border < x.Duration {
					x.Windows = append(x.Windows, border)
				}
			}
			x.Windows = append(x.Windows, x.Duration)
		}
		if ordered := slices.Compact(slices.Sorted(slices.Values(x.Windows))); len(ordered) < 2 || !slices.Equal(ordered, x.Windows) || slices.Max(ordered) > x.Duration {
			return nil, errors.New("-windows: want two times or more, in order, up to -duration, such as 5s,20s,80s")
		}
		x.Seed, x.Progress = o.seed, o.progress
		rows := x.Run()
		labels := map[string]string{ // which say more than the names of the rows
			"none":    "no retries",
			"naive":   "retries at once",
			"backoff": fmt.Sprintf("backoff of %g s", x.Base.Seconds()),
			"token":   "at once + budget",
		}
		r := &report{Rows: rows, title: "Collapse: a spike, and what retries make of it", header: []string{"goodput"}}
		r.chart = overTime(x.Duration, x.Spike.From, x.Spike.To, "spike")
		for _, w := range rows[0].Windows {
			r.header = append(r.header, fmt.Sprintf("%g–%g s", w.FromS, w.ToS))
		}
		r.header = append(r.header, "trials that stay down")
		for _, row := range rows {
			cells := []any{row.Policy}
			for _, w := range row.Windows {
				cells = append(cells, fmt.Sprintf("%.2f", w.Goodput))
			}
			r.add(append(cells, fmt.Sprintf("%.0f %%", 100*row.Down))...)
			r.chart.result(labels[row.Policy], row.Result)
		}
		return r, nil
	}
}

func herd(o *options) func() (*report, error) {
	x := storm.Herd{Base: 100 * time.Millisecond}
	value(o, &x.Clients, "clients", "`number` of clients (default 1000)", count)
	value(o, &x.Retries, "retries", "`number` of retries of each (default 5)", count)
	value(o, &x.Base, "base", "`time` that backoffs start from (default 100ms)", duration)
	value(o, &x.Bucket, "bucket", "`time` in which arrivals are counted (default 10ms)", duration)
	value(o, &x.Trials, "trials", "`number` of trials to take the mean of (default 20)", count)
	return func() (*report, error) {
		x.Seed, x.Progress = o.seed, o.progress
		rows := x.Run()
		r := &report{Rows: rows, title: "Herd: all clients fail at the same instant", header: []string{"policy", "retry", "peak"}}
		bucket := rows[0].Result.Bucket
		r.chart = chart{x: "seconds after the failure", panels: []panel{{y: fmt.Sprintf("arrivals in %v", bucket)}}}
		for _, row := range rows {
			r.add(row.Policy, row.Retry, fmt.Sprintf("%.1f", row.Peak))
			if row.Retry > 1 {
				continue
			}
			for at := bucket; at < max(10*x.Base, 2*bucket); at += bucket { // the first attempts are all at once
				sent, _ := row.Result.Rate(at, at+bucket)
				r.chart.point(0, row.Policy, at.Seconds(), sent*bucket.Seconds())
			}
		}
		return r, nil
	}
}

func layers(o *options) func() (*report, error) {
	var x storm.Layers
	value(o, &x.Attempts, "attempts", "`numbers` of attempts in each layer (default 3,4)", list(count))
	value(o, &x.Depths, "depth", "`numbers` of layers (default 1,2,3)", list(count))
	return func() (*report, error) {
		for _, k := range x.Attempts {
			for _, n := range x.Depths {
				if calls := math.Pow(float64(k), float64(n)); n > 30 || calls > 1e6 {
					return nil, fmt.Errorf("-depth: %d layers of %d attempts are %.2g calls, want at most 30 layers and 1e6 calls", n, k, calls)
				}
			}
		}
		rows := x.Run()
		r := &report{Rows: rows, title: "Layers: every one of them retries", header: []string{"attempts", "layers", "guarded", "calls"}}
		r.chart = chart{x: "layers", panels: []panel{{y: "calls that reach the server"}}}
		for _, row := range rows {
			r.add(row.Attempts, row.Depth, row.Guarded, row.Calls)
			name := fmt.Sprintf("%d attempts", row.Attempts)
			if row.Guarded {
				name += ", guarded"
			}
			r.chart.point(0, name, float64(row.Depth), float64(row.Calls))
		}
		return r, nil
	}
}
