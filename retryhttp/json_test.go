package retryhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

type user struct{ Name string }

// script answers the n-th request with the n-th func, the last one from then on.
func script(fs ...func(http.ResponseWriter)) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) { fs[min(n, len(fs))-1](w) }
}

func text(code int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func half(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"Name": "A`)
}

// streamed sends a body without a Content-Length.
func streamed(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, body)
		w.(http.Flusher).Flush()
	}
}

func location(code int, to string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Location", to)
		w.WriteHeader(code)
	}
}

func TestJSON(t *testing.T) {
	ada := text(200, `{"Name": "Ada"}`)
	hinted := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(503)
	}
	limited := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(429)
	}
	for _, tt := range []struct {
		name, method string
		answers      []func(http.ResponseWriter)
		want         string
		requests     int
		reason       retry.Reason
		status       int
		wantErr      error
	}{
		{name: "at once", method: "GET", answers: []func(http.ResponseWriter){ada}, want: "Ada", requests: 1},
		{name: "created", method: "POST", answers: []func(http.ResponseWriter){text(201, `{"Name": "Ada"}`)}, want: "Ada", requests: 1},
		{name: "no content", method: "DELETE", answers: []func(http.ResponseWriter){text(204, "")}, requests: 1},
		{name: "reset content", method: "POST", answers: []func(http.ResponseWriter){text(205, "")}, requests: 1},
		{name: "HEAD", method: "HEAD", answers: []func(http.ResponseWriter){text(200, "")}, requests: 1},
		{name: "empty", method: "GET", answers: []func(http.ResponseWriter){text(200, "")}, requests: 1, reason: retry.ReasonPermanent},
		{name: "a space", method: "GET", answers: []func(http.ResponseWriter){text(200, "\n")}, requests: 1, reason: retry.ReasonPermanent},
		{name: "created without a word", method: "POST", answers: []func(http.ResponseWriter){text(201, "")}, requests: 1, reason: retry.ReasonPermanent},
		{name: "truncated", method: "GET", answers: []func(http.ResponseWriter){half, half, ada}, want: "Ada", requests: 3},
		{name: "truncated POST", method: "POST", answers: []func(http.ResponseWriter){half}, requests: 1, reason: retry.ReasonNotIdempotent, wantErr: io.ErrUnexpectedEOF},
		{name: "busy", method: "GET", answers: []func(http.ResponseWriter){text(503, ""), ada}, want: "Ada", requests: 2},
		{name: "busy POST", method: "POST", answers: []func(http.ResponseWriter){text(503, "")}, requests: 1, reason: retry.ReasonNotIdempotent, status: 503},
		{name: "POST turned away", method: "POST", answers: []func(http.ResponseWriter){limited, ada}, want: "Ada", requests: 2},
		{name: "busy POST with a retry time", method: "POST", answers: []func(http.ResponseWriter){hinted}, requests: 1, reason: retry.ReasonNotIdempotent, status: 503},
		{name: "down", method: "GET", answers: []func(http.ResponseWriter){text(500, "sorry")}, requests: 3, reason: retry.ReasonMaxAttempts, status: 500},
		{name: "not found", method: "GET", answers: []func(http.ResponseWriter){text(404, "sorry")}, requests: 1, reason: retry.ReasonPermanent, status: 404},
		{name: "not modified", method: "GET", answers: []func(http.ResponseWriter){text(304, "")}, requests: 1, reason: retry.ReasonPermanent, status: 304},
		{name: "no JSON", method: "GET", answers: []func(http.ResponseWriter){text(200, "<html>")}, requests: 1, reason: retry.ReasonPermanent},
		{name: "half a JSON", method: "GET", answers: []func(http.ResponseWriter){text(200, `{"Name": "A`)}, requests: 1, reason: retry.ReasonPermanent},
		{name: "half a JSON of unknown length", method: "GET", answers: []func(http.ResponseWriter){streamed(`{"Name": "A`), streamed(`{"Name": "Ada", "Old": tru`), ada}, want: "Ada", requests: 3},
		{name: "half a JSON of unknown length, to a POST", method: "POST", answers: []func(http.ResponseWriter){streamed(`{"Name": "A`)}, requests: 1, reason: retry.ReasonNotIdempotent},
		{name: "no JSON of unknown length", method: "GET", answers: []func(http.ResponseWriter){streamed("<html>")}, requests: 1, reason: retry.ReasonPermanent},
		{name: "redirect", method: "GET", answers: []func(http.ResponseWriter){location(302, "/b"), text(503, ""), location(302, "/b"), ada}, want: "Ada", requests: 4},
		{name: "redirect away from a POST", method: "POST", answers: []func(http.ResponseWriter){location(303, "/b"), hinted}, requests: 2, reason: retry.ReasonNotIdempotent, status: 503},
		{name: "redirect of a POST to nowhere", method: "POST", answers: []func(http.ResponseWriter){location(303, "http://127.0.0.1:1/")}, requests: 1, reason: retry.ReasonNotIdempotent},
		{name: "redirect to what is gone", method: "POST", answers: []func(http.ResponseWriter){location(303, "/b"), text(404, "")}, requests: 2, reason: retry.ReasonPermanent, status: 404},
		{name: "redirect to what is none", method: "POST", answers: []func(http.ResponseWriter){location(303, "ftp://example.com/")}, requests: 1, reason: retry.ReasonPermanent},
		{name: "endless redirect", method: "GET", answers: []func(http.ResponseWriter){location(302, "/b")}, requests: 10, reason: retry.ReasonPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, script(tt.answers...))
			got, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, tt.method, s.URL+"/a", nil))
			if got.Name != tt.want {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
			s.wantRequests(t, tt.requests)
			if tt.reason == retry.ReasonNone {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, tt.reason)
			status, ok := errors.AsType[*retryhttp.StatusError](err)
			if ok != (tt.status != 0) || ok && status.Code != tt.status || tt.wantErr != nil && !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestJSONErrorsTellWhatWasWrong(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.Header().Set("Retry-After", "3600")
			text(429, strings.Repeat("x", 5000))(w)
		case "/odd":
			text(200, `{"Name": 7}`)(w)
		default:
			half(w)
		}
	})
	get := func(path string) error {
		_, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, "", s.URL+path+"?key=secret", nil))
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the query: %v", err)
		}
		return err
	}
	err := get("/busy")
	wantReason(t, err, retry.ReasonRetryAfter)
	if e, ok := errors.AsType[*retryhttp.StatusError](err); !ok || e.Code != 429 || e.Hint != time.Hour || string(e.Body) != strings.Repeat("x", 4096) ||
		e.Method != "GET" || e.URL != s.URL+"/busy?key=REDACTED" {
		t.Errorf("error %+v", e)
	}
	err = get("/odd")
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || !strings.Contains(err.Error(), "GET "+s.URL+"/odd?key=REDACTED: 200 OK, text/plain; charset=utf-8: ") {
		t.Errorf("error %v, want a *json.UnmarshalTypeError and the URL", err)
	}
	if err = get("/half"); !strings.Contains(err.Error(), "GET "+s.URL+"/half?key=REDACTED: 200 OK, text/plain; charset=utf-8: reading the body: unexpected EOF") {
		t.Errorf("error %v, want the URL", err)
	}
	down := request(t, "GET", "http://127.0.0.1:1/?key=secret", nil)
	if _, err = retryhttp.JSON[user](t.Context(), quick, nil, down); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "key=REDACTED") {
		t.Errorf("error %v, want it without the query", err)
	}
	if _, err = retryhttp.JSON[user](t.Context(), quick, nil, &http.Request{}); err == nil {
		t.Error("no error for a request without a URL")
	}
}

