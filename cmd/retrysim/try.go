package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryconf"
	"github.com/goretry/retry/storm"
)

const policyExample = "attempts=4 backoff=exponential(100ms,10s) jitter=full budget=ratio(0.1)"

var tryCommand = command{tryPolicy, "try -policy '" + policyExample + "' -clients 1000 -rate 200/s -capacity 250/s -outage 2s"}

// tryRow is one policy's result.
type tryRow struct {
	Policy    string         `json:"policy"` // none, naive, unbudgeted or yours
	Text      string         `json:"text"`
	Load      float64        `json:"load"`       // attempts per call
	Success   float64        `json:"success"`    // the share of the calls that succeed
	Lost      int            `json:"lost"`       // calls that do not
	Peak      float64        `json:"peak"`       // the most attempts in a second, to those of a normal one; 0 if that has none
	RecoveryS *float64       `json:"recovery_s"` // null if that is not before the end
	P50MS     float64        `json:"p50_ms"`     // of the calls that succeed
	P99MS     float64        `json:"p99_ms"`
	Ended     map[string]int `json:"ended"` // calls by why they ended
	Verdict   string         `json:"verdict"`
}

func tryPolicy(o *options) func() (*report, error) {
	const ms = time.Millisecond
	s := storm.Service{Clients: 1000, Rate: 200, Capacity: 250, Latency: 10 * ms, Timeout: 1000 * ms, Duration: 90_000 * ms}
	var text string
	var outage, spikeFor, at time.Duration = -1, 2000 * ms, 10_000 * ms
	var spike float64
	var refuse bool
	o.StringVar(&text, "policy", "", "the `policy`, such as '"+policyExample+"'")
	value(o, &s.Clients, "clients", "`number` of clients (default 1000)", count)
	value(o, &s.Rate, "rate", "calls of all clients together, a `rate` (default 200/s)", rate)
	o.BoolVar(&s.Closed, "closed", false, "each client makes one call at a time and thinks in between")
	o.BoolVar(&s.BudgetEach, "each", false, "each client has a budget of its own, else all share one")
	value(o, &s.Capacity, "capacity", "requests that the server can do, a `rate` (default 250/s)", rate)
	value(o, &s.Queue, "queue", "`number` of requests that may wait for it; more are refused (default no limit)", count)
	value(o, &s.Latency, "latency", "`time` that a request takes besides (default 10ms)", instant)
	value(o, &s.Slowdown, "slowdown", "`time` added for each request that the server holds (default 0)", orNone)
	value(o, &s.Network, "network", "mean `time` of a message, each way (default 0)", orNone)
	value(o, &s.Failure, "failure", "`share` of requests that fail at any time (default 0)", share)
	value(o, &s.Timeout, "timeout", "`time` that a client waits if the policy has no attempt_timeout (default 1s)", duration)
	value(o, &outage, "outage", "`time` for which the server does no work, 0 for none (default 2s, or none with -spike)", instant)
	o.BoolVar(&refuse, "refuse", false, "requests in the outage are refused at once instead of kept waiting")
	value(o, &spike, "spike", "calls in a spike, a `rate` (default no spike)", rate)
	value(o, &spikeFor, "spike-for", "`time` that it lasts (default 2s)", duration)
	value(o, &at, "at", "`time` at which outage and spike begin (default 10s)", duration)
	value(o, &s.Duration, "duration", "`time` simulated (default 1m30s)", duration)
	return func() (*report, error) {
		p, err := retryconf.Parse(text)
		switch {
		case text == "":
			return nil, fmt.Errorf("-policy: want a policy")
		case err != nil:
			return nil, fmt.Errorf("-policy: %w", err)
		}
		s.Seed = o.seed
		if outage < 0 && spike == 0 {
			outage = 2000 * ms
		}
		outage = max(outage, 0)
		until, band, what := at+outage, "outage", fmt.Sprintf("an outage of %v", outage)
		s.Outages = []storm.Outage{{From: at, To: at + outage, Refuse: refuse}}
		if spike > 0 {
			s.Spikes = []storm.Spike{{From: at, To: at + spikeFor, Rate: spike}}
			until, band, what = max(until, at+spikeFor), "spike", fmt.Sprintf("a spike to %g for %v", spike, spikeFor)
		}
		switch enough := until + 10_000*ms; {
		case at < 2000*ms:
			return nil, errors.New("-at: want at least 2s, to see what is normal before it")
		case s.Duration < enough:
			return nil, fmt.Errorf("-duration: want at least %v, 10s more than it takes until the %s is over", enough, band)
		case endless(p) && s.Network < ms && (s.Queue > 0 || refuse && outage > 0):
			return nil, errors.New("-policy: unlimited attempts without waits never end where a refusal takes no time, want -network 1ms or more")
		}
		r := &report{title: fmt.Sprintf("%g calls per second meet %s", s.Rate, what), header: []string{"policy", "load", "lost calls", "success p50", "success p99", "verdict"}}
		r.chart = overTime(s.Duration, at, until, band)
		var rows []tryRow
		policies := variants(p)
		for i, p := range policies {
			s.Progress = func(done float64) { o.progress((float64(i) + done) / float64(len(policies))) }
			result := s.Run(p)
			row := judge(p, result, at, until)
			rows = append(rows, row)
			r.add(row.Policy, fmt.Sprintf("%.2f", row.Load), row.Lost, result.Quantile(.5).Round(ms), result.Quantile(.99).Round(ms), row.Verdict)
			r.notes = append(r.notes, fmt.Sprintf("%s: %s", row.Policy, row.Text))
			r.chart.result(row.Policy, result)
		}
		r.Rows = rows
		return r, nil
	}
}

