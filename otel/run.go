package otelretry

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/errtext"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// run is the value of one run in its context. A run whose span is not recorded has
// none, unless it is nested in a run that has one. Its hooks are called on one
// goroutine. Goroutines that the operation has left may still read values from it.
type run struct {
	context.Context
	t         *telemetry
	tracer    trace.Tracer
	operation *operation
	span      trace.Span // nil if there is none, or none yet
	attempt   trace.Span // the one underway, nil if there is none
	made      int        // attempts so far
	failure   failure    // of the latest attempt
	hint      time.Duration
	began     time.Time                // zero if not known
	clocked   bool                     // times are those of the policy's own clock, else spans read the system's
	waitBegan time.Time                // zero if none is underway
	waitName  string                   // of its span
	wait      []attribute.KeyValue     // its attributes
	held      int                      // by guards, so far
	guard     string                   // that has held the latest back
	option    [1]trace.EventOption     // of events, and those of waits' spans:
	options   [2]trace.SpanStartOption // here to save allocations
	late      *late                    // see RetriedRuns
}

// late is what a run needs whose span is made once it has not succeeded at once.
type late struct {
	limit   int            // on attempts
	sampled bool           // a sampler has decided
	first   *retry.Attempt // if it failed, until its span is made
	spanned atomic.Pointer[context.Context]
}

func (r *run) Value(key any) any {
	if t, ok := key.(*telemetry); ok && t == r.t {
		return r
	}
	if r.late != nil {
		if ctx := r.late.spanned.Load(); ctx != nil {
			return (*ctx).Value(key)
		}
	}
	return r.Context.Value(key)
}

// runOf returns the run that ctx belongs to, or nil. A program that only measures
// does not pay for the search.
func (t *telemetry) runOf(ctx context.Context) *run {
	if !t.recording.Load() {
		return nil
	}
	r, _ := ctx.Value(t).(*run)
	return r
}

// begin returns the context of a run.
func (t *telemetry) begin(ctx context.Context, o *operation, p *retry.Policy) context.Context {
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
	if t.mode == RetriedRuns {
		t.record()
		r := &struct {
			run
			rest late
		}{run: run{Context: ctx, t: t, tracer: tracer, operation: o, began: began, clocked: !began.IsZero()}, rest: late{limit: limit}}
		r.late = &r.rest
		return &r.run
	}
	spanned, span := o.limited.get(limit).begin(ctx, tracer, began)
	if !span.IsRecording() {
		return t.unrecorded(spanned)
	}
	t.record()
	return &run{Context: spanned, t: t, tracer: tracer, operation: o, span: span, began: began, clocked: !began.IsZero()}
}

func (t *telemetry) record() {
	if !t.recording.Load() { // else every run would take its cache line
		t.recording.Store(true)
	}
}

// unrecorded returns ctx for a run that has no span, changed only if hooks would
// find the run around it in there.
func (t *telemetry) unrecorded(ctx context.Context) context.Context {
	if t.runOf(ctx) == nil {
		return ctx
	}
	return &run{Context: ctx, t: t}
}

// at returns the time at which the run was elapsed old, for spans. It is zero if they
// read the clock themselves.
func (r *run) at(elapsed time.Duration) time.Time {
	if !r.clocked {
		return time.Time{}
	}
	return r.began.Add(elapsed)
}

// beginAttempt returns the context of an attempt. What the operation traces is
// below the attempt's span, or else the run's.
func (r *run) beginAttempt(ctx context.Context, a retry.Attempt) context.Context {
	r.made++
	r.endWait(a.Elapsed)
	if r.span == nil {
		return ctx
	}
	if trace.SpanContextFromContext(ctx).SpanID() != r.span.SpanContext().SpanID() { // beside other hooks
		ctx = trace.ContextWithSpan(ctx, r.span)
	}
	if r.t.mode == NoAttempts || r.made > shown {
		return ctx
	}
	ctx, r.attempt = r.operation.attemptStart(a.Number).begin(ctx, r.tracer, r.at(a.Elapsed))
	return ctx
}

