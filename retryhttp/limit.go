package retryhttp

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

// LimitTransport is an [http.RoundTripper] that sends a request only if a limit on the
// requests in flight has a place for it. Put it below a [Transport], so that each attempt
// and each hedge takes a place of its own:
//
//	var peers limit.PerKey // one limit for each host
//
//	client := &http.Client{Transport: &retryhttp.Transport{
//		Policy: policy,
//		Base:   &retryhttp.LimitTransport{Limit: peers.For},
//	}}
//
// Without a place RoundTrip returns [limit.ErrLimited]. Nothing was sent then, so a
// Transport retries any request after it.
//
// A request holds its place until the body of its response has been read to the end or is
// closed, until its context ends, or until Base returns an error. After 101 Switching
// Protocols only closing the body ends it. [limit.SignOf] says what the end means to the
// limit: of the error of Base or of the body, or else, from status 400 on, of a
// *[StatusError]. So 429 is an Overload, 504 and a deadline are a Timeout, 404 is an
// Answer and 503 is no sign. An Answer is Prompt if its headers came within half of the
// Transport's AttemptTimeout, or of the time until the context's deadline.
//
// Set the fields before the first use. A LimitTransport is safe for concurrent use, and
// calls its funcs concurrently. If one of them panics, the place is given back.
type LimitTransport struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Limit returns the limit for a host, written as for [Transport].Budget. It must return
	// the same one for the same host. Nil, or nil from it, means no limit.
	Limit func(host string) *limit.Limit

	// Classify judges errors: see [retry.Policy].Classify. Set it for a server that answers
	// 503 because it is overloaded: such an error has to be Throttled. Nil means
	// [retry.DefaultClassifier].
	Classify retry.Classifier
}

// RoundTrip sends req through Base, or returns [limit.ErrLimited].
func (t *LimitTransport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	var l *limit.Limit
	if t.Limit != nil && req.URL != nil {
		l = t.Limit(host(req.URL))
	}
	if l == nil {
		return t.base().RoundTrip(req)
	}
	if !l.Acquire() {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, limit.ErrLimited
	}
	p := &place{limit: l, ctx: req.Context(), policy: retry.Policy{Classify: t.Classify}}
	bound := false // to the response, which ends it
	defer func() {
		if !bound {
			p.leave(limit.NoSign)
		}
	}()
	began := time.Now()
	resp, err = t.base().RoundTrip(req)
	if err != nil || resp == nil {
		p.end(err)
		return resp, err
	}
	available := timeFor(p.ctx, began)
	p.prompt = available > 0 && 2*time.Since(began) <= available
	if resp.StatusCode >= 400 {
		e := &StatusError{Code: resp.StatusCode, Method: req.Method, URL: redact(req.URL)}
		e.readHint(resp.Header, time.Now)
		p.answer = e
	}
	p.bind(resp)
	bound = true
	return resp, nil
}

// timeFor returns how long the headers of an attempt that begins now may take, 0 if nothing
// limits that.
func timeFor(ctx context.Context, now time.Time) time.Duration {
	limit, _ := ctx.Value(headerTime{}).(time.Duration)
	if deadline, ok := ctx.Deadline(); ok && (limit == 0 || deadline.Sub(now) < limit) {
		limit = deadline.Sub(now)
	}
	return limit
}

// CloseIdleConnections closes those of Base, for [http.Client.CloseIdleConnections].
func (t *LimitTransport) CloseIdleConnections() { closeIdle(t.base()) }

func (t *LimitTransport) base() http.RoundTripper { return orDefault(t.Base) }

// place is a place of a limit that a request holds, and the body of its response.
type place struct {
	limit  *limit.Limit
	ctx    context.Context // the request's
	policy retry.Policy
	answer error // the response as an error; nil below status 400
	prompt bool  // its headers came within half of the time they had

	once    sync.Once
	body    io.ReadCloser
	unwatch func() bool
}

// bind makes the place last as long as the body of resp. Without one it ends now.
func (p *place) bind(resp *http.Response) {
	switch p.body = resp.Body; {
	case p.body == nil, p.body == http.NoBody:
		p.end(nil)
		return
	case resp.StatusCode == http.StatusSwitchingProtocols:
		if conn, ok := p.body.(io.ReadWriteCloser); ok {
			resp.Body = &boundConn{conn, p.end}
			return
		}
	}
	p.unwatch = context.AfterFunc(p.ctx, func() {
		p.leave(limit.SignOf(p.ctx, retry.Policy{}, p.ctx.Err())) // without Classify: nobody could recover from its panic here
	})
	resp.Body = p
}

// end gives the place back. err is what the request failed with; nil means that the
// response says how it went.
func (p *place) end(err error) {
	if err == nil {
		err = p.answer
	}
	p.once.Do(func() {
		sign := limit.NoSign // if Classify panics
		defer func() { p.limit.Release(sign) }()
		if sign = limit.SignOf(p.ctx, p.policy, err); sign == limit.Answer && p.prompt {
			sign = limit.Prompt
		}
	})
}

// leave gives the place back without a look at how the request went.
func (p *place) leave(sign limit.Sign) {
	p.once.Do(func() { p.limit.Release(sign) })
}

func (p *place) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	switch {
	case err == nil:
	case err == io.EOF:
		p.unwatch()
		p.end(nil)
	default:
		p.unwatch()
		p.end(err)
	}
	return n, err
}

func (p *place) Close() error {
	defer func() {
		p.unwatch()
		p.end(p.ctx.Err())
	}()
	return p.body.Close()
}

// LimitHandler returns a handler that calls h only if a limit on the requests in flight has
// a place. Otherwise it answers 429 with Retry-After: 1 and does nothing else, so any
// request may be sent again.
//
//	var places limit.Limit // one for all that shares a bottleneck
//
//	handler := retryhttp.LimitHandler(mux, func(*http.Request) *limit.Limit { return &places })
//
// limitOf returns the limit for a request: the same one for all, one for a route, or one
// for a caller ([limit.PerKey]). Nil from it means no limit. It is called concurrently.
// LimitHandler panics if h or limitOf is nil.
//
// A request holds its place until h returns or panics, so a WebSocket handler until it
// ends. The request's context says what that means to the limit: a Timeout if its deadline
// has passed, no sign if the caller has hung up, or else an Answer. Put [DeadlineHandler]
// around it: without a deadline no sign makes the limit fall. A status says nothing,
// because handlers refuse callers for reasons other than the load. A panic is no sign.
//
// h gets the server's own ResponseWriter and request.
func LimitHandler(h http.Handler, limitOf func(*http.Request) *limit.Limit) http.Handler {
	if h == nil || limitOf == nil {
		panic("retryhttp: nil handler or limitOf")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := limitOf(r)
		if !l.Acquire() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests in flight", http.StatusTooManyRequests)
			return
		}
		sign := limit.NoSign // if h panics
		defer func() { l.Release(sign) }()
		h.ServeHTTP(w, r)
		sign = limit.SignOf(r.Context(), retry.Policy{}, r.Context().Err())
	})
}
