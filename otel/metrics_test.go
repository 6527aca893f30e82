package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

func TestBounds(t *testing.T) {
	v := view(t, retry.Policy{})
	v.run(t.Context(), fails(0), succeeds(0))
	seconds := []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 30, 60, 120, 300}
	want := map[string][]float64{
		"retry.operation.duration": seconds,
		"retry.attempt.duration":   seconds,
		"retry.operation.waited":   seconds,
		"retry.operation.attempts": {1, 2, 3, 4, 5, 10, 20},
	}
	var got metricdata.ResourceMetrics
	if err := v.reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		var bounds []float64
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			bounds = data.DataPoints[0].Bounds
		case metricdata.Histogram[int64]:
			bounds = data.DataPoints[0].Bounds
		}
		if !slices.Equal(bounds, want[m.Name]) {
			t.Errorf("%s has the bounds %v, want %v", m.Name, bounds, want[m.Name])
		}
		if m.Description == "" {
			t.Errorf("%s has no description", m.Name)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
}

func TestObserveBudget(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	opts := []otelretry.Option{
		otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		otelretry.WithAttributes(attribute.String("retry.budget", "theirs"), attribute.String("region", "eu")),
	}
	users, orders := &budget.Token{Capacity: 100, Cost: 25}, &budget.Token{}
	unregister, err := otelretry.ObserveBudget("users", users, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := otelretry.ObserveBudget("orders", orders, opts...); err != nil {
		t.Fatal(err)
	}
	users.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1})
	compare(t, "metrics", metrics(t, reader), `
		retry.budget.balance [1] region=eu budget=orders: 1
		retry.budget.balance [1] region=eu budget=users: 0.75`)
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	compare(t, "metrics", metrics(t, reader), `
		retry.budget.balance [1] region=eu budget=orders: 1`)
}

// failing gives a meter that gives no instruments.
type failing struct{ noop.MeterProvider }

type failingMeter struct{ noop.Meter }

var errMeter = errors.New("no instruments here")

func (failing) Meter(string, ...metric.MeterOption) metric.Meter { return failingMeter{} }

func (failingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errMeter
}
func (failingMeter) Int64Histogram(string, ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return nil, errMeter
}
func (failingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errMeter
}
func (failingMeter) Int64ObservableUpDownCounter(string, ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	return nil, errMeter
}
func (failingMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errMeter
}

func TestObserveBudgetSaysWhatFailed(t *testing.T) {
	for _, none := range []interface{ Balance() float64 }{nil, (*budget.Token)(nil)} {
		unregister, err := otelretry.ObserveBudget("users", none)
		if err == nil || unregister() != nil {
			t.Errorf("nil budget: %v", err)
		}
	}
	unregister, err := otelretry.ObserveBudget("users", &budget.Token{}, otelretry.WithMeterProvider(failing{}))
	if !errors.Is(err, errMeter) || unregister() != nil {
		t.Errorf("failing meter: %v", err)
	}
	for _, p := range []metric.MeterProvider{gaugeless{}, deaf{}} {
		unregister, err = otelretry.ObserveBudget("users", &budget.Token{}, otelretry.WithMeterProvider(p))
		if err == nil || unregister() != nil {
			t.Errorf("%T: %v", p, err)
		}
	}
}

// exemplars returns the names of the spans that the exemplars of each instrument
// lead to, in the order of their start.
func exemplars(t *testing.T, v *viewer) map[string]string {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := v.reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[trace.SpanID]bool{}
	note := func(name string, id []byte) {
		if found[name] == nil {
			found[name] = map[trace.SpanID]bool{}
		}
		found[name][trace.SpanID(id)] = true
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				for _, e := range p.Exemplars {
					note(m.Name, e.SpanID)
				}
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				for _, e := range p.Exemplars {
					note(m.Name, e.SpanID)
				}
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				for _, e := range p.Exemplars {
					note(m.Name, e.SpanID)
				}
			}
		}
	}
	spans := v.spans.Ended()
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	names := map[string]string{}
	for name, ids := range found {
		var of []string
		for _, s := range spans {
			if ids[s.SpanContext().SpanID()] {
				of = append(of, s.Name())
			}
		}
		names[name] = strings.Join(of, ", ")
	}
	return names
}

