package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
)

// Telemetry is what it costs to see this library's calls. Floors are of the same
// run: the same call with nobody watching, or with the same spans or measurements
// made by hand.
func Telemetry() []Item {
	const (
		observed = "A call that is watched"
		byHand   = "OpenTelemetry, by this library and by hand"
	)
	return []Item{
		{observed, "first try", "succeeds at once.", watched(0)},
		{observed, "two failures", "fails twice, then succeeds. There are no waits.", watched(2)},
		{byHand, "two spans", "a call that succeeds at once: a span of the run and one of its attempt, with all attributes, recorded and dropped.", []Case{
			bareSpans(Bare, recorder(), 0, bare),
			watchedBy(NaiveHooks, naive(recorder(), false), 0),
			watchedBy(OpenTelemetry, otelretry.Hooks(otelretry.WithTracerProvider(recorder())), 0),
		}},
		{byHand, "four spans", "a call that fails twice, then succeeds: spans of the run and its attempts, and two events.", []Case{
			bareSpans(Bare, recorder(), 2, bare),
			watchedBy(NaiveHooks, naive(recorder(), false), 2),
			watchedBy(OpenTelemetry, otelretry.Hooks(otelretry.WithTracerProvider(recorder()), otelretry.WithWaits(false)), 2),
		}},
		{byHand, "six spans", "the same with a span for each wait.", []Case{
			bareSpans(Bare, recorder(), 2, bareWaits),
			watchedBy(NaiveHooks, naive(recorder(), true), 2),
			watchedBy(OpenTelemetry, otelretry.Hooks(otelretry.WithTracerProvider(recorder())), 2),
		}},
		{byHand, "metrics", "a call that succeeds at once, recorded in three histograms. The bare row only records, with attributes made beforehand.", []Case{
			records(Bare),
			watchedBy(IdleHooks, nothing(), 0),
			watchedBy(OpenTelemetry, otelretry.Hooks(otelretry.WithTracerProvider(noop.NewTracerProvider()), otelretry.WithMeterProvider(meters())), 0),
		}},
	}
}

// The cases of the items that compare this library's hooks with code by hand.
const (
	OpenTelemetry = "otelretry.Hooks"
	Bare          = "bare: no hooks"
	NaiveHooks    = "hooks by hand"
	IdleHooks     = "five hooks that do nothing"
)

func recorder() trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(dropped{}))
}

func meters() metric.MeterProvider {
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

func nothing() retry.Hooks {
	return retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
		Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
		AttemptDone: func(context.Context, retry.Attempt) {},
		Wait:        func(context.Context, retry.Attempt) {},
		Done:        func(context.Context, retry.Summary) {},
	}
}

// watchedBy is a call whose policy has these hooks.
func watchedBy(name string, h retry.Hooks, failures int) Case {
	p := retry.Policy{Name: "fetch", Backoff: retry.Constant(0), Hooks: h}
	op := failing(failures)
	return Case{Name: name, Run: func(n int) {
		for range n {
			_, _ = retry.Do(context.Background(), p, op)
		}
	}}
}

func watched(failures int) []Case {
	unsampled := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, Remote: true,
	}))
	recorder, meters := recorder(), meters()
	discard := func(l slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: l}))
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
		hooks(IdleHooks, nothing(), ctx),
		hooks("slog, which is at INFO", retry.SlogHooks(discard(slog.LevelInfo)), ctx),
		hooks("slog, which writes DEBUG lines nowhere", retry.SlogHooks(discard(slog.LevelDebug)), ctx),
		hooks("OpenTelemetry, no provider set", otelretry.Hooks(), ctx),
		hooks("OpenTelemetry, metrics only", otelretry.Hooks(
			otelretry.WithTracerProvider(noop.NewTracerProvider()), otelretry.WithMeterProvider(meters)), ctx),
		hooks("OpenTelemetry, the caller's span is not sampled", otelretry.Hooks(otelretry.WithTracerProvider(recorder)), unsampled),
		hooks("OpenTelemetry, all spans recorded and dropped", otelretry.Hooks(otelretry.WithTracerProvider(recorder)), ctx),
		hooks("OpenTelemetry, spans of runs that retry only", otelretry.Hooks(
			otelretry.WithTracerProvider(recorder), otelretry.WithAttempts(otelretry.RetriedRuns)), ctx),
		bareSpans("one span by hand, recorded and dropped", recorder, failures, bareRun),
	}
}

// What is made by hand.
type spans uint8

const (
	bareRun   spans = iota // one around the call
	bare                   // and one for each attempt
	bareWaits              // and one for each wait
)

