package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
)

func fails(err error) http.RoundTripper {
	return tripper(func(*http.Request) (*http.Response, error) { return nil, err })
}

// withStatus is an error with a field, as many clients have one.
type withStatus struct{ StatusCode int }

func (e *withStatus) Error() string { return fmt.Sprint("status ", e.StatusCode) }

// http3Error has the shape of http3.Error of quic-go, http2Error that of http2.StreamError.
type http3Error struct {
	Remote       bool
	ErrorCode    h3Code
	ErrorMessage string
}

type h3Code uint64

func (*http3Error) Error() string { return "H3" }

type http2Error struct {
	StreamID uint32
	Code     h2Code
	Cause    error
}

type h2Code uint32

func (http2Error) Error() string { return "stream error" }

// gaveUp returns the error of an inner run.
func gaveUp(err error) error {
	return retry.Run(context.Background(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return err })
}

// What proves that a POST did nothing, and what only looks like it.
func TestNoProofNoSecondPOST(t *testing.T) {
	answer := func(code int, header ...string) http.RoundTripper {
		return tripper(func(req *http.Request) (*http.Response, error) {
			h := http.Header{}
			for _, name := range header {
				h.Set(name, "1")
			}
			return &http.Response{StatusCode: code, Header: h, Body: http.NoBody, Request: req}, nil
		})
	}
	noRoute := &net.OpError{Op: "read", Net: "tcp", Err: syscall.EHOSTUNREACH}
	dead := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		name string
		base http.RoundTripper
		want int32
	}{
		{"507 with a hint", answer(507, "Retry-After-Ms"), 1},
		{"520 with a hint", answer(520, "Retry-After-Ms"), 1},
		{"503 with a hint", answer(503, "Retry-After-Ms"), 1},
		{"503 of a server that limits rates", answer(503, "Retry-After-Ms", "X-Ratelimit-Remaining"), 1},
		{"429 with a hint", answer(429, "Retry-After-Ms"), 3},
		{"429 without", answer(429), 1},
		{"403 with a hint", answer(403, "Retry-After-Ms"), 3},
		{"403 without", answer(403), 1},
		{"421", answer(421), 3},
		{"no route on a connection", tripper(func(*http.Request) (*http.Response, error) { return nil, noRoute }), 1},
		{"body of a 200 that breaks off so", tripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Request: req, Body: io.NopCloser(errReader{noRoute})}, nil
		}), 1},
		{"redirect to a dead host, no trace", tripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPost {
				return &http.Response{StatusCode: 303, Header: http.Header{"Location": {"/next"}}, Body: http.NoBody, Request: req}, nil
			}
			return nil, dead
		}), 1},
		{"response without its request", tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		}), 1},
		{"dead host", &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, dead }}, 3},
		{"error of a dial that was not seen", fails(dead), 1},
		{"the same, marked", fails(retry.Undone(dead)), 3},
		{"error of a dial inside another", fails(fmt.Errorf("region B: %w", dead)), 1},
		{"error with a status 421", fails(&withStatus{421}), 1},
		{"error with a status 421, marked", fails(retry.Undone(&withStatus{421})), 3},
		{"error with a method StatusCode", fails(&retryhttp.StatusError{Code: 421}), 1},
		{"error that says that it is safe", fails(unlike{}), 1},
		{"a place that a limit did not have", fails(limit.ErrLimited), 1},
		{"a run inside that did nothing", fails(gaveUp(retry.Undone(dead))), 1},
		{"HTTP/3's refusal", fails(&http3Error{true, 0x10b, "busy"}), 3},
		{"HTTP/3's refusal, wrapped", fails(fmt.Errorf("h3: %w", &http3Error{true, 0x10b, "busy"})), 3},
		{"HTTP/3's refusal, joined with another error", fails(errors.Join(errors.New("region A: reset"), &http3Error{true, 0x10b, "busy"})), 1},
		{"HTTP/3's refusal by the client", fails(&http3Error{false, 0x10b, ""}), 1},
		{"HTTP/3's cancellation by the server", fails(&http3Error{true, 0x10c, ""}), 1},
		{"HTTP/2's refusal", fails(http2Error{1, 7, nil}), 3},
		{"HTTP/2's cancellation", fails(http2Error{1, 8, nil}), 1},
		{"HTTP/2's refusal, joined with another error", fails(errors.Join(errors.New("region A: reset"), http2Error{1, 7, nil})), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var posts atomic.Int32
			c := client(tripper(func(req *http.Request) (*http.Response, error) {
				if req.Method == http.MethodPost {
					posts.Add(1)
				}
				return tt.base.RoundTrip(req)
			}))
			_, err := retryhttp.JSON[user](t.Context(), quick, c, request(t, "POST", "http://example.com/", nil))
			if got := posts.Load(); got != tt.want {
				t.Errorf("JSON sent %d POSTs, want %d: %v", got, tt.want, err)
			}
		})
	}
	t.Run("a Base that fails over", func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if resp, err := s.base.RoundTrip(req); err == nil {
				return resp, nil
			}
			return nil, dead // of the second host
		})
		_, err := (&retryhttp.Transport{Base: base, Policy: quick}).RoundTrip(request(t, "POST", s.URL, strings.NewReader("order")))
		wantReason(t, err, retry.ReasonNotIdempotent)
		s.wantRequests(t, 1)
	})
}

