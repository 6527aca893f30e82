package retrynats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	js, consumer, end := workQueue("invoice", "letter to nobody")
	defer end()

	ended := make(chan string)
	handler := &retrynats.Handler{
		Policy: retry.Policy{Name: "send", MaxAttempts: 5, Backoff: retry.Constant(10 * time.Millisecond)},
		Handle: func(ctx context.Context, msg jetstream.Msg) error {
			switch {
			case string(msg.Data()) == "letter to nobody":
				return retry.Stop(errors.New("no such address"))
			case retry.AttemptNumber(ctx) < 3:
				return errors.New("connection refused")
			}
			ended <- fmt.Sprintf("%s: sent on delivery %d", msg.Data(), retry.AttemptNumber(ctx))
			return nil
		},
		Dead: func(_ context.Context, msg jetstream.Msg, e *retry.Error) error {
			ended <- fmt.Sprintf("%s: dead: %v after %d: %v", msg.Data(), e.Reason, e.Attempts, e.Last())
			return nil
		},
	}
	consuming, err := handler.Consume(ctx, js, consumer)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-ended)
	fmt.Println(<-ended)

	cancel()
	<-consuming.Closed() // the server was told of the last message
	// Unordered output:
	// letter to nobody: dead: permanent after 1: no such address
	// invoice: sent on delivery 3
}

func ExampleHandler_Check() {
	ctx := context.Background()
	js, _, end := workQueue()
	defer end()
	consumer, err := js.UpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 3,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := &retrynats.Handler{Policy: retry.Policy{MaxAttempts: 5}}
	fmt.Println(handler.Check(ctx, js, consumer))
	// Output: retrynats: consumer worker of stream JOBS: MaxDeliver is 3, and the policy allows 5 deliveries: set MaxDeliver -1
}

// workQueue starts a server with these messages in a work queue.
func workQueue(messages ...string) (js jetstream.JetStream, c jetstream.Consumer, end func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "retrynats")
	check(err)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoSigs: true})
	check(err)
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("the server does not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	check(err)
	js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	check(err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy})
	check(err)
	c, err = js.CreateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy})
	check(err)
	for _, m := range messages {
		_, err := js.Publish(ctx, "jobs", []byte(m))
		check(err)
	}
	return js, c, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
