package otelretry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
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

// Hooks returns hooks that trace and measure the runs of the policies they are in.
// Build them once and share them; they are safe for concurrent use. To add others,
// use [retry.JoinHooks], these first: they then enclose the others. They must not
// be in a policy twice.
func Hooks(opts ...Option) retry.Hooks {
	t := &telemetry{config: configured(opts)}
	t.tracer.init(t.tracers, otel.GetTracerProvider, newTracer)
	t.instruments.init(t.meters, otel.GetMeterProvider, newInstruments)
	t.runSpans.build, t.attemptSpans.build = t.buildRunSpan, t.buildAttemptSpan
	t.failures.build, t.endings.build, t.measured.build = buildFailure, buildEnding, t.buildOptions
	h := retry.Hooks{
		Start:       t.start,
		Attempt:     t.attempt,
		AttemptDone: t.attemptDone,
		Wait:        t.wait,
		Done:        t.done,
	}
	if t.attempts == NoAttempts {
		h.Attempt = nil
	}
	return h
}

// telemetry is behind one call of Hooks, and is the key by which a context knows
// the run that it belongs to.
type telemetry struct {
	config
	tracer       source[trace.TracerProvider, trace.Tracer]
	instruments  source[metric.MeterProvider, *instruments]
	runSpans     cache[spanKey, spanStart]
	attemptSpans cache[spanKey, spanStart]
	failures     cache[failure, []attribute.KeyValue]
	endings      cache[ending, []attribute.KeyValue]
	measured     cache[labels, options]
}

// newTracer returns nil where there is nothing to trace with.
func newTracer(p trace.TracerProvider) trace.Tracer {
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

// spanKey tells such beginnings apart: of runs' spans, number is the limit on
// attempts, 0 for none; of attempts' spans, the attempt's number.
type spanKey struct {
	name   string
	number int
}

func (t *telemetry) buildRunSpan(k spanKey) spanStart {
	if k.number == 0 {
		return t.buildSpan("retry", k.name)
	}
	return t.buildSpan("retry", k.name, maxAttemptsKey.Int(k.number))
}

func (t *telemetry) buildAttemptSpan(k spanKey) spanStart {
	return t.buildSpan("attempt", k.name, attemptKey.Int(k.number))
}

func (t *telemetry) buildSpan(kind, name string, kv ...attribute.KeyValue) spanStart {
	if name != "" {
		kind += " " + names.admit(name)
		kv = append([]attribute.KeyValue{nameKey.String(valid(name))}, kv...)
	}
	kv = slices.Concat(t.attrs, kv)
	opts := []trace.SpanStartOption{trace.WithAttributes(kv...)}
	return spanStart{kind, opts}
}

// failure is what an attempt's span tells of an error.
type failure struct {
	class     retry.Class
	errorType string
}

func buildFailure(f failure) []attribute.KeyValue {
	return []attribute.KeyValue{classKey.String(f.class.String()), semconv.ErrorTypeKey.String(f.errorType)}
}

// ending is what a run's span tells at its end.
type ending struct {
	attempts int
	reason   retry.Reason
}

func buildEnding(e ending) []attribute.KeyValue {
	kv := []attribute.KeyValue{attemptsKey.Int(e.attempts), outcomeKey.String(outcome(e.attempts, e.reason))}
	if failed(e.reason) {
		kv = append(kv, reasonKey.String(e.reason.String()), semconv.ErrorTypeKey.String(runErrorType(e.reason)))
	}
	return kv
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

// run is one run as its context knows it. A run whose span is not recorded needs
// none, unless it is nested in one that has.
type run struct {
	context.Context
	t       *telemetry
	tracer  trace.Tracer
	start   spanStart
	span    trace.Span // nil if there is none, or none yet
	attempt trace.Span // the one underway, nil if there is none
	began   time.Time  // on the policy's clock; zero if that is the system's, which spans read themselves
	late    bool       // the span is yet to be made: see RetriedRuns
}

func (r *run) Value(key any) any {
	if t, ok := key.(*telemetry); ok && t == r.t {
		return r
	}
	return r.Context.Value(key)
}

// run returns the run that ctx belongs to, or nil.
func (t *telemetry) run(ctx context.Context) *run {
	r, _ := ctx.Value(t).(*run)
	return r
}

func (t *telemetry) start(ctx context.Context, p retry.Policy) context.Context {
	tracer := t.tracer.get()
	if tracer == nil {
		return t.unrecorded(ctx)
	}
	limit := max(p.MaxAttempts, 0)
	if p.MaxAttempts == 0 {
		limit = retry.DefaultMaxAttempts
	}
	start := t.runSpans.get(spanKey{p.Name, limit})
	var began time.Time
	if p.Clock != nil && p.Clock != clockx.System() {
		began = p.Clock.Now()
	}
	if t.attempts == RetriedRuns {
		return &run{Context: ctx, t: t, tracer: tracer, start: start, began: began, late: true}
	}
	spanned, span := start.begin(ctx, tracer, began)
	if !span.IsRecording() {
		return t.unrecorded(spanned)
	}
	return &run{Context: spanned, t: t, tracer: tracer, span: span, began: began}
}

// unrecorded returns ctx for a run that has no span, changed only if hooks would
// find the run around it in there.
func (t *telemetry) unrecorded(ctx context.Context) context.Context {
	if t.run(ctx) == nil {
		return ctx
	}
	return &run{Context: ctx, t: t}
}

func (t *telemetry) attempt(ctx context.Context, a retry.Attempt) context.Context {
	r := t.run(ctx)
	if r == nil || r.span == nil {
		return ctx
	}
	if t.attempts == RetriedRuns {
		ctx = trace.ContextWithSpan(ctx, r.span)
	}
	var at time.Time
	if !r.began.IsZero() {
		at = a.Start
	}
	ctx, r.attempt = t.attemptSpan(a).begin(ctx, r.tracer, at)
	return ctx
}

func (t *telemetry) attemptSpan(a retry.Attempt) spanStart {
	return t.attemptSpans.get(spanKey{a.Name, a.Number})
}

func (t *telemetry) attemptDone(ctx context.Context, a retry.Attempt) {
	t.measureAttempt(ctx, a)
	r := t.run(ctx)
	if r == nil || r.attempt == nil {
		return
	}
	t.fail(r.attempt, a)
	r.end(r.attempt, a.Start.Add(a.Duration))
	r.attempt = nil
}

// fail tells an attempt's span what went wrong, if anything did.
func (t *telemetry) fail(span trace.Span, a retry.Attempt) {
	if a.Err == nil || !span.IsRecording() {
		return
	}
	span.SetAttributes(t.failures.get(failure{a.Class, errorType(a.Err)})...)
	span.SetStatus(codes.Error, text(a.Err))
}

// text returns what err says, at most 4 KiB of it, or what fmt makes of an Error
// method that panics.
func text(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprint(err)
		}
		s = valid(s[:min(len(s), 4<<10)])
	}()
	return err.Error()
}

