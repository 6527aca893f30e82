package retryhttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// call is one RoundTrip, or one JSON.
type call struct {
	*Transport
	req     *http.Request                        // the caller's, never written to
	timeout time.Duration                        // of an attempt, up to its response headers
	wait    func(context.Context, retry.Attempt) // Policy.Hooks.Wait
	key     string                               // the Idempotency-Key to be added
	keyed   bool                                 // the request has a key, its own or that one
	prove   bool                                 // no second attempt without proof that nothing was sent

	attempts   int
	redirected bool            // the latest attempt was; only JSON sees it
	ctx        context.Context // the latest attempt's
	wire       *wire           // what it was seen to do, if prove
	body       *replay         // the request's, nil if it has none or has GetBody
	copied     io.ReadCloser   // what GetBody gave for the next attempt
	lost       error           // why it gave nothing
	resp       *http.Response  // to be discarded if a retry follows
}

// attempt is the op of a Transport's run. Beside the error for a response that is
// worth a retry it returns that response.
func (c *call) attempt(ctx context.Context) (*http.Response, error) {
	resp, err := c.send(ctx)
	if err != nil {
		return nil, c.again(err)
	}
	resp.Request = c.req
	if c.attempts > 1 {
		resp.Request = c.req.WithContext(ctx)
	}
	c.resp = resp
	if resp.StatusCode < 400 {
		return resp, nil
	}
	err = c.failure(resp)
	if retry.Classifiers(c.Policy.Classify, retry.DefaultClassifier)(err) == retry.Permanent {
		return resp, nil
	}
	return resp, c.again(err)
}

func (c *call) method() string { return cmp.Or(c.req.Method, http.MethodGet) }

func (c *call) url() string {
	if c.req.URL == nil {
		return ""
	}
	return redact(c.req.URL)
}

// send makes one attempt, up to the response headers.
func (c *call) send(ctx context.Context) (*http.Response, error) {
	c.attempts++
	c.ctx, c.redirected = ctx, false
	if c.prove {
		c.wire = new(wire)
		ctx = c.wire.watch(ctx)
	}
	ctx, limit := limitHeaders(ctx, c.Policy.Clock, c.timeout)
	req, err := c.request(ctx)
	if err != nil {
		limit.end()
		return nil, retry.Stop(err)
	}
	resp, err := limit.reached(c.base().RoundTrip(req))
	if err != nil {
		return nil, c.explain(err)
	}
	return resp, nil
}

// request returns what the attempt sends: the caller's request with no more
// changed than must be.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	req := c.req
	if c.attempts == 1 {
		req = req.WithContext(ctx)
		c.body = newReplay(req, c.MaxBuffer)
	} else {
		req = req.Clone(ctx)
		req.Trailer = c.req.Trailer // the caller fills it in while the body is read
		if c.AttemptHeader != "" {
			setHeader(req, c.AttemptHeader, strconv.Itoa(c.attempts))
		}
	}
	if c.key != "" {
		req.Header = req.Header.Clone()
		setHeader(req, "Idempotency-Key", c.key)
	}
	var err error
	switch {
	case c.body != nil:
		req.Body, err = c.body.next()
	case c.lost != nil:
		err = &unreplayable{c.lost, ErrNotReplayable}
	case c.copied != nil:
		req.Body, c.copied = c.copied, nil
	}
	return req, err
}

func setHeader(req *http.Request, name, value string) {
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set(name, value)
}

// explain adds to the error of an attempt without a response what only HTTP knows
// about it.
func (c *call) explain(err error) error {
	select {
	//lint:ignore SA1019 a caller may still use it
	case <-c.req.Cancel:
		c.awaitDeadline()
		return retry.Stop(err)
	default:
	}
	if e, ok := err.(tls.RecordHeaderError); ok && string(e.RecordHeader[:]) == "HTTP/" {
		err = fmt.Errorf("%w: %w", http.ErrSchemeMismatch, err) // http.Client would say so, but sees a *retry.Error
	}
	// net/http's refusals are known by their text, which is only looked at where
	// http.Client puts it.
	switch class := retry.DefaultClassifier(&url.Error{Err: err}); {
	case class == retry.Permanent:
		return &judged{err, retry.Permanent}
	case refused(err), c.wire.idle():
		return &judged{err, retry.Unprocessed}
	case c.wire.sent() && class == retry.Unprocessed: // a Base that tried twice tells of its last try alone
		return &judged{err, retry.Transient}
	}
	return err
}

// awaitDeadline waits for the context to end if its deadline has passed. The Timeout
// of http.Client closes Request.Cancel a moment before it ends the context, which
// is what the run should see.
func (c *call) awaitDeadline() {
	if deadline, ok := c.ctx.Deadline(); !ok || time.Until(deadline) > 0 {
		return
	}
	timer := time.NewTimer(patience) // a deadline of a virtual clock may be long past
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-timer.C:
	}
}

// again stops the sending of the request's body and returns err, marked if that
// cannot be sent again.
func (c *call) again(err error) error {
	if c.body == nil {
		return err
	}
	if lost := c.body.hold(); lost != nil && err != nil {
		return retry.Stop(&unreplayable{err, lost})
	}
	return err
}

// discard is the run's Hooks.Wait: a retry will follow.
func (c *call) discard(ctx context.Context, a retry.Attempt) {
	switch {
	case c.body != nil:
		c.body.detach()
	case hasBody(c.req):
		c.copied, c.lost = c.req.GetBody()
	}
	if c.resp != nil && c.lost == nil {
		drain(c.resp.Body, io.Discard)
		c.resp = nil
	}
	if c.wait != nil {
		c.wait(ctx, a)
	}
}

// end frees what the caller does not get.
func (c *call) end(returned bool) {
	switch {
	case c.attempts == 0 && c.req.Body != nil:
		c.req.Body.Close()
	case c.body != nil:
		c.body.finish(returned)
	case c.copied != nil:
		c.copied.Close()
	}
	if c.resp != nil && c.resp.Body != nil && !returned {
		c.resp.Body.Close()
	}
}

// wire watches an attempt. One that asked for a connection and never got one has
// sent nothing. To have seen no event at all proves nothing: not every
// RoundTripper reports any.
//
// That headers were not reported as written would prove too little: an HTTP/2
// attempt that is canceled may return just before it writes them.
type wire struct{ asked, got atomic.Bool }

func (w *wire) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { w.asked.Store(true) },
		GotConn:      func(httptrace.GotConnInfo) { w.got.Store(true) },
		WroteHeaders: func() { w.got.Store(true) },
	})
}

func (w *wire) idle() bool { return w != nil && w.asked.Load() && !w.got.Load() }
func (w *wire) sent() bool { return w != nil && w.got.Load() }

// refused reports whether an HTTP/2 server has refused the stream: it guarantees
// that it has not processed the request (RFC 9113, section 8.7). The type in
// net/http has no exported name, but lets itself be copied to one of its shape.
func refused(err error) bool {
	var stream http2StreamError
	return errors.As(err, &stream) && stream.Code == 7
}

// http2StreamError has the shape of golang.org/x/net/http2.StreamError.
type http2StreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (http2StreamError) Error() string { return "http2: stream error" }
