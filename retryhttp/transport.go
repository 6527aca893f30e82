package retryhttp

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

// Transport is an [http.RoundTripper] that sends a request again if that may help and
// is safe. The zero value retries through [http.DefaultTransport] with the zero
// [retry.Policy]. Write it as a keyed literal and set its fields before the first use.
// It is safe for concurrent use, and calls its funcs concurrently. When one of them
// panics, the bodies of the request and of the response are closed, and the panic
// passes through.
//
// The package documentation says which requests are retried, and what the caller gets.
type Transport struct {
	// Base sends the requests: one call of its RoundTrip per attempt. Nil means
	// http.DefaultTransport. A Transport that replaces http.DefaultTransport needs a
	// Base. The body of a response that is retried may be closed while it is read.
	//
	// A request that must not run twice is repeated after an error of Base only with proof:
	// by what Base reports to [net/http/httptrace], it asked for a connection and got none;
	// the server refused the stream (HTTP/2's REFUSED_STREAM, HTTP/3's
	// H3_REQUEST_REJECTED); or the error is marked by [retry.Undone]. Other errors prove
	// nothing, even one of a dial. So a Base that reports no events, such as HTTP/3's,
	// marks what it knows. One that tries several servers must report all of its requests,
	// or mark nothing.
	Base http.RoundTripper

	// Policy decides; see also [WithPolicy]. Its AttemptTimeout covers an attempt up to
	// its response headers, with Prepare and Check; reading the body is under the
	// request's own context. With NonIdempotent set no request counts as idempotent,
	// whatever its method, its key or [Idempotent] say. Classify is also called with a
	// *[StatusError], from status 400 on, maybe more than once. If it returns Permanent,
	// the response is an answer, and not a failure to hooks and budgets. A class other
	// than Unknown goes before the server's headers about retries.
	Policy retry.Policy

	// Name returns the name of the run in errors, logs, spans and metrics: a route
	// pattern such as "GET /users/{id}", never the path, because telemetry needs few
	// different names. Nil, or "" from it, means Policy.Name. It must not change the
	// request.
	Name func(*http.Request) string

	// MaxBuffer is how many bytes of a request body that has neither GetBody nor Seek are
	// kept while it is sent, so that it can be sent again. A longer body is sent once:
	// see [ErrNotReplayable]. Zero means 64 KiB, a negative number none.
	MaxBuffer int64

	// MaxResponse is how many bytes of a 2xx body [JSON] reads, after
	// decompression. A longer body is a permanent error. Zero means 64 MiB, a
	// negative number no limit.
	MaxResponse int64

	// IdempotencyKey returns the key by which the server recognizes a request that it has
	// seen. It is called once for each request that has no key and needs one to be
	// retried. Every attempt sends the key in the header Idempotency-Key, as a string of
	// structured fields (RFC 9651): quotes are added if they are missing. A key with a
	// character that is not printable ASCII is a permanent error, and nothing is sent.
	// Nil, or "" from it, leaves the request without a key. It must not change the
	// request.
	//
	// With a key, requests of every method are retried. A server that does not know the
	// header runs them again, so set this only if the server documents the header.
	IdempotencyKey func(*http.Request) string

	// Budget returns the budget that limits the retries to a host: "example.com" or
	// "example.com:8080", in lower case, without a trailing dot and without the
	// default port of the scheme. Nil, or nil or a nil pointer from it, means
	// Policy.Budget. It must give the same host the same budget, as a [retry.PerKey] does:
	//
	//	var hosts retry.PerKey[retry.EarnedBudget] // in a package variable
	//
	//	Budget: func(host string) retry.Budget { return hosts.For(host) },
	Budget func(host string) retry.Budget

	// Guards returns guards of a request, such as the [pace.Pace] of a key and a model, or
	// the limit of a host. They go before Policy.Guards: a Pace that is to go before such a limit
	// has to be among them. It must return the same guards for all requests that count together,
	// so keep the slices too, since it is called for each request. Nil, or none from it, means
	// Policy.Guards. It must not change the request, nor read its body.
	//
	// An attempt whose response the caller gets is held by its guards until the body has been
	// read to the end or is closed, or the request's context ends; after a 101 only until the
	// body is closed. So a place of a limit is taken for as long as the server is at work. A
	// redirect that [JSON] or [Download] follows also passes those guards of its own request
	// that have not admitted the attempt, and fails if one has it wait. A guard that cannot be
	// compared, such as a func, admits it again: make it a pointer.
	Guards func(*http.Request) []retry.Guard

	// PaceByHeaders tells each Pace among the guards what the headers of answers say. It
	// calls [pace.Pace.Tell] with the quota of requests that OpenAI, Anthropic, GitHub (core and
	// search), or one policy of RateLimit-Policy states: a Pace without a Quota keeps it. It calls
	// [pace.Pace.Hold] if nothing remains of a limit until it is reset: RateLimit, and those with
	// Remaining and Reset of which [ParseRetryAfter] knows the names, but not those of OpenAI or
	// Anthropic beside a quota that they state, since their reset is when all of it is free again.
	// A refusal (429, 403, 5xx) holds only a quota that it states. If several processes use the
	// quota, give them a Quota that they share: each would take what remains for its own.
	PaceByHeaders bool

	// Check is called with every response except a 101, before the status is judged, also
	// with a 2xx. It is for servers that report failures in bodies. If it returns an
	// error, the attempt has failed. What the status and the headers say then counts, such
	// as 429 and its Retry-After, unless the error says otherwise by a mark or a wait, or
	// Policy.Classify does. After a status that is an answer, such as 200 or 404, the
	// error is judged as any other. If the run ends with
	// it, the caller still gets the response, and [GaveUp] returns the error. If Check is
	// nil or returns nil, the status decides. Check may read the body if it replaces it
	// by an equal one. Mark the error by [retry.Undone] if the response proves that the
	// request did nothing.
	Check func(*http.Response) error

	// Prepare is called for each attempt with the clone of the request that it sends, and
	// may change it: to sign it, or to set a fresh token. All other headers are set by
	// then. http.Client sends each hop of a redirect through the Transport. So compare
	// the URL's Host before you set a secret: otherwise any server that a redirect names
	// gets it. If Prepare returns an error, the attempt fails with it. Nothing was sent
	// then, so any request is retried unless the error is permanent. Nil means none.
	Prepare func(*http.Request) error

	// AttemptHeader names a request header that tells the server the attempt's
	// number, from the second attempt on. Empty means none.
	AttemptHeader string

	// Hedge returns the hedge for a host, written as for Budget. Beside a slow attempt a
	// second copy of its request is sent, and the first response headers win. A status
	// that the policy would retry does not win: a quick 503 does not beat a slow 200, but a
	// quick 404 does.
	// If no copy wins, a server that refused a retry to either of them ends the run.
	// Nil, or nil from it, means no hedges. It must return the same Hedge for the same
	// host, since a Hedge measures.
	//
	// Only GET, HEAD and OPTIONS are hedged, without a body and without the headers
	// Upgrade and Expect. PUT and DELETE are not: they may run twice, but not at the same
	// time. AttemptTimeout covers both copies. The copies are equal except for the
	// TimeoutHeader, since Prepare and AttemptHeader apply to attempts. In Base,
	// [hedge.Number] of the request's context distinguishes them. The loser is canceled
	// and closed, not drained, which over HTTP/1 costs a connection. Over HTTP/2 two
	// copies on one connection go to the same server: give the second one a Transport of
	// its own, by its number. With a *clockx.Virtual in Policy.Clock only hedges with
	// hedge.Never work, see [hedge.Race].
	Hedge func(host string) *hedge.Hedge

	// TimeoutHeader names a request header that tells the server how many milliseconds
	// are left until the attempt's deadline or the caller's, whichever is sooner, rounded
	// down. Empty, or a request without either deadline, means none. [DeadlineHandler]
	// reads it. Envoy reads X-Envoy-Upstream-Rq-Timeout-Ms, and sends
	// X-Envoy-Expected-Rq-Timeout-Ms to the server behind it.
	TimeoutHeader string

	// Dropped is called for each connection that a retry has closed because it has gone
	// silent: see the package documentation. It gets the context of the retry's request, and
	// what [net/http/httptrace] says of the connection. Use it to count and to log them. Nil
	// means none.
	Dropped func(context.Context, httptrace.GotConnInfo)
}

