package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// brief draws every trace and not one a second.
var brief = config{rate: 200, failures: 0.4, duration: 3 * time.Second, metrics: "127.0.0.1:0"}

// output calls done when the program is about to print its last line.
type output struct {
	bytes.Buffer
	done func()
}

func (w *output) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(" calls: ")) {
		w.done()
	}
	return w.Buffer.Write(p)
}

// TestRun is what a reader sees who runs the program, and what Prometheus does.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	var metrics, page string
	var out output
	out.done = func() {
		metrics = fetch(t, regexp.MustCompile(`http://[^,]+`).FindString(out.String()))
		page = fetch(t, regexp.MustCompile(`http://\S+/debug/retry`).FindString(out.String())+"?format=json")
	}
	if err := run(t.Context(), brief, &out); err != nil {
		t.Fatalf("run: %v", err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		`(?m)^(get-user|search) +\d\S*s  success_after_retry$`,
		`(?m)^├ attempt 1 █+ +\d+ms  [\w ]+, (transient|throttled)$`,
		`(?m)^├ wait +░+ +\d\S*s  backoff$`,
		`(?m)^├ wait +░+ +1\.\d+s  the server asked for 1s, \+ backoff$`,
		`(?m)^└ attempt 2 +█+ +\d+ms  ok$`,
		`(?m)^\d+ more since the last one, 0 of them retried or failed$`,
		`(?m)^\d+ calls: \d+ succeeded at once, \d+ after retries, \d+ failed.\n\z`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no match of %s", want)
		}
	}
	for _, want := range []string{
		`retry_operation_duration_seconds_bucket{.*retry_name="get-user",retry_outcome="success_after_retry",le="0.5"}`,
		`retry_operation_attempts_sum{.*retry_name="search",retry_outcome="success_after_retry"}`,
		`retry_attempt_duration_seconds_count{error_type="429",.*retry_class="throttled",retry_name="get-user"}`,
		`retry_operation_active{.*retry_name="get-user",retry_state="waiting"}`,
		`retry_operation_waited_seconds_sum{.*retry_name="get-user"}`,
		`retry_gave_up_total{.*retry_name="place-order",retry_reason="not_idempotent"}`,
		`retry_budget_balance_ratio{.*retry_budget="dependency"}`,
		`http_client_request_duration_seconds_count{.*http_response_status_code="503"`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(metrics) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	checkPage(t, page)
	if t.Failed() {
		t.Logf("it printed:\n%s\nand served:\n%s", out.String(), metrics)
	}
}

// started sends where the metrics are as soon as the program says so.
type started struct {
	io.Writer
	url chan string
}

func (w started) Write(p []byte) (int, error) {
	if m := regexp.MustCompile(`http://[^,]+`).Find(p); m != nil {
		w.url <- string(m)
	}
	return w.Writer.Write(p)
}

