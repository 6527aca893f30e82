package retryhttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hint"
)

// call is one RoundTrip, one JSON, or the first or a later response of a Download.
type call struct {
	*Transport
	req         *http.Request // the caller's, never written to
	client      bool          // the base is an http.Client, which follows redirects
	hasSettings bool          // the request's context has
	policy      *retry.Policy // the Transport's, for this call; not to be written to
	timeout     time.Duration // of an attempt, up to its response headers; JSON's is the policy's
	key         string        // the Idempotency-Key to be added
	refusal     error         // why nothing more is sent
	prove       bool          // a retry needs proof that nothing was sent

	attempts  int
	evidence                  // of the latest attempt
	late      bool            // its response headers have not come in time
	freed     bool            // a retry follows: see beforeRetry
	ctx       context.Context // the latest attempt's
	limit     *headerLimit    // of the latest attempt, until its headers are there
	firstReq  *http.Request   // memory for what the first attempt sends, if that is not the caller's request; nil: not allocated yet
	sharedReq *http.Request   // the deep copy that the second attempt has sent and later ones share; nil: none
	body      body
	resp      *http.Response         // to be discarded if a retry follows
	draining  *draining              // what the latest drain needed
	shownURL  atomic.Pointer[string] // the URL for errors, once there was one
}

// roomyCall is a call and its firstReq, in one allocation.
type roomyCall struct {
	call
	request http.Request
}

// newCall returns a call of t. Ask for room if the first attempt will send a request that
// differs from the caller's.
func newCall(t *Transport, req *http.Request, room bool) *call {
	if !room {
		return &call{Transport: t, req: req}
	}
	c := new(roomyCall)
	c.Transport, c.call.req, c.firstReq = t, req, &c.request
	return &c.call
}

// roundTrip makes the run of a Transport or a Download.
func (c *call) roundTrip(ctx context.Context, s *settings) (resp *http.Response, err error) {
	c.body.req = c.req
	defer func() { c.end(resp != nil) }()
	c.plan(s)
	run := c.untimed(ctx)
	defer run.Close()
	var got *http.Response
	for run.Next() {
		var v retry.Verdict
		if got, v = c.attempt(run.Context()); v.Err == nil {
			c.hold(run, got)
		}
		c.settle(run, v)
	}
	if err = run.Err(); err != nil {
		if got = c.resp; got == nil || c.ctx.Err() != nil {
			return nil, err
		}
	}
	c.label(got, err)
	return got, nil
}

// untimed returns the run of a call whose attempts last until the response headers: the
// run's own timeout would end with the attempt, and the body with it.
func (c *call) untimed(ctx context.Context) *retry.Attempts {
	c.timeout = c.policy.AttemptTimeout
	run := c.policy.Attempts(ctx)
	run.Untimed()
	return run
}

// settle ends an attempt. If another one follows, it frees what the attempt holds.
func (c *call) settle(run *retry.Attempts, v retry.Verdict) {
	v.Once = c.prove && v.Err != nil
	if run.Judged(v) {
		c.beforeRetry()
	}
}

// judge returns the verdict on an error: by its marks, by Policy.Classify, or else by
// own, the class that HTTP knows. Unknown leaves the class to [retry.DefaultClassifier],
// which proves nothing.
func (c *call) judge(err error, own retry.Class) retry.Verdict {
	p := retry.Policy{Classify: func(err error) retry.Class { return cmp.Or(c.said(err), own) }}
	v := p.Judge(err)
	if c.late && v.Class == retry.Transient {
		v.Class = retry.TimedOut // the run does not know the limit of the headers
	}
	return v
}

// said returns what Policy.Classify says, Unknown if it has no opinion.
func (c *call) said(err error) retry.Class {
	if classify := c.policy.Classify; classify != nil {
		if class := classify(err); class <= retry.Unprocessed {
			return class
		}
	}
	return retry.Unknown
}

// permanent is the verdict on an error that HTTP knows to be permanent.
func permanent(err error) retry.Verdict { return retry.Verdict{Err: err, Class: retry.Permanent} }

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

