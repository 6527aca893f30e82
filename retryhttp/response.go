package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/readings"
)

// drain reads the rest of a body into w, so that its connection can be used again, and
// closes the body. If the body is long or slow, it gives up.
//
// A concurrent Close ends a Read that blocks. The bodies of net/http allow that:
// bodyEOFSignal and the pipe of HTTP/2 hold no lock while they read, and gzipReader
// keeps its buffers until the Read returns. Canceling the attempt's context instead
// would need a context for every attempt.
func (c *call) drain(body io.ReadCloser, w io.Writer) {
	if body == nil || body == http.NoBody {
		return
	}
	d := c.draining
	if d == nil {
		d = new(draining)
		d.open(body)
		d.timer = time.AfterFunc(patience, d.close)
	} else {
		d.open(body)
		d.timer.Reset(patience)
	}
	_, _ = io.Copy(w, &d.rest)
	c.draining = d
	if !d.timer.Stop() { // its func may still run, and must not close the next body
		c.draining = nil
	}
	d.close()
}

// draining is what a drain needs. It serves one call: its timer must not get into
// another synctest bubble.
type draining struct {
	rest   io.LimitedReader
	timer  *time.Timer
	body   io.Closer
	closed atomic.Bool // the body, by the drain or the timer's func
}

// open is called while the timer does not run.
func (d *draining) open(body io.ReadCloser) {
	d.body, d.rest = body, io.LimitedReader{R: body, N: 64 << 10}
	d.closed.Store(false)
}

func (d *draining) close() {
	if d.closed.CompareAndSwap(false, true) {
		d.body.Close()
	}
}

// headerLimit is the context of an attempt whose response headers must arrive in time.
// The body is read under it too, and closing the body ends it. No goroutine waits for
// any of this.
type headerLimit struct {
	context.Context
	cancel   context.CancelCauseFunc
	caller   context.Context
	timer    interface{ Stop() bool } // reports whether it has not run out
	deadline context.Context          // what the timer waits for; nil: the system's clock
	body     io.ReadCloser            // the response's, once it is bound
}

// limitHeaders returns the context of an attempt that begins now.
func limitHeaders(ctx context.Context, clock clockx.Clock, d time.Duration) *headerLimit {
	l := &headerLimit{caller: ctx}
	if readings.System(clock) {
		l.Context, l.cancel = context.WithCancelCause(ctx)
		l.timer = time.AfterFunc(d, l.expire)
		return l
	}
	deadline, free := clock.WithTimeoutCause(ctx, d, retry.ErrAttemptTimeout) // first: it may panic
	l.watch(deadline, free, ctx)
	return l
}

// outlive returns the context of an attempt whose response lasts as long as another context.
func outlive(attempt, lasts context.Context) *headerLimit {
	l := &headerLimit{caller: lasts}
	deadline, free := context.WithCancel(attempt)
	l.watch(deadline, free, carried{lasts, attempt})
	return l
}

// watch ends l with ctx, and with deadline if that is sooner than the headers.
func (l *headerLimit) watch(deadline context.Context, free context.CancelFunc, ctx context.Context) {
	l.deadline = deadline
	l.Context, l.cancel = context.WithCancelCause(ctx)
	l.timer = &contextTimer{context.AfterFunc(deadline, l.expire), free} // which may call expire at once
}

// contextTimer waits for the end of a context.
type contextTimer struct {
	stop func() bool
	free func()
}

func (t *contextTimer) Stop() bool {
	defer t.free()
	return t.stop()
}

func (l *headerLimit) expire() {
	if l.deadline != nil {
		l.cancel(context.Cause(l.deadline)) // maybe the caller's
		return
	}
	l.cancel(retry.ErrAttemptTimeout)
}

// Err does not wait for AfterFunc's goroutine: on a virtual clock time would pass.
func (l *headerLimit) Err() error {
	if l.deadline != nil && l.deadline.Err() == context.DeadlineExceeded {
		l.expire()
	}
	return l.Context.Err()
}

// reached takes the result of the exchange.
func (l *headerLimit) reached(resp *http.Response, err error) (*http.Response, error) {
	inTime := l.timer.Stop()
	if inTime && err == nil {
		l.bind(resp)
		return resp, nil
	}
	if !inTime {
		l.expire()
		if err == nil || l.caller.Err() == nil { // for HTTP/2 it was context.Canceled
			err = context.Cause(l.Context)
		}
	}
	l.cancel(nil)
	closeBody(resp)
	return nil, err
}

// bind ends the context with the body.
func (l *headerLimit) bind(resp *http.Response) {
	l.body = resp.Body
	switch conn := bindConn(resp); {
	case conn != nil:
		conn.end = l.cancel
	case l.body == nil, l.body == http.NoBody:
		l.cancel(nil)
	default:
		resp.Body = (*boundBody)(l)
	}
}

// end frees what an attempt without a response holds.
func (l *headerLimit) end() {
	l.timer.Stop()
	l.cancel(nil)
}

// boundBody ends its attempt's context when it has been read or is closed.
type boundBody headerLimit

func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *boundBody) Close() error {
	err := b.body.Close()
	b.cancel(nil)
	return err
}

// boundConn is the connection of a 101. It ends its attempt when it is closed, not at
// the end of reading, since there may still be something to write.
type boundConn struct {
	io.ReadWriteCloser
	end context.CancelCauseFunc
}

// bindConn binds the connection of a 101. It returns nil if resp has none.
func bindConn(resp *http.Response) *boundConn {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	bound := &boundConn{ReadWriteCloser: conn}
	resp.Body = bound
	return bound
}

func (c *boundConn) Close() error {
	defer c.end(nil)
	return c.ReadWriteCloser.Close()
}

// CloseWrite calls that of net/http's connection, if it has one.
func (c *boundConn) CloseWrite() error {
	if conn, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", errors.ErrUnsupported)
}
