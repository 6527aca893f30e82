package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/storm"
)

var findCommand = command{find, "find -for outage -policy 'attempts=4 budget=token' -rate 150/s -workers 10 -service 50ms"}

// finding is a search: value is what is tried, and set puts it into a scenario.
type finding struct {
	what        string
	unit        string
	least, most float64 // between which to search
	rising      bool    // the policy survives what is below; else what is above
	set         func(x *scenario, p *retry.Policy, value float64)
}

var findings = map[string]finding{
	"outage": {"the longest outage", "s", .1, 60, true, func(x *scenario, _ *retry.Policy, v float64) {
		x.disturb(time.Duration(v * float64(time.Second)))
	}},
	"spare": {"the smallest spare capacity", "of the capacity", .01, .9, false, func(x *scenario, _ *retry.Policy, v float64) {
		x.Rate = x.MaxRate() * (1 - v)
	}},
	"ratio": {"the largest ratio", "of a RatioBudget", .001, 1, true, func(_ *scenario, p *retry.Policy, v float64) {
		b := retry.RatioBudget{Ratio: v}
		if given, ok := p.Budget.(*retry.RatioBudget); ok {
			b.MinPerSecond, b.Window = given.MinPerSecond, given.Window
		}
		p.Budget = &b
	}},
}

// survives is the share of the seeds in which a policy must recover: 19 of 20.
const survives = .95

func find(o *options) (check func() error, do job) {
	what, steps := "outage", 7
	loads, outages := []float64{.5, .6, .7, .8, .9}, []float64{.5, 1, 2, 4, 8}
	o.add(
		param{"for", &what, 0, 0, "outage spare ratio", "what to search, a `word`"},
		param{"steps", &steps, 1, 20, "", "`number` of halvings of the search"},
		param{"loads", &loads, .01, .99, "", "of the map: rates, as `shares` of the capacity"},
		param{"outages", &outages, .1, 3600, "", "of the map: outages, in `seconds`"},
	)
	x := newScenario(o)
	check = func() error {
		switch err := x.check(o); {
		case err != nil:
			return err
		case math.IsInf(x.MaxRate(), 0):
			return errors.New("-capacity: want one, or -workers: a server without a limit survives everything")
		case x.spike > 0:
			return errors.New("-spike: find searches among outages")
		case len(x.policies) > 1:
			return errors.New("-policy: want one")
		}
		if x.extended {
			x.Duration = 0 // it is another for each value
		}
		for _, g := range x.guards {
			g.set(&x.Service)
		}
		return nil
	}
	return check, func(ctx context.Context) (*report, error) {
		return x.find(ctx, o, findings[what], steps, loads, outages)
	}
}

func (x *scenario) find(ctx context.Context, o *options, f finding, steps int, loads, outages []float64) (*report, error) {
	parts, done := steps+2+len(loads)*len(outages), 0
	// share returns in how many of the seeds the policy recovers, with a value set. It
	// reports false after an interrupt.
	share := func(set func(x *scenario, p *retry.Policy)) (share float64, ok bool) {
		defer func() { done++; o.progress(float64(done) / float64(parts)) }()
		y, p := *x, x.policies[0]
		set(&y, &p)
		if y.spare() <= 0 {
			return 0, true
		}
		if y.extended {
			y.Duration = y.enough()
		}
		rows := y.compare(ctx, []retry.Policy{p}, func(float64) {})
		if ctx.Err() != nil || len(rows) == 0 {
			return 0, false
		}
		return float64(rows[0].endings[storm.Recovered]) / float64(rows[0].Seeds), true
	}
	low, high := f.least, f.most // the policy survives low, and not high
	if !f.rising {
		low, high = high, low
	}
	r := &report{
		title:  fmt.Sprintf("Which outages %s survives, in 19 of 20 seeds", x.policies[0].Name),
		header: []string{"tried", "recovers"},
		figure: figure{height: 260},
	}
	type step struct {
		Value float64 `json:"value"`
		Share float64 `json:"recovers"`
	}
	var tried []step
	found := math.NaN()
	for i := range steps + 2 {
		v := math.Sqrt(low * high) // halved in ratio: a second is to ten as ten to a hundred
		if i < 2 {
			v = []float64{low, high}[i]
		}
		part, ok := share(func(x *scenario, p *retry.Policy) { f.set(x, p, v) })
		if !ok {
			break
		}
		tried = append(tried, step{v, part})
		r.add(fmt.Sprintf("%.3g %s", v, f.unit), fmt.Sprintf("%.0f %%", 100*part))
		if part >= survives {
			found, low = v, v
		} else {
			high = v
		}
		if i < 2 && (i == 0) == (part < survives) {
			break // none, or all
		}
	}
	answer := fmt.Sprintf("%s that it survives: %.3g %s", f.what, found, f.unit)
	var value any = found
	if math.IsNaN(found) {
		answer, value = fmt.Sprintf("%s: it survives none between %.3g and %.3g %s", f.what, f.least, f.most, f.unit), nil
	}
	cells, words := []map[string]any{}, map[[2]int]string{}
	p := panel{title: "runs that recover", y: "of " + x.policies[0].Name, x: "load, as a share of the capacity"}
	for i, load := range loads {
		p.columns = append(p.columns, fmt.Sprint(load))
		for j, outage := range outages {
			if i == 0 {
				p.rows = append(p.rows, fmt.Sprintf("outage %g s", outage))
			}
			part, ok := share(func(x *scenario, _ *retry.Policy) {
				x.Rate = load * x.MaxRate()
				x.disturb(time.Duration(outage * float64(time.Second)))
			})
			if ok {
				p.cells = append(p.cells, cell{i, j, 100 * part})
				words[[2]int{i, j}] = fmt.Sprintf("%.0f %%", 100*part)
				cells = append(cells, map[string]any{"load": load, "outage_s": outage, "recovers": part})
			}
		}
	}
	r.figure.panels = []panel{p}
	r.notes = append(r.notes, answer+". The search takes for granted that what is between two values fares between them.")
	text := "survival map: the share of the runs that recover, by outage and load\n"
	for j := len(outages) - 1; j >= 0; j-- {
		text += fmt.Sprintf("\n%8.3g s", outages[j])
		for i := range loads {
			text += fmt.Sprintf("%8s", cmp.Or(words[[2]int{i, j}], "–"))
		}
	}
	text += "\n      load"
	for _, load := range loads {
		text += fmt.Sprintf("%8g", load)
	}
	r.notes = append(r.notes, text)
	r.doc = map[string]any{"for": f.what, "unit": f.unit, "value": value, "tried": tried, "map": cells}
	return r, nil
}
