package retry

// May call: none of its neighbours.

import (
	"context"
	"sync"
	"sync/atomic"
)

// wakeable is a run's context for the time of a wait. It ends by a wake too, which is received
// once. A clock that selects on Done needs a goroutine, which alone receives the wake from then
// on. One that calls Err alone, such as a [clockx.Virtual], receives it there, and so at the
// instant at which it is sent.
type wakeable struct {
	context.Context
	done     chan struct{} // closed by stop
	stopped  sync.Once
	woken    atomic.Bool
	receiver sync.WaitGroup // the goroutine

	mu   sync.Mutex
	wake <-chan struct{} // nil once Err must not receive from it; guarded by mu
}

func newWakeable(ctx context.Context, wake <-chan struct{}) *wakeable {
	return &wakeable{Context: ctx, done: make(chan struct{}), wake: wake}
}

func (c *wakeable) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if parent, wake := c.Context.Done(), c.wake; wake != nil {
		c.wake = nil
		c.receiver.Go(func() {
			defer c.stop()
			select {
			case <-wake:
				c.woken.Store(true)
			case <-parent:
			case <-c.done:
			}
		})
	}
	return c.done
}

func (c *wakeable) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.wake:
		c.wake = nil
		c.woken.Store(true)
		c.stop()
	default:
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	select {
	case <-c.done: // also after the wait, as for any context whose Done is closed
		return context.Canceled
	default:
		return nil
	}
}

// end ends the wait, and reports whether the wake has come. From then on nobody receives it.
func (c *wakeable) end() (woken bool) {
	c.mu.Lock()
	c.wake = nil
	c.mu.Unlock()
	c.stop()
	c.receiver.Wait()
	return c.woken.Load()
}

func (c *wakeable) stop() { c.stopped.Do(func() { close(c.done) }) }
