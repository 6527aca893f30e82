package queues

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

// SQS is what an [SQSHandler] needs of *sqs.Client.
type SQS interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// SQSHandler retries messages of Amazon SQS by a policy. A redrive policy's maxReceiveCount must be
// above Policy.MaxAttempts, and the retention period above Policy.MaxElapsed. A message is hidden for
// twelve hours at most after it was received, so keep the backoff's Max below that: a longer wait
// comes back early.
//
// It lacks batches: it receives one message at a time, and SQS charges for requests.
type SQSHandler struct {
	Client SQS
	Queue  string // its URL
	Policy retry.Policy
	Gate   retryqueue.Gate // keeps messages in the queue while what Handle needs is down
	Handle func(context.Context, types.Message) error
	Dead   func(context.Context, types.Message, *retry.Error) error // must have stored it when it returns nil
}

const (
	lease  = 30 * time.Second // of a message, which Deliver renews
	hidden = 12 * time.Hour   // how long SQS can hide a message, counted from when it was received
)

// Run receives messages until ctx ends, one after the other. Call it in as many goroutines as
// messages are to be handled at once. It returns an error if the policy gives up receiving.
func (h *SQSHandler) Run(ctx context.Context, receiving retry.Policy) error {
	return retry.Supervise(ctx, receiving, 0, func(ctx context.Context) error {
		for {
			done, err := h.Gate.Wait(ctx) // before the receive: what is not received is not counted
			if err != nil {
				return err
			}
			msg, received, err := h.receive(ctx)
			if msg == nil || err != nil {
				done("", retry.Stop(errNone)) // it says nothing about what Handle needs
				if err != nil {
					return err
				}
				continue
			}
			if err := h.deliver(ctx, *msg, received, done); err != nil {
				return err
			}
		}
	})
}

func (h *SQSHandler) receive(ctx context.Context) (*types.Message, time.Time, error) {
	out, err := h.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(h.Queue), MaxNumberOfMessages: 1, WaitTimeSeconds: 20, VisibilityTimeout: int32(lease.Seconds()),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp,
		},
	})
	if err != nil || len(out.Messages) == 0 {
		return nil, time.Time{}, err
	}
	return &out.Messages[0], time.Now(), nil
}

// Deliver handles a message that was received at received. What it cannot tell the
// queue it returns: the message then comes back after the visibility timeout.
func (h *SQSHandler) Deliver(ctx context.Context, msg types.Message, received time.Time) error {
	return h.deliver(ctx, msg, received, func(string, error) {})
}

func (h *SQSHandler) deliver(ctx context.Context, msg types.Message, received time.Time, done func(string, error)) error {
	number, _ := strconv.Atoi(msg.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	sent, _ := strconv.ParseInt(msg.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	first := time.UnixMilli(sent)
	if sent == 0 {
		first = time.Time{}
	}
	stop := keep(ctx, lease/3, func(ctx context.Context) error { return h.hide(ctx, msg, lease) })
	defer stop()
	delivery := retryqueue.Delivery{Number: number, Counted: true, Stored: first, Done: func(err error) { done(aws.ToString(msg.MessageId), err) }}
	return delivery.Handle(ctx, h.Policy, func(ctx context.Context) error { return h.Handle(ctx, msg) }, func(ctx context.Context, d retryqueue.Decision) error {
		stop()
		return h.settle(ctx, msg, received, d)
	})
}

// settle tells the queue what was decided.
func (h *SQSHandler) settle(ctx context.Context, msg types.Message, received time.Time, d retryqueue.Decision) error {
	switch d.Action {
	case retryqueue.Undecided: // ctx has ended: another consumer gets the message at once
		return h.hide(ctx, msg, 0)
	case retryqueue.Retry:
		return h.hide(ctx, msg, min(d.Delay, max(hidden-time.Since(received)-time.Second, 0)))
	case retryqueue.Dead:
		if err := h.Dead(ctx, msg, d.Err); err != nil {
			return err
		}
	}
	_, err := h.Client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: aws.String(h.Queue), ReceiptHandle: msg.ReceiptHandle})
	return err
}

func (h *SQSHandler) hide(ctx context.Context, msg types.Message, d time.Duration) error {
	_, err := h.Client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: aws.String(h.Queue), ReceiptHandle: msg.ReceiptHandle,
		VisibilityTimeout: int32(math.Ceil(d.Seconds())), // up: never early
	})
	return err
}
