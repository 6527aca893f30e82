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
	"strings"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// call is one RoundTrip, one JSON, or the first or a later response of a Download.
type call struct {
	*Transport
	req     *http.Request // the caller's, never written to
	client  bool          // the base is an http.Client, which follows redirects
	policy  *retry.Policy // the Transport's, for this call; not to be written to
	timeout time.Duration // of an attempt, up to its response headers; JSON's is the policy's
	key     string        // the Idempotency-Key to be added
	refusal error         // why nothing more is sent
	prove   bool          // a retry needs proof that nothing was sent

	attempts   int
	handed     bool            // the latest attempt's request is the base's
	late       bool            // its headers have not come in time
	redirected bool            // a redirect was followed; only a client does that
	ctx        context.Context // the latest attempt's
	wire       *wire           // what it was observed to do, if prove
	limit      *headerLimit    // of the latest attempt, until its headers are there
	first      http.Request    // what the first attempt sends, unless it is prepared
	body       body
	resp       *http.Response // to be discarded if a retry follows
	draining   *draining      // what the latest drain needed
	shown      string         // the URL for errors
}

// roundTrip makes the run of a Transport or a Download.
func (c *call) roundTrip(ctx context.Context, s *settings) (resp *http.Response, err error) {
	c.body.req = c.req
	defer func() { c.end(resp != nil) }()
	c.plan(s)
	got, err := retry.Do(ctx, c.headersOnly(), c.attempt)
	if err != nil {
		if got = c.resp; got == nil || c.ctx.Err() != nil {
			return nil, err
		}
	}
	c.label(got, err)
	return got, nil
}

// headersOnly returns the policy for a run whose attempts last until the response
// headers: Do's timeout would end with the attempt, and the body with it.
func (c *call) headersOnly() retry.Policy {
	p := c.run()
	c.timeout, p.AttemptTimeout = p.AttemptTimeout, 0
	if c.timeout > 0 && c.policy.Classify != nil {
		p.Classify = c.orTimedOut(p.Classify)
	}
	return p
}

// orTimedOut returns classify, except that Transient becomes TimedOut if the headers
// came too late: the run does not know their limit.
func (c *call) orTimedOut(classify retry.Classifier) retry.Classifier {
	return func(err error) retry.Class {
		class := classify(err)
		if class == retry.Transient && c.late {
			return retry.TimedOut
		}
		return class
	}
}

// run returns the policy for the call's run.
func (c *call) run() retry.Policy {
	p := *c.policy
	p.NonIdempotent, p.Budget = c.prove, (*gate)(c)
	if p.Classify == nil {
		p.Classify = known
	}
	return p
}

// known is a classifier for errors that this package has judged already.
// [retry.DefaultClassifier] judges them in the same way.
func known(err error) retry.Class {
	switch e := err.(type) {
	case *StatusError:
		return e.class
	case *judged:
		return e.class
	}
	return retry.Unknown
}

// gate is a call as the budget of its own run, around its actual budget. A run
// withdraws from its budget last, and only if a retry will follow. That is the time to
// free what the attempt holds. A Hooks.Wait is called at that time too, but costs an
// allocation and a reading of the clock when there is no retry.
type gate call

func (g *gate) Begin(o retry.Opening) {
	if b := g.policy.Budget; b != nil {
		b.Begin(o)
	}
}

func (g *gate) Withdraw(w retry.Withdrawal) bool {
	if b := g.policy.Budget; b != nil && !b.Withdraw(w) {
		return false
	}
	g.Follow()
	return true
}

// Follow makes a gate an [engine.Follower]: after an ErrRejected of Check no budget is
// checked.
func (g *gate) Follow() { (*call)(g).beforeRetry() }

func (g *gate) End(o retry.Outcome) {
	if b := g.policy.Budget; b != nil {
		b.End(o)
	}
}

// label sets the request of a response that is returned: the caller's, or the
// latest of a client's redirects.
func (c *call) label(resp *http.Response, err error) {
	req, ctx := c.req, c.ctx
	if c.client && resp.Request != nil {
		req = resp.Request
	} else if err == nil && c.attempts == 1 {
		resp.Request = req
		return
	}
	var why *gaveUp
	if e, ok := errors.AsType[*retry.Error](err); ok {
		why = &gaveUp{Context: ctx, err: e}
		ctx = why
	}
	resp.Request = req.WithContext(ctx)
	if why != nil {
		why.req = resp.Request
	}
}

