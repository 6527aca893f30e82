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
	"github.com/goretry/retry/internal/storm"
	"github.com/goretry/retry/retryconf"
)

const (
	policyDefault = "attempts=4 backoff=exponential(100ms,10s)"
	policyExample = policyDefault + " budget=ratio(0.1)"
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

	runs [storm.Flooded + 1][]*storm.Result // by their ending
}

// ended returns how many runs ended so.
func (row *tryRow) ended(e storm.Ending) int { return len(row.runs[e]) }

func try(o *options) job {
	x := newScenario(o)
	return func(ctx context.Context) (*report, error) {
		if err := x.check(o); err != nil {
			return nil, err
		}
		policies := x.variants()
		rows := x.compare(ctx, policies)
		for _, g := range x.guards { // beside each guard: none, and the given policies
			y := *x
			y.extended, y.beside = false, " + "+g.name
			g.set(&y.Service)
			rows = append(rows, y.compare(ctx, policies[:1+len(x.policies)])...)
		}
		if len(rows) == 0 {
			return nil, ctx.Err()
		}
		choose, can := x.choose(rows), "any"
		r := &report{
			header: append([]string{"policy"}, measures...),
			doc:    map[string]any{"rows": rows, "choose": choose},
			notes:  append(x.remarks(rows), "choose "+choose),
			figure: x.picture(rows),
			inputs: o.inputs(),
		}
		if limit := x.limit(); limit > 0 {
			r.inputs["capacity"], can = limit, fmt.Sprintf("%.4g/s", limit)
		}
		r.title = fmt.Sprintf("%d processes make %g calls per second of a server that can do %s, and meet %s", x.Processes, x.Rate, can, x.what)
		for _, row := range rows {
			r.add(row.cells(row.Policy)...)
		}
		return r, nil
	}
}

// variants returns the policies to compare: none, those that were given, and the
// first of them with each budget at its defaults.
func (x *scenario) variants() []retry.Policy {
	first := x.policies[0]
	none := retry.Policy{Name: "none", MaxAttempts: 1, AttemptTimeout: first.AttemptTimeout}
	all := append([]retry.Policy{none}, x.policies...)
	if first.AttemptLimit() == 1 {
		first.MaxAttempts = retry.DefaultMaxAttempts
	}
	for _, budget := range []string{"token", "ratio", "concurrency"} {
		defaults, _ := retryconf.Parse("budget=" + budget)
		p := first.Named(budget)
		p.Budget = defaults.Budget
		text := func(p retry.Policy) string { return retryconf.Format(p.Named("")) }
		if !slices.ContainsFunc(all, func(q retry.Policy) bool { return text(q) == text(p) }) {
			all = append(all, p)
		}
	}
	return all
}

// measures are the columns of a row in a table, behind its name.
var measures = []string{"stays down", "recovery", "lost", "load", "peak", "p50", "p99", ""}

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
				rows, unclear = append(rows, row), unclear+row.ended(storm.Unclear)
			}
		}
		if unclear == 0 || !x.extended || round == 2 || 2*x.Duration > longest || ctx.Err() != nil {
			return rows
		}
		x.Duration *= 2
	}
}