// endless reports whether a policy would retry for ever at one instant.
func endless(p retry.Policy) bool {
	for _, b := range []retry.Backoff{p.Backoff, p.ThrottleBackoff} {
		if b != nil && p.MaxAttempts < 0 && b.Delay(retry.Step{Retry: 100, Prev: time.Hour, Rand: .5}) < time.Millisecond {
			return true
		}
	}
	return false
}

// variants returns a policy and what it is compared with.
func variants(p retry.Policy) []retry.Policy {
	none := retry.Policy{Name: "none", MaxAttempts: 1, AttemptTimeout: p.AttemptTimeout}
	naive := p.Named("naive")
	naive.Backoff, naive.ThrottleBackoff, naive.Budget = retry.Constant(0), nil, nil
	if naive.MaxAttempts == 1 || naive.MaxAttempts < 0 {
		naive.MaxAttempts = retry.DefaultMaxAttempts
	}
	all := []retry.Policy{none, naive}
	if p.Budget != nil {
		unbudgeted := p.Named("unbudgeted")
		unbudgeted.Budget = nil
		all = append(all, unbudgeted)
	}
	return append(all, p.Named("yours"))
}

// judge sums up a result in which something was wrong from from to to.
func judge(p retry.Policy, r *storm.Result, from, to time.Duration) tryRow {
	const ms = float64(time.Millisecond)
	normal, _ := r.Rate(0, from)
	row := tryRow{
		Policy:  p.Name,
		Text:    retryconf.Format(p.Named("")),
		Load:    r.Load(),
		Success: r.Success(),
		Lost:    r.Asked - r.Succeeded,
		P50MS:   float64(r.Quantile(.5)) / ms,
		P99MS:   float64(r.Quantile(.99)) / ms,
		Ended:   map[string]int{},
	}
	running := r.Asked
	for reason, n := range r.Ended {
		name := reason.String()
		if reason == retry.ReasonNone {
			name = "success"
		}
		row.Ended[name] = n
		running -= n
	}
	if running > 0 {
		row.Ended["running"] = running
	}
	if normal > 0 {
		row.Peak = r.Peak(time.Second) / normal
	}
	end := time.Duration(len(r.Buckets)) * r.Bucket
	quarter := (end - to) / 4
	after, recovered := r.Recovery(from, to)
	switch {
	case failsAnyway(r, from/2):
		row.Verdict = "fails most calls even before it"
		recovered = false
	case !recovered && held(r, end-quarter, end) > .9*held(r, end-2*quarter, end-quarter):
		row.Verdict = "would stay down for good"
	case !recovered:
		row.Verdict = fmt.Sprintf("is still down %.0f s later", (end - to).Seconds())
	case after == 0:
		row.Verdict = "is back as soon as it is over"
	default:
		row.Verdict = fmt.Sprintf("recovers after %.1f s", after.Seconds())
	}
	if recovered {
		seconds := after.Seconds()
		row.RecoveryS = &seconds
	}
	if normal > 0 {
		row.Verdict += fmt.Sprintf("; peak %.1f × normal", row.Peak)
	}
	return row
}

// failsAnyway reports whether most calls that begin before an instant fail.
func failsAnyway(r *storm.Result, before time.Duration) bool {
	asked, good := 0, 0
	for _, b := range r.Buckets[:min(int(before/r.Bucket), len(r.Buckets))] {
		asked, good = asked+b.Asked, good+b.Good
	}
	return 2*good < asked
}

// held returns how many requests are held between two instants, on average: at one
// instant it may be chance.
func held(r *storm.Result, from, to time.Duration) (mean float64) {
	for i := range 64 {
		mean += r.Held(from+time.Duration(i)*(to-from)/64) / 64
	}
	return mean
}
