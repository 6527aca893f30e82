package queues

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

// PubSubHandler retries messages of Google Pub/Sub by a policy. It takes the generated client,
// because the other one cannot hand a message back with a delay. The subscription needs a
// dead-letter policy, without which Pub/Sub counts no deliveries, with more MaxDeliveryAttempts than
// Policy.MaxAttempts, and no retry policy.
//
// It lacks waits above ten minutes, the longest that Pub/Sub knows: keep the backoff's Max below that.
type PubSubHandler struct {
	Client       *pubsub.SubscriptionAdminClient
	Subscription string
	Policy       retry.Policy
	Gate         retryqueue.Gate
	Handle       func(context.Context, *pubsubpb.PubsubMessage) error
	Dead         func(context.Context, *pubsubpb.PubsubMessage, *retry.Error) error // must have stored it when it returns nil
}

const longestPubSub = 600 * time.Second

// Pull handles a batch of messages, all at once. What it cannot tell Pub/Sub it returns: the messages
// then come back after lease.
func (h *PubSubHandler) Pull(ctx context.Context, most int32) error {
	resp, err := h.Client.Pull(ctx, &pubsubpb.PullRequest{Subscription: h.Subscription, MaxMessages: most})
	if err != nil {
		return err
	}
	errs := make([]error, len(resp.ReceivedMessages))
	var all sync.WaitGroup
	for i, m := range resp.ReceivedMessages {
		// All leases are kept from now on, also those of messages that wait for the gate.
		stop := keep(ctx, lease/3, func(ctx context.Context) error { return h.hide(ctx, m, lease) })
		all.Go(func() {
			defer stop()
			errs[i] = h.deliver(ctx, m, stop)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (h *PubSubHandler) deliver(ctx context.Context, m *pubsubpb.ReceivedMessage, stop func()) error {
	if m.DeliveryAttempt == 0 {
		return errors.New("the subscription has no dead-letter policy, and counts no deliveries")
	}
	done, err := h.Gate.Wait(ctx)
	if err != nil {
		stop()
		return h.hide(context.WithoutCancel(ctx), m, 0)
	}
	delivery := retryqueue.Delivery{
		Number: int(m.DeliveryAttempt), Counted: true, Stored: m.Message.PublishTime.AsTime(),
		Done: func(err error) { done(m.Message.MessageId, err) },
	}
	return delivery.Handle(ctx, h.Policy, func(ctx context.Context) error { return h.Handle(ctx, m.Message) }, func(ctx context.Context, d retryqueue.Decision) error {
		stop()
		switch d.Action {
		case retryqueue.Undecided: // ctx has ended: another consumer gets the message at once
			return h.hide(ctx, m, 0)
		case retryqueue.Retry:
			return h.hide(ctx, m, min(d.Delay, longestPubSub))
		case retryqueue.Dead:
			if err := h.Dead(ctx, m.Message, d.Err); err != nil {
				return err
			}
		}
		return h.Client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: h.Subscription, AckIds: []string{m.AckId}})
	})
}

func (h *PubSubHandler) hide(ctx context.Context, m *pubsubpb.ReceivedMessage, d time.Duration) error {
	return h.Client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: h.Subscription, AckIds: []string{m.AckId}, AckDeadlineSeconds: int32(math.Ceil(d.Seconds())),
	})
}
