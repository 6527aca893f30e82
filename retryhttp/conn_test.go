package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/proxytest"
	"github.com/goretry/retry/internal/tcpinfo"
	"github.com/goretry/retry/retryhttp"
)

// away is a server behind a proxy, and a client's transport for it.
type away struct {
	*proxytest.Proxy
	base *http.Transport
	url  string
}

// startAway starts a server that speaks one of the [protocols].
func startAway(t *testing.T, proto string, h http.HandlerFunc) *away {
	t.Helper()
	s := &server{Server: httptest.NewUnstartedServer(h)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	protocols[proto](s)
	if proto != "HTTP/1.1" {
		needHTTP2(t)
	}
	p := startProxy(t, s.Listener.Addr().String())
	a := &away{Proxy: p, base: s.Client().Transport.(*http.Transport)}
	a.base.MaxIdleConnsPerHost = 100
	a.url = strings.Replace(s.URL, s.Listener.Addr().String(), p.Addr(), 1)
	t.Cleanup(func() {
		p.Close()
		a.base.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return a
}

func startProxy(t *testing.T, target string) *proxytest.Proxy {
	t.Helper()
	p, err := proxytest.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (a *away) get(t *testing.T, rt http.RoundTripper, path string) error {
	resp, err := client(rt).Do(request(t, "GET", a.url+path, nil))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err
}

// together makes n calls at the same time.
func together(t *testing.T, n int, call func() error) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// atOnce runs tests that mostly wait, four at a time: t.Parallel would take as many as there
// are processors.
func atOnce(t *testing.T, tests map[string]func(*testing.T)) {
	var wg sync.WaitGroup
	places := make(chan struct{}, 4)
	for name, test := range tests {
		places <- struct{}{}
		wg.Go(func() {
			t.Run(name, test)
			<-places
		})
	}
	wg.Wait()
}

// impatient gives an attempt in these tests the time that a busy machine needs for it. Its
// waits are long enough for net/http to end a stream: until then its connection is in use.
var impatient = retry.Policy{MaxAttempts: 3, AttemptTimeout: 500 * time.Millisecond, Backoff: retry.Constant(50 * time.Millisecond)}

// needTCPInfo skips the test where the system does not tell about connections.
func needTCPInfo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := tcpinfo.Of(c); !ok {
		t.Skip("the system does not tell when data came")
	}
}

// After a timeout the retry gets a connection that is alive, whatever makes the call, and
// however many connections of the pool are dead.
func TestRetryLeavesSilentConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T){}
	for _, fault := range []proxytest.Fault{proxytest.Silent, proxytest.Dropped} {
		for proto := range protocols {
			calls := []string{"GET", "POST", "stream", "JSON", "JSON by the Transport", "Download", "hedged", "hedged JSON"}
			if fault == proxytest.Dropped {
				if calls = calls[:1]; !proxytest.CanDrop {
					continue
				}
			}
			for _, how := range calls {
				tests[fmt.Sprint(proto, " ", how, " ", fault)] = func(t *testing.T) {
					if proto == "h2c" {
						needTCPInfo(t)
					}
					for range 3 { // on a busy machine a good attempt may time out too
						if n := testSilentConnection(t, proto, how, fault); n == 2 || t.Failed() {
							return
						}
					}
					t.Error("three times more attempts than 2, or an error")
				}
			}
		}
	}
	atOnce(t, tests)
}

// testSilentConnection makes a call after all idle connections have gone silent, and returns the
// number of its attempts, or 0 if it failed.
func testSilentConnection(t *testing.T, proto, how string, fault proxytest.Fault) int32 {
	var waiting sync.WaitGroup
	waiting.Add(8)
	a := startAway(t, proto, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/first" { // so that there are eight connections
			waiting.Done()
			waiting.Wait()
		}
		_, _ = io.WriteString(w, "{}")
	})
	var attempts, dropped atomic.Int32
	p := impatient
	p.Hooks.AttemptDone = func(context.Context, retry.Attempt) { attempts.Add(1) }
	base := tripper(a.base.RoundTrip) // a Base that wraps another
	rt := &retryhttp.Transport{Policy: p, Base: base, Dropped: func(_ context.Context, got httptrace.GotConnInfo) {
		if got.Conn.RemoteAddr().String() != a.Addr() {
			t.Error(got.Conn.RemoteAddr())
		}
		dropped.Add(1)
	}}
	if strings.HasPrefix(how, "hedged") {
		rt.Hedge = func(string) *hedge.Hedge { return &hedge.Hedge{Delay: 100 * time.Millisecond} }
	}
	together(t, 8, func() error { return a.get(t, a.base, "/first") })
	a.Strike(fault)
	if err := call(t, how, rt, base, a.url); err != nil {
		t.Logf("after %d attempts: %v", attempts.Load(), err)
		return 0
	}
	if n := attempts.Load(); n < 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	if n := dropped.Load(); how != "JSON" && n == 0 {
		t.Error("no connection was reported")
	}
	return attempts.Load()
}

