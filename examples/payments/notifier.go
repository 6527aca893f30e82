package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrynats"
)

// runNotifier tells a third party of each payment, at least once.
func runNotifier(ctx context.Context, c config, log retry.Hooks) error {
	nc, js, err := connect(c)
	if err != nil {
		return err
	}
	defer nc.Close()
	// Two short attempts here. The queue does the rest, for about two days.
	webhook := retry.Policy{Name: "webhook", Hooks: log, Budget: new(retry.EarnedBudget), MaxAttempts: 2, AttemptTimeout: 2 * time.Second,
		MaxRetryAfter: 300 * time.Millisecond, Backoff: retry.Exponential{Base: 50 * time.Millisecond, Max: 200 * time.Millisecond}}
	handler := &retrynats.Handler{
		Policy: retry.Policy{Name: "notify", Hooks: log, MaxAttempts: 10_000, MaxRetryAfter: 24 * time.Hour,
			Backoff: retry.Exponential{Base: 300 * time.Millisecond, Max: 30 * time.Second}},
		Context: func(ctx context.Context, msg jetstream.Msg) context.Context {
			return traces.Extract(ctx, propagation.HeaderCarrier(msg.Headers()))
		},
		Handle: func(ctx context.Context, msg jetstream.Msg) error {
			req, err := http.NewRequest(http.MethodPost, c.ThirdParty, nil)
			if err != nil {
				return retry.Stop(err)
			}
			req.Header.Set("Idempotency-Key", `"`+string(msg.Data())+`"`)
			traces.Inject(ctx, propagation.HeaderCarrier(req.Header))
			_, err = retryhttp.JSON[struct{}](ctx, webhook, nil, req)
			return err
		},
		Dead: func(ctx context.Context, msg jetstream.Msg, e *retry.Error) error {
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			id := fmt.Sprintf("%s-%d", meta.Stream, meta.Sequence.Stream) // Dead may run twice
			_, err = js.Publish(ctx, "dead.payments", msg.Data(), jetstream.WithMsgID(id))
			return err
		},
	}
	// When ctx ends, messages that have arrived are handled, and no more arrive.
	work, cancel := untilGrace(ctx)
	defer cancel()
	// A subscription may end, with a server that was restarted: then begin anew.
	err = retry.Supervise(ctx, startup(log), 2*time.Second, func(ctx context.Context) error {
		if _, err := stream(ctx, js); err != nil {
			return err
		}
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}}); err != nil {
			return err
		}
		consumer, err := js.CreateOrUpdateConsumer(ctx, "PAYMENTS", jetstream.ConsumerConfig{Durable: "notifier",
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: 5 * time.Second, MaxDeliver: -1, MaxAckPending: 2000})
		if err != nil {
			return err
		}
		consuming, err := handler.Consume(work, js, consumer, jetstream.PullMaxMessages(128), jetstream.PullExpiry(4*time.Second),
			jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { logger(os.Stderr).Warn("subscription", "err", err) }))
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, consuming.Drain)()
		<-consuming.Closed()
		return nats.ErrConnectionClosed
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
