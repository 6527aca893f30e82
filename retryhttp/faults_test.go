package retryhttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
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

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

// faulty is a TCP server on which each connection fails in its own way. It counts
// the requests whose header it has read.
type faulty struct {
	net.Listener
	requests atomic.Int32
	open     atomic.Int32
	done     sync.WaitGroup
}

// fault treats one connection. It may answer several requests on it.
type fault func(s *faulty, c net.Conn)

// startFaulty serves the first connections with faults, the others well.
func startFaulty(t *testing.T, faults ...fault) *faulty {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &faulty{Listener: l}
	s.done.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f := answer(ok200)
			if n < len(faults) {
				f = faults[n]
			}
			s.open.Add(1)
			s.done.Go(func() {
				defer s.open.Add(-1)
				defer c.Close()
				f(s, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.done.Wait()
		eventually(t, "goroutines left", func() bool { return runtime.NumGoroutine() <= before })
	})
	return s
}

// next reads a request.
func (s *faulty) next(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	s.requests.Add(1)
	_, _ = io.Copy(io.Discard, req.Body)
	return true
}

// answer answers all requests of a connection.
func answer(text string) fault {
	return func(s *faulty, c net.Conn) {
		for r := bufio.NewReader(c); s.next(r); {
			_, _ = io.WriteString(c, text)
		}
	}
}

// then answers one request, and ends the connection.
func then(text string, end func(net.Conn)) fault {
	return func(s *faulty, c net.Conn) {
		if s.next(bufio.NewReader(c)) {
			_, _ = io.WriteString(c, text)
			end(c)
		}
	}
}

func hangUp(net.Conn) {}

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

// hangsOn returns what lets an attempt's timeout pass on clock v, and waits until the
// client hangs up.
func hangsOn(v *clockx.Virtual) func(net.Conn) {
	return func(c net.Conn) {
		v.Advance(timeout)
		_, _ = io.Copy(io.Discard, c)
	}
}

const timeout = time.Second // of each attempt, on the virtual clock

func unread(f func(net.Conn)) fault { return func(_ *faulty, c net.Conn) { f(c) } }

func TestFaultsOnRealSockets(t *testing.T) {
	v := virtual()
	hang := hangsOn(v)
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
	const halfChunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf"
	busy := "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"
	limited := func(header string) fault {
		return answer("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nDate: Sun, 09 Sep 2001 01:46:41 GMT\r\n" + header + "\r\n\r\n")
	}
	for _, tt := range []struct {
		name       string
		faults     []fault
		scheme     string
		get        int32 // requests the server sees of a GET that goes well in the end
		post       int32 // the same of a POST without a key
		broken     bool  // the caller gets a response whose body breaks off
		postBroken bool  // the same for the POST alone
		timeout    bool  // each attempt gets 100 ms
	}{
		{name: "closed before a request", faults: []fault{unread(hangUp)}, get: 1, post: 0},
		{name: "reset before headers", faults: []fault{then("", reset), then("", reset)}, get: 3, post: 1},
		{name: "EOF before headers", faults: []fault{then("", hangUp)}, get: 2, post: 1},
		{name: "EOF within headers", faults: []fault{then("HTTP/1.1 200 OK\r\nConte", hangUp)}, get: 2, post: 1},
		{name: "reset after headers", faults: []fault{then(half, reset)}, get: 1, post: 1, broken: true},
		{name: "EOF within a body", faults: []fault{then(half, hangUp)}, get: 1, post: 1, broken: true},
		{name: "truncated chunk", faults: []fault{then(halfChunk, hangUp)}, get: 1, post: 1, broken: true},
		{name: "EOF within a discarded body", faults: []fault{then(strings.Replace(half, "200 OK", "503 No", 1), hangUp)}, get: 2, post: 1, postBroken: true},
		{name: "hang before headers", faults: []fault{then("", hang)}, get: 2, post: 1, timeout: true},
		{name: "hang within headers", faults: []fault{then("HTTP/1.1 200", hang)}, get: 2, post: 1, timeout: true},
		{name: "hang in a TLS handshake", faults: []fault{unread(hang), unread(hangUp)}, scheme: "https", get: 0, post: 0, timeout: true},
		{name: "garbage", faults: []fault{then("garbage\r\n\r\n", hangUp)}, get: 2, post: 1},
		{name: "503 burst", faults: []fault{then(busy, hangUp), then(busy, hangUp)}, get: 3, post: 1},
		{name: "429 with seconds", faults: []fault{limited("Retry-After: 0"), limited("Retry-After: 0")}, get: 3, post: 3},
		{name: "429 with ms", faults: []fault{limited("Retry-After-Ms: 2")}, get: 3, post: 3},
		{name: "429 with Azure's ms", faults: []fault{limited("X-Ms-Retry-After-Ms: 2")}, get: 3, post: 3},
		{name: "429 with a date", faults: []fault{limited("Retry-After: Sunday, 09-Sep-01 01:46:42 GMT")}, get: 1, post: 1}, // a second, which MaxRetryAfter forbids
		{name: "429 with a rate limit", faults: []fault{limited(`RateLimit: "x";r=0;t=1`)}, get: 1, post: 1},
		{name: "429 with a reset", faults: []fault{limited("X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 1000000002")}, get: 1, post: 1},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(tt.name+", "+method, func(t *testing.T) {
				s := startFaulty(t, tt.faults...)
				base := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				defer base.CloseIdleConnections()
				p := quick
				p.MaxRetryAfter = 500 * time.Millisecond
				if tt.timeout {
					p.AttemptTimeout, p.Clock = timeout, v
				}
				scheme := "http"
				if tt.scheme != "" {
					scheme = tt.scheme
				}
				resp, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, method, scheme+"://"+s.Addr().String(), nil))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
					if broken := err != nil; broken != (tt.broken || tt.postBroken && method == "POST") {
						t.Errorf("reading the body: %v", err)
					}
				}
				base.CloseIdleConnections()
				want := tt.get
				if method == "POST" {
					want = tt.post
				}
				if n := s.requests.Load(); n != want {
					t.Errorf("the server saw %d requests, want %d; %v", n, want, err)
				}
				eventually(t, "connections left open", func() bool { return s.open.Load() == 0 })
			})
		}
	}
}

