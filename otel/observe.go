package otelretry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/pace"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// worst is how many of the parts of a [retry.PerKey] are reported.
const worst = 5

// ObserveBudget reports the balance of b, such as a [retry.EarnedBudget], as the gauge
// retry.budget.balance with the attribute retry.budget set to name, until unregister
// is called.
//
// A provider that exports periodically exports for the last time in its Shutdown. So call
// unregister after that, or not at all if b lives as long as the process.
//
// Balance must be safe for concurrent use. Give each budget of a process a name of its
// own, and use few names, since their number is not limited here. An error comes from the
// provider, or says that b is nil. unregister may be called even after an error.
func ObserveBudget(name string, b interface{ Balance() float64 }, opts ...Option) (unregister func() error, err error) {
	return budgets.observe(name, b, opts)
}

// ObservePerKey is [ObserveBudget], [ObserveLimit], [ObserveBreaker], [ObserveHedge] or
// [ObservePace] for all that keys has, by what a *T is. It reports the five worst: the budgets
// that have least, the fullest limits, the breakers that are open, the hedges that wait and the
// paces that hold attempts back for longest. They have the attribute retry.budget.rank,
// retry.limit.rank, retry.breaker.rank, retry.hedge.rank or retry.pace.rank, from 1 for the worst
// to 5. How many there are is the gauge retry.budget.parts, retry.limit.parts and so on. Their
// keys are no attributes, since there may be thousands. An error may also say that a *T is none of
// these.
func ObservePerKey[T any](name string, keys *retry.PerKey[T], opts ...Option) (unregister func() error, err error) {
	switch any((*T)(nil)).(type) {
	case budget:
		return budgets.observeParts(name, partsOf[budget](keys), opts)
	case limiter:
		return limits.observeParts(name, partsOf[limiter](keys), opts)
	case *breaker.Breaker:
		return breakers.observeParts(name, partsOf[*breaker.Breaker](keys), opts)
	case *hedge.Hedge:
		return delays.observeParts(name, partsOf[*hedge.Hedge](keys), opts)
	case *pace.Pace:
		return paces.observeParts(name, partsOf[*pace.Pace](keys), opts)
	}
	return unregistered, fmt.Errorf("otelretry: %T is no budget, limit, breaker, hedge or pace", (*T)(nil))
}

// partsOf returns what keys has but nil, as V; nil for nil keys.
func partsOf[V, T any](keys *retry.PerKey[T]) iter.Seq[V] {
	if keys == nil {
		return nil
	}
	return func(yield func(V) bool) {
		for _, v := range keys.All() {
			if v != nil && !yield(any(v).(V)) {
				return
			}
		}
	}
}

func unregistered() error { return nil }

// instrument is what a gauge is called.
type instrument struct{ name, unit, description string }

// gauge is one that is read when measurements are collected.
type gauge[V any] struct {
	instrument
	read func(V) (value float64, ok bool)
	why  func(V) error // its error.type; nil: it has none
}

// kind is one of things that can be observed.
type kind[V any] struct {
	prefix  string        // of the names of gauges and attributes
	key     attribute.Key // of the name that it is observed by
	gauges  []gauge[V]
	badness func(V) float64 // to compare the parts of a PerKey
}

type budget interface{ Balance() float64 }

var budgets = kind[budget]{"retry.budget", "retry.budget",
	[]gauge[budget]{{instrument{"retry.budget.balance", "1", "Share of a retry budget that is left."},
		func(b budget) (float64, bool) { return b.Balance(), true }, nil}},
	func(b budget) float64 { return -b.Balance() },
}

// config returns what options say about observing something by name.
func (k *kind[V]) config(name string, opts []Option) (c config, attrs []attribute.KeyValue) {
	c = configured(opts)
	return c, c.with(k.key.String(clip(name, brief)))
}

func (k *kind[V]) instruments() (all []instrument) {
	for _, g := range k.gauges {
		all = append(all, g.instrument)
	}
	return all
}

// report reports the gauges of v.
func (k *kind[V]) report(v V, attrs metric.ObserveOption, report func(int, float64, ...metric.ObserveOption)) {
	for i, g := range k.gauges {
		value, ok := g.read(v)
		if !ok {
			continue
		}
		if g.why != nil {
			if err := g.why(v); err != nil {
				report(i, value, attrs, metric.WithAttributes(attribute.String("error.type", errorType(err))))
				continue
			}
		}
		report(i, value, attrs)
	}
}

// observe registers the gauges of v.
func (k *kind[V]) observe(name string, v V, opts []Option) (unregister func() error, err error) {
	if absent(v) {
		return unregistered, fmt.Errorf("otelretry: %s %q is nil", k.prefix, name)
	}
	c, attrs := k.config(name, opts)
	set := metric.WithAttributes(attrs...)
	return c.register(k.instruments(), func(report func(int, float64, ...metric.ObserveOption)) { k.report(v, set, report) })
}

// observeParts registers the gauges of the worst parts, and how many there are.
func (k *kind[V]) observeParts(name string, parts iter.Seq[V], opts []Option) (unregister func() error, err error) {
	if parts == nil {
		return unregistered, fmt.Errorf("otelretry: %s %q is a nil PerKey", k.prefix, name)
	}
	c, attrs := k.config(name, opts)
	all := metric.WithAttributes(attrs...)
	var ranks [worst]metric.ObserveOption
	for i := range ranks {
		ranks[i] = metric.WithAttributes(append(slices.Clip(attrs), attribute.Int(k.prefix+".rank", i+1))...)
	}
	count := instrument{k.prefix + ".parts", "{part}", "Parts of a system that are observed one by one."}
	return c.register(append(k.instruments(), count), func(report func(int, float64, ...metric.ObserveOption)) {
		sorted := k.sorted(parts)
		for i, v := range sorted[:min(len(sorted), worst)] {
			k.report(v, ranks[i], report)
		}
		report(len(k.gauges), float64(len(sorted)), all)
	})
}

// sorted returns all parts, the worst first.
func (k *kind[V]) sorted(parts iter.Seq[V]) []V {
	type ranked struct {
		part    V
		badness float64
	}
	var all []ranked
	for v := range parts {
		all = append(all, ranked{v, k.badness(v)})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.badness, a.badness) })
	sorted := make([]V, len(all))
	for i, r := range all {
		sorted[i] = r.part
	}
	return sorted
}

// register registers gauges that read reports, each by its index, when measurements are
// collected.
func (c *config) register(gauges []instrument, read func(report func(of int, value float64, attrs ...metric.ObserveOption))) (unregister func() error, err error) {
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
			return unregistered, err
		}
		instruments[i], observables[i] = instrument, instrument
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		read(func(of int, value float64, attrs ...metric.ObserveOption) {
			o.ObserveFloat64(instruments[of], value, attrs...)
		})
		return nil
	}, observables...)
	if err == nil && registration == nil {
		err = errors.New("otelretry: the meter did not take the callback")
	}
	if err != nil {
		return unregistered, err
	}
	return registration.Unregister, nil
}
