package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// under is a Transport that makes one attempt, under g.
func under(base http.RoundTripper, g retry.Guard) *retryhttp.Transport {
	return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{g}}}
}

// take takes a place of l.
func take(t testing.TB, l *limit.Limit) {
	t.Helper()
	if _, err := l.Enter(t.Context(), retry.Entry{}); err != nil {
		t.Fatal(err)
	}
}

// give gives a place of l back, with no sign.
func give(l *limit.Limit) { l.Leave(retry.Pass{}, retry.Exit{}) }

// sign is what the end of an attempt says to a guard.
type sign string

const (
	noSign   sign = "no sign"
	answered sign = "an answer"
	overload sign = "an overload"
	timedOut sign = "a timeout"
)

// listening is a Limit without a bound that remembers how attempts have ended.
type listening struct {
	limit.Limit
	mu    sync.Mutex
	exits []retry.Exit
}

func (h *listening) Leave(p retry.Pass, x retry.Exit) {
	h.mu.Lock()
	h.exits = append(h.exits, x)
	h.mu.Unlock()
	h.Limit.Leave(p, x)
}

// only returns how the only attempt has ended.
func (h *listening) only(t *testing.T) retry.Exit {
	t.Helper()
	eventually(t, "a place is lost", func() bool { return h.InFlight() == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.exits) != 1 {
		t.Fatalf("%d attempts have ended, want one", len(h.exits))
	}
	return h.exits[0]
}

func wantInFlight(t testing.TB, l *limit.Limit, want int, when string) {
	t.Helper()
	if got := l.InFlight(); got != want {
		t.Errorf("%s: %d places are taken, want %d", when, got, want)
	}
}

// signOf returns which sign a request gave.
func signOf(t *testing.T, send func(*listening)) sign {
	t.Helper()
	h := new(listening)
	send(h)
	switch x := h.only(t); {
	case x.Ending == retry.Expired, x.Ending == retry.Returned && x.Verdict.Class == retry.TimedOut:
		return timedOut
	case x.Ending != retry.Returned:
		return noSign
	case x.Verdict.Err == nil, x.Verdict.IsAnswer(), x.Verdict.Class == retry.Permanent && !x.Verdict.Refused:
		return answered
	case x.Verdict.Class == retry.Throttled:
		return overload
	}
	return noSign
}

func wantSign(t *testing.T, want sign, send func(*listening)) {
	t.Helper()
	if got := signOf(t, send); got != want {
		t.Errorf("the guard got %s, want %s", got, want)
	}
}

// Without a place nothing is sent, and a Transport above sends even a POST again.
func TestLimitWithoutAPlace(t *testing.T) {
	s := serve(t, statuses(200))
	l := &limit.Limit{Max: 1}
	take(t, l)
	body := stream("order")
	resp, err := client(under(s.base, l)).Do(request(t, "POST", s.URL, body))
	if !errors.Is(err, limit.ErrLimited) || resp != nil {
		t.Fatalf("%v, %v, want ErrLimited", resp, err)
	}
	body.wantClosedOnce(t)
	s.wantRequests(t, 0)

	policy, told := recorded(quick)
	policy.Guards = []retry.Guard{l}
	policy.Hooks.Guard = func(_ context.Context, h retry.Held) {
		if h.Class != retry.Unprocessed || h.Err != limit.ErrLimited || h.Guard != "limit.Limit" {
			t.Errorf("the refusal is %+v", h)
		}
		give(l)
	}
	resp = mustDo(t, &retryhttp.Transport{Base: s.base, Policy: policy}, request(t, "POST", s.URL, stream("order")))
	read(t, resp)
	s.wantRequests(t, 1)
	if got := s.requests()[0].body; got != "order" {
		t.Errorf("the server got %q", got)
	}
	if len(told.attempts) != 1 {
		t.Errorf("%d attempts, want one", len(told.attempts))
	}
	wantInFlight(t, l, 0, "after it")
}

// A place lasts as long as the body, and not longer.
func TestLimitHoldsThePlaceOfABody(t *testing.T) {
	for name, start := range protocols {
		t.Run(name, func(t *testing.T) {
			more := make(chan bool)
			s := serveAs(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "one ")
				_ = http.NewResponseController(w).Flush()
				<-more
				_, _ = io.WriteString(w, "two")
			}, start)
			l := new(limit.Limit)
			c := client(under(s.base, l))
			for _, end := range []string{"end", "close", "cancel"} {
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := c.Do(request(t, "GET", s.URL, nil).WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 4)
				if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "one " {
					t.Errorf("%q, %v", first, err)
				}
				wantInFlight(t, l, 1, "in the middle of the body")
				switch end {
				case "end":
					more <- true
					if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "two" {
						t.Errorf("%q, %v", rest, err)
					}
					wantInFlight(t, l, 0, "at the end of the body")
				case "close":
					_ = resp.Body.Close()
					wantInFlight(t, l, 0, "after Close")
					more <- true
				case "cancel":
					cancel()
					eventually(t, "a place is lost", func() bool { return l.InFlight() == 0 })
					more <- true
				}
				_ = resp.Body.Close()
				_ = resp.Body.Close()
				wantInFlight(t, l, 0, "after "+end)
				cancel()
			}
		})
	}
}

