package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retryhttp"
)

// quick waits a millisecond between three attempts.
var quick = retry.Policy{Backoff: retry.Constant(time.Millisecond)}

// virtual returns a clock that tests move: by it an attempt times out when its server
// has its request, however busy the machine is.
func virtual() *clockx.Virtual {
	return clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

// server is a real one on a loopback port. It counts what it saw, and its test
// fails if connections or goroutines are left behind.
type server struct {
	*httptest.Server
	base *http.Transport // a client's transport for it

	mu     sync.Mutex
	seen   []seen
	states map[net.Conn]http.ConnState
	opened int
}

// seen is a request as the server saw it.
type seen struct {
	method, uri, body string
	header            http.Header
	trailer           http.Header
	length            int64
	encoding          []string
	at                time.Time
}

// serve answers the n-th request, from 1, with answer.
func serve(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *server {
	return serveAs(t, answer, func(s *server) { s.Start() })
}

func serveAs(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request), start func(*server)) *server {
	t.Helper()
	before := runtime.NumGoroutine()
	s := &server{states: make(map[net.Conn]http.ConnState)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		if r.Header.Get("Test-Unread") == "" {
			body, _ = io.ReadAll(r.Body)
		}
		s.mu.Lock()
		s.seen = append(s.seen, seen{r.Method, r.RequestURI, string(body), r.Header.Clone(), r.Trailer.Clone(), r.ContentLength, r.TransferEncoding, time.Now()})
		n := len(s.seen)
		s.mu.Unlock()
		answer(n, w, r)
	}))
	s.Config.ErrorLog = nil
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.opened++
		}
		s.states[c] = state
		if state == http.StateClosed || state == http.StateHijacked {
			delete(s.states, c)
		}
	}
	start(s)
	if s.EnableHTTP2 || s.Config.Protocols != nil {
		t.Cleanup(s.Close)
		needHTTP2(t)
	}
	s.base, _ = s.Client().Transport.(*http.Transport)
	t.Cleanup(func() {
		eventually(t, "connections left open", func() bool {
			s.base.CloseIdleConnections() // a canceled HTTP/2 stream is there until a ping has come back
			return s.connections() == 0
		})
		s.Close()
		eventually(t, "goroutines left", func() bool { return runtime.NumGoroutine() <= before })
	})
	return s
}

// needHTTP2 skips the test if net/http's client has no HTTP/2.
func needHTTP2(t testing.TB) {
	if strings.Contains(os.Getenv("GODEBUG"), "http2client=0") {
		t.Skip("GODEBUG has http2client=0")
	}
}

// eventually fails the test if ok does not come true within seconds. It is for
// what other goroutines do on their way out.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%s:\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *server) wantRequests(t testing.TB, n int) {
	t.Helper()
	if got := len(s.requests()); got != n {
		t.Errorf("the server saw %d requests, want %d", got, n)
	}
}

// connections returns how many are open, busy how many of them serve a request.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states)
}

func (s *server) busy() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.states {
		if state != http.StateIdle {
			n++
		}
	}
	return n
}

// transport retries through the server's own client.
func (s *server) transport(p retry.Policy) *retryhttp.Transport {
	return &retryhttp.Transport{Base: s.base, Policy: p}
}

// statuses answers with one code after the other, the last one from then on, each
// time with a body that tells the number of the request.
func statuses(codes ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(codes[min(n, len(codes))-1])
		_, _ = io.WriteString(w, "answer "+string(rune('0'+n)))
	}
}

// client returns a client that uses the transport.
func client(rt http.RoundTripper) *http.Client { return &http.Client{Transport: rt} }

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// read returns the body and closes it.
func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("reading the body: %v", err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Errorf("closing the body: %v", err)
	}
	return string(b)
}

// mustDo sends a request that is to have a response.
func mustDo(t testing.TB, rt http.RoundTripper, req *http.Request) *http.Response {
	t.Helper()
	resp, err := client(rt).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	return resp
}

// wantReason checks that err is a run's that ended so.
func wantReason(t testing.TB, err error, want retry.Reason) *retry.Error {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	if !ok || e.Reason != want {
		t.Fatalf("error %v, want a *retry.Error with %v", err, want)
	}
	return e
}

// whyEnded returns the run's error that GaveUp returns, or nil.
func whyEnded(resp *http.Response) *retry.Error {
	e, _ := errors.AsType[*retry.Error](retryhttp.GaveUp(resp))
	return e
}

// closing is a body that counts how often it is closed.
type closing struct {
	io.Reader
	closed atomic.Int32
}

func (c *closing) Close() error {
	c.closed.Add(1)
	return nil
}

// wantClosedOnce checks a body that another goroutine may close.
func (c *closing) wantClosedOnce(t testing.TB) {
	t.Helper()
	eventually(t, "request body not closed", func() bool { return c.closed.Load() > 0 })
	if n := c.closed.Load(); n != 1 {
		t.Errorf("request body closed %d times", n)
	}
}

func stream(s string) *closing { return &closing{Reader: struct{ io.Reader }{strings.NewReader(s)}} }

// tripper is a RoundTripper of a func.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// recorded returns p with hooks that keep what they are told.
func recorded(p retry.Policy) (retry.Policy, *events) {
	e := new(events)
	p.Hooks = retry.JoinHooks(retry.Hooks{
		AttemptDone: func(_ context.Context, a retry.Attempt) { e.attempts = append(e.attempts, a) },
		Wait:        func(_ context.Context, a retry.Attempt) { e.waits = append(e.waits, a) },
		Done:        func(_ context.Context, s retry.Summary) { e.summary = s },
	}, p.Hooks)
	return p, e
}

type events struct {
	attempts, waits []retry.Attempt
	summary         retry.Summary
}

// nettextHeader is what httptrace calls a header.
type nettextHeader = textproto.MIMEHeader

// protocols start a server that speaks one of them.
var protocols = map[string]func(*server){
	"HTTP/1.1": func(s *server) { s.Start() },
	"HTTP/2": func(s *server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	},
	"h2c": func(s *server) {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		s.Client().Transport.(*http.Transport).Protocols = s.Config.Protocols
	},
}