// Whatever is in the client, the policy of the call decides, once.
// A StatusError that Check returns is the caller's: it may be one for all calls.
func TestJSONLeavesChecksErrorAsItIs(t *testing.T) {
	shared := &retryhttp.StatusError{Code: 503, Body: []byte("upstream's own")}
	base := tripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})
	rt := &retryhttp.Transport{Base: base, Check: func(*http.Response) error { return shared }}
	_, err := retryhttp.JSON[user](t.Context(), quick, client(rt), request(t, "GET", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonMaxAttempts)
	if string(shared.Body) != "upstream's own" {
		t.Errorf("its Body is now %q", shared.Body)
	}
}

func TestJSONDoesNotMultiply(t *testing.T) {
	fivefold := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(1)}
	for name, wrap := range map[string]func(*retryhttp.Transport) http.RoundTripper{
		"its Transport":            func(rt *retryhttp.Transport) http.RoundTripper { return rt },
		"a Transport further down": func(rt *retryhttp.Transport) http.RoundTripper { return tripper(rt.RoundTrip) },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, statuses(503))
			rt := s.transport(fivefold)
			_, err := retryhttp.JSON[user](t.Context(), quick, client(wrap(rt)), request(t, "GET", s.URL, nil))
			wantReason(t, err, retry.ReasonMaxAttempts)
			s.wantRequests(t, 3)
		})
	}
	t.Run("other fields are heeded", func(t *testing.T) {
		s := serve(t, statuses(503, 503, 204))
		rt := s.transport(fivefold)
		rt.AttemptHeader, rt.IdempotencyKey = "Attempt", func(*http.Request) string { return "k" }
		hosts := 0
		rt.Budget = func(string) retry.Budget {
			hosts++
			return nil
		}
		if _, err := retryhttp.JSON[user](t.Context(), quick, client(rt), request(t, "POST", s.URL, stream("body"))); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range s.requests() {
			got = append(got, r.header.Get("Attempt")+r.header.Get("Idempotency-Key")+r.body)
		}
		if want := []string{`"k"body`, `2"k"body`, `3"k"body`}; !slices.Equal(got, want) || hosts != 1 {
			t.Errorf("requests %q, want %q; budget asked for %d times", got, want, hosts)
		}
	})
}

