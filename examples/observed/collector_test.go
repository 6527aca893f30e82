package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	otelretry "github.com/goretry/retry/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestCollector sends the program's traces through a real Collector with the
// configuration in dashboards, and counts what comes out. It needs the Collector,
// which takes minutes to build: see dashboards/collector-builder.yaml.
func TestCollector(t *testing.T) {
	binary := os.Getenv("OTELCOL")
	if binary == "" {
		t.Skip("OTELCOL does not name a Collector")
	}
	b := backend{traces: make(map[string]*traced)}
	server := httptest.NewServer(&b)
	defer server.Close()
	otlp, page := freeAddress(t), freeAddress(t)
	cmd := exec.Command(binary, "--config", "../../dashboards/collector.yaml")
	cmd.Env = append(os.Environ(), "OTLP_ENDPOINT="+otlp, "METRICS_ENDPOINT="+page, "BACKEND_ENDPOINT="+server.URL)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the Collector says:\n%s", &log)
		}
	}()
	await(t, "the Collector listens", func() bool {
		conn, err := net.Dial("tcp", otlp)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+otlp)
	var out bytes.Buffer
	c := brief
	c.failures = 0.2
	if err := run(t.Context(), c, &out); err != nil {
		t.Fatalf("run: %v", err)
	}
	m := regexp.MustCompile(`(\d+) calls: (\d+) succeeded at once, (\d+) after retries, (\d+) failed`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatalf("it printed\n%s", &out)
	}
	var sent [4]int
	for i := range sent {
		sent[i], _ = strconv.Atoi(m[i+1])
	}
	calls, first, retried, failed := sent[0], sent[1], sent[2], sent[3]
	await(t, "the traces that are kept arrive", func() bool {
		got := b.count()
		return got.retried >= retried && got.failed >= failed
	})
	got := b.count()
	t.Logf("sent %d calls: %d succeeded at once, %d after retries, %d failed; kept %d, %d and %d, with %d spans of attempts, %d of waits and %d of requests",
		calls, first, retried, failed, got.first, got.retried, got.failed, got.attempts, got.waits, got.requests)
	if got.retried != retried || got.failed != failed || got.first == 0 || got.first > first/2 {
		t.Errorf("it kept %d calls that succeeded at once, %d after retries and %d that failed; want about %d, %d and %d",
			got.first, got.retried, got.failed, first/10, retried, failed)
	}
	if got.broken != "" {
		t.Errorf("a trace came without all of its spans: %s", got.broken)
	}

	// The metrics are of all calls.
	counted := 0
	await(t, "the metrics count all calls", func() bool {
		resp, err := http.Get("http://" + page + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return false
		}
		counted = 0
		for _, m := range regexp.MustCompile(`(?m)^traces_span_metrics_calls_total\{.*retry_outcome=".+\} (\d+)$`).FindAllSubmatch(body, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			counted += n
		}
		return counted >= calls
	})
	if counted != calls {
		t.Errorf("the metrics count %d calls, want %d", counted, calls)
	}
}

// await waits until ok, a minute at most: a busy machine is no failure.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Errorf("a minute later it is still not so that %s", what)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// backend is where the Collector sends what it keeps.
type backend struct {
	mu     sync.Mutex
	traces map[string]*traced
}

// traced is what is known of a trace.
type traced struct {
	outcome                         string
	made, attempts, waits, requests int
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	zipped, err := gzip.NewReader(r.Body) // as the Collector sends it
	if err == nil {
		body, err = io.ReadAll(zipped)
	}
	var req collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				tr := b.traces[string(s.TraceId)]
				if tr == nil {
					tr = &traced{}
					b.traces[string(s.TraceId)] = tr
				}
				values := map[string]string{}
				for _, kv := range s.Attributes {
					values[kv.Key] = kv.Value.GetStringValue()
					if kv.Key == "retry.attempts" {
						tr.made = int(kv.Value.GetIntValue())
					}
				}
				_, waits := values["retry.delay"]
				switch {
				case ss.Scope.GetName() != otelretry.ScopeName:
					tr.requests++
				case values["retry.outcome"] != "":
					tr.outcome = values["retry.outcome"]
				case waits:
					tr.waits++
				default:
					tr.attempts++
				}
			}
		}
	}
}

// counts are of calls, and of the spans below them.
type counts struct {
	first, retried, failed, attempts, waits, requests int
	broken                                            string // a trace of which a span is missing
}

func (b *backend) count() (c counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tr := range b.traces {
		switch {
		case tr.outcome == "success_first_try":
			c.first++
		case tr.outcome == "success_after_retry":
			c.retried++
		case strings.HasPrefix(tr.outcome, "failure_"):
			c.failed++
		}
		c.attempts, c.waits, c.requests = c.attempts+tr.attempts, c.waits+tr.waits, c.requests+tr.requests
		if tr.attempts != tr.made || tr.requests < tr.made || tr.waits != tr.made-1 { // a hedge is one more request
			c.broken = fmt.Sprintf("%+v", *tr)
		}
	}
	return c
}
