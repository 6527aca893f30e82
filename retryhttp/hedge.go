package retryhttp

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

// dispatch sends req through t's Base. It uses hedges if t has a Hedge for the host,
// and if two copies of req may run at the same time. The attempt expires then; zero
// means never.
func (c *call) dispatch(t *Transport, req *http.Request, expires time.Time) (*http.Response, error) {
	if t.Prepare != nil {
		c.handed.Store(true)
	}
	if t.Hedge != nil && !c.prove && raceable(req) {
		if h := t.Hedge(host(req.URL)); h != nil {
			return (&race{call: c, via: t, req: req, expires: expires}).run(h)
		}
	}
	return c.toBase(t, req)
}

// toBase sends req through t's Base. A client's call looks at the connections itself, since
// only it can send a request again that the client has taken.
func (c *call) toBase(t *Transport, req *http.Request) (*http.Response, error) {
	if c.client {
		return t.base().RoundTrip(req)
	}
	return c.onLive(t.base(), req)
}

// raceable reports whether copies of req may run at the same time. An idempotent
// method is not enough. The second of two DELETEs finds nothing, and its quick 404
// would beat the success. A PUT that lost may overwrite what was written after the
// winner.
func raceable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return req.URL != nil && !hasBody(req) && req.Header.Get("Upgrade") == "" && req.Header.Get("Expect") == ""
	}
	return false
}

// race is an attempt that is sent with hedges.
type race struct {
	*call
	via     *Transport
	req     *http.Request
	expires time.Time

	mu      sync.Mutex
	last    *http.Response // that was a failure
	refused bool           // and in which the server refused a retry
}

// run returns the first answer. If there is none, it returns the last response in which
// a server refused a retry, or else the last response, even if an error came after it,
// or else the error.
func (r *race) run(h *hedge.Hedge) (resp *http.Response, err error) {
	defer func() {
		if r.last != resp {
			closeBody(r.last)
		}
	}()
	p := *r.policy
	p.Classify = r.classify
	keep := func(leave func(retry.Exit), x retry.Exit) { r.guarding.held = held{leave, x} }
	value := hedge.Value[*http.Response]{Discard: r.discard, Take: r.take, Keep: keep}
	got, err := hedge.Race(r.req.Context(), p, h, r.attempt, value)
	if v := p.Judge(err); err != nil && r.last != nil && (got != nil || v.Class != retry.Permanent || v.Refused) {
		r.discard(got)
		got = r.last
	}
	switch {
	case got == nil:
		return nil, err
	case got.Request != nil: // of a copy, whose context has its number
		got.Request = got.Request.WithContext(r.req.Context())
	}
	return got, nil
}

// attempt sends a copy. A status that is worth a retry counts as a failure, so that it
// does not beat a later success.
//
// Once its headers have arrived, the copy's context lasts as long as its body, since the caller may
// read the body of a failure too.
func (r *race) attempt(ctx context.Context) (resp *http.Response, err error) {
	limit := outlive(ctx, r.req.Context())
	var got *http.Response
	defer func() {
		if resp == nil { // a func of the policy has panicked, or there is nothing to close
			limit.end()
			closeBody(got)
		}
	}()
	if got, err = r.toBase(r.via, r.copy(limit)); err != nil || got == nil {
		return nil, err
	}
	limit.timer.Stop()
	limit.bind(got)
	v := r.objection(got)
	if v.Err == nil {
		return got, nil
	}
	r.keep(got, v.Refused)
	return got, &attemptError{v}
}

// classify is Policy.Classify for the copies: it knows what a status means.
func (r *race) classify(err error) retry.Class {
	if f, ok := err.(*attemptError); ok {
		return f.verdict.Class
	}
	return cmp.Or(r.said(err), r.class(err, err))
}

// copy returns the request for one copy, on its context.
func (r *race) copy(ctx context.Context) *http.Request {
	req := r.req.WithContext(ctx)
	if r.via.TimeoutHeader != "" && hedge.Number(ctx) > 1 { // there is less time left
		req.Header = req.Header.Clone()
		r.tellTime(r.via, req, r.expires)
	}
	return req
}

// keep keeps a response that is to be returned if there is no answer.
func (r *race) keep(resp *http.Response, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused || !r.refused {
		r.last, r.refused = resp, refused
	}
}

// discard closes a response that is not returned, without draining it. It keeps the
// last failure, which may still be returned.
func (r *race) discard(resp *http.Response) {
	if resp != r.last {
		closeBody(resp)
	}
}

// closeBody closes the body of resp, if there is one.
func closeBody(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
}

// carried is the context of a request with the values of an attempt's, so that
// [hedge.Number] works in Base.
type carried struct {
	context.Context
	attempt context.Context
}

// Value has no value of the attempt's by which [context.Cause] would find how that one has ended.
func (c carried) Value(key any) any {
	if v := context.WithoutCancel(c.attempt).Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
