package retrygrpc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrygrpc"
)

// counting counts the contexts below it that were not ended.
type counting struct {
	context.Context
	done  chan struct{}
	below atomic.Int64
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.below.Add(1)
	return func() bool { c.below.Add(-1); return true }
}

// failingClock panics if it is to limit a time.
type failingClock struct{ clockx.Clock }

func (failingClock) WithTimeoutCause(context.Context, time.Duration, error) (context.Context, context.CancelFunc) {
	panic("boom")
}

func TestClockThatPanicsLeavesNoContext(t *testing.T) {
	ctx := &counting{Context: context.Background(), done: make(chan struct{})}
	addr := host(t, false, func(context.Context, string) (string, error) { t.Error("a call arrived"); return "", nil })
	cc := dial(t, addr, &retrygrpc.Client{Policy: retry.Policy{AttemptTimeout: time.Second, Clock: failingClock{clockx.System()}}})
	func() {
		defer func() { _ = recover() }()
		_, _ = call(ctx, cc, get)
	}()
	if n := ctx.below.Load(); n != 0 {
		t.Errorf("%d contexts have not ended", n)
	}
}
