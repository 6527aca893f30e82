//go:build !race

package otelretry_test

// What takes too long under the race detector, or counts what it adds.

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

func TestAllocationsOfHooks(t *testing.T) {
	sampled, meters := sampling(sdktrace.AlwaysSample()), sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	withMetrics := otelretry.WithMeterProvider(meters)
	wrapping := func(op func(context.Context) error) func(context.Context) error {
		wrapped := fmt.Errorf("get: %w", errDown)
		return func(ctx context.Context) error {
			if op(ctx) != nil {
				return wrapped
			}
			return nil
		}
	}
	plain := otelretry.WithWaits(false)
	poisoned := ours(sampled, plain) // by a run of very many attempts
	_ = retry.Run(context.Background(), retry.Policy{MaxAttempts: 2000, Backoff: retry.Constant(0), Hooks: poisoned},
		func(context.Context) error { return errDown })
	flaky := new(flaky).call
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		hooks retry.Hooks
		op    func(context.Context) error
		most  float64
	}{
		{"no provider set", context.Background(), otelretry.Hooks(), succeed, 0},
		{"no-op provider", context.Background(), ours(noop.NewTracerProvider()), succeed, 0},
		{"no-op provider, with metrics", context.Background(), ours(noop.NewTracerProvider(), withMetrics), succeed, 0},
		{"unsampled caller", unsampled(), ours(sampling(sdktrace.ParentBased(sdktrace.AlwaysSample()))), succeed, 3},
		{"sampled", context.Background(), ours(sampled), succeed, 12},
		{"sampled, with metrics", context.Background(), ours(sampled, withMetrics), succeed, 12},
		{"sampled, retried runs", context.Background(), ours(sampled, otelretry.WithAttempts(otelretry.RetriedRuns)), succeed, 1},
		{"sampled, two retries", context.Background(), ours(sampled, plain), flaky, 37},
		{"sampled, two retries after wrapped errors", context.Background(), ours(sampled, plain), wrapping(flaky), 39},
		{"sampled, two retries after a long run", context.Background(), poisoned, flaky, 37},
		{"sampled, two retries, with metrics", context.Background(), ours(sampled, withMetrics, plain), flaky, 37},
		{"sampled, two retries with their waits", context.Background(), ours(sampled), flaky, 50},
	} {
		p := retry.Policy{Name: "fetch", Hooks: tt.hooks, Backoff: retry.Constant(time.Nanosecond)}
		if got := testing.AllocsPerRun(300, func() { _ = retry.Run(tt.ctx, p, tt.op) }); got > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.most)
		}
	}
}

func TestAllocationsOfManyNames(t *testing.T) {
	t.Cleanup(otelretry.Forget)
	p := retry.Policy{Backoff: retry.Constant(0), Hooks: ours(noop.NewTracerProvider(),
		otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))}
	var policies []retry.Policy
	for i := range 250 {
		policies = append(policies, p.Named(fmt.Sprint("operation", i)))
	}
	kinds := []func(context.Context) error{
		succeed,
		new(flaky).call,
		func(context.Context) error { return errDown },
		func(context.Context) error { return retry.Stop(errDown) },
	}
	for _, op := range kinds {
		for _, p := range policies {
			_ = retry.Run(context.Background(), p, op)
		}
	}
	for _, p := range policies {
		if got := testing.AllocsPerRun(10, func() { _ = retry.Run(context.Background(), p, succeed) }); got > 0 {
			t.Fatalf("%s: %v allocations, want 0", p.Name, got)
		}
	}
}

// Names that come too late, and long ones, cost what others do.
func TestAllocationsOfNamesAboveTheCap(t *testing.T) {
	t.Cleanup(otelretry.Forget)
	meters := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	for name, hooks := range map[string]retry.Hooks{
		"metrics": ours(noop.NewTracerProvider(), meters),
		"sampled": ours(sampling(sdktrace.AlwaysSample()), meters),
	} {
		p := retry.Policy{Backoff: retry.Constant(0), Hooks: hooks}
		cost := func(name string, op func(context.Context) error) float64 {
			p := p.Named(name)
			return testing.AllocsPerRun(100, func() { _ = retry.Run(context.Background(), p, op) })
		}
		want, wantFlaky := cost("first", succeed), cost("first", new(flaky).call)
		for i := range 300 {
			_ = retry.Run(context.Background(), p.Named(fmt.Sprint("operation", i)), succeed)
		}
		for _, late := range []string{"late", strings.Repeat("long", 1<<18), "operation5"} {
			if got := cost(late, succeed); got != want {
				t.Errorf("%s: %.10s: %v allocations, want %v", name, late, got, want)
			}
			if got := cost(late, new(flaky).call); got != wantFlaky {
				t.Errorf("%s: %.10s, two retries: %v allocations, want %v", name, late, got, wantFlaky)
			}
		}
		// New ones all the time, each of them once.
		names := make([]string, 101)
		for i := range names {
			names[i] = fmt.Sprint("once", i)
		}
		i := 0
		if got := testing.AllocsPerRun(100, func() { _ = retry.Run(context.Background(), p.Named(names[i]), succeed); i++ }); got != want {
			t.Errorf("%s, names that come once: %v allocations, want %v", name, got, want)
		}
	}
}

func TestCardinalityIsBounded(t *testing.T) {
	t.Cleanup(otelretry.Forget)
	v := view(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}).withoutEvents()
	p := v.h.Policy
	p.Clock = nil
	names, types := map[string]bool{}, map[string]bool{}
	for i := range 20_000 {
		_ = retry.Run(context.Background(), p.Named(fmt.Sprintf("user-%d", i)), func(context.Context) error {
			return typedError{fmt.Sprintf("type-%d", i)}
		})
		for _, s := range v.spans.Ended() {
			names[s.Name()] = true
			for _, a := range s.Attributes() {
				switch a.Key {
				case "error.type":
					types[a.Value.AsString()] = true
				case "retry.name":
					if want := fmt.Sprintf("user-%d", i); a.Value.AsString() != want && (i < 256 || a.Value.AsString() != "other") {
						t.Fatalf("span of %s is %s", want, a.Value.AsString())
					}
				}
			}
		}
		v.spans.Reset()
	}
	if len(names) > 4*257 || !names["other"] || !names["attempt 1 other"] || !names["wait other"] {
		t.Errorf("%d names of spans", len(names))
	}
	if len(types) > 258 || !types["other"] {
		t.Errorf("%d error types", len(types))
	}
	lines := strings.Split(metrics(t, v.reader), "\n")
	if len(lines) > 5*2*257+1 {
		t.Errorf("%d measurements:\n%s", len(lines), strings.Join(lines[:10], "\n"))
	}
	if want := "name=other outcome=failure_after_retry: 197"; !strings.Contains(strings.Join(lines, "\n"), want) {
		t.Errorf("metrics hold no %q", want)
	}
}
