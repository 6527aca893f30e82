package dashboards

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file computes, for promtool, what Prometheus scrapes from programs with the
// metrics of package otelretry: counters that appear late, are reset or vanish.

// kind is how runs end: a reason of retry.gave_up, or one of these.
type kind string

const (
	succeeds      kind = "success"
	retried       kind = "success after an attempt that failed"
	accepted      kind = "poll that is accepted"
	polled        kind = "poll that is given up"
	polledTooLong kind = "poll that its deadline stops"
)

// counted is what a run of some kind adds to the counters.
type counted struct {
	outcome  string
	gaveUp   string             // labels of retry_gave_up_total, "" after a success
	attempts map[string]float64 // by labels of retry_attempt_duration_seconds_count
}

const (
	good     = ``
	failed   = `retry_class="transient", error_type="503"`
	rejected = `retry_class="transient"` // by Until
)

var kinds = map[kind]counted{
	succeeds:       {"success_first_try", "", map[string]float64{good: 1}},
	retried:        {"success_after_retry", "", map[string]float64{failed: 1, good: 1}},
	accepted:       {"success_after_retry", "", map[string]float64{rejected: 2, good: 1}},
	polled:         {"failure_after_retry", `retry_reason="max_attempts"`, map[string]float64{rejected: 3}},
	polledTooLong:  {"failure_after_retry", `retry_reason="deadline"`, map[string]float64{rejected: 3}},
	"canceled":     {"canceled", `retry_reason="canceled"`, map[string]float64{`retry_class="unknown"`: 1}},
	"404":          permanently("404"),
	"401":          permanently("401"),
	"403":          permanently("403"),
	"certificate":  permanently("*tls.CertificateVerificationError"),
	"password":     permanently("28P01"),
	"name":         permanently("no_such_host"),
	"without code": permanently("*errors.errorString"),
	"refused": {"failure_first_try", `retry_reason="refused", error_type="503"`,
		map[string]float64{`retry_class="permanent", error_type="503"`: 1}},
	"guard":            {"failure_first_try", `retry_reason="guard", error_type="limit.limited"`, nil}, // without an attempt
	"guard in the end": {"failure_after_retry", `retry_reason="guard", error_type="limit.limited"`, map[string]float64{failed: 2}},
	"panic":            failure("panic", 1),
	"not_idempotent":   failure("not_idempotent", 1),
	"retry_after":      failure("retry_after", 1),
	"budget":           failure("budget", 1),
	"max_attempts":     failure("max_attempts", 2),
	"max_elapsed":      failure("max_elapsed", 2),
	"deadline":         failure("deadline", 2),
}

func permanently(errorType string) counted {
	return counted{"failure_first_try", fmt.Sprintf(`retry_reason="permanent", error_type=%q`, errorType),
		map[string]float64{fmt.Sprintf(`retry_class="permanent", error_type=%q`, errorType): 1}}
}

func failure(reason string, attempts float64) counted {
	outcome := "failure_first_try"
	if attempts > 1 {
		outcome = "failure_after_retry"
	}
	return counted{outcome, fmt.Sprintf(`retry_reason=%q, error_type="503"`, reason), map[string]float64{failed: attempts}}
}

// span is a time, in seconds, and the runs of each kind that end in each of its seconds.
type span struct {
	from, to float64
	runs     map[kind]float64
}

// level is how many runs are underway from some second on.
type level struct{ from, runs float64 }

// caller is an operation in one process.
type caller struct {
	instance string
	spans    []span
	begins   float64      // the process is there from this second on,
	ends     float64      // until this one; 0: forever
	resets   float64      // it restarts each time that so many seconds have passed; 0: never
	restarts []float64    // and in these seconds
	known    []kind       // what its counters have counted before the first second
	missed   [][2]float64 // in these times scrapes fail
	active   []level
	seconds  float64 // that a run takes
}

// counters returns the counters that the process has at a time.
func (c *caller) counters(t float64) map[string]float64 {
	from := c.begins
	if c.resets > 0 {
		from = math.Floor(t/c.resets) * c.resets
	}
	for _, at := range c.restarts {
		if t >= at {
			from = at
		}
	}
	counters := make(map[string]float64)
	add := func(k kind, runs float64) {
		is, ok := kinds[k]
		if !ok {
			panic("no kind " + k)
		}
		outcome := fmt.Sprintf("{retry_outcome=%q}", is.outcome)
		counters["retry_operation_attempts_count"+outcome] += runs
		counters["retry_operation_duration_seconds_count"+outcome] += runs
		counters["retry_operation_duration_seconds_sum"+outcome] += runs * c.seconds
		if is.gaveUp != "" {
			counters["retry_gave_up_total{"+is.gaveUp+"}"] += runs
		}
		for labels, attempts := range is.attempts {
			counters["retry_attempt_duration_seconds_count{"+labels+"}"] += runs * attempts
		}
	}
	for _, s := range c.spans {
		for k, rate := range s.runs {
			if runs := math.Floor(rate*(min(t, s.to)-max(s.from, from)) + 1e-9); runs > 0 {
				add(k, runs)
			}
		}
	}
	if from == 0 {
		for _, k := range c.known {
			add(k, 3)
		}
	}
	return counters
}

func (c *caller) underway(t float64) (runs float64) {
	for _, l := range c.active {
		if t >= l.from {
			runs = l.runs
		}
	}
	return runs
}

// scraped reports whether a scrape at a time succeeds.
func (c *caller) scraped(t float64) bool {
	for _, m := range c.missed {
		if t >= m[0] && t < m[1] {
			return false
		}
	}
	return t >= c.begins && (c.ends == 0 || t < c.ends)
}

