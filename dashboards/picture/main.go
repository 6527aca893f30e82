// Command picture draws dashboards/metrics.svg: an outage as Prometheus saw it. Without flags
// it draws what outage.json in this folder has. With -prometheus it first reads those
// series from a Prometheus that has scraped examples/observed. This is how the table in
// dashboards/README.md was made too, with Debian's prometheus (2.42):
//
//	for n in 15 60; do
//	  cat >every$n.yml <<EOF
//	global: {scrape_interval: ${n}s, evaluation_interval: ${n}s}
//	rule_files: [dashboards/rules.yml]
//	scrape_configs:
//	  - job_name: observed
//	    static_configs: [{targets: ["127.0.0.1:9464"]}]
//	EOF
//	  prometheus --config.file=every$n.yml --storage.tsdb.path=/tmp/every$n --web.listen-address=127.0.0.1:90$n &
//	done
//	go run ./examples/observed -rate 40 -failures 0.05 -duration 25m
//	begin=2026-11-22T19:50:55Z # of the outage: the program prints it
//	go run ./dashboards/picture -prometheus http://127.0.0.1:9015 -begin $begin
//	for n in 15 60; do
//	  for first_last in min max; do
//	    promtool query instant http://127.0.0.1:90$n "${first_last}_over_time((time() * ALERTS)[1h:1s]) - $(date -d $begin +%s)"
//	  done
//	done
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// recording is an outage. Times are seconds since it began.
type recording struct {
	Begin   time.Time
	Seconds float64 // that it lasted
	Budget  []point // left, 0 to 1
	Failed  []point // the fraction of runs that failed
	Retries []point // per run
	Alert   []point // one wherever RetryOutage fired
}

type point [2]float64 // time and value

const (
	before, after, step = 4 * 60, 10 * 60, 15 // seconds
	operation           = `retry_name="get-user"`
)

func main() {
	log.SetFlags(0)
	source := flag.String("prometheus", "", "`URL` of the Prometheus to read from")
	begin := flag.String("begin", "", "`time` at which the outage began, as RFC 3339")
	lasted := flag.Duration("lasted", 5*time.Minute, "of the outage")
	folder := flag.String("dir", "dashboards/picture", "where outage.json is")
	out := flag.String("o", "dashboards/metrics.svg", "the picture")
	flag.Parse()
	if err := run(*source, *begin, *lasted, filepath.Join(*folder, "outage.json"), *out); err != nil {
		log.Fatal(err)
	}
}

