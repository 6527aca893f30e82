package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrytest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
)

var errDown = errors.New("connection refused")

// viewer holds what a run tells: spans and metrics.
type viewer struct {
	t      *testing.T
	h      *retrytest.Harness
	spans  *tracetest.SpanRecorder
	traces *trace.TracerProvider
	reader *metric.ManualReader
	meters *metric.MeterProvider
	hooks  retry.Hooks
	start  time.Time

	eventless bool // events are not shown
}

// view puts telemetry into p, which makes up to three attempts with waits of
// 100 ms and 200 ms unless it says otherwise.
func view(t *testing.T, p retry.Policy, opts ...otelretry.Option) *viewer {
	t.Helper()
	v := &viewer{t: t, spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	v.traces = trace.NewTracerProvider(trace.WithSpanProcessor(v.spans))
	v.meters = metric.NewMeterProvider(metric.WithReader(v.reader))
	opts = append([]otelretry.Option{
		otelretry.WithTracerProvider(v.traces),
		otelretry.WithMeterProvider(v.meters),
	}, opts...)
	v.hooks = otelretry.Hooks(opts...)
	p.Hooks = v.hooks
	if p.Backoff == nil {
		p.Backoff = retry.Exponential{Jitter: retry.NoJitter}
	}
	v.h = retrytest.New(t, p)
	v.start = v.h.Clock.Now()
	return v
}

// withoutEvents makes v leave out the events of spans.
func (v *viewer) withoutEvents() *viewer {
	v.eventless = true
	return v
}

// run makes a run with these steps.
func (v *viewer) run(ctx context.Context, steps ...retrytest.Step[int]) error {
	for i := range steps {
		steps[i] = steps[i].Optional() // how many were reached is seen in the spans
	}
	_, err := retry.Do(ctx, v.h.Policy, retrytest.Script(v.h, steps...))
	return err
}

// wantSpans compares the ended spans with want: a line for each span, indented
// below its parent, and for each event.
func (v *viewer) wantSpans(want string) {
	v.t.Helper()
	compare(v.t, "spans", v.tree(), want)
}

func (v *viewer) tree() string {
	var b strings.Builder
	spans := v.spans.Ended()
	slices.SortStableFunc(spans, func(a, b trace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	for _, s := range spans {
		orphan := !slices.ContainsFunc(spans, func(p trace.ReadOnlySpan) bool {
			return p.SpanContext().SpanID() == s.Parent().SpanID()
		})
		if orphan {
			v.write(&b, spans, s, "")
		}
	}
	return b.String()
}

func (v *viewer) write(b *strings.Builder, spans []trace.ReadOnlySpan, s trace.ReadOnlySpan, indent string) {
	if scope := s.InstrumentationScope(); s.SpanKind() == oteltrace.SpanKindInternal && (scope.Name != otelretry.ScopeName || scope.Version != "(devel)") {
		v.t.Errorf("%s has the scope %s %s", s.Name(), scope.Name, scope.Version)
	}
	fmt.Fprintf(b, "%s%s %v-%v%s", indent, s.Name(), s.StartTime().Sub(v.start), s.EndTime().Sub(v.start), attributes(s.Attributes()))
	if s.Status().Code != codes.Unset {
		fmt.Fprintf(b, " %v %q", s.Status().Code, s.Status().Description)
	}
	if s.SpanKind() != oteltrace.SpanKindInternal {
		fmt.Fprintf(b, " kind %v", s.SpanKind())
	}
	b.WriteString("\n")
	for _, e := range s.Events() {
		if v.eventless {
			break
		}
		fmt.Fprintf(b, "%s  @%v %s%s\n", indent, e.Time.Sub(v.start), e.Name, attributes(e.Attributes))
	}
	for _, child := range spans {
		if child.Parent().SpanID() == s.SpanContext().SpanID() {
			v.write(b, spans, child, indent+"  ")
		}
	}
}

func attributes(kv []attribute.KeyValue) string {
	var b strings.Builder
	for _, a := range kv {
		fmt.Fprintf(&b, " %s=%v", strings.TrimPrefix(string(a.Key), "retry."), a.Value.AsInterface())
	}
	return b.String()
}

// wantMetrics compares all that was measured with want: a line for each set of
// attributes, in order.
func (v *viewer) wantMetrics(want string) {
	v.t.Helper()
	compare(v.t, "metrics", metrics(v.t, v.reader), want)
}

func metrics(t *testing.T, reader metric.Reader) string {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	var lines []string
	line := func(m metricdata.Metrics, kv attribute.Set, format string, values ...any) {
		lines = append(lines, fmt.Sprintf("%s [%s]%s: ", m.Name, m.Unit, attributes(kv.ToSlice()))+fmt.Sprintf(format, values...))
	}
	for _, scope := range got.ScopeMetrics {
		if scope.Scope.Name != otelretry.ScopeName || scope.Scope.Version != "(devel)" {
			t.Errorf("scope is %v", scope.Scope)
		}
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					line(m, p.Attributes, "%d runs, sum %.4g", p.Count, p.Sum)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					line(m, p.Attributes, "%d runs, sum %d", p.Count, p.Sum)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if m.Name != "retry.operation.active" || p.Value != 0 { // else it is always there
						line(m, p.Attributes, "%d", p.Value)
					}
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					if m.Name != "retry.operation.failing" || p.Value != 0 { // as well
						line(m, p.Attributes, "%.4g", p.Value)
					}
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// compare compares texts line by line; indentation that all lines of want share
// does not count.
func compare(t *testing.T, what, got, want string) {
	t.Helper()
	lines := strings.Split(strings.Trim(want, "\n"), "\n")
	margin := len(lines[0]) - len(strings.TrimLeft(lines[0], "\t"))
	for i, line := range lines {
		lines[i] = line[min(margin, len(line)):]
	}
	want = strings.TrimRight(strings.Join(lines, "\n"), "\t\n")
	if got = strings.TrimRight(got, "\n"); got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}