func call(t *testing.T, how string, rt *retryhttp.Transport, base http.RoundTripper, url string) error {
	method, body := "GET", io.Reader(nil)
	switch how {
	case "POST":
		method, body = "POST", strings.NewReader("body")
	case "stream":
		method, body = "PUT", stream("body")
	}
	req := request(t, method, url, body)
	req.Header.Set("Idempotency-Key", `"a"`)
	switch how {
	case "JSON":
		_, err := retryhttp.JSON[struct{}](t.Context(), rt.Policy, client(base), req)
		return err
	case "JSON by the Transport", "hedged JSON":
		_, err := retryhttp.JSON[struct{}](t.Context(), rt.Policy, client(rt), req)
		return err
	case "Download":
		resp, err := retryhttp.Download(t.Context(), rt.Policy, client(rt), req)
		if err == nil {
			read(t, resp)
		}
		return err
	}
	resp, err := client(rt).Do(req)
	if err == nil {
		read(t, resp)
	}
	return err
}

// A server that is slow is not a connection that is silent: its system acknowledges, and its
// HTTP/2 answers pings. So no other stream is lost, and no connection is made.
func TestSlowServerKeepsItsConnection(t *testing.T) {
	t.Parallel()
	needTCPInfo(t)
	tests := map[string]func(*testing.T){}
	for _, proto := range []string{"HTTP/2", "h2c"} {
		for _, others := range []int{0, 20} {
			tests[fmt.Sprint(proto, " ", others)] = func(t *testing.T) {
				testSlowServer(t, proto, others)
			}
		}
	}
	atOnce(t, tests)
}

func testSlowServer(t *testing.T, proto string, others int) {
	release, polling := make(chan struct{}), make(chan struct{}, others)
	a := startAway(t, proto, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/poll":
			polling <- struct{}{}
			<-release
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	if err := a.get(t, a.base, "/quick"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range others {
		wg.Go(func() {
			if err := a.get(t, a.base, "/poll"); err != nil {
				t.Error("another request was lost: ", err)
			}
		})
	}
	for range others {
		<-polling
	}
	p := impatient
	p.MaxAttempts, p.AttemptTimeout = 4, 300*time.Millisecond
	rt := &retryhttp.Transport{Base: a.base, Policy: p}
	var slow sync.WaitGroup
	for range 10 {
		slow.Go(func() { _ = a.get(t, rt, "/slow") })
	}
	slow.Wait()
	close(release)
	wg.Wait()
	if n := a.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// What HTTP/3's Transport reports as a connection must not be closed.
func TestConnectionThatIsNone(t *testing.T) {
	n := 0
	rt := &retryhttp.Transport{
		Policy: retry.Policy{AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(time.Millisecond)},
		Base: tripper(func(r *http.Request) (*http.Response, error) {
			if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
				trace.GotConn(httptrace.GotConnInfo{Conn: untouchable{}, Reused: true})
			}
			if n++; n < 3 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return canned(r)
		}),
	}
	if resp := mustDo(t, rt, request(t, "GET", "https://example.com", nil)); resp.StatusCode != 200 || n != 3 {
		t.Errorf("%d after %d attempts", resp.StatusCode, n)
	}
}

type untouchable struct{ net.Conn }

func (untouchable) Close() error { panic("connection operation prohibited") }

// Other transports have dead connections as well.
func TestSilentConnectionOfOtherTransports(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T){}
	for name, change := range map[string]func(*testing.T, *away){
		"MaxConnsPerHost": func(_ *testing.T, a *away) { a.base.MaxConnsPerHost = 1 },
		"a connection that hides its descriptor": func(_ *testing.T, a *away) {
			a.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return struct{ net.Conn }{c}, err
			}
		},
		"a proxy": func(t *testing.T, a *away) {
			through := startTunnel(t)
			a.base.Proxy = http.ProxyURL(through)
		},
		"the request has a trace": func(*testing.T, *away) {},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
			tests[name+" "+proto] = func(t *testing.T) {
				a := startAway(t, proto, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
				change(t, a)
				if err := a.get(t, a.base, "/"); err != nil {
					t.Fatal(err)
				}
				a.Strike(proxytest.Silent)
				// By several calls at once, each of which may find the connection of the others.
				rt := &retryhttp.Transport{Base: a.base, Policy: impatient}
				var got atomic.Int32
				together(t, 3, func() error {
					req := request(t, "GET", a.url, nil)
					req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got.Add(1) }}))
					resp, err := rt.RoundTrip(req)
					if err == nil {
						read(t, resp)
					}
					return err
				})
				if got.Load() < 3 {
					t.Error("the request's own trace saw", got.Load(), "connections")
				}
			}
		}
	}
	atOnce(t, tests)
}

// startTunnel starts a proxy that knows CONNECT, and GET of a whole URL.
func startTunnel(t *testing.T) *url.URL {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			r.RequestURI = ""
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(w, resp.Body)
			return
		}
		there, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, here)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
		here.Close()
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A body that is still being read keeps its connection, though nothing comes for longer than
// an attempt lasts.
func TestBodyKeepsItsConnection(t *testing.T) {
	t.Parallel()
	needTCPInfo(t)
	release := make(chan struct{})
	a := startAway(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, ", last")
	})
	resp := mustDo(t, a.base, request(t, "GET", a.url+"/body", nil))
	if err := a.get(t, &retryhttp.Transport{Base: a.base, Policy: impatient}, "/slow"); err == nil {
		t.Error("no error")
	}
	close(release)
	if body := read(t, resp); body != "first, last" || a.Accepted() != 1 {
		t.Errorf("%q on %d connections", body, a.Accepted())
	}
}
