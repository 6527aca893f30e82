package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// What the tests of other retrying clients ask of theirs, asked of this one. Their
// cases of bodies, hints, TLS, Check and Prepare are with those of ours.

func TestPeersRequestsThatCannotBeSent(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"header name":  func(r *http.Request) { r.Header["Bad\nName"] = []string{"x"} },
		"header value": func(r *http.Request) { r.Header["Name"] = []string{"bad\nvalue"} },
		"trailer":      func(r *http.Request) { r.Trailer = http.Header{"Bad\nName": {"x"}} },
		"method":       func(r *http.Request) { r.Method = "G ET" },
		"scheme":       func(r *http.Request) { r.URL.Scheme = "unsupported" },
		"host":         func(r *http.Request) { r.URL.Host = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, statuses(200))
			req := request(t, "PUT", s.URL, strings.NewReader("body"))
			spoil(req)
			p, events := recorded(quick)
			_, err := s.transport(p).RoundTrip(req)
			if wantReason(t, err, retry.ReasonPermanent); len(events.attempts) != 1 {
				t.Errorf("%d attempts: %v", len(events.attempts), err)
			}
			req = request(t, "PUT", s.URL, strings.NewReader("body"))
			spoil(req)
			_, err = retryhttp.JSON[user](t.Context(), quick, s.Client(), req)
			if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts > 1 {
				t.Errorf("JSON: %v", err)
			}
			s.wantRequests(t, 0)
		})
	}
}

func TestPeersEndlessRedirectIsNotRetried(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	_, err := client(s.transport(quick)).Get(s.URL)
	if err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") {
		t.Errorf("error %v", err)
	}
	s.wantRequests(t, 10)
}

func TestPeersErrorsCanBeTakenApart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // its port refuses connections
	_, bare := http.Get("http://" + l.Addr().String())
	want, ok := errors.AsType[*os.SyscallError](bare) // its number is not ECONNREFUSED on Windows
	if !ok {
		t.Fatalf("error %v of a client without a Transport", bare)
	}
	_, err = client(&retryhttp.Transport{Policy: quick}).Get("http://" + l.Addr().String())
	outer, ok := errors.AsType[*url.Error](err)
	if _, op := errors.AsType[*net.OpError](err); !ok || !op || !errors.Is(err, want.Err) || outer.Op != "Get" {
		t.Errorf("error %v, want a *url.Error, a *net.OpError and %v", err, want.Err)
	}
	if e := wantReason(t, err, retry.ReasonMaxAttempts); e.Attempts != 3 {
		t.Errorf("%d attempts", e.Attempts)
	}
}

// The methods of http.Client, with the bodies that they make.
func TestPeersClientMethods(t *testing.T) {
	s := serve(t, statuses(503, 503, 204))
	c := client(s.transport(quick))
	for method, call := range map[string]func() (*http.Response, error){
		"GET":  func() (*http.Response, error) { return c.Get(s.URL) },
		"HEAD": func() (*http.Response, error) { return c.Head(s.URL) },
		"POST": func() (*http.Response, error) { return c.Post(s.URL, "text/plain", bytes.NewReader([]byte("a=b"))) },
		"FORM": func() (*http.Response, error) { return c.PostForm(s.URL, url.Values{"a": {"b"}}) },
	} {
		s.mu.Lock()
		s.seen = nil
		s.mu.Unlock()
		c.Transport.(*retryhttp.Transport).IdempotencyKey = func(*http.Request) string { return "key" }
		resp, err := call()
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		want := map[string]string{"POST": "a=b", "FORM": "a=b"}[method]
		bodies := []string{}
		for _, r := range s.requests() {
			bodies = append(bodies, r.body)
		}
		if !slices.Equal(bodies, []string{want, want, want}) || resp.StatusCode != 204 {
			t.Errorf("%s: %s after bodies %q, want %q three times", method, resp.Status, bodies, want)
		}
	}
}

func TestPeersCancelWhileAnAttemptRuns(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := end(t.Context())
				defer cancel()
				attempts := 0
				rt := &retryhttp.Transport{Base: tripper(func(req *http.Request) (*http.Response, error) {
					attempts++
					<-req.Context().Done()
					return nil, req.Context().Err()
				})}
				start := time.Now()
				_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
				if !errors.Is(err, ctx.Err()) || attempts != 1 || time.Since(start) != time.Second {
					t.Errorf("%v after %d attempts in %v", err, attempts, time.Since(start))
				}
			})
		})
	}
}

// The body is read after RoundTrip, under the caller's context: while that lives,
// with and without a timeout for the attempt, and not longer.
func TestPeersBodyIsReadUnderTheCallersContext(t *testing.T) {
	for name, p := range map[string]retry.Policy{"": quick, "AttemptTimeout": {Backoff: quick.Backoff, AttemptTimeout: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			more := make(chan struct{})
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					w.WriteHeader(503)
					return
				}
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				<-more
				_, _ = io.WriteString(w, "second")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp := mustDo(t, s.transport(p), request(t, "GET", s.URL, nil).WithContext(ctx))
			defer resp.Body.Close()
			for _, want := range []string{"first", "second"} {
				got := make([]byte, len(want))
				if _, err := io.ReadFull(resp.Body, got); string(got) != want || err != nil {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
				if want == "first" {
					close(more)
				}
			}
			cancel()
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("after the cancel: %v", err)
			}
		})
	}
}
