package benbjohnson

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/goretry/retry/clockx"
)

// New returns c as a [clockx.Clock]. For the real clock, [clock.New], that is
// [clockx.System]. Of any other c, a [clock.Mock] or one of your own, it calls only
// Now and AfterFunc. New panics if c is nil.
//
// Move a Mock by another goroutine than the one that waits. It calls funcs that are
// due in goroutines of their own. So when Add returns, a Sleep may be about to return,
// and a deadline about to pass. An Add before a Sleep does not count for that Sleep.
//
// The clock alone decides when a deadline of WithTimeoutCause has passed: an earlier
// one of the parent on another clock stays in force, but never replaces it. If the
// parent is cancelable and you derive a context from the new one, the Err of that
// context is Canceled, not DeadlineExceeded, when the deadline passes, except on the
// real clock. [context.Cause] is right for all of them.
func New(c clock.Clock) clockx.Clock {
	switch {
	case c == nil:
		panic("benbjohnson: nil clock")
	case reflect.TypeOf(c) == system:
		// It is the clock of package time, as ours is. Ours sleeps without an allocation,
		// and its deadlines are the standard library's.
		return clockx.System()
	}
	return adapter{c}
}

// system is the type of the real clock, which has no exported name.
var system = reflect.TypeOf(clock.New())

// adapter leaves a Mock's other methods alone. Timer and After run other timers on the
// caller's goroutine, and two goroutines that run the same one deadlock the Mock; so
// does a tick for a Timer that was Reset with one unread. WithTimeout lets a parent's
// earlier deadline replace the timeout, reports the parent's cancel late, and reads
// Err without a lock.
//
// AfterFunc is sound, but the Mock picks what to run before it takes the lock to run
// it: the func can be called twice, and after a Stop that returned true. The funcs
// passed to it here allow that.
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
	child, expire, cancel := clockx.NewDeadline(ctx, a.c.Now().Add(d), cause)
	if d <= 0 {
		expire()
		return child, cancel
	}
	t := a.c.AfterFunc(d, expire)
	return child, func() { t.Stop(); cancel() }
}
