package queues_test

import (
	"context"
	"strings"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/queues"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// startPubSub returns a fake of Pub/Sub with a topic and a subscription.
func startPubSub(t *testing.T, counts bool) (*pstest.Server, *pubsub.SubscriptionAdminClient, string) {
	t.Helper()
	srv := pstest.NewServer()
	t.Cleanup(func() { srv.Close() })
	conn, err := grpc.NewClient(srv.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	topics, err := pubsub.NewTopicAdminClient(t.Context(), option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	subs, err := pubsub.NewSubscriptionAdminClient(t.Context(), option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { subs.Close() })
	for _, n := range []string{"t", "dead"} {
		if _, err := topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/p/topics/" + n}); err != nil {
			t.Fatal(err)
		}
	}
	s := &pubsubpb.Subscription{Name: "projects/p/subscriptions/s", Topic: "projects/p/topics/t", AckDeadlineSeconds: 10}
	if counts {
		s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: "projects/p/topics/dead", MaxDeliveryAttempts: 100}
	}
	if _, err := subs.CreateSubscription(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return srv, subs, s.Name
}

func TestPubSub(t *testing.T) {
	srv, subs, name := startPubSub(t, true)
	r := newRuns()
	h := &queues.PubSubHandler{
		Client: subs, Subscription: name, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second)},
		Handle: func(_ context.Context, m *pubsubpb.PubsubMessage) error { return r.handle(string(m.Data)) },
		Dead: func(_ context.Context, m *pubsubpb.PubsubMessage, e *retry.Error) error {
			r.died(string(m.Data), e.Reason)
			return nil
		},
	}
	for _, what := range []string{"good", "hint", "malformed", "down"} {
		srv.Publish("projects/p/topics/t", []byte(what), nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	pulled := make(chan struct{})
	go func() {
		defer close(pulled)
		for ctx.Err() == nil {
			pull, done := context.WithTimeout(ctx, time.Second)
			_ = h.Pull(pull, 10) // it fails if there is nothing
			done()
			time.Sleep(50 * time.Millisecond)
		}
	}()
	r.wait(t, 1+2+1+3+2)
	cancel()
	<-pulled
	r.want(t, map[string]int{"good": 1, "hint": 2, "malformed": 1, "down": 3})
}

// Without a dead-letter policy Pub/Sub counts nothing, and a message would be delivered for ever.
func TestPubSubThatDoesNotCount(t *testing.T) {
	srv, subs, name := startPubSub(t, false)
	srv.Publish("projects/p/topics/t", []byte("down"), nil)
	h := &queues.PubSubHandler{Client: subs, Subscription: name}
	if err := h.Pull(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "counts no deliveries") {
		t.Errorf("Pull() = %v, want an error", err)
	}
}

// The leases of a whole batch are kept from the pull on, also of messages that wait for a gate: else
// they would run in another process too.
func TestPubSubKeepsABatch(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a lease to end")
	}
	srv, subs, name := startPubSub(t, true)
	r := newRuns()
	h := &queues.PubSubHandler{
		Client: subs, Subscription: name, Policy: retry.Policy{MaxAttempts: 9},
		Handle: func(_ context.Context, m *pubsubpb.PubsubMessage) error {
			time.Sleep(12 * time.Second) // the subscription's deadline is ten
			return r.handle(string(m.Data))
		},
	}
	for _, what := range []string{"a", "b", "c", "d", "e"} {
		srv.Publish("projects/p/topics/t", []byte(what), nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	pulled := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { pulled <- struct{}{} }()
			for ctx.Err() == nil {
				pull, done := context.WithTimeout(ctx, 20*time.Second)
				_ = h.Pull(pull, 10)
				done()
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}
	r.wait(t, 5)
	cancel()
	<-pulled
	<-pulled
	r.want(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})
}
