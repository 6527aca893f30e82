package otelretry

import (
	"context"
	"errors"
	"slices"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The bounds of the histograms.
var (
	secondBounds  = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30, 60}
	attemptBounds = []float64{1, 2, 3, 4, 5, 10, 20}
)

// instruments are those of one provider.
type instruments struct {
	operation metric.Float64Histogram
	attempts  metric.Int64Histogram
	attempt   metric.Float64Histogram
	delay     metric.Float64Histogram
	gaveUp    metric.Int64Counter
}

func newInstruments(p metric.MeterProvider) *instruments {
	m := meter(p)
	seconds := func(name, description string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(secondBounds...))
		return usable[metric.Float64Histogram](h, err, noop.Float64Histogram{})
	}
	attempts, err := m.Int64Histogram("retry.operation.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that an operation made."),
		metric.WithExplicitBucketBoundaries(attemptBounds...))
	attempts = usable[metric.Int64Histogram](attempts, err, noop.Int64Histogram{})
	gaveUp, err := m.Int64Counter("retry.gave_up", metric.WithUnit("{operation}"),
		metric.WithDescription("Operations that ended without a success, by why no further retry was made."))
	return &instruments{
		operation: seconds("retry.operation.duration", "Duration of an operation with all its attempts and waits."),
		attempts:  attempts,
		attempt:   seconds("retry.attempt.duration", "Duration of one attempt."),
		delay:     seconds("retry.delay", "Time of an operation with no attempt running, of those that waited."),
		gaveUp:    usable[metric.Int64Counter](gaveUp, err, noop.Int64Counter{}),
	}
}

func meter(p metric.MeterProvider) metric.Meter {
	if absent(p) {
		return noop.Meter{}
	}
	if m := p.Meter(ScopeName, metric.WithInstrumentationVersion(Version())); m != nil {
		return m
	}
	return noop.Meter{}
}

// usable returns i, or none if a provider failed to give it.
func usable[I any](i I, err error, none I) I {
	if err != nil {
		otel.Handle(err)
	}
	if any(i) == nil {
		return none
	}
	return i
}

// labels are the attributes of a measurement beside the name; what is empty is
// left out.
type labels struct{ outcome, errorType, class, reason string }

// options are what a measurement with some labels is made with.
type options struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

func (t *telemetry) newOptions(name string, l labels) options {
	kv := slices.Clone(t.attrs)
	add := func(key attribute.Key, value string) {
		if value != "" {
			kv = append(kv, key.String(value))
		}
	}
	if name != "" {
		add(nameKey, names.admit(name))
	}
	add(outcomeKey, l.outcome)
	add(semconv.ErrorTypeKey, l.errorType)
	add(classKey, l.class)
	add(reasonKey, l.reason)
	o := metric.WithAttributeSet(attribute.NewSet(kv...))
	return options{record: []metric.RecordOption{o}, add: []metric.AddOption{o}}
}

// measureAttempt records one attempt.
func (t *telemetry) measureAttempt(ctx context.Context, a retry.Attempt) {
	m := t.instruments.get()
	if !m.attempt.Enabled(ctx) {
		return
	}
	var l labels
	if a.Err != nil {
		l.class = a.Class.String()
	}
	m.attempt.Record(ctx, a.Duration.Seconds(), t.operations.get(a.Name).measured.get(l).record...)
}

// measureRun records a run at its end.
func (t *telemetry) measureRun(ctx context.Context, s retry.Summary) {
	m := t.instruments.get()
	if !m.enabled(ctx) {
		return
	}
	measured := &t.operations.get(s.Name).measured
	l := labels{outcome: outcome(s.Attempts, s.Reason)}
	m.attempts.Record(ctx, int64(s.Attempts), measured.get(l).record...)
	if failed(s.Reason) {
		l.errorType = runErrorType(s.Reason)
	}
	m.operation.Record(ctx, s.Elapsed.Seconds(), measured.get(l).record...)
	if s.Waited > 0 {
		m.delay.Record(ctx, s.Waited.Seconds(), measured.get(labels{}).record...)
	}
	if s.Reason != retry.ReasonNone {
		m.gaveUp.Add(ctx, 1, measured.get(labels{reason: s.Reason.String()}).add...)
	}
}

// enabled reports whether anyone wants to know how a run ended.
func (m *instruments) enabled(ctx context.Context) bool {
	return m.operation.Enabled(ctx) || m.attempts.Enabled(ctx) || m.delay.Enabled(ctx) || m.gaveUp.Enabled(ctx)
}

// ObserveBudget reports the balance of b, such as a [retry.TokenBudget], as the
// gauge retry.budget.balance with the attribute retry.budget set to name, until
// unregister is called. Balance must be safe for concurrent use. Give each budget
// of a process a name of its own, and not too many of them: they are not limited
// as other names are. An error comes from the provider or says that b is nil;
// unregister may be called in any case.
func ObserveBudget(name string, b interface{ Balance() float64 }, opts ...Option) (unregister func() error, err error) {
	none := func() error { return nil }
	if absent(b) {
		return none, errors.New("otelretry: nil budget")
	}
	c := configured(opts)
	if c.meters == nil {
		c.meters = otel.GetMeterProvider()
	}
	m := meter(c.meters)
	gauge, err := m.Float64ObservableGauge("retry.budget.balance", metric.WithUnit("1"),
		metric.WithDescription("Share of a retry budget that is left."))
	if err == nil && gauge == nil {
		err = errors.New("otelretry: the meter gave no gauge")
	}
	if err != nil {
		return none, err
	}
	attrs := metric.WithAttributes(append(c.attrs, budgetKey.String(valid(name)))...)
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(gauge, b.Balance(), attrs)
		return nil
	}, gauge)
	if err == nil && registration == nil {
		err = errors.New("otelretry: the meter did not take the callback")
	}
	if err != nil {
		return none, err
	}
	return registration.Unregister, nil
}
