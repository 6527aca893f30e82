package retryhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryhttp"
)

// services are an edge, A, B and C, each of which calls the next and retries. They
// are real servers and clients of net/http.
type services struct {
	by       string // what A and B call the next one with
	relay    bool   // they tell their callers whether to ask again
	deadline bool   // they heed how long their callers wait
	once     bool   // they make one attempt for a request that is a retry
	policy   func(layer int) retry.Policy
	c        http.Handler // nil: nobody listens
	start    func(http.Handler) (url string)
	base     http.RoundTripper

	requests atomic.Int64 // that B has sent to C
	url      string       // of A
}

const (
	timeoutHeader = "X-Timeout-Ms"
	attemptHeader = "X-Attempt"
)

// run starts A, B and C.
func (s *services) run() {
	s.url = "http://127.0.0.1:1"
	if s.c != nil {
		s.url = s.start(s.c)
	}
	for layer := 2; layer > 0; layer-- {
		h := s.handler(layer, s.url)
		if s.deadline {
			h = retryhttp.DeadlineHandler(h, timeoutHeader, 0)
		}
		s.url = s.start(h)
	}
}

// transport is the one with which a layer calls the next, the edge's being layer 0.
func (s *services) transport(layer int) *retryhttp.Transport {
	rt := &retryhttp.Transport{Base: s.base, Policy: s.policy(layer)}
	if s.deadline {
		rt.TimeoutHeader = timeoutHeader
	}
	if s.once {
		rt.AttemptHeader = attemptHeader
	}
	if layer == 2 {
		rt.Base = tripper(func(req *http.Request) (*http.Response, error) {
			s.requests.Add(1)
			return s.base.RoundTrip(req)
		})
	}
	return rt
}

// get is a call of the edge. It reports whether it succeeded.
func (s *services) get(ctx context.Context, rt *retryhttp.Transport) bool {
	req, _ := http.NewRequestWithContext(ctx, "GET", s.url, nil)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// handler is A or B.
func (s *services) handler(layer int, next string) http.Handler {
	rt := s.transport(layer)
	fail := func(w http.ResponseWriter, err error) {
		code := http.StatusServiceUnavailable
		if s.relay {
			code = retryhttp.Relay(w.Header(), err)
		}
		http.Error(w, "down", code)
	}
	// forward returns the request to the next service, for which it is a first attempt
	// unless retries below retries are to be left out.
	forward := func(r *http.Request) *http.Request {
		ctx := r.Context()
		if s.once && r.Header.Get(attemptHeader) != "" {
			ctx = retryhttp.WithPolicy(ctx, func(p retry.Policy) retry.Policy { p.MaxAttempts = 1; return p })
		}
		req, _ := http.NewRequestWithContext(ctx, "GET", next, nil)
		if s.once && r.Header.Get(attemptHeader) != "" {
			req.Header.Set(attemptHeader, r.Header.Get(attemptHeader))
		}
		return req
	}
	switch s.by {
	case "JSON":
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req := forward(r)
			v, err := retryhttp.JSON[string](req.Context(), rt.Policy, &http.Client{Transport: rt}, req)
			if err != nil {
				fail(w, err)
				return
			}
			_ = json.NewEncoder(w).Encode(v)
		})
	case "ReverseProxy":
		to, _ := url.Parse(next)
		proxy := &httputil.ReverseProxy{
			Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport:    rt,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) },
		}
		if s.relay {
			proxy.ModifyResponse = func(resp *http.Response) error {
				retryhttp.Relay(resp.Header, retryhttp.GaveUp(resp))
				return nil
			}
		}
		return proxy
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := rt.RoundTrip(forward(r))
		if err != nil {
			fail(w, err)
			return
		}
		defer resp.Body.Close()
		if e := whyEnded(resp); e != nil {
			fail(w, e)
			return
		}
		_, _ = w.Write([]byte(`"ok"`))
	})
}

// ways are what services may do against retries that multiply.
var ways = []struct {
	name                  string
	relay, deadline, once bool
}{
	{"nothing", false, false, false},
	{"Relay", true, false, false},
	{"DeadlineHandler", false, true, false},
	{"both", true, true, false},
	{"one attempt below a retry", false, false, true},
}

// One call of the edge, three attempts in each layer, on sockets.
func TestRetriesDoNotMultiply(t *testing.T) {
	want := map[string]int64{"nothing": 27, "Relay": 3, "DeadlineHandler": 27, "both": 3, "one attempt below a retry": 7}
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	for _, by := range []string{"Transport", "JSON", "ReverseProxy"} {
		for name, c := range map[string]http.Handler{"C answers 503": status(503), "C answers 529": status(529), "nobody listens": nil} {
			for _, way := range ways {
				if way.once && by == "ReverseProxy" {
					continue // it has no request of its own to change
				}
				t.Run(by+", "+name+", "+way.name, func(t *testing.T) {
					base := &http.Transport{}
					defer base.CloseIdleConnections()
					s := &services{by: by, relay: way.relay, deadline: way.deadline, once: way.once, c: c, base: base,
						policy: func(int) retry.Policy { return quick },
						start: func(h http.Handler) string {
							server := httptest.NewServer(h)
							t.Cleanup(server.Close)
							return server.URL
						},
					}
					s.run()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // which TimeoutHeader tells
					defer cancel()
					if s.get(ctx, s.transport(0)) {
						t.Error("the call succeeded")
					}
					if got := s.requests.Load(); got != want[way.name] {
						t.Errorf("C got %d requests, want %d", got, want[way.name])
					}
				})
			}
		}
	}
}

