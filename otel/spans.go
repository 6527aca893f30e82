package otelretry

import (
	"context"
	"slices"
	"time"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	nameKey        = attribute.Key("retry.name")
	maxAttemptsKey = attribute.Key("retry.max_attempts")
	attemptsKey    = attribute.Key("retry.attempts")
	attemptKey     = attribute.Key("retry.attempt")
	outcomeKey     = attribute.Key("retry.outcome")
	reasonKey      = attribute.Key("retry.reason")
	classKey       = attribute.Key("retry.class")
	delayKey       = attribute.Key("retry.delay")
	hintKey        = attribute.Key("retry.hint")
	budgetKey      = attribute.Key("retry.budget")
)

// newTracer returns nil where there is nothing to trace with.
func newTracer(p trace.TracerProvider) trace.Tracer {
	if absent(p) {
		return nil
	}
	t := p.Tracer(ScopeName, trace.WithInstrumentationVersion(Version()))
	if _, ok := t.(noop.Tracer); ok {
		return nil
	}
	return t
}

// spanStart is what a span begins with.
type spanStart struct {
	name string
	opts []trace.SpanStartOption // shared and full, so that append copies
}

func (t *telemetry) newSpanStart(kind, name string, kv ...attribute.KeyValue) spanStart {
	if name != "" {
		kind += " " + names.admit(name)
		kv = append([]attribute.KeyValue{nameKey.String(valid(name))}, kv...)
	}
	return spanStart{kind, []trace.SpanStartOption{trace.WithAttributes(slices.Concat(t.attrs, kv)...)}}
}

// begin starts a span, at the given time or, if that is zero, now.
func (s spanStart) begin(ctx context.Context, tracer trace.Tracer, at time.Time) (context.Context, trace.Span) {
	opts := s.opts
	if !at.IsZero() {
		opts = append(opts, trace.WithTimestamp(at))
	}
	spanned, span := tracer.Start(ctx, s.name, opts...)
	if spanned == nil || span == nil { // a tracer that fails
		return ctx, noop.Span{}
	}
	return spanned, span
}

// operation has what the runs of one name have in common, so that nothing of it
// is made for each of them.
type operation struct {
	limited  cache[int, spanStart] // of runs, by the limit on attempts; 0 for none
	numbered cache[int, spanStart] // of attempts, by their number
	measured cache[labels, options]
}

// numbers is how many attempts are prepared for. There may be any number of them,
// and hardly one of those comes twice.
const numbers = 16

func (t *telemetry) newOperation(name string) *operation {
	o := &operation{}
	o.limited.build = func(limit int) spanStart {
		if limit == 0 {
			return t.newSpanStart("retry", name)
		}
		return t.newSpanStart("retry", name, maxAttemptsKey.Int(limit))
	}
	o.numbered.build = func(number int) spanStart { return t.newSpanStart("attempt", name, attemptKey.Int(number)) }
	o.measured.build = func(l labels) options { return t.newOptions(name, l) }
	return o
}

func (o *operation) attempt(number int) spanStart {
	if number > numbers {
		return o.numbered.build(number)
	}
	return o.numbered.get(number)
}

// failure is what an attempt's span tells of an error.
type failure struct {
	class     retry.Class
	errorType string
}

func (f failure) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{classKey.String(f.class.String()), semconv.ErrorTypeKey.String(f.errorType)}
}

// ending is what a run's span tells at its end.
type ending struct {
	attempts int
	reason   retry.Reason
}

func (e ending) attributes() []attribute.KeyValue {
	kv := []attribute.KeyValue{attemptsKey.Int(e.attempts), outcomeKey.String(outcome(e.attempts, e.reason))}
	if failed(e.reason) {
		kv = append(kv, reasonKey.String(e.reason.String()), semconv.ErrorTypeKey.String(runErrorType(e.reason)))
	}
	return kv
}

func (t *telemetry) ending(e ending) []attribute.KeyValue {
	if e.attempts > numbers {
		return e.attributes()
	}
	return t.endings.get(e)
}
