package queues

import (
	"context"
	"log/slog"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrykafka"
	"github.com/goretry/retry/retryqueue"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"
)

// ConsumeKafka handles the records of a topic until ctx ends. Each delivery is a part of the trace in
// which its record was published. The topics must be there.
func ConsumeKafka(ctx context.Context, p retry.Policy, handle func(context.Context, *kgo.Record) error, opts ...kgo.Opt) error {
	handler := &retrykafka.Handler{
		Policy: p,
		Handle: handle,
		Waits: []retrykafka.Wait{ // without these the order is kept
			{Topic: "send-10s", Delay: 10 * time.Second},
			{Topic: "send-1m", Delay: time.Minute},
			{Topic: "send-10m", Delay: 10 * time.Minute},
		},
		Dead:   "send-dead",
		Gate:   new(retryqueue.Gate),
		Report: func(err error) { slog.Warn("kafka", "error", err) },
		Context: func(ctx context.Context, r *kgo.Record) context.Context {
			return propagation.TraceContext{}.Extract(ctx, RecordCarrier{r})
		},
	}
	opts = append(handler.Options("orders"), opts...) // with a kgo.ConsumerGroup and kgo.SeedBrokers
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance() // not Close
	return handler.Run(ctx, client)
}
