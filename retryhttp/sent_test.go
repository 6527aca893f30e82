package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// adds is a Base that sends a clone with a header, as oauth2.Transport does.
type adds struct {
	http.RoundTripper
	context bool // on a context of its own, too
}

func (a adds) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if a.context {
		ctx = context.WithValue(ctx, callersKey{}, "the Base's")
	}
	clone := req.Clone(ctx)
	clone.Header.Set("Authorization", "by Base")
	return a.RoundTripper.RoundTrip(clone)
}

type callersKey struct{}

// The Request of a response is the one that was sent, as net/http says, with the caller's context: with
// what Prepare, Base and the fields of the Transport have set, for a first and for a later attempt.
func TestRequestOfAResponseIsTheOneThatWasSent(t *testing.T) {
	prepare := func(req *http.Request) error {
		req.Header.Set("Authorization", "by Prepare")
		req.URL.Path = "/prepared"
		return nil
	}
	forgets := func(rt http.RoundTripper) http.RoundTripper { // whose request it was
		return tripper(func(req *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Request = nil
			}
			return resp, err
		})
	}
	for name, tt := range map[string]struct {
		transport func(*retryhttp.Transport)
		header    http.Header // that the caller has not set
		path      string
	}{
		"nothing":                 {func(*retryhttp.Transport) {}, nil, "/a"},
		"Prepare":                 {func(rt *retryhttp.Transport) { rt.Prepare = prepare }, http.Header{"Authorization": {"by Prepare"}}, "/prepared"},
		"Base":                    {func(rt *retryhttp.Transport) { rt.Base = adds{rt.Base, false} }, http.Header{"Authorization": {"by Base"}}, "/a"},
		"Base with a context":     {func(rt *retryhttp.Transport) { rt.Base = adds{rt.Base, true} }, http.Header{"Authorization": {"by Base"}}, "/a"},
		"both":                    {func(rt *retryhttp.Transport) { rt.Base, rt.Prepare = adds{rt.Base, true}, prepare }, http.Header{"Authorization": {"by Base"}}, "/prepared"},
		"a Base without a word":   {func(rt *retryhttp.Transport) { rt.Base = forgets(rt.Base) }, nil, "/a"},
		"Prepare, and such a one": {func(rt *retryhttp.Transport) { rt.Base, rt.Prepare = forgets(rt.Base), prepare }, http.Header{"Authorization": {"by Prepare"}}, "/prepared"},
		"a key":                   {func(rt *retryhttp.Transport) { rt.IdempotencyKey = func(*http.Request) string { return "k" } }, http.Header{"Idempotency-Key": {`"k"`}}, "/a"},
		"a timeout": {func(rt *retryhttp.Transport) {
			rt.Policy.AttemptTimeout, rt.TimeoutHeader = 2*time.Second, "X-Timeout"
		}, http.Header{"X-Timeout": {"2000"}}, "/a"},
		"a hedge": {func(rt *retryhttp.Transport) {
			rt.Base = adds{rt.Base, true}
			rt.Hedge = func(string) *hedge.Hedge { return &hedge.Hedge{Delay: hedge.Never} }
		}, http.Header{"Authorization": {"by Base"}}, "/a"},
		"a Check": {func(rt *retryhttp.Transport) {
			rt.Prepare, rt.Check = prepare, func(*http.Response) error { return nil }
		}, http.Header{"Authorization": {"by Prepare"}}, "/prepared"},
	} {
		for _, method := range []string{"GET", "POST"} {
			for _, codes := range [][]int{{200}, {404}, {429, 200}, {429, 429, 429}} {
				synctest.Test(t, func(t *testing.T) {
					rt := &retryhttp.Transport{Base: &answers{codes: codes, header: http.Header{"Retry-After": {"1"}}}}
					tt.transport(rt)
					var body io.Reader
					if method == "POST" {
						body = strings.NewReader("body")
					}
					req := request(t, method, "http://example.com/a", body)
					req = req.WithContext(context.WithValue(t.Context(), callersKey{}, "the caller's"))
					req.Header.Set("X-Own", "own")
					if rt.Hedge != nil && method == "POST" {
						return
					}
					resp := mustDo(t, rt, req)
					synctest.Wait()
					time.Sleep(time.Minute) // the timeout of the attempt is over
					sent := resp.Request
					what := name + ", " + method
					if got := sent.Context(); got.Value(callersKey{}) != "the caller's" || got.Err() != nil || retry.AttemptNumber(got) != len(codes) {
						t.Errorf("%s, %v: its context has %v, %v, attempt %d", what, codes, got.Value(callersKey{}), got.Err(), retry.AttemptNumber(got))
					}
					if len(codes) == 1 && sent.Context() != req.Context() {
						t.Errorf("%s, %v: it has another context", what, codes)
					}
					want := http.Header{"X-Own": {"own"}}
					for name, values := range tt.header {
						if name == "Idempotency-Key" && method == "GET" {
							continue
						}
						want[name] = values
					}
					for name, values := range want {
						if got := sent.Header[name]; len(got) != 1 || got[0] != values[0] {
							t.Errorf("%s, %v: %s is %q, want %q", what, codes, name, got, values)
						}
					}
					if len(sent.Header) != len(want) || sent.URL.Path != tt.path || sent.Method != method || sent.Body != req.Body {
						t.Errorf("%s, %v: it is %s %v with %v", what, codes, sent.Method, sent.URL, sent.Header)
					}
					if _, altered := req.Header["Authorization"]; altered || req.URL.Path != "/a" {
						t.Errorf("%s: the caller's request is %v %v", what, req.URL, req.Header)
					}
					read(t, resp)
				})
			}
		}
	}
}

// That of a redirect is the one that was sent to the last host.
func TestRequestOfARedirect(t *testing.T) {
	for _, downloads := range []bool{false, true} {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/a":
				http.Redirect(w, r, "/b", http.StatusFound)
			case n == 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		rt := s.transport(quick)
		rt.Prepare = func(req *http.Request) error {
			req.Header.Set("X-Prepared", req.URL.Path)
			return nil
		}
		rt.Base = adds{rt.Base, true}
		ctx := context.WithValue(t.Context(), callersKey{}, "the caller's")
		req := request(t, "GET", s.URL+"/a", nil).WithContext(ctx)
		var resp *http.Response
		var err error
		if downloads {
			resp, err = retryhttp.Download(ctx, quick, client(rt), req)
		} else {
			resp, err = client(rt).Do(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		sent := resp.Request
		if sent.URL.Path != "/b" || sent.Header.Get("X-Prepared") != "/b" || sent.Header.Get("Authorization") != "by Base" || sent.Response == nil {
			t.Errorf("downloads %t: it is %v with %v, after %v", downloads, sent.URL, sent.Header, sent.Response)
		}
		if got := sent.Context(); got.Value(callersKey{}) != "the caller's" || got.Err() != nil || retry.AttemptNumber(got) != 2 {
			t.Errorf("downloads %t: its context has %v, %v, attempt %d", downloads, got.Value(callersKey{}), got.Err(), retry.AttemptNumber(got))
		}
	}
}
