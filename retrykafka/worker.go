package retrykafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/twmb/franz-go/pkg/kgo"
)

// worker handles the records of one partition, one by one. All of its state that must outlive the
// process is next and note, and there is one place that stores them, store.
type worker struct {
	handler *Handler
	place   place
	delay   time.Duration // of the place's topic, if it is one of Waits
	ctx     context.Context
	cancel  context.CancelFunc
	writing context.Context // of calls that write: it ends half of patience after ctx
	ended   chan struct{}

	mu     sync.Mutex
	queue  []*kgo.Record // the first is under way, until it is finished
	paused bool
	more   chan struct{} // has an element if the queue has grown

	next    kgo.EpochOffset // of the first record that is not finished
	note    note            // on that record
	careful int             // how many records are noted before they start
	undone  int             // records that were finished and not committed
	since   time.Time       // the first of these was finished
}

const (
	// atRisk is after how many records offsets are committed at the latest, and so how many of them
	// come again after a crash. They may have caused it: their starts are noted.
	atRisk = 100

	// atLast is after how long offsets are committed at the latest, if no handler runs.
	atLast = 5 * time.Second
)

func newWorker(ctx context.Context, h *Handler, at place, r *kgo.Record, metadata string) *worker {
	w := &worker{handler: h, place: at, next: offsetOf(r), ended: make(chan struct{}), more: make(chan struct{}, 1), careful: 1}
	var orderly bool
	if w.note, orderly = parseNote(metadata); !orderly {
		w.careful = atRisk
	}
	for _, x := range h.Waits {
		if x.Topic == at.topic {
			w.delay = x.Delay
		}
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(w.ctx, func() { time.AfterFunc(patience/2, stop) })
	w.writing = writing
	return w
}

// run handles records until ctx ends.
func (w *worker) run() {
	done := false
	defer func() {
		if v := recover(); v != nil {
			panic(v)
		}
		if !done { // runtime.Goexit in a handler
			go w.run()
		}
	}()
	for w.ctx.Err() == nil {
		if r := w.first(); r != nil {
			w.step(r)
		} else {
			w.sleep(time.Time{})
		}
	}
	done = true
	close(w.ended)
}

// add queues records, and pauses the partition if there are many.
func (w *worker) add(rs []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.queue = nil // what was finished is garbage
	}
	w.queue = append(w.queue, rs...)
	if len(w.queue) >= mostQueued && !w.paused {
		w.paused = true
		w.place.client.PauseFetchPartitions(w.place.parts())
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// first returns the first record of the queue, or nil.
func (w *worker) first() *kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return nil
	}
	return w.queue[0]
}

// drop removes the first record of the queue.
func (w *worker) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue[0] = nil
	w.queue = w.queue[1:]
	if len(w.queue) <= mostQueued/2 {
		w.resumeLocked()
	}
}

func (w *worker) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resumeLocked()
}

func (w *worker) resumeLocked() {
	if w.paused {
		w.paused = false
		w.place.client.ResumeFetchPartitions(w.place.parts())
	}
}

// step brings the first record further: it sleeps until the record is due, passes it on to the next
// wait topic, or delivers it. It returns early if ctx ends.
func (w *worker) step(r *kgo.Record) {
	w.next = offsetOf(r)
	if w.note.offset != r.Offset {
		w.note = note{offset: r.Offset}
	}
	d := w.read(r)
	if d.due.After(time.Now()) {
		until := d.due
		if over := r.Timestamp.Add(w.delay); w.delay > 0 && over.Before(until) {
			until = over
		}
		w.sleep(until)
		left := time.Until(d.due)
		switch {
		case w.ctx.Err() != nil:
			return
		case left > w.delay/8: // another round. A shorter rest is slept here.
			if w.write(w.ctx, d.origin(), d.wait(d.number)) == nil {
				w.finish(true)
			}
			return
		}
		w.sleep(d.due)
	}
	w.deliver(d)
}

