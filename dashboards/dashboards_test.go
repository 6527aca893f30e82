package dashboards

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryqueue"
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	grafana "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"
)

// TestDashboardIsOneForGrafana has Grafana's own types read it: no field may be
// unknown or missing.
func TestDashboardIsOneForGrafana(t *testing.T) {
	runtime := cog.NewRuntime()
	runtime.RegisterDataqueryVariant(grafana.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterPanelcfgVariant(bargauge.VariantConfig())
	var d dashboard.Dashboard
	if err := d.UnmarshalJSONStrict(read(t, "grafana.json")); err != nil {
		t.Error(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

// TestDashboardQueries holds every query of the dashboard against real metrics.
func TestDashboardQueries(t *testing.T) {
	var d struct {
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(read(t, "grafana.json"), &d); err != nil {
		t.Fatal(err)
	}
	c := checker{t, scrape(t)}
	fill := []string{"$__rate_interval", "5m"} // what Grafana puts in
	for _, v := range d.Templating.List {
		fill = append(fill, "$"+v.Name, ".*")
	}
	variables := 0
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		variables++
		m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Query)
		if m == nil {
			t.Errorf("variable %s: query %s", v.Name, v.Query)
			continue
		}
		if c.labels(v.Name, strings.NewReplacer(fill...).Replace(m[1]))[m[2]] == nil {
			t.Errorf("variable %s: no label %s in %s", v.Name, m[2], m[1])
		}
	}
	if variables != 3 || len(d.Panels) != 20 {
		t.Errorf("%d variables and %d panels, want 3 and 20", variables, len(d.Panels))
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || p.Description == "" {
			t.Errorf("panel %s has %d queries and the description %q", p.Title, len(p.Targets), p.Description)
		}
		for _, target := range p.Targets {
			got := c.labels(p.Title, strings.NewReplacer(fill...).Replace(target.Expr))
			c.chosen(p.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			c.mentions(p.Title, target.LegendFormat, `{{(\w+)}}`, got)
		}
	}
}

// No panel hides another, and each has an id of its own.
func TestDashboardLayout(t *testing.T) {
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(read(t, "grafana.json"), &d); err != nil {
		t.Fatal(err)
	}
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		at := p.GridPos
		if ids[p.ID] != "" || at.W <= 0 || at.H <= 0 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %s has the id %d and is at %+v", p.Title, p.ID, at)
		}
		ids[p.ID] = p.Title
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %s is on %s", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestRules does the same with the rules, and with the series that their own test
// makes up.
func TestRules(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Record, Alert, Expr string
				Annotations         map[string]string
			}
		}
	}
	var made struct {
		Tests []struct {
			Input []struct{ Series string } `yaml:"input_series"`
			Rules []struct {
				Alertname string
				Time      string `yaml:"eval_time"`
				Alerts    []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	unmarshal(t, "rules.yml", &rules)
	unmarshal(t, "rules_test.yml", &made)
	c := checker{t, scrape(t)}
	const rests, fires, clears = "rests", "fires", "clears"
	seen := make(map[[2]string]bool)
	for _, test := range made.Tests {
		for _, in := range test.Input {
			c.labels("rules_test.yml", in.Series)
		}
		state, last := make(map[string]string), time.Duration(0)
		for _, rule := range test.Rules {
			at, err := time.ParseDuration(rule.Time)
			if err != nil || at < last {
				t.Errorf("%s at %s, after %v: %v", rule.Alertname, rule.Time, last, err)
			}
			last = at
			switch {
			case len(rule.Alerts) > 0:
				state[rule.Alertname] = fires
			case state[rule.Alertname] == fires:
				state[rule.Alertname] = clears
			case state[rule.Alertname] == "":
				state[rule.Alertname] = rests
			}
			seen[[2]string{rule.Alertname, state[rule.Alertname]}] = true
		}
	}
	alerts, records := 0, 0
	runbook := anchors(t, "../docs/runbook.md")
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			got := c.labels(rule.Record+rule.Alert, rule.Expr)
			if rule.Record != "" {
				c.series[rule.Record] = got
				records++
				continue
			}
			alerts++
			url, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
			if !strings.HasSuffix(url, "/docs/runbook.md") || !runbook[anchor] || anchor != strings.ToLower(rule.Alert) {
				t.Errorf("%s: no section of its own at %s#%s", rule.Alert, url, anchor)
			}
			if _, byInstance := got["instance"]; byInstance != strings.Contains(rule.Annotations["dashboard"], "var-instance=") {
				t.Errorf("%s: the dashboard's link is %s", rule.Alert, rule.Annotations["dashboard"])
			}
			for _, key := range []string{"summary", "description", "dashboard"} {
				if rule.Annotations[key] == "" {
					t.Errorf("%s has no %s", rule.Alert, key)
				}
				c.mentions(rule.Alert, rule.Annotations[key], `\$labels\.(\w+)`, got)
			}
			for _, state := range []string{rests, fires, clears} {
				if !seen[[2]string{rule.Alert, state}] {
					t.Errorf("in rules_test.yml there is no case in which %s %s", rule.Alert, state)
				}
			}
		}
	}
	if alerts != 8 || records > 10 {
		t.Errorf("%d alerts and %d recording rules, want 8 and at most 10", alerts, records)
	}
}

// anchors returns those of a document's headings.
func anchors(t *testing.T, name string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllSubmatch(read(t, name), -1) {
		found[strings.ReplaceAll(strings.ToLower(string(m[1])), " ", "-")] = true
	}
	return found
}

// TestAlerts runs the cases of the rules, and with RETRY_LONG=1 those at any distance
// and phase of scrapes as well, which takes minutes.
func TestAlerts(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	files := []string{"rules_test.yml"}
	if os.Getenv("RETRY_LONG") != "" {
		folder := t.ArtifactDir()
		if err := writeTests(folder); err != nil {
			t.Fatal(err)
		}
		more, err := filepath.Glob(filepath.Join(folder, "evaluated_every_*.yml"))
		if err != nil || len(more) != len(evaluations) {
			t.Fatalf("%d files, %v, want %d", len(more), err, len(evaluations))
		}
		files = append(files, more...)
	}
	out, err := exec.Command("promtool", append([]string{"test", "rules"}, files...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestDocumentedQueries does it with the queries of the manual.
func TestDocumentedQueries(t *testing.T) {
	c := checker{t, scrape(t)}
	found := regexp.MustCompile("(?m)^\\| .*\\? \\| `(.+)` \\|$").FindAllSubmatch(read(t, "../docs/observability.md"), -1)
	if len(found) != 8 {
		t.Errorf("%d queries, want 8", len(found))
	}
	for _, m := range found {
		c.labels("observability.md", string(m[1]))
	}
}

// checker knows the labels of each series, and the values of each label.
type checker struct {
	t      *testing.T
	series map[string]labelSet
}

type labelSet map[string]map[string]bool

// labels parses an expression and returns the labels that its result can have. It
// is an error if the expression asks for a metric, a label or a value that there
// is not.
func (c *checker) labels(where, expr string) labelSet {
	c.t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		c.t.Errorf("%s: %s: %v", where, expr, err)
		return nil
	}
	return c.visit(where, e)
}

func (c *checker) visit(where string, n parser.Node) labelSet {
	c.t.Helper()
	all := labelSet{}
	for child := range parser.ChildrenIter(n) {
		maps.Copy(all, c.visit(where, child))
	}
	known := func(names []string) labelSet {
		kept := labelSet{}
		for _, name := range names {
			if kept[name] = all[name]; kept[name] == nil {
				c.t.Errorf("%s: no label %s in %s", where, name, n)
			}
		}
		return kept
	}
	switch e := n.(type) {
	case *parser.VectorSelector:
		all = c.series[e.Name]
		if all == nil {
			c.t.Errorf("%s: no metric %s", where, e.Name)
		}
		for _, m := range e.LabelMatchers {
			if m.Name != "__name__" && !matches(m, all[m.Name]) {
				c.t.Errorf("%s: no series has %s", where, m)
			}
		}
	case *parser.AggregateExpr:
		if e.Without {
			c.t.Errorf("%s: %s: this test only knows by", where, n)
		}
		if e.Op != parser.TOPK {
			return known(e.Grouping)
		}
	case *parser.BinaryExpr:
		if e.VectorMatching != nil {
			known(e.VectorMatching.MatchingLabels)
		}
	}
	return all
}

// chosen checks that a query selects what is chosen above the dashboard.
func (c *checker) chosen(where, expr string) {
	c.t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		c.t.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		want := []string{`job=~"$job"`, `instance=~"$instance"`}
		if c.series[v.Name]["retry_name"] != nil {
			want = append(want, `retry_name=~"$operation"`)
		}
		for _, matcher := range want {
			if !slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.String() == matcher }) {
				c.t.Errorf("%s: %s without %s", where, v, matcher)
			}
		}
		return nil
	})
}

