package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// readBody is a body that knows whether it was read to its end and closed.
type readBody struct {
	io.Reader
	ended, closed bool
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *readBody) Close() error {
	b.closed = true
	return nil
}

// A slow Hooks.Wait must not hold a connection.
func TestResponseIsClosedBeforeTheWaitHook(t *testing.T) {
	for _, door := range []string{"Transport", "WithPolicy", "JSON", "Download", "Check", "a POST with a body"} {
		var bodies []*readBody
		waits := 0
		p := retry.Policy{Backoff: retry.Constant(0), Hooks: retry.Hooks{Wait: func(context.Context, retry.Attempt) {
			waits++
			if b := bodies[len(bodies)-1]; len(bodies) != waits || !b.ended || !b.closed {
				t.Errorf("%s: before wait %d of %d responses the last was read %v, closed %v", door, waits, len(bodies), b.ended, b.closed)
			}
		}}}
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if req.Body != nil {
				if text, _ := io.ReadAll(req.Body); string(text) != "order" {
					t.Errorf("%s: attempt %d sent %q", door, len(bodies)+1, text)
				}
				req.Body.Close()
			}
			status := 503
			if door == "Check" {
				status = 200
			} else if len(bodies) == 2 {
				status = 200
			}
			b := &readBody{Reader: strings.NewReader(`{}`)}
			bodies = append(bodies, b)
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: b, ContentLength: 2, Request: req}, nil
		})
		rt := &retryhttp.Transport{Base: base, Policy: p}
		client := &http.Client{Transport: rt}
		req := request(t, "GET", "http://example.com/", nil)
		var err error
		switch door {
		case "JSON":
			_, err = retryhttp.JSON[struct{}](t.Context(), p, &http.Client{Transport: base}, req)
		case "Download":
			var resp *http.Response
			if resp, err = retryhttp.Download(t.Context(), p, &http.Client{Transport: base}, req); err == nil {
				resp.Body.Close()
			}
		default:
			if door == "WithPolicy" {
				rt.Policy = retry.Policy{}
				req = req.WithContext(retryhttp.WithPolicy(t.Context(), func(retry.Policy) retry.Policy { return p }))
			}
			if door == "Check" {
				rt.Check = func(*http.Response) error {
					if len(bodies) < 3 {
						return errCut
					}
					return nil
				}
			}
			if door == "a POST with a body" {
				req = request(t, "PUT", "http://example.com/", io.MultiReader(strings.NewReader("order")))
			}
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				resp.Body.Close()
			}
		}
		if err != nil || waits != 2 || len(bodies) != 3 {
			t.Errorf("%s: %v after %d waits and %d requests", door, err, waits, len(bodies))
		}
	}
}

// A RoundTripper above the Transport sends two requests at once, both with hedges that
// fail, and does not wait for what it has started.
func TestFanOutAboveHedges(t *testing.T) {
	h := new(hedge.Hedge)
	base := tripper(func(req *http.Request) (*http.Response, error) { return response(req, 503, "down"), nil })
	rt := &retryhttp.Transport{Base: base, Hedge: func(string) *hedge.Hedge { return h }}
	fanOut := tripper(func(req *http.Request) (*http.Response, error) {
		var all sync.WaitGroup
		resps := make([]*http.Response, 8)
		for i := range resps {
			all.Go(func() { resps[i], _ = rt.RoundTrip(req.Clone(req.Context())) })
		}
		all.Wait()
		for _, resp := range resps[1:] {
			resp.Body.Close()
		}
		return resps[0], nil
	})
	for range 20 {
		_, err := retryhttp.JSON[user](t.Context(), retry.Policy{Backoff: retry.Constant(0)}, &http.Client{Transport: fanOut}, request(t, "GET", "http://example.com/?key=1", nil))
		wantReason(t, err, retry.ReasonMaxAttempts)
		if resp, err := retryhttp.Download(t.Context(), retry.Policy{Backoff: retry.Constant(0)}, &http.Client{Transport: fanOut}, request(t, "GET", "http://example.com/?key=1", nil)); err != nil || resp.StatusCode != 503 {
			t.Errorf("%v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
	}
}
