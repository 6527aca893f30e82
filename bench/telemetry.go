package bench

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
)

// Telemetry is what it costs to see this library's calls. The floor is the same
// call with nobody watching.
func Telemetry() []Item {
	return []Item{
		{"first try, watched", "One call that succeeds at once.", watched(0), 0},
		{"two failures, watched", "One call that fails twice, then succeeds. There are no waits.", watched(2), 0},
	}
}

func watched(failures int) []Case {
	unsampled := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, Remote: true,
	}))
	recorder := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(dropped{}))
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	discard := func(l slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: l}))
	}
	nothing := retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
		Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
		AttemptDone: func(context.Context, retry.Attempt) {},
		Wait:        func(context.Context, retry.Attempt) {},
		Done:        func(context.Context, retry.Summary) {},
	}
	hooks := func(name string, h retry.Hooks, ctx context.Context) Case {
		p := retry.Policy{Name: "fetch", Backoff: retry.Constant(0), Hooks: h}
		op := failing(failures)
		return Case{Name: name, Run: func(n int) {
			for range n {
				_, _ = retry.Do(ctx, p, op)
			}
		}}
	}
	ctx := context.Background()
	return []Case{
		hooks("nobody", retry.Hooks{}, ctx),
		hooks("five hooks that do nothing", nothing, ctx),
		hooks("slog, which is at INFO", retry.SlogHooks(discard(slog.LevelInfo)), ctx),
		hooks("slog, which writes DEBUG lines nowhere", retry.SlogHooks(discard(slog.LevelDebug)), ctx),
		hooks("OpenTelemetry, no provider set", otelretry.Hooks(), ctx),
		hooks("OpenTelemetry, metrics only", otelretry.Hooks(
			otelretry.WithTracerProvider(noop.NewTracerProvider()), otelretry.WithMeterProvider(meters)), ctx),
		hooks("OpenTelemetry, the caller's span is not sampled", otelretry.Hooks(otelretry.WithTracerProvider(recorder)), unsampled),
		hooks("OpenTelemetry, all spans recorded and dropped", otelretry.Hooks(otelretry.WithTracerProvider(recorder)), ctx),
		hooks("OpenTelemetry, spans of runs that retry only", otelretry.Hooks(
			otelretry.WithTracerProvider(recorder), otelretry.WithAttempts(otelretry.RetriedRuns)), ctx),
		bareSpans("one span by hand, recorded and dropped", recorder, failing(failures)),
		bareSpans("and one for each attempt", recorder, traced(recorder, failing(failures))),
	}
}

// bareSpans traces the call as one does without hooks.
func bareSpans(name string, provider trace.TracerProvider, op Op) Case {
	tracer := provider.Tracer("bench")
	p := retry.Policy{Backoff: retry.Constant(0)}
	return Case{Name: name, Run: func(n int) {
		for range n {
			ctx, span := tracer.Start(context.Background(), "fetch")
			_, _ = retry.Do(ctx, p, op)
			span.End()
		}
	}}
}

// traced is an operation with a span of its own.
func traced(provider trace.TracerProvider, op Op) Op {
	tracer := provider.Tracer("bench")
	return func(ctx context.Context) (Row, error) {
		ctx, span := tracer.Start(ctx, "attempt")
		defer span.End()
		v, err := op(ctx)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		return v, err
	}
}

// dropped is the cheapest exporter.
type dropped struct{}

func (dropped) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (dropped) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error                  { return nil }
func (dropped) ForceFlush(context.Context) error                { return nil }