// What the end of a request means to the limit.
func TestLimitSigns(t *testing.T) {
	busy := func(err error) retry.Class {
		if e, ok := errors.AsType[*retryhttp.StatusError](err); ok && e.Code == 503 && e.Method == "GET" && strings.HasSuffix(e.URL, "/users?key=REDACTED") {
			return retry.Throttled
		}
		return retry.Unknown
	}
	for _, test := range []struct {
		name     string
		code     int
		header   string // of a second
		classify retry.Classifier
		want     sign
	}{
		{"200", 200, "", nil, answered},
		{"204, without a body", 204, "", nil, answered},
		{"404", 404, "", nil, answered},
		{"429", 429, "", nil, overload},
		{"403", 403, "", nil, answered},
		{"403 of a rate limit", 403, "Retry-After", nil, overload},
		{"500", 500, "", nil, noSign},
		{"503", 503, "", nil, noSign},
		{"503, which Classify knows", 503, "", busy, overload},
		{"504", 504, "", nil, timedOut},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set(test.header, "1")
				}
				w.WriteHeader(test.code)
				if test.code != 204 {
					_, _ = io.WriteString(w, "text")
				}
			})
			for name, finish := range map[string]func(*http.Response){
				"read": func(resp *http.Response) { _, _ = io.Copy(io.Discard, resp.Body) }, "closed": func(*http.Response) {},
			} {
				if got := signOf(t, func(l *listening) {
					rt := under(s.base, l)
					rt.Policy.Classify = test.classify
					resp := mustDo(t, rt, request(t, "GET", s.URL+"/users?key=1", nil))
					finish(resp)
					resp.Body.Close()
				}); got != test.want {
					t.Errorf("%s: the guard got %s, want %s", name, got, test.want)
				}
			}
		})
	}
}

// A guard gets how long an attempt took, and how long it had.
func TestGuardsGetTheTimes(t *testing.T) {
	const took = 300 * time.Millisecond
	for _, tt := range []struct{ timeout, deadline, want time.Duration }{
		{time.Second, time.Hour, time.Second},
		{time.Hour, time.Second, time.Second},
		{0, time.Second, time.Second},
		{time.Second, 0, time.Second},
		{0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := new(listening)
			rt := under(tripper(func(*http.Request) (*http.Response, error) {
				time.Sleep(took)
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			}), h)
			rt.Policy.AttemptTimeout = tt.timeout
			ctx, cancel := t.Context(), func() {}
			if tt.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.deadline)
			}
			defer cancel()
			mustDo(t, rt, request(t, "GET", "http://users/", nil).WithContext(ctx)).Body.Close()
			if x := h.only(t); x.Took != took || x.Allowed != tt.want {
				t.Errorf("%v, %v: it took %v of %v, want %v of %v", tt.timeout, tt.deadline, x.Took, x.Allowed, took, tt.want)
			}
		})
	}
}

// Classify judges responses from status 400 on.
func TestLimitJudgesStatuses(t *testing.T) {
	for code, want := range map[int]sign{399: answered, 400: overload} {
		wantSign(t, want, func(l *listening) {
			rt := under(tripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: code, Body: http.NoBody}, nil
			}), l)
			rt.Policy.Classify = func(err error) retry.Class {
				if err == nil {
					return retry.Unknown
				}
				return retry.Throttled
			}
			mustDo(t, rt, request(t, "GET", "http://users/", nil)).Body.Close()
		})
	}
}