// matches reports whether there is such a value. Names are free, but not their labels.
func matches(m *labels.Matcher, values map[string]bool) bool {
	switch m.Name {
	case "job", "instance", "retry_name", "retry_budget":
		return values != nil
	}
	for value := range values {
		if m.Matches(value) {
			return true
		}
	}
	return false
}

// mentions checks that the labels in a text are those of its expression.
func (c *checker) mentions(where, text, pattern string, got labelSet) {
	c.t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		if got[m[1]] == nil {
			c.t.Errorf("%s: %q mentions a label that its query does not have", where, text)
		}
	}
}

// busy refuses an attempt, and has the next one wait.
type busy struct{ refused bool }

func (b *busy) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if !b.refused {
		b.refused = true
		return retry.Pass{}, limit.ErrLimited
	}
	return retry.Pass{Wait: time.Second}, nil
}
func (*busy) Leave(retry.Pass, retry.Exit) {}

// scrape runs the library until each of its metrics has been made in each way, and
// returns what Prometheus would then have.
func scrape(t *testing.T) map[string]labelSet {
	registry := client.NewRegistry()
	reader, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	meters := otelretry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	budget := &budget.Token{Capacity: 28}
	unregister, err := otelretry.ObserveBudget("dependency", budget, meters)
	if err != nil {
		t.Fatal(err)
	}
	defer unregister()
	fails := func(ctx context.Context) error { return errors.New("down") }
	policy := retry.Policy{Name: "search", Budget: budget, Hooks: otelretry.Hooks(meters), Clock: clockx.NewVirtual(time.Now())}
	for _, op := range []func(context.Context) error{
		func(context.Context) error { return nil },
		func(ctx context.Context) error {
			if retry.AttemptNumber(ctx) == 1 {
				return retry.After(errors.New("busy"), time.Second)
			}
			return nil
		},
		fails, // three times, and takes the budget's two retries
		fails, // once
		func(context.Context) error { return retry.Stop(errors.New("not found")) },
		func(context.Context) error { return retry.ErrRejected }, // as a poll that is given up
		func(context.Context) error { return sqlState("28P01") },
		func(context.Context) error { return &net.DNSError{IsNotFound: true} },
		func(context.Context) error {
			return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}
		},
	} {
		_ = retry.Run(t.Context(), policy, op)
	}
	for _, code := range []status{400, 401, 403, 404, 503} {
		_ = retry.Run(t.Context(), policy, func(context.Context) error { return code })
	}
	guarded := policy
	guarded.Guards = []retry.Guard{new(busy)}
	_ = retry.Run(t.Context(), guarded, func(context.Context) error { return nil })
	for _, g := range []retry.Guard{&pace.Pace{Quota: 1, Per: time.Hour}, &limit.Limit{Max: 1}, new(breaker.Breaker)} {
		guarded.Guards, guarded.MaxAttempts, guarded.MaxElapsed = []retry.Guard{g}, 1, time.Second
		for range 20 { // the pace refuses the second, and the breaker the 21st
			_ = retry.Run(t.Context(), guarded, fails)
		}
		_ = retry.Run(t.Context(), guarded, func(ctx context.Context) error { return retry.Run(ctx, guarded, fails) }) // the limit refuses the inner one
	}
	hedged := &hedge.Hedge{Delay: 1, Hedged: otelretry.HedgeHook(meters)}
	slow := retry.Policy{Name: policy.Name} // the policy's clock would not move
	_, _ = hedge.Do(t.Context(), slow, hedged, func(ctx context.Context) (int, error) {
		if hedge.Number(ctx) == 1 {
			<-ctx.Done()
		}
		return 0, ctx.Err()
	})
	gate := shut(t)
	for name, observe := range map[string]func() (func() error, error){
		"gate": func() (func() error, error) { return otelretry.ObserveGate("dependency", gate, meters) },
		"target": func() (func() error, error) {
			return otelretry.ObserveTarget("dependency", new(failover.Target[int]), meters)
		},
		"pace":  func() (func() error, error) { return otelretry.ObservePace("dependency", new(pace.Pace), meters) },
		"hedge": func() (func() error, error) { return otelretry.ObserveHedge("dependency", hedged, meters) },
		"limit": func() (func() error, error) {
			return otelretry.ObserveLimit("dependency", &limit.Limit{Max: 5}, meters)
		},
		"breaker": func() (func() error, error) {
			return otelretry.ObserveBreaker("dependency", new(breaker.Breaker), meters)
		},
	} {
		unregister, err := observe()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer unregister()
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_ = retry.Run(canceled, policy, fails)
	var page *httptest.ResponseRecorder
	_ = retry.Run(t.Context(), policy, func(context.Context) error { // while it is underway
		page = httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		return nil
	})

	series := make(map[string]labelSet)
	all := make(map[string][]labels.Labels)
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		ls, err := parser.NewParser(parser.Options{}).ParseMetric(line[:strings.LastIndex(line, " ")])
		if err != nil {
			t.Fatal(err)
		}
		name := ls.Get("__name__")
		if series[name] == nil { // with what Prometheus adds itself
			series[name] = labelSet{"job": {"observed": true}, "instance": {"a": true}}
		}
		ls.Range(func(l labels.Label) {
			if series[name][l.Name] == nil {
				series[name][l.Name] = make(map[string]bool)
			}
			series[name][l.Name][l.Value] = true
		})
		all[name] = append(all[name], ls)
	}
	for name, each := range all {
		for label, values := range series[name] {
			for _, ls := range each {
				if label != "job" && label != "instance" && !ls.Has(label) {
					values[""] = true
				}
			}
		}
	}
	return series
}