// TestDashboardHasData scrapes the program while it runs, and has promtool evaluate
// each query of the dashboard on that: no panel may be empty for those who try it.
func TestDashboardHasData(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	long := brief
	long.duration = 10 * time.Minute // it is stopped when there was enough to see
	url, ended := make(chan string, 10), make(chan error, 1)
	go func() { ended <- run(ctx, long, started{io.Discard, url}) }()
	page := <-url
	rows := make(map[string][]string) // a sample of each scrape, by series
	scrapes := 0
	for full := 0; full < 12; scrapes++ { // scrapes with the kinds of series that come last
		select {
		case err := <-ended:
			t.Fatalf("run ended after %d scrapes: %v", scrapes, err)
		case <-time.After(200 * time.Millisecond):
		}
		body := fetch(t, page)
		if strings.Contains(body, "\nretry_gave_up_total{") && strings.Contains(body, "\nretry_hedges_total{") && strings.Contains(body, "\nretry_operation_waited_seconds_bucket{") && strings.Contains(body, "\nretry_guards_total{") {
			full++
		}
		for line := range strings.Lines(body) {
			series, value, ok := cut(line)
			if !ok {
				continue
			}
			for len(rows[series]) < scrapes {
				rows[series] = append(rows[series], "_")
			}
			rows[series] = append(rows[series], value)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("run: %v", err)
	}

	dashboard, err := os.ReadFile("../../dashboards/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var panels struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(dashboard, &panels); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tests:\n  - interval: 15s\n    input_series:\n") // as if they were 15 s apart
	for series, row := range rows {
		fmt.Fprintf(&b, "      - {series: %q, values: %q}\n", series, strings.Join(row, " "))
	}
	fmt.Fprintf(&b, "    promql_expr_test:\n")
	fill := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$operation", ".*")
	queries := 0
	for _, p := range panels.Panels {
		for _, target := range p.Targets {
			if strings.Contains(target.Expr, "retry_gate_") || strings.Contains(target.Expr, "retry_target_") || strings.Contains(target.Expr, "retry_pace_") {
				continue // the service has none of these
			}
			queries++
			q := fill.Replace(target.Expr)
			expr := fmt.Sprintf("count(count_over_time(((%s) == (%s))[1h:15s])) > bool 0", q, q) // which leaves NaN out
			fmt.Fprintf(&b, "      - {expr: %q, eval_time: %ds, exp_samples: [{labels: '{}', value: 1}]}\n", expr, 15*scrapes)
		}
	}
	if queries < 20 {
		t.Fatalf("%d queries: the dashboard was read wrong", queries)
	}
	name := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(name, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "test", "rules", name).CombinedOutput(); err != nil {
		t.Errorf("of %d queries these have no data:\n%s", queries, out)
	}
}

// cut returns the series of a line of metrics, with the labels that a scrape adds, and
// its value.
func cut(line string) (series, value string, ok bool) {
	if !strings.HasPrefix(line, "retry_") {
		return "", "", false
	}
	at := strings.LastIndex(line, " ")
	series = strings.Replace(line[:at], "{", `{job="observed",instance="a",`, 1)
	return series, strings.TrimSpace(line[at:]), strings.Contains(series, "{")
}

// checkPage looks for what the program shows on its page: calls of each kind, what
// they share, and a run that failed, with its trace.
func checkPage(t *testing.T, page string) {
	t.Helper()
	var p struct {
		Operations []struct {
			Name    string
			Windows map[string]struct {
				Runs     int
				FirstTry int `json:"first_try"`
				Reasons  map[string]int
			}
		}
		Budgets []struct {
			Name    string
			Balance float64
		}
		Failed []struct {
			Trace string
			Steps []struct{ Error string }
		}
	}
	if err := json.Unmarshal([]byte(page), &p); err != nil {
		t.Fatalf("the page: %v in %s", err, page)
	}
	reasons := map[string]bool{}
	var names []string
	for _, o := range p.Operations {
		names = append(names, o.Name)
		w := o.Windows["1m"]
		if w.Runs == 0 || w.FirstTry == 0 {
			t.Errorf("the page has no runs of %s: %+v", o.Name, w)
		}
		for reason := range w.Reasons {
			reasons[o.Name+" "+reason] = true
		}
	}
	if want := []string{"get-user", "place-order", "search"}; !slices.Equal(names, want) || !reasons["place-order not_idempotent"] {
		t.Errorf("the page has %q and reasons %v, want %q, and place-order not_idempotent", names, reasons, want)
	}
	if len(p.Budgets) != 1 || p.Budgets[0].Name != "dependency" {
		t.Errorf("the page has budgets %v", p.Budgets)
	}
	if len(p.Failed) == 0 || len(p.Failed[0].Trace) != 32 || len(p.Failed[0].Steps) == 0 {
		t.Errorf("the page has runs that failed, %+v, want attempts and a trace", p.Failed)
	}
}

// fetch gets what the program serves at url.
func fetch(t *testing.T, url string) string {
	resp, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// TestExport gives the program a collector, which has to get all calls.
func TestExport(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	var received atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/traces" {
			received.Add(int64(len(regexp.MustCompile(`retry\.outcome`).FindAll(body, -1))))
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	var out bytes.Buffer
	if err := run(t.Context(), brief, &out); err != nil {
		t.Fatalf("run: %v", err)
	}
	if want := fmt.Sprintf("\n%d calls: ", received.Load()); !strings.Contains(out.String(), want) || strings.Contains(out.String(), "█") {
		t.Errorf("the collector got %d calls, and it printed, want no drawings:\n%s", received.Load(), &out)
	}
}

// TestNoCollector is a run whose traces cannot be sent.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	once := brief
	once.duration = 500 * time.Millisecond
	if err := run(t.Context(), once, io.Discard); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("run: %v, want connection refused", err)
	}
}

