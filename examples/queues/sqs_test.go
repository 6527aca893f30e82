package queues_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// fakeSQS is a queue that notes what it is told.
type fakeSQS struct {
	told []string

	mu       sync.Mutex
	waiting  map[string]*waitingSQS
	receives int
}

type waitingSQS struct {
	visible time.Time
	count   int
}

func (f *fakeSQS) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.receives++
	for end := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		for id, m := range f.waiting {
			if !m.visible.After(time.Now()) {
				m.count++
				m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
				return &sqs.ReceiveMessageOutput{Messages: []types.Message{{MessageId: &id, ReceiptHandle: &id, Attributes: map[string]string{
					string(in.MessageSystemAttributeNames[0]): strconv.Itoa(m.count),
				}}}}, nil
			}
		}
		f.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		f.mu.Lock()
	}
	return &sqs.ReceiveMessageOutput{}, ctx.Err()
}

func (f *fakeSQS) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, "delete "+*in.ReceiptHandle+" of "+*in.QueueUrl)
	delete(f.waiting, *in.ReceiptHandle)
	return nil, nil
}

func (f *fakeSQS) ChangeMessageVisibility(_ context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprint("hide ", *in.ReceiptHandle, " of ", *in.QueueUrl, " for ", in.VisibilityTimeout))
	if m := f.waiting[*in.ReceiptHandle]; m != nil {
		m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
	}
	return nil, nil
}

// A handler that takes longer than a lease runs once: its message is kept.
func TestSQSKeepsItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fakeSQS{waiting: map[string]*waitingSQS{"m": {}}}
		ctx, cancel := context.WithCancel(t.Context())
		var runs atomic.Int32
		h := &queues.SQSHandler{Client: client, Queue: "q", Policy: retry.Policy{MaxAttempts: 5}, Handle: func(context.Context, types.Message) error {
			runs.Add(1)
			time.Sleep(5 * time.Minute)
			return nil
		}}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = h.Run(ctx, retry.Policy{}) })
		}
		time.Sleep(15 * time.Minute)
		cancel()
		all.Wait()
		if runs.Load() != 1 || len(client.waiting) != 0 {
			t.Errorf("it ran %d times, and %d messages are left, want once and none", runs.Load(), len(client.waiting))
		}
	})
}

// While what the handler needs is down, few messages are received, and none is lost: also if it does not
// answer, so that handlers time out.
func TestSQSGate(t *testing.T) {
	for name, fails := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { time.Sleep(100 * time.Millisecond); return errDown },
		"timeout": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testSQSGate(t, fails) }) })
	}
}

func testSQSGate(t *testing.T, fails func(context.Context) error) {
	client := &fakeSQS{waiting: map[string]*waitingSQS{}}
	for i := range 100 {
		client.waiting[fmt.Sprint("m", i)] = &waitingSQS{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var down atomic.Bool
	var calls atomic.Int32
	down.Store(true)
	h := &queues.SQSHandler{Client: client, Queue: "q",
		Policy: retry.Policy{MaxAttempts: 12, Backoff: retry.Constant(time.Second), AttemptTimeout: time.Second},
		Handle: func(ctx context.Context, _ types.Message) error {
			if calls.Add(1); down.Load() {
				return fails(ctx)
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		},
		Dead: func(context.Context, types.Message, *retry.Error) error { t.Error("a message is dead"); return nil },
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { _ = h.Run(ctx, retry.Policy{}) })
	}
	time.Sleep(30 * time.Minute)
	if n := calls.Load(); n > 100 {
		t.Errorf("%d calls failed in half an hour", n)
	}
	down.Store(false)
	time.Sleep(5 * time.Minute)
	cancel()
	all.Wait()
	if len(client.waiting) != 0 {
		t.Errorf("%d messages are left", len(client.waiting))
	}
}

// A message whose consumer is shut down goes to another one.
func TestSQSAfterTheEnd(t *testing.T) {
	client := &fakeSQS{}
	h := &queues.SQSHandler{Client: client, Queue: "q", Handle: func(context.Context, types.Message) error { return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := h.Deliver(ctx, types.Message{ReceiptHandle: aws.String("r")}, time.Now())
	if got := strings.Join(client.told, ", "); err != nil || got != "hide r of q for 0" {
		t.Errorf("Deliver() = %v, and SQS was told %s, want only to show it", err, got)
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
		{name: "longer than SQS hides", count: 1, err: errDown, policy: retry.Policy{Backoff: retry.Constant(13 * time.Hour)}, takes: 5 * time.Second,
			want: "hide r of q for 43194"},
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