// attempt is the op of the run. If a response is worth a retry, or Check returned an
// error for it, attempt returns the response and the error.
func (c *call) attempt(ctx context.Context) (*http.Response, error) {
	resp, err := c.send(ctx)
	if resp != nil && err == nil {
		if err = c.objection(resp); err == nil {
			return resp, nil
		}
	}
	return resp, c.holdBody(err)
}

// objection returns the error that makes a response worth a retry, or nil if the
// response is an answer.
func (c *call) objection(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	err, answer := c.failure(resp)
	if answer {
		return nil
	}
	return err
}

func (c *call) method() string { return cmp.Or(c.req.Method, http.MethodGet) }

func (c *call) url() string {
	if c.shown == "" && c.req.URL != nil {
		c.shown = redact(c.req.URL)
	}
	return c.shown
}

// send makes one attempt, up to the response headers and Check. With an error of Check
// it returns the response too.
func (c *call) send(ctx context.Context) (*http.Response, error) {
	c.attempts++
	c.ctx, c.handed, c.redirected, c.resp = ctx, false, false, nil
	if c.refusal != nil {
		return nil, retry.Stop(c.refusal)
	}
	if c.prove {
		c.wire = new(wire)
		ctx = c.wire.watch(ctx)
	}
	var expires time.Time
	if c.TimeoutHeader != "" && c.timeout > 0 {
		expires = c.now().Add(c.timeout)
	}
	if c.client {
		ctx = settingsOf(ctx).with(ctx, func(s *settings) { s.call, s.expires = c, expires })
	}
	ctx, c.limit = limitHeaders(ctx, c.policy.Clock, c.timeout)
	resp, objection, err := c.exchange(ctx, expires)
	resp, err = c.limit.reached(resp, err)
	c.late = c.limit != nil && err == retry.ErrAttemptTimeout
	c.limit, c.resp = nil, resp
	if err != nil {
		return nil, c.explain(err)
	}
	return resp, objection
}

// exchange sends the request once.
func (c *call) exchange(ctx context.Context, expires time.Time) (resp *http.Response, objection, err error) {
	req, err := c.request(ctx, expires)
	if err != nil {
		return nil, nil, err
	}
	c.handed = true
	resp, err = c.dispatch(c.Transport, req)
	switch {
	case err != nil:
		return nil, nil, err
	case resp == nil:
		return nil, nil, retry.Stop(errors.New("retryhttp: Base returned neither a response nor an error"))
	case c.Check == nil, resp.StatusCode == http.StatusSwitchingProtocols:
		return resp, nil, nil
	}
	c.resp = resp // to be closed if Check panics
	if resp.Request == nil {
		resp.Request = req
	}
	return resp, c.Check(resp), nil
}

// request returns what the attempt sends: the caller's request with as few changes as
// possible.
func (c *call) request(ctx context.Context, expires time.Time) (*http.Request, error) {
	prepared := !c.client && (c.Prepare != nil || c.TimeoutHeader != "") // a client's hops are prepared one by one
	req := &c.first
	if c.attempts == 1 && !prepared {
		*req = *c.req.WithContext(ctx)
	} else {
		req = clone(ctx, c.req)
	}
	if c.attempts > 1 && c.AttemptHeader != "" {
		setHeader(req, c.AttemptHeader, strconv.Itoa(c.attempts))
	}
	if c.key != "" {
		setKey(req, c.key)
	}
	req.Body = c.body.next(c.MaxBuffer)
	if prepared {
		return req, c.prepare(c.Transport, req, expires)
	}
	return req, nil
}

// clone returns a deep copy of req.
func clone(ctx context.Context, req *http.Request) *http.Request {
	trailer := req.Trailer
	req = req.Clone(ctx)
	req.Trailer = trailer // the caller fills it in while the body is read
	return req
}

// prepare adds t's TimeoutHeader to a clone of a request, and calls t.Prepare. expires
// is on the policy's clock; zero means never.
func (c *call) prepare(t *Transport, req *http.Request, expires time.Time) error {
	if t.TimeoutHeader != "" {
		if deadline, ok := req.Context().Deadline(); ok && (expires.IsZero() || deadline.Before(expires)) {
			expires = deadline
		}
		if !expires.IsZero() {
			left := max(expires.Sub(c.now()), 0)
			setHeader(req, t.TimeoutHeader, strconv.FormatInt(left.Milliseconds(), 10))
		}
	}
	if t.Prepare == nil {
		return nil
	}
	ready := false
	defer func() {
		if !ready && req.Body != nil {
			req.Body.Close() // as a RoundTripper must
		}
	}()
	err := t.Prepare(req)
	ready = err == nil
	return err
}

