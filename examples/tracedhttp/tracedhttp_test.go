package tracedhttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retryhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

func TestEachAttemptHasItsClientSpan(t *testing.T) {
	var parents []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents = append(parents, r.Header.Get("Traceparent"))
		if len(parents) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	policy := retry.Policy{
		Name:           "get-user",
		AttemptTimeout: time.Minute,
		Backoff:        retry.Constant(time.Millisecond),
		Hooks:          otelretry.Hooks(),
	}
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: policy,
		Base:   otelhttp.NewTransport(otelretry.ResendCount(nil)),
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()

	var got []string
	ids := map[oteltrace.SpanID]string{}
	for _, s := range spans.GetSpans() {
		ids[s.SpanContext.SpanID()] = s.Name
	}
	for i, s := range spans.GetSpans() {
		if s.SpanKind != oteltrace.SpanKindClient {
			continue
		}
		attributes := attribute.NewSet(s.Attributes...)
		count, ok := attributes.Value(semconv.HTTPRequestResendCountKey)
		got = append(got, fmt.Sprintf("%s below %s, resend %d %v", s.Name, ids[s.Parent.SpanID()], count.AsInt64(), ok))
		if id := s.SpanContext.SpanID().String(); !slices.ContainsFunc(parents, func(p string) bool { return strings.Contains(p, id) }) {
			t.Errorf("the server did not see span %d, %s", i, id)
		}
	}
	want := []string{
		"HTTP GET below attempt 1 get-user, resend 0 false",
		"HTTP GET below attempt 2 get-user, resend 1 true",
		"HTTP GET below attempt 3 get-user, resend 2 true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("client spans\n%q, want\n%q", got, want)
	}
}