func TestJSONBody(t *testing.T) {
	t.Run("sent again and closed", func(t *testing.T) {
		s := serve(t, statuses(503, 204))
		body := stream("body")
		if _, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, "PUT", s.URL, body)); err != nil {
			t.Fatal(err)
		}
		body.wantClosedOnce(t)
		if sent := s.requests(); len(sent) != 2 || sent[1].body != "body" {
			t.Errorf("the server saw %+v", sent)
		}
	})
	t.Run("not replayable", func(t *testing.T) {
		s := serve(t, statuses(503))
		body := stream(strings.Repeat("x", 70_000))
		_, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, "PUT", s.URL, body))
		if wantReason(t, err, retry.ReasonPermanent); !errors.Is(err, retryhttp.ErrNotReplayable) {
			t.Errorf("error %v", err)
		}
		s.wantRequests(t, 1)
		body.wantClosedOnce(t)
	})
	t.Run("canceled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		body := stream("body")
		_, err := retryhttp.JSON[user](ctx, quick, nil, request(t, "PUT", "http://127.0.0.1:1/", body))
		wantReason(t, err, retry.ReasonCanceled)
		body.wantClosedOnce(t)
	})
	for name, protocol := range protocols {
		for _, code := range []int{503, 200} {
			t.Run(fmt.Sprintf("blocks, %s, %d", name, code), func(t *testing.T) {
				body := &blocking{blocked: make(chan struct{}), closed: make(chan struct{})}
				s := serveAs(t, func(_ int, w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).EnableFullDuplex()
					<-body.blocked
					text(code, `{"Name": "Ada"}`)(w)
				}, protocol)
				req := request(t, "PUT", s.URL, body)
				req.Header.Set("Test-Unread", "1")
				u, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), req)
				if code == 200 && (err != nil || u.Name != "Ada") {
					t.Errorf("%+v, %v", u, err)
				}
				if code == 503 && !errors.Is(err, retryhttp.ErrNotReplayable) {
					t.Errorf("error %v", err)
				}
				s.wantRequests(t, 1)
				<-body.closed
			})
		}
	}
	t.Run("no longer read when the response is closed, before the wait", func(t *testing.T) {
		closed := 0
		p := quick
		p.Hooks.Wait = func(_ context.Context, a retry.Attempt) {
			if closed != a.Number {
				t.Errorf("%d responses closed after %d attempts", closed, a.Number)
			}
		}
		base := tripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Request: req, Body: bodyFunc(func() {
				if _, err := req.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
					t.Errorf("the request's body can still be read: %v", err)
				}
				req.Body.Close()
				closed++
			})}, nil
		})
		_, err := retryhttp.JSON[user](t.Context(), p, client(base), request(t, "PUT", "http://example.com/", stream("body")))
		if wantReason(t, err, retry.ReasonMaxAttempts); closed != 3 {
			t.Errorf("%d responses closed, want 3", closed)
		}
	})
}

