package otelretry

import (
	"context"
	"errors"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const rankKey = attribute.Key("retry.budget.rank")

// lowest is how many of the balances of a [retry.Budgets] are reported.
const lowest = 5

// ObserveBudget reports the balance of b, such as a [retry.EarnedBudget], as the gauge
// retry.budget.balance with the attribute retry.budget set to name, until unregister
// is called. Of a [retry.Budgets] it reports the five lowest balances, with the attribute
// retry.budget.rank from 1 for the lowest to 5, and as the gauge retry.budget.parts how
// many there are. Their keys are no attributes, since there may be thousands.
//
// Balance must be safe for concurrent use. Give each budget of a process a name of its
// own, and use few names, since their number is not limited here. An error comes from the
// provider, or says that b is nil. unregister may be called even after an error.
func ObserveBudget(name string, b interface{ Balance() float64 }, opts ...Option) (unregister func() error, err error) {
	if absent(b) {
		return func() error { return nil }, errors.New("otelretry: nil budget")
	}
	c := configured(opts)
	attrs := c.with(budgetKey.String(errtext.Clip(name, brief)))
	balance := instrument{"retry.budget.balance", "1", "Share of a retry budget that is left."}
	parts, ok := b.(*retry.Budgets)
	if !ok {
		return c.observe([]gauge{{balance, b.Balance}}, metric.WithAttributes(attrs...))
	}
	var ranks [lowest]metric.ObserveOption
	for i := range ranks {
		ranks[i] = metric.WithAttributes(append(slices.Clip(attrs), rankKey.Int(i+1))...)
	}
	all := metric.WithAttributes(attrs...)
	count := instrument{"retry.budget.parts", "{part}", "Parts of a system that have a retry budget of their own."}
	return c.register([]instrument{balance, count}, func(report func(int, float64, metric.ObserveOption)) {
		n := 0
		for _, b := range parts.All() {
			if b, ok := b.(interface{ Balance() float64 }); ok && n < lowest {
				report(0, b.Balance(), ranks[n])
			}
			n++
		}
		report(1, float64(n), all)
	})
}

// instrument is what a gauge is called.
type instrument struct{ name, unit, description string }

// gauge is one that is read when measurements are collected.
type gauge struct {
	instrument
	read func() float64
}

// observe registers gauges that have their attributes in common.
func (c *config) observe(gauges []gauge, attrs metric.ObserveOption) (unregister func() error, err error) {
	instruments := make([]instrument, len(gauges))
	for i, g := range gauges {
		instruments[i] = g.instrument
	}
	return c.register(instruments, func(report func(int, float64, metric.ObserveOption)) {
		for i, g := range gauges {
			report(i, g.read(), attrs)
		}
	})
}

// register registers gauges that read reports, each by its index, when measurements are
// collected.
func (c *config) register(gauges []instrument, read func(report func(of int, value float64, attrs metric.ObserveOption))) (unregister func() error, err error) {
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
		read(func(of int, value float64, attrs metric.ObserveOption) {
			o.ObserveFloat64(instruments[of], value, attrs)
		})
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
