package retrykafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Handler consumes records and retries them by a policy. One Handler may serve several clients at
// once. Do not change it after the first call of Options. All of its funcs are called concurrently.
type Handler struct {
	// Policy decides about each record. MaxElapsed counts from the record's timestamp, and
	// AttemptTimeout limits Handle, on its Clock. To its Hooks each delivery is a run. What its
	// Classify has no opinion on is judged by [retryqueue.Patient].
	Policy retry.Policy

	// Context returns the context of a delivery, derived from ctx, which ends with that of Run and
	// with the assignment of the partition. So a delivery can be a part of the trace that the record was
	// published in. Nil, and a Context that returns nil, mean ctx. It is not called for a record that is
	// dead without another run of Handle: such a one may have ended its process in Context.
	Context func(ctx context.Context, r *kgo.Record) context.Context

	// Handle does the record's work, and returns nil for a success. At each delivery it gets the
	// record as it was published: with its own topic, partition, offset, timestamp and headers,
	// also if it comes from a wait topic. It may change the record, or produce it elsewhere, but not
	// the bytes of key, value and headers. It is called for one record of a partition at a time, and
	// maybe more than once for a record. Its context ends with that of Run, when the partition goes to
	// another client, and with Policy.AttemptTimeout.
	Handle func(context.Context, *kgo.Record) error

	// Waits are the topics in which records wait for their next delivery, with ascending delays:
	// let neighbours differ by ten times at most. They belong to one consumer group. Without
	// Waits a record waits in its place, and all behind it in its partition do. That keeps the
	// order.
	Waits []Wait

	// Dead is the topic of records that will not be delivered again. If it is empty they are
	// dropped.
	Dead string

	// Report gets the errors that no delivery has: of fetches, and of commits and copies that could
	// not be written. All of these are tried again. Nil means none.
	Report func(error)

	// Gate keeps records in their topics while what Handle depends on is down. Share one Gate among
	// all that depend on it. While it is closed each partition waits for its turn. No lease ends
	// meanwhile, and no rebalance comes of it. Nil means none.
	Gate *retryqueue.Gate

	partitions
}

// Wait is a topic in which a record waits for Delay. A longer wait takes several rounds, and a wait
// that is shorter than the first topic's may take as long as that.
type Wait struct {
	Topic string
	Delay time.Duration
}

// patience is how long an end may take without a broker, half of it for calls that are underway
// and half for the last commit, and how long a call may take before it is reported.
const patience = 5 * time.Second

// Options returns the options that a client for Run needs beside its brokers and its ConsumerGroup.
// The client consumes topics, and Waits. Options that follow these may change them, within what Check
// allows.
func (h *Handler) Options(topics ...string) []kgo.Opt {
	topics = slices.Clone(topics)
	for _, w := range h.Waits {
		topics = append(topics, w.Topic)
	}
	return []kgo.Opt{
		kgo.ConsumeTopics(topics...),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(250 * time.Millisecond), // a partition that was paused is fetched only after the request that goes on
		kgo.OnOffsetsFetched(h.fetched),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, parts map[string][]int32) {
			h.leave(ctx, cl, h.end(cl, parts))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, cl *kgo.Client, parts map[string][]int32) { h.end(cl, parts) }),
	}
}

// Run calls Check and returns its error. Then it consumes until ctx ends, and returns the cause, or
// until cl is closed, and returns [kgo.ErrClientClosed]. Before it returns, running handlers are
// canceled, and what has succeeded is committed. That takes as long as handlers run, and five seconds
// more if no broker answers. A deadline of ctx ends Run in the same way. The contexts of handlers do
// not have it.
//
// Run may be called again with the same client. Close the client by
// [kgo.Client.CloseAllowingRebalance]: Close hangs while Run polls.
func (h *Handler) Run(ctx context.Context, cl *kgo.Client) error {
	if err := h.Check(ctx, cl); err != nil {
		return err
	}
	// The workers do not see the deadline: a run of package retry ends at once if its next wait is beyond
	// it, but what cannot be written is to be tried until then.
	until, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	defer cl.AllowRebalance()
	defer func() {
		// A rebalance waits for the workers that it finds, so it must not come between: a poll holds
		// it up until AllowRebalance, or waits for one that goes on. This one returns no records.
		stop(nil)
		cl.PollFetches(until)
		marks := h.end(cl, nil)
		h.leave(context.WithoutCancel(ctx), cl, marks)
		h.rewind(cl, marks)
	}()
	for {
		fetches := cl.PollFetches(until)
		if fetches.IsClientClosed() {
			return kgo.ErrClientClosed
		}
		// Also if until has ended meanwhile: a partition without a worker has no place to go back to.
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				h.worker(until, place{cl, p.Topic, p.Partition}, p.Records[0]).arrived.add(p.Records)
			}
		})
		if until.Err() != nil {
			return context.Cause(until)
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			h.report(fmt.Errorf("retrykafka: fetch of %s/%d: %w", topic, partition, err))
		})
		cl.AllowRebalance()
		if fetches.NumRecords() == 0 { // it has failed
			select {
			case <-until.Done():
			case <-time.After(time.Second / 10):
			}
		}
	}
}

func (h *Handler) report(err error) {
	if h.Report != nil {
		h.Report(err)
	}
}
