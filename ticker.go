package retry

import (
	"context"
	"iter"
	"time"
)

// Ticks is a run whose attempts are the iterations of a loop: it yields 1 at
// once, and 2, 3, … after the waits of p, until p or ctx ends it. Leaving the loop
// early counts as success.
//
//	for n := range retry.Ticks(ctx, policy) {
//		if err := try(n); err == nil {
//			break
//		}
//	}
//
// An iteration that does not leave the loop counts as a Transient failure:
// Policy.Classify is not called. errors.Is reports it as an [ErrRejected]. But the
// budget is checked, since the loop may go on because a call has failed.
// Policy.AttemptTimeout is not used. Each use of the sequence is a run of its own.
// Ticks panics if ctx is nil.
func Ticks(ctx context.Context, p Policy) iter.Seq[int] {
	if ctx == nil {
		panic("retry: nil context")
	}
	return func(yield func(int) bool) {
		a := p.Attempts(ctx)
		a.Untimed()
		defer a.Close()
		for a.Next() {
			if !yield(a.Number()) {
				a.Done(nil)
				return
			}
			a.Judged(goesOnVerdict)
		}
	}
}

// goesOnVerdict is that of an iteration that did not leave the loop.
var goesOnVerdict = Verdict{Err: errGoesOn, Class: Transient}

// errGoesOn is the error of an iteration that did not leave the loop. It is not
// ErrRejected itself, which says that the dependency has answered: here the run does
// not know that.
var errGoesOn error = goesOn{}

type goesOn struct{}

func (goesOn) Error() string        { return ErrRejected.Error() }
func (goesOn) Is(target error) bool { return target == ErrRejected }

// Ticker is [Ticks] for loops that select: it sends the time at which each attempt is
// due. No tick is dropped: one that is not received delays the next ones.
type Ticker struct {
	C <-chan time.Time // closed when the policy or the context ends

	cancel context.CancelFunc
	done   chan struct{}
}

// NewTicker starts a Ticker. Its first tick is due at once. Its goroutine ends with
// the policy, with ctx or with Stop. NewTicker panics if ctx is nil.
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
			a.Judged(goesOnVerdict)
		}
	}()
	return t
}

// Stop ends the ticker and waits for its goroutine: no tick is sent after Stop,
// and C is closed. It may be called more than once and from several goroutines,
// but not by the policy's hooks.
func (t *Ticker) Stop() {
	t.cancel()
	<-t.done
}
