package dashboards

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// The tests of the alerts that are too many to write by hand: what they promise holds
// at any distance and phase of scrapes. Each case is an operation with a job of its
// own, so that one test of promtool holds all cases that are looked at in the same way.

// views are the distances between scrapes, and the phases of the evaluations.
var views = []view{
	{every: 15, step: 15, evaluation: 15},
	{every: 30, step: 30, evaluation: 30},
	{every: 30, step: 5, phase: 5, evaluation: 30},
	{every: 30, step: 15, phase: 15, evaluation: 15},
	{every: 60, step: 60, evaluation: 60},
	{every: 60, step: 5, phase: 5, evaluation: 60},
	{every: 60, step: 10, phase: 50, evaluation: 60},
	{every: 60, step: 15, evaluation: 15},
}

// evaluations are the distances of them: promtool needs a file for each.
var evaluations = []int{15, 30, 60}

const (
	always = 1 << 30
	minute = 60.0
	hour   = 60 * minute
)

// leftOut is the operation that no alert is about.
const leftOut = "cache"

// writeTests writes test files for promtool into a folder, and the rules with an
// operation that is left out.
func writeTests(folder string) error {
	text, err := os.ReadFile("rules.yml")
	if err != nil {
		return err
	}
	const none = `retry_name=~"NONE"`
	if n := strings.Count(string(text), none); n != 1 {
		return fmt.Errorf("rules.yml has %d places for what is left out", n)
	}
	const rules = "rules.yml"
	err = os.WriteFile(filepath.Join(folder, rules), []byte(strings.ReplaceAll(string(text), none, `retry_name=~"`+leftOut+`|other"`)), 0o666)
	for _, evaluation := range evaluations {
		name := filepath.Join(folder, fmt.Sprintf("evaluated_every_%ds.yml", evaluation))
		err = errors.Join(err, os.WriteFile(name, generateTests(rules, evaluation), 0o666))
	}
	return err
}

// generateTests returns the test file for rules that are evaluated so often.
func generateTests(rules string, evaluation int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: %ds\ntests:\n", rules, evaluation)
	for _, v := range views {
		if v.evaluation != evaluation {
			continue
		}
		write(&b, "outages of ten minutes", v, 28*minute, outages)
		write(&b, "outages of 40 seconds", v, 18*minute, blips)
		write(&b, "outages of what is left out", v, 56*minute, outagesLeftOut)
		if v.step == v.every && v.evaluation == v.every {
			write(&b, "no outage", v, 48*minute, quiet)
			write(&b, "a part fails", v, 56*minute, parts)
		}
	}
	if evaluation == 60 {
		write(&b, "retries hide failures for 30 hours", view{every: 60, step: 60, evaluation: 60}, 30*hour, days)
	}
	return []byte(b.String())
}

func write(b *strings.Builder, name string, v view, length float64, cases func(*test)) {
	v.length = int(length)
	t := &test{view: v}
	cases(t)
	fmt.Fprintf(b, "  - name: %s, scraped every %ds at second %d\n    interval: %ds\n    input_series:\n%s    promql_expr_test:\n%s",
		name, v.every, v.phase, v.step, &t.series, &t.checks)
}

// test is one test of promtool.
type test struct {
	view
	series, checks strings.Builder
}

// operation adds a case.
func (t *test) operation(job string, callers ...caller) { t.named(job, "search", callers...) }

func (t *test) named(job, operation string, callers ...caller) {
	for _, s := range t.view.series(job, operation, callers) {
		fmt.Fprintln(&t.series, s)
	}
}

// Which alerts a check is about.
const (
	anyAlert = ""
	page     = `severity="critical"`
	warning  = `severity="warning"`
	failing  = `alertname="RetryFailing"`
	instance = `alertname="RetryInstanceFailing"`
	hidden   = `alertname="RetryHiddenOutage"`
)

// fires checks that such an alert of the job fires at each evaluation of a time, and
// at the last one before it.
func (t *test) fires(job, alerts string, from, to float64) {
	from = t.before(from)
	t.check(job, alerts, from, to, (int(to)-int(from))/t.evaluation+1)
}

// silent checks that no such alert of the job fires at any evaluation of a time, or
// at the last one before it.
func (t *test) silent(job, alerts string, from, to float64) {
	t.check(job, alerts, t.before(from), to, 0)
}

// before returns when the last evaluation was, at a time.
func (t *test) before(at float64) float64 { return float64(int(at) / t.evaluation * t.evaluation) }

