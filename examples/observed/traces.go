package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// traces is a span exporter for a terminal. It draws traces of calls that were
// retried or failed, as many as a reader can follow.
type traces struct {
	w     io.Writer
	every time.Duration // at most one is drawn in this time

	mu     sync.Mutex
	parts  map[trace.TraceID][]sdktrace.ReadOnlySpan // attempts and waits of the runs underway
	drawn  time.Time                                 // when the last one ended that was drawn
	since  int                                       // traces since then
	hidden int                                       // those of them that were retried or failed
}

func (*traces) Shutdown(context.Context) error { return nil }

// ExportSpans gets spans as they end: a run's own comes last.
func (t *traces) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts == nil {
		t.parts = make(map[trace.TraceID][]sdktrace.ReadOnlySpan)
	}
	for _, span := range spans {
		if span.InstrumentationScope().Name != otelretry.ScopeName {
			continue
		}
		id := span.SpanContext().TraceID()
		if has(span, "retry.outcome") {
			t.ended(span, t.parts[id])
			delete(t.parts, id)
			continue
		}
		t.parts[id] = append(t.parts[id], span)
	}
	return nil
}

func (t *traces) ended(run sdktrace.ReadOnlySpan, parts []sdktrace.ReadOnlySpan) {
	t.since++
	if value(run.Attributes(), "retry.outcome").AsString() == "success_first_try" {
		return
	}
	if run.EndTime().Sub(t.drawn) < t.every {
		t.hidden++
		return
	}
	draw(t.w, run, parts)
	if others := t.since - 1; others > 0 {
		fmt.Fprintf(t.w, "%d more since the last one, %d of them retried or failed\n", others, t.hidden)
	}
	fmt.Fprintln(t.w)
	t.drawn, t.since, t.hidden = run.EndTime(), 0, 0
}

// row is a line of a drawing.
type row struct {
	what     string
	from, to time.Time
	cell     string
	note     string
}

// draw draws one trace, its attempts and waits on one axis of time.
func draw(w io.Writer, run sdktrace.ReadOnlySpan, parts []sdktrace.ReadOnlySpan) {
	var rows []row
	for _, p := range parts {
		r := row{from: p.StartTime(), to: p.EndTime()}
		if has(p, "retry.delay") {
			r.what, r.cell, r.note = "wait", "░", "backoff"
			if hint := seconds(value(p.Attributes(), "retry.hint")); hint > 0 {
				r.note = fmt.Sprintf("the server asked for %v, + backoff", hint)
			}
		} else {
			r.what, r.cell, r.note = fmt.Sprintf("attempt %d", value(p.Attributes(), "retry.attempt").AsInt64()), "█", "ok"
			if class := value(p.Attributes(), "retry.class").AsString(); class != "" {
				texts := strings.Split(p.Status().Description, ": ") // the last one is what is wrong, the others are where
				what, _, _ := strings.Cut(texts[len(texts)-1], "; ") // what follows explains it
				r.note = what + ", " + class
			}
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return a.from.Compare(b.from) })

	begin, end := run.StartTime(), run.EndTime()
	ending := value(run.Attributes(), "retry.outcome").AsString()
	if reason := value(run.Attributes(), "retry.reason").AsString(); reason != "" {
		ending += ": " + reason
	}
	const cells = 40
	fmt.Fprintf(w, "%-52s%8v  %s\n", run.Name(), end.Sub(begin).Round(time.Millisecond), ending)
	for i, r := range rows {
		branch := "├"
		if i == len(rows)-1 {
			branch = "└"
		}
		at := func(x time.Time) int { return int(cells * x.Sub(begin) / max(end.Sub(begin), 1)) }
		from := min(at(r.from), cells-1)
		bar := strings.Repeat(" ", from) + strings.Repeat(r.cell, max(at(r.to)-from, 1))
		fmt.Fprintf(w, "%s %-9s %-*s%8v  %s\n", branch, r.what, cells, bar, r.to.Sub(r.from).Round(time.Millisecond), r.note)
	}
}

func has(span sdktrace.ReadOnlySpan, key attribute.Key) bool {
	return value(span.Attributes(), key).Type() != attribute.EMPTY
}

// value returns an attribute's, the zero Value if there is none.
func value(attrs []attribute.KeyValue, key attribute.Key) attribute.Value {
	for _, kv := range attrs {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

func seconds(v attribute.Value) time.Duration {
	return time.Duration(v.AsFloat64() * float64(time.Second)).Round(time.Millisecond)
}