// attempt makes an attempt. If a response is worth a retry, or Check returned an error
// for it, attempt returns the response and the verdict.
func (c *call) attempt(ctx context.Context) (*http.Response, retry.Verdict) {
	resp, v := c.send(ctx)
	if resp != nil && v.Err == nil {
		if v = c.objection(resp); v.Err == nil {
			c.heed(resp)
			return resp, v
		}
	}
	return resp, c.holdBody(v)
}

// heed holds each pace if the headers of an answer say that the quota is used up.
func (c *call) heed(resp *http.Response) {
	if !c.PaceByHeaders || len(c.policy.Guards) == 0 {
		return
	}
	wait, _ := hint.ParseLimits(canonical(resp.Header), c.now)
	for _, g := range c.policy.Guards {
		if pace, ok := g.(interface{ Hold(time.Duration) }); ok {
			pace.Hold(wait)
		}
	}
}

// objection returns the verdict on a response that is worth a retry, or the zero
// Verdict if the response is an answer.
func (c *call) objection(resp *http.Response) retry.Verdict {
	if resp.StatusCode >= 400 {
		if v, answer := c.failure(resp); !answer {
			return v
		}
	}
	return retry.Verdict{}
}

func (c *call) method() string { return cmp.Or(c.req.Method, http.MethodGet) }

func (c *call) url() string {
	if c.req.URL == nil {
		return ""
	}
	if shown := c.shownURL.Load(); shown != nil {
		return *shown
	}
	shown := redact(c.req.URL)
	c.shownURL.Store(&shown) // so may the other attempts of a race
	return shown
}

// send makes one attempt, up to the response headers and Check. With an error of Check
// it returns the response too.
func (c *call) send(ctx context.Context) (*http.Response, retry.Verdict) {
	c.attempts++
	c.ctx, c.resp, c.freed = ctx, nil, false
	c.clear()
	if c.refusal != nil {
		return nil, permanent(c.refusal)
	}
	if c.prove {
		ctx = c.watch(ctx)
	}
	var expires time.Time
	if c.TimeoutHeader != "" && c.timeout > 0 {
		expires = c.now().Add(c.timeout)
	}
	if c.client {
		ctx = context.WithValue(ctx, settingsKey{}, &settings{call: c, expires: expires})
	} else if c.hasSettings {
		ctx = unset(ctx)
	}
	ctx, c.limit = limitHeaders(ctx, c.policy.Clock, c.timeout)
	resp, objection, err := c.exchange(ctx, expires)
	resp, err = c.limit.reached(resp, err)
	c.late = c.limit != nil && err == retry.ErrAttemptTimeout
	c.limit, c.resp = nil, resp
	switch {
	case err != nil:
		return nil, c.explain(err)
	case objection != nil:
		return resp, c.judge(objection, retry.Unknown)
	}
	return resp, retry.Verdict{}
}

// exchange sends the request once.
func (c *call) exchange(ctx context.Context, expires time.Time) (resp *http.Response, objection, err error) {
	req, err := c.request(ctx, expires)
	if err != nil {
		return nil, nil, err
	}
	if c.client {
		resp, err = c.Base.RoundTrip(req)
	} else {
		resp, err = c.dispatch(c.Transport, req, expires)
	}
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
	body := c.body.next(c.MaxBuffer)
	var req *http.Request
	switch {
	case prepared, c.attempts > 1 && (c.client || c.AttemptHeader != ""): // with headers of its own
		req = clone(ctx, c.req)
	case c.attempts == 1 && c.key == "" && c.body.replay == nil && same(ctx, c.req.Context()):
		return c.req, nil
	case c.attempts == 1:
		if req = c.firstReq; req == nil {
			req = new(http.Request)
		}
		*req = *c.req.WithContext(ctx)
	case c.sharedReq == nil:
		req = clone(ctx, c.req)
		c.sharedReq = req
	default:
		req = c.sharedReq.WithContext(ctx)
	}
	if c.attempts > 1 && c.AttemptHeader != "" {
		setHeader(req, c.AttemptHeader, strconv.Itoa(c.attempts))
	}
	if c.key != "" {
		setKey(req, c.key)
	}
	req.Body = body
	if prepared {
		return req, c.prepare(c.Transport, req, expires)
	}
	return req, nil
}