// attempted takes what an attempt ended with, before it is measured.
func (r *run) attempted(a retry.Attempt, f failure) {
	r.failure, r.hint = f, a.Hint
	if r.late == nil || r.late.sampled {
		return
	}
	if !r.clocked {
		r.began = a.Start
	}
	if a.Err != nil {
		r.appear()
		first := a // or every call would move a to the heap
		r.late.first = &first
	}
}

// endAttempt ends the span of an attempt.
func (r *run) endAttempt(a retry.Attempt) {
	if r.attempt == nil {
		return
	}
	r.fail(r.attempt, a)
	end(r.attempt, r.at(a.Elapsed))
	r.attempt = nil
}

// fail records on an attempt's span what went wrong, if anything did.
func (r *run) fail(span trace.Span, a retry.Attempt) {
	if a.Err == nil || !span.IsRecording() {
		return
	}
	span.SetAttributes(r.t.failures.get(r.failure)...)
	if a.Hint > 0 || a.Now {
		span.SetAttributes(hintKey.Float64(a.Hint.Seconds()))
	}
	if r.failure.errorType != "" {
		span.SetStatus(codes.Error, clip(errtext.Of(a.Err), brief))
	}
}

// beginWait notes a wait. Its span is made at its end, since only then is it known
// whether this process waited. Without spans of waits it is an event.
func (r *run) beginWait(ctx context.Context, a retry.Attempt) {
	if r.made == 0 {
		r.beginPause(ctx, a)
	}
	r.firstAttempt()
	if r.span == nil || r.made > shown {
		return
	}
	kv := r.waitAttributes(attemptKey.Int(a.Number), delayKey.Float64(a.Delay.Seconds()), classKey.String(a.Class.String()))
	if r.failure.errorType != "" {
		kv = append(kv, errorTypeKey.String(r.failure.errorType))
	}
	if a.Hint > 0 || a.Now {
		kv = append(kv, hintKey.Float64(a.Hint.Seconds()))
	}
	if r.t.waitless {
		r.event("retry.wait", r.at(a.Elapsed), kv[len(r.operation.attrs):])
		return
	}
	r.await(r.operation.waitName, a.Elapsed, kv)
}

// waitAttributes returns those of the span of a wait, with room for two more.
func (r *run) waitAttributes(more ...attribute.KeyValue) []attribute.KeyValue {
	attrs := r.operation.attrs
	kv := make([]attribute.KeyValue, 0, len(attrs)+len(more)+2)
	return append(append(kv, attrs...), more...)
}

// await notes a wait whose span is to have this name and these attributes.
func (r *run) await(name string, elapsed time.Duration, kv []attribute.KeyValue) {
	at := r.at(elapsed)
	if at.IsZero() {
		at = time.Now()
	}
	r.waitBegan, r.waitName, r.wait = at, name, kv
}

// beginGuard notes what a guard has told the next attempt. The wait that follows has a span.
// Without spans of waits it is an event, as is a refusal that ends the run.
func (r *run) beginGuard(h retry.Held, g guarded) {
	if r.late != nil && !r.late.sampled {
		if !r.clocked {
			r.began = time.Now().Add(-h.Elapsed)
		}
		r.appear()
	}
	r.firstAttempt()
	if r.span == nil {
		return
	}
	r.endWait(h.Elapsed)
	r.guard = g.guard
	if r.held++; r.held > shown {
		return
	}
	kv := r.waitAttributes(attemptKey.Int(h.Number), delayKey.Float64(h.Delay.Seconds()), guardKey.String(g.guard))
	if g.refused {
		kv = append(kv, classKey.String(h.Class.String()), errorTypeKey.String(errorType(h.Err)))
	}
	switch {
	case (h.Delay > 0 || !g.refused) && !r.t.waitless:
		r.await(r.operation.guardName, h.Elapsed, kv)
	default:
		r.event("retry.guard", r.at(h.Elapsed), kv[len(r.operation.attrs):])
	}
}

// beginPause prepares for a wait before the run's first attempt. It follows a failure
// that ended the run before: a is that run's.
func (r *run) beginPause(ctx context.Context, a retry.Attempt) {
	r.failure = failureOf(ctx, a)
	if r.late == nil {
		return
	}
	if !r.clocked {
		r.began = time.Now().Add(-a.Elapsed)
	}
	r.appear()
}

