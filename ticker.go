package retry

// May call: attempts.go, policy.go.

import (
	"context"
	"time"
)

// Ticker is [Attempts] for loops that select: it sends the time at which each attempt is due. No
// tick is dropped: one that is not received delays the next ones. The attempt ends when its tick
// is received: guards are left then, so a limit does not hold a place for the work that follows.
//
// A Ticker knows no error, so no tick is a success: to hooks, guards and the budget each is a
// Transient failure that is an [ErrRejected], and Stop cancels the run. Policy.Classify and
// AttemptTimeout are not used.
type Ticker struct {
	C <-chan time.Time // closed when the policy or the context ends

	cancel context.CancelFunc
	done   chan struct{}
}

// NewTicker starts a Ticker, whose first tick is due at once. Its goroutine ends with the policy,
// with ctx or with Stop. NewTicker panics if ctx is nil.
func NewTicker(ctx context.Context, p Policy) *Ticker {
	if ctx == nil {
		panic("retry: nil context")
	}
	ctx, cancel := context.WithCancel(ctx)
	c := make(chan time.Time)
	t := &Ticker{C: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer close(c)
		defer cancel()
		a := p.Attempts(ctx)
		a.Untimed()
		defer a.Close()
		for a.Next() {
			select {
			case c <- p.clock().Now():
			case <-a.RunContext().Done(): // that of an attempt may end sooner or never
			}
			a.Judged(tickVerdict)
		}
	}()
	return t
}

// Stop ends the ticker, closes C and waits for its goroutine: no tick is sent after Stop. It may
// be called more than once and from several goroutines, but not by the policy's hooks.
func (t *Ticker) Stop() {
	t.cancel()
	<-t.done
}

// tickVerdict is that of a tick.
var tickVerdict = Verdict{Err: errTick, Class: Transient}

// errTick is the error of a tick. It is not ErrRejected itself, which says that the
// dependency has answered: here the run does not know that.
var errTick error = ticked{}

type ticked struct{}

func (ticked) Error() string        { return ErrRejected.Error() }
func (ticked) Is(target error) bool { return target == ErrRejected }