// pipes is a network in memory, whose connections may be in a synctest bubble.
type pipes struct{ listeners sync.Map }

type pipeListener struct {
	addr  string
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: l.addr} }

// start serves h until the test ends.
func (p *pipes) start(t testing.TB, h http.Handler) string {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	for n := 0; ; n++ {
		l.addr = fmt.Sprintf("host%d:80", n)
		if _, taken := p.listeners.LoadOrStore(l.addr, l); !taken {
			break
		}
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.addr
}

func (p *pipes) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	l, ok := p.listeners.Load(addr)
	if !ok {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("nobody listens at %s", addr)}
	}
	client, server := net.Pipe()
	select {
	case l.(*pipeListener).conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hanging is a server that answers nobody.
var hanging = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

// patient returns the policies of layers whose attempts have 9, 3 and 1 seconds.
func patient(layer int) retry.Policy {
	return retry.Policy{AttemptTimeout: []time.Duration{9 * time.Second, 3 * time.Second, time.Second}[layer], Backoff: retry.Constant(time.Millisecond)}
}

// inBubble runs services in virtual time.
func inBubble(t *testing.T, s *services, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{}
		base := &http.Transport{DialContext: network.dial}
		s.base, s.start = base, func(h http.Handler) string { return network.start(t, h) }
		s.run()
		f(t)
		base.CloseIdleConnections()
	})
}

// A server that does not answer is known by timeouts alone. The word comes in time
// only if the handler gives up before its caller does.
func TestRetriesDoNotMultiplyWhenAServerHangs(t *testing.T) {
	want := map[string]int64{"nothing": 27, "Relay": 27, "DeadlineHandler": 27, "both": 3, "one attempt below a retry": 7}
	for _, by := range []string{"Transport", "JSON", "ReverseProxy"} {
		for _, way := range ways {
			if way.once && by == "ReverseProxy" {
				continue
			}
			t.Run(by+", "+way.name, func(t *testing.T) {
				s := &services{by: by, relay: way.relay, deadline: way.deadline, once: way.once, c: hanging, policy: patient}
				inBubble(t, s, func(t *testing.T) {
					began := time.Now()
					if s.get(t.Context(), s.transport(0)) {
						t.Error("the call succeeded")
					}
					if got := s.requests.Load(); got != want[way.name] {
						t.Errorf("C got %d requests in %v, want %d", got, time.Since(began), want[way.name])
					}
				})
			})
		}
	}
}

// With a budget in every layer the word saves little: it is for the first moments of an
// outage, and for services without budgets. docs/services.md has the figures.
func TestRetriesOfManyCallsWithBudgets(t *testing.T) {
	const calls = 1000
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for _, tt := range []struct {
		name   string
		c      http.Handler
		budget func() retry.Budget
	}{
		{"budget.Ratio, C hangs", hanging, func() retry.Budget { return &budget.Ratio{} }},
		{"EarnedBudget, C hangs", hanging, func() retry.Budget { return &retry.EarnedBudget{} }},
		{"budget.Ratio, C answers 503", down, func() retry.Budget { return &budget.Ratio{} }},
		{"EarnedBudget, C answers 503", down, func() retry.Budget { return &retry.EarnedBudget{} }},
	} {
		for i, way := range ways {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				if i > 0 && os.Getenv("RETRY_LONG") != "1" {
					t.Skip("seconds of computing: RETRY_LONG=1 runs it; without it budgets work alone, with nothing passed on")
				}
				s := &services{by: "Transport", relay: way.relay, deadline: way.deadline, once: way.once, c: tt.c}
				budgets := [3]retry.Budget{tt.budget(), tt.budget(), tt.budget()}
				s.policy = func(layer int) retry.Policy {
					p := patient(layer)
					p.Budget = budgets[layer]
					return p
				}
				inBubble(t, s, func(t *testing.T) {
					edge := s.transport(0)
					var all sync.WaitGroup
					for range calls {
						all.Go(func() { s.get(t.Context(), edge) })
						time.Sleep(10 * time.Millisecond)
					}
					all.Wait()
					got := float64(s.requests.Load()) / calls
					t.Logf("%.3f requests per call", got)
					if got < 1 || got > 1.05 {
						t.Errorf("%.3f requests per call, want little more than 1", got)
					}
				})
			})
		}
	}
}

// The price of the word: retries happen in one layer only.
func TestCallsThatSucceedWhenSomeFail(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("seconds of computing: RETRY_LONG=1 runs it")
	}
	const calls = 2000
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			s := &services{by: "Transport", relay: way.relay, deadline: way.deadline, once: way.once, policy: patient}
			s.c = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if random.Float64() < .3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			inBubble(t, s, func(t *testing.T) {
				edge, succeeded := s.transport(0), 0
				for range calls {
					if s.get(t.Context(), edge) {
						succeeded++
					}
				}
				got := 100 * float64(succeeded) / calls
				t.Logf("%.2f %% succeed, %.3f requests per call", got, float64(s.requests.Load())/calls)
				if way.relay && (got < 96 || got > 98.5) || !way.relay && got < 99.9 { // 1-.3³ and 1-.3²⁷
					t.Errorf("%.2f %% succeed", got)
				}
			})
		})
	}
}
