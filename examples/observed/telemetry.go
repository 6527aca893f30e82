package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	prometheusclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// telemetry is where traces and metrics go: what any service sets up, retries or
// not.
type telemetry struct {
	url     string // of the metrics
	page    string // the URL of the page of retries
	traces  string // where they go
	tracers *trace.TracerProvider
	meters  *metric.MeterProvider
	server  http.Server
	failed  atomic.Pointer[error] // the first failure to export
}

// setUp sets the global providers, and serves metrics and page. Traces go to
// OTEL_EXPORTER_OTLP_ENDPOINT or else are drawn on w.
func setUp(ctx context.Context, c config, page http.Handler, w io.Writer) (*telemetry, error) {
	res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("observed")), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	t := &telemetry{traces: "drawn below"}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.failed.CompareAndSwap(nil, &err) }))
	spans := trace.WithSyncer(&traces{w: w, every: c.every})
	if endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint != "" {
		otlp, err := otlptracehttp.New(ctx) // which reads the endpoint itself
		if err != nil {
			return nil, err
		}
		t.traces = "sent to " + endpoint
		spans = trace.WithBatcher(otlp)
	}
	registry := prometheusclient.NewRegistry()
	reader, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", c.metrics)
	if err != nil {
		return nil, err
	}
	t.url = "http://" + l.Addr().String() + "/metrics"
	t.page = "http://" + l.Addr().String() + "/debug/retry"
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/retry", page)
	t.server.Handler = mux
	go t.server.Serve(l) // returns when closed

	t.tracers = trace.NewTracerProvider(trace.WithResource(res), spans)
	t.meters = metric.NewMeterProvider(metric.WithResource(res), metric.WithReader(reader))
	otel.SetTracerProvider(t.tracers)
	otel.SetMeterProvider(t.meters)
	return t, nil
}

// close sends what has not been sent. An export that failed earlier is an error too.
func (t *telemetry) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx), t.server.Close())
	if first := t.failed.Load(); first != nil {
		return *first
	}
	return err
}

// traceID returns the id of the trace that ctx belongs to, for the page.
func traceID(ctx context.Context) string {
	if sc := oteltrace.SpanContextFromContext(ctx); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}
