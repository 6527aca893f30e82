package otelretry_test

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The rows of one benchmark make the same call and are to be compared with each
// other in one run. "bare span" is a span around the call and nothing else. What
// the same spans cost when they are made by hand is in bench.

// cheapest is a processor that exports nothing.
type cheapest struct{}

func (cheapest) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (cheapest) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (cheapest) Shutdown(context.Context) error                  { return nil }
func (cheapest) ForceFlush(context.Context) error                { return nil }

func sampling(s sdktrace.Sampler) trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(s), sdktrace.WithSpanProcessor(cheapest{}))
}

// empty are hooks that do nothing.
func empty() retry.Hooks {
	return retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
		Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
		AttemptDone: func(context.Context, retry.Attempt) {},
		Wait:        func(context.Context, retry.Attempt) {},
		Done:        func(context.Context, retry.Summary) {},
	}
}

func ours(p trace.TracerProvider, opts ...otelretry.Option) retry.Hooks {
	return otelretry.Hooks(append(opts, otelretry.WithTracerProvider(p))...)
}

// unsampled is a context with the span of a trace that is not sampled.
func unsampled() context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
	}))
}

func succeed(context.Context) error { return nil }

// flaky fails twice, then succeeds.
type flaky struct{ calls int }

func (f *flaky) call(context.Context) error {
	if f.calls++; f.calls%3 != 0 {
		return errDown
	}
	return nil
}

func measure(b *testing.B, name string, ctx context.Context, h retry.Hooks, op func(context.Context) error) {
	p := retry.Policy{Name: "fetch", Hooks: h, Backoff: retry.Constant(time.Nanosecond)}
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = retry.Run(ctx, p, op)
		}
	})
}

func bareSpan(b *testing.B, ctx context.Context, p trace.TracerProvider) {
	tracer := p.Tracer("bare")
	b.Run("bare span", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, span := tracer.Start(ctx, "fetch")
			_ = succeed(ctx)
			span.End()
		}
	})
}

func BenchmarkFirstTryNoop(b *testing.B) {
	ctx := context.Background()
	measure(b, "no hooks", ctx, retry.Hooks{}, succeed)
	measure(b, "empty hooks", ctx, empty(), succeed)
	measure(b, "no provider", ctx, otelretry.Hooks(), succeed)
	measure(b, "no-op provider", ctx, ours(noop.NewTracerProvider()), succeed)
	bareSpan(b, ctx, noop.NewTracerProvider())
}

func BenchmarkFirstTryUnsampled(b *testing.B) {
	p := sampling(sdktrace.ParentBased(sdktrace.AlwaysSample()))
	bareSpan(b, unsampled(), p)
	measure(b, "ours", unsampled(), ours(p), succeed)
	measure(b, "ours, retried runs", unsampled(), ours(p, otelretry.WithAttempts(otelretry.RetriedRuns)), succeed)
}

func BenchmarkFirstTrySampled(b *testing.B) {
	p, ctx := sampling(sdktrace.AlwaysSample()), context.Background()
	bareSpan(b, ctx, p)
	measure(b, "ours", ctx, ours(p), succeed)
	measure(b, "ours, no attempts", ctx, ours(p, otelretry.WithAttempts(otelretry.NoAttempts)), succeed)
	measure(b, "ours, retried runs", ctx, ours(p, otelretry.WithAttempts(otelretry.RetriedRuns)), succeed)
	m := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	measure(b, "ours, with metrics", ctx, ours(p, otelretry.WithMeterProvider(m)), succeed)
}

func BenchmarkTwoRetriesSampled(b *testing.B) {
	p, ctx := sampling(sdktrace.AlwaysSample()), context.Background()
	measure(b, "no hooks", ctx, retry.Hooks{}, new(flaky).call)
	measure(b, "ours", ctx, ours(p), new(flaky).call)
	m := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	measure(b, "ours, with metrics", ctx, ours(p, otelretry.WithMeterProvider(m)), new(flaky).call)
}
