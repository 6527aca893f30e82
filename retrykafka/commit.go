package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file decides what is committed, by whom, and when. Nothing else outlives the process.
//
// What: the mark of a partition, with a state:
//
//   - inUse: it has a worker. Who finds this state at an assignment knows of a crash, before which up to
//     atRisk records may have been handled since the commit. One of them may have caused it.
//   - unused: its worker has ended, and nothing has been handled since the commit.
//
// By whom, so that a commit of this client never follows that of the partition's next owner:
//
//   - the worker, until it has ended: inUse;
//   - then OnPartitionsRevoked, for which the group waits, or the end of Run, which holds rebalances
//     up: unused;
//   - after OnPartitionsLost nobody: the partition has another owner already.
//
// When, by the worker:
//
//   - Before a record starts that is the worker's first, or one of the first atRisk after a crash, or has
//     started before or waited in its place. Without that commit it does not start: if it ended the process, nobody would count it.
//   - At once when a copy or a dead letter is stored: a crash would double it.
//   - At once when a record is to wait in its place: a crash would lose its number and its due time.
//   - Otherwise after atRisk records, or, if no handler runs, atLast after the first of them.

const (
	inUse  = "running"
	unused = "ended"

	// atRisk is how many records are handled between two commits, and so how many come again after a crash.
	atRisk = 100

	// atLast is for how long a record that was handled is not committed, if no handler runs.
	atLast = 5 * time.Second
)

// mark is what is committed of a partition: the offset of the first record that is not finished, and,
// as its metadata, what is known of that record.
type mark struct {
	kgo.EpochOffset
	starts int       // how often it has started: start adds one, and settle takes back one that does not count
	due    time.Time // if it waits in its place
}

func markOf(r *kgo.Record) mark {
	return mark{EpochOffset: kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset}}
}

// metadata returns what the offset does not say.
func (m mark) metadata(state string) string {
	var due int64
	if !m.due.IsZero() {
		due = ceilMilli(m.due)
	}
	return fmt.Sprintf("retry %s %d %d %d", state, m.Offset, m.starts, due)
}

// readMark returns the mark on the record at which a worker begins, and whether the partition was unused:
// it is too if nobody has committed metadata. Other metadata may be another program's.
func readMark(r *kgo.Record, metadata string) (m mark, orderly bool) {
	m = markOf(r)
	var state string
	var offset, due int64
	var starts int
	if _, err := fmt.Sscanf(metadata, "retry %s %d %d %d", &state, &offset, &starts, &due); err != nil {
		return m, metadata == ""
	}
	if offset == m.Offset {
		m.starts = max(starts, 0)
		if due > 0 {
			m.due = time.UnixMilli(due)
		}
	}
	return m, state == unused
}

// ceilMilli returns t in milliseconds since 1970, rounded up: nothing is due early.
func ceilMilli(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// progress is what a worker has done in its partition.
type progress struct {
	mark    mark
	careful int       // of how many records more the start is committed
	undone  int       // records that were finished and not committed
	since   time.Time // the first of these was finished
}

// start counts a start of the first record. It returns an error if that was to be committed and was
// not: then the record must not start.
func (w *worker) start() error {
	waited := !w.mark.due.IsZero()
	w.mark.starts++
	w.mark.due = time.Time{}
	if w.careful <= 0 && w.mark.starts == 1 && !waited {
		return nil
	}
	err := w.store(w.writing)
	if err != nil {
		w.mark.starts--
	}
	return err
}

// finish goes on to the next record. written says that something was written about this one.
func (w *worker) finish(ctx context.Context, written bool) {
	w.arrived.drop()
	w.mark = mark{EpochOffset: kgo.EpochOffset{Epoch: w.mark.Epoch, Offset: w.mark.Offset + 1}}
	w.careful--
	if w.undone == 0 {
		w.since = time.Now()
	}
	w.undone++
	if written || w.undone >= atRisk || time.Since(w.since) >= atLast {
		_ = w.store(ctx)
	}
}

// wait calls f, which waits for something until its context ends, and commits meanwhile what was finished
// atLast ago. It returns f's error.
func (w *worker) wait(f func(context.Context) error) error {
	for {
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		if w.undone > 0 {
			ctx, cancel = context.WithDeadline(w.ctx, w.since.Add(atLast))
		}
		err := f(ctx)
		late := ctx.Err() != nil && w.ctx.Err() == nil
		cancel()
		if err == nil || !late {
			return err
		}
		_ = w.store(w.writing)
	}
}

// store commits the mark, until it succeeds, or ctx or the worker ends.
func (w *worker) store(ctx context.Context) error {
	err := w.repeat(ctx, fmt.Sprintf("commit of %s/%d", w.topic, w.partition), func(ctx context.Context) error {
		return commit(ctx, w.client, inUse, map[place]mark{w.place: w.mark})
	})
	if err == nil {
		w.undone = 0
	}
	return err
}

// leave commits the marks of workers that have ended, for half of patience at most.
func (h *Handler) leave(ctx context.Context, cl *kgo.Client, marks map[place]mark) {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	_ = h.repeat(ctx, "last commit", func(ctx context.Context) error { return commit(ctx, cl, unused, marks) })
}

// commit makes one request.
func commit(ctx context.Context, cl *kgo.Client, state string, marks map[place]mark) (err error) {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for _, t := range req.Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				p.Metadata = kmsg.StringPtr(marks[place{cl, t.Topic, p.Partition}].metadata(state))
			}
		}
		return nil
	})
	cl.CommitOffsetsSync(ctx, offsets(marks), func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed error) {
		if err = failed; err != nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if code := kerr.ErrorForCode(p.ErrorCode); code != nil {
					err = errors.Join(err, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, code))
				}
			}
		}
	})
	return err
}

// offsets returns marks as package kgo takes them.
func offsets(marks map[place]mark) map[string]map[int32]kgo.EpochOffset {
	all := map[string]map[int32]kgo.EpochOffset{}
	for p, m := range marks {
		if all[p.topic] == nil {
			all[p.topic] = map[int32]kgo.EpochOffset{}
		}
		all[p.topic][p.partition] = m.EpochOffset
	}
	return all
}
