package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryconf"
	"github.com/goretry/retry/retrysim/internal/storm"
)

const (
	policyDefault = "attempts=4 backoff=exponential(100ms,10s)"
	policyExample = policyDefault + " budget=earned"
)

// tryRow is one policy's result over all seeds.
type tryRow struct {
	Policy    string             `json:"policy"`
	Text      string             `json:"text"`
	Seeds     int                `json:"seeds"`
	StaysDown float64            `json:"stays_down"` // the share of the seeds
	Recovery  map[string]float64 `json:"recovery_s"` // of those that recover: p5, p50 and p95; null if none
	Lost      float64            `json:"lost"`       // calls that fail, in a mean run
	LostShare float64            `json:"lost_share"`
	Load      float64            `json:"load"` // attempts per call
	Peak      float64            `json:"peak"` // the most attempts in a second, to calls in a normal one
	P50MS     float64            `json:"p50_ms"`
	P99MS     float64            `json:"p99_ms"`
	Verdict   string             `json:"verdict"`
	Recovers  bool               `json:"recovers"`      // the verdict is good
	Why       string             `json:"why,omitempty"` // it stays down
	Others    []other            `json:"others"`        // how the policy fares in other disturbances

	added  bool                               // no policy that was given, but the first of them with a budget
	runs   [storm.Flooded + 1][]*storm.Result // by their ending
	asked  int                                // calls in all of them
	budget retry.Budget
	danger string // see scenario.danger
	all    tally
}

// ended returns how many runs ended so.
func (row *tryRow) ended(e storm.Ending) int { return len(row.runs[e]) }

// failing reports whether most calls fail even before the disturbance, in most runs.
func (row *tryRow) failing() bool { return row.ended(storm.Failing) > row.Seeds/2 }

func try(o *options) job {
	x := newScenario(o)
	return func(ctx context.Context) (*report, error) {
		if err := x.check(o); err != nil {
			return nil, err
		}
		r, _, err := x.try(ctx, o)
		return r, err
	}
}

// try compares the policies of a scenario whose flags have been checked.
func (x *scenario) try(ctx context.Context, o *options) (*report, []tryRow, error) {
	policies := x.variants()
	runs := x.seeds // of a policy
	for _, y := range x.others() {
		runs += y.seeds
	}
	x.progress.left(runs * (len(policies) + len(x.guards)*(1+len(x.policies))))
	rows := x.judge(ctx, policies)
	for _, g := range x.guards { // beside each guard: no retries, and the given policies
		y := *x
		y.extended, y.beside = false, " + "+g.name
		g.set(&y.Service)
		rows = append(rows, y.judge(ctx, policies[:1+len(x.policies)])...)
	}
	if len(rows) == 0 {
		return nil, nil, interruptedAfter(0, len(policies)*x.seeds, "runs")
	}
	choose, remarks, can := x.choose(rows), x.remarks(rows), "any"
	if ctx.Err() != nil {
		remarks = append(remarks, "Interrupted: not all runs were made.")
	}
	r := &report{
		header:  slices.Concat([]string{"policy"}, measures, []string{"others"}),
		doc:     map[string]any{"rows": rows, "choose": choose},
		notes:   append(slices.Clip(remarks), "choose "+choose),
		remarks: remarks,
		figure:  x.picture(rows),
		legend:  legendOfRows + " others: the same policy in other disturbances, named below.",
		inputs:  o.inputs(),
	}
	if limit := x.limit(); limit > 0 {
		r.inputs["capacity"], can = limit, fmt.Sprintf("%.4g/s", limit)
	}
	r.title = fmt.Sprintf("%d processes make %g calls per second of %s that can do %s, and meet %s", x.Processes, x.Rate, x.callee(), can, x.what)
	for _, row := range rows {
		r.add(append(row.cells(row.Policy), row.beside())...)
	}
	return r, rows, nil
}

// callee returns what the processes call, in words.
func (x *scenario) callee() string {
	switch {
	case x.shards > 0:
		return fmt.Sprintf("%d shards", x.shards)
	case x.replicas > 0:
		return fmt.Sprintf("%d replicas", x.replicas)
	}
	return "a server"
}

// noRetries names the row to compare with.
const noRetries = "no retries"

// variants returns the policies to compare: one that makes no retries, those that were
// given, and the first of them with each budget at its defaults.
func (x *scenario) variants() []retry.Policy {
	first := x.policies[0]
	once := retry.Policy{Name: noRetries, MaxAttempts: 1, AttemptTimeout: first.AttemptTimeout}
	all := append([]retry.Policy{once}, x.policies...)
	if first.AttemptLimit() == 1 {
		first.MaxAttempts = retry.Policy{}.AttemptLimit()
	}
	for _, budget := range []string{"earned", "token", "ratio"} {
		defaults, _ := parse("budget=" + budget)
		p := first.Named(budget)
		p.Budget = defaults.Budget
		text := func(p retry.Policy) string {
			p.Name, p.Budget = "", implicit(p.Budget)
			return retryconf.Policy{Policy: p}.String()
		}
		if !slices.ContainsFunc(all, func(q retry.Policy) bool { return text(q) == text(p) }) {
			all = append(all, p)
		}
	}
	return all
}