// endWait makes the span of the wait that is over, if there was one.
func (r *run) endWait(elapsed time.Duration) {
	if r.waitBegan.IsZero() {
		return
	}
	r.options = [2]trace.SpanStartOption{trace.WithAttributes(r.wait...), trace.WithTimestamp(r.waitBegan)}
	_, span := spanStart{r.waitName, r.options[:]}.begin(r.below(), r.tracer, time.Time{})
	end(span, r.at(elapsed))
	r.waitBegan = time.Time{}
}

// appear makes the span of a run that has not succeeded at once. From then on it
// is in the run's context.
func (r *run) appear() {
	r.late.sampled = true
	spanned, span := r.operation.limited.get(r.late.limit).begin(r.Context, r.tracer, r.began)
	if span.IsRecording() {
		r.span = span
		r.late.spanned.Store(&spanned)
	}
}

// firstAttempt makes the span of a late run's first attempt, unless spans that the
// attempt made itself have no parent at all.
func (r *run) firstAttempt() {
	if r.late == nil || r.late.first == nil {
		return
	}
	a := *r.late.first
	r.late.first = nil
	if r.span == nil || r.began.IsZero() || !trace.SpanContextFromContext(r.Context).IsValid() {
		return
	}
	_, span := r.operation.attemptStart(a.Number).begin(r.below(), r.tracer, r.began)
	r.fail(span, a)
	end(span, r.began.Add(a.Duration))
}

// below returns a context for child spans of the run in which nothing is called.
func (r *run) below() context.Context {
	if r.late != nil {
		return trace.ContextWithSpan(r.Context, r.span)
	}
	return r.Context
}

func (r *run) event(name string, at time.Time, kv []attribute.KeyValue) {
	if at.IsZero() {
		r.option[0] = trace.WithAttributes(kv...)
		r.span.AddEvent(name, r.option[:]...)
		return
	}
	r.span.AddEvent(name, trace.WithAttributes(kv...), trace.WithTimestamp(at))
}

// ending takes a run's end, before it is measured.
func (r *run) ending(s retry.Summary) {
	if r.late != nil && !r.late.sampled && s.Err != nil { // no attempt was made
		r.appear()
	}
}

// end ends the span of a run.
func (r *run) end(s retry.Summary) {
	if r.span == nil {
		return
	}
	now := r.at(s.Elapsed)
	if s.Err == nil {
		r.firstAttempt() // of a run of Supervise or a delivery that another one follows
	} else {
		r.endWait(s.Elapsed) // which was cut short
	}
	if r.attempt != nil { // a panic in another hook has skipped the end of the attempt
		r.attempt.SetAttributes(r.t.failures.get(failure{retry.Unknown, panicType})...)
		r.attempt.SetStatus(codes.Error, describedRun(s))
		end(r.attempt, now)
	}
	r.span.SetAttributes(r.summary(s)...)
	if failed := endingOf(&s).errorType() != ""; failed {
		r.span.SetStatus(codes.Error, describedRun(s))
	}
	if s.Err != nil {
		kv := append(make([]attribute.KeyValue, 0, 4), reasonKey.String(s.Reason.String()), attemptsKey.Int(s.Attempts))
		if s.Reason == retry.ReasonGuard {
			kv = append(kv, guardKey.String(r.guard))
		}
		if r.hint > 0 {
			kv = append(kv, hintKey.Float64(r.hint.Seconds()))
		}
		r.event("retry.gave_up", now, kv)
	}
	end(r.span, now)
}

func describedRun(s retry.Summary) string {
	if _, ok := s.Err.(*retry.Error); !ok {
		return s.Reason.String()
	}
	return clip(errtext.Of(s.Err), brief)
}

// summary returns the attributes of the run's span at its end.
func (r *run) summary(s retry.Summary) []attribute.KeyValue {
	key := summary{s.Attempts, s.Reason}
	var kv []attribute.KeyValue
	if s.Attempts <= shown {
		kv = r.t.summaries.get(key)
	} else {
		kv = key.attributes()
	}
	if s.Waited > 0 {
		kv = append(kv[:len(kv):len(kv)], waitedKey.Float64(s.Waited.Seconds()))
	}
	if s.Reason == retry.ReasonGuard {
		kv = append(kv[:len(kv):len(kv)], guardKey.String(r.guard))
	}
	return kv
}