// How sure the class of an error is depends on what else was seen of the attempt.
func TestClassOfAnErrorWithoutAResponse(t *testing.T) {
	dead := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	redirected := tripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/next" {
			return nil, dead
		}
		return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/next"}}, Body: http.NoBody, Request: req}, nil
	})
	for _, tt := range []struct {
		name, method string
		json         bool
		base         http.RoundTripper
		want         retry.Class
	}{
		{"dead host", "GET", false, fails(dead), retry.Unprocessed},
		{"dead host, JSON", "GET", true, fails(dead), retry.Unprocessed},
		{"dead host after a redirect", "GET", true, redirected, retry.Transient},
		{"error of a dial that was not seen", "POST", false, fails(dead), retry.Transient},
		{"error of a dial that was not seen, JSON", "POST", true, fails(dead), retry.Transient},
		{"no answer in time", "POST", false, fails(os.ErrDeadlineExceeded), retry.TimedOut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, events := recorded(quick)
			req := request(t, tt.method, "http://example.com/", nil)
			var err error
			if tt.json {
				_, err = retryhttp.JSON[user](t.Context(), p, client(tt.base), req)
			} else {
				_, err = (&retryhttp.Transport{Base: tt.base, Policy: p}).RoundTrip(req)
			}
			if got := events.attempts[0].Class; got != tt.want {
				t.Errorf("class %v, want %v: %v", got, tt.want, err)
			}
		})
	}
}

// What an earlier attempt has proved, or has not, says nothing about a later one.
func TestProofIsOfTheSameAttempt(t *testing.T) {
	errToken := errors.New("no token")
	t.Run("not sent after a 429", func(t *testing.T) {
		prepared := 0
		base := &answers{codes: []int{429, 200}, header: http.Header{"Retry-After-Ms": {"1"}}}
		rt := &retryhttp.Transport{Base: base, Policy: quick, Prepare: func(*http.Request) error {
			if prepared++; prepared == 2 {
				return errToken
			}
			return nil
		}}
		if resp := mustDo(t, rt, request(t, "POST", "http://example.com/", nil)); resp.StatusCode != 200 || prepared != 3 {
			t.Errorf("status %d after %d attempts, want 200 after 3", resp.StatusCode, prepared)
		}
	})
	t.Run("broken off after one that was not sent", func(t *testing.T) {
		rt := &retryhttp.Transport{Base: fails(errors.New("sent")), Prepare: func(*http.Request) error { return errToken }}
		attempts := 0
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				return rt.RoundTrip(req)
			}
			return nil, errReset
		})
		_, err := retryhttp.JSON[user](t.Context(), quick, client(base), request(t, "POST", "http://example.com/", nil))
		wantReason(t, err, retry.ReasonNotIdempotent)
		if attempts != 2 {
			t.Errorf("%d attempts, want 2", attempts)
		}
	})
	t.Run("refused after a redirect", func(t *testing.T) {
		errKnown := errors.New("known to have done nothing")
		p := quick
		p.Classify = func(err error) retry.Class {
			if errors.Is(err, errKnown) {
				return retry.Unprocessed
			}
			return retry.Unknown
		}
		posts := 0
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/next" {
				return nil, errKnown
			}
			switch posts++; posts {
			case 1:
				return &http.Response{StatusCode: 303, Header: http.Header{"Location": {"/next"}}, Body: http.NoBody, Request: req}, nil
			case 2:
				return nil, http2Error{1, 7, nil}
			}
			return &http.Response{StatusCode: 204, Body: http.NoBody, Request: req}, nil
		})
		if _, err := retryhttp.JSON[user](t.Context(), p, client(base), request(t, "POST", "http://example.com/", nil)); err != nil || posts != 3 {
			t.Errorf("%v after %d POSTs, want success after 3", err, posts)
		}
	})
}

