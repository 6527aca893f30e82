package benbjohnson

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/clockx/internal/deadline"
)

// New returns c as a [clockx.Clock]. For the real clock, [clock.New], that is
// [clockx.System]; of any other c, a [clock.Mock] or one of your own, only Now
// and AfterFunc are used. New panics if c is nil.
//
// A Mock is to be moved by another goroutine than the one that waits. It tells
// those whose time has come in goroutines of their own: when Add returns a Sleep
// may still be about to return, and a deadline about to pass. An Add that comes
// before the Sleep does not count for it.
//
// The clock alone decides when a deadline of WithTimeoutCause has passed: an
// earlier one of the parent on another clock stays in force, but never replaces
// it. Below a cancelable parent, contexts that the standard library derives from
// the new one report Canceled, not DeadlineExceeded, when it passes, except on
// the real clock; [context.Cause] tells the truth in all of them.
func New(c clock.Clock) clockx.Clock {
	switch {
	case c == nil:
		panic("benbjohnson: nil clock")
	case reflect.TypeOf(c) == system:
		// It shows package time, and so does ours, which needs no allocation to
		// sleep, and whose deadlines are the standard library's own.
		return clockx.System()
	}
	return adapter{c}
}

// system is the type of the real clock, which has no exported name.
var system = reflect.TypeOf(clock.New())

// adapter leaves a Mock's other methods alone. Timer and After run other timers
// on the caller's goroutine, and two goroutines that run the same one deadlock
// the Mock; so does a tick for a Timer that was Reset with one unread.
// WithTimeout lets a parent's earlier deadline replace the timeout, tells of the
// parent's cancel late, and reads Err without a lock.
//
// AfterFunc is sound, but the Mock picks what to run before it takes the lock to
// run it: the func can be called twice, and after a Stop that returned true. The
// funcs given to it here do not mind.
type adapter struct{ c clock.Clock }

func (a adapter) Now() time.Time { return a.c.Now() }

func (a adapter) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 { // AfterFunc(0) would wait for the next Add
		return err
	}
	over := make(chan struct{})
	t := a.c.AfterFunc(d, sync.OnceFunc(func() { close(over) }))
	select {
	case <-ctx.Done():
		t.Stop()
	case <-over:
	}
	return ctx.Err()
}

func (a adapter) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	child, expire, cancel := deadline.New(ctx, a.c.Now().Add(d), cause)
	if d <= 0 {
		expire()
		return child, cancel
	}
	t := a.c.AfterFunc(d, expire)
	return child, func() { t.Stop(); cancel() }
}