// view is how a Prometheus looks at programs; its times are in seconds.
type view struct {
	every      int // scrapes
	phase      int // of the first scrape
	step       int // of the samples in the file; every and phase are multiples of it
	evaluation int // of the rules, every so often
	length     int
}

// What stands in a row where there is no sample.
const (
	none  = -1.0
	stale = -2.0 // Prometheus has noticed that the series is gone
)

// series returns the input series of an operation's callers, for promtool.
func (v view) series(job, name string, callers []caller) (lines []string) {
	for _, c := range callers {
		rows := make(map[string][]float64)
		length, every := v.length/v.step+1, v.every/v.step
		for at := v.phase / v.step; at < length; at += every {
			t := float64(at * v.step)
			seen := map[string]float64{}
			if c.scraped(t) {
				seen = c.counters(t)
				seen[`retry_operation_active{retry_state="attempting"}`] = c.underway(t)
			}
			for series, value := range seen {
				if rows[series] == nil {
					rows[series] = slices.Repeat([]float64{none}, length)
				}
				rows[series][at] = value
			}
			for series, row := range rows {
				if _, ok := seen[series]; !ok && at >= every && row[at-every] >= 0 {
					row[at] = stale
				}
			}
		}
		labels := fmt.Sprintf(`{job="%s", instance="%s", retry_name="%s", `, job, c.instance, name)
		for _, series := range slices.Sorted(maps.Keys(rows)) {
			metric := strings.Replace(strings.Replace(series, "{", labels, 1), ", }", "}", 1)
			lines = append(lines, fmt.Sprintf("      - series: '%s'\n        values: %s", metric, short(rows[series])))
		}
	}
	return lines
}

// short returns a row in promtool's notation: 0+5x3 is 0 5 10 15, and _x2 is two
// samples that are missing.
func short(row []float64) string {
	var parts []string
	for len(row) > 0 {
		n := 1
		for n < len(row) && row[n]-row[n-1] == row[1]-row[0] && (row[n] == row[0] || min(row[0], row[n]) >= 0) {
			n++
		}
		first := strconv.FormatFloat(row[0], 'f', -1, 64)
		switch {
		case row[0] == stale:
			n, first = 1, "stale"
		case row[0] == none && n == 1:
			first = "_"
		case row[0] == none:
			first = fmt.Sprintf("_x%d", n)
		case n < 3:
			n = 1
		default:
			step := strconv.FormatFloat(row[1]-row[0], 'f', -1, 64)
			if row[1] >= row[0] {
				step = "+" + step
			}
			first += fmt.Sprintf("%sx%d", step, n-1)
		}
		parts = append(parts, first)
		row = row[n:]
	}
	return strings.Join(parts, " ")
}

func TestShort(t *testing.T) {
	for _, tt := range []struct {
		row  []float64
		want string
	}{
		{nil, ""},
		{[]float64{0, 5, 10, 15}, "0+5x3"},
		{[]float64{7, 7, 7, 2000000, 1999999, 1999998}, "7+0x2 2000000-1x2"},
		{[]float64{none, none, 1, 2, none, stale, none, 3, stale}, "_x2 1 2 _ stale _ 3 stale"},
		{[]float64{none, stale, 4, 3.5}, "_ stale 4 3.5"},
		{[]float64{1, 0, none, none, none}, "1 0 _x3"},
	} {
		if got := short(tt.row); got != tt.want {
			t.Errorf("short(%v) = %q, want %q", tt.row, got, tt.want)
		}
	}
}

// A caller whose process restarts, is not seen for a time, and then is gone.
func TestCaller(t *testing.T) {
	c := caller{
		instance: "a", spans: []span{{10, 40, runs{"budget": .1}}}, known: []kind{succeeds},
		restarts: []float64{30}, missed: [][2]float64{{20, 30}}, ends: 60, active: []level{{20, 5}}, seconds: 2,
	}
	v := view{every: 10, step: 10, length: 80}
	want := []string{
		`retry_attempt_duration_seconds_count{job="j", instance="a", retry_name="n", retry_class="transient", error_type="503"}`, "_x4 1 1 stale _x2",
		`retry_attempt_duration_seconds_count{job="j", instance="a", retry_name="n"}`, "3 3 stale _x6",
		`retry_gave_up_total{job="j", instance="a", retry_name="n", retry_reason="budget", error_type="503"}`, "_x4 1 1 stale _x2",
		`retry_operation_active{job="j", instance="a", retry_name="n", retry_state="attempting"}`, "0 0 stale 5+0x2 stale _x2",
		`retry_operation_attempts_count{job="j", instance="a", retry_name="n", retry_outcome="failure_first_try"}`, "_x4 1 1 stale _x2",
		`retry_operation_attempts_count{job="j", instance="a", retry_name="n", retry_outcome="success_first_try"}`, "3 3 stale _x6",
		`retry_operation_duration_seconds_count{job="j", instance="a", retry_name="n", retry_outcome="failure_first_try"}`, "_x4 1 1 stale _x2",
		`retry_operation_duration_seconds_count{job="j", instance="a", retry_name="n", retry_outcome="success_first_try"}`, "3 3 stale _x6",
		`retry_operation_duration_seconds_sum{job="j", instance="a", retry_name="n", retry_outcome="failure_first_try"}`, "_x4 2 2 stale _x2",
		`retry_operation_duration_seconds_sum{job="j", instance="a", retry_name="n", retry_outcome="success_first_try"}`, "6 6 stale _x6",
	}
	var got []string
	for _, line := range v.series("j", "n", []caller{c}) {
		m := regexp.MustCompile(`^ +- series: '(.*)'\n +values: (.*)$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		got = append(got, m[1:]...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d lines\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}