// What breaks off means what it broke off for.
func TestLimitSignsOfErrors(t *testing.T) {
	stuck := func(release <-chan bool, text string) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, text)
			if text != "" {
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}
	for _, text := range []string{"", "a part"} {
		name := "before the headers, "
		if text != "" {
			name = "in the body, "
		}
		// send reads what comes under ctx.
		send := func(t *testing.T, l *listening, s *server, ctx context.Context) {
			resp, err := client(under(s.base, l)).Do(request(t, "GET", s.URL, nil).WithContext(ctx))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if err == nil {
				t.Error("no error")
			}
		}
		t.Run(name+"deadline", func(t *testing.T) {
			s := serve(t, stuck(nil, text))
			wantSign(t, timedOut, func(l *listening) {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				send(t, l, s, ctx)
			})
		})
		t.Run(name+"cancel", func(t *testing.T) {
			s := serve(t, stuck(nil, text))
			wantSign(t, noSign, func(l *listening) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				send(t, l, s, ctx)
			})
		})
		t.Run(name+"cut", func(t *testing.T) {
			s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				if text != "" {
					_, _ = io.WriteString(w, text)
					_ = http.NewResponseController(w).Flush()
				}
				panic(http.ErrAbortHandler)
			})
			wantSign(t, noSign, func(l *listening) { send(t, l, s, t.Context()) })
		})
	}
	t.Run("attempt timeout", func(t *testing.T) {
		s := serve(t, stuck(nil, ""))
		wantSign(t, timedOut, func(l *listening) {
			rt := under(s.base, l)
			rt.Policy.AttemptTimeout = 50 * time.Millisecond
			if _, err := client(rt).Do(request(t, "GET", s.URL, nil)); !errors.Is(err, retry.ErrAttemptTimeout) {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("nobody listens", func(t *testing.T) {
		gone := httptest.NewServer(nil)
		gone.Close()
		wantSign(t, noSign, func(l *listening) {
			if _, err := client(under(nil, l)).Do(request(t, "GET", gone.URL, nil)); err == nil {
				t.Error("no error")
			}
		})
	})
	t.Run("closed after the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			network := &pipes{}
			base := &http.Transport{DialContext: network.dial}
			defer base.CloseIdleConnections()
			handler := stuck(nil, "a part")
			url := network.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(1, w, r) }))
			wantSign(t, timedOut, func(l *listening) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				resp, err := client(under(base, l)).Do(request(t, "GET", url, nil).WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				<-ctx.Done()
				resp.Body.Close()
			})
		})
	})
}

// echo answers with a 101 and a line.
func echo(_ int, w http.ResponseWriter, _ *http.Request) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = buf.Flush()
	line, _ := buf.ReadString('\n')
	_, _ = buf.WriteString("you said " + line)
	_ = buf.Flush()
}

// wantEcho talks to echo by the body of its answer.
func wantEcho(t *testing.T, resp *http.Response) {
	t.Helper()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("body is a %T, want an io.ReadWriteCloser", resp.Body)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "you said hello\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// A connection that has switched protocols holds its place until it is closed.
func TestLimitAfterAnUpgrade(t *testing.T) {
	s := serve(t, echo)
	l := new(limit.Limit)
	ctx, cancel := context.WithCancel(t.Context())
	req := request(t, "GET", s.URL, nil).WithContext(ctx)
	req.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"echo"}}
	resp := mustDo(t, under(s.base, l), req)
	cancel() // which does not end such a connection
	wantEcho(t, resp)
	wantInFlight(t, l, 1, "before Close")
	resp.Body.Close()
	wantInFlight(t, l, 0, "after Close")
}