func (t *test) check(job, alerts string, from, to float64, times int) {
	if alerts != "" {
		alerts = ", " + alerts
	}
	fmt.Fprintf(&t.checks, "      - expr: 'count_over_time(count by (job) (ALERTS{job=\"%s\", alertstate=\"firing\"%s})[%ds:%ds])'\n        eval_time: %ds\n",
		job, alerts, int(to-from)+1, t.evaluation, int(to)) // a second more: a range includes its start in Prometheus 2 but not in 3
	if times > 0 {
		fmt.Fprintf(&t.checks, "        exp_samples: [{labels: '{job=\"%s\"}', value: %d}]\n", job, times)
	}
}

// paged checks what must come of an outage: a page within 3 minutes, without a break
// until the end, gone soon after, and nothing else.
func (t *test) paged(job string, begin, end, gone float64) {
	t.silent(job, page, 0, begin)
	t.fires(job, page, begin+3*minute, end)
	t.silent(job, page, gone, float64(t.length))
	t.silent(job, warning, 0, float64(t.length))
}

func (t *test) quiet(job string, callers ...caller) {
	t.operation(job, callers...)
	t.silent(job, anyAlert, 0, float64(t.length))
}

// runs are the runs per second of kinds of them.
type runs = map[kind]float64

// down returns a caller that has an outage. A call that fails takes so many seconds:
// the first failures are counted later, and those of the last calls after the end.
func down(begin, end, late float64, before, during runs) caller {
	return caller{instance: "a", seconds: .1, spans: []span{
		{0, begin, before}, {begin + late, end + late, during}, {end, always, before},
	}}
}

func outages(t *test) {
	offsets := []float64{0, 9, 23, 42, 57}
	const begins, lasts = 12 * minute, 10 * minute
	ok := runs{succeeds: 10}
	add := func(name string, offset float64, c func(begin, end float64) caller) {
		begin := begins + offset
		job := fmt.Sprintf("%s %g", name, offset)
		t.operation(job, c(begin, begin+lasts))
		gone := begin + lasts + 3*minute
		if strings.Contains(name, "timeouts") {
			gone += 20
		}
		t.paged(job, begin, begin+lasts, gone)
	}
	for _, offset := range offsets {
		add("known errors", offset, func(begin, end float64) caller {
			c := down(begin, end, 0, ok, runs{"max_attempts": 10})
			c.known = []kind{"max_attempts"}
			return c
		})
		add("new errors", offset, func(begin, end float64) caller { return down(begin, end, 0, ok, runs{"max_attempts": 10}) })
		add("budget", offset, func(begin, end float64) caller {
			c := down(begin, end, 0, ok, runs{"max_attempts": 1, "budget": 9})
			c.known = []kind{"max_attempts"}
			return c
		})
		add("permanent answers beside", offset, func(begin, end float64) caller {
			return down(begin, end, 0, runs{succeeds: 7, "404": 3}, runs{"budget": 7, "404": 3})
		})
		add("timeouts of a minute", offset, func(begin, end float64) caller {
			return down(begin, end, minute, ok, runs{"deadline": 10})
		})
		add("three timeouts of a minute", offset, func(begin, end float64) caller {
			c := down(begin, end, 0, ok, nil)
			c.spans[1] = span{begin + 181, end, runs{"max_attempts": 10}} // the last ones are canceled when it is over
			c.active = []level{{0, 1}, {begin, 2000}, {end, 1}}
			return c
		})
		add("a hang", offset, func(begin, end float64) caller {
			c := down(begin, end, 0, ok, nil)
			c.active = []level{{0, 1}, {begin, 50}, {end, 1}}
			return c
		})
		add("a hang whose callers leave", offset, func(begin, end float64) caller {
			c := down(begin, end, 0, ok, runs{"canceled": 10})
			c.active = []level{{0, 1}, {begin, 50}, {end, 1}}
			return c
		})
		add("started into it", offset, func(begin, end float64) caller {
			c := down(begin, end, 0, ok, runs{"max_attempts": 10})
			c.begins = begin
			return c
		})
		if t.every < 60 {
			add("resets", offset, func(begin, end float64) caller {
				c := down(begin, end, 0, ok, runs{"max_attempts": 10})
				c.resets = 8
				return c
			})
		}
		if t.every == 15 {
			add("scrapes missing", offset, func(begin, end float64) caller {
				c := down(begin, end, 0, ok, runs{"budget": 10})
				c.missed = [][2]float64{{begin + 240, begin + 270}}
				return c
			})
		}
	}
	for i, reason := range []kind{"not_idempotent", "max_elapsed", "deadline", "retry_after", "refused", "panic", "guard", "guard in the end",
		"401", "403", "certificate", "password", "name", "without code"} {
		add(string(reason), offsets[i%len(offsets)], func(begin, end float64) caller {
			return down(begin, end, 0, ok, runs{reason: 10})
		})
	}
	add("most tokens", 9, func(begin, end float64) caller { return down(begin, end, 0, ok, runs{succeeds: 4, "401": 6}) })
	add("a token, and 404s of one caller", 23, func(begin, end float64) caller {
		return down(begin, end, 0, runs{succeeds: 8, "404": 2}, runs{"401": 8, "404": 2})
	})
	add("started with a wrong password", 42, func(begin, end float64) caller {
		c := down(begin, end, 0, ok, runs{"password": 10})
		c.begins = begin
		return c
	})
}

