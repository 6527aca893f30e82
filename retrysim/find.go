package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// finding is a search: value is what is tried, and set puts it into a scenario.
type finding struct {
	what        string
	all         string // of these
	unit        string
	least, most float64 // between which to search
	rising      bool    // the policy survives what is below; else what is above
	set         func(x *scenario, p *retry.Policy, value float64)
}

var findings = map[string]finding{
	"outage": {"the longest outage", "outages", "s", .1, 60, true, func(x *scenario, _ *retry.Policy, v float64) {
		x.disturb(time.Duration(v * float64(time.Second)))
	}},
	"spare": {"the smallest spare capacity", "spare capacities", "of the capacity", .01, .9, false, func(x *scenario, _ *retry.Policy, v float64) {
		x.Rate = x.MaxRate() * (1 - v)
	}},
	"ratio": {"the largest ratio", "ratios of a budget", "of a budget.Ratio", .001, 1, true, func(_ *scenario, p *retry.Policy, v float64) {
		b := budget.Ratio{Ratio: v}
		if given, ok := p.Budget.(*budget.Ratio); ok {
			b.MinPerSecond, b.Window = given.MinPerSecond, given.Window
		}
		p.Budget = &b
	}},
}

// survives is the share of the seeds in which a policy must recover: 19 of 20.
const survives = .95

