package queues

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitHandler retries messages of RabbitMQ by a policy. RabbitMQ cannot delay a message that is
// handed back, so a message waits in a queue whose messages expire, and come back to Queue then. There
// is one for each of Waits, because messages expire only at the head of a queue.
//
// It lacks waits between these: a message takes the next longer one. And if the broker goes down
// between the copy and the acknowledgement, a message is there twice.
type RabbitHandler struct {
	Policy retry.Policy
	Queue  string
	Waits  []time.Duration // ascending
	Dead   string          // the queue of dead letters
	Gate   retryqueue.Gate
	Handle func(context.Context, amqp.Delivery) error
}

func (h *RabbitHandler) waitQueue(d time.Duration) string { return h.Queue + ".wait-" + d.String() }

// Declare declares the queues. All are quorum queues, which count crashes, and the wait queues keep a
// message until Queue has it.
func (h *RabbitHandler) Declare(ch *amqp.Channel) error {
	for _, d := range h.Waits {
		if _, err := ch.QueueDeclare(h.waitQueue(d), true, false, false, false, amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": d.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": h.Queue,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}); err != nil {
			return err
		}
	}
	for _, q := range []string{h.Queue, h.Dead} {
		if _, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			return err
		}
	}
	return nil
}

// Run consumes until ctx ends, most messages at once, and connects anew when a connection breaks. It
// returns an error if the policy gives up connecting.
func (h *RabbitHandler) Run(ctx context.Context, url string, connecting retry.Policy, most int) error {
	return retry.Supervise(ctx, connecting, time.Minute, func(ctx context.Context) error { return h.session(ctx, url, most) })
}

// session consumes until its connection ends.
func (h *RabbitHandler) session(ctx context.Context, url string, most int) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := errors.Join(ch.Confirm(false), ch.Qos(most, 0, false), h.Declare(ch)); err != nil {
		return err
	}
	msgs, err := ch.Consume(h.Queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	failed := make(chan error, 1) // a message that cannot be settled comes back with the next session
	var running sync.WaitGroup
	defer running.Wait() // before the connection is closed
	for {
		done, err := h.Gate.Wait(ctx) // what has arrived waits for it: RabbitMQ has no leases
		if err != nil {
			return err
		}
		select {
		case msg, ok := <-msgs:
			if !ok {
				done("", retry.Stop(errNone))
				return errors.New("the channel was closed")
			}
			running.Go(func() {
				if err := h.deliver(ctx, ch, msg, done); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		case err := <-failed:
			done("", retry.Stop(errNone))
			return err
		case <-ctx.Done():
			done("", retry.Stop(errNone))
			return context.Cause(ctx)
		}
	}
}

const (
	rabbitNumber = "retry-number"
	rabbitFirst  = "retry-first-ms"
)

func (h *RabbitHandler) deliver(ctx context.Context, ch *amqp.Channel, msg amqp.Delivery, done func(string, error)) error {
	number, _ := msg.Headers[rabbitNumber].(int64)
	crashes, _ := msg.Headers["x-delivery-count"].(int64)
	number = max(number, 1) + crashes
	first := msg.Timestamp // zero unless the publisher sets it
	if ms, ok := msg.Headers[rabbitFirst].(int64); ok {
		first = time.UnixMilli(ms)
	} else if first.IsZero() {
		first = time.Now()
	}
	m := retryqueue.Delivery{Number: int(number), Stored: first, Done: func(err error) { done(msg.MessageId, err) }}
	return m.Handle(ctx, h.Policy, func(ctx context.Context) error { return h.Handle(ctx, msg) }, func(ctx context.Context, d retryqueue.Decision) error {
		switch d.Action {
		case retryqueue.Undecided: // ctx has ended: another consumer gets the message at once
			return msg.Nack(false, true)
		case retryqueue.Retry:
			if !d.Uncounted {
				number++
			}
			if err := h.publish(ctx, ch, h.waitFor(d.Delay), msg, amqp.Table{rabbitNumber: number, rabbitFirst: first.UnixMilli()}); err != nil {
				return err
			}
		case retryqueue.Dead:
			if err := h.publish(ctx, ch, h.Dead, msg, amqp.Table{"retry-reason": d.Err.Reason.String(), "retry-error": d.Err.Error()}); err != nil {
				return err
			}
		}
		return msg.Ack(false)
	})
}

// waitFor returns the queue of the next longer wait.
func (h *RabbitHandler) waitFor(d time.Duration) string {
	for _, w := range h.Waits {
		if w >= d {
			return h.waitQueue(w)
		}
	}
	return h.waitQueue(h.Waits[len(h.Waits)-1])
}

// publish waits until the broker has confirmed that it has stored a copy.
func (h *RabbitHandler) publish(ctx context.Context, ch *amqp.Channel, queue string, msg amqp.Delivery, more amqp.Table) error {
	headers := amqp.Table{}
	maps.Copy(headers, msg.Headers)
	delete(headers, "x-delivery-count")
	delete(headers, "x-death")
	maps.Copy(headers, more)
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{
		Headers: headers, ContentType: msg.ContentType, ContentEncoding: msg.ContentEncoding, DeliveryMode: amqp.Persistent, Priority: msg.Priority,
		CorrelationId: msg.CorrelationId, ReplyTo: msg.ReplyTo, MessageId: msg.MessageId, Timestamp: msg.Timestamp, Type: msg.Type, AppId: msg.AppId, Body: msg.Body,
	})
	if err != nil {
		return err
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%s has not taken the message", queue))
	}
	return nil
}
