package queues_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Each delivery is a run with one attempt, whose number is the delivery's. Only the one
// after which the message is dead gives up.
func TestTelemetryOfDeliveries(t *testing.T) {
	spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
	js, c := oneMessage(t)
	h := &retrynats.Handler{
		Policy: retry.Policy{
			Name: "invoice", MaxAttempts: 2, Backoff: retry.Constant(10 * time.Millisecond),
			Hooks: otelretry.Hooks(
				otelretry.WithWaits(false), // the wait is the queue's: an event tells of it
				otelretry.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))),
				otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))),
		},
		Handle: func(context.Context, jetstream.Msg) error { return errDown },
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stored := make(chan struct{})
	h.Dead = func(context.Context, jetstream.Msg, *retry.Error) error {
		close(stored)
		return nil
	}
	consuming, err := h.Consume(ctx, js, c)
	if err != nil {
		t.Fatal(err)
	}
	<-stored
	consuming.Drain()
	<-consuming.Closed()

	var attempts []int64
	var events, outcomes []string
	for _, s := range spans.GetSpans() {
		set := attribute.NewSet(s.Attributes...)
		if s.Parent.IsValid() {
			if n, ok := set.Value("retry.attempt"); ok && !set.HasValue("retry.delay") {
				attempts = append(attempts, n.AsInt64())
			}
			continue
		}
		outcome, _ := set.Value("retry.outcome")
		outcomes = append(outcomes, outcome.AsString())
		for _, e := range s.Events {
			events = append(events, e.Name)
		}
	}
	if !slices.Equal(attempts, []int64{1, 2}) {
		t.Errorf("the attempts are numbered %v, want 1, 2: the deliveries", attempts)
	}
	if want := []string{"success_first_try", "failure_after_retry"}; !slices.Equal(outcomes, want) {
		t.Errorf("the runs ended with %v, want %v", outcomes, want)
	}
	if want := []string{"retry.wait", "retry.gave_up"}; !slices.Equal(events, want) {
		t.Errorf("the events are %v, want %v: each delivery's decision", events, want)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	gaveUp := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "retry.gave_up" {
				for _, p := range sum.DataPoints {
					reason, _ := p.Attributes.Value("retry.reason")
					gaveUp[reason.AsString()] += p.Value
				}
			}
		}
	}
	if len(gaveUp) != 1 || gaveUp["max_attempts"] != 1 {
		t.Errorf("retry.gave_up counted %v, want one max_attempts for one dead letter", gaveUp)
	}
}

var _ propagation.TextMapCarrier = queues.Carrier(nil)

// A delivery is a part of the trace in which its message was published, whatever the
// case of the header.
func TestDeliveryIsInItsMessagesTrace(t *testing.T) {
	for _, spelled := range []string{"traceparent", "Traceparent"} {
		spans := tracetest.NewInMemoryExporter()
		tracer := trace.NewTracerProvider(trace.WithSyncer(spans))
		propagator := propagation.TraceContext{}
		js, c := oneMessage(t)
		if s, err := js.Stream(t.Context(), "JOBS"); err != nil || s.Purge(t.Context()) != nil {
			t.Fatal("the first message cannot be removed: ", err)
		}
		published, publish := tracer.Tracer("").Start(t.Context(), "publish")
		msg := nats.NewMsg("jobs")
		propagator.Inject(published, queues.Carrier(msg.Header))
		msg.Header[spelled] = msg.Header["traceparent"]
		if spelled != "traceparent" {
			delete(msg.Header, "traceparent")
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		publish.End()
		handled := make(chan struct{})
		h := &retrynats.Handler{
			Policy: retry.Policy{Hooks: otelretry.Hooks(otelretry.WithTracerProvider(tracer))},
			Context: func(ctx context.Context, msg jetstream.Msg) context.Context {
				return propagator.Extract(ctx, queues.Carrier(msg.Headers()))
			},
			Handle: func(context.Context, jetstream.Msg) error { close(handled); return nil },
		}
		consuming, err := h.Consume(t.Context(), js, c)
		if err != nil {
			t.Fatal(err)
		}
		<-handled
		consuming.Drain()
		<-consuming.Closed()
		all := spans.GetSpans()
		if len(all) < 2 {
			t.Errorf("%s: there are %d spans, want that of the publisher, and the delivery's", spelled, len(all))
		}
		for _, s := range all {
			if s.SpanContext.TraceID() != publish.SpanContext().TraceID() {
				t.Errorf("%s: span %s is in another trace", spelled, s.Name)
			}
		}
	}
}

// oneMessage starts a server with one message in a work queue.
func oneMessage(t *testing.T) (jetstream.JetStream, jetstream.Consumer) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "JOBS", jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "jobs", []byte("1")); err != nil {
		t.Fatal(err)
	}
	return js, c
}

func TestCarrierFindsAnyCase(t *testing.T) {
	for name, header := range map[string]nats.Header{
		"lower case":     {"traceparent": {"00-1"}},
		"as HTTP has it": {"Traceparent": {"00-1"}},
		"upper case":     {"TRACEPARENT": {"00-1"}},
		"one is empty":   {"traceparent": {}, "Traceparent": {"00-1"}},
	} {
		if got := queues.Carrier(header).Get("traceparent"); got != "00-1" {
			t.Errorf("%s: Get() = %q, want 00-1", name, got)
		}
	}
	for _, none := range []queues.Carrier{nil, {}, {"tracestate": {"a"}}, {"traceparent": nil}} {
		if got := none.Get("traceparent"); got != "" {
			t.Errorf("Get() of %v = %q", none, got)
		}
	}
	msg := nats.NewMsg("jobs")
	msg.Header["Traceparent"] = []string{"old"}
	c := queues.Carrier(msg.Header)
	c.Set("traceparent", "00-2")
	c.Set("tracestate", "a")
	keys := c.Keys()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"traceparent", "tracestate"}) || msg.Header.Get("traceparent") != "00-2" {
		t.Errorf("after Set the header is %v", msg.Header)
	}
}
