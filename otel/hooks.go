package otelretry

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Hooks returns hooks that trace and measure the runs of the policies they are in.
// Build them once and share them; they are safe for concurrent use. To add others,
// use [retry.JoinHooks], these first: they then enclose the others, which find the
// attempt's span in their context. They must not be in a policy twice.
func Hooks(opts ...Option) retry.Hooks {
	t := &telemetry{config: configured(opts)}
	t.tracer.init(t.tracers, otel.GetTracerProvider, newTracer)
	t.instruments.init(t.meters, otel.GetMeterProvider, newInstruments)
	t.operations.build = t.newOperation
	t.failures.build, t.endings.build = failure.attributes, ending.attributes
	h := retry.Hooks{
		Start:       t.start,
		Attempt:     t.attempt,
		AttemptDone: t.attemptDone,
		Wait:        t.wait,
		Done:        t.done,
	}
	if t.mode == NoAttempts {
		h.Attempt = nil
	}
	return h
}

// telemetry is behind one call of Hooks, and is the key by which a context knows
// the run that it belongs to.
type telemetry struct {
	config
	tracer      source[trace.TracerProvider, trace.Tracer]
	instruments source[metric.MeterProvider, *instruments]
	operations  cache[string, *operation] // by name
	failures    cache[failure, []attribute.KeyValue]
	endings     cache[ending, []attribute.KeyValue]
}

// run is one run as its context knows it. A run whose span is not recorded needs
// none, unless it is nested in one that has.
type run struct {
	context.Context
	t         *telemetry
	tracer    trace.Tracer
	operation *operation
	limit     int        // on attempts
	span      trace.Span // nil if there is none, or none yet
	attempt   trace.Span // the one underway, nil if there is none
	errorType string     // of the latest attempt's error, if its span told
	began     time.Time  // zero if not known
	clocked   bool       // times are those of the policy's own clock, else spans read the system's
	late      bool       // the span is yet to be made: see RetriedRuns
}

func (r *run) Value(key any) any {
	if t, ok := key.(*telemetry); ok && t == r.t {
		return r
	}
	return r.Context.Value(key)
}

// runOf returns the run that ctx belongs to, or nil.
func (t *telemetry) runOf(ctx context.Context) *run {
	r, _ := ctx.Value(t).(*run)
	return r
}

// at returns when the run was elapsed old as spans want to be told, which is the
// zero time if they read the clock themselves.
func (r *run) at(elapsed time.Duration) time.Time {
	if !r.clocked {
		return time.Time{}
	}
	return r.began.Add(elapsed)
}

func (t *telemetry) start(ctx context.Context, p retry.Policy) context.Context {
	tracer := t.tracer.get()
	if tracer == nil {
		return t.unrecorded(ctx)
	}
	limit := p.AttemptLimit()
	if limit == math.MaxInt {
		limit = 0 // none
	}
	var began time.Time
	if p.Clock != nil && p.Clock != clockx.System() {
		began = p.Clock.Now()
	}
	o := t.operations.get(p.Name)
	if t.mode == RetriedRuns {
		return &run{Context: ctx, t: t, tracer: tracer, operation: o, limit: limit, began: began, clocked: !began.IsZero(), late: true}
	}
	spanned, span := o.limited.get(limit).begin(ctx, tracer, began)
	if !span.IsRecording() {
		return t.unrecorded(spanned)
	}
	return &run{Context: spanned, t: t, tracer: tracer, operation: o, span: span, began: began, clocked: !began.IsZero()}
}

// unrecorded returns ctx for a run that has no span, changed only if hooks would
// find the run around it in there.
func (t *telemetry) unrecorded(ctx context.Context) context.Context {
	if t.runOf(ctx) == nil {
		return ctx
	}
	return &run{Context: ctx, t: t}
}

func (t *telemetry) attempt(ctx context.Context, a retry.Attempt) context.Context {
	r := t.runOf(ctx)
	if r == nil || r.span == nil {
		return ctx
	}
	if trace.SpanContextFromContext(ctx).SpanID() != r.span.SpanContext().SpanID() { // late, or beside other hooks
		ctx = trace.ContextWithSpan(ctx, r.span)
	}
	ctx, r.attempt = r.operation.attempt(a.Number).begin(ctx, r.tracer, r.at(a.Elapsed))
	return ctx
}