// What fails before a connection is there is retried whatever the method, and
// reaches the server once.
func TestFaultsWhileConnecting(t *testing.T) {
	v := virtual()
	closed := func(t *testing.T) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return l.Addr().String()
	}
	for _, method := range []string{"GET", "POST"} {
		for name, dial := range map[string]func(ctx context.Context, n int, refused string) (net.Conn, error){
			"refused": func(ctx context.Context, _ int, refused string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", refused)
			},
			"hang in dial": func(ctx context.Context, _ int, _ string) (net.Conn, error) {
				v.Advance(timeout)
				<-ctx.Done()
				return nil, ctx.Err()
			},
			"odd error": func(context.Context, int, string) (net.Conn, error) { return nil, errors.New("odd") },
		} {
			t.Run(name+", "+method, func(t *testing.T) {
				s := startFaulty(t)
				refused := closed(t)
				var dials atomic.Int32
				base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if n := dials.Add(1); n <= 2 {
						return dial(ctx, int(n), refused)
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				}}
				p := quick
				p.AttemptTimeout, p.Clock = timeout, v
				body := stream("body")
				resp, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, method, "http://"+s.Addr().String(), body))
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				base.CloseIdleConnections()
				if n := s.requests.Load(); n != 1 || dials.Load() != 3 {
					t.Errorf("%d requests in %d dials, want one in three", n, dials.Load())
				}
				body.wantClosedOnce(t)
				eventually(t, "connections left open", func() bool { return s.open.Load() == 0 })
			})
		}
	}
}

func TestPermanentFaults(t *testing.T) {
	t.Run("untrusted certificate", func(t *testing.T) {
		for _, method := range []string{"GET", "POST"} {
			s := serveAs(t, statuses(200), protocols["HTTP/2"])
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			base := &http.Transport{}
			p, events := recorded(quick)
			_, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, method, s.URL, nil))
			wantReason(t, err, retry.ReasonPermanent)
			if len(events.attempts) != 1 {
				t.Errorf("%d attempts, want 1", len(events.attempts))
			}
		}
	})
	for name, url := range map[string]string{"unknown scheme": "ftp://example.com/", "no host": "http:///x"} {
		t.Run(name, func(t *testing.T) {
			_, err := (&retryhttp.Transport{Policy: quick}).RoundTrip(request(t, "GET", url, nil))
			wantReason(t, err, retry.ReasonPermanent)
		})
	}
	t.Run("nil URL and header", func(t *testing.T) {
		rt := &retryhttp.Transport{Policy: quick, Budget: func(string) retry.Budget { return nil }, IdempotencyKey: func(*http.Request) string { return "k" }}
		_, err := rt.RoundTrip(&http.Request{Method: "POST"})
		wantReason(t, err, retry.ReasonPermanent)
	})
}

