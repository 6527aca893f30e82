package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// What a Prometheus scrapes from a program with otelretry's metrics is computed here,
// for promtool: counters that begin late, are reset or vanish, seen at any distance.

// span is a time in seconds in which an operation ends so many runs of each kind per
// second.
type span struct {
	from, to float64
	runs     map[kind]float64
}

// kind is how a run ends: a reason of retry.gave_up, or one of these.
type kind string

const (
	succeeds      kind = "success_first_try"
	retried       kind = "success_after_retry" // after an attempt that failed
	accepted      kind = "accepted"            // a poll that succeeds
	polled        kind = "poll"                // one that is given up
	polledTooLong kind = "late poll"           // one that its deadline stops
)

// caller is one operation of one process.
type caller struct {
	instance string
	spans    []span
	begins   float64      // before that there is no process
	ends     float64      // 0: never
	resets   float64      // the process restarts so often, 0: never
	restarts []float64    // and at these times
	known    []kind       // whose counters are there from the start
	deaf     [][2]float64 // scrapes fail
	active   []level      // runs underway
	seconds  float64      // that a run takes
}

type level struct{ from, runs float64 }

// series returns the labels of the counters that a run of this kind increments, and by
// how much.
func (k kind) series() map[string]float64 {
	const (
		runs     = `retry_operation_attempts_count{retry_outcome=%q}`
		attempts = `retry_attempt_duration_seconds_count{%s}`
		ended    = `retry_operation_duration_seconds_count{retry_outcome=%q}`
		gaveUp   = `retry_gave_up_total{retry_reason=%q%s}`
		failed   = `retry_class="transient", error_type="503"`
	)
	fault, tries, outcome := `, error_type="503"`, failed, "failure_after_retry"
	n := 2.0
	switch k {
	case succeeds:
		return map[string]float64{fmt.Sprintf(runs, k): 1, fmt.Sprintf(ended, k): 1, fmt.Sprintf(attempts, ""): 1}
	case retried:
		return map[string]float64{fmt.Sprintf(runs, k): 1, fmt.Sprintf(ended, k): 1, fmt.Sprintf(attempts, ""): 1, fmt.Sprintf(attempts, failed): 1}
	case accepted:
		return map[string]float64{fmt.Sprintf(runs, retried): 1, fmt.Sprintf(ended, retried): 1, fmt.Sprintf(attempts, `retry_class="transient"`): 2, fmt.Sprintf(attempts, ""): 1}
	case "canceled":
		outcome, fault, tries, n = "canceled", "", `retry_class="unknown"`, 1
	case "permanent":
		outcome, fault, tries, n = "failure_first_try", `, error_type="404"`, `retry_class="permanent", error_type="404"`, 1
	case "panic", "retry_after", "not_idempotent", "budget", "refused":
		outcome, n = "failure_first_try", 1
	case polled:
		k, fault, tries = "max_attempts", "", `retry_class="transient"`
	case polledTooLong:
		k, fault, tries = "deadline", "", `retry_class="transient"`
	}
	return map[string]float64{
		fmt.Sprintf(runs, outcome): 1, fmt.Sprintf(ended, outcome): 1,
		fmt.Sprintf(gaveUp, string(k), fault): 1, fmt.Sprintf(attempts, tries): n,
	}
}

// counters returns for each series of the process how many runs it has counted by t.
func (p *caller) counters(t float64) map[string]float64 {
	from := p.begins
	if p.resets > 0 {
		from = math.Floor(t/p.resets) * p.resets
	}
	counts := make(map[string]float64)
	add := func(k kind, runs float64) {
		for name, n := range k.series() {
			counts[name] += n * runs
		}
		counts[fmt.Sprintf("retry_operation_duration_seconds_sum{retry_outcome=%q}", "any")] += p.seconds * runs
	}
	for _, at := range p.restarts {
		if t >= at {
			from = at
		}
	}
	for _, s := range p.spans {
		for k, rate := range s.runs {
			if runs := math.Floor(rate*(min(t, s.to)-max(s.from, from)) + 1e-9); runs > 0 {
				add(k, runs)
			}
		}
	}
	if p.resets == 0 && len(p.restarts) == 0 {
		for _, k := range p.known {
			add(k, 3)
		}
	}
	return counts
}

func (p *caller) underway(t float64) (n float64) {
	for _, l := range p.active {
		if t >= l.from {
			n = l.runs
		}
	}
	return n
}

func (p *caller) scraped(t float64) bool {
	for _, gap := range p.deaf {
		if t >= gap[0] && t < gap[1] {
			return false
		}
	}
	return t >= p.begins && (p.ends == 0 || t < p.ends)
}

// view is how a Prometheus looks at processes, in seconds.
type view struct {
	every      int // scrapes
	phase      int // of the first
	step       int // of the series in the file; every and phase are multiples of it
	evaluation int
	length     int
}

// series returns the input series of an operation's processes for promtool.
func (v view) series(job, name string, ps []caller) (lines []string) {
	for _, p := range ps {
		samples := make(map[string][]string)
		n := v.length/v.step + 1
		for i := v.phase / v.step; i < n; i += v.every / v.step {
			t := float64(i * v.step)
			var values map[string]float64
			if p.scraped(t) {
				values = p.counters(t)
				values[`retry_operation_active{retry_state="attempting"}`] = p.underway(t)
			}
			for series := range values {
				if samples[series] == nil {
					samples[series] = slices.Repeat([]string{"_"}, n)
				}
			}
			for series, row := range samples {
				if value, ok := values[series]; ok {
					row[i] = fmt.Sprint(value)
				} else if last := i - v.every/v.step; last >= 0 && row[last] != "_" && row[last] != "stale" {
					row[i] = "stale"
				}
			}
		}
		for _, series := range slices.Sorted(maps.Keys(samples)) {
			labels := fmt.Sprintf(`job="%s", instance="%s", retry_name="%s", `, job, p.instance, name)
			lines = append(lines, fmt.Sprintf("      - series: '%s'\n        values: %s",
				strings.Replace(strings.Replace(series, "{", "{"+labels, 1), ", }", "}", 1), short(samples[series])))
		}
	}
	return lines
}

// short returns a row of samples as promtool expands it: 0+5x3 is 0 5 10 15.
func short(row []string) string {
	var parts []string
	for i := 0; i < len(row); {
		n := 1
		if row[i] == "_" || row[i] == "stale" {
			for row[i] == "_" && i+n < len(row) && row[i+n] == "_" {
				n++
			}
			if n == 1 {
				parts = append(parts, row[i])
			} else {
				parts = append(parts, fmt.Sprintf("_x%d", n))
			}
			i += n
			continue
		}
		step := math.NaN()
		for i+n < len(row) {
			var a, b float64
			if _, err := fmt.Sscanf(row[i+n-1]+" "+row[i+n], "%g %g", &a, &b); err != nil || n > 1 && b-a != step {
				break
			}
			step = b - a
			n++
		}
		if n < 3 {
			parts = append(parts, row[i])
			i++
			continue
		}
		parts = append(parts, fmt.Sprintf("%s%+gx%d", row[i], step, n-1))
		i += n
	}
	return strings.Join(parts, " ")
}
