package retryhttp

import (
	"net/http"
	"strings"

	"github.com/goretry/retry"
)

// Transport is an [http.RoundTripper] that sends a request again when that may
// help and does no harm. The zero value retries through
// [http.DefaultTransport] with the zero [retry.Policy]. Write it as a keyed literal
// and set its fields before the first use. It is safe for concurrent use.
//
// The package documentation says which requests are retried, and what the caller
// gets in the end.
type Transport struct {
	// Base sends the requests: one call of its RoundTrip per attempt. Nil means
	// http.DefaultTransport; a Transport that takes the place of that one needs a
	// Base. The body of a response that is retried may be closed while it is read.
	Base http.RoundTripper

	// Policy decides. Its AttemptTimeout covers an attempt up to its response
	// headers; reading the body is under the request's own context. With
	// NonIdempotent set no method counts as idempotent, whatever the key. Classify
	// is asked, maybe twice, about *[StatusError] as well, from status 400 on. Where
	// the answer is Permanent the response is no failure to hooks and budgets: it is
	// what the caller wanted to know.
	Policy retry.Policy

	// MaxBuffer is how many bytes of a request body that has neither GetBody nor
	// Seek are kept while it is sent, so that it can be sent again. A longer one is
	// sent once: see [ErrNotReplayable]. Zero means 64 KiB, a negative number none.
	MaxBuffer int64

	// IdempotencyKey returns the key by which the server recognizes a request
	// that it has seen. It is called once for a request that is not idempotent and
	// has no key, and its key goes with every attempt, in the header
	// Idempotency-Key as a quoted string: quotes are added unless it has them. Nil,
	// or "" from it, leaves the request without. It must be safe for concurrent
	// use and must not change the request.
	IdempotencyKey func(*http.Request) string

	// Budget returns the budget that limits the retries to a host, in lower case:
	// "example.com" or "example.com:8080". Nil, or nil from it, means Policy.Budget. It must be
	// safe for concurrent use, and give the same host the same budget.
	Budget func(host string) retry.Budget

	// AttemptHeader names a request header that tells the server the attempt's
	// number, from the second attempt on. Empty means none.
	AttemptHeader string
}

// RoundTrip sends req until an answer or the policy ends it. It returns the last
// real response, whatever its status, with its body unread; without one, a
// *[retry.Error]. If the request's context has ended, it returns the error.
func (t *Transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if req.Context().Value(insideJSON{}) != nil {
		return t.base().RoundTrip(req) // JSON makes the retries
	}
	c := &call{Transport: t, req: req}
	defer func() { c.end(resp != nil) }()
	p := c.begin()
	c.timeout, p.AttemptTimeout = p.AttemptTimeout, 0 // Do's would end with the attempt, and the body with it
	resp, err = retry.Do(req.Context(), p, c.attempt)
	switch {
	case err == nil:
		return resp, nil
	case c.resp != nil && c.ctx.Err() == nil:
		return c.resp, nil
	}
	return nil, err
}

// CloseIdleConnections does what [http.Client.CloseIdleConnections] asks for.
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

// begin returns the policy for a call.
func (c *call) begin() retry.Policy {
	p := c.Policy
	c.wait = p.Hooks.Wait
	p.Hooks.Wait = c.discard
	safe := idempotent(c.req.Method)
	c.keyed = hasKey(c.req.Header)
	if !c.keyed && !safe && c.IdempotencyKey != nil {
		c.key = quoted(c.IdempotencyKey(c.req))
		c.keyed = c.key != ""
	}
	p.NonIdempotent = p.NonIdempotent || !c.keyed && !safe
	c.prove = p.NonIdempotent
	if c.Budget != nil && c.req.URL != nil {
		if b := c.Budget(strings.ToLower(c.req.URL.Host)); b != nil {
			p.Budget = b
		}
	}
	return p
}

// idempotent reports whether a method may run twice (RFC 9110, section 9.2.2).
func idempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// hasKey asks as net/http does: a key without a value says that the request is
// idempotent, and is not sent.
func hasKey(h http.Header) bool {
	_, ok := h["Idempotency-Key"]
	_, x := h["X-Idempotency-Key"]
	return ok || x
}

// quoted returns a key as a string of structured fields (RFC 9651), as
// draft-ietf-httpapi-idempotency-key-header wants it.
func quoted(key string) string {
	if key == "" || len(key) > 1 && key[0] == '"' && key[len(key)-1] == '"' {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
