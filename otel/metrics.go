package otelretry

import (
	"context"
	"slices"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// The bounds of the histograms. Waits of whole seconds, as servers ask for, have
// bounds of their own on both sides.
var (
	secondBounds  = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 30, 60, 120, 300}
	attemptBounds = []float64{1, 2, 3, 4, 5, 10, 20}
)

// instruments are those of one provider.
type instruments struct {
	operation metric.Float64Histogram
	attempts  metric.Int64Histogram
	attempt   metric.Float64Histogram
	waited    metric.Float64Histogram
	gaveUp    metric.Int64Counter
	guards    metric.Int64Counter
	activity  *activity

	// which of them have a use for what they would record
	takesAttempts, takesGuards, takesGaveUps enabler
	takesRuns                                [4]enabler
}

// enabler is an instrument that knows whether it has a use for what it records.
type enabler interface{ Enabled(context.Context) bool }

// enablerOf returns what says whether an instrument is enabled. Those of OpenTelemetry
// before v1.40 cannot say that they are not.
func enablerOf(instrument any) enabler {
	if e, ok := instrument.(enabler); ok {
		return e
	}
	return always{}
}

type always struct{}

func (always) Enabled(context.Context) bool { return true }

func (t *telemetry) newInstruments(p metric.MeterProvider, _ bool) *instruments {
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
	gaveUp = usable[metric.Int64Counter](gaveUp, err, noop.Int64Counter{})
	guards, err := m.Int64Counter("retry.guards", metric.WithUnit("{attempt}"),
		metric.WithDescription("Times that a guard had an attempt wait, or refused it."))
	is := &instruments{
		operation: seconds("retry.operation.duration", "Duration of an operation with all its attempts and waits."),
		attempts:  attempts,
		attempt:   seconds("retry.attempt.duration", "Duration of one attempt."),
		waited:    seconds("retry.operation.waited", "Time of an operation with no attempt underway, of those that waited."),
		gaveUp:    gaveUp,
		guards:    usable[metric.Int64Counter](guards, err, noop.Int64Counter{}),
		activity:  activityOf(p, m),
	}
	is.takesAttempts, is.takesGuards, is.takesGaveUps = enablerOf(is.attempt), enablerOf(is.guards), enablerOf(is.gaveUp)
	is.takesRuns = [...]enabler{enablerOf(is.operation), enablerOf(is.attempts), enablerOf(is.waited), is.takesGaveUps}
	is.activity.join(t)
	return is
}

func meter(p metric.MeterProvider) metric.Meter {
	if absent(p) {
		return noop.Meter{}
	}
	if m := p.Meter(ScopeName, metric.WithInstrumentationVersion(version())); m != nil {
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

// measured has the options that an operation is measured with. What is known by a
// number is kept by it: a map of texts would take as long as the measurement.
type measured struct {
	attrs     []attribute.KeyValue // of the options and the name
	plain     slot[[]metric.RecordOption]
	failures  cache[failure, []metric.RecordOption]
	gaveUps   cache[givenUp, []metric.AddOption]
	guards    cache[guarded, []metric.AddOption]
	summaries [endings]slot[summaryOptions]
}

// summaryOptions are those of a run's end.
type summaryOptions struct {
	attempts, duration []metric.RecordOption
}

func (m *measured) set(kv ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(slices.Concat(m.attrs, kv)...)
}

func (m *measured) record(kv ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(m.set(kv...))}
}

func (m *measured) failure(f failure) []metric.RecordOption { return m.record(f.attributes()...) }

func (m *measured) summary(e ending) summaryOptions {
	outcome := outcomeKey.String(e.outcome())
	o := summaryOptions{attempts: m.record(outcome)}
	o.duration = o.attempts
	if kind := e.errorType(); kind != "" {
		o.duration = m.record(outcome, errorTypeKey.String(kind))
	}
	return o
}

func (m *measured) gaveUp(g givenUp) []metric.AddOption {
	kv := append(make([]attribute.KeyValue, 0, 3), reasonKey.String(g.reason.String()))
	if g.errorType != "" {
		kv = append(kv, errorTypeKey.String(g.errorType))
	}
	if g.guard != "" {
		kv = append(kv, guardKey.String(g.guard))
	}
	return []metric.AddOption{metric.WithAttributeSet(m.set(kv...))}
}

func (m *measured) guarded(g guarded) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(m.set(guardKey.String(g.guard), guardResultKey.String(g.result())))}
}

// attempt returns what an attempt is measured with.
func (m *measured) attempt(failed bool, f failure) []metric.RecordOption {
	if failed {
		return m.failures.get(f)
	}
	return m.nameOnly()
}

func (m *measured) nameOnly() []metric.RecordOption {
	return *m.plain.get(func() []metric.RecordOption { return m.record() })
}

// measureRun records a run at its end.
func (t *telemetry) measureRun(ctx context.Context, o *operation, s *retry.Summary) {
	m := t.instruments.get()
	if !m.enabled(ctx) {
		return
	}
	e := endingOf(s)
	options := o.measured.summaries[e.number()].get(func() summaryOptions { return o.measured.summary(e) })
	m.attempts.Record(ctx, int64(s.Attempts), options.attempts...)
	m.operation.Record(ctx, s.Elapsed.Seconds(), options.duration...)
	if s.Waited > 0 {
		m.waited.Record(ctx, s.Waited.Seconds(), o.measured.nameOnly()...)
	}
	if s.Reason != retry.ReasonNone && m.takesGaveUps.Enabled(ctx) {
		m.gaveUp.Add(ctx, 1, o.measured.gaveUps.get(givenUpBy(s))...)
	}
}

// enabled reports whether any instrument for the end of a run is enabled.
func (m *instruments) enabled(ctx context.Context) bool {
	for _, takes := range m.takesRuns {
		if takes.Enabled(ctx) {
			return true
		}
	}
	return false
}
