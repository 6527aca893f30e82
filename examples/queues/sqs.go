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
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// SQSHandler retries messages of Amazon SQS by a policy. ReceiveMessage must ask for the
// system attributes ApproximateReceiveCount and SentTimestamp. A redrive policy's
// maxReceiveCount must be above Policy.MaxAttempts, and the retention period above
// Policy.MaxElapsed. A message is hidden for twelve hours at most after it was received,
// so keep the backoff's Max below that: a longer wait comes back early.
type SQSHandler struct {
	Client SQS
	Queue  string // its URL
	Policy retry.Policy
	Handle func(context.Context, types.Message) error
	Dead   func(context.Context, types.Message, *retry.Error) error // must have stored it when it returns nil
}

// hidden is how long SQS can hide a message, counted from when it was received.
const hidden = 12 * time.Hour

// Deliver handles a message that was received at received. What it cannot tell the
// queue it returns: the message then comes back after the visibility timeout.
func (h *SQSHandler) Deliver(ctx context.Context, msg types.Message, received time.Time) error {
	number, _ := strconv.Atoi(msg.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	sent, _ := strconv.ParseInt(msg.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	first := time.UnixMilli(sent)
	if sent == 0 {
		first = time.Time{}
	}
	delivery := retryqueue.Delivery{Number: number, Counted: true, Stored: first}
	return delivery.Handle(ctx, h.Policy, func(ctx context.Context) error { return h.Handle(ctx, msg) },
		func(ctx context.Context, d retryqueue.Decision) error { return h.settle(ctx, msg, received, d) })
}

// settle tells the queue what was decided.
func (h *SQSHandler) settle(ctx context.Context, msg types.Message, received time.Time, d retryqueue.Decision) error {
	switch d.Action {
	case retryqueue.Undecided: // ctx has ended
		return context.Cause(ctx)
	case retryqueue.Retry:
		wait := min(d.Delay, max(hidden-time.Since(received)-time.Second, 0))
		_, err := h.Client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: aws.String(h.Queue), ReceiptHandle: msg.ReceiptHandle,
			VisibilityTimeout: int32(math.Ceil(wait.Seconds())), // up: never early
		})
		return err
	case retryqueue.Dead:
		if err := h.Dead(ctx, msg, d.Err); err != nil {
			return err
		}
	}
	_, err := h.Client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: aws.String(h.Queue), ReceiptHandle: msg.ReceiptHandle})
	return err
}
