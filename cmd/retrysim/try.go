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
	Why       string             `json:"why,omitempty"` // it stays down
	Others    []other            `json:"others"`        // how the policy fares in other disturbances

	runs   [storm.Flooded + 1][]*storm.Result // by their ending
	danger string                             // see scenario.danger
	all    tally
}

// other is a policy's result in another disturbance.
type other struct {
	Disturbance string  `json:"disturbance"`
	Seeds       int     `json:"seeds"`
	StaysDown   float64 `json:"stays_down"`
	LostShare   float64 `json:"lost_share"`
}

// tally sums up a row and its others.
type tally struct {
	runs, bad int     // bad ones do not recover
	lost      float64 // the share of the calls, in the mean disturbance
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
		rows := x.judge(ctx, policies)
		for _, g := range x.guards { // beside each guard: none, and the given policies
			y := *x
			y.extended, y.beside = false, " + "+g.name
			g.set(&y.Service)
			rows = append(rows, y.judge(ctx, policies[:1+len(x.policies)])...)
		}
		if len(rows) == 0 {
			return nil, ctx.Err()
		}
		choose, can := x.choose(rows), "any"
		r := &report{
			header: slices.Concat([]string{"policy"}, measures, []string{"others"}),
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
			r.add(append(row.cells(row.Policy), row.beside())...)
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
	for _, budget := range []string{"earned", "token", "ratio", "concurrency"} {
		defaults, _ := retryconf.Parse("budget=" + budget)
		p := first.Named(budget)
		p.Budget = defaults.Budget
		text := func(p retry.Policy) string {
			p.Name, p.Budget = "", implicit(p.Budget)
			return retryconf.Format(p)
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
	case *retry.TokenBudget:
		return &retry.TokenBudget{Capacity: unless(b.Capacity, 500), Cost: unless(b.Cost, 14), ThrottleCost: unless(b.ThrottleCost, 5), Reward: unless(b.Reward, 1)}
	case *retry.RatioBudget:
		return &retry.RatioBudget{Ratio: unless(b.Ratio, .1), MinPerSecond: max(b.MinPerSecond, 0), Window: unless(max(b.Window, 0), 10*time.Second)}
	case *retry.ConcurrencyBudget:
		return &retry.ConcurrencyBudget{Ratio: unless(b.Ratio, .2), Min: unless(b.Min, 3)}
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

// judge runs all policies with all seeds, and with a few of them in the other
// disturbances. An interrupt may leave these out.
func (x *scenario) judge(ctx context.Context, policies []retry.Policy) []tryRow {
	rows := x.compare(ctx, policies)
	for i := range rows {
		row := &rows[i]
		row.all = tally{row.Seeds, row.Seeds - row.ended(storm.Recovered), row.LostShare}
	}
	others := x.others()
	for i, y := range others {
		found := y.compare(ctx, policies)
		if len(found) < len(policies) || ctx.Err() != nil {
			return rows
		}
		for j, f := range found {
			row := &rows[j]
			row.Others = append(row.Others, other{y.what, f.Seeds, f.StaysDown, f.LostShare})
			row.all.runs += f.Seeds
			row.all.bad += f.Seeds - f.ended(storm.Recovered)
			row.all.lost += (f.LostShare - row.all.lost) / float64(i+2)
		}
	}
	return rows
}

// others returns the disturbances that a policy should withstand besides this one:
// outages of other kinds, as long, and none, with a tenth of the requests failing at
// random.
func (x *scenario) others() (all []scenario) {
	for _, answer := range []string{"hang", "refused", "slow", ""} {
		y := *x
		y.answer, y.spike, y.seeds = answer, 0, min(x.seeds, fewSeeds)
		outage := cmp.Or(x.outage, 3*time.Second)
		if answer == "" {
			outage, y.Failure = 0, max(x.Failure, .1)
		}
		y.disturb(outage)
		y.extended = y.end <= longest-visible // whatever -duration says, since what is chosen is printed as given
		y.Duration = max(y.enough(), y.end+visible)
		same := y.what == x.what && y.Failure == x.Failure
		if answer == "" {
			y.what = fmt.Sprintf("no outage, and %.3g %% of the requests fail at random", 100*y.Failure)
		}
		if !same && y.settle() == nil {
			all = append(all, y)
		}
	}
	return all
}

// fewSeeds are enough to see whether a policy withstands another disturbance.
const fewSeeds = 5

// beside sums up the other disturbances for a cell of the table.
func (row *tryRow) beside() string {
	if len(row.Others) == 0 {
		return ""
	}
	down, runs, lost := 0.0, 0, 0.0
	for _, o := range row.Others {
		down, runs, lost = down+o.StaysDown*float64(o.Seeds), runs+o.Seeds, lost+o.LostShare/float64(len(row.Others))
	}
	return fmt.Sprintf("%.0f of %d down, %.1f %% lost", down, runs, 100*lost)
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
	row.Verdict, row.danger = x.verdict(&row), x.danger(p)
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
	return fmt.Sprintf("it gets %.4g requests per second and can do %.4g, a call makes %.1f requests, and %.0f %% of the work comes too late",
		sent, x.limit(), float64(b.Sent)/max(float64(b.Asked), 1), 100*float64(b.Wasted)/max(float64(b.Worked), 1))
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
	if unclear > 0 && x.Duration <= x.end {
		return fmt.Sprintf("interrupted before the %s was over", x.band)
	}
	if unclear > 0 {
		words = append(words, fmt.Sprintf("not yet back %.0f s later in %d of %d", (x.Duration-x.end).Seconds(), unclear, n))
	}
	return strings.Join(words, "; ")
}

// choose returns which policy to choose, and why: the one that recovers in most runs,
// then loses the fewest calls, with this disturbance and the others. What differs by
// less than a hundredth of the calls counts as equal: then the given ones come first,
// and none last. It never chooses a policy that a remark warns of.
func (x *scenario) choose(rows []tryRow) string {
	if x.spare() <= 0 {
		return "more capacity or less load: no policy helps a server that gets more calls than it can do"
	}
	if rows[0].ended(storm.Failing) > 0 {
		return "a longer timeout or a faster server: most calls fail even without a disturbance"
	}
	candidates := append(slices.Clone(rows[1:]), rows[0])
	candidates = slices.DeleteFunc(candidates, func(r tryRow) bool { return r.danger != "" })
	fewest := slices.MinFunc(candidates, func(a, b tryRow) int { return cmp.Compare(a.all.bad, b.all.bad) }).all.bad
	candidates = slices.DeleteFunc(candidates, func(r tryRow) bool { return r.all.bad > fewest })
	least := slices.MinFunc(candidates, func(a, b tryRow) int { return cmp.Compare(a.all.lost, b.all.lost) }).all.lost
	best := candidates[slices.IndexFunc(candidates, func(r tryRow) bool { return r.all.lost <= 1.02*least+.002 })]
	if 20*best.all.bad > best.all.runs {
		return fmt.Sprintf("none of these: even %s is not back in %d of %d; retry less, or have the server drop what nobody waits for "+
			"(-abandoned dropped), serve the newest first, or hold a shorter queue (-queue)", best.Policy, best.all.bad, best.all.runs)
	}
	var beside []string
	for _, row := range rows {
		if row.Policy != best.Policy && (row.Policy == "none" || row.all.bad > 0) {
			beside = append(beside, fmt.Sprintf("%s: %d, %.2f %%", row.Policy, row.all.runs-row.all.bad, 100*row.all.lost))
		}
	}
	why := fmt.Sprintf("%s: it recovers in %d of %d runs, and loses %.2f %% of the calls", best.Policy, best.all.runs-best.all.bad, best.all.runs, 100*best.all.lost)
	if len(beside) > 0 {
		why += " (" + strings.Join(beside, "; ") + ")"
	}
	return why
}

// danger returns why a policy does not protect the server, whatever these runs show;
// "" if nothing is known against it.
func (x *scenario) danger(p retry.Policy) string {
	spare := x.spare()
	if spare <= 0 || math.IsInf(spare, 0) || x.Limit != nil {
		return ""
	}
	switch b := p.Budget.(type) {
	case nil:
		if n := p.AttemptLimit(); n > 1 && float64(n)*x.Rate > x.MaxRate() {
			most := fmt.Sprintf("%.4g requests per second", float64(n)*x.Rate)
			if n == math.MaxInt {
				most = "requests without end"
			}
			return fmt.Sprintf("it has no budget. While all attempts fail it makes %s, and the server can do %.4g/s: it does not protect the server.", most, x.MaxRate())
		}
	case *retry.RatioBudget:
		budgets := float64(x.Processes)
		if x.Shared {
			budgets = 1
		}
		if floor := b.MinPerSecond * budgets; floor > spare {
			return fmt.Sprintf("its floor of %g retries per second, times %g budgets, is %g/s, and the server has %.4g/s to spare: it does not protect the server.", b.MinPerSecond, budgets, floor, spare)
		}
	}
	return ""
}

// remarks returns what to know of these inputs.
func (x *scenario) remarks(rows []tryRow) (all []string) {
	unclear := 0
	for _, row := range rows {
		unclear += row.ended(storm.Unclear)
		if row.Why != "" && x.given(row.Text) {
			all = append(all, row.Policy+" stays down: "+row.Why+".")
		}
	}
	if simulated := fmt.Sprintf("Simulated %v", x.Duration); unclear == 0 {
		all = append(all, simulated+", enough to settle the outcome.")
	} else {
		all = append(all, fmt.Sprintf("%s, too short to settle the outcome of %d runs.", simulated, unclear))
	}
	if others := rows[0].Others; len(others) > 0 {
		var what []string
		for _, o := range others {
			what = append(what, o.Disturbance)
		}
		all = append(all, fmt.Sprintf("The others (runs of each: %d): %s.", others[0].Seeds, strings.Join(what, "; ")))
	}
	for _, row := range rows {
		if row.danger != "" {
			all = append(all, row.Policy+": "+row.danger)
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

// given reports whether a policy is one that was given.
func (x *scenario) given(text string) bool {
	return slices.ContainsFunc(x.policies, func(p retry.Policy) bool { return retryconf.Format(p) == text })
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
