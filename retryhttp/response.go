package retryhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// drain reads what is left of a body into w, so that its connection can be used
// again, and closes it. It gives up on one that is long or slow.
//
// A Read that blocks is ended by a Close beside it. The bodies of net/http allow
// that: bodyEOFSignal and the pipe of HTTP/2 hold no lock while they read, and
// gzipReader keeps its buffers until the Read is back. To cancel the attempt's
// context instead would need a context of its own for every attempt.
func drain(body io.ReadCloser, w io.Writer) {
	if body == nil {
		return
	}
	closeOnce := sync.OnceFunc(func() { body.Close() })
	timer := time.AfterFunc(patience, closeOnce)
	_, _ = io.CopyN(w, body, 64<<10)
	timer.Stop()
	closeOnce()
}

// headerLimit is the context of an attempt whose response headers must come in
// time. The body is read under it too: it ends when that is closed. No goroutine
// waits for any of this.
type headerLimit struct {
	context.Context
	cancel context.CancelCauseFunc
	caller context.Context
	timer  context.Context
	disarm func() bool // reports whether the timer has not run out, and no longer matters
	free   func()
}

// limitHeaders returns nil and ctx itself if there is no limit.
func limitHeaders(ctx context.Context, clock clockx.Clock, d time.Duration) (context.Context, *headerLimit) {
	if d <= 0 {
		return ctx, nil
	}
	if clock == nil {
		clock = clockx.System()
	}
	l := &headerLimit{caller: ctx}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	l.timer, l.free = clock.WithTimeoutCause(ctx, d, retry.ErrAttemptTimeout)
	l.disarm = context.AfterFunc(l.timer, l.expire)
	return l, l
}

func (l *headerLimit) expire() { l.cancel(context.Cause(l.timer)) }

// Err does not wait for AfterFunc's goroutine: on a virtual clock time would pass.
func (l *headerLimit) Err() error {
	if l.timer.Err() == context.DeadlineExceeded {
		l.expire()
	}
	return l.Context.Err()
}

// reached takes what RoundTrip returned.
func (l *headerLimit) reached(resp *http.Response, err error) (*http.Response, error) {
	if resp == nil && err == nil {
		err = retry.Stop(errors.New("retryhttp: Base returned neither a response nor an error"))
	}
	if l == nil {
		return resp, err
	}
	defer l.free()
	switch inTime := l.disarm(); {
	case inTime && err == nil:
		l.bind(resp)
		return resp, nil
	case err == nil:
		err = context.Cause(l.timer)
		drain(resp.Body, io.Discard)
	case !inTime && l.caller.Err() == nil:
		err = context.Cause(l.timer) // for HTTP/2 it was context.Canceled
	}
	l.cancel(nil)
	return nil, err
}

// bind ends the context with the body. With 101 the connection is the caller's,
// and its body can be written to: it is left as it is.
func (l *headerLimit) bind(resp *http.Response) {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
	case resp.Body == nil, resp.Body == http.NoBody:
		l.cancel(nil)
	default:
		resp.Body = &boundBody{resp.Body, l.cancel}
	}
}

// end frees what an attempt holds that was not made.
func (l *headerLimit) end() {
	if l != nil {
		l.free()
		l.cancel(nil)
	}
}

// boundBody ends its attempt's context when it has been read or is closed.
type boundBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *boundBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
