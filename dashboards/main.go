package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
)

func main() {
	var err error
	if len(os.Args) == 3 && os.Args[1] == "tests" {
		err = writeTests(os.Args[2], "dashboards/rules.yml")
	} else {
		var dashboard []byte
		if dashboard, err = generate(); err == nil {
			_, err = os.Stdout.Write(dashboard)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// What the queries select: the series of the processes and operations that are
// chosen.
const (
	process = `job=~"$job", instance=~"$instance"`
	chosen  = process + `, retry_name=~"$operation"`
)

// rate returns the rate of a counter, summed by labels; match is a further matcher.
func rate(by, counter, match string) string {
	if match != "" {
		match = ", " + match
	}
	return fmt.Sprintf(`sum by (%s) (rate(%s{%s%s}[$__rate_interval]))`, by, counter, chosen, match)
}

// share returns which part of the operations that match is, of those that were not
// canceled: 0 if no such operation has been seen yet, nothing without traffic.
func share(match string) string {
	all := rate("retry_name", "retry_operation_attempts_count", `retry_outcome!="canceled"`)
	part := rate("retry_name", "retry_operation_attempts_count", match)
	return fmt.Sprintf("(%s or 0 * %s) / (%s > 0)", part, all, all)
}

func quantiles(histogram string) []target {
	var ts []target
	for _, q := range []string{"0.5", "0.9", "0.99"} {
		ts = append(ts, target{fmt.Sprintf("histogram_quantile(%s, %s)", q, rate("le", histogram+"_bucket", "")), q})
	}
	return ts
}

// target is a query and what its series are called.
type target struct{ expr, legend string }

type panel struct {
	title       string
	description string
	unit        string
	width       int // of 24
	targets     []target
	look        look
}

type look uint8

const (
	lines look = iota
	stacked
	bars // of the moment, not over time
)

var panels = []panel{{
	title: "Traffic by outcome",
	description: "Operations per second, by how they ended. In an outage success_first_try gives way to success_after_retry, " +
		"which callers do not see and the dependency does, and then to failure_after_retry. Once the budget is empty, failure_first_try grows.",
	unit: "ops", width: 8, look: stacked,
	targets: []target{{rate("retry_outcome", "retry_operation_attempts_count", ""), "{{retry_outcome}}"}},
}, {
	title: "First-try success",
	description: "Share of operations, without the canceled ones, that succeeded at once, and with retries. The first falls as soon as something " +
		"fails. While the second stays up, retries hide it. When both fall, callers see it.",
	unit: "percentunit", width: 8,
	targets: []target{
		{share(`retry_outcome="success_first_try"`), "{{retry_name}}, first try"},
		{share(`retry_outcome=~"success_.*"`), "{{retry_name}}, with retries"},
	},
}, {
	title: "Retry amplification",
	description: "Attempts per operation: 1 without retries. It multiplies the load on the dependency. In an outage it rises at first, " +
		"and falls back to 1 once the budget is empty: then a fall is no recovery.",
	unit: "none", width: 8,
	targets: []target{{fmt.Sprintf("%s / (%s > 0)", rate("retry_name", "retry_operation_attempts_sum", ""),
		rate("retry_name", "retry_operation_attempts_count", "")), "{{retry_name}}"}},
}, {
	title: "Attempt failures",
	description: "Failed attempts per second, by what they failed with, retried or not: what is wrong. In an outage one line stands out; " +
		"which one tells a dependency that is gone from one that is slow or throttles. Polls that were not accepted and attempts that their caller canceled are left out.",
	unit: "ops", width: 8, look: stacked,
	targets: []target{{rate("retry_class, error_type", "retry_attempt_duration_seconds_count", `error_type!=""`), "{{error_type}}, {{retry_class}}"}},
}, {
	title: "Give-ups by reason",
	description: "Operations per second that ended without a success, by why no further retry was made. In an outage max_attempts comes first, " +
		"then budget takes its place: retries that a struggling server is spared. permanent is an answer, not an outage.",
	unit: "ops", width: 8, look: stacked,
	targets: []target{{rate("retry_reason", "retry_gave_up_total", ""), "{{retry_reason}}"}},
}, {
	title: "Budget balance",
	description: "Share of each retry budget that is left, in the process that has least. In an outage it falls within seconds and stays at 0, " +
		"where no retries are made, until calls succeed again.",
	unit: "percentunit", width: 8,
	targets: []target{{`min by (job, retry_budget) (retry_budget_balance_ratio{` + process + `})`, "{{job}} {{retry_budget}}"}},
}, {
	title: "Active operations",
	description: "Operations that have begun and not ended. attempting: an attempt is underway. It rises while calls hang, before any of them has " +
		"failed. waiting: none is. It rises while servers ask for waits.",
	unit: "none", width: 8, look: stacked,
	targets: []target{{`sum by (retry_state) (retry_operation_active{` + chosen + `})`, "{{retry_state}}"}},
}, {
	title:       "Attempt duration",
	description: "One attempt. In an outage it falls if the dependency refuses at once, and rises to the attempt's timeout if it hangs.",
	unit:        "s", width: 8,
	targets: quantiles("retry_attempt_duration_seconds"),
}, {
	title: "Operation duration",
	description: "All attempts and waits of an operation together: what callers feel. In an outage the upper lines rise first; when the budget is empty " +
		"they fall again, since failures come at once.",
	unit: "s", width: 8,
	targets: quantiles("retry_operation_duration_seconds"),
}, {
	title: "Waits",
	description: "What operations that waited spent with no attempt underway. The difference between a slow operation and its slow attempts. Whole " +
		"seconds are what servers asked for.",
	unit: "s", width: 12,
	targets: quantiles("retry_operation_waited_seconds"),
}, {
	title: "Operations that depend on retries",
	description: "The ten with the largest share of operations that succeeded, but not at once, right now. In an outage it names those that will fail next; " +
		"on a good day it should be empty.",
	unit: "percentunit", width: 12, look: bars,
	targets: []target{{fmt.Sprintf("topk(10, %s)", share(`retry_outcome="success_after_retry"`)), "{{retry_name}}"}},
}, {
	title: "Slow calls and their hedges",
	description: "Calls per second still running at the hedge delay, by outcome: the second attempt won or lost, or what refused it. " +
		"Normally they are one call in twenty. When the dependency slows down, refused_budget rises until the delay has followed.",
	unit: "ops", width: 8, look: stacked,
	targets: []target{{rate("retry_hedge_result", "retry_hedges_total", ""), "{{retry_hedge_result}}"}},
}, {
	title: "Hedge delay",
	description: "How long an attempt runs before it is hedged, in the process where it is longest: the p95 of the calls. It follows the dependency: in an outage " +
		"it rises before any attempt has timed out.",
	unit: "s", width: 8,
	targets: []target{{`max by (job, retry_hedge_name) (retry_hedge_delay_seconds{` + process + `})`, "{{job}} {{retry_hedge_name}}"}},
}, {
	title: "Places under limits",
	description: "Attempts that may be in flight, and attempts in flight, in all processes. In an overload the places fall until the dependency answers in time. " +
		"Where both lines meet, attempts are refused.",
	unit: "none", width: 8,
	targets: []target{
		{`sum by (job, retry_limit) (retry_limit_places{` + process + `})`, "{{job}} {{retry_limit}}, places"},
		{`sum by (job, retry_limit) (retry_limit_in_flight{` + process + `})`, "{{job}} {{retry_limit}}, in flight"},
	},
}}

type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

func generate() ([]byte, error) {
	var all []object
	x, y := 0, 0
	for i, p := range panels {
		if x+p.width > 24 {
			x, y = 0, y+8
		}
		all = append(all, p.object(i+1, object{"x": x, "y": y, "w": p.width, "h": 8}))
		x += p.width
	}
	dashboard, err := json.MarshalIndent(object{
		"title":         "Retries",
		"uid":           "goretry",
		"description":   "Metrics of github.com/goretry/retry/otel. Generated: see dashboards/doc.go.",
		"tags":          []string{"retry"},
		"schemaVersion": 39,
		"editable":      true,
		"refresh":       "30s",
		"time":          object{"from": "now-1h", "to": "now"},
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			variable("job", "Job", "label_values(retry_operation_attempts_count, job)"),
			variable("instance", "Instance", `label_values(retry_operation_attempts_count{job=~"$job"}, instance)`),
			variable("operation", "Operation", `label_values(retry_operation_attempts_count{`+process+`}, retry_name)`),
		}},
		"annotations": object{"list": []object{}},
		"panels":      all,
	}, "", "  ")
	return append(dashboard, '\n'), err
}

// variable is a choice above the dashboard, at first of everything: also of
// operations without a name.
func variable(name, label, query string) object {
	return object{
		"name": name, "label": label, "type": "query", "query": query, "definition": query, "datasource": datasource,
		"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		"refresh": 2, // when the time range changes
		"sort":    1, // by name
	}
}

func (p panel) object(id int, pos object) object {
	var targets []object
	for i, t := range p.targets {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": datasource,
			"expr": t.expr, "legendFormat": t.legend, "instant": p.look == bars, "range": p.look != bars,
		})
	}
	defaults := object{"unit": p.unit, "min": 0}
	if p.unit == "percentunit" {
		defaults["max"] = 1
	}
	kind, options := "timeseries", object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": p.look != bars}}
	switch p.look {
	case lines:
		options["tooltip"] = object{"mode": "multi", "sort": "desc"}
	case stacked:
		options["tooltip"] = object{"mode": "multi", "sort": "desc"}
		defaults["custom"] = object{"fillOpacity": 30, "stacking": object{"mode": "normal", "group": "A"}}
	case bars:
		kind = "bargauge"
		maps.Copy(options, object{"orientation": "horizontal", "displayMode": "basic", "reduceOptions": object{"calcs": []string{"lastNotNull"}}})
	}
	return object{
		"id": id, "type": kind, "title": p.title, "description": p.description, "gridPos": pos, "datasource": datasource,
		"targets": targets, "fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options,
	}
}
