package queues_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
)

var (
	_ queues.SQS = (*sqs.Client)(nil)

	errDown = errors.New("down")
)

// fakeSQS notes what it is told.
type fakeSQS struct{ told []string }

func (f *fakeSQS) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	f.told = append(f.told, "delete "+*in.ReceiptHandle+" of "+*in.QueueUrl)
	return nil, nil
}

func (f *fakeSQS) ChangeMessageVisibility(_ context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	f.told = append(f.told, fmt.Sprint("hide ", *in.ReceiptHandle, " of ", *in.QueueUrl, " for ", in.VisibilityTimeout))
	return nil, nil
}

// A message whose consumer is shut down stays in the queue.
func TestSQSAfterTheEnd(t *testing.T) {
	client := &fakeSQS{}
	h := &queues.SQSHandler{Client: client, Queue: "q", Handle: func(context.Context, types.Message) error { return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Deliver(ctx, types.Message{}, time.Now()); !errors.Is(err, context.Canceled) || client.told != nil {
		t.Errorf("Deliver() = %v, and SQS was told %v, want context.Canceled, and nothing", err, client.told)
	}
}

func TestSQS(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  retry.Policy
		count   int
		age     time.Duration
		err     error
		takes   time.Duration
		deadErr error
		want    string
	}{
		{name: "success", count: 1, want: "delete r of q"},
		{name: "retry", count: 2, err: errDown, policy: retry.Policy{Backoff: retry.Linear{Base: time.Minute, Max: time.Hour, Jitter: retry.NoJitter}},
			want: "hide r of q for 120"},
		{name: "part of a second", count: 1, err: errDown, policy: retry.Policy{Backoff: retry.Constant(1500 * time.Millisecond)}, want: "hide r of q for 2"},
		{name: "longer than SQS hides", count: 1, err: errDown, policy: retry.Policy{Backoff: retry.Constant(13 * time.Hour)}, takes: time.Hour,
			want: "hide r of q for 39599"},
		{name: "dead", count: 3, err: errDown, want: "dead letter after 3: max_attempts, delete r of q"},
		{name: "too old", count: 2, age: time.Hour, err: errDown, policy: retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Constant(1)},
			want: "dead letter after 2: max_elapsed, delete r of q"},
		{name: "crashed each time", count: 4, want: "dead letter after 3: max_attempts, delete r of q"},
		{name: "dead letter not stored", count: 3, err: errDown, deadErr: errDown, want: "dead letter after 3: max_attempts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &fakeSQS{}
				h := &queues.SQSHandler{Client: client, Queue: "q", Policy: tt.policy,
					Handle: func(context.Context, types.Message) error {
						time.Sleep(tt.takes)
						return tt.err
					},
					Dead: func(_ context.Context, _ types.Message, e *retry.Error) error {
						client.told = append(client.told, fmt.Sprintf("dead letter after %d: %v", e.Attempts, e.Reason))
						return tt.deadErr
					},
				}
				msg := types.Message{ReceiptHandle: aws.String("r"), Attributes: map[string]string{
					"ApproximateReceiveCount": strconv.Itoa(tt.count),
					"SentTimestamp":           strconv.FormatInt(time.Now().Add(-tt.age).UnixMilli(), 10),
				}}
				if err := h.Deliver(t.Context(), msg, time.Now()); err != tt.deadErr {
					t.Errorf("Deliver() = %v, want %v", err, tt.deadErr)
				}
				if got := strings.Join(client.told, ", "); got != tt.want {
					t.Errorf("SQS was told %s, want %s", got, tt.want)
				}
			})
		})
	}
}
