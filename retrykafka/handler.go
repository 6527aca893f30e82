package retrykafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Handler consumes records and retries them by a policy. One Handler may serve several clients at
// once. Do not change it after the first call of Options.
type Handler struct {
	// Policy decides about each record. MaxElapsed counts from the record's timestamp, and
	// AttemptTimeout limits Handle, on its Clock. To its Hooks each delivery is a run. What its
	// Classify has no opinion on is judged by [retryqueue.Patient].
	Policy retry.Policy

	// Context returns the context of a delivery, before Hooks.Start and Handle get it. It must be
	// derived from ctx, which ends with that of Run and with the assignment of the partition. So a
	// delivery can be a part of the trace that the record was published in. Nil, and a Context
	// that returns nil, mean ctx. It is not called for a record that is dead without another run of
	// Handle: such a one may have ended its process in Context. It is called concurrently.
	Context func(ctx context.Context, r *kgo.Record) context.Context

	// Handle does the record's work, and returns nil for a success. At each delivery it gets the
	// record as it was published: with its own topic, partition, offset, timestamp and headers,
	// also if it comes from a wait topic. The headers that this package writes are removed. Handle may
	// change the record, or produce it elsewhere, but not the bytes of key, value and headers. It is
	// called concurrently for different partitions, and one by one for each, and may be called more
	// than once for a record. Its context ends with that of Run, when the partition goes to another
	// client, and with Policy.AttemptTimeout.
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
	// not be written. All of these are tried again. Nil means none. It is called concurrently.
	Report func(error)

	// Gate keeps records in their topics while what Handle depends on is down. Share one Gate among
	// all that depend on it. While it is closed each partition waits for its turn. No lease ends
	// meanwhile, and no rebalance comes of it. Nil means none.
	Gate *retryqueue.Gate

	mu      sync.Mutex
	notes   map[place]string // the metadata of offsets from which no record has come yet
	workers map[place]*worker
}

// Wait is a topic in which a record waits for Delay. A longer wait takes several rounds, and a wait
// that is shorter than the first topic's may take as long as that. The topic's retention must exceed
// Delay, and the time for which no consumer runs.
type Wait struct {
	Topic string
	Delay time.Duration
}

// place is a partition that a client consumes.
type place struct {
	client    *kgo.Client
	topic     string
	partition int32
}

// among reports whether parts has the place. Nil has all.
func (p place) among(parts map[string][]int32) bool {
	return parts == nil || slices.Contains(parts[p.topic], p.partition)
}

const (
	mostQueued = 500 // records of a partition that have arrived and are not done: it pauses. A fetch may bring more

	// patience is how long an end may take without a broker, half of it for calls that are underway
	// and half for the last commit, and how long a call may take before it is reported.
	patience = 5 * time.Second
)

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
		kgo.OnPartitionsRevoked(h.revoked),
		kgo.OnPartitionsLost(h.lost),
	}
}

// fetched keeps the metadata of the offsets at which a client starts.
func (h *Handler) fetched(_ context.Context, cl *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notes == nil {
		h.notes = map[place]string{}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.Metadata != nil {
					h.notes[place{cl, t.Topic, p.Partition}] = *p.Metadata
				}
			}
		}
	}
	return nil
}

func (h *Handler) revoked(ctx context.Context, cl *kgo.Client, parts map[string][]int32) {
	h.commit(ctx, cl, h.end(cl, parts))
}

func (h *Handler) lost(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	h.end(cl, parts)
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
	ctx, stop := withoutDeadline(ctx)
	defer cl.AllowRebalance()
	defer func() {
		// A rebalance waits for the workers that it finds, so it must not come between: a poll holds
		// it up until AllowRebalance, or waits for one that goes on. This one returns no records.
		stop()
		cl.PollFetches(ctx)
		at := h.end(cl, nil)
		h.commit(context.WithoutCancel(ctx), cl, at)
		h.rewind(cl, at)
	}()
	for {
		fetches := cl.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return kgo.ErrClientClosed
		}
		// Also if ctx has ended meanwhile: a partition without a worker has no place to go back to.
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				h.worker(ctx, place{cl, p.Topic, p.Partition}, p.Records[0]).add(p.Records)
			}
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed := fetches.NumRecords() == 0
		fetches.EachError(func(topic string, partition int32, err error) {
			h.report(fmt.Errorf("retrykafka: fetch of %s/%d: %w", topic, partition, err))
		})
		cl.AllowRebalance()
		if failed && !pause(ctx, time.Second/10) {
			return context.Cause(ctx)
		}
	}
}

// withoutDeadline returns a context that ends with ctx, and does not say when. A run of package retry
// ends at once if its next wait is beyond the deadline. What cannot be written waits until the end.
func withoutDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	until, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return until, func() { stop(); cancel(nil) }
}

// worker returns the worker of a place. If there is none it starts one, at a record.
func (h *Handler) worker(ctx context.Context, at place, r *kgo.Record) *worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workers[at]
	if w == nil {
		w = newWorker(ctx, h, at, r, h.notes[at])
		delete(h.notes, at)
		if h.workers == nil {
			h.workers = map[place]*worker{}
		}
		h.workers[at] = w
		go w.run()
	}
	return w
}

// end ends the workers of places, or of all of a client, waits for them, and returns what is to be
// committed.
func (h *Handler) end(cl *kgo.Client, parts map[string][]int32) map[place]commit {
	h.mu.Lock()
	var ended []*worker
	for at, w := range h.workers {
		if at.client == cl && at.among(parts) {
			delete(h.workers, at)
			ended = append(ended, w)
		}
	}
	for at := range h.notes {
		if at.client == cl && at.among(parts) && parts != nil {
			delete(h.notes, at)
		}
	}
	h.mu.Unlock()
	for _, w := range ended {
		w.cancel()
	}
	at := map[place]commit{}
	for _, w := range ended {
		<-w.ended
		at[w.place] = w.commit(unused)
		w.resume()
	}
	return at
}

// rewind has another Run with the client begin where this one ends.
func (h *Handler) rewind(cl *kgo.Client, at map[place]commit) {
	cl.SetOffsets(offsets(at))
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, c := range at {
		h.notes[p] = c.metadata
	}
}

func (h *Handler) report(err error) {
	if h.Report != nil {
		h.Report(err)
	}
}