// implicit returns a budget with 0 in each field that has its default.
func implicit(b retry.Budget) retry.Budget {
	switch b := b.(type) {
	case *retry.EarnedBudget:
		return &retry.EarnedBudget{} // without a name of its own
	case *budget.Token:
		return &budget.Token{Capacity: unless(b.Capacity, 500), Cost: unless(b.Cost, 14), ThrottleCost: unless(b.ThrottleCost, 5), Reward: unless(b.Reward, 1)}
	case *budget.Ratio:
		return &budget.Ratio{Ratio: unless(b.Ratio, .1), MinPerSecond: max(b.MinPerSecond, 0), Window: unless(max(b.Window, 0), 10*time.Second)}
	}
	return b
}

// unless returns a value, and 0 in place of one that it names.
func unless[T comparable](value, but T) (v T) {
	if value != but {
		v = value
	}
	return v
}

// measures are the columns of a row in a table, behind its name.
var measures = []string{"stays down", "recovery", "lost", "load", "peak", "p50", "p99", "verdict"}

// legendOfRows explains them.
const legendOfRows = "lost: calls that fail in a run. load: requests per call. peak: requests in the busiest second, as a multiple of the calls in a normal one. " +
	"p50, p99: how long calls take."

// cells returns the row's line in a table.
func (row *tryRow) cells(name string) []any {
	recovery := "–"
	if q := row.Recovery; q != nil {
		recovery = fmt.Sprintf("%.1f s (%.1f–%.1f)", q["p50"], q["p5"], q["p95"])
	}
	ms := func(f float64) time.Duration { return time.Duration(math.Round(f)) * time.Millisecond }
	return []any{name, fmt.Sprintf("%d of %d", row.ended(storm.Down), row.Seeds), recovery,
		fmt.Sprintf("%.0f (%.1f %%)", row.Lost, 100*row.LostShare), fmt.Sprintf("%.2f", row.Load), fmt.Sprintf("%.1f ×", row.Peak),
		ms(row.P50MS), ms(row.P99MS), row.Verdict}
}

// compare runs all policies with all seeds. Where the duration is not given and some
// run was too short to tell, all are made twice as long, twice at most: rows of one
// table are equally long.
func (x *scenario) compare(ctx context.Context, policies []retry.Policy) []tryRow {
	for round := 0; ; round++ {
		var rows []tryRow
		unclear := 0
		for i, results := range x.Trials(ctx, policies, x.seeds) {
			if results = slices.DeleteFunc(results, func(r *storm.Result) bool { return r == nil }); len(results) > 0 {
				row := x.sum(policies[i], results)
				row.added = i > len(x.policies)
				rows, unclear = append(rows, row), unclear+row.ended(storm.Unclear)
			}
		}
		_, calls := x.calls(2 * x.Duration)
		if unclear == 0 || !x.extended || round == 2 || 2*x.Duration > longest || calls > x.most || ctx.Err() != nil {
			return rows
		}
		x.Duration *= 2
		x.progress.more(x.seeds * len(policies))
	}
}

// sum sums up a policy's runs.
func (x *scenario) sum(p retry.Policy, results []*storm.Result) tryRow {
	all, n := storm.Merge(results), float64(len(results))
	row := tryRow{
		Policy: name(p) + x.beside, Text: retryconf.Policy{Policy: p}.String(), Seeds: len(results), asked: all.Asked, budget: p.Budget,
		Lost: float64(all.Asked-all.Succeeded) / n, LostShare: float64(all.Asked-all.Succeeded) / float64(max(all.Asked, 1)), Load: all.Load(),
		P50MS: all.Quantile(.5).Seconds() * 1000, P99MS: all.Quantile(.99).Seconds() * 1000,
	}
	var took []float64
	for _, r := range results {
		ending, after := r.Ending(x.at, x.end)
		if ending == storm.Down && p.AttemptLimit() == 1 && x.spare() > 0 {
			ending = storm.Unclear // without retries what has piled up gets less, however slowly
		}
		row.runs[ending] = append(row.runs[ending], r)
		if ending == storm.Recovered {
			took = append(took, after.Seconds())
		}
		if normal, _ := r.Rate(0, x.at); normal > 0 {
			row.Peak += r.Peak(time.Second) / normal / n
		}
	}
	row.StaysDown = float64(row.ended(storm.Down)) / n
	if len(took) > 0 {
		row.Recovery = map[string]float64{"p5": storm.Quantile(took, .05), "p50": storm.Quantile(took, .5), "p95": storm.Quantile(took, .95)}
	}
	row.Verdict, row.Recovers = x.verdict(&row)
	row.danger = x.danger(p)
	if row.ended(storm.Down) > 0 {
		row.Why = x.why(storm.Merge(row.runs[storm.Down]))
	}
	return row
}