// An exemplar leads from a measurement to the trace behind it.
func TestMeasurementsAreMadeInTheirSpans(t *testing.T) {
	v := view(t, retry.Policy{})
	v.run(t.Context(), succeeds(10*ms))
	want := map[string]string{"retry.attempt.duration": "attempt 1", "retry.operation.duration": "retry", "retry.operation.attempts": "retry"}
	if got := exemplars(t, v); !maps.Equal(got, want) {
		t.Errorf("exemplars lead to %v, want %v", got, want)
	}
}

// gaugeless gives a meter that gives no gauge, and says nothing about it.
type gaugeless struct{ noop.MeterProvider }

type gaugelessMeter struct{ noop.Meter }

func (gaugeless) Meter(string, ...metric.MeterOption) metric.Meter { return gaugelessMeter{} }

func (gaugelessMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, nil
}

// deaf gives a meter that takes no callback, and says nothing about it.
type deaf struct{ noop.MeterProvider }

type deafMeter struct{ noop.Meter }

func (deaf) Meter(string, ...metric.MeterOption) metric.Meter { return deafMeter{} }

func (deafMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, nil
}

// wantGaveUp checks with which attributes a run's end is in retry.gave_up.
func wantGaveUp(t *testing.T, v *viewer, want string) {
	t.Helper()
	for line := range strings.Lines(metrics(t, v.reader)) {
		if got, ok := strings.CutPrefix(line, "retry.gave_up [{operation}]"); ok {
			if got != want+": 1\n" {
				t.Errorf("retry.gave_up has%swant%s: 1", got, want)
			}
			return
		}
	}
	t.Errorf("nothing in retry.gave_up, want%s", want)
}

