package retryhttp

import (
	"context"
	"io"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ending"
)

// guardBody makes the attempt that came to an answer last as long as its body, for the guards
// of the policy: until the body has been read to the end or is closed, or until the attempt's
// context ends. After 101 Switching Protocols only closing the body ends it.
func (c *call) guardBody(run *retry.Attempts, resp *http.Response) {
	if len(c.policy.Guards) == 0 || resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	b := &guardedBody{ReadCloser: resp.Body, call: c, ctx: c.ctx, leave: run.Hold()}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if conn, ok := resp.Body.(io.ReadWriteCloser); ok {
			resp.Body = &boundConn{conn, b.end}
			return
		}
	}
	b.unwatch = context.AfterFunc(b.ctx, func() { b.end(b.ctx.Err()) })
	resp.Body = b
}

// guardedBody is a body that ends its attempt for the guards.
type guardedBody struct {
	io.ReadCloser
	call    *call
	ctx     context.Context // the attempt's
	leave   func(retry.Exit)
	unwatch func() bool
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.unwatch()
		b.end(err)
	}
	return n, err
}

func (b *guardedBody) Close() error {
	defer func() {
		b.unwatch()
		b.end(b.ctx.Err())
	}()
	return b.ReadCloser.Close()
}

// end tells the guards how the attempt has ended: by err, or as it was to if that is nil or
// [io.EOF]. Policy.Classify is not called if the context has ended, since nobody could recover from its
// panic.
func (b *guardedBody) end(err error) {
	x := retry.Exit{Ending: retry.Panicked, Verdict: retry.Verdict{Err: err}} // if Classify does
	defer func() { b.leave(x) }()
	x = b.exit(err)
}

// exit returns what the guards get.
func (b *guardedBody) exit(err error) retry.Exit {
	if err == nil || err == io.EOF {
		return retry.Exit{Ending: retry.Returned}
	}
	if how := ending.Of(b.ctx); how != retry.Returned {
		return retry.Exit{Ending: how, Verdict: retry.Verdict{Err: err}}
	}
	return retry.Exit{Ending: retry.Returned, Verdict: b.call.judge(err, retry.Unknown)}
}
