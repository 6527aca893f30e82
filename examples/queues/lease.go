package queues

import (
	"context"
	"time"
)

// keep calls extend after each d, until stop is called: before a queue is told of a decision, which
// an extension would undo. It goes on after ctx has ended, because handlers do.
func keep(ctx context.Context, d time.Duration, extend func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t := time.Tick(d); ; {
			select {
			case <-t:
				_ = extend(ctx) // else the next one, or the message runs again
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