type (
	status   int
	sqlState string
)

func (s status) Error() string      { return strconv.Itoa(int(s)) }
func (s status) StatusCode() int    { return int(s) }
func (s sqlState) Error() string    { return string(s) }
func (s sqlState) SQLState() string { return string(s) }

// Whose fault a permanent error is, is decided in one place: rules.yml lists the codes for
// which retryqueue.Patient blames the message.
func TestCodesOfOneCaller(t *testing.T) {
	m := regexp.MustCompile(`error_type=~"(40[^"]*)"`).FindAllSubmatch(read(t, "rules.yml"), -1)
	if len(m) != 1 {
		t.Fatalf("%d lists of codes, want 1", len(m))
	}
	listed := labels.MustNewMatcher(labels.MatchRegexp, "error_type", string(m[0][1])).Matches
	check := func(code string, err error) {
		if retry.DefaultClassifier(err) != retry.Permanent {
			return // a run that ends with it has failed
		}
		if blamed := retryqueue.Patient(err) == retry.Unknown; listed(code) != blamed {
			t.Errorf("%s is listed: %t; Patient blames the message: %t", code, listed(code), blamed)
		}
	}
	for code := 400; code < 600; code++ {
		check(strconv.Itoa(code), status(code))
	}
	for _, state := range strings.Fields("08001 21000 22001 22P02 23502 23505 25006 28000 28P01 3D000 42501 42601 42P01 44000 54000 54011 P0001 P0002 P0003 P0004") {
		check(state, sqlState(state))
	}
}

func read(t *testing.T, name string) []byte {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshal(t *testing.T, name string, v any) {
	if err := yaml.Unmarshal(read(t, name), v); err != nil {
		t.Fatal(err)
	}
}

// shut returns the gate of a queue that is closed.
func shut(t *testing.T) *retryqueue.Gate {
	clock := clockx.NewVirtual(time.Now())
	g := &retryqueue.Gate{Policy: retry.Policy{Clock: clock}}
	for range 6 {
		done, err := g.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
		done("", errors.New("down"))
	}
	return g
}
