package queues_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	otelretry "github.com/goretry/retry/otel"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

var _ propagation.TextMapCarrier = queues.RecordCarrier{}

// A record is in its publisher's trace at each delivery, also after it has waited.
func TestKafka(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "send-10s", "send-1m", "send-10m", "send-dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	spans := tracetest.NewInMemoryExporter()
	tracer := trace.NewTracerProvider(trace.WithSyncer(spans))
	broker := kgo.SeedBrokers(cluster.ListenAddrs()...)
	producer, err := kgo.NewClient(broker)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	published, publish := tracer.Tracer("").Start(t.Context(), "publish")
	record := &kgo.Record{Topic: "orders", Value: []byte("1")}
	propagation.TraceContext{}.Inject(published, queues.RecordCarrier{Record: record})
	if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	publish.End()

	ctx, cancel := context.WithCancel(t.Context())
	p := retry.Policy{
		Name: "send", MaxAttempts: 2, Backoff: retry.Constant(0),
		Hooks: otelretry.Hooks(otelretry.WithWaits(false), otelretry.WithTracerProvider(tracer)),
	}
	n := 0
	err = queues.ConsumeKafka(ctx, p, func(context.Context, *kgo.Record) error {
		if n++; n == 1 {
			return errDown
		}
		cancel()
		return nil
	}, kgo.ConsumerGroup("g"), broker)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ConsumeKafka() = %v", err)
	}
	var names []string
	for _, s := range spans.GetSpans() {
		names = append(names, s.Name)
		if s.SpanContext.TraceID() != publish.SpanContext().TraceID() {
			t.Errorf("span %s is in another trace", s.Name)
		}
	}
	if runs := slices.DeleteFunc(names, func(s string) bool { return s != "send" }); len(runs) != 2 {
		t.Errorf("there are %d deliveries among the spans, want 2", len(runs))
	}
}