// valid returns s as exporters need it: with a text that is not UTF-8 they lose
// all that is sent together with it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// end ends a span at the given time of the policy's clock.
func (r *run) end(span trace.Span, at time.Time) {
	if r.began.IsZero() {
		span.End()
		return
	}
	span.End(trace.WithTimestamp(at))
}

func (t *telemetry) wait(ctx context.Context, a retry.Attempt) {
	r := t.run(ctx)
	if r == nil {
		return
	}
	if r.late {
		r.appear(a.Start)
		if r.span != nil && trace.SpanContextFromContext(r.Context).IsValid() {
			_, first := t.attemptSpan(a).begin(trace.ContextWithSpan(r.Context, r.span), r.tracer, a.Start)
			t.fail(first, a)
			first.End(trace.WithTimestamp(a.Start.Add(a.Duration)))
		}
	}
	if r.span == nil || t.silent {
		return
	}
	kv := []attribute.KeyValue{
		attemptKey.Int(a.Number),
		delayKey.Float64(a.Delay.Seconds()),
		classKey.String(a.Class.String()),
		semconv.ErrorTypeKey.String(errorType(a.Err)),
		hintKey.Float64(a.Hint.Seconds()),
	}
	if a.Hint == 0 {
		kv = kv[:4]
	}
	r.event("retry.wait", a.Elapsed, kv)
}

// appear makes the span of a run that has not succeeded at once.
func (r *run) appear(began time.Time) {
	r.late = false
	if _, span := r.start.begin(r.Context, r.tracer, began); span.IsRecording() {
		r.span = span
	}
}

// event adds an event that happened when the run was elapsed old.
func (r *run) event(name string, elapsed time.Duration, kv []attribute.KeyValue) {
	if r.began.IsZero() {
		r.span.AddEvent(name, trace.WithAttributes(kv...))
		return
	}
	r.span.AddEvent(name, trace.WithAttributes(kv...), trace.WithTimestamp(r.began.Add(elapsed)))
}

func (t *telemetry) done(ctx context.Context, s retry.Summary) {
	t.measureRun(ctx, s)
	r := t.run(ctx)
	if r == nil || r.late && s.Err == nil {
		return
	}
	if r.late {
		began := r.began
		if began.IsZero() {
			began = time.Now().Add(-s.Elapsed)
		}
		r.appear(began)
	}
	if r.span == nil {
		return
	}
	if r.attempt != nil { // its end was skipped by a panic in another hook
		r.end(r.attempt, r.began.Add(s.Elapsed))
	}
	r.span.SetAttributes(t.endings.get(ending{s.Attempts, s.Reason})...)
	if failed(s.Reason) {
		r.span.SetStatus(codes.Error, text(s.Err))
	}
	if s.Err != nil && !t.silent {
		r.event("retry.gave_up", s.Elapsed, []attribute.KeyValue{reasonKey.String(s.Reason.String()), attemptsKey.Int(s.Attempts)})
	}
	r.end(r.span, r.began.Add(s.Elapsed))
}

// outcome returns how a run ended.
func outcome(attempts int, reason retry.Reason) string {
	switch {
	case reason == retry.ReasonCanceled:
		return "canceled"
	case reason == retry.ReasonNone && attempts <= 1:
		return "success_first_try"
	case reason == retry.ReasonNone:
		return "success_after_retry"
	case attempts <= 1:
		return "failure_first_try"
	}
	return "failure_after_retry"
}

// failed reports whether a run that ended so has failed: not if its caller
// canceled it.
func failed(reason retry.Reason) bool {
	return reason != retry.ReasonNone && reason != retry.ReasonCanceled
}

// runErrorType returns the error.type of a run that failed.
func runErrorType(reason retry.Reason) string { return (&retry.Error{Reason: reason}).ErrorType() }