// deliver runs the handler once.
func (w *worker) deliver(d delivery) {
	turn, err := w.turn(d)
	if err != nil {
		return
	}
	defer turn(errNoNews) // if nothing else was said
	w.note.starts, w.note.due = w.note.starts+1, time.Time{}
	if (w.careful > 0 || w.note.starts > 1) && w.store(w.ctx) != nil {
		w.note.starts-- // it has not started, and the last commit must not say so
		return
	}
	given := *d.record // Handle may change it, as a producer does
	given.Headers = slices.Clone(given.Headers)
	handling := false
	m := retryqueue.Delivery{Number: d.number + w.note.starts - 1, Stored: d.record.Timestamp}
	ctx := w.ctx
	if _, runs := m.Before(w.handler.Policy); runs { // else it may be one that ends its process in Context
		ctx = w.contextOf(&given)
	}
	_ = m.Handle(ctx, w.handler.Policy,
		func(ctx context.Context) error {
			handling = true
			err := w.handler.Handle(ctx, &given)
			handling = false
			if err != nil && errors.Is(ctx.Err(), context.Canceled) { // the partition goes, or the process
				turn(errNoNews)
			}
			turn(err)
			return err
		},
		func(ctx context.Context, decided retryqueue.Decision) error {
			ctx = context.WithoutCancel(ctx) // what was decided does not end with a context of Handler.Context
			if handling {                    // people must see the panic, also if nothing can be written
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
			}
			return w.settle(ctx, d, decided)
		})
}

// contextOf returns the context of a delivery.
func (w *worker) contextOf(r *kgo.Record) context.Context {
	if w.handler.Context != nil {
		if ctx := w.handler.Context(w.ctx, r); ctx != nil {
			return ctx
		}
	}
	return w.ctx
}

// settle does what was decided about the first record.
func (w *worker) settle(ctx context.Context, d delivery, decided retryqueue.Decision) error {
	due := time.Now().Add(decided.Delay)
	switch decided.Action {
	case retryqueue.Undecided: // this start does not count
		w.note.starts--
		if w.ctx.Err() == nil { // a context of Handler.Context or Hooks.Start has ended: not at once again
			w.note.due = time.Now().Add(time.Second)
		}
		return nil
	case retryqueue.Retry:
		if decided.Uncounted {
			w.note.starts--
		}
		if len(w.handler.Waits) == 0 {
			w.note.due = due
			return w.store(ctx)
		}
		d.due = due
		if err := w.write(ctx, d.origin(), d.wait(d.number+w.note.starts)); err != nil {
			return err
		}
	case retryqueue.Dead:
		if w.handler.Dead != "" {
			if err := w.write(ctx, d.origin(), d.dead(w.handler.Dead, decided.Err)); err != nil {
				return err
			}
		}
	}
	w.finish(decided.Action != retryqueue.Ack)
	return nil
}

// finish removes the first record from the queue. written says that something was written about it,
// which must not be written again.
func (w *worker) finish(written bool) {
	w.drop()
	w.next.Offset++
	w.note = note{offset: w.next.Offset}
	w.careful = max(w.careful-1, 0)
	if w.undone == 0 {
		w.since = time.Now()
	}
	w.undone++
	if written || w.undone >= atRisk || time.Since(w.since) >= atLast {
		_ = w.store(w.ctx)
	}
}

// errNoNews is what a turn comes to that says nothing about the dependency.
var errNoNews = retry.Stop(errors.New("retrykafka: no handler has ended"))

// turn waits for the gate, and returns what tells it what the handler has returned.
func (w *worker) turn(d delivery) (turn func(error), err error) {
	gate := w.handler.Gate
	if gate == nil {
		return func(error) {}, w.ctx.Err()
	}
	if since, _, _ := gate.Closed(); !since.IsZero() && w.undone > 0 {
		_ = w.store(w.ctx)
	}
	done, err := gate.Wait(w.ctx)
	return func(err error) { done(d.origin(), err) }, err
}

// sleep returns at t, or, if t is zero, when the queue has grown. It returns early if ctx ends.
// Meanwhile it commits what was finished long ago.
func (w *worker) sleep(t time.Time) {
	var due, late <-chan time.Time
	var more <-chan struct{}
	if t.IsZero() {
		more = w.more
	} else {
		timer := time.NewTimer(time.Until(t))
		defer timer.Stop()
		due = timer.C
	}
	for {
		if w.undone > 0 {
			timer := time.NewTimer(time.Until(w.since.Add(atLast)))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-w.ctx.Done():
		case <-due:
		case <-more:
		case <-late:
			late = nil
			_ = w.store(w.ctx)
			continue
		}
		return
	}
}

// pause sleeps for d, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

func offsetOf(r *kgo.Record) kgo.EpochOffset {
	return kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset}
}

// parts returns the place as package kgo takes it.
func (p place) parts() map[string][]int32 { return map[string][]int32{p.topic: {p.partition}} }