// The request of a redirect that was not sent does not undo the one before it.
func TestErrorOfPrepareAfterARedirectProvesNothing(t *testing.T) {
	posts := 0
	rt := &retryhttp.Transport{
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			posts++
			return &http.Response{StatusCode: 303, Header: http.Header{"Location": {"/next"}}, Body: http.NoBody, Request: req}, nil
		}),
		Prepare: func(req *http.Request) error {
			if req.URL.Path == "/next" {
				return errors.New("no token")
			}
			return nil
		},
	}
	_, err := retryhttp.JSON[user](t.Context(), quick, client(rt), request(t, "POST", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonNotIdempotent)
	if posts != 1 {
		t.Errorf("%d POSTs, want 1", posts)
	}
}

func TestStatusesThatThereAreNot(t *testing.T) {
	calls := 0
	rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(*http.Request) (*http.Response, error) {
		calls++
		return &http.Response{StatusCode: 999, Body: http.NoBody}, nil
	})}
	if resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil)); resp.StatusCode != 999 || calls != 1 {
		t.Errorf("status %d after %d requests, want 999 after one", resp.StatusCode, calls)
	}
}

func TestClientTimeoutIsADeadline(t *testing.T) {
	s := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for range 50 { // Cancel and the context end one after the other, in any order
		p, events := recorded(quick)
		_, err := (&http.Client{Transport: s.transport(p), Timeout: 5 * time.Millisecond}).Get(s.URL)
		if events.summary.Reason != retry.ReasonDeadline {
			t.Fatalf("ended by %v: %v", events.summary.Reason, err)
		}
	}
}

func TestHTTPServerOnAnHTTPSPort(t *testing.T) {
	s := serve(t, statuses(200))
	target := "https" + strings.TrimPrefix(s.URL, "http")
	_, err := client(s.transport(quick)).Get(target)
	if _, ok := errors.AsType[tls.RecordHeaderError](err); !errors.Is(err, http.ErrSchemeMismatch) || !ok {
		t.Errorf("Get: %v, want %v", err, http.ErrSchemeMismatch)
	}
	if _, plain := client(s.base).Get(target); !strings.HasSuffix(err.Error(), ": "+errors.Unwrap(plain).Error()) {
		t.Errorf("Get: %v, want the text of %v", err, plain)
	}
	if _, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, "GET", target, nil)); !errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("JSON: %v, want %v", err, http.ErrSchemeMismatch)
	}
}

func TestPanicsLeaveNoBodyOpen(t *testing.T) {
	boom := func() { panic("boom") }
	for name, spoil := range map[string]func(*retryhttp.Transport){
		"AttemptDone": func(rt *retryhttp.Transport) {
			rt.Policy.Hooks.AttemptDone = func(context.Context, retry.Attempt) { boom() }
		},
		"Classify": func(rt *retryhttp.Transport) {
			rt.Policy.Classify = func(error) retry.Class { boom(); return retry.Unknown }
		},
		"IdempotencyKey": func(rt *retryhttp.Transport) { rt.IdempotencyKey = func(*http.Request) string { boom(); return "" } },
		"Budget":         func(rt *retryhttp.Transport) { rt.Budget = func(string) retry.Budget { boom(); return nil } },
		"Name":           func(rt *retryhttp.Transport) { rt.Name = func(*http.Request) string { boom(); return "" } },
		"Check":          func(rt *retryhttp.Transport) { rt.Check = func(*http.Response) error { boom(); return nil } },
		"Prepare":        func(rt *retryhttp.Transport) { rt.Prepare = func(*http.Request) error { boom(); return nil } },
		"Check, in time": func(rt *retryhttp.Transport) {
			rt.Check, rt.Policy.AttemptTimeout = func(*http.Response) error { boom(); return nil }, time.Minute
		},
		"Withdraw": func(rt *retryhttp.Transport) {
			rt.Budget = func(string) retry.Budget { return &spoiled{boom: boom} }
			rt.IdempotencyKey = func(*http.Request) string { return "k" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened, closed := 0, 0
			var ctx context.Context
			rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(req *http.Request) (*http.Response, error) {
				opened++
				ctx = req.Context()
				req.Body.Close()
				return &http.Response{StatusCode: 503, Body: bodyFunc(func() { closed++ })}, nil
			})}
			spoil(rt)
			body := &closing{Reader: strings.NewReader("x")}
			func() {
				defer func() { _ = recover() }()
				resp, err := rt.RoundTrip(request(t, "POST", "http://example.com/", body))
				t.Errorf("no panic: %v, %v", resp, err)
			}()
			body.wantClosedOnce(t)
			if opened != closed {
				t.Errorf("%d responses, of which %d were closed", opened, closed)
			}
			if rt.Policy.AttemptTimeout > 0 && ctx.Err() == nil {
				t.Error("the attempt's context lives on")
			}
		})
	}
}