// The attempt's timeout covers the body too, and the client's its whole attempt.
func TestJSONTimeouts(t *testing.T) {
	t.Run("attempt", func(t *testing.T) {
		v := virtual()
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			half(w)
			_ = http.NewResponseController(w).Flush()
			v.Advance(time.Second)
			<-r.Context().Done()
		})
		p := quick
		p.AttemptTimeout, p.Clock = time.Second, v
		_, err := retryhttp.JSON[user](t.Context(), p, s.Client(), request(t, "GET", s.URL, nil))
		if wantReason(t, err, retry.ReasonMaxAttempts); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		s.wantRequests(t, 3)
	})
	t.Run("client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start, requests := time.Now(), 0
			c := &http.Client{Timeout: time.Second, Transport: tripper(func(req *http.Request) (*http.Response, error) {
				requests++
				body := io.MultiReader(strings.NewReader(`{"Name": "A`), hangsUntil{req.Context()})
				return &http.Response{StatusCode: 200, Body: io.NopCloser(body)}, nil
			})}
			_, err := retryhttp.JSON[user](t.Context(), quick, c, request(t, "GET", "http://example.com/", nil))
			wantReason(t, err, retry.ReasonMaxAttempts)
			if took := time.Since(start); requests != 3 || took != 3*time.Second+2*time.Millisecond {
				t.Errorf("%d requests in %v, want 3 of a second each and 2 waits of 1 ms", requests, took)
			}
		})
	})
}

// hangsUntil is a body that sends nothing until its request is canceled.
type hangsUntil struct{ ctx context.Context }

func (h hangsUntil) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// lenient is a T that takes an empty body.
type lenient struct{ got *string }

func (l *lenient) UnmarshalJSON(b []byte) error {
	s := string(b)
	l.got = &s
	return nil
}

// An empty body is no T, unless the T says otherwise.
func TestJSONOfNothing(t *testing.T) {
	base := &answers{codes: []int{200}}
	base.empty = true
	c, req := client(base), request(t, "GET", "http://example.com/", nil)
	if l, err := retryhttp.JSON[lenient](t.Context(), quick, c, req); err != nil || l.got == nil || *l.got != "" {
		t.Errorf("a method UnmarshalJSON: %v, %v", l, err)
	}
	if raw, err := retryhttp.JSON[json.RawMessage](t.Context(), quick, c, req); err != nil || len(raw) != 0 {
		t.Errorf("json.RawMessage: %q, %v", raw, err)
	}
	if _, err := retryhttp.JSON[struct{}](t.Context(), quick, c, req); err != nil {
		t.Errorf("struct{}: %v", err)
	}
	for name, err := range map[string]error{
		"a struct":                            errorOf(retryhttp.JSON[user](t.Context(), quick, c, req)),
		"a pointer":                           errorOf(retryhttp.JSON[*user](t.Context(), quick, c, req)),
		"any":                                 errorOf(retryhttp.JSON[any](t.Context(), quick, c, req)),
		"a method that refuses an empty body": errorOf(retryhttp.JSON[time.Time](t.Context(), quick, c, req)),
	} {
		if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts != 1 {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestJSONUsesItsOwnContext(t *testing.T) {
	s := serve(t, statuses(204))
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	traced := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { traced++ }})
	if _, err := retryhttp.JSON[user](ctx, quick, s.Client(), request(t, "POST", s.URL, nil).WithContext(dead)); err != nil || traced != 1 {
		t.Errorf("%v; the caller's trace saw %d connections", err, traced)
	}
}

// What is missing is named in the panic, as in package retry. A client that is nil is the default one.
func TestNilArguments(t *testing.T) {
	req := request(t, "GET", "http://127.0.0.1:1/", nil)
	for want, call := range map[string]func(){
		"retryhttp: nil request":   func() { _, _ = retryhttp.JSON[user](t.Context(), quick, nil, nil) },
		"retryhttp: nil request ":  func() { _, _ = retryhttp.Once[user](t.Context(), quick, nil, nil) },
		"retryhttp: nil request  ": func() { _, _ = retryhttp.Download(t.Context(), quick, nil, nil) },
		"retryhttp: nil context":   func() { _, _ = retryhttp.JSON[user](nil, quick, nil, req) }, //lint:ignore SA1012 that is the point
		"retryhttp: nil context ":  func() { _, _ = retryhttp.Once[user](nil, quick, nil, req) }, //lint:ignore SA1012 that is the point
		"retryhttp: nil context  ": func() { _, _ = retryhttp.Download(nil, quick, nil, req) },   //lint:ignore SA1012 that is the point
		"retryhttp: nil response":  func() { _ = retryhttp.Failure(nil) },
		"<nil>":                    func() { _, _ = retryhttp.JSON[user](t.Context(), quick, nil, req) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != strings.TrimSpace(want) {
					t.Errorf("a panic of %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
}
