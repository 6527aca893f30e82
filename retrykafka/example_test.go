package retrykafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrykafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A worker: it handles the records of a topic until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx); err != nil && ctx.Err() == nil {
		fmt.Println(err)
	}
}

func work(ctx context.Context) error {
	handler := &retrykafka.Handler{
		Policy: retry.Policy{Name: "send", MaxAttempts: 12, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}},
		Handle: func(ctx context.Context, r *kgo.Record) error {
			if len(r.Value) == 0 {
				return retry.Stop(errors.New("no address"))
			}
			return send(ctx, string(r.Value))
		},
		Waits: []retrykafka.Wait{ // without these the order is kept
			{Topic: "send-10s", Delay: 10 * time.Second},
			{Topic: "send-1m", Delay: time.Minute},
			{Topic: "send-10m", Delay: 10 * time.Minute},
		},
		Dead:   "send-dead",
		Report: func(err error) { fmt.Println("kafka:", err) },
	}
	client, err := kgo.NewClient(append(handler.Options("orders"),
		kgo.ConsumerGroup("send"), kgo.SeedBrokers("localhost:9092"))...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance() // not Close
	return handler.Run(ctx, client)
}

func send(context.Context, string) error { return nil }

// Before a deployment: are the topics there, and do they keep what waits?
func ExampleHandler_Check() {
	handler := &retrykafka.Handler{
		Handle: func(context.Context, *kgo.Record) error { return nil },
		Waits:  []retrykafka.Wait{{Topic: "send-1m", Delay: time.Minute}},
	}
	client, err := kgo.NewClient(append(handler.Options("orders"),
		kgo.ConsumerGroup("send"), kgo.SeedBrokers("localhost:9092"))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseAllowingRebalance()
	fmt.Println(handler.Check(context.Background(), client))
	// If the topic is compacted it prints:
	// retrykafka: topic send-1m is compacted, which drops records of one key: set cleanup.policy=delete
}