// outagesLeftOut has what every alert fires for elsewhere.
func outagesLeftOut(t *test) {
	const begin, end = 12 * minute, 48 * minute
	ok := runs{succeeds: 10}
	hang := down(begin, end, 0, ok, nil)
	hang.active = []level{{0, 1}, {begin, 50}, {end, 1}}
	well := caller{instance: "b", seconds: .1, spans: []span{{0, always, ok}}}
	for job, callers := range map[string][]caller{
		"outage":          {down(begin, end, 0, ok, runs{"max_attempts": 10})},
		"hang":            {hang},
		"a fifth":         {down(begin, end, 0, ok, runs{succeeds: 8, "max_attempts": 2})},
		"one of two":      {down(begin, end, 0, runs{succeeds: 4}, runs{"max_attempts": 4}), well},
		"a fifth, hidden": {down(begin, end, 0, ok, runs{succeeds: 7.5, retried: 2.5})},
	} {
		t.named(job, leftOut, callers...)
		t.silent(job, anyAlert, 0, float64(t.length))
	}
}

func blips(t *test) {
	for offset := 0.0; offset < 60; offset += 15 {
		begin := 12*minute + offset
		for name, known := range map[string][]kind{"known": {"max_attempts"}, "new": nil} {
			c := down(begin, begin+40, 0, runs{succeeds: 10}, runs{"max_attempts": 10})
			c.known = known
			t.quiet(fmt.Sprintf("%s errors %g", name, offset), c)
		}
	}
}

func quiet(t *test) {
	ok := runs{succeeds: 10}
	steady := func(instance string) caller {
		return caller{instance: instance, seconds: .5, spans: []span{{0, always, ok}}, active: []level{{0, 12}}}
	}
	var again, renamed []caller
	for i := range 5 {
		stops := 20*minute + minute*float64(i)
		c := steady(fmt.Sprint("a", i))
		c.restarts, c.missed = []float64{stops + 20}, [][2]float64{{stops, stops + 20}}
		again = append(again, c)
		before, after := steady(fmt.Sprint("b", i)), steady(fmt.Sprint("c", i))
		before.ends, after.begins = stops, stops+10
		renamed = append(renamed, before, after)
	}
	t.quiet("restarts", again...)
	t.quiet("restarts with new names", renamed...)

	crashing := steady("b")
	crashing.resets = 20
	t.quiet("crash loop elsewhere", steady("a"), crashing)

	only := func(job string, r runs) {
		t.quiet(job, caller{instance: "a", seconds: .1, spans: []span{{0, always, r}}})
	}
	only("polls", runs{accepted: 5})
	only("polls given up", runs{polled: 5})
	only("polls stopped at their deadline", runs{polledTooLong: 5})
	only("permanent errors", runs{"404": 10})
	only("permanent errors beside", runs{succeeds: 5, "404": 5})
	only("cancels", runs{succeeds: .5, "canceled": 9.5})
	only("a tenth of a call a minute", runs{succeeds: .9 / minute, "max_attempts": .1 / minute})
	t.quiet("permanent errors all at once", down(20*minute, 40*minute, 0, ok, runs{"404": 10}))
	one := func(job string, often, one runs) { // caller, for ten minutes
		all := maps.Clone(often)
		maps.Copy(all, one)
		t.quiet(job, down(20*minute, 30*minute, 0, often, all))
	}
	for _, k := range []kind{"401", "403", "without code", "name"} {
		one("one caller: "+string(k), ok, runs{k: 8})
	}
	few := runs{succeeds: 1 / minute}
	one("404s of one caller among few calls", few, runs{"404": 5})
	one("errors of one caller without a code among few calls", few, runs{"without code": 5})
	gone := down(20*minute, 23*minute, 0, ok, runs{"canceled": 10, "without code": .05})
	gone.restarts = []float64{23 * minute}
	t.quiet("a canceled deployment", gone)
	t.quiet("six of a call a minute", down(20*minute, 26*minute, 0, runs{succeeds: 1 / minute}, runs{"max_attempts": 1 / minute}))
	t.quiet("the first failure of its kind", caller{instance: "a", spans: []span{{0, always, ok}, {20 * minute, 20*minute + 1, runs{"budget": 1}}}})
	t.quiet("no traffic", caller{instance: "a", known: []kind{succeeds, "max_attempts"}})

	waves := caller{instance: "a", seconds: 8 * minute}
	bursts := caller{instance: "a", seconds: 1}
	for at := 10 * minute; at < hour; at += 10 * minute {
		waves.spans = append(waves.spans, span{at + 8*minute, at + 8*minute + 1, runs{succeeds: 200}})
		waves.active = append(waves.active, level{at, 200}, level{at + 8*minute, 0})
		bursts.spans = append(bursts.spans, span{at + 1, at + 11, runs{succeeds: 20}})
		bursts.active = append(bursts.active, level{at, 20}, level{at + 10, 0})
	}
	t.quiet("waves of 8 minutes", waves)
	t.quiet("waves of 8 minutes, and short calls that are canceled", waves,
		caller{instance: "b", seconds: .1, spans: []span{{0, always, runs{"canceled": 100}}}})
	t.quiet("bursts", bursts)
	t.quiet("consumers", caller{instance: "a", active: []level{{0, 20}}})
	long := caller{instance: "a", seconds: .1, spans: []span{{0, always, runs{succeeds: 1}}}, active: []level{{0, 1}, {30 * minute, 40}, {36 * minute, 1}}}
	t.quiet("long calls beside", long)
}

