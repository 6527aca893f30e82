package otelretry

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/goretry/retry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	nameKey        = attribute.Key("retry.name")
	maxAttemptsKey = attribute.Key("retry.max_attempts")
	attemptsKey    = attribute.Key("retry.attempts")
	attemptKey     = attribute.Key("retry.attempt")
	outcomeKey     = attribute.Key("retry.outcome")
	waitedKey      = attribute.Key("retry.waited")
	reasonKey      = attribute.Key("retry.reason")
	classKey       = attribute.Key("retry.class")
	delayKey       = attribute.Key("retry.delay")
	guardKey       = attribute.Key("retry.guard")
	guardResultKey = attribute.Key("retry.guard.result")
	hintKey        = attribute.Key("retry.hint")
	stateKey       = attribute.Key("retry.state")
)

// errorTypeKey is of OpenTelemetry's semantic conventions, as are its values. Their
// package semconv would require a newer module with each version of them.
const errorTypeKey = attribute.Key("error.type")

const (
	// shown is how many attempts of a run have spans, how many waits, and how many waits for
	// guards. A poll that runs for days must not fill the memory of the program that stores
	// its trace.
	shown = 32

	// numbered is how many attempts have their number in the span's name.
	numbered = 16
)

// brief is how many bytes a description may have, or a name that this package does
// not limit otherwise.
const brief = 4 << 10

// newTracer returns nil where there is nothing to trace with.
func newTracer(p trace.TracerProvider, global bool) trace.Tracer {
	if absent(p) || global && unset(p) {
		return nil
	}
	t := p.Tracer(ScopeName, trace.WithInstrumentationVersion(version()))
	if _, ok := t.(noop.Tracer); ok {
		return nil
	}
	return t
}

// unset reports whether a global provider is the default, which delegates to one that
// is set later. This package does not keep it, and its spans, which do nothing, would
// cost three allocations for each run.
func unset(p trace.TracerProvider) bool {
	t := reflect.TypeOf(p)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "go.opentelemetry.io/otel/internal/global"
}

// spanStart is what a span begins with.
type spanStart struct {
	name string
	opts []trace.SpanStartOption // shared and full, so that append copies
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

// end ends a span, at the given time or, if that is zero, now.
func end(span trace.Span, at time.Time) {
	if at.IsZero() {
		span.End()
		return
	}
	span.End(trace.WithTimestamp(at))
}

// start returns how to start a span of this operation. kind is empty for the run's
// span. The kind comes first in the name, because viewers cut the ends of long names.
func (o *operation) start(kind string, kv ...attribute.KeyValue) spanStart {
	name := o.name
	switch {
	case name == "" && kind == "":
		name = "retry"
	case name == "":
		name = kind
	case kind != "":
		name = kind + " " + name
	}
	return spanStart{name, []trace.SpanStartOption{trace.WithAttributes(append(o.attrs[:len(o.attrs):len(o.attrs)], kv...)...)}}
}

func (o *operation) runStart(limit int) spanStart {
	if limit == 0 {
		return o.start("")
	}
	return o.start("", maxAttemptsKey.Int(limit))
}

func (o *operation) attemptStart(number int) spanStart {
	if number < 1 || number > numbered {
		return o.start("attempt", attemptKey.Int(number))
	}
	return *o.attempts[number-1].get(func() spanStart {
		return o.start(fmt.Sprint("attempt ", number), attemptKey.Int(number))
	})
}

// attributes are those of a failure, on an attempt's span and its measurement.
func (f failure) attributes() []attribute.KeyValue {
	kv := []attribute.KeyValue{classKey.String(f.class.String()), errorTypeKey.String(f.errorType)}
	if f.errorType == "" {
		kv = kv[:1:1]
	}
	return kv
}

// summary is what a run's span tells at its end, beside the time that it waited.
type summary struct {
	attempts int
	reason   retry.Reason
}

func (s summary) attributes() []attribute.KeyValue {
	e := ending{s.attempts > 1, s.reason}
	kv := []attribute.KeyValue{attemptsKey.Int(s.attempts), outcomeKey.String(e.outcome())}
	if kind := e.errorType(); kind != "" {
		kv = append(kv, reasonKey.String(s.reason.String()), errorTypeKey.String(kind))
	}
	return kv
}