// same reports whether two contexts are one, if they can be compared at little cost.
func same(a, b context.Context) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && (t.Kind() == reflect.Pointer || t == background) && a == b
}

var background = reflect.TypeOf(context.Background()) // which is no pointer

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
	ready := false
	defer func() {
		if !ready && req.Body != nil {
			req.Body.Close() // as a RoundTripper must
		}
	}()
	c.tellTime(t, req, expires) // the policy's clock may panic
	if t.Prepare == nil {
		ready = true
		return nil
	}
	err := t.Prepare(req)
	ready = err == nil
	c.unready.Store(!ready)
	return err
}

// tellTime sets t's TimeoutHeader in a request that is not the caller's.
func (c *call) tellTime(t *Transport, req *http.Request, expires time.Time) {
	if t.TimeoutHeader == "" {
		return
	}
	if deadline, ok := req.Context().Deadline(); ok && (expires.IsZero() || deadline.Before(expires)) {
		expires = deadline
	}
	if !expires.IsZero() {
		left := max(expires.Sub(c.now()), 0)
		setHeader(req, t.TimeoutHeader, strconv.FormatInt(left.Milliseconds(), 10))
	}
}

func (c *call) now() time.Time {
	if c.policy.Clock == nil {
		return time.Now()
	}
	return c.policy.Clock.Now()
}

// explain returns the verdict on an attempt without a response.
func (c *call) explain(err error) retry.Verdict {
	select {
	//lint:ignore SA1019 a caller may still use it
	case <-c.req.Cancel:
		c.awaitDeadline()
		return permanent(err)
	default:
	}
	if c.unready.Load() && !c.handed.Load() {
		return c.unsent(err)
	}
	if e, ok := err.(tls.RecordHeaderError); ok && string(e.RecordHeader[:]) == "HTTP/" {
		err = fmt.Errorf("%w: %w", http.ErrSchemeMismatch, err) // http.Client would say so, but sees a *retry.Error
	}
	cause := err
	if e, ok := err.(*url.Error); ok && c.client {
		cause = e.Err
	}
	v := c.judge(err, c.class(err, cause))
	if c.client && !c.redirected.Load() { // a mark inside a *url.Error proves nothing to others
		v.Undone = v.Undone || retry.Policy{}.Judge(cause).Undone
	}
	return v
}

// unsent returns the verdict on a request that was not sent. Unless it is permanent, a
// retry may follow, whatever else Policy.Classify says.
func (c *call) unsent(err error) retry.Verdict {
	v := c.judge(err, retry.Unknown)
	if v.Class != retry.Permanent {
		v.Undone = true
		if !v.Marked {
			v.Class = retry.Unprocessed
		}
	}
	return v
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
// again, and ends the run if it cannot. It does nothing if no retry can follow.
func (c *call) holdBody(v retry.Verdict) retry.Verdict {
	if v.Err == nil || !hasBody(c.req) || !c.mayFollow(v) {
		return v
	}
	if lost := c.body.hold(); lost != nil {
		return permanent(&unreplayable{v.Err, lost})
	}
	return v
}

// mayFollow reports whether a retry may follow v. It uses a [retry.Loop] with this
// call's policy, but without its limits of time and its budget.
func (c *call) mayFollow(v retry.Verdict) bool {
	p := retry.Policy{MaxAttempts: c.policy.AttemptLimit(), MaxRetryAfter: c.policy.MaxRetryAfter, NonIdempotent: c.prove, Backoff: retry.Constant(0)}
	loop := p.Resume(time.Time{}, c.attempts-1, 0)
	_, ok := loop.Judged(time.Time{}, v)
	return ok
}

// waitHook returns the Hooks.Wait of a call: a slow hook must not hold the response and its
// connection. The run calls it before settle learns that an attempt follows.
func (c *call) waitHook(hook func(context.Context, retry.Attempt)) func(context.Context, retry.Attempt) {
	return func(ctx context.Context, a retry.Attempt) {
		c.beforeRetry()
		hook(ctx, a)
	}
}

// beforeRetry frees what the latest attempt holds, before the wait. It does nothing if it
// has done so, and before the first attempt.
func (c *call) beforeRetry() {
	if c.freed || c.attempts == 0 {
		return
	}
	c.freed = true
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