// bareSpans traces the call without hooks: the same spans, attributes and events,
// those known at the start given there, the others by one SetAttributes.
func bareSpans(name string, provider trace.TracerProvider, failures int, which spans) Case {
	tracer := provider.Tracer("bench")
	p := retry.Policy{Name: "fetch", Backoff: retry.Constant(0)}
	fails := failing(failures)
	return Case{Name: name, Run: func(n int) {
		for range n {
			ctx, run := tracer.Start(context.Background(), "fetch", trace.WithAttributes(
				attribute.String("retry.name", "fetch"), attribute.Int("retry.max_attempts", 3)))
			attempts := 0
			_, _ = retry.Do(ctx, p, func(ctx context.Context) (Row, error) {
				attempts++
				if which == bareRun {
					return fails(ctx)
				}
				opCtx, span := tracer.Start(ctx, "fetch attempt 1", trace.WithAttributes(
					attribute.String("retry.name", "fetch"), attribute.Int("retry.attempt", attempts)))
				v, err := fails(opCtx)
				if err != nil {
					span.SetAttributes(attribute.String("retry.class", "transient"), attribute.String("error.type", "*errors.errorString"))
					span.SetStatus(codes.Error, err.Error())
				}
				span.End()
				if err == nil {
					return v, err
				}
				run.AddEvent("retry.wait", trace.WithAttributes(attribute.Int("retry.attempt", attempts), attribute.Float64("retry.delay", 0),
					attribute.String("retry.class", "transient"), attribute.String("error.type", "*errors.errorString")))
				if which == bareWaits {
					_, wait := tracer.Start(ctx, "fetch wait", trace.WithAttributes(attribute.String("retry.name", "fetch"),
						attribute.Int("retry.attempt", attempts), attribute.Float64("retry.delay", 0),
						attribute.String("retry.class", "transient"), attribute.String("error.type", "*errors.errorString")))
					wait.End()
				}
				return v, err
			})
			outcome := "success_first_try"
			if attempts > 1 {
				outcome = "success_after_retry"
			}
			kv := []attribute.KeyValue{attribute.Int("retry.attempts", attempts), attribute.String("retry.outcome", outcome), attribute.Float64("retry.waited", 0)}
			if attempts == 1 {
				kv = kv[:2]
			}
			run.SetAttributes(kv...)
			run.End()
		}
	}}
}

// records makes the measurements of a first try.
func records(name string) Case {
	meter := meters().Meter("bench")
	ctx := context.Background()
	bounds := metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 30, 60, 120, 300)
	run, err1 := meter.Float64Histogram("run", bounds)
	attempt, err2 := meter.Float64Histogram("attempt", bounds)
	attempts, err3 := meter.Int64Histogram("attempts", metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 10, 20))
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(err)
	}
	named := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("retry.name", "fetch")))}
	ended := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("retry.name", "fetch"), attribute.String("retry.outcome", "success_first_try")))}
	return Case{Name: name, Run: func(n int) {
		for range n {
			attempt.Record(ctx, 1e-6, named...)
			attempts.Record(ctx, 1, ended...)
			run.Record(ctx, 1e-6, ended...)
		}
	}}
}

// naive are hooks as people write them, which make the same spans: what is known at
// the start is given there, where samplers see it.
func naive(provider trace.TracerProvider, waits bool) retry.Hooks {
	tracer := provider.Tracer("bench")
	type waitKey struct{}
	return retry.Hooks{
		Start: func(ctx context.Context, p retry.Policy) context.Context {
			ctx, _ = tracer.Start(ctx, p.Name, trace.WithAttributes(
				attribute.String("retry.name", p.Name), attribute.Int("retry.max_attempts", p.AttemptLimit())))
			if waits {
				ctx = context.WithValue(ctx, waitKey{}, new(trace.Span))
			}
			return ctx
		},
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			if wait, ok := ctx.Value(waitKey{}).(*trace.Span); ok && *wait != nil {
				(*wait).End()
				*wait = nil
			}
			ctx, _ = tracer.Start(ctx, fmt.Sprintf("%s attempt %d", a.Name, a.Number), trace.WithAttributes(
				attribute.String("retry.name", a.Name), attribute.Int("retry.attempt", a.Number)))
			return ctx
		},
		AttemptDone: func(ctx context.Context, a retry.Attempt) {
			span := trace.SpanFromContext(ctx)
			if a.Err != nil {
				span.SetAttributes(attribute.String("retry.class", a.Class.String()), attribute.String("error.type", fmt.Sprintf("%T", a.Err)))
				span.SetStatus(codes.Error, a.Err.Error())
			}
			span.End()
		},
		Wait: func(ctx context.Context, a retry.Attempt) {
			kv := []attribute.KeyValue{attribute.Int("retry.attempt", a.Number), attribute.Float64("retry.delay", a.Delay.Seconds()),
				attribute.String("retry.class", a.Class.String()), attribute.String("error.type", fmt.Sprintf("%T", a.Err))}
			trace.SpanFromContext(ctx).AddEvent("retry.wait", trace.WithAttributes(kv...))
			if wait, ok := ctx.Value(waitKey{}).(*trace.Span); ok {
				_, *wait = tracer.Start(ctx, a.Name+" wait", trace.WithAttributes(append(kv, attribute.String("retry.name", a.Name))...))
			}
		},
		Done: func(ctx context.Context, s retry.Summary) {
			span := trace.SpanFromContext(ctx)
			outcome := "success_first_try"
			if s.Attempts > 1 {
				outcome = "success_after_retry"
			}
			span.SetAttributes(attribute.Int("retry.attempts", s.Attempts), attribute.String("retry.outcome", outcome))
			if s.Waited > 0 {
				span.SetAttributes(attribute.Float64("retry.waited", s.Waited.Seconds()))
			}
			if s.Err != nil {
				span.SetStatus(codes.Error, s.Err.Error())
			}
			span.End()
		},
	}
}

// dropped is the cheapest exporter.
type dropped struct{}

func (dropped) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (dropped) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error                  { return nil }
func (dropped) ForceFlush(context.Context) error                { return nil }
