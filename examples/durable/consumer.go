package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go/jetstream"
)

const policyInWords = "6 deliveries, waits of 0.5, 1, 2, 3, 3 s"

var policy = retry.Policy{
	Name:        "job",
	MaxAttempts: 6,
	Backoff:     retry.Exponential{Base: 500 * time.Millisecond, Max: 3 * time.Second, Jitter: retry.NoJitter},
}

// consume is the consumer's process: it runs until it is killed.
func consume(urls string) error {
	js, err := connect(urls)
	if err != nil {
		return err
	}
	life := context.Background()
	handler := &retrynats.Handler{Policy: policy, Handle: handle, Dead: bury}
	consuming, err := retry.Do(life, patient, func(ctx context.Context) (jetstream.ConsumeContext, error) {
		consumer, err := js.Consumer(ctx, "JOBS", "worker")
		if err != nil {
			return nil, err
		}
		//retryvet:ignore outerctx: the consumer outlives the attempt that starts it
		return handler.Consume(life, js, consumer)
	})
	if err != nil {
		return err
	}
	<-consuming.Closed()
	return nil
}

// handle does a job, or fails as the job is meant to.
func handle(ctx context.Context, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	name, delivery := string(msg.Data()), int(meta.NumDelivered)
	tell(event{Job: name, Delivery: delivery, What: began})
	err = work(ctx, name, delivery)
	if err != nil {
		tell(event{Job: name, Delivery: delivery, What: failed, Why: err.Error()})
		return err
	}
	tell(event{Job: name, Delivery: delivery, What: done})
	return nil
}

func work(ctx context.Context, name string, delivery int) error {
	busy := 200 * time.Millisecond
	if name == "print-report" {
		busy = 3 * time.Second
	}
	select {
	case <-time.After(busy):
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case name == "fetch-rates" && delivery <= 2, name == "sync-archive":
		return errors.New("connection refused")
	case name == "ask-partner" && delivery == 1:
		return retry.After(errors.New("too many requests"), 4*time.Second)
	case name == "import-row":
		return retry.Stop(errors.New("column 3 is no number"))
	}
	return nil
}

// bury stores a dead letter, here only in the chart. A real program would publish it
// to a stream, with an id that makes repeating it harmless.
func bury(_ context.Context, msg jetstream.Msg, e *retry.Error) error {
	tell(event{Job: string(msg.Data()), Delivery: e.Attempts, What: dead, Reason: e.Reason.String(), Why: e.Error()})
	return nil
}

// event is what a consumer tells its parent.
type event struct {
	Job      string
	Delivery int
	What     what
	Reason   string // of a dead letter
	Why      string
	At       time.Time
}

type what string

const (
	began  what = "began"
	failed what = "failed"
	done   what = "done"
	dead   what = "dead"
)

var telling sync.Mutex

func tell(e event) {
	telling.Lock()
	defer telling.Unlock()
	e.At = time.Now()
	_ = json.NewEncoder(os.Stdout).Encode(e)
}
