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

var tryCommand = command{try, "try -policy '" + policyExample + "' -processes 30 -rate 150/s -workers 10 -service 50ms -outage 3s"}

// tryRow is one policy's result over all seeds.
type tryRow struct {
	Policy    string     `json:"policy"`
	Text      string     `json:"text"`
	Seeds     int        `json:"seeds"`
	StaysDown float64    `json:"stays_down"` // the share of the seeds
	Recovery  *quantiles `json:"recovery_s"` // of those that recover; null if none
	Lost      float64    `json:"lost"`       // calls that fail, in a mean run
	LostShare float64    `json:"lost_share"`
	Load      float64    `json:"load"` // attempts per call
	Peak      float64    `json:"peak"` // the most attempts in a second, to calls in a normal one
	P50MS     float64    `json:"p50_ms"`
	P99MS     float64    `json:"p99_ms"`
	Verdict   string     `json:"verdict"`

	results []*storm.Result
	endings map[storm.Ending]int
}

type quantiles struct {
	P5  float64 `json:"p5"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

func try(o *options) (check func() error, do job) {
	x := newScenario(o)
	return func() error { return x.check(o) }, func(ctx context.Context) (*report, error) { return x.try(ctx, o) }
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
	for _, b := range []struct {
		name string
		retry.Budget
	}{{"token", &retry.TokenBudget{}}, {"ratio", &retry.RatioBudget{}}, {"concurrency", &retry.ConcurrencyBudget{}}} {
		p := first.Named(b.name)
		p.Budget = b.Budget
		text := func(p retry.Policy) string { return retryconf.Format(p.Named("")) }
		if !slices.ContainsFunc(all, func(q retry.Policy) bool { return text(q) == text(p) }) {
			all = append(all, p)
		}
	}
	return all
}

func (x *scenario) try(ctx context.Context, o *options) (*report, error) {
	policies := x.variants()
	rows := x.compare(ctx, policies, o.progress)
	for _, g := range x.guards { // beside each guard: none, and the given policies
		y := *x
		y.extended = false
		g.set(&y.Service)
		guarded := slices.Clone(policies[:1+len(x.policies)])
		for i := range guarded {
			guarded[i].Name += " + " + g.name
		}
		rows = append(rows, y.compare(ctx, guarded, o.progress)...)
	}
	if len(rows) == 0 {
		return nil, ctx.Err()
	}
	choose := x.choose(rows)
	r := &report{
		title:  fmt.Sprintf("%d processes make %g calls per second of a server that can do %s, and meet %s", x.Processes, x.Rate, x.capacity(), x.what),
		header: []string{"policy", "stays down", "recovery", "lost", "load", "peak", "p50", "p99", ""},
		notes:  append(x.remarks(rows), "choose "+choose),
		doc:    map[string]any{"rows": rows, "choose": choose},
		figure: x.picture(rows),
		inputs: o.inputs(),
	}
	if limit := x.MaxRate(); !math.IsInf(limit, 0) {
		r.inputs["capacity"] = limit
	}
	for _, row := range rows {
		r.add(row.cells(row.Policy)...)
	}
	return r, nil
}

// cells returns the row's line in a table.
func (row *tryRow) cells(name string) []any {
	recovery := "–"
	if q := row.Recovery; q != nil {
		recovery = fmt.Sprintf("%.1f s (%.1f–%.1f)", q.P50, q.P5, q.P95)
	}
	ms := func(f float64) time.Duration { return time.Duration(math.Round(f)) * time.Millisecond }
	return []any{name, fmt.Sprintf("%d of %d", row.endings[storm.Down], row.Seeds), recovery, fmt.Sprintf("%.0f (%.1f %%)", row.Lost, 100*row.LostShare),
		fmt.Sprintf("%.2f", row.Load), fmt.Sprintf("%.1f ×", row.Peak), ms(row.P50MS), ms(row.P99MS), row.Verdict}
}

func (x *scenario) capacity() string {
	if limit := x.MaxRate(); !math.IsInf(limit, 0) {
		return fmt.Sprintf("%.4g/s", limit)
	}
	return "any"
}

// compare runs all policies with all seeds. Where the duration is not given and some
// run was too short to tell, all are made twice as long, twice at most: rows of one
// table are equally long.
func (x *scenario) compare(ctx context.Context, policies []retry.Policy, progress func(float64)) []tryRow {
	for round := 0; ; round++ {
		x.Progress = func(done float64) { progress((float64(round) + done) / float64(round+1)) }
		var rows []tryRow
		unclear := 0
		for i, results := range x.Trials(ctx, policies, x.seeds) {
			if results = slices.DeleteFunc(results, func(r *storm.Result) bool { return r == nil }); len(results) > 0 {
				row := x.sum(policies[i], results)
				rows, unclear = append(rows, row), unclear+row.endings[storm.Unclear]
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
	text := p.Named(strings.TrimSuffix(strings.TrimSuffix(p.Name, " + limit"), " + hedge"))
	if slices.Contains(x.texts, text.Name) {
		text.Name = ""
	}
	row := tryRow{Policy: p.Name, Text: retryconf.Format(text), Seeds: len(results), results: results, endings: map[storm.Ending]int{}}
	all := storm.Merge(results)
	n := float64(len(results))
	row.Lost, row.LostShare, row.Load = float64(all.Asked-all.Succeeded)/n, 1-all.Success(), all.Load()
	row.P50MS, row.P99MS = all.Quantile(.5).Seconds()*1000, all.Quantile(.99).Seconds()*1000
	var recoveries []float64
	for _, r := range results {
		ending, after := r.Ending(x.at, x.end)
		if ending == storm.Down && p.AttemptLimit() == 1 && x.spare() > 0 {
			ending = storm.Unclear // without retries what has piled up gets less, however slowly
		}
		row.endings[ending]++
		if ending == storm.Recovered {
			recoveries = append(recoveries, after.Seconds())
		}
		if normal, _ := r.Rate(0, x.at); normal > 0 {
			row.Peak += r.Peak(time.Second) / normal / n
		}
	}
	row.StaysDown = float64(row.endings[storm.Down]) / n
	if len(recoveries) > 0 {
		slices.Sort(recoveries)
		at := func(q float64) float64 { return recoveries[int(math.Round(q*float64(len(recoveries)-1)))] }
		row.Recovery = &quantiles{at(.05), at(.5), at(.95)}
	}
	row.Verdict = x.verdict(&row)
	return row
}

// verdict says in words what a row shows, and nothing that it does not.
func (x *scenario) verdict(row *tryRow) string {
	n, down, unclear := row.Seeds, row.endings[storm.Down], row.endings[storm.Unclear]
	var words []string
	switch {
	case x.spare() <= 0:
		return fmt.Sprintf("a load of %g/s is above the capacity of %s", x.Rate, x.capacity())
	case row.endings[storm.Failing] > n/2:
		return "most calls fail even before it"
	case row.endings[storm.Flooded] > 0:
		return "retries so fast that the run was given up after 100 attempts per call"
	case down == n:
		words = append(words, "stays down")
	case down > 0:
		words = append(words, fmt.Sprintf("stays down in %d of %d", down, n))
	}
	if unclear > 0 {
		words = append(words, fmt.Sprintf("not yet back %.0f s later in %d of %d", (x.Duration-x.end).Seconds(), unclear, n))
	}
	if q := row.Recovery; q != nil && len(words) == 0 {
		switch {
		case x.end == x.at:
			return "nothing to recover from"
		case q.P95 == 0:
			return "is back as soon as it is over"
		}
		return fmt.Sprintf("recovers in %.1f s", q.P50)
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
	if rows[0].endings[storm.Failing] > 0 {
		return "a longer timeout or a faster server: most calls fail even without a disturbance"
	}
	bad := func(r tryRow) float64 { return 1 - float64(r.endings[storm.Recovered])/float64(r.Seeds) }
	better := func(a, b tryRow) bool {
		d := a.LostShare - b.LostShare
		return bad(a) < bad(b) || bad(a) == bad(b) && d < -(.002+.02*min(a.LostShare, b.LostShare))
	}
	candidates := append(slices.Clone(rows[1:]), rows[0]) // none comes last: it helps against no failure
	best := candidates[0]
	for _, row := range candidates[1:] {
		if better(row, best) {
			best = row
		}
	}
	why := fmt.Sprintf("%s: it stays down in %d of %d, and loses %.2f %% of the calls", best.Policy, best.endings[storm.Down], best.Seeds, 100*best.LostShare)
	if bad(best) > .05 {
		return fmt.Sprintf("none of these: even %s is not back in %.0f of %d; retry less, or have the server drop what nobody waits for (-abandoned dropped), serve the newest first, or hold a shorter queue (-queue)", best.Policy, bad(best)*float64(best.Seeds), best.Seeds)
	}
	var beside []string
	for _, row := range candidates {
		if row.Policy != best.Policy && (row.Policy == "none" || row.endings[storm.Down] > 0) {
			beside = append(beside, fmt.Sprintf("%s in %d and %.2f %%", row.Policy, row.endings[storm.Down], 100*row.LostShare))
		}
	}
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
				all = append(all, fmt.Sprintf("%s: its floor of %g retries per second, times %g budgets, is %g/s, and the server has %.4g/s to spare: it does not protect the server.", p.Name, floor, budgets, floor*budgets, spare))
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
	limit := x.MaxRate()
	if math.IsInf(limit, 0) {
		limit = 0
	}
	top := 0.0
	for _, row := range rows {
		most := row.typical(x)
		useful := perSecond(most, func(b storm.Bucket) int { return b.Worked - b.Wasted })
		wasted := perSecond(most, func(b storm.Bucket) int { return b.Worked })
		for i := range wasted {
			wasted[i].base = useful[i].y
		}
		work, waits := x.panel("requests per second", limit, ""), x.panel("backlog, in seconds of work: "+row.Verdict, x.Timeout.Seconds(), "timeout")
		work.title = row.Policy
		work.lines = []series{{color: 2, style: "area", points: useful}, {color: 1, style: "area", points: wasted}, {color: 6, points: perSecond(most, attempts)}}
		waits.lines = []series{{color: 4, style: "area", points: backlog(most, cmp.Or(limit, x.Rate))}}
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
func (row *tryRow) typical(x *scenario) *storm.Result {
	most := storm.Recovered
	for ending, n := range row.endings {
		if n > row.endings[most] || n == row.endings[most] && ending < most {
			most = ending
		}
	}
	return storm.Merge(slices.DeleteFunc(slices.Clone(row.results), func(r *storm.Result) bool {
		ending, _ := r.Ending(x.at, x.end)
		return ending != most && (most != storm.Unclear || ending != storm.Down)
	}))
}
