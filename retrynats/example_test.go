package retrynats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A worker: it handles messages of a work queue until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx); err != nil {
		fmt.Println(err)
	}
}

func work(ctx context.Context) error {
	conn, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1,
	})
	if err != nil {
		return err
	}

	handler := &retrynats.Handler{
		Policy: retry.Policy{Name: "send", MaxAttempts: 12, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}},
		Handle: func(ctx context.Context, msg jetstream.Msg) error {
			if len(msg.Data()) == 0 {
				return retry.Stop(errors.New("no address"))
			}
			return send(ctx, string(msg.Data()))
		},
		Dead: func(ctx context.Context, msg jetstream.Msg, e *retry.Error) error {
			_, err := js.Publish(ctx, "dead", msg.Data()) // in a stream that keeps what was given up
			return err
		},
	}
	consuming, err := handler.Consume(ctx, js, consumer, jetstream.ConsumeErrHandler(
		func(_ jetstream.ConsumeContext, err error) { fmt.Println("subscription:", err) }))
	if err != nil {
		return err
	}
	<-consuming.Closed() // the server was told of the last message
	return nil
}

func send(context.Context, string) error { return nil }

// Before a deployment: does the consumer let the policy do what it says?
func ExampleHandler_Check() {
	ctx := context.Background()
	conn, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		fmt.Println(err)
		return
	}
	consumer, err := js.Consumer(ctx, "JOBS", "worker")
	if err != nil {
		fmt.Println(err)
		return
	}

	handler := &retrynats.Handler{Policy: retry.Policy{MaxAttempts: 5}}
	fmt.Println(handler.Check(ctx, js, consumer))
	// With MaxDeliver 3 it prints:
	// retrynats: consumer worker of stream JOBS: MaxDeliver is 3, and the policy allows 5 deliveries: set MaxDeliver -1
}