func (t *telemetry) attemptDone(ctx context.Context, a retry.Attempt) {
	t.measureAttempt(ctx, a)
	r := t.runOf(ctx)
	if r == nil {
		return
	}
	if r.late && !r.clocked {
		r.began = a.Start
	}
	r.errorType = ""
	if r.attempt != nil {
		r.fail(r.attempt, a)
		end(r.attempt, r.at(a.Elapsed))
		r.attempt = nil
	}
}

// fail tells an attempt's span what went wrong, if anything did.
func (r *run) fail(span trace.Span, a retry.Attempt) {
	if a.Err == nil || !span.IsRecording() {
		return
	}
	r.errorType = errorType(a.Err)
	span.SetAttributes(r.t.failures.get(failure{a.Class, r.errorType})...)
	span.SetStatus(codes.Error, text(a.Err))
}

// end ends a span, at the given time or, if that is zero, now.
func end(span trace.Span, at time.Time) {
	if at.IsZero() {
		span.End()
		return
	}
	span.End(trace.WithTimestamp(at))
}

func (t *telemetry) wait(ctx context.Context, a retry.Attempt) {
	r := t.runOf(ctx)
	if r == nil {
		return
	}
	if r.late {
		r.appear()
		r.firstAttempt(a)
	}
	if r.span == nil || t.silent {
		return
	}
	if r.errorType == "" {
		r.errorType = errorType(a.Err)
	}
	kv := []attribute.KeyValue{
		attemptKey.Int(a.Number),
		delayKey.Float64(a.Delay.Seconds()),
		classKey.String(a.Class.String()),
		semconv.ErrorTypeKey.String(r.errorType),
		hintKey.Float64(a.Hint.Seconds()),
	}
	if a.Hint == 0 {
		kv = kv[:4]
	}
	r.event("retry.wait", r.at(a.Elapsed), kv)
}

// appear makes the span of a run that has not succeeded at once.
func (r *run) appear() {
	r.late = false
	if _, span := r.operation.limited.get(r.limit).begin(r.Context, r.tracer, r.began); span.IsRecording() {
		r.span = span
	}
}

// firstAttempt makes the span of the first attempt, after the fact: unless what
// that attempt traced itself hangs below no span at all.
func (r *run) firstAttempt(a retry.Attempt) {
	if r.span == nil || r.began.IsZero() || !trace.SpanContextFromContext(r.Context).IsValid() {
		return
	}
	_, span := r.operation.attempt(1).begin(trace.ContextWithSpan(r.Context, r.span), r.tracer, r.began)
	r.fail(span, a)
	end(span, r.began.Add(a.Duration))
}

func (r *run) event(name string, at time.Time, kv []attribute.KeyValue) {
	if at.IsZero() {
		r.span.AddEvent(name, trace.WithAttributes(kv...))
		return
	}
	r.span.AddEvent(name, trace.WithAttributes(kv...), trace.WithTimestamp(at))
}

func (t *telemetry) done(ctx context.Context, s retry.Summary) {
	t.measureRun(ctx, s)
	r := t.runOf(ctx)
	if r == nil {
		return
	}
	if r.late && s.Err != nil {
		r.appear()
	}
	if r.span == nil {
		return
	}
	now := r.at(s.Elapsed)
	if r.attempt != nil { // a panic in another hook has skipped its end
		r.attempt.SetStatus(codes.Error, text(s.Err))
		end(r.attempt, now)
	}
	r.span.SetAttributes(t.ending(ending{s.Attempts, s.Reason})...)
	if failed(s.Reason) {
		r.span.SetStatus(codes.Error, text(s.Err))
	}
	if s.Err != nil && !t.silent {
		r.event("retry.gave_up", now, []attribute.KeyValue{reasonKey.String(s.Reason.String()), attemptsKey.Int(s.Attempts)})
	}
	end(r.span, now)
}
