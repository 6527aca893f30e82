// Durable shows how jobs outlive the death of their consumer and of a server. It
// starts three NATS servers and a consumer, each a process of its own, publishes jobs
// that fail in different ways, and kills the consumer and the leading server
// meanwhile. Package retrynats retries the jobs. Nothing has to be installed. From the
// root of the repository:
//
//	go run ./examples/durable
//
// It takes about twenty seconds, mostly because the two remaining servers elect a
// leader. It prints what happens, and in the end every delivery of every job on one
// time axis. It exits with code 1 if a job was lost or did not end as expected.
//
// main.go has the jobs and the two deaths, consumer.go the handler and its policy, which
// is the part to copy, processes.go starts and kills, and chart.go draws.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/goretry/retry"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	if actAsChild() {
		return
	}
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		os.Exit(1)
	}
}

// job is a message, and how it is to end.
type job struct {
	name  string // its payload
	about string
	ends  string // "done", or the reason of its dead letter
}

var jobs = []job{
	{"greet-ada", "works at once", "done"},
	{"fetch-rates", "fails twice, then works", "done"},
	{"print-report", "takes 3 s, and its consumer is killed in the middle", "done"},
	{"ask-partner", "is told to come back in 4 s", "done"},
	{"import-row", "is malformed: no retry helps", "permanent"},
	{"sync-archive", "fails each time", "max_attempts"},
}

// patience is how long the program waits for what must happen.
const patience = 2 * time.Minute

// run plays the story and prints it to w.
func run(w io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var family family
	defer family.end()

	servers, err := family.startServers()
	if err != nil {
		return err
	}
	js, stream, err := publish(ctx, servers)
	if err != nil {
		return err
	}
	defer js.Conn().Close()

	fmt.Fprintf(w, "Three servers, %d jobs. The consumer's policy:\n%s.\n\n", len(jobs), policyInWords)
	for _, j := range jobs {
		fmt.Fprintf(w, "  %-13s %s\n", j.name, j.about)
	}
	fmt.Fprintln(w)

	c := newChart(w)
	first, err := family.startConsumer("first", servers, c.events)
	if err != nil {
		return err
	}
	c.begin()
	if err := c.until(ctx, func() bool { return c.running("print-report") > time.Second }); err != nil {
		return err
	}
	first.kill()
	c.died(consumerCalled("first"))
	if _, err := family.startConsumer("second", servers, c.events); err != nil {
		return err
	}
	if err := c.until(ctx, func() bool { return c.running("print-report") > time.Second }); err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	servers[info.Cluster.Leader].kill()
	c.died(info.Cluster.Leader)
	if err := c.until(ctx, c.finished); err != nil {
		return errors.Join(err, errors.New("not every job has ended"))
	}

	// The last acknowledgement reaches the server after the handler's event.
	left, err := retry.Do(ctx, patient, retry.Until(func(ctx context.Context) (uint64, error) {
		info, err := stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		return info.State.Msgs, nil
	}, func(left uint64) bool { return left == 0 }))
	c.takeAll()
	c.draw()
	if err != nil {
		return fmt.Errorf("%d jobs are left in the stream: %w", left, err)
	}
	return c.check()
}

// patient retries until the cluster answers, which may be electing a leader.
var patient = retry.Policy{
	MaxElapsed:     patience,
	AttemptTimeout: 5 * time.Second,
	Backoff:        retry.Constant(200 * time.Millisecond),
	Classify:       func(error) retry.Class { return retry.Transient },
}

// publish makes a work queue on all servers, with a consumer, and puts the jobs in.
func publish(ctx context.Context, servers servers) (jetstream.JetStream, jetstream.Stream, error) {
	js, err := connect(servers.urls())
	if err != nil {
		return nil, nil, err
	}
	stream, err := retry.Do(ctx, patient, func(ctx context.Context) (jetstream.Stream, error) {
		return js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy, Replicas: len(servers)})
	})
	if err != nil {
		return nil, nil, err
	}
	err = retry.Run(ctx, patient, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{
			Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second, MaxDeliver: -1})
		return err
	})
	for _, j := range jobs {
		if err == nil {
			err = retry.Run(ctx, patient, func(ctx context.Context) error {
				_, err := js.Publish(ctx, "jobs", []byte(j.name), jetstream.WithMsgID(j.name)) // twice is once
				return err
			})
		}
	}
	return js, stream, err
}

// connect looks for another server whenever one is lost, which is no error here.
func connect(urls string) (jetstream.JetStream, error) {
	nc, err := nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}
