package queues_test

import (
	"context"
	"log"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	"github.com/hibiken/asynq"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
)

var policy = retry.Policy{Name: "send", MaxAttempts: 12, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}}

func ExampleAsynqMiddleware() {
	mux := asynq.NewServeMux()
	mux.Use(queues.AsynqMiddleware(policy, enqueued))
	mux.HandleFunc("send", send)
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: "localhost:6379"}, asynq.Config{
		RetryDelayFunc: queues.AsynqDelay,
		IsFailure:      queues.AsynqIsFailure,
	})
	if err := server.Run(mux); err != nil {
		log.Fatal(err)
	}
}

func ExampleTemporalInterceptor() {
	c, err := client.Dial(client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w := worker.New(c, "send", worker.Options{Interceptors: []interceptor.WorkerInterceptor{
		&queues.TemporalInterceptor{Policy: func(activityType string) retry.Policy { return policy }},
	}})
	if err := w.Run(worker.InterruptCh()); err != nil {
		log.Print(err)
	}
}

func enqueued(*asynq.Task) time.Time { return time.Time{} } // unknown: the policy has no MaxElapsed

func send(context.Context, *asynq.Task) error { return nil }
