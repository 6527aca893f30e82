package retryhttp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// settingsKey is a context's key for *settings.
type settingsKey struct{}

// settings are what a context sets for its requests.
type settings struct {
	edits      []func(retry.Policy) retry.Policy // of a policy, in order
	idempotent *bool                             // nil: as the request's method and key say
	call       *call                             // of JSON or Download, which makes the retries; nil: none
	expires    time.Time                         // when that call's attempt times out; zero: by the context
}

func settingsOf(ctx context.Context) *settings {
	s, _ := ctx.Value(settingsKey{}).(*settings)
	return s
}

// with returns a context with what s holds in addition to outer's, maybe nil.
func (s *settings) with(ctx context.Context, change func(*settings)) context.Context {
	var inner settings
	if s != nil {
		inner = *s
	}
	change(&inner)
	return context.WithValue(ctx, settingsKey{}, &inner)
}

// or returns s with what it lacks from other. Each of them may be nil.
func (s *settings) or(other *settings) *settings {
	switch {
	case s == nil:
		return other
	case other == nil:
		return s
	}
	both := *s
	if both.idempotent == nil {
		both.idempotent = other.idempotent
	}
	if len(both.edits) == 0 {
		both.edits = other.edits
	}
	return &both
}

// unset returns ctx without settings. They are for the request that they were made
// for, and not for others that Prepare or Base make in its context.
func unset(ctx context.Context) context.Context {
	return context.WithValue(ctx, settingsKey{}, (*settings)(nil))
}

// WithPolicy returns a context whose requests use the policy that edit returns. edit
// gets the policy that they would use otherwise: that of the [Transport] with its Name,
// Budget and Guards, or that of the [JSON] or [Download] call. Use it for a request that must
// not be retried, or may take longer. Nested edits apply from the outside in. edit is
// called once per call, maybe concurrently. A nil edit changes nothing.
func WithPolicy(ctx context.Context, edit func(retry.Policy) retry.Policy) context.Context {
	return settingsOf(ctx).with(ctx, func(s *settings) {
		if edit != nil {
			s.edits = append(slices.Clip(s.edits), edit)
		}
	})
}

// Idempotent returns a context whose requests may run twice on the server, or must not
// if yes is false, whatever their method and their key. With Idempotent(ctx, true) a
// PROPFIND, or a POST that only reads, is retried as a GET is. If calls are nested,
// the inner one counts. Policy.NonIdempotent overrides Idempotent(ctx, true).
//
// It does not count for other requests, such as for a token, that Transport.Prepare or
// Base make in the context of their request. Nor do [WithPolicy] and a call of [JSON]
// or [Download].
func Idempotent(ctx context.Context, yes bool) context.Context {
	return settingsOf(ctx).with(ctx, func(s *settings) { s.idempotent = &yes })
}

// GaveUp returns why no further attempt followed the one that got resp: the *[retry.Error] of the
// run. It returns nil for an answer, which is a response that the policy would not retry and for
// which [Transport.Check] returned no error, and if resp is not from a [Transport] or [Download].
// So a func that returns a response and an error may return GaveUp(resp).
func GaveUp(resp *http.Response) error {
	if resp == nil || resp.Request == nil {
		return nil
	}
	g, ok := resp.Request.Context().Value(gaveUpKey{}).(*gaveUp)
	if !ok || g.req != resp.Request { // a request made with this one's context is another request
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