// RoundTrip sends req until it has an answer or the policy ends the run. The package
// documentation says what it returns; if a guard has ended the run, a *[retry.Error].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := settingsOf(req.Context())
	if s != nil && s.call != nil { // JSON or Download makes the retries
		return t.pass(s, req)
	}
	return newCall(t, req, s != nil || t.changes(req)).roundTrip(req.Context(), s)
}

// changes reports whether the first attempt probably sends another request than req: in
// another context, or with another body. See [call.request].
func (t *Transport) changes(req *http.Request) bool {
	p := &t.Policy
	return p.AttemptTimeout > 0 || p.NonIdempotent || p.Hooks.Start != nil || p.Hooks.Attempt != nil ||
		!idempotent(req.Method) || hasBody(req) && req.GetBody == nil
}

// CloseIdleConnections closes those of Base, for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// pass sends a request of JSON or Download, which may be a hop of a redirect.
func (t *Transport) pass(s *settings, req *http.Request) (*http.Response, error) {
	ctx := unset(req.Context())
	if t.Prepare == nil && t.TimeoutHeader == "" {
		return s.call.hop(t, req.WithContext(ctx), s.expires)
	}
	req = clone(ctx, req)
	if err := s.call.prepare(t, req, s.expires); err != nil {
		return nil, err
	}
	return s.call.hop(t, req, s.expires)
}

