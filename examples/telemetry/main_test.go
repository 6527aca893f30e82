package main

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// received is what a collector has got.
type received struct {
	mu       sync.Mutex
	balances []float64
	spans    map[string]int
	err      error
}

func (r *received) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, r.read(req))
}

func (r *received) read(req *http.Request) error {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if req.URL.Path == "/v1/traces" {
		var got collecttraces.ExportTraceServiceRequest
		err := proto.Unmarshal(b, &got)
		for _, resource := range got.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					r.spans[span.Name]++
				}
			}
		}
		return err
	}
	var got collectmetrics.ExportMetricsServiceRequest
	err = proto.Unmarshal(b, &got)
	for _, resource := range got.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.GetGauge().GetDataPoints() {
					if m.Name == "retry.budget.balance" {
						r.balances = append(r.balances, point.GetAsDouble())
					}
				}
			}
		}
	}
	return err
}

// A run that fails has taken two retries of two tokens from nine. The process ends after
// that, and its only export, by Shutdown, has the balance and all spans.
func TestTheLastBalanceIsExported(t *testing.T) {
	r := &received{spans: map[string]int{}}
	collector := httptest.NewServer(r)
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	down := errors.New("down")
	if err := run(t.Context(), func(context.Context) (string, error) { return "", down }); !errors.Is(err, down) {
		t.Errorf("run = %v, want %v", err, down)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Error(r.err)
	}
	if len(r.balances) != 1 || r.balances[0] != .5 {
		t.Errorf("balances %v, want .5 at the end", r.balances)
	}
	if len(r.spans) != 5 { // the run, three attempts, and the waits, which have one name
		t.Errorf("spans %v", r.spans)
	}
}