func find(o *options) job {
	what, steps := "outage", 7
	loads, outages := []float64{.5, .6, .7, .8, .9}, []float64{.5, 1, 2, 4, 8}
	o.add(
		param{"for", &what, 0, 0, "outage spare ratio", "what to search, a `word`"},
		param{"steps", &steps, 1, 20, "", "`number` of halvings of the search"},
		param{"loads", &loads, .01, .99, "", "of the map: rates, as `shares` of the capacity"},
		param{"outages", &outages, .1, 3600, "", "of the map: outages, in `seconds`"},
	)
	x := newScenario(o)
	return func(ctx context.Context) (*report, error) {
		switch err := x.check(o); {
		case err != nil:
			return nil, err
		case x.limit() == 0:
			return nil, wrong("-capacity: want one, or -workers: a server without a limit survives everything")
		case x.spike > 0:
			return nil, wrong("-spike: find searches among outages")
		case len(x.policies) > 1:
			return nil, wrong("-policy: want one")
		case what != "spare" && x.spare() <= 0:
			return nil, wrong("-rate: %g/s is above the capacity of %.4g/s: no policy survives that", x.Rate, x.limit())
		}
		if x.extended {
			x.Duration = 0 // it is another for each value
		}
		for _, g := range x.guards {
			g.set(&x.Service)
		}
		f, policy := findings[what], name(x.policies[0])
		at := func(value float64) (scenario, retry.Policy) {
			y, p := *x, x.policies[0]
			f.set(&y, &p, value)
			return y, p
		}
		cell := func(load, outage float64) (scenario, retry.Policy) {
			y := *x
			y.Rate = load * y.MaxRate()
			y.disturb(time.Duration(outage * float64(time.Second)))
			return y, y.policies[0]
		}
		// share returns the fraction of the seeds in which a policy recovers.
		share := func(y scenario, p retry.Policy) (share float64, err error) {
			if err := y.settle(); err != nil || y.spare() <= 0 {
				return 0, err
			}
			rows := y.compare(ctx, []retry.Policy{p})
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return float64(rows[0].ended(storm.Recovered)) / float64(rows[0].Seeds), nil
		}
		for _, extreme := range []func() (scenario, retry.Policy){
			func() (scenario, retry.Policy) { return at(f.least) },
			func() (scenario, retry.Policy) { return at(f.most) },
			func() (scenario, retry.Policy) { return cell(slices.Max(loads), slices.Max(outages)) },
		} { // rather now than after half of the search
			y, _ := extreme()
			if err := y.settle(); err != nil {
				return nil, err
			}
		}
		r := &report{
			title:  fmt.Sprintf("Which %s the policy “%s” survives, in %.0f of %d seeds", f.all, policy, math.Ceil(survives*float64(x.seeds)-1e-9), x.seeds),
			header: []string{"tried", "recovers"},
			figure: figure{height: 260},
		}
		o.progress.left((steps + 2) * x.seeds)
		tried, found, err := f.search(steps, func(value float64) (float64, error) { return share(at(value)) })
		if len(tried) == 0 {
			return nil, interruptedAfter(0, steps+2, "values")
		}
		for _, t := range tried {
			r.add(fmt.Sprintf("%.3g %s", t.Value, f.unit), fmt.Sprintf("%.0f %%", 100*t.Share))
		}
		var answer string
		switch {
		case err != nil:
			answer = fmt.Sprintf("Interrupted after %d of at most %d values: %s that it survives is not known", len(tried), steps+2, f.what)
		case found == nil:
			answer = fmt.Sprintf("%s: it survives none between %.3g and %.3g %s", f.what, f.least, f.most, f.unit)
		default:
			answer = fmt.Sprintf("%s that it survives: %.3g %s", f.what, *found, f.unit)
		}
		o.progress.left(len(loads) * len(outages) * x.seeds)
		cells := []map[string]any{}
		p := panel{title: "runs that recover, with “" + policy + "”", x: "load, as a share of the capacity", cells: []float64{}}
		for _, outage := range outages {
			p.rows = append(p.rows, fmt.Sprintf("outage %g s", outage))
		}
		for _, load := range loads {
			p.columns = append(p.columns, fmt.Sprint(load))
			for _, outage := range outages {
				if part, err := share(cell(load, outage)); err == nil {
					p.cells = append(p.cells, 100*part)
					cells = append(cells, map[string]any{"load": load, "outage_s": outage, "recovers": part})
				}
			}
		}
		text := "survival map: the share of the runs that recover, by outage and load\n"
		for j, outage := range slices.Backward(outages) {
			text += fmt.Sprintf("\n%8.3g s", outage)
			for i := j; i < len(p.cells); i += len(outages) {
				text += fmt.Sprintf("%7.0f %%", p.cells[i])
			}
		}
		text += "\n      load " + strings.Trim(fmt.Sprintf("%8g", loads), "[]")
		r.figure.panels = []panel{p}
		r.notes = []string{answer, "The search assumes that one value divides what it survives from what it does not.", text}
		r.doc = map[string]any{"for": f.what, "unit": f.unit, "value": found, "tried": tried, "map": cells}
		if ctx.Err() != nil {
			r.doc["interrupted"] = true
			r.notes = append(r.notes, fmt.Sprintf("Interrupted: the map has %d of %d cells.", len(cells), len(loads)*len(outages)))
		}
		return r, nil
	}
}

// trial is a value of a search, and in which share of the seeds the policy recovers.
type trial struct {
	Value float64 `json:"value"`
	Share float64 `json:"recovers"`
}

// search tries the least and the most, then halves what is between. It returns what
// it tried, and the last value that the policy survives; nil if none. An error of
// share ends it.
func (f finding) search(steps int, share func(value float64) (float64, error)) (tried []trial, found *float64, err error) {
	low, high := f.least, f.most // the policy survives low, and not high
	if !f.rising {
		low, high = high, low
	}
	for i := range steps + 2 {
		v := math.Sqrt(low * high) // halved in ratio: a second is to ten as ten to a hundred
		if i < 2 {
			v = []float64{low, high}[i]
		}
		part, err := share(v)
		if err != nil {
			return tried, nil, err
		}
		tried = append(tried, trial{v, part})
		if part >= survives {
			found, low = &v, v
		} else {
			high = v
		}
		if i < 2 && (i == 0) == (part < survives) {
			break // none, or all
		}
	}
	return tried, found, nil
}