// 2500 requests, or with RETRY_LONG=1 10 000, through 64 goroutines, of which three in ten fail
// in one of four ways.
func TestManyRequestsLeaveNothingBehind(t *testing.T) {
	const goroutines = 64
	each := 40
	if os.Getenv("RETRY_LONG") == "1" {
		each = 157
	}
	var broken atomic.Int32
	s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		switch rand.IntN(40) {
		case 0, 1, 2:
			w.WriteHeader(503)
			_, _ = io.WriteString(w, strings.Repeat("busy", 100))
		case 3, 4, 5:
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(429)
		case 6, 7, 8:
			broken.Add(1)
			abort(w)
		case 9, 10, 11:
			broken.Add(1)
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, "ok")
		}
	})
	s.base.MaxIdleConnsPerHost, s.base.MaxConnsPerHost = goroutines, goroutines
	var bodies, open atomic.Int64
	rt := &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 20, Backoff: retry.Exponential{Base: time.Millisecond, Max: 4 * time.Millisecond}, AttemptTimeout: 30 * time.Second},
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			resp, err := s.base.RoundTrip(req)
			if err == nil {
				bodies.Add(1)
				open.Add(1)
				resp.Body = &counted{ReadCloser: resp.Body, open: &open}
			}
			return resp, err
		}),
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				resp, err := rt.RoundTrip(request(t, "GET", s.URL, nil))
				if err != nil {
					t.Error(err)
					return
				}
				if body, err := io.ReadAll(resp.Body); string(body) != "ok" || err != nil {
					t.Errorf("%d %q, %v", resp.StatusCode, body, err)
				}
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	t.Logf("%d responses, %d requests, %d connections", bodies.Load(), len(s.requests()), s.opened)
	if open.Load() != 0 {
		t.Errorf("%d bodies left open", open.Load())
	}
	if n := s.connections(); n > goroutines {
		t.Errorf("%d connections open, a plain client has at most %d", n, goroutines)
	}
	if limit := goroutines + int(broken.Load()); s.opened > limit {
		t.Errorf("%d connections opened, want no more than %d: one per goroutine and one for each that the server broke", s.opened, limit)
	}
}

// counted is a body that counts itself out when it is closed.
type counted struct {
	io.ReadCloser
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.ReadCloser.Close()
}

// Whatever happens, no server runs a POST without a key twice. It may see it again
// only if it has turned it away: with 421, or with 429 or the 403 of a rate limit and
// a retry time. A 503 does not count: a gateway may answer so, with a retry time and
// headers of rate limits, to a request that ran.
func TestPostWithoutKeyNeverRunsTwice(t *testing.T) {
	type post struct{ seen, turnedAway int }
	var mu sync.Mutex
	posts := map[string]*post{}
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		p := posts[r.URL.Path]
		if p == nil {
			p = new(post)
			posts[r.URL.Path] = p
		}
		p.seen++
		mu.Unlock()
		turnAway := func(code int) {
			mu.Lock()
			p.turnedAway++
			mu.Unlock()
			w.WriteHeader(code)
		}
		switch rand.IntN(15) {
		case 0:
			w.WriteHeader(500)
		case 1:
			w.WriteHeader(503)
		case 2:
			w.WriteHeader(429)
		case 3:
			w.Header().Set("Retry-After-Ms", "1")
			turnAway(429)
		case 4:
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(5*time.Millisecond).UnixMilli()))
			w.Header()["Date"] = nil
			turnAway(403)
		case 10:
			turnAway(421)
		case 11:
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(503)
		case 12:
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", "0")
			w.WriteHeader(503)
		case 5, 6:
			abort(w)
		case 7:
			panic(http.ErrAbortHandler)
		case 8:
			<-r.Context().Done()
		case 9:
			w.WriteHeader(409)
		}
	})
	dial := s.base.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if rand.IntN(4) == 0 {
			return nil, errors.New("no connection today")
		}
		return dial(ctx, network, addr)
	}
	p := quick
	p.MaxAttempts, p.AttemptTimeout = 6, 250*time.Millisecond
	rt := s.transport(p)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 10 {
				var body io.Reader = strings.NewReader("body")
				if j%2 == 0 {
					body = stream("streamed")
				}
				resp, err := rt.RoundTrip(request(t, "POST", fmt.Sprintf("%s/%d/%d", s.URL, i, j), body))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	again := 0
	for path, p := range posts {
		if p.seen > p.turnedAway+1 {
			t.Errorf("the server saw %s %d times, and turned it away %d times", path, p.seen, p.turnedAway)
		}
		again += p.seen - 1
	}
	if len(posts) < 300 || again == 0 {
		t.Errorf("%d posts and %d retries: the test shows nothing", len(posts), again)
	}
}

// expiring is a clock by which every timeout has passed when its context is made.
type expiring struct{ *clockx.Virtual }

func (e expiring) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := e.Virtual.WithTimeoutCause(ctx, d, cause)
	e.Advance(d)
	return ctx, cancel
}

// Under the race detector: the timeout may pass while the Transport still sets it up.
func TestAttemptTimeoutThatHasPassedAtOnce(t *testing.T) {
	rt := &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Clock: expiring{virtual()}},
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}),
	}
	for range 100 {
		if _, err := rt.RoundTrip(request(t, "GET", "http://localhost", nil)); !errors.Is(err, retry.ErrAttemptTimeout) {
			t.Fatalf("err = %v, want ErrAttemptTimeout", err)
		}
	}
}