// unsent returns the error of a request that was not sent. Unless it is permanent, a
// retry may follow.
func (c *call) unsent(err error) error {
	if c.policy.Judge(err).Class == retry.Permanent {
		return err
	}
	return &judged{error: err, class: retry.Unprocessed, unsent: true}
}

func (c *call) now() time.Time {
	if c.policy.Clock == nil {
		return time.Now()
	}
	return c.policy.Clock.Now()
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
	if !c.handed {
		return c.unsent(err)
	}
	if e, ok := err.(tls.RecordHeaderError); ok && string(e.RecordHeader[:]) == "HTTP/" {
		err = fmt.Errorf("%w: %w", http.ErrSchemeMismatch, err) // http.Client would say so, but sees a *retry.Error
	}
	cause := err
	if e, ok := err.(*url.Error); ok && c.client {
		cause = e.Err
	}
	class := retry.DefaultClassifier(cause)
	switch e, _ := cause.(*judged); {
	case refusedByClient(cause):
		return &judged{error: err, class: retry.Permanent}
	case c.redirected:
		return c.unproved(err)
	case e != nil && e.unsent:
		return &judged{error: err, class: retry.Unprocessed, unsent: true}
	case refused(err), c.wire.idle():
		return &judged{error: err, class: retry.Unprocessed}
	case class != retry.Unprocessed:
	case c.wire.sent(): // a Base that tried twice returns only its last error
		return &judged{error: err, class: retry.Transient}
	case cause != err: // inside a *url.Error it proves nothing to code that does not see each hop
		return &judged{error: err, class: retry.Unprocessed}
	}
	return err
}

// unproved returns err. If there was a redirect, the returned error proves nothing: a
// later request does not show that the first one did nothing.
func (c *call) unproved(err error) error {
	if !c.prove || !c.redirected {
		return err
	}
	switch retry.DefaultClassifier(err) {
	case retry.Permanent, retry.TimedOut: // which prove nothing, as they are
		return err
	}
	return &judged{error: err, class: retry.Transient}
}

// refusedByClient reports whether net/http has rejected the request, or a proxy the
// client. These errors have nothing but a text; a test makes net/http produce each of
// them. [retry.DefaultClassifier] knows other texts, and only inside the errors of
// http.Client.
func refusedByClient(err error) bool {
	if retry.DefaultClassifier(&url.Error{Err: err}) == retry.Permanent {
		return true
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	text := err.Error()
	return strings.HasPrefix(text, "http: ContentLength=") ||
		strings.HasPrefix(text, "http: Request.ContentLength=") ||
		text == "http2: request body larger than specified content length" ||
		text == http.StatusText(http.StatusProxyAuthRequired) // to CONNECT
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

// holdBody checks, before the run decides, whether the request's body can be sent
// again, and marks err if it cannot. It does nothing if no retry can follow.
func (c *call) holdBody(err error) error {
	if !hasBody(c.req) || !c.mayFollow(err) {
		return err
	}
	if lost := c.body.hold(); lost != nil {
		return retry.Stop(&unreplayable{err, lost})
	}
	return err
}

// mayFollow reports whether a retry may follow err. It uses a [retry.Loop] with this
// call's policy, but without its limits of time and its budget.
func (c *call) mayFollow(err error) bool {
	p := c.run()
	p.MaxAttempts, p.MaxElapsed, p.Budget = p.AttemptLimit(), 0, nil
	p.Backoff, p.ThrottleBackoff, p.Rand = retry.Constant(0), nil, func() float64 { return 0 }
	loop := p.Resume(time.Time{}, c.attempts-1, 0)
	_, ok := loop.Next(time.Time{}, err)
	return ok
}

// beforeRetry frees what the latest attempt holds, before the wait.
func (c *call) beforeRetry() {
	if err := c.body.drop(); err != nil {
		c.refusal = err
	}
	if c.resp != nil {
		c.drain(c.resp.Body, io.Discard)
		c.resp = nil
	}
}

// end frees what the caller does not get.
func (c *call) end(returned bool) {
	c.limit.end()
	c.body.finish(returned)
	if c.resp != nil && c.resp.Body != nil && !returned {
		c.resp.Body.Close()
	}
}

// wire observes an attempt. An attempt that requested a connection and never got one
// has sent nothing. The absence of events proves nothing, since not every RoundTripper
// reports them.
//
// Headers that were not reported as written prove nothing either: an HTTP/2 attempt
// that is canceled may return just before it writes them.
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

// refused reports whether an HTTP/2 server has refused the stream: it guarantees that
// it has not processed the request (RFC 9113, section 8.7). The type in net/http is
// not exported, but its As method copies it to a type of the same shape.
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
