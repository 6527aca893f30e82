package retrykafka

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// partitions are those that a Handler's clients have. One after the other, a partition
//
//	is assigned     its offset is fetched, whose metadata is kept for its worker
//	is worked on    from its first records on
//	is taken away   its worker ends. If it is revoked, its mark is committed then
//
// or Run ends: then its mark is committed, and kept as if it were assigned again, for another Run.
//
// Run holds up rebalances from each poll until its records have workers, and so do the client's funcs for
// what is taken away until they return.
type partitions struct {
	mu       sync.Mutex
	metadata map[place]string
	workers  map[place]*worker
}

// place is a partition that a client consumes.
type place struct {
	client    *kgo.Client
	topic     string
	partition int32
}

func (p place) among(parts map[string][]int32) bool {
	return slices.Contains(parts[p.topic], p.partition)
}

// parts returns the place as package kgo takes it.
func (p place) parts() map[string][]int32 { return map[string][]int32{p.topic: {p.partition}} }

// fetched keeps the metadata of the offsets at which a client starts.
func (h *Handler) fetched(_ context.Context, cl *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.metadata == nil {
		h.metadata = map[place]string{}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.Metadata != nil {
					h.metadata[place{cl, t.Topic, p.Partition}] = *p.Metadata
				}
			}
		}
	}
	return nil
}

// worker returns the worker of a place. If there is none it starts one, at a record.
func (h *Handler) worker(ctx context.Context, at place, r *kgo.Record) *worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workers[at]
	if w == nil {
		w = newWorker(ctx, h, at, r, h.metadata[at])
		delete(h.metadata, at)
		if h.workers == nil {
			h.workers = map[place]*worker{}
		}
		h.workers[at] = w
		go w.run()
	}
	return w
}

// end ends the workers of parts, or, if that is nil, all of a client. It waits for them, and returns
// their marks.
func (h *Handler) end(cl *kgo.Client, parts map[string][]int32) map[place]mark {
	h.mu.Lock()
	var ended []*worker
	for at, w := range h.workers {
		if at.client == cl && (parts == nil || at.among(parts)) {
			delete(h.workers, at)
			ended = append(ended, w)
			w.cancel()
		}
	}
	maps.DeleteFunc(h.metadata, func(at place, _ string) bool { return at.client == cl && at.among(parts) })
	h.mu.Unlock()
	marks := map[place]mark{}
	for _, w := range ended {
		<-w.ended
		marks[w.place] = w.mark
		w.arrived.resume(math.MaxInt) // this client may get the partition once more
	}
	return marks
}

// rewind has another Run with the client begin where this one ends.
func (h *Handler) rewind(cl *kgo.Client, marks map[place]mark) {
	cl.SetOffsets(offsets(marks))
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, m := range marks {
		h.metadata[at] = m.metadata(unused)
	}
}