// plan sets the call's policy, its idempotency key, and whether it may run twice.
func (c *call) plan(s *settings) {
	c.policy, c.hasSettings = &c.Policy, s != nil
	if c.Name != nil || c.Budget != nil || c.Guards != nil || hasBody(c.req) && len(c.Policy.Guards) > 0 || s != nil || c.Policy.Hooks.Wait != nil {
		p := c.Policy
		c.adapt(&p, s)
		if hasBody(c.req) && len(p.Guards) > 0 {
			p.Hooks.Guard = c.guardHook(p.Hooks.Guard)
		}
		if hook := p.Hooks.Wait; hook != nil {
			p.Hooks.Wait = c.waitHook(hook)
		}
		c.policy = &p
	}
	switch {
	case c.policy.NonIdempotent:
		c.prove = true
	case s != nil && s.idempotent != nil:
		c.prove = !*s.idempotent
	case !idempotent(c.req.Method) && !hasKey(c.req.Header):
		if c.IdempotencyKey != nil {
			c.key, c.refusal = quote(c.IdempotencyKey(c.req))
		}
		c.prove = c.key == ""
	}
	if c.refusal != nil { // nothing will be sent, so no guard need admit it
		p := *c.policy
		p.Guards, c.policy = nil, &p
	}
	switch {
	case len(c.policy.Guards) == 0:
		c.guarding = nil
	case c.guarding == nil:
		c.guarding = new(guarding)
	}
}

// adapt makes the Transport's policy this call's.
func (c *call) adapt(p *retry.Policy, s *settings) {
	if c.Name != nil {
		if name := c.Name(c.req); name != "" {
			p.Name = name
		}
	}
	if c.Budget != nil && c.req.URL != nil {
		if b := c.Budget(host(c.req.URL)); !absent(b) {
			p.Budget = b
		}
	}
	if c.Guards != nil {
		if own := c.Guards(c.req); len(own) > 0 {
			p.Guards = append(slices.Clip(own), p.Guards...)
		}
	}
	if s != nil {
		for _, edit := range s.edits {
			p.Guards = slices.Clone(p.Guards) // else an edit would change those of all requests
			*p = edit(*p)
		}
		c.unguarded = len(p.Guards) == 0 && len(s.edits) > 0
	}
}

// absent reports whether b is nil, or a nil pointer: what the For of a nil [retry.PerKey]
// returns.
func absent(b retry.Budget) bool {
	v := reflect.ValueOf(b)
	return b == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// idempotent reports whether a method may run twice (RFC 9110, section 9.2.2).
func idempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// host returns u's host as one name: in lower case, without a trailing dot and
// without the default port of u's scheme.
func host(u *url.URL) string {
	h, port := strings.ToLower(u.Host), u.Port()
	name := strings.TrimSuffix(strings.TrimSuffix(h, port), ":")
	name = strings.TrimSuffix(name, ".")
	if port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return name
	}
	return name + ":" + port
}
