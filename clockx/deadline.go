package clockx

import (
	"context"
	"sync/atomic"
	"time"
)

// NewDeadline is for implementations of [Clock]. It returns a copy of parent with the
// deadline at, which passes when expire is called, and not by the system's clock: then
// Err is DeadlineExceeded, and the cause is cause, or DeadlineExceeded for nil. cancel
// ends the context as that of [context.WithDeadline] does. A cancel of parent is seen
// at once, contexts derived from the new one end within the same call, and no goroutine
// waits. expire and cancel may be called more than once, and from several goroutines.
//
// Only the standard library can make a context that hangs below a parent of its own end
// with DeadlineExceeded. So below a cancelable parent, contexts that the standard
// library derived from the new one report Canceled on expire, with the right cause.
// Below any other parent they report DeadlineExceeded as well.
func NewDeadline(parent context.Context, at time.Time, cause error) (ctx context.Context, expire func(), cancel context.CancelFunc) {
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	if cur, ok := parent.Deadline(); ok && cur.Before(at) {
		at = cur
	}
	inner, cancelInner := context.WithCancelCause(parent)
	if parent.Done() == nil {
		s := &source{Context: inner, at: at, done: make(chan struct{})}
		ctx, cancel := context.WithCancel(s)
		return ctx, func() { cancelInner(cause); s.expire() }, cancel
	}
	c := &child{Context: inner, parent: parent, at: at}
	return c,
		func() { c.end(expired, cancelInner, cause) },
		func() { c.end(canceled, cancelInner, context.Canceled) }
}

// source is a parent without a parent: the standard library hangs one
// cancelable context below it through AfterFunc, and asks Err what ended it.
type source struct {
	context.Context // carries the cause
	at              time.Time
	done            chan struct{}
	propagate       func()
	over            atomic.Bool
}

func (s *source) Deadline() (time.Time, bool) { return s.at, true }
func (s *source) Done() <-chan struct{}       { return s.done }

func (s *source) Err() error {
	if s.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// AfterFunc is what [context.WithCancel] calls on a parent that is not its own.
func (s *source) AfterFunc(f func()) (stop func() bool) {
	s.propagate = f
	return func() bool { return true }
}

func (s *source) expire() {
	if s.over.CompareAndSwap(false, true) {
		close(s.done)
		s.propagate()
	}
}

// child hangs below its parent through a standard context, which ends whatever
// hangs below in turn. It keeps what ended it first, so that Err tells.
type child struct {
	context.Context
	parent context.Context
	at     time.Time
	how    atomic.Int32
}

const (
	open int32 = iota
	canceled
	expired
	inherited
)

func (c *child) Deadline() (time.Time, bool) { return c.at, true }

func (c *child) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	c.how.CompareAndSwap(open, inherited)
	switch c.how.Load() {
	case canceled:
		return context.Canceled
	case expired:
		return context.DeadlineExceeded
	}
	return c.parent.Err()
}

func (c *child) end(how int32, cancel context.CancelCauseFunc, cause error) {
	if c.Err() == nil && c.how.CompareAndSwap(open, how) {
		cancel(cause)
	}
}
