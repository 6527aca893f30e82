package main

import (
	"context"
	"errors"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/grpc"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
)

// tracing is where spans go, if anywhere.
type tracing struct {
	where    string
	provider *trace.TracerProvider // nil: nowhere
}

// startTracing sends traces to OTEL_EXPORTER_OTLP_ENDPOINT, if that is set.
func startTracing(ctx context.Context) (*tracing, error) {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" {
		return &tracing{where: "set OTEL_EXPORTER_OTLP_ENDPOINT to send them"}, nil
	}
	exporter, err := otlptracehttp.New(ctx) // which reads the endpoint itself
	if err != nil {
		return nil, err
	}
	res, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("grpc-example")), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	return &tracing{"sent to " + endpoint, trace.NewTracerProvider(trace.WithResource(res), trace.WithBatcher(exporter))}, nil
}

// hooks make a span of each call and of each attempt.
func (t *tracing) hooks() retry.Hooks {
	if t.provider == nil {
		return retry.Hooks{}
	}
	return otelretry.Hooks(otelretry.WithTracerProvider(t.provider))
}

// options have grpc make its client span below that of the attempt.
func (t *tracing) options() []grpc.DialOption {
	if t.provider == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(t.provider)))}
}

// close sends what has not been sent.
func (t *tracing) close() error {
	if t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(t.provider.ForceFlush(ctx), t.provider.Shutdown(ctx))
}
