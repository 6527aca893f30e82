package queues_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRabbitMQ(t *testing.T) {
	url := startRabbit(t)
	r := newRuns()
	h := &queues.RabbitHandler{
		Queue: "work", Waits: []time.Duration{500 * time.Millisecond, 2 * time.Second}, Dead: "dead",
		Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(500 * time.Millisecond)},
	}
	breaks := make(chan struct{}, 100)
	h.Handle = func(_ context.Context, m amqp.Delivery) error {
		if string(m.Body) != "breaks" {
			return r.handle(string(m.Body))
		}
		if breaks <- struct{}{}; !m.Redelivered {
			_ = m.Reject(true) // and once more, by the settlement: the broker closes the channel
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- h.Run(ctx, url, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(100 * time.Millisecond)}, 4)
	}()

	conn := retryDial(t, url)
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Declare(ch), ch.Confirm(false)); err != nil {
		t.Fatal(err)
	}
	publish := func(what string) {
		t.Helper()
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "work", true, false, amqp.Publishing{Body: []byte(what), DeliveryMode: amqp.Persistent})
		if err != nil || !c.Wait() {
			t.Fatal(err)
		}
	}
	publish("breaks")
	<-breaks
	<-breaks // by the next session, or just before the first ends
	want := map[string]int{"good": 1, "hint": 2, "not yet": 4, "malformed": 1, "down": 3}
	for what := range want {
		publish(what)
	}
	r.wait(t, 1+2+4+1+3)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		q, err := ch.QueueDeclarePassive("dead", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Messages == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d dead letters, want 2", q.Messages)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v", err)
	}
	r.want(t, want)
}

func retryDial(t *testing.T, url string) *amqp.Connection {
	t.Helper()
	conn, err := retry.Do(t.Context(), retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Minute, Backoff: retry.Constant(100 * time.Millisecond)},
		func(context.Context) (*amqp.Connection, error) { return amqp.Dial(url) })
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
