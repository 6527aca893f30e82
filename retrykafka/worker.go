package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/twmb/franz-go/pkg/kgo"
)

// worker handles the records of one partition, one by one, on a goroutine of its own. Its life:
//
//	begins  with the first records of the partition that a poll returns
//	works   on the first record that has arrived, step by step, until ctx ends: because Run ends, or the
//	        partition goes
//	ends    a handler that runs is canceled, and nothing is begun. A call that writes has half of
//	        patience yet: what it may have written would else be written again
//	ended   its channel is closed. Who has ended it takes its mark
//
// A panic ends the process, after what it means to the record is written, for patience at most.
type worker struct {
	place
	handler *Handler
	delay   time.Duration // of the place's topic, if it is one of Waits
	arrived arrivals
	progress

	ctx     context.Context // while it works
	cancel  context.CancelFunc
	writing context.Context // while it writes
	ended   chan struct{}
}

// newWorker returns a worker that begins at r, whose offset was committed with metadata.
func newWorker(ctx context.Context, h *Handler, p place, r *kgo.Record, metadata string) *worker {
	w := &worker{place: p, handler: h, arrived: arrivals{place: p, grown: make(chan struct{}, 1)}, ended: make(chan struct{})}
	w.careful = 1
	var orderly bool
	if w.mark, orderly = readMark(r, metadata); !orderly {
		w.careful = atRisk
	}
	for _, x := range h.Waits {
		if x.Topic == p.topic {
			w.delay = x.Delay
		}
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(w.ctx, func() { time.AfterFunc(patience/2, stop) })
	w.writing = writing
	return w
}

// run is the worker's goroutine.
func (w *worker) run() {
	defer func() {
		if v := recover(); v != nil {
			panic(v) // or the next record would begin while the process ends
		}
		if w.ctx.Err() == nil { // runtime.Goexit in a handler
			go w.run()
		} else {
			close(w.ended)
		}
	}()
	for w.ctx.Err() == nil {
		if r := w.arrived.first(); r != nil {
			w.step(r)
		} else {
			_ = w.wait(w.arrived.more)
		}
	}
}

// restPart is the part of a wait topic's delay for which a rest is slept there: another copy would wait
// as long as a whole delay.
const restPart = 8

// step brings the first record further: it sleeps until the record is due, passes it on to the next
// wait topic, or delivers it. It returns early if ctx ends.
func (w *worker) step(r *kgo.Record) {
	if here := markOf(r); here.Offset != w.mark.Offset {
		w.mark = here
	} else {
		w.mark.Epoch = here.Epoch
	}
	d := w.read(r)
	if waits := w.handler.Waits; len(waits) > 0 {
		over, most := r.Timestamp.Add(w.delay), w.delay/restPart
		if w.delay == 0 { // an orderly end came before its copy was written
			over, most = time.Time{}, waits[0].Delay
		}
		if over.Before(d.due) {
			w.sleep(over)
			if w.ctx.Err() == nil && time.Until(d.due) > most {
				if w.write(w.writing, d.origin(), d.wait(waits, d.number+w.mark.starts)) == nil {
					w.finish(w.writing, true)
				}
				return
			}
		}
	}
	w.sleep(d.due)
	if w.ctx.Err() == nil {
		w.deliver(d)
	}
}

// sleep returns at t, or when ctx ends.
func (w *worker) sleep(t time.Time) {
	d := time.Until(t)
	if d <= 0 {
		return
	}
	over := time.NewTimer(d)
	defer over.Stop()
	_ = w.wait(func(ctx context.Context) error {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// deliver runs the handler once.
func (w *worker) deliver(d delivery) {
	done := func(error) {}
	if gate := w.handler.Gate; gate != nil {
		if err := w.wait(func(ctx context.Context) error {
			turn, err := gate.Wait(ctx)
			done = func(err error) { turn(d.origin(), err) }
			return err
		}); err != nil {
			if w.ctx.Err() == nil { // the gate's clock cannot sleep
				w.handler.report(fmt.Errorf("retrykafka: gate: %w", err))
				w.sleep(time.Now().Add(time.Second))
			}
			return
		}
	}
	if err := w.start(); err != nil {
		done(retry.Stop(err)) // it says nothing of what Handle depends on
		return
	}
	given := *d.record // Handle may change it, as a producer does
	given.Headers = slices.Clone(given.Headers)
	m := retryqueue.Delivery{Number: d.number + w.mark.starts - 1, Stored: d.record.Timestamp, Done: done}
	if w.handler.Context != nil {
		m.Context = func(ctx context.Context) context.Context { return w.handler.Context(ctx, &given) }
	}
	_ = m.Handle(w.ctx, w.handler.Policy,
		func(ctx context.Context) error { return w.handler.Handle(ctx, &given) },
		func(ctx context.Context, decided retryqueue.Decision) error { return w.settle(ctx, d, decided) })
}

// settle does what was decided about the first record.
func (w *worker) settle(ctx context.Context, d delivery, decided retryqueue.Decision) error {
	if decided.Panicked { // people must see it, also if nothing can be written
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	if decided.Action == retryqueue.Undecided || decided.Uncounted || decided.Err != nil && errors.Is(decided.Err, retryqueue.ErrCrashed) {
		w.mark.starts-- // this start does not count, and nor does one that was refused
	}
	switch decided.Action {
	case retryqueue.Undecided:
		if w.ctx.Err() == nil { // a context of Handler.Context or Hooks.Start has ended: not at once again
			w.mark.due = time.Now().Add(time.Second)
		}
		return nil
	case retryqueue.Retry:
		d.due = time.Now().Add(decided.Delay)
		w.mark.due = d.due // also with Waits: the copy may not be written
		if len(w.handler.Waits) == 0 {
			return w.store(ctx)
		}
		if err := w.write(ctx, d.origin(), d.wait(w.handler.Waits, d.number+w.mark.starts)); err != nil {
			return err
		}
	case retryqueue.Dead:
		if w.handler.Dead != "" {
			if err := w.write(ctx, d.origin(), d.dead(w.handler.Dead, decided.Err)); err != nil {
				return err
			}
		}
	}
	w.finish(ctx, decided.Action != retryqueue.Ack)
	return nil
}