// Whatever panics or exits, the place is given back.
func TestLimitAndPanics(t *testing.T) {
	bad := func(error) retry.Class { panic("Classify") }
	answers := func(code int, body io.ReadCloser) tripper {
		return func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: code, Body: body}, nil }
	}
	closed := false
	for name, tt := range map[string]struct {
		base     tripper
		classify retry.Classifier
	}{
		"Base panics":                      {func(*http.Request) (*http.Response, error) { panic("Base") }, nil},
		"Base exits":                       {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, nil},
		"Classify panics at a response":    {answers(503, http.NoBody), bad},
		"Classify panics at an error":      {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, bad},
		"Classify panics at a body's end":  {answers(200, io.NopCloser(failing{})), bad},
		"the body panics in Close":         {answers(200, &shut{strings.NewReader("x"), func() { closed = true; panic("Close") }}), nil},
		"Base returns nothing":             {answers(0, nil), bad},
		"Base returns nothing at all":      {func(*http.Request) (*http.Response, error) { return nil, nil }, nil},
		"the context is done in the midst": {answers(200, io.NopCloser(strings.NewReader("x"))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(listening)
			rt := under(tt.base, l)
			rt.Policy.Classify = tt.classify
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan bool)
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				resp, err := rt.RoundTrip(request(t, "GET", "http://example.com", nil).WithContext(ctx))
				if err != nil || resp == nil || resp.Body == nil {
					return
				}
				switch name {
				case "the body panics in Close":
					resp.Body.Close()
				case "the context is done in the midst":
					cancel()
				default:
					_, _ = io.ReadAll(resp.Body)
				}
			}()
			<-done
			l.only(t)
		})
	}
	if !closed {
		t.Error("the body is left open")
	}
}

// shut is a body with a func for Close.
type shut struct {
	io.Reader
	close func()
}

func (s *shut) Close() error {
	s.close()
	return nil
}

// A request that is over leaves nothing in a context that lives on.
func TestLimitLeavesTheContext(t *testing.T) {
	for name, end := range map[string]func(io.ReadCloser){
		"read":   func(b io.ReadCloser) { _, _ = io.ReadAll(b) },
		"closed": func(b io.ReadCloser) { b.Close() },
		"broken": func(b io.ReadCloser) { _, _ = b.Read(nil) },
	} {
		body := io.Reader(strings.NewReader("x"))
		if name == "broken" {
			body = io.MultiReader(failing{}, body)
		}
		l := new(limit.Limit)
		rt := under(tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(body)}, nil
		}), l)
		ctx := &spied{Context: t.Context(), done: make(chan struct{})}
		resp, err := rt.RoundTrip(request(t, "GET", "http://example.com", nil).WithContext(ctx))
		if err != nil || ctx.watchers != 1 {
			t.Fatalf("%s: %v, %d watchers", name, err, ctx.watchers)
		}
		end(resp.Body)
		wantInFlight(t, l, 0, name)
		if ctx.watchers != 0 {
			t.Errorf("%s: the context is still watched", name)
		}
	}
}

// failing is a reader that fails.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A body that is closed after the deadline came too late, whoever notices that first.
func TestLimitClosedTooLate(t *testing.T) {
	wantSign(t, timedOut, func(l *listening) {
		ctx := &spied{Context: t.Context(), done: make(chan struct{})}
		resp, err := under(tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("x"))}, nil
		}), l).RoundTrip(request(t, "GET", "http://example.com", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		ctx.err = context.DeadlineExceeded
		resp.Body.Close()
	})
}

// Classify may panic. On the goroutine that learns that the context has ended nobody could
// recover, so it is not called there.
func TestLimitCallsNoClassifyWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := new(limit.Limit)
		rt := under(tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("x"))}, nil
		}), l)
		rt.Policy.Classify = func(err error) retry.Class {
			t.Errorf("Classify is called with %v", err)
			return retry.Unknown
		}
		resp, err := rt.RoundTrip(request(t, "GET", "http://example.com", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		wantInFlight(t, l, 0, "after the deadline")
	})
}

// spied is a context that counts who waits for its end, and tells none of them.
type spied struct {
	context.Context
	done     chan struct{}
	err      error
	watchers int
}

func (w *spied) Done() <-chan struct{} { return w.done }
func (w *spied) Err() error            { return w.err }
func (w *spied) Value(any) any         { return nil }
func (w *spied) AfterFunc(func()) func() bool {
	w.watchers++
	return func() bool { w.watchers--; return true }
}

// Each copy of a hedged request takes a place, and the loser gives its own back with no sign.
func TestLimitAndAHedge(t *testing.T) {
	second := make(chan bool)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done()
			return
		}
		close(second)
		_, _ = io.WriteString(w, "quick")
	})
	l := &limit.Limit{Max: 2}
	h := &hedge.Hedge{Delay: time.Millisecond}
	rt := s.transport(quick)
	rt.Policy.Guards, rt.Hedge = []retry.Guard{l}, func(string) *hedge.Hedge { return h }
	resp := mustDo(t, rt, request(t, "GET", s.URL, nil))
	if got := read(t, resp); got != "quick" {
		t.Errorf("body %q", got)
	}
	<-second
	wantInFlight(t, l, 0, "after both copies")
}