func parts(t *test) {
	const begin = 13*minute + 17
	all := float64(t.length)
	each := runs{succeeds: 2}
	fleet := func(n int, bad caller) (cs []caller) {
		for i := range n - 1 {
			cs = append(cs, caller{instance: fmt.Sprint("b", i), seconds: .1, spans: []span{{0, always, each}}})
		}
		return append(cs, bad)
	}
	one := func(job string, n int, lasts float64, fresh bool) {
		bad := down(begin, begin+lasts, 0, each, runs{"max_attempts": 2})
		if fresh {
			bad.begins = begin
		}
		t.operation(job, fleet(n, bad)...)
		t.fires(job, instance, begin+5*minute, begin+lasts)
		t.silent(job, anyAlert, 0, begin)
		t.silent(job, page, 0, all)
		t.silent(job, hidden, 0, all)
		if lasts < 15*minute || n > 10 {
			t.silent(job, failing, 0, all)
		} else {
			t.fires(job, failing, begin+20*minute, begin+lasts)
		}
		t.silent(job, anyAlert, begin+lasts+3*minute, all)
	}
	one("one of ten", 10, 9*minute, false)
	one("a new one of ten", 10, 9*minute, true)
	one("one of ten for long", 10, 25*minute, false)
	if t.every > 15 { // else it takes long
		one("one of 50", 50, 25*minute, false)
		one("a new one of 50", 50, 25*minute, true)
	}

	const end = begin + 36*minute
	t.operation("a fifth of the runs", down(begin, end, 0, runs{succeeds: 10}, runs{succeeds: 8, "max_attempts": 2}))
	t.fires("a fifth of the runs", failing, begin+15*minute, end)
	t.silent("a fifth of the runs", `alertname!="RetryFailing"`, 0, all)
	t.silent("a fifth of the runs", anyAlert, end+3*minute, all)

	t.operation("a fifth of the attempts", down(begin, end, 0, runs{succeeds: 10}, runs{succeeds: 7.5, retried: 2.5}))
	t.fires("a fifth of the attempts", hidden, begin+25*minute, end)
	t.silent("a fifth of the attempts", `alertname!="RetryHiddenOutage"`, 0, all)
	t.silent("a fifth of the attempts", anyAlert, end+3*minute, all)

	c := down(begin, begin+10*minute, 0, runs{succeeds: 10}, runs{"max_attempts": 10})
	c.spans[2].runs = runs{succeeds: 1 / minute}
	t.operation("a call a minute after it", c)
	t.fires("a call a minute after it", page, begin+3*minute, begin+10*minute)
	t.silent("a call a minute after it", anyAlert, begin+14*minute, all)
}

func days(t *test) {
	t.operation("days", down(hour, always, 0, runs{succeeds: 10}, runs{succeeds: 7.5, retried: 2.5}))
	t.fires("days", hidden, hour+25*minute, 30*hour)
	t.silent("days", `alertname!="RetryHiddenOutage"`, 0, 30*hour)
}
