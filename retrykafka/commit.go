package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// note says what a partition's offset does not: how often the record at offset has started without
// an end, and when it is due if it waits in its place. It is stored as the offset's metadata.
type note struct {
	offset int64
	starts int
	due    time.Time
}

// text returns the note as metadata. state says whether its partition is in use or was left orderly.
func (n note) text(state string) string {
	var due int64
	if !n.due.IsZero() {
		due = ceilMilli(n.due)
	}
	return fmt.Sprintf("retry %s %d %d %d", state, n.offset, n.starts, due)
}

const (
	inUse  = "running"
	unused = "ended"
)

// parseNote returns what text has written, and whether its partition was left orderly. Of other
// metadata it returns no note. If there is none, nobody has used the partition.
func parseNote(metadata string) (n note, orderly bool) {
	var state string
	var due int64
	if _, err := fmt.Sscanf(metadata, "retry %s %d %d %d", &state, &n.offset, &n.starts, &due); err != nil {
		return note{offset: -1}, metadata == ""
	}
	n.starts = max(n.starts, 0)
	if due > 0 {
		n.due = time.UnixMilli(due)
	}
	return n, state == unused
}

// ceilMilli returns t in milliseconds since 1970, rounded up: nothing is due early.
func ceilMilli(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// commit is an offset with its metadata.
type commit struct {
	kgo.EpochOffset
	metadata string
}

// offsets returns commits as package kgo takes them.
func offsets(at map[place]commit) map[string]map[int32]kgo.EpochOffset {
	all := map[string]map[int32]kgo.EpochOffset{}
	for p, c := range at {
		if all[p.topic] == nil {
			all[p.topic] = map[int32]kgo.EpochOffset{}
		}
		all[p.topic][p.partition] = c.EpochOffset
	}
	return all
}

// commit returns what the worker's partition has come to.
func (w *worker) commit(state string) commit { return commit{w.next, w.note.text(state)} }

// store commits what was finished, with the note, until it succeeds or the worker has ended.
func (w *worker) store(ctx context.Context) error {
	at := map[place]commit{w.place: w.commit(inUse)}
	err := w.lasting(ctx, fmt.Sprintf("commit of %s/%d", w.place.topic, w.place.partition), func(ctx context.Context) error {
		return commitAll(ctx, w.place.client, at)
	})
	if err == nil {
		w.undone = 0
	}
	return err
}

// commit commits what ended workers have left, for half of patience at most.
func (h *Handler) commit(ctx context.Context, cl *kgo.Client, at map[place]commit) {
	if len(at) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	_ = h.lasting(ctx, "last commit", func(ctx context.Context) error { return commitAll(ctx, cl, at) })
}

// commitAll makes one request.
func commitAll(ctx context.Context, cl *kgo.Client, at map[place]commit) error {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i, t := range req.Topics {
			for j, p := range t.Partitions {
				text := at[place{cl, t.Topic, p.Partition}].metadata
				req.Topics[i].Partitions[j].Metadata = &text
			}
		}
		return nil
	})
	var errs []error
	cl.CommitOffsetsSync(ctx, offsets(at), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					errs = append(errs, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err))
				}
			}
		}
	})
	return errors.Join(errs...)
}

// lasting writes with ctx's values until the worker ends. A call that is underway then has a while yet:
// what it writes would else be written twice.
func (w *worker) lasting(ctx context.Context, what string, write func(context.Context) error) error {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(w.writing, cancel)()
	if deadline, ok := ctx.Deadline(); ok { // after a panic
		call, cancel = context.WithDeadline(call, deadline)
		defer cancel()
	}
	again, stop := context.WithCancel(call)
	defer stop()
	defer context.AfterFunc(w.ctx, stop)()
	return w.handler.lasting(again, what, func(context.Context) error { return write(call) })
}

// lasting calls write until it succeeds or ctx ends, and reports its errors, and a call that takes long.
func (h *Handler) lasting(ctx context.Context, what string, write func(context.Context) error) error {
	p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: 100 * time.Millisecond, Max: patience}}
	return retry.Run(ctx, p, func(ctx context.Context) error {
		written := make(chan struct{})
		defer close(written)
		go h.reportEvery(patience, fmt.Errorf("retrykafka: %s: no answer yet", what), written)
		if err := write(ctx); err != nil {
			h.report(fmt.Errorf("retrykafka: %s: %w", what, err))
			return errNotWritten // instead of an error that may be permanent
		}
		return nil
	})
}

// reportEvery reports err after each d until ended is closed.
func (h *Handler) reportEvery(d time.Duration, err error, ended <-chan struct{}) {
	for t := time.Tick(d); ; {
		select {
		case <-t:
			h.report(err)
		case <-ended:
			return
		}
	}
}

var errNotWritten = errors.New("retrykafka: not written")