// TestGivingUpIsCountedByTheLastFault has a row or more for each reason, and each row
// once with spans and once without.
func TestGivingUpIsCountedByTheLastFault(t *testing.T) {
	busy := typedError{"busy"}
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		errs   []error
		limit  time.Duration // of the caller, 0 for none
		cancel time.Duration // when the caller cancels, 0 for never
		want   string
	}{
		{"permanent", retry.Policy{}, []error{retry.Stop(busy)}, 0, 0, " error.type=busy reason=permanent"},
		{"refused", retry.Policy{}, []error{retry.Refuse(busy)}, 0, 0, " error.type=busy reason=refused"},
		{"refused, a refused value", retry.Policy{}, []error{retry.Refuse(retry.ErrRejected)}, 0, 0, " error.type=*errors.errorString reason=refused"},
		{"permanent, a refused value", retry.Policy{}, []error{retry.Stop(retry.ErrRejected)}, 0, 0, " error.type=*errors.errorString reason=permanent"},
		{"not idempotent", retry.Policy{NonIdempotent: true}, []error{busy}, 0, 0, " error.type=busy reason=not_idempotent"},
		{"max attempts: the last one", retry.Policy{MaxAttempts: 2}, []error{errDown, busy}, 0, 0, " error.type=busy reason=max_attempts"},
		{"max attempts: a refused value", retry.Policy{MaxAttempts: 2}, []error{busy, retry.ErrRejected}, 0, 0, " reason=max_attempts"},
		{"max attempts: of an inner run", retry.Policy{MaxAttempts: 1}, []error{&retry.Error{Reason: retry.ReasonBudget, Errs: []error{retry.ErrRejected}}}, 0, 0, " error.type=retry.budget reason=max_attempts"},
		{"max elapsed", retry.Policy{MaxElapsed: ms}, []error{busy}, 0, 0, " error.type=busy reason=max_elapsed"},
		{"max elapsed, a refused value", retry.Policy{MaxElapsed: ms}, []error{retry.ErrRejected}, 0, 0, " reason=max_elapsed"},
		{"deadline that a wait would pass", retry.Policy{}, []error{busy}, 50 * ms, 0, " error.type=busy reason=deadline"},
		{"deadline of a poll", retry.Policy{}, []error{retry.ErrRejected}, 50 * ms, 0, " reason=deadline"},
		{"deadline in an attempt", retry.Policy{}, []error{nil}, 50 * ms, 0, " error.type=context.deadlineExceededError reason=deadline"},
		{"deadline before the run", retry.Policy{}, nil, -1, 0, " reason=deadline"},
		{"retry after", retry.Policy{}, []error{retry.After(busy, time.Hour)}, 0, 0, " error.type=busy reason=retry_after"},
		{"retry after a refused value", retry.Policy{}, []error{retry.After(retry.ErrRejected, time.Hour)}, 0, 0, " reason=retry_after"},
		{"budget", retry.Policy{Budget: refuse{}}, []error{busy}, 0, 0, " error.type=busy reason=budget"},
		{"guard", retry.Policy{MaxAttempts: 2, Guards: []retry.Guard{&plan{limit.ErrLimited, limit.ErrLimited}}}, nil, 0, 0, " error.type=limit.limited guard=otelretry_test.plan reason=guard"},
		{"guard after a failure", retry.Policy{MaxAttempts: 2, Guards: []retry.Guard{&plan{time.Duration(0), limit.ErrLimited}}}, []error{busy}, 0, 0, " error.type=limit.limited guard=otelretry_test.plan reason=guard"},
		{"guard after a refused value", retry.Policy{MaxAttempts: 2, Guards: []retry.Guard{&plan{time.Duration(0), limit.ErrLimited}}}, []error{retry.ErrRejected}, 0, 0, " error.type=limit.limited guard=otelretry_test.plan reason=guard"},
		{"guard, too late", retry.Policy{Guards: []retry.Guard{&plan{time.Hour}}}, nil, time.Minute, 0, " error.type=retry.paced guard=otelretry_test.plan reason=guard"},
		{"canceled while a guard has it wait", retry.Policy{Guards: []retry.Guard{&plan{time.Hour}}}, nil, 0, 50 * ms, " reason=canceled"},
		{"canceled in an attempt", retry.Policy{}, []error{nil}, 0, 50 * ms, " reason=canceled"},
		{"canceled in a wait", retry.Policy{}, []error{busy}, 0, 50 * ms, " error.type=busy reason=canceled"},
		{"canceled in a poll's wait", retry.Policy{}, []error{retry.ErrRejected}, 0, 50 * ms, " reason=canceled"},
		{"canceled in the second attempt", retry.Policy{}, []error{busy, nil}, 0, 150 * ms, " reason=canceled"},
		{"canceled before the run", retry.Policy{}, nil, 0, -1, " reason=canceled"},
		{"panic", retry.Policy{}, []error{errPanics}, 0, 0, " error.type=retry.panic reason=panic"},
		{"panic after a failure", retry.Policy{MaxAttempts: 2}, []error{busy, errPanics}, 0, 0, " error.type=retry.panic reason=panic"},
	} {
		for _, opts := range [][]otelretry.Option{nil, {otelretry.WithTracerProvider(tracenoop.NewTracerProvider())}} {
			t.Run(fmt.Sprint(tt.name, len(opts)), func(t *testing.T) {
				p := tt.policy
				if p.Guards != nil { // of which nothing is left after a run
					again := slices.Clone(*p.Guards[0].(*plan))
					p.Guards = []retry.Guard{&again}
				}
				v := view(t, p, opts...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.limit != 0 {
					ctx, cancel = v.h.Clock.WithTimeoutCause(ctx, tt.limit, nil)
					defer cancel()
				}
				switch {
				case tt.cancel < 0:
					cancel()
				case tt.cancel > 0:
					v.h.Clock.AfterFunc(tt.cancel, cancel)
				}
				defer func() { wantGaveUp(t, v, tt.want) }()
				defer func() { _ = recover() }()
				_ = retry.Run(ctx, v.h.Policy, func(ctx context.Context) error {
					err := tt.errs[retry.AttemptNumber(ctx)-1]
					switch err {
					case nil: // until the caller has had enough
						return v.h.Clock.Sleep(ctx, time.Hour)
					case errPanics:
						panic("boom")
					}
					return err
				})
			})
		}
	}
}

// The caller ends the run in a hook before the second attempt: the first one has failed.
func TestTheLastFaultOfARunThatEndsInAHook(t *testing.T) {
	v := view(t, retry.Policy{})
	ctx, cancel := context.WithCancel(t.Context())
	v.h.Policy.Hooks = retry.JoinHooks(v.h.Policy.Hooks, retry.Hooks{Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
		if a.Number == 2 {
			cancel()
		}
		return ctx
	}})
	_ = retry.Run(ctx, v.h.Policy, func(context.Context) error { return typedError{"busy"} })
	wantGaveUp(t, v, " error.type=busy reason=canceled")
}

// errPanics stands for a panic instead of an error.
var errPanics = errors.New("panics")
