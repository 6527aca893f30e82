package retryhttp

import (
	"context"
	"net/http"
	"reflect"
)

// sending is what the attempts of a call send: the caller's request with as few changes as
// possible.
type sending struct {
	req    *http.Request // the caller's, never written to
	key    string        // the Idempotency-Key to be added
	body   body
	first  *http.Request // memory for what the first attempt sends, if that is not req; nil: not allocated yet
	shared *http.Request // the deep copy that the second attempt has sent and later ones share; nil: none
}

// next returns what an attempt sends on ctx, by its number. own says that it gets headers of
// its own. limit is Transport.MaxBuffer.
func (s *sending) next(ctx context.Context, number int, own bool, limit int64) (req *http.Request) {
	body := s.body.next(limit)
	switch {
	case own:
		req = clone(ctx, s.req)
	case number == 1 && s.key == "" && s.body.replay == nil && same(ctx, s.req.Context()):
		return s.req
	case number == 1:
		if req = s.first; req == nil {
			req = new(http.Request)
		}
		*req = *s.req.WithContext(ctx)
	case s.shared == nil:
		req = clone(ctx, s.req)
		s.shared = req
	default:
		req = s.shared.WithContext(ctx)
	}
	if s.key != "" {
		setKey(req, s.key)
	}
	req.Body = body
	return req
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