// JSON holds its place until the body is read, and Download until its caller has.
func TestJSONAndDownloadUnderALimit(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%2 == 1 {
			w.Header().Set("Retry-After-Ms", "1")
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"Name": "Ada"}`)
	})
	l := &limit.Limit{Max: 1} // so an attempt that holds its place too long would be seen
	c, limited := client(s.base), quick
	limited.Guards = []retry.Guard{l}
	u, err := retryhttp.JSON[struct{ Name string }](t.Context(), limited, c, request(t, "GET", s.URL, nil))
	if u.Name != "Ada" || err != nil {
		t.Errorf("%q, %v", u.Name, err)
	}
	wantInFlight(t, l, 0, "after JSON")
	resp, err := retryhttp.Download(t.Context(), limited, c, request(t, "GET", s.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	wantInFlight(t, l, 1, "during a download")
	read(t, resp)
	wantInFlight(t, l, 0, "after a download")
	s.wantRequests(t, 4)
}

// However many requests end however they end, no place is lost.
func TestLimitLosesNoPlace(t *testing.T) {
	l := &limit.Limit{Max: 4}
	inner := &limit.Limit{Max: 3}
	handler := retryhttp.LimitHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/half":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		case "/hang":
			<-r.Context().Done()
		case "/hijack":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		case "/busy":
			w.WriteHeader(429)
		default:
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		}
	}), func(*http.Request) []retry.Guard { return []retry.Guard{inner} })
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) })
	c := client(under(s.base, l))
	var all sync.WaitGroup
	var sent, refused atomic.Int64
	for i := range 8 {
		all.Go(func() {
			for n := range 24 {
				path := []string{"panic", "half", "hang", "hijack", "busy", "ok"}[(n+i)%6]
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				resp, err := c.Do(request(t, "GET", s.URL+"/"+path, nil).WithContext(ctx))
				switch {
				case errors.Is(err, limit.ErrLimited):
					refused.Add(1)
				case err == nil:
					_, _ = io.CopyN(io.Discard, resp.Body, int64(n%3)*5000)
					resp.Body.Close()
					sent.Add(1)
				default:
					sent.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	eventually(t, "a client's place is lost", func() bool { return l.InFlight() == 0 })
	eventually(t, "a server's place is lost", func() bool { return inner.InFlight() == 0 })
	if got := sent.Load() + refused.Load(); got != 8*24 || sent.Load() == 0 {
		t.Errorf("%d sent, %d refused", sent.Load(), refused.Load())
	}
}

// A handler without a place answers and does nothing else.
func TestLimitHandlerWithoutAPlace(t *testing.T) {
	l := &limit.Limit{Max: 1}
	calls := 0
	h := retryhttp.LimitHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }), func(*http.Request) []retry.Guard { return []retry.Guard{l} })
	s := httptest.NewServer(h)
	defer s.Close()
	take(t, l)
	policy, told := recorded(retry.Policy{Backoff: retry.Constant(0), Clock: virtual(), Rand: func() float64 { return 0 }})
	policy.Hooks.Wait = func(context.Context, retry.Attempt) { give(l) }
	resp := mustDo(t, &retryhttp.Transport{Policy: policy}, request(t, "POST", s.URL, stream("order")))
	if read(t, resp); resp.StatusCode != 200 || calls != 1 || len(told.attempts) != 2 {
		t.Errorf("status %d, %d calls, %d attempts", resp.StatusCode, calls, len(told.attempts))
	}
	if first := told.attempts[0]; first.Class != retry.Throttled || first.Hint != time.Second || first.Delay != time.Second {
		t.Errorf("the first attempt is %v, with a hint of %v and a wait of %v", first.Class, first.Hint, first.Delay)
	}

	take(t, l)
	rec := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/", unreadable{t})
	h.ServeHTTP(rec, r)
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "1" || calls != 1 {
		t.Errorf("%d, %v, %d calls", rec.Code, rec.Header(), calls)
	}
	wantInFlight(t, l, 1, "after a refusal")
}

// closedFor is a guard that refuses all, for so long.
type closedFor time.Duration

func (d closedFor) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{}, retry.After(errors.New("closed"), time.Duration(d))
}
func (closedFor) Leave(retry.Pass, retry.Exit) {}

// Retry-After has whole seconds, rounded up: a caller must not come back earlier.
func TestLimitHandlerSaysWhenToComeBack(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2", 2 * time.Second: "2", 12 * time.Second: "12",
	} {
		rec := httptest.NewRecorder()
		retryhttp.LimitHandler(http.NotFoundHandler(), func(*http.Request) []retry.Guard { return []retry.Guard{closedFor(wait)} }).ServeHTTP(
			rec, httptest.NewRequest("GET", "/", nil))
		if got := rec.Header().Get("Retry-After"); got != want {
			t.Errorf("after a wait of %v Retry-After is %q, want %q", wait, got, want)
		}
	}
}

// A wait that is known is the answer, whatever mark is around it, and however long the request
// could wait.
func TestLimitHandlerAnswersAWaitThatIsKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		guard       func() retry.Guard
		least, most int
	}{
		"a pace that is held": {func() retry.Guard { p := new(pace.Pace); p.Hold(time.Minute); return p }, 60, 75},
		"a stop":              {func() retry.Guard { return refusing{retry.Stop(retry.After(errReset, 30*time.Second))} }, 30, 30},
		"a stop, wrapped": {func() retry.Guard {
			return refusing{fmt.Errorf("maintenance: %w", retry.Stop(fmt.Errorf("until noon: %w", retry.After(errReset, 90*time.Second))))}
		}, 90, 90},
		"a method":          {func() retry.Guard { return refusing{retry.Stop(hinting(20 * time.Second))} }, 20, 20},
		"undone":            {func() retry.Guard { return refusing{retry.Undone(retry.Stop(retry.After(errReset, 7*time.Second)))} }, 7, 7},
		"a pass that waits": {func() retry.Guard { return waiting(9 * time.Second) }, 9, 9},
		"no wait":           {func() retry.Guard { return refusing{retry.Stop(errReset)} }, 1, 1},
	} {
		for _, left := range []time.Duration{0, time.Second, time.Hour} {
			r := httptest.NewRequest("GET", "/", nil)
			if left > 0 {
				ctx, cancel := context.WithTimeout(r.Context(), left)
				defer cancel()
				r = r.WithContext(ctx)
			}
			guard, rec := tt.guard(), httptest.NewRecorder()
			retryhttp.LimitHandler(http.NotFoundHandler(), func(*http.Request) []retry.Guard { return []retry.Guard{guard} }).ServeHTTP(rec, r)
			if got, err := strconv.Atoi(rec.Header().Get("Retry-After")); err != nil || rec.Code != 429 || got < tt.least || got > tt.most {
				t.Errorf("%s, %v left: %d, Retry-After %q, want %d to %d", name, left, rec.Code, rec.Header().Get("Retry-After"), tt.least, tt.most)
			}
		}
	}
}

// refusing is a guard that refuses all with an error, and waiting one that has all wait.
type (
	refusing struct{ err error }
	waiting  time.Duration
)

func (f refusing) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, f.err }
func (refusing) Leave(retry.Pass, retry.Exit)                             {}
func (w waiting) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{Wait: time.Duration(w)}, nil
}
func (waiting) Leave(retry.Pass, retry.Exit) {}

// hinting is an error that asks for a wait.
type hinting time.Duration

func (hinting) Error() string               { return "busy" }
func (h hinting) RetryAfter() time.Duration { return time.Duration(h) }

// hears is a guard that admits all, and keeps what it gets about the last attempt.
type hears struct{ exit retry.Exit }

func (*hears) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }
func (h *hears) Leave(_ retry.Pass, x retry.Exit)                     { x.Clock = nil; h.exit = x }

// What the guards of a handler get is what a guard of a client would.
func TestLimitHandlerTellsHowTheHandlerHasEnded(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		deadline, hangsUp time.Duration // 0: never
		takes             time.Duration
		want              retry.Exit
	}{
		"returns":                {0, 0, s, retry.Exit{Ending: retry.Returned, Took: s}},
		"returns in time":        {3 * s, 0, s, retry.Exit{Ending: retry.Returned, Took: s, Allowed: 3 * s}},
		"too late":               {3 * s, 0, 5 * s, retry.Exit{Ending: retry.Expired, Took: 5 * s, Allowed: 3 * s, Verdict: retry.Verdict{Err: context.DeadlineExceeded}}},
		"begins too late":        {-s, 0, s, retry.Exit{Ending: retry.Expired, Took: s, Allowed: 1, Verdict: retry.Verdict{Err: context.DeadlineExceeded}}},
		"the caller has hung up": {0, s, 2 * s, retry.Exit{Ending: retry.Canceled, Took: 2 * s, Verdict: retry.Verdict{Err: context.Canceled}}},
		"panics":                 {3 * s, 0, 0, retry.Exit{Ending: retry.Panicked, Allowed: 3 * s}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.deadline != 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				defer cancel()
			}
			if tt.hangsUp != 0 {
				time.AfterFunc(tt.hangsUp, cancel)
			}
			g := new(hears)
			h := retryhttp.LimitHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if time.Sleep(tt.takes); tt.takes == 0 {
					panic(http.ErrAbortHandler)
				}
			}), func(*http.Request) []retry.Guard { return []retry.Guard{g} })
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			}()
			if g.exit != tt.want {
				t.Errorf("%s: exit\n%+v, want\n%+v", name, g.exit, tt.want)
			}
		})
	}
}

// unreadable is a body that nobody may read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// What the end of a handler means to its limit.
func TestLimitHandlerSigns(t *testing.T) {
	// serve sends a request to a handler under a limit, whose context has that end.
	serve := func(t *testing.T, l *listening, ctx context.Context, h http.HandlerFunc) {
		defer func() { _ = recover() }()
		retryhttp.LimitHandler(h, func(*http.Request) []retry.Guard { return []retry.Guard{l} }).ServeHTTP(
			httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	}
	wait := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			name string
			ctx  func() (context.Context, context.CancelFunc)
			h    http.HandlerFunc
			want sign
		}{
			{"returns", func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, func(http.ResponseWriter, *http.Request) {}, answered},
			{"refuses its caller", func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, answered},
			{"too late", func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) }, wait, timedOut},
			{"the caller hangs up", func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			}, wait, noSign},
			{"panics", func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, noSign},
		} {
			if got := signOf(t, func(l *listening) {
				ctx, cancel := test.ctx()
				defer cancel()
				serve(t, l, ctx, test.h)
			}); got != test.want {
				t.Errorf("%s: the guard got %s, want %s", test.name, got, test.want)
			}
		}
	})
}

// The handler holds its place until it returns, and gets the server's own ResponseWriter.
func TestLimitHandlerHoldsThePlace(t *testing.T) {
	l := new(limit.Limit)
	limited := 0
	guards := func(r *http.Request) []retry.Guard {
		if r.URL.Path == "/free" {
			return nil
		}
		limited++
		return []retry.Guard{l}
	}
	entered, leave := make(chan int), make(chan bool)
	s := httptest.NewServer(retryhttp.LimitHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		if !flusher || !hijacker {
			t.Errorf("the ResponseWriter is a %T", w)
		}
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		entered <- l.InFlight()
		<-leave
	}), guards))
	defer s.Close()
	for _, path := range []string{"/", "/free"} {
		resp := mustDo(t, http.DefaultTransport, request(t, "GET", s.URL+path, nil))
		want := 1
		if path == "/free" {
			want = 0
		}
		if got := <-entered; got != want {
			t.Errorf("%s: %d places are taken in the handler, want %d", path, got, want)
		}
		leave <- true
		read(t, resp)
	}
	eventually(t, "a place is lost", func() bool { return l.InFlight() == 0 })
	if limited != 1 {
		t.Errorf("guards was called %d times", limited)
	}
	for name, make := range map[string]func(){
		"handler": func() { retryhttp.LimitHandler(nil, guards) },
		"guards":  func() { retryhttp.LimitHandler(http.NotFoundHandler(), nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a nil %s does not panic", name)
				}
			}()
			make()
		}()
	}
}

// A handler that comes too late for its caller has expired.
func TestLimitHandlerInADeadlineHandler(t *testing.T) {
	h := new(listening)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s := httptest.NewServer(retryhttp.DeadlineHandler(retryhttp.LimitHandler(slow, func(*http.Request) []retry.Guard { return []retry.Guard{h} }), "X-Timeout-Ms", 20*time.Millisecond))
	defer s.Close()
	read(t, mustDo(t, http.DefaultTransport, request(t, "GET", s.URL, nil)))
	if x := h.only(t); x.Ending != retry.Expired {
		t.Errorf("the guard got %v, want that it has expired", x.Ending)
	}
}
