package otelretry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Hooks returns hooks that trace and measure the runs of the policies they are in.
// Build them once and share them. They are safe for concurrent use. To add others, use
// [retry.JoinHooks] with these first. They then enclose the others, which find the
// attempt's span in their context. They must not be in a policy twice.
func Hooks(opts ...Option) retry.Hooks {
	t := &telemetry{config: configured(opts)}
	t.operations.most, t.operations.own, t.operations.build = distinct, strings.Clone, t.newOperation
	t.failures.most, t.failures.build = cached, failure.attributes
	t.summaries.most, t.summaries.build = cached, summary.attributes
	t.others = t.newOperation(other)
	t.tracer.init(t.tracers, otel.GetTracerProvider, newTracer)
	t.instruments.init(t.meters, otel.GetMeterProvider, t.newInstruments)
	return retry.Hooks{
		Start:       t.start,
		Attempt:     t.attempt,
		AttemptDone: t.attemptDone,
		Wait:        t.wait,
		Guard:       t.guard,
		Done:        t.done,
	}
}

// cached is how many values a cache of an unbounded set keeps.
const cached = 1000

// telemetry is the state of one call of Hooks, and the context key of its runs.
type telemetry struct {
	config
	tracer      source[trace.TracerProvider, trace.Tracer]
	instruments source[metric.MeterProvider, *instruments]
	recording   atomic.Bool               // some run has had a span: look for it
	first       atomic.Pointer[operation] // mostly the only one
	operations  cache[string, *operation] // by name, cut
	others      *operation                // for the names that there is no room for
	failures    cache[failure, []attribute.KeyValue]
	summaries   cache[summary, []attribute.KeyValue]
}

// operation has what the runs of one name have in common, so that it is made only
// once.
type operation struct {
	key       string
	name      string                    // the key as exporters need it
	waitName  string                    // of the spans of waits
	guardName string                    // of those for guards
	attrs     []attribute.KeyValue      // of all spans: those of the options, and the name
	limited   cache[int, spanStart]     // of runs, by the limit on attempts; 0 for none
	attempts  [numbered]slot[spanStart] // of attempts, by their number
	measured  measured
	underway  underway
}

func (t *telemetry) newOperation(name string) *operation {
	o := &operation{key: name, name: valid(name), attrs: t.with()}
	if name != "" {
		o.attrs = t.with(nameKey.String(o.name))
	}
	o.waitName, o.guardName = o.start("wait").name, o.start("guard").name
	o.measured.attrs = o.attrs
	o.measured.failures.most, o.measured.failures.build = cached, o.measured.failure
	o.measured.gaveUps.most, o.measured.gaveUps.build = cached, o.measured.gaveUp
	o.measured.guards.most, o.measured.guards.build = cached, o.measured.guarded
	o.limited.most, o.limited.build = cached, o.runStart
	return o
}

// operation returns the operation of a name. Names are cut, and names beyond the limit
// share one operation.
func (t *telemetry) operation(name string) *operation {
	if len(name) > longest {
		name = upTo(name, longest)
	}
	if o := t.first.Load(); o != nil && o.key == name {
		return o
	}
	if o, ok := t.operations.values()[name]; ok {
		return o
	}
	if _, ok := admit(&names, name); ok || name == "" {
		if o, ok := t.operations.find(name); ok {
			t.first.CompareAndSwap(nil, o)
			return o
		}
	}
	return t.others
}

// all returns the operations that there have been.
func (t *telemetry) all() []*operation {
	all := slices.Collect(maps.Values(t.operations.values()))
	if len(names.values()) >= distinct {
		all = append(all, t.others)
	}
	return all
}

func (t *telemetry) start(ctx context.Context, p retry.Policy) context.Context {
	o := t.operation(p.Name)
	o.underway.begin()
	return t.begin(ctx, o, &p)
}

func (t *telemetry) attempt(ctx context.Context, a retry.Attempt) context.Context {
	t.operation(a.Name).underway.attempt()
	if r := t.runOf(ctx); r != nil {
		return r.beginAttempt(ctx, a)
	}
	return ctx
}

func (t *telemetry) attemptDone(ctx context.Context, a retry.Attempt) {
	o, r := t.operation(a.Name), t.runOf(ctx)
	o.underway.attemptDone(ctx, &a)
	if a.Answered {
		a.Err = nil // a success
	}
	m := t.instruments.get()
	measured := m.takesAttempts.Enabled(ctx)
	var f failure
	if a.Err != nil && (r != nil || measured) {
		f = failureOf(ctx, a)
	}
	if r != nil {
		r.attempted(a, f)
	}
	if measured {
		m.attempt.Record(ctx, a.Duration.Seconds(), o.measured.attempt(a.Err != nil, f)...)
	}
	if r != nil {
		r.endAttempt(a)
	}
}

func (t *telemetry) wait(ctx context.Context, a retry.Attempt) {
	if r := t.runOf(ctx); r != nil {
		r.beginWait(ctx, a)
	}
}

func (t *telemetry) guard(ctx context.Context, h retry.Held) {
	o, r, m := t.operation(h.Name), t.runOf(ctx), t.instruments.get()
	measured := m.takesGuards.Enabled(ctx)
	if r == nil && !measured {
		return
	}
	g := guardedBy(&h)
	if measured {
		m.guards.Add(ctx, 1, o.measured.guards.get(g)...)
	}
	if r != nil {
		r.beginGuard(h, g)
	}
}

func (t *telemetry) done(ctx context.Context, s retry.Summary) {
	o, r := t.operation(s.Name), t.runOf(ctx)
	o.underway.end()
	if s.Answered {
		s.Reason, s.Err = retry.ReasonNone, nil // a success
	}
	if r != nil {
		r.ending(s)
	}
	t.measureRun(ctx, o, &s)
	if r != nil {
		r.end(s)
	}
}