// why says what keeps a server down, from the last quarter of the time after the
// disturbance.
func (x *scenario) why(down *storm.Result) string {
	from := x.Duration - (x.Duration-x.end)/4
	sent, _ := down.Rate(from, x.Duration)
	b := down.Sum(from, x.Duration)
	return fmt.Sprintf("the server gets %.4g requests per second and can do %.4g, a call makes %.1f requests, and %.0f %% of the work comes too late",
		sent, x.shown()*x.limit(), float64(b.Sent)/max(float64(b.Asked), 1), 100*float64(b.Wasted)/max(float64(b.Worked), 1))
}

// verdict says in words what a row shows, and nothing that it does not; and whether
// that is good: the server is back, in all runs.
func (x *scenario) verdict(row *tryRow) (words string, recovers bool) {
	n, down, unclear := row.Seeds, row.ended(storm.Down), row.ended(storm.Unclear)
	var parts []string
	switch q := row.Recovery; {
	case x.spare() <= 0:
		return fmt.Sprintf("a load of %g/s is above the capacity of %.4g/s", x.Rate, x.limit()), false
	case row.asked == 0:
		return "no calls were made", false
	case row.failing():
		return "most calls fail even before it", false
	case row.ended(storm.Flooded) > 0:
		return "retries so fast that the run was given up after 100 attempts per call", false
	case q != nil && down+unclear == 0 && x.end == x.at:
		return "nothing to recover from", true
	case q != nil && down+unclear == 0 && q["p95"] == 0:
		return "is back as soon as it is over", true
	case q != nil && down+unclear == 0:
		return fmt.Sprintf("recovers in %.1f s", q["p50"]), true
	case down == n:
		return "stays down", false
	case down > 0:
		parts = append(parts, fmt.Sprintf("stays down in %d of %d", down, n))
	}
	if unclear > 0 && x.Duration <= x.end {
		return fmt.Sprintf("interrupted before the %s was over", x.band), false
	}
	if unclear > 0 {
		parts = append(parts, fmt.Sprintf("not yet back %.0f s later in %d of %d", (x.Duration-x.end).Seconds(), unclear, n))
	}
	return strings.Join(parts, "; "), false
}

// picture draws what the server worked for without retries, with the given policies, and
// with an EarnedBudget. The table has the other budgets too.
func (x *scenario) picture(rows []tryRow) figure {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row tryRow) bool { return row.added && row.Policy != "earned" })
	f := figure{height: 110, panels: x.work(rows), legend: []series{
		{name: "useful work", color: 2, style: "area"}, {name: "work nobody waits for", color: 1, style: "area"},
		{name: "requests sent", color: 6}, {name: "capacity", style: "dash"},
	}}
	for i, row := range rows {
		f.panels[i].y += ": " + row.Verdict
	}
	return f
}

// work returns a panel for each row, so that no line hides another: what the server worked
// for. All have one scale.
func (x *scenario) work(rows []tryRow) (panels []panel) {
	limit, top := x.shown()*x.limit(), 0.0
	for _, row := range rows {
		r := row.typical()
		useful := perSecond(r, func(b storm.Bucket) int { return b.Worked - b.Wasted })
		wasted := perSecond(r, func(b storm.Bucket) int { return b.Worked })
		for i := range wasted {
			wasted[i].base = useful[i].y
		}
		p := x.panel("requests per second", limit, "")
		p.title = row.Policy
		p.lines = []series{{color: 2, style: "area", points: useful}, {color: 1, style: "area", points: wasted}, {color: 6, points: perSecond(r, attempts)}}
		_, y := p.extent()
		top = max(top, y)
		panels = append(panels, p)
	}
	for i := range panels {
		panels[i].top = min(top, 5*max(limit, x.shown()*x.Rate))
	}
	return panels
}

// waits returns a panel of how long the server would take for what it holds.
func (x *scenario) waits(row *tryRow) panel {
	p := x.panel("backlog in seconds of work (own scale): "+row.Verdict, x.Timeout.Seconds(), "timeout")
	p.lines = []series{{color: 4, style: "area", points: backlog(row.typical(), cmp.Or(x.shown()*x.limit(), x.shown()*x.Rate))}}
	return p
}

// typical returns the sum of the runs that ended as most did.
func (row *tryRow) typical() *storm.Result {
	return storm.Merge(slices.MaxFunc(row.runs[:], func(a, b []*storm.Result) int { return len(a) - len(b) }))
}
