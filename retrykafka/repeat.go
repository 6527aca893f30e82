package retrykafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// repeat calls write, which writes a copy or commits, until it succeeds, or ctx or the worker ends. A
// call that is underway when the worker ends has as long yet as w.writing.
func (w *worker) repeat(ctx context.Context, what string, write func(context.Context) error) error {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.writing, cancel)()
	again, stop := context.WithCancel(call)
	defer stop()
	defer context.AfterFunc(w.ctx, stop)()
	return w.handler.repeat(again, what, func(context.Context) error { return write(call) })
}

// repeat calls write until it succeeds or ctx ends, and reports its errors, and calls that take long.
func (h *Handler) repeat(ctx context.Context, what string, write func(context.Context) error) error {
	p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: 100 * time.Millisecond, Max: patience}}
	return retry.Run(ctx, p, func(ctx context.Context) error {
		answered := make(chan struct{})
		defer close(answered)
		go func() {
			for t := time.Tick(patience); ; {
				select {
				case <-t:
					h.report(fmt.Errorf("retrykafka: %s: no answer yet", what))
				case <-answered:
					return
				}
			}
		}()
		if err := write(ctx); err != nil {
			h.report(fmt.Errorf("retrykafka: %s: %w", what, err))
			return errNotWritten // instead of an error that may be permanent
		}
		return nil
	})
}

var errNotWritten = errors.New("retrykafka: not written")
