package kafka_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrykafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkConsume handles b.N records of eight partitions, which are there when it begins: in a plain
// loop over what the client polls, with a goroutine for each partition, and by a Handler. Both commit:
// the loop all five seconds, the Handler after a hundred records of a partition.
func BenchmarkConsume(b *testing.B) {
	b.Run("loop", func(b *testing.B) { consumeAll(b, nil) })
	b.Run("Handler", func(b *testing.B) {
		consumeAll(b, &retrykafka.Handler{Policy: retry.Policy{MaxAttempts: 5}})
	})
}

func consumeAll(b *testing.B, h *retrykafka.Handler) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "in"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	broker := kgo.SeedBrokers(c.ListenAddrs()...)
	producer, err := kgo.NewClient(broker, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		producer.Produce(b.Context(), &kgo.Record{Topic: "in", Value: make([]byte, 100)}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	producer.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var n atomic.Int64
	handle := func(context.Context, *kgo.Record) error {
		if n.Add(1) == int64(b.N) {
			cancel()
		}
		return nil
	}
	opts := []kgo.Opt{kgo.ConsumeTopics("in"), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll()}
	if h != nil {
		h.Handle = handle
		opts = h.Options("in")
	}
	client, err := kgo.NewClient(append(opts, kgo.ConsumerGroup("g"), broker)...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.CloseAllowingRebalance()
	b.ReportAllocs()
	b.ResetTimer()
	if h != nil {
		_ = h.Run(ctx, client)
		return
	}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 500)
		var all sync.WaitGroup
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			all.Go(func() {
				for _, r := range p.Records {
					_ = handle(ctx, r)
				}
				client.MarkCommitRecords(p.Records...)
			})
		})
		all.Wait()
		client.AllowRebalance()
	}
}
