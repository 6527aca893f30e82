package retryhttp

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
)

type (
	editKey       struct{}
	idempotentKey struct{}
	gaveUpKey     struct{}
)

// edit is one [WithPolicy].
type edit struct {
	outer *edit
	edit  func(retry.Policy) retry.Policy
}

func (e *edit) apply(p *retry.Policy) {
	if e != nil {
		e.outer.apply(p)
		*p = e.edit(*p)
	}
}

// WithPolicy returns a context for requests whose policy is what edit makes of the
// policy they would have: that of the [Transport] with its Name and Budget, or that
// of the [JSON] or [Download] call. Use it for a request that must not be retried, or
// may take longer. Of nested edits the outer one comes first. A nil edit changes
// nothing. It is called once for each call, maybe concurrently.
func WithPolicy(ctx context.Context, change func(retry.Policy) retry.Policy) context.Context {
	if change == nil {
		return ctx
	}
	outer, _ := ctx.Value(editKey{}).(*edit)
	return context.WithValue(ctx, editKey{}, &edit{outer, change})
}

// Idempotent returns a context for requests that may run twice on the server, or
// with false must not, whatever their method and their key say. With Idempotent(ctx,
// true) a PROPFIND, or a POST that only reads, is retried as a GET is. Of nested
// ones the inner one counts. Policy.NonIdempotent goes before Idempotent(ctx, true).
func Idempotent(ctx context.Context, yes bool) context.Context {
	return context.WithValue(ctx, idempotentKey{}, yes)
}

// GaveUp returns why the retries that a response ended were given up. It returns
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
