package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
)

// What docs/http.md says that no other test has seen.

// A 503 is the caller's response, unless the caller cancels in the wait after it or a guard ends the run.
func TestWhenA503IsAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		cancel, full bool
		want         retry.Reason // of the error, ReasonNone: there is a response
	}{
		"attempts end": {want: retry.ReasonNone},
		"cancel":       {cancel: true, want: retry.ReasonCanceled},
		"guard":        {full: true, want: retry.ReasonGuard},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			places := &limit.Limit{Max: 1}
			transport := &retryhttp.Transport{
				Base:   tripper(func(req *http.Request) (*http.Response, error) { return response(req, 503, ""), nil }),
				Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Second), Guards: []retry.Guard{places}},
			}
			transport.Policy.Hooks.Wait = func(context.Context, retry.Attempt) {
				if tt.cancel {
					time.AfterFunc(time.Millisecond, cancel)
				}
				if tt.full {
					_, _ = places.Enter(ctx, retry.Entry{}) // the place of another call
				}
			}
			resp, err := transport.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
			if tt.want != retry.ReasonNone {
				wantReason(t, err, tt.want)
				return
			}
			if err != nil || resp.StatusCode != 503 {
				t.Errorf("%s: %v, %v, want a 503", name, resp, err)
				return
			}
			wantReason(t, retryhttp.GaveUp(resp), retry.ReasonMaxAttempts)
		})
	}
}

// A mark in Check's error decides, then Classify, then a wait in Check's error, then the server.
func TestWhoDecides(t *testing.T) {
	permanent := func(error) retry.Class { return retry.Permanent }
	transient := func(error) retry.Class { return retry.Transient }
	for _, tt := range []struct {
		name     string
		check    error
		classify retry.Classifier
		status   int
		header   string
		want     int // attempts
	}{
		{"a mark before Classify", retry.After(hinting(time.Millisecond), time.Millisecond), permanent, 200, "", 2},
		{"Classify before a wait", hinting(time.Millisecond), permanent, 200, "", 1},
		{"Classify before the server", nil, transient, 503, "X-Envoy-Overloaded", 2},
		{"a wait before the server", hinting(time.Millisecond), nil, 503, "X-Envoy-Overloaded", 2},
		{"the server before the table", nil, nil, 503, "X-Envoy-Overloaded", 1},
		{"the table", nil, nil, 503, "", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			transport := &retryhttp.Transport{
				Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Classify: tt.classify},
				Check:  func(*http.Response) error { return tt.check },
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					attempts++
					resp := response(req, tt.status, "")
					if tt.header != "" {
						resp.Header.Set(tt.header, "true")
					}
					return resp, nil
				}),
			}
			resp, err := transport.RoundTrip(request(t, "GET", "http://example.com/", nil))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if attempts != tt.want {
				t.Errorf("%s: %d attempts, want %d", tt.name, attempts, tt.want)
			}
		})
	}
}

// To JSON a body that ends too early has broken off if its length is not known, an empty one too.
func TestBodiesWithoutALength(t *testing.T) {
	for _, tt := range []struct {
		method, body string
		length       int64 // -1: not known
		want         int   // attempts
	}{
		{"GET", "", 0, 1},
		{"GET", "", -1, 2},
		{"GET", `{"a":`, 5, 1},
		{"GET", `{"a":`, -1, 2},
		{"GET", "<html>", -1, 1},
		{"POST", "", -1, 1},
	} {
		attempts := 0
		client := &http.Client{Transport: tripper(func(req *http.Request) (*http.Response, error) {
			attempts++
			resp := response(req, 200, tt.body)
			resp.ContentLength = tt.length
			return resp, nil
		})}
		policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}
		_, err := retryhttp.JSON[struct{ A int }](t.Context(), policy, client, request(t, tt.method, "http://example.com/", nil))
		if err == nil || attempts != tt.want {
			t.Errorf("%s %q of length %d: %d attempts, %v, want %d", tt.method, tt.body, tt.length, attempts, err, tt.want)
		}
	}
}

// A cookie in a response that a Transport retries does not reach the client's jar. With JSON it does.
func TestCookieOfARetriedResponse(t *testing.T) {
	var requests atomic.Int32
	var second atomic.Value // the Cookie header of the second attempt
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		second.Store(r.Header.Get("Cookie"))
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}
	for name, tt := range map[string]struct {
		want string
		call func(*http.Client) error
	}{
		"Transport": {"", func(c *http.Client) error {
			c.Transport = &retryhttp.Transport{Policy: policy, Base: c.Transport}
			resp, err := c.Get(server.URL)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}},
		"JSON": {"a=1", func(c *http.Client) error {
			req, err := http.NewRequest("GET", server.URL, nil)
			if err != nil {
				return err
			}
			_, err = retryhttp.JSON[struct{}](t.Context(), policy, c, req)
			return err
		}},
	} {
		client := server.Client()
		jar, err := cookiejar.New(nil)
		if client.Jar = jar; err != nil {
			t.Fatal(err)
		}
		base := client.Transport
		err = tt.call(client)
		client.Transport = base
		if got := second.Load(); err != nil || got != tt.want {
			t.Errorf("%s: %v, the second attempt sends the cookie %q, want %q", name, err, got, tt.want)
		}
	}
}

// The run's error says that a body cannot be sent again, also without a response; after an answer there is none.
func TestNotReplayableWithoutAResponse(t *testing.T) {
	for name, status := range map[string]int{"no response": 0, "an answer": 404} {
		transport := &retryhttp.Transport{
			Policy:    retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)},
			MaxBuffer: 4,
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return nil, err
				}
				if status == 0 {
					return nil, io.ErrUnexpectedEOF
				}
				return response(req, status, ""), nil
			}),
		}
		req := request(t, "PUT", "http://example.com/", nil)
		req.Body = io.NopCloser(struct{ io.Reader }{strings.NewReader("longer than four")})
		req.ContentLength = -1
		resp, err := transport.RoundTrip(req)
		if status == 0 {
			if !errors.Is(err, retryhttp.ErrNotReplayable) {
				t.Errorf("%s: %v, want an ErrNotReplayable", name, err)
			}
			continue
		}
		if err != nil || retryhttp.GaveUp(resp) != nil {
			t.Errorf("%s: %v, want an answer", name, err)
		}
	}
}