// sum sums up a policy's runs.
func (x *scenario) sum(p retry.Policy, results []*storm.Result) tryRow {
	all, n := storm.Merge(results), float64(len(results))
	row := tryRow{
		Policy: name(p) + x.beside, Text: retryconf.Format(p), Seeds: len(results),
		Lost: float64(all.Asked-all.Succeeded) / n, LostShare: 1 - all.Success(), Load: all.Load(),
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
	row.Verdict = x.verdict(&row)
	return row
}

// verdict says in words what a row shows, and nothing that it does not.
func (x *scenario) verdict(row *tryRow) string {
	n, down, unclear := row.Seeds, row.ended(storm.Down), row.ended(storm.Unclear)
	var words []string
	switch q := row.Recovery; {
	case x.spare() <= 0:
		return fmt.Sprintf("a load of %g/s is above the capacity of %.4g/s", x.Rate, x.limit())
	case row.ended(storm.Failing) > n/2:
		return "most calls fail even before it"
	case row.ended(storm.Flooded) > 0:
		return "retries so fast that the run was given up after 100 attempts per call"
	case q != nil && down+unclear == 0 && x.end == x.at:
		return "nothing to recover from"
	case q != nil && down+unclear == 0 && q["p95"] == 0:
		return "is back as soon as it is over"
	case q != nil && down+unclear == 0:
		return fmt.Sprintf("recovers in %.1f s", q["p50"])
	case down == n:
		return "stays down"
	case down > 0:
		words = append(words, fmt.Sprintf("stays down in %d of %d", down, n))
	}
	if unclear > 0 {
		words = append(words, fmt.Sprintf("not yet back %.0f s later in %d of %d", (x.Duration-x.end).Seconds(), unclear, n))
	}
	return strings.Join(words, "; ")
}

// choose returns which policy to choose, and why: the one that stays down in the
// fewest seeds, then loses the fewest calls. What differs by less than a hundredth
// of the calls counts as equal, and then the first of the given ones is as good.
func (x *scenario) choose(rows []tryRow) string {
	if x.spare() <= 0 {
		return "more capacity or less load: no policy helps a server that is asked for more than it can do"
	}
	if rows[0].ended(storm.Failing) > 0 {
		return "a longer timeout or a faster server: most calls fail even without a disturbance"
	}
	bad := func(r tryRow) int { return r.Seeds - r.ended(storm.Recovered) }
	candidates := append(slices.Clone(rows[1:]), rows[0]) // none comes last: it helps against no failure
	best := slices.MinFunc(candidates, func(a, b tryRow) int {
		lost := a.LostShare - b.LostShare
		if math.Abs(lost) <= .002+.02*min(a.LostShare, b.LostShare) {
			lost = 0
		}
		return cmp.Or(cmp.Compare(bad(a)*b.Seeds, bad(b)*a.Seeds), cmp.Compare(lost, 0))
	})
	if 20*bad(best) > best.Seeds {
		return fmt.Sprintf("none of these: even %s is not back in %d of %d; retry less, or have the server drop what nobody waits for "+
			"(-abandoned dropped), serve the newest first, or hold a shorter queue (-queue)", best.Policy, bad(best), best.Seeds)
	}
	var beside []string
	for _, row := range candidates {
		if row.Policy != best.Policy && (row.Policy == "none" || row.ended(storm.Down) > 0) {
			beside = append(beside, fmt.Sprintf("%s in %d and %.2f %%", row.Policy, row.ended(storm.Down), 100*row.LostShare))
		}
	}
	why := fmt.Sprintf("%s: it stays down in %d of %d, and loses %.2f %% of the calls", best.Policy, best.ended(storm.Down), best.Seeds, 100*best.LostShare)
	if len(beside) > 0 {
		why += " (" + strings.Join(beside, "; ") + ")"
	}
	return why
}

// remarks returns what to know of these inputs.
func (x *scenario) remarks(rows []tryRow) (all []string) {
	if x.extended {
		all = append(all, fmt.Sprintf("%v are simulated, which is as long as it takes to tell.", x.Duration))
	}
	budgets, spare := float64(x.Processes), x.spare()
	if x.Shared {
		budgets = 1
	}
	for _, p := range x.variants() {
		if b, ok := p.Budget.(*retry.RatioBudget); ok && spare > 0 {
			if floor := cmp.Or(b.MinPerSecond, 10); floor*budgets > spare {
				all = append(all, fmt.Sprintf("%s: its floor of %g retries per second, times %g budgets, is %g/s, and the server has %.4g/s to spare: it does not protect the server.", name(p), floor, budgets, floor*budgets, spare))
			}
		}
	}
	if wait := float64(x.Queue) / x.MaxRate(); x.Queue > 0 && wait > x.Timeout.Seconds() {
		all = append(all, fmt.Sprintf("A full queue of %d takes %.1f s, longer than the timeout of %v: then every answer comes too late.", x.Queue, wait, x.Timeout))
	}
	if rows[0].Seeds < x.seeds {
		all = append(all, "Interrupted: not all seeds were run.")
	}
	return all
}

// picture draws each policy apart, so that no line hides another: what the server
// worked for, and how long it would take for what it holds.
func (x *scenario) picture(rows []tryRow) figure {
	f := figure{height: 110, columns: 2, legend: []series{
		{name: "useful work", color: 2, style: "area"}, {name: "work nobody waits for", color: 1, style: "area"},
		{name: "requests sent", color: 6}, {name: "capacity, timeout", style: "dash"}, {name: "backlog", color: 4, style: "area"},
	}}
	limit, top := x.limit(), 0.0
	for _, row := range rows {
		r := row.typical()
		useful := perSecond(r, func(b storm.Bucket) int { return b.Worked - b.Wasted })
		wasted := perSecond(r, func(b storm.Bucket) int { return b.Worked })
		for i := range wasted {
			wasted[i].base = useful[i].y
		}
		work := x.panel("requests per second", limit, "")
		work.title = row.Policy
		work.lines = []series{{color: 2, style: "area", points: useful}, {color: 1, style: "area", points: wasted}, {color: 6, points: perSecond(r, attempts)}}
		waits := x.panel("backlog, in seconds of work: "+row.Verdict, x.Timeout.Seconds(), "timeout")
		waits.lines = []series{{color: 4, style: "area", points: backlog(r, cmp.Or(limit, x.Rate))}}
		_, y := work.extent()
		top = max(top, y)
		f.panels = append(f.panels, work, waits)
	}
	for i := 0; i < len(f.panels); i += 2 { // all work on one scale
		f.panels[i].top = min(top, 5*max(limit, x.Rate))
	}
	return f
}

// typical returns the sum of the runs that ended as most did.
func (row *tryRow) typical() *storm.Result {
	return storm.Merge(slices.MaxFunc(row.runs[:], func(a, b []*storm.Result) int { return len(a) - len(b) }))
}
