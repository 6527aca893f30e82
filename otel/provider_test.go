package otelretry_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// uncomparable is a provider that == cannot compare. It counts its tracers.
type uncomparable struct {
	trace.TracerProvider
	tracers []int
}

func (p uncomparable) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	p.tracers[0]++
	return p.TracerProvider.Tracer(name, opts...)
}

func TestGlobalProvidersAreFollowed(t *testing.T) {
	p := retry.Policy{Hooks: otelretry.Hooks()}
	run := func() { _ = retry.Run(context.Background(), p, succeed) }
	run() // nobody listens yet
	tracers := []int{0}
	for i := range 3 {
		spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
		var tp trace.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		if i == 2 {
			tp = uncomparable{tp, tracers}
		}
		otel.SetTracerProvider(tp)
		otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		run()
		run()
		if got := len(spans.Ended()); got != 4 {
			t.Errorf("global provider %d got %d spans, want 4", i, got)
		}
		if got, want := metrics(t, reader), "attempts [{attempt}] outcome=success_first_try: 2 runs"; !strings.Contains(got, want) {
			t.Errorf("global provider %d got\n%swant %s", i, got, want)
		}
	}
	if tracers[0] != 1 {
		t.Errorf("%d tracers for two runs, want 1", tracers[0])
	}
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if _, err := otelretry.ObserveBudget("b\xff", &budget.Token{}); err != nil {
		t.Error(err)
	}
	compare(t, "metrics", metrics(t, reader), "retry.budget.balance [1] budget=b\uFFFD: 1")
	for _, none := range []trace.TracerProvider{(*sdktrace.TracerProvider)(nil), noop.NewTracerProvider()} {
		otel.SetTracerProvider(none)
		otel.SetMeterProvider((*sdkmetric.MeterProvider)(nil))
		run()
		_ = retry.Run(context.Background(), retry.Policy{Hooks: otelretry.Hooks()}, succeed)
	}
	otel.SetMeterProvider(metricnoop.NewMeterProvider())
}

// noTracer, noSpan and noMeter give nothing.
type (
	noTracer struct{ noop.TracerProvider }
	noSpan   struct{ noop.TracerProvider }
	spanless struct{ noop.Tracer }
	noMeter  struct{ metricnoop.MeterProvider }
)

func (noTracer) Tracer(string, ...trace.TracerOption) trace.Tracer { return nil }
func (noSpan) Tracer(string, ...trace.TracerOption) trace.Tracer   { return spanless{} }
func (spanless) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	return nil, nil
}
func (noMeter) Meter(string, ...metric.MeterOption) metric.Meter { return nil }

func TestProvidersThatFail(t *testing.T) {
	var reported []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err) }))
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	for _, opts := range [][]otelretry.Option{
		{nil, otelretry.WithTracerProvider(nil), otelretry.WithMeterProvider(nil), otelretry.WithAttributes()},
		{otelretry.WithTracerProvider(noTracer{}), otelretry.WithMeterProvider(noMeter{})},
		{otelretry.WithTracerProvider(noSpan{}), otelretry.WithMeterProvider(failing{})},
		{otelretry.WithTracerProvider(noSpan{}), otelretry.WithAttempts(otelretry.RetriedRuns)},
		{otelretry.WithTracerProvider((*sdktrace.TracerProvider)(nil)), otelretry.WithMeterProvider((*sdkmetric.MeterProvider)(nil))},
	} {
		p := retry.Policy{Hooks: otelretry.Hooks(opts...), Backoff: retry.Constant(0)}
		if err := retry.Run(t.Context(), p, new(flaky).call); err != nil {
			t.Error(err)
		}
	}
	if len(reported) != 8 || reported[0] != errMeter {
		t.Errorf("reported %v, want 8 times %v", reported, errMeter)
	}
}

func TestTheSDKIsNotImported(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		if strings.HasPrefix(dep, "go.opentelemetry.io/otel/sdk") || strings.HasPrefix(dep, "go.opentelemetry.io/otel/exporters") {
			t.Errorf("imports %s", dep)
		}
	}
	if len(deps) < 20 {
		t.Errorf("go list found only %v", deps)
	}
}

func TestARunKeepsItsTracer(t *testing.T) {
	p := retry.Policy{Hooks: otelretry.Hooks()}
	before, after := tracetest.NewSpanRecorder(), tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(before)))
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	p.Backoff = retry.Constant(0)
	_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
		otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(after)))
		return errDown
	})
	if len(before.Ended()) != 6 || len(after.Ended()) != 0 {
		t.Errorf("%d spans go to the provider of the start, %d to the new one; want 6 and 0", len(before.Ended()), len(after.Ended()))
	}
}