// TestNothingToSee is a run that shows no retries: it must not pass for a success.
func TestNothingToSee(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, brief, io.Discard); err == nil || !strings.Contains(err.Error(), "nothing to see") {
		t.Errorf("run: %v, want an error that says that there is nothing to see", err)
	}
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var ended atomic.Int64
		load(t.Context(), config{rate: 10, duration: 1050 * time.Millisecond}, func(context.Context) {
			time.Sleep(5 * time.Second)
			ended.Add(1)
		})
		if took := time.Since(start); ended.Load() != 10 || took != 6*time.Second {
			t.Errorf("%d calls in %v, want 10 in 6s", ended.Load(), took)
		}
	})
}

// TestDraw shows a drawing to the last cell.
func TestDraw(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	span := func(name string, from, to int, kv ...attribute.KeyValue) tracetest.SpanStub {
		return tracetest.SpanStub{
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}}),
			Name:        name, StartTime: at(from), EndTime: at(to), Attributes: kv,
			InstrumentationScope: instrumentation.Scope{Name: otelretry.ScopeName},
		}
	}
	failed := func(number, from, to int, class, text string) tracetest.SpanStub {
		s := span(fmt.Sprintf("attempt %d search", number), from, to, attribute.Int("retry.attempt", number), attribute.String("retry.class", class))
		s.Status = sdktrace.Status{Code: codes.Error, Description: text}
		return s
	}
	run := func(id byte, outcome string, ended int) tracetest.SpanStub {
		s := span("search", 0, ended, attribute.String("retry.outcome", outcome))
		s.SpanContext = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id}})
		return s
	}
	drawn := run(1, "failure_after_retry", 2000)
	drawn.Attributes = append(drawn.Attributes, attribute.String("retry.reason", "deadline"))
	wire := span("GET", 0, 90)
	wire.InstrumentationScope.Name = "otelhttp"

	var out bytes.Buffer
	e := traces{w: &out, every: time.Second}
	spans := tracetest.SpanStubs{
		run(2, "success_first_try", 5),
		wire, failed(1, 0, 100, "transient", `Get "http://x": EOF`),
		span("wait search", 100, 500, attribute.Int("retry.attempt", 1), attribute.Float64("retry.delay", .4)),
		failed(2, 500, 510, "throttled", "attempt timed out; 429 Too Many Requests"),
		span("wait search", 510, 2000, attribute.Int("retry.attempt", 2), attribute.Float64("retry.delay", 2.2), attribute.Float64("retry.hint", 2)),
		drawn, run(3, "success_after_retry", 2500),
	}
	if err := e.ExportSpans(t.Context(), spans.Snapshots()); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"search                                                    2s  failure_after_retry: deadline",
		"├ attempt 1 ██                                         100ms  EOF, transient",
		"├ wait        ░░░░░░░░                                 400ms  backoff",
		"├ attempt 2           █                                 10ms  attempt timed out, throttled",
		"└ wait                ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   1.49s  the server asked for 2s, + backoff",
		"1 more since the last one, 0 of them retried or failed",
		"", "",
	}, "\n")
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if got := fmt.Sprint(e.since, e.hidden, len(e.parts)); got != "1 1 0" {
		t.Errorf("since, hidden and kept = %s, want 1 1 0", got)
	}
}
