package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hint"
)

// call is one RoundTrip, one JSON, or the first or a later response of a Download.
type call struct {
	*Transport
	client      bool            // the base is an http.Client, which follows redirects
	hasSettings bool            // the request's context has
	prove       bool            // a retry needs proof that nothing was sent
	unguarded   bool            // an edit of the policy has taken all guards away
	own         bool            // the latest attempt's request has headers of its own
	freed       bool            // a retry follows: see beforeRetry
	policy      *retry.Policy   // the Transport's, for this call; not to be written to
	timeout     time.Duration   // of an attempt, up to its response headers; JSON's is the policy's
	lasts       context.Context // of Once: what ends the body; nil: what ends the attempt
	refusal     error           // why nothing more is sent

	guarding *guarding // once there is a plan, nil if the policy has no guards
	attempts int
	sending                         // what they send
	evidence                        // what was seen of the latest
	silence  *silence               // of connections; nil as long as no attempt has timed out
	ctx      context.Context        // the latest attempt's
	sent     *http.Request          // by the latest attempt
	resp     *http.Response         // to be discarded if a retry follows
	draining *draining              // what the latest drain needed
	shownURL atomic.Pointer[string] // the URL for errors, once there was one
}

// A call in one allocation with the request that its first attempt sends, or with what its guards need.
type (
	roomyCall struct {
		call
		request http.Request
	}
	guardedCall struct {
		call
		memory guarding
	}
)

// newCall returns a call of t. Ask for room if the first attempt will send a request that
// differs from the caller's.
func newCall(t *Transport, req *http.Request, room bool) *call {
	s := sending{req: req, body: body{req: req}}
	switch {
	case room:
		c := new(roomyCall)
		s.first = &c.request
		c.Transport, c.sending = t, s
		return &c.call
	case t.Guards != nil || len(t.Policy.Guards) > 0:
		c := new(guardedCall)
		c.Transport, c.sending, c.guarding = t, s, &c.memory
		return &c.call
	}
	return &call{Transport: t, sending: s}
}

// roundTrip makes the run of a Transport or a Download.
func (c *call) roundTrip(ctx context.Context, s *settings) (resp *http.Response, err error) {
	defer func() { c.end(resp != nil) }()
	c.plan(s)
	if g := c.guarding; g != nil && (c.Hedge != nil || c.client) { // a Transport below the client may have a Hedge
		g.run = c.policy.Attempts(ctx)
		return c.makeAttempts(g.run)
	}
	return c.makeAttempts(c.policy.Attempts(ctx)) // on the stack
}

// makeAttempts makes the attempts of run, each up to its response headers.
func (c *call) makeAttempts(run *retry.Attempts) (*http.Response, error) {
	c.untimed(run)
	defer run.Close()
	var got *http.Response
	for run.Next() {
		var v retry.Verdict
		if got = c.attempt(run.Context(), &v); v.Err == nil {
			c.guardBody(run, got)
		}
		c.settle(run, &v)
	}
	err := run.Err()
	if err != nil {
		if got = c.resp; got == nil || c.ctx.Err() != nil {
			return nil, err
		}
		if c.holds() {
			c.guardBody(run, got)
		}
	}
	c.label(got, err)
	return got, nil
}

// untimed makes the attempts of run last until the response headers: the run's own timeout
// would end with the attempt, and the body with it.
func (c *call) untimed(run *retry.Attempts) {
	c.timeout = c.policy.AttemptTimeout
	run.Untimed()
}

// settle ends an attempt, which has failed if v has an error. If another one follows, settle frees
// what the attempt holds.
func (c *call) settle(run *retry.Attempts, v *retry.Verdict) {
	c.holdFailure(run, v)
	if v.Err == nil {
		run.Done(nil)
		return
	}
	v.Once = c.prove
	if run.Judged(*v) {
		c.beforeRetry()
	}
}

