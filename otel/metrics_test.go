package otelretry_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
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
	users, orders := &retry.TokenBudget{Capacity: 100, Cost: 25}, &retry.ConcurrencyBudget{}
	unregister, err := otelretry.ObserveBudget("users", users, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := otelretry.ObserveBudget("orders", orders, opts...); err != nil {
		t.Fatal(err)
	}
	users.Withdraw(retry.Transient, 1)
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
func (failingMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errMeter
}

func TestObserveBudgetSaysWhatFailed(t *testing.T) {
	for _, none := range []interface{ Balance() float64 }{nil, (*retry.TokenBudget)(nil)} {
		unregister, err := otelretry.ObserveBudget("users", none)
		if err == nil || unregister() != nil {
			t.Errorf("nil budget: %v", err)
		}
	}
	unregister, err := otelretry.ObserveBudget("users", &retry.TokenBudget{}, otelretry.WithMeterProvider(failing{}))
	if !errors.Is(err, errMeter) || unregister() != nil {
		t.Errorf("failing meter: %v", err)
	}
	for _, p := range []metric.MeterProvider{gaugeless{}, deaf{}} {
		unregister, err = otelretry.ObserveBudget("users", &retry.TokenBudget{}, otelretry.WithMeterProvider(p))
		if err == nil || unregister() != nil {
			t.Errorf("%T: %v", p, err)
		}
	}
}

// An exemplar leads from a measurement to the trace behind it.
func TestMeasurementsAreMadeInTheirSpans(t *testing.T) {
	v := view(t, retry.Policy{})
	v.run(t.Context(), succeeds(10*ms))
	var got metricdata.ResourceMetrics
	if err := v.reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	spans := v.spans.Ended() // the attempt's, then the run's
	want := map[string]trace.SpanID{
		"retry.attempt.duration":   spans[0].SpanContext().SpanID(),
		"retry.operation.duration": spans[1].SpanContext().SpanID(),
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if id, ok := want[m.Name]; ok {
			e := m.Data.(metricdata.Histogram[float64]).DataPoints[0].Exemplars
			if len(e) != 1 || trace.SpanID(e[0].SpanID) != id {
				t.Errorf("%s has the exemplars %v, want one of span %s", m.Name, e, id)
			}
			delete(want, m.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
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
