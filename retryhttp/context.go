package retryhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/goretry/retry"
)

// settingsKey is a context's key for *settings.
type settingsKey struct{}

// settings are what a context says about the requests under it.
type settings struct {
	outer      *settings
	edit       func(retry.Policy) retry.Policy // of a policy; nil: none
	idempotent *bool                           // nil: the request tells
	call       *call                           // of JSON or Download, which makes the retries; nil: none
	expires    time.Time                       // when the attempt of that call does; zero: the context tells
}

func settingsOf(ctx context.Context) *settings {
	s, _ := ctx.Value(settingsKey{}).(*settings)
	return s
}

// with returns a context with what s holds in addition to outer's, maybe nil.
func (s *settings) with(ctx context.Context, change func(*settings)) context.Context {
	inner := settings{outer: s}
	if s != nil {
		inner.idempotent, inner.call, inner.expires = s.idempotent, s.call, s.expires
	}
	change(&inner)
	return context.WithValue(ctx, settingsKey{}, &inner)
}

func (s *settings) apply(p *retry.Policy) {
	if s == nil {
		return
	}
	s.outer.apply(p)
	if s.edit != nil {
		*p = s.edit(*p)
	}
}

// WithPolicy returns a context for requests whose policy is what edit makes of the
// policy they would have: that of the [Transport] with its Name and Budget, or that
// of the [JSON] or [Download] call. Use it for a request that must not be retried, or
// may take longer. Of nested edits the outer one comes first. edit is called once
// for each call, maybe concurrently. A nil edit changes nothing.
func WithPolicy(ctx context.Context, edit func(retry.Policy) retry.Policy) context.Context {
	return settingsOf(ctx).with(ctx, func(s *settings) { s.edit = edit })
}

// Idempotent returns a context for requests that may run twice on the server, or
// with false must not, whatever their method and their key say. With Idempotent(ctx,
// true) a PROPFIND, or a POST that only reads, is retried as a GET is. Of nested
// ones the inner one counts. Policy.NonIdempotent goes before Idempotent(ctx, true).
func Idempotent(ctx context.Context, yes bool) context.Context {
	return settingsOf(ctx).with(ctx, func(s *settings) { s.idempotent = &yes })
}

// GaveUp returns why no further attempt followed the one that got resp. It returns
// nil if the response is an answer, which is one that the policy would not retry
// and that [Transport.Check] did not object to, and if it is not from a [Transport]
// or [Download].
func GaveUp(resp *http.Response) *retry.Error {
	if resp == nil || resp.Request == nil {
		return nil
	}
	g, ok := resp.Request.Context().Value(gaveUpKey{}).(*gaveUp)
	if !ok || g.req != resp.Request { // a request made in this one's context is another one
		return nil
	}
	return g.err
}

// gaveUpKey is a context's key for *gaveUp.
type gaveUpKey struct{}

// gaveUp is the context of the request of a response that ended the retries.
type gaveUp struct {
	context.Context
	req *http.Request
	err *retry.Error
}

func (g *gaveUp) Value(key any) any {
	if _, ok := key.(gaveUpKey); ok {
		return g
	}
	return g.Context.Value(key)
}