// label sets the request of a response that is returned: the one that was sent, or the latest of
// a client's redirects, in the caller's context.
func (c *call) label(resp *http.Response, err error) {
	req, ctx := resp.Request, c.ctx
	if req == c.sent && !c.own && c.key == "" { // it differs from the caller's by its context and body only
		if err == nil && c.attempts > 1 && !hasBody(req) && same(req.Context(), ctx) {
			return
		}
		req = c.req
	}
	if err == nil && c.attempts == 1 && !c.client {
		if ctx = c.req.Context(); req == c.req {
			resp.Request = req
			return
		}
	}
	var why *gaveUp
	if e, ok := err.(*retry.Error); ok {
		why = &gaveUp{Context: ctx, err: e}
		ctx = why
	}
	resp.Request = req.WithContext(ctx)
	if !c.client { // else a hop's
		resp.Request.Body = c.req.Body
	}
	if why != nil {
		why.req = resp.Request
	}
}

// attempt makes an attempt. If a response is worth a retry, or Check returned an error
// for it, attempt returns the response and sets v, which was zero: a Verdict is long, and most
// attempts need none.
func (c *call) attempt(ctx context.Context, v *retry.Verdict) *http.Response {
	resp := c.send(ctx, v)
	if resp != nil && v.Err == nil && resp.StatusCode >= 400 {
		*v = c.objection(resp)
	}
	if v.Err != nil {
		c.rewindBody(v)
	}
	return resp
}

// toldPace is a Pace that takes its quota from a server.
type toldPace interface {
	Started() uint64
	Tell(quota float64, per time.Duration, remaining float64, started uint64)
}

// beginTold notes how many attempts have started under each pace among the guards, before one is sent whose
// answer may say what remains.
func (c *call) beginTold() {
	g := c.guarding
	if g == nil || !c.PaceByHeaders {
		return
	}
	g.started = g.started[:0]
	for _, guard := range c.policy.Guards {
		n := uint64(0)
		if pace, ok := guard.(toldPace); ok {
			n = pace.Started()
		}
		g.started = append(g.started, n)
	}
}

// heed tells each pace what the headers of an answer state of a quota. If that is used up until it is reset,
// heed holds the pace. So it does for other limits, but not by a refusal, which may be of this request alone.
func (c *call) heed(resp *http.Response) {
	if resp == nil || c.guarding == nil || !c.PaceByHeaders {
		return
	}
	header := canonical(resp.Header)
	quota, stated := hint.ParseQuota(header, c.now)
	var wait time.Duration
	refused := resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusForbidden
	if (stated || !refused) && !quota.Bucket { // when it is full is too late
		wait, _ = hint.ParseLimits(header, c.now)
	}
	for i, g := range c.policy.Guards {
		if pace, ok := g.(toldPace); ok && stated {
			pace.Tell(quota.Limit, quota.Per, quota.Remaining, c.guarding.started[i])
		}
		if pace, ok := g.(interface{ Hold(time.Duration) }); ok {
			pace.Hold(wait)
		}
	}
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

// send makes one attempt, up to the response headers and Check. If it fails, send sets v. With an
// error of Check it returns the response too.
func (c *call) send(ctx context.Context, v *retry.Verdict) *http.Response {
	if c.attempts++; c.attempts > 1 {
		c.clear()
	}
	c.ctx, c.resp, c.freed = ctx, nil, false
	if c.refusal != nil {
		*v = permanent(c.refusal)
		return nil
	}
	if c.prove {
		ctx = c.watch(ctx)
	}
	expires, _ := ctx.Deadline()                              // Once's, which its request does not have
	if c.timeout > 0 && (c.client || c.TimeoutHeader != "") { // a Transport below the client may have one
		expires = c.now().Add(c.timeout)
	}
	if c.client {
		ctx = context.WithValue(ctx, settingsKey{}, &settings{call: c, expires: expires})
	} else if c.hasSettings {
		ctx = unset(ctx)
	}
	c.beginTold()
	resp, objection, err := c.inTime(ctx, expires)
	c.heed(resp)
	switch {
	case err != nil:
		*v = c.explain(err)
		return nil
	case objection != nil:
		*v = c.objected(resp, objection)
	}
	return resp
}

// inTime is exchange within the time of an attempt.
func (c *call) inTime(ctx context.Context, expires time.Time) (resp *http.Response, objection, err error) {
	var limit *headerLimit
	switch {
	case c.lasts != nil:
		limit = outlive(ctx, c.lasts)
	case c.timeout > 0:
		limit = limitHeaders(ctx, c.policy.Clock, c.timeout)
	default:
		return c.exchange(ctx, expires)
	}
	returned := false
	defer func() {
		if !returned { // a func of the Transport has panicked
			limit.end()
		}
	}()
	resp, objection, err = c.exchange(limit, expires)
	returned = true
	resp, err = limit.reached(resp, err)
	c.late = err == retry.ErrAttemptTimeout
	c.resp = resp
	return resp, objection, err
}

// exchange sends the request once.
func (c *call) exchange(ctx context.Context, expires time.Time) (resp *http.Response, objection, err error) {
	req, err := c.request(ctx, expires)
	if err != nil {
		return nil, nil, err
	}
	if c.client {
		resp, err = c.onLive(c.Base, req)
	} else {
		resp, err = c.dispatch(c.Transport, req, expires)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case resp == nil:
		return nil, nil, retry.Stop(errors.New("retryhttp: Base returned neither a response nor an error"))
	}
	if resp.Request == nil {
		resp.Request = req
	}
	c.sent, c.resp = req, resp // to be closed if Check panics
	if c.Check == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil, nil
	}
	return resp, c.Check(resp), nil
}

