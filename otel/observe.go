package otelretry

import (
	"context"
	"errors"

	"github.com/goretry/retry/errtext"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// ObserveBudget reports the balance of b, such as a [retry.EarnedBudget], as the gauge
// retry.budget.balance with the attribute retry.budget set to name, until unregister
// is called. Balance must be safe for concurrent use. Give each budget of a process a
// name of its own, and use few names, since their number is not limited here. An error
// comes from the provider, or says that b is nil. unregister may be called even after
// an error.
func ObserveBudget(name string, b interface{ Balance() float64 }, opts ...Option) (unregister func() error, err error) {
	if absent(b) {
		return func() error { return nil }, errors.New("otelretry: nil budget")
	}
	c := configured(opts)
	attrs := metric.WithAttributes(c.with(budgetKey.String(errtext.Clip(name, brief)))...)
	return c.observe([]gauge{{"retry.budget.balance", "1", "Share of a retry budget that is left.", b.Balance}}, attrs)
}

// gauge is one that is read when measurements are collected.
type gauge struct {
	name, unit, description string
	read                    func() float64
}

// observe registers gauges that have their attributes in common.
func (c *config) observe(gauges []gauge, attrs metric.ObserveOption) (unregister func() error, err error) {
	none := func() error { return nil }
	provider := c.meters
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := meter(provider)
	instruments, observables := make([]metric.Float64ObservableGauge, len(gauges)), make([]metric.Observable, len(gauges))
	for i, g := range gauges {
		instrument, err := m.Float64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.description))
		if err == nil && instrument == nil {
			err = errors.New("otelretry: the meter gave no gauge")
		}
		if err != nil {
			return none, err
		}
		instruments[i], observables[i] = instrument, instrument
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for i, g := range gauges {
			o.ObserveFloat64(instruments[i], g.read(), attrs)
		}
		return nil
	}, observables...)
	if err == nil && registration == nil {
		err = errors.New("otelretry: the meter did not take the callback")
	}
	if err != nil {
		return none, err
	}
	return registration.Unregister, nil
}