func run(source, begin string, lasted time.Duration, data, out string) error {
	if source != "" {
		at, err := time.Parse(time.RFC3339, begin)
		if err != nil {
			return err
		}
		r, err := record(source, at, lasted)
		if err != nil {
			return err
		}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(data, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	r, err := read(data)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(r.svg()), 0o644)
}

func read(name string) (r recording, err error) {
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// record reads the series from a Prometheus.
func record(source string, begin time.Time, lasted time.Duration) (recording, error) {
	r := recording{Begin: begin.UTC(), Seconds: lasted.Seconds()}
	for _, s := range []struct {
		to    *[]point
		query string
	}{
		{&r.Budget, `min(retry_budget_balance_ratio{retry_budget="dependency"})`},
		{&r.Failed, `sum(retry:failures:rate2m{` + operation + `}) / sum(retry:runs:rate2m{` + operation + `})`},
		{&r.Retries, `sum(rate(retry_operation_attempts_sum{` + operation + `}[1m])) / sum(rate(retry_operation_attempts_count{` + operation + `}[1m])) - 1`},
		{&r.Alert, `ALERTS{alertname="RetryOutage",alertstate="firing",` + operation + `}`},
	} {
		var err error
		if *s.to, err = series(source, s.query, begin); err != nil {
			return r, fmt.Errorf("%s: %w", s.query, err)
		}
	}
	return r, nil
}

// series returns one series around begin.
func series(source, query string, begin time.Time) ([]point, error) {
	resp, err := http.Get(source + "/api/v1/query_range?" + url.Values{
		"query": {query}, "step": {strconv.Itoa(step)},
		"start": {strconv.FormatInt(begin.Unix()-before, 10)}, "end": {strconv.FormatInt(begin.Unix()+after, 10)},
	}.Encode())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Values [][2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if len(answer.Data.Result) != 1 {
		return nil, fmt.Errorf("want one series: %.300s", body)
	}
	var points []point
	for _, v := range answer.Data.Result[0].Values {
		at, _ := v[0].(float64)
		text, _ := v[1].(string)
		y, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		points = append(points, point{at - float64(begin.Unix()), y})
	}
	return points, nil
}

const (
	left, right, top, bottom = 46.0, 838.0, 70.0, 300.0

	head = `<svg xmlns="http://www.w3.org/2000/svg" class="outage" fill="#1f2328" viewBox="0 0 860 345" role="img">
<title>An outage: the budget, the runs that fail and the alert</title>
<style>
.outage { --paper: #ffffff; --ink: #1f2328; --faint: #d0d7de; --band: #fff1c2; font: 13px system-ui, sans-serif; fill: var(--ink) }
.outage polyline { fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke: var(--c) } .outage .bar { fill: var(--c) }
.outage .axis { stroke: var(--faint) } .outage .paper { fill: var(--paper) } .outage .band { fill: var(--band) }
.outage .small { font-size: 11px } .outage .middle { text-anchor: middle } .outage .end { text-anchor: end }
.c1 { --c: #cf222e } .c2 { --c: #0969da } .c3 { --c: #1a7f37 } .c4 { --c: #8250df }
@media (prefers-color-scheme: dark) {
.outage { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --band: #3a3014 }
.c1 { --c: #ff7b72 } .c2 { --c: #79c0ff } .c3 { --c: #56d364 } .c4 { --c: #d2a8ff }
}
</style>
<rect class="paper" fill="#ffffff" width="100%" height="100%"/>
`
)

// svg draws the recording. Its colors follow the reader's light or dark scheme; they are
// attributes too, for programs that know no CSS variables.
func (r recording) svg() string {
	var b strings.Builder
	x := func(seconds float64) float64 { return left + (seconds+before)/(before+after)*(right-left) }
	y := func(value float64) float64 { return bottom - value*(bottom-top) }
	b.WriteString(head)
	fmt.Fprintf(&b, `<rect class="band" fill="#fff1c2" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x(0), top, x(r.Seconds)-x(0), bottom-top)
	fmt.Fprintf(&b, `<text class="small middle" x="%.1f" y="%.1f">nine of ten requests fail</text>`+"\n", (x(0)+x(r.Seconds))/2, top-6)
	for percent := 0; percent <= 100; percent += 20 {
		at := y(float64(percent) / 100)
		fmt.Fprintf(&b, `<path class="axis" stroke="#d0d7de" d="M%.1f %.1fH%.1f"/><text class="small end" x="%.1f" y="%.1f">%d %%</text>`+"\n",
			left, at, right, left-6, at+4, percent)
	}
	for minute := -before / 60; minute <= after/60; minute += 2 {
		fmt.Fprintf(&b, `<text class="small middle" x="%.1f" y="%.1f">%d</text>`+"\n", x(float64(minute)*60), bottom+16, minute)
	}
	fmt.Fprintf(&b, `<text class="small middle" x="%.1f" y="%.1f">minutes since the start of the outage</text>`+"\n", (left+right)/2, bottom+34)

	at := left
	key := func(class, color, name string) {
		fmt.Fprintf(&b, `<rect class="bar %s" fill="%s" x="%.1f" y="15" width="22" height="6"/><text x="%.1f" y="22">%s</text>`+"\n", class, color, at, at+28, name)
		at += 60 + 6.6*float64(len(name))
	}
	key("c4", "#8250df", "budget left")
	key("c1", "#cf222e", "runs that failed, in 2 minutes")
	key("c2", "#0969da", "retries per run")
	key("c3", "#1a7f37", "RetryOutage fires")
	line := func(class, color string, points []point) {
		fmt.Fprintf(&b, `<polyline class="%s" fill="none" stroke="%s" points="`, class, color)
		for _, p := range points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p[0]), y(p[1]))
		}
		b.WriteString("\"/>\n")
	}
	line("c4", "#8250df", r.Budget)
	line("c1", "#cf222e", r.Failed)
	line("c2", "#0969da", r.Retries)
	first, last := r.Alert[0][0], r.Alert[len(r.Alert)-1][0]
	fmt.Fprintf(&b, `<rect class="bar c3" fill="#1a7f37" x="%.1f" y="42" width="%.1f" height="6"/>`+"\n</svg>\n", x(first), x(last)-x(first))
	return b.String()
}