// request returns what the attempt sends.
func (c *call) request(ctx context.Context, expires time.Time) (*http.Request, error) {
	prepared := !c.client && (c.Prepare != nil || c.TimeoutHeader != "") // a client's hops are prepared one by one
	numbered := c.attempts > 1 && c.AttemptHeader != ""
	redirected := c.attempts > 1 && c.client // which may change what it gets
	c.own = prepared || numbered || redirected
	req := c.next(ctx, c.attempts, c.own, c.MaxBuffer)
	if numbered {
		setHeader(req, c.AttemptHeader, strconv.Itoa(c.attempts))
	}
	if prepared {
		return req, c.prepare(c.Transport, req, expires)
	}
	return req, nil
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

// rewindBody prepares the request's body for a retry, before the run decides, and ends the
// run if it cannot be sent again. It does nothing if no retry can follow.
func (c *call) rewindBody(v *retry.Verdict) {
	if v.Err == nil || !hasBody(c.req) || !c.mayFollow(*v) {
		return
	}
	if lost := c.body.rewind(); lost != nil {
		*v = permanent(&unreplayable{v.Err, lost})
	}
}

// waitHook returns the Hooks.Wait of a call: a slow hook must not hold the response and its
// connection. The run calls it before settle learns that an attempt follows.
func (c *call) waitHook(hook func(context.Context, retry.Attempt)) func(context.Context, retry.Attempt) {
	return func(ctx context.Context, a retry.Attempt) {
		c.beforeRetry()
		hook(ctx, a)
	}
}

// guardHook returns the Hooks.Guard of a call with a body, for mayFollow. hook may be nil.
func (c *call) guardHook(hook func(context.Context, retry.Held)) func(context.Context, retry.Held) {
	return func(ctx context.Context, h retry.Held) {
		if h.Err != nil {
			c.guarding.refusals++
		}
		if hook != nil {
			hook(ctx, h)
		}
	}
}

// beforeRetry frees what the latest attempt holds, before the wait. It does nothing if it
// has done so, and before the first attempt.
func (c *call) beforeRetry() {
	if c.freed || c.attempts == 0 {
		return
	}
	c.freed = true
	c.suspect()
	c.tell()
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
	defer c.tell()
	c.body.finish(returned)
	if !returned {
		closeBody(c.resp)
	}
}