// spoiled panics when it is asked.
type spoiled struct {
	budget.Token
	boom func()
}

func (s *spoiled) Withdraw(retry.Withdrawal) bool { s.boom(); return false }

func TestPanicInUnmarshalLeavesNoBodyOpen(t *testing.T) {
	closed := 0
	base := tripper(func(req *http.Request) (*http.Response, error) {
		body := struct {
			io.Reader
			io.Closer
		}{strings.NewReader("{}"), bodyFunc(func() { closed++ })}
		return &http.Response{StatusCode: 200, Body: body, Request: req}, nil
	})
	func() {
		defer func() { _ = recover() }()
		_, _ = retryhttp.JSON[explosive](t.Context(), quick, client(base), request(t, "GET", "http://example.com/", nil))
		t.Error("no panic")
	}()
	if closed != 1 {
		t.Errorf("body closed %d times", closed)
	}
}

type explosive struct{}

func (*explosive) UnmarshalJSON([]byte) error { panic("boom") }

func TestResponseWithoutABodyAndACancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(*http.Request) (*http.Response, error) {
		cancel()
		return &http.Response{StatusCode: 503}, nil
	})}
	_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
	wantReason(t, err, retry.ReasonCanceled)
}

func TestJSONWithAJarLeavesTheRequestAlone(t *testing.T) {
	s := serve(t, statuses(503, 503, 204))
	jar, _ := cookiejar.New(nil)
	u, _ := url.Parse(s.URL)
	jar.SetCookies(u, []*http.Cookie{{Name: "a", Value: "b"}})
	c := *s.Client()
	c.Jar = jar
	req := request(t, "GET", s.URL, nil)
	if _, err := retryhttp.JSON[user](t.Context(), quick, &c, req); err != nil {
		t.Error(err)
	}
	for i, r := range s.requests() {
		if got := r.header.Get("Cookie"); got != "a=b" {
			t.Errorf("attempt %d sends the cookies %q, want a=b", i+1, got)
		}
	}
	if len(req.Header) != 0 {
		t.Errorf("the caller's request has the header %v", req.Header)
	}
	s.wantRequests(t, 3)
}

func TestJSONDoesNotWaitForTheBodyOfAnError(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			_, _ = io.WriteString(w, `{"Name": "Ada"}`)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if _, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, "GET", s.URL, nil)); err != nil {
		t.Error(err)
	}
	s.wantRequests(t, 2)
}

func TestJSONTakesCheckRedirectsWord(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/next", http.StatusFound) })
	errNo := errors.New("no redirects here")
	c := *s.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return errNo }
	_, err := retryhttp.JSON[user](t.Context(), quick, &c, request(t, "GET", s.URL, nil))
	if wantReason(t, err, retry.ReasonPermanent); !errors.Is(err, errNo) {
		t.Errorf("error %v, want %v", err, errNo)
	}
	s.wantRequests(t, 1)
	c.CheckRedirect = nil
	_, err = retryhttp.JSON[user](t.Context(), quick, &c, request(t, "GET", s.URL, nil))
	if wantReason(t, err, retry.ReasonPermanent); !strings.Contains(err.Error(), "stopped after 10 redirects") {
		t.Errorf("error %v", err)
	}
	s.wantRequests(t, 11)
}

// What a hook of JSON's calls through a Transport is its own call.
func TestHooksOfJSONRetryByThemselves(t *testing.T) {
	side, api := serve(t, statuses(503, 200)), serve(t, statuses(204))
	p, got := quick, 0
	p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context {
		got = mustDo(t, side.transport(quick), request(t, "GET", side.URL, nil).WithContext(ctx)).StatusCode
		return ctx
	}
	_, err := retryhttp.JSON[user](t.Context(), p, api.Client(), request(t, "GET", api.URL, nil))
	if err != nil || got != 200 {
		t.Errorf("the hook's call got %d, the outer one %v; want 200 and no error", got, err)
	}
}

func TestHostOfABudgetIsInLowerCase(t *testing.T) {
	var host string
	rt := &retryhttp.Transport{
		Base: tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		}),
		Budget: func(h string) retry.Budget { host = h; return nil },
	}
	mustDo(t, rt, request(t, "GET", "http://Example.COM:8080/", nil))
	if host != "example.com:8080" {
		t.Errorf("the budget is asked for by the host %q", host)
	}
}
