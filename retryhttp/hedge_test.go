package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// always is a hedge for every host and after d, which no budget refuses.
func always(d time.Duration) func(string) *hedge.Hedge {
	h := &hedge.Hedge{Delay: d, Budget: &budget.Token{Cost: -1}}
	return func(string) *hedge.Hedge { return h }
}

// Bodies are whole however attempts and hedges overtake each other, and of those that
// lose nothing is left: the server's cleanup looks.
func TestHedgedBodiesAreWhole(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 512<<10/16)
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%5 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(want)
	})
	var opened, closed, hedged atomic.Int64
	h := &hedge.Hedge{Delay: 1, Budget: &budget.Token{Cost: -1}, Hedged: func(_ context.Context, s hedge.Summary) { hedged.Add(int64(s.Started - 1)) }}
	rt := &retryhttp.Transport{
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			resp, err := s.base.RoundTrip(req)
			if err == nil {
				opened.Add(1)
				resp.Body = &onceClosed{ReadCloser: resp.Body, closed: &closed}
			}
			return resp, err
		}),
		Policy: retry.Policy{MaxAttempts: 10, Backoff: retry.Constant(0)},
		Hedge:  func(string) *hedge.Hedge { return h },
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 12 {
				resp, err := client(rt).Get(s.URL)
				if err != nil {
					t.Errorf("Get: %v", err)
					continue
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(body, want) {
					t.Errorf("%d bytes, %v, want %d", len(body), err, len(want))
				}
			}
		})
	}
	wg.Wait()
	if hedged.Load() == 0 {
		t.Error("no hedges")
	}
	if opened.Load() != closed.Load() {
		t.Errorf("%d bodies opened, %d closed", opened.Load(), closed.Load())
	}
}

// onceClosed counts the first Close.
type onceClosed struct {
	io.ReadCloser
	once   sync.Once
	closed *atomic.Int64
}

func (b *onceClosed) Close() error {
	b.once.Do(func() { b.closed.Add(1) })
	return b.ReadCloser.Close()
}

func TestWhatIsHedged(t *testing.T) {
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	for _, tt := range []struct {
		name, method, body string
		header             http.Header
		edit               func(*retryhttp.Transport)
		ctx                context.Context
		want               bool
	}{
		{name: "GET", method: "GET", want: true},
		{name: "no method", want: true},
		{name: "HEAD", method: "HEAD", want: true},
		{name: "OPTIONS", method: "OPTIONS", want: true},
		{name: "GET with a body", method: "GET", body: "x"},
		{name: "PUT", method: "PUT"},
		{name: "DELETE", method: "DELETE"},
		{name: "TRACE", method: "TRACE"},
		{name: "keyed POST", method: "POST", header: http.Header{"Idempotency-Key": {`"x"`}}},
		{name: "upgrade", method: "GET", header: upgrade},
		{name: "Expect", method: "GET", header: http.Header{"Expect": {"100-continue"}}},
		{name: "not idempotent by policy", method: "GET", edit: func(rt *retryhttp.Transport) { rt.Policy.NonIdempotent = true }},
		{name: "not idempotent by context", method: "GET", ctx: retryhttp.Idempotent(context.Background(), false)},
		{name: "nil hedge", method: "GET", edit: func(rt *retryhttp.Transport) { rt.Hedge = func(string) *hedge.Hedge { return nil } }},
		{name: "never", method: "GET", edit: func(rt *retryhttp.Transport) { rt.Hedge = always(hedge.Never) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int32
				host := ""
				rt := &retryhttp.Transport{Base: tripper(func(req *http.Request) (*http.Response, error) {
					sent.Add(1)
					if req.Body != nil {
						req.Body.Close()
					}
					time.Sleep(200 * time.Millisecond)
					return answerOf(200, "ok"), nil
				})}
				hedges := always(100 * time.Millisecond)
				rt.Hedge = func(h string) *hedge.Hedge { host = h; return hedges(h) }
				if tt.edit != nil {
					tt.edit(rt)
				}
				ctx := tt.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				var body io.Reader
				if tt.body != "" {
					body = strings.NewReader(tt.body)
				}
				req := request(t, tt.method, "http://EXAMPLE.com:80/", body).WithContext(ctx)
				req.Method = tt.method
				for name, v := range tt.header {
					req.Header[name] = v
				}
				read(t, mustDo(t, rt, req))
				if hedged := sent.Load() == 2; hedged != tt.want {
					t.Errorf("sent %d times, want hedged: %v", sent.Load(), tt.want)
				}
				if tt.want && host != "example.com" {
					t.Errorf("Hedge was asked for %q, want example.com", host)
				}
			})
		})
	}
}

func answerOf(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: stream(body)}
}

// copyOf is what one copy of a request meets.
type copyOf struct {
	after time.Duration
	code  int
	body  string
	err   error
}

// copies answers the copies of a request, in the order in which they are sent, and
// keeps the bodies it gave.
type copies struct {
	plan []copyOf

	mu     sync.Mutex
	sent   []*http.Request
	bodies []*closing
	causes []error
}

func (c *copies) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	plan := c.plan[len(c.sent)]
	c.sent = append(c.sent, req)
	c.mu.Unlock()
	select {
	case <-time.After(plan.after):
	case <-req.Context().Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.causes = append(c.causes, context.Cause(req.Context()))
		return nil, req.Context().Err()
	}
	if plan.err != nil {
		return nil, plan.err
	}
	body := stream(plan.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, body)
	resp := answerOf(plan.code, plan.body)
	resp.Body = &watched{body, req.Context()}
	return resp, nil
}

// watched is a body that cannot be read once its request's context has ended, as one
// from a socket.
type watched struct {
	*closing
	ctx context.Context
}

func (w *watched) Read(p []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	return w.closing.Read(p)
}

var errReset = errors.New("connection reset")

func TestHedgedAnswers(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		plan []copyOf
		code int
		body string
		err  error
		at   time.Duration
	}{
		{"quick", []copyOf{{50 * ms, 200, "one", nil}}, 200, "one", nil, 50 * ms},
		{"the hedge is faster", []copyOf{{time.Hour, 200, "one", nil}, {50 * ms, 200, "two", nil}}, 200, "two", nil, 150 * ms},
		{"the first is faster", []copyOf{{150 * ms, 200, "one", nil}, {time.Hour, 200, "two", nil}}, 200, "one", nil, 150 * ms},
		{"a 503 does not win over a 200", []copyOf{{300 * ms, 200, "one", nil}, {50 * ms, 503, "two", nil}}, 200, "one", nil, 300 * ms},
		{"nor does a reset", []copyOf{{300 * ms, 200, "one", nil}, {50 * ms, 0, "", errReset}}, 200, "one", nil, 300 * ms},
		{"a 404 is an answer", []copyOf{{300 * ms, 200, "one", nil}, {50 * ms, 404, "two", nil}}, 404, "two", nil, 150 * ms},
		{"a 503 before the delay", []copyOf{{50 * ms, 503, "one", nil}}, 503, "one", nil, 50 * ms},
		{"two 503", []copyOf{{120 * ms, 503, "one", nil}, {50 * ms, 503, "two", nil}}, 503, "two", nil, 150 * ms},
		{"two 503, the first is the last", []copyOf{{170 * ms, 503, "one", nil}, {50 * ms, 503, "two", nil}}, 503, "one", nil, 170 * ms},
		{"a 503, then a reset", []copyOf{{120 * ms, 503, "one", nil}, {50 * ms, 0, "", errReset}}, 503, "one", nil, 150 * ms},
		{"a reset, then a 503", []copyOf{{120 * ms, 0, "", errReset}, {50 * ms, 503, "two", nil}}, 503, "two", nil, 150 * ms},
		{"a 503, then a permanent error", []copyOf{{120 * ms, 503, "one", nil}, {50 * ms, 0, "", retry.Stop(errReset)}}, 0, "", errReset, 150 * ms},
		{"two resets", []copyOf{{120 * ms, 0, "", errReset}, {50 * ms, 0, "", errReset}}, 0, "", errReset, 150 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &copies{plan: tt.plan}
				rt := &retryhttp.Transport{Base: c, Policy: retry.Policy{MaxAttempts: 1}, Hedge: always(100 * ms)}
				req := request(t, "GET", "http://example.com/", nil)
				start := time.Now()
				resp, err := rt.RoundTrip(req)
				if took := time.Since(start); took != tt.at || !errors.Is(err, tt.err) {
					t.Errorf("RoundTrip: %v after %v, want %v after %v", err, took, tt.err, tt.at)
				}
				if len(c.sent) != len(tt.plan) {
					t.Errorf("sent %d copies, want %d", len(c.sent), len(tt.plan))
				}
				if tt.code > 0 {
					if resp.StatusCode != tt.code || resp.Request.URL != req.URL {
						t.Errorf("status %d of %v, want %d of the request", resp.StatusCode, resp.Request.URL, tt.code)
					}
					if got := read(t, resp); got != tt.body {
						t.Errorf("body %q, want %q", got, tt.body)
					}
				}
				for _, b := range c.bodies {
					b.wantClosedOnce(t)
				}
				for i, sent := range c.sent {
					if sent.Context().Err() == nil {
						t.Errorf("the context of copy %d is open after the body's Close", i+1)
					}
					if n := hedge.Number(sent.Context()); n != i+1 {
						t.Errorf("copy %d has number %d", i+1, n)
					}
				}
				if !slices.Equal(c.causes, []error{hedge.ErrLost}[:len(c.causes)]) {
					t.Errorf("causes %v, want ErrLost", c.causes)
				}
			})
		})
	}
}

// A retry is a race again, whose copies both carry the retry's number.
func TestRetriesOfRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		c := &copies{plan: []copyOf{{120 * ms, 503, "one", nil}, {50 * ms, 503, "two", nil}, {time.Hour, 200, "three", nil}, {50 * ms, 200, "four", nil}}}
		rt := &retryhttp.Transport{Base: c, Policy: retry.Policy{Backoff: retry.Constant(time.Second)}, Hedge: always(100 * ms), AttemptHeader: "Attempt"}
		start := time.Now()
		resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil))
		if got := read(t, resp); got != "four" || time.Since(start) != 1300*ms {
			t.Errorf("body %q after %v, want four after 1.3s", got, time.Since(start))
		}
		if n := retry.AttemptNumber(resp.Request.Context()); n != 2 {
			t.Errorf("AttemptNumber = %d, want 2", n)
		}
		var headers []string
		for _, req := range c.sent {
			headers = append(headers, req.Header.Get("Attempt"))
		}
		if !slices.Equal(headers, []string{"", "", "2", "2"}) {
			t.Errorf("headers %q", headers)
		}
		for _, b := range c.bodies {
			b.wantClosedOnce(t)
		}
	})
}

// unlike is an error whose type cannot be compared.
type unlike []string

func (u unlike) Error() string     { return "unlike" }
func (u unlike) SafeToRetry() bool { return true }

// An outage that begins within the delay: no copy finds a server.
func TestHedgedOutage(t *testing.T) {
	dead := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, errs := range map[string][2]error{"refused": {dead, dead}, "errors that cannot be compared": {unlike{}, unlike{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ms = time.Millisecond
				c := &copies{plan: []copyOf{{120 * ms, 0, "", errs[0]}, {50 * ms, 0, "", errs[1]}, {50 * ms, 200, "one", nil}}}
				rt := &retryhttp.Transport{Base: c, Policy: quick, Hedge: always(100 * ms)}
				if got := read(t, mustDo(t, rt, request(t, "GET", "http://example.com/", nil))); got != "one" {
					t.Errorf("body %q", got)
				}
			})
		})
	}
	rt := &retryhttp.Transport{Base: tripper(func(*http.Request) (*http.Response, error) { return nil, retry.Undone(unlike{}) }), Policy: quick}
	_, err := rt.RoundTrip(request(t, "POST", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonMaxAttempts)
}

// The second copy tells its server how much time is left when it is sent.
func TestTimeoutHeaderOfTheSecondCopy(t *testing.T) {
	for _, door := range []string{"Transport", "JSON"} {
		t.Run(door, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ms = time.Millisecond
				c := &copies{plan: []copyOf{{time.Hour, 200, "{}", nil}, {50 * ms, 200, "{}", nil}}}
				p := retry.Policy{AttemptTimeout: time.Second}
				rt := &retryhttp.Transport{Base: c, Policy: p, Hedge: always(600 * ms), TimeoutHeader: "Timeout-Ms"}
				req := request(t, "GET", "http://example.com/", nil)
				if door == "Transport" {
					read(t, mustDo(t, rt, req))
				} else if _, err := retryhttp.JSON[user](t.Context(), p, client(rt), req); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, req := range c.sent {
					got = append(got, req.Header.Get("Timeout-Ms"))
				}
				if !slices.Equal(got, []string{"1000", "400"}) {
					t.Errorf("headers %q, want 1000 and 400", got)
				}
			})
		})
	}
}

func TestAttemptTimeoutCoversTheRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &copies{plan: []copyOf{{after: time.Hour}, {after: time.Hour}}}
		rt := &retryhttp.Transport{Base: c, Policy: retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second}, Hedge: always(100 * time.Millisecond)}
		start := time.Now()
		_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
		if took := time.Since(start); !errors.Is(err, retry.ErrAttemptTimeout) || took != time.Second || len(c.sent) != 2 {
			t.Errorf("RoundTrip: %v after %v and %d copies, want the attempt's timeout after 1s and 2", err, took, len(c.sent))
		}
	})
}

// A cancel after the headers ends the body, as without hedges.
func TestCallersCancelEndsAHedgedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &copies{plan: []copyOf{{time.Hour, 200, "one", nil}, {0, 200, "two", nil}}}
		rt := &retryhttp.Transport{Base: c, Hedge: always(100 * time.Millisecond)}
		ctx, cancel := context.WithCancel(t.Context())
		resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil).WithContext(ctx))
		cancel()
		synctest.Wait()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("reading: %v, want canceled", err)
		}
		resp.Body.Close()
	})
}

// Policy.Classify gets what it gets without hedges, and its word decides the race.
func TestClassifyDecidesARace(t *testing.T) {
	errGone := errors.New("gone for good")
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		plan []copyOf
		code int
		at   time.Duration
	}{
		"an error that it calls permanent ends the race": {[]copyOf{{time.Hour, 200, "one", nil}, {50 * ms, 0, "", errGone}}, 0, 150 * ms},
		"a status that it calls transient does not":      {[]copyOf{{300 * ms, 200, "one", nil}, {50 * ms, 404, "two", nil}}, 200, 300 * ms},
		"a status that it calls permanent does":          {[]copyOf{{300 * ms, 200, "one", nil}, {50 * ms, 500, "two", nil}}, 500, 150 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &copies{plan: tt.plan}
				rt := &retryhttp.Transport{Base: c, Hedge: always(100 * ms), Policy: retry.Policy{MaxAttempts: 1, Classify: func(err error) retry.Class {
					if e, ok := errors.AsType[*retryhttp.StatusError](err); ok && e.Code == 404 {
						return retry.Transient
					}
					return retry.Permanent
				}}}
				start := time.Now()
				resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
				code := 0
				if err == nil {
					code = resp.StatusCode
					read(t, resp)
				}
				if took := time.Since(start); code != tt.code || took != tt.at {
					t.Errorf("status %d, %v after %v, want %d after %v", code, err, took, tt.code, tt.at)
				}
			})
		})
	}
}

// exits is a guard that keeps how attempts ended.
type exits struct {
	mu   sync.Mutex
	left []retry.Exit
}

func (e *exits) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, nil }

func (e *exits) Leave(_ retry.Pass, x retry.Exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = append(e.left, x)
}

// A guard gets the status of a copy that failed as it gets that of an attempt.
func TestGuardGetsTheStatusOfAFailedCopy(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		code  int
		after string
		class retry.Class
		hint  time.Duration
	}{
		{503, "", retry.Transient, 0},
		{503, "2", retry.Transient, 2 * time.Second},
		{429, "", retry.Throttled, 0},
		{429, "2", retry.Throttled, 2 * time.Second},
		{421, "", retry.Unprocessed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			guard := new(exits)
			c := &copies{plan: []copyOf{{300 * ms, 200, "one", nil}, {50 * ms, tt.code, "two", nil}}}
			rt := &retryhttp.Transport{Hedge: always(100 * ms), Policy: retry.Policy{Guards: []retry.Guard{guard}}, Base: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := c.RoundTrip(req)
				if resp.StatusCode == tt.code && tt.after != "" {
					resp.Header.Set("Retry-After", tt.after)
				}
				return resp, err
			})}
			read(t, mustDo(t, rt, request(t, "GET", "http://example.com/", nil)))
			v := guard.left[0].Verdict
			want := (&retryhttp.StatusError{Code: tt.code, Method: "GET", URL: "http://example.com/", Hint: tt.hint}).Error()
			if v.Class != tt.class || v.Hint != tt.hint || v.Err == nil || v.Err.Error() != want {
				t.Errorf("%d, Retry-After %q: %v, %v, %v, want %v, %v, %v", tt.code, tt.after, v.Class, v.Hint, v.Err, tt.class, tt.hint, want)
			}
		})
	}
}

// A Check sees the attempt's request, whichever copy has won.
func TestCheckOfAHedgedResponseSeesTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &copies{plan: []copyOf{{time.Hour, 200, "one", nil}, {0, 200, "two", nil}}}
		checked := 0
		rt := &retryhttp.Transport{
			Hedge: always(100 * time.Millisecond),
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				resp, err := c.RoundTrip(req)
				if resp != nil {
					resp.Request = req
				}
				return resp, err
			}),
			Check: func(resp *http.Response) error {
				checked++
				if n := hedge.Number(resp.Request.Context()); n != 1 {
					t.Errorf("the request is that of copy %d", n)
				}
				return nil
			},
		}
		read(t, mustDo(t, rt, request(t, "GET", "http://example.com/", nil)))
		if checked != 1 {
			t.Errorf("Check was called %d times, want once", checked)
		}
	})
}

func TestHedgedBaseThatReturnsNothing(t *testing.T) {
	rt := &retryhttp.Transport{Hedge: always(time.Hour), Base: tripper(func(*http.Request) (*http.Response, error) { return nil, nil })}
	_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
	if wantReason(t, err, retry.ReasonPermanent); !strings.Contains(err.Error(), "neither a response nor an error") {
		t.Errorf("error %v", err)
	}
}

// The context of a copy ends with its body, and at once if there is none.
func TestCopyWithoutABodyEnds(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"nil": nil, "NoBody": http.NoBody} {
		t.Run(name, func(t *testing.T) {
			var sent context.Context
			rt := &retryhttp.Transport{Hedge: always(time.Hour), Base: tripper(func(req *http.Request) (*http.Response, error) {
				sent = req.Context()
				return &http.Response{StatusCode: 200, Body: body}, nil
			})}
			resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
			if err != nil || resp.Body != body || sent.Err() == nil {
				t.Errorf("%v with body %v, context: %v, want the same body and an ended context", err, resp.Body, sent.Err())
			}
		})
	}
}

// Prepare may sign the TimeoutHeader, so that the copy that was prepared keeps it.
func TestFirstCopyKeepsWhatPrepareHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &copies{plan: []copyOf{{0, 200, "one", nil}}}
		signed := ""
		rt := &retryhttp.Transport{Base: c, Policy: retry.Policy{AttemptTimeout: time.Second}, Hedge: always(600 * time.Millisecond), TimeoutHeader: "Timeout-Ms",
			Prepare: func(req *http.Request) error {
				signed = req.Header.Get("Timeout-Ms")
				time.Sleep(100 * time.Millisecond)
				return nil
			}}
		read(t, mustDo(t, rt, request(t, "GET", "http://example.com/", nil)))
		if got := c.sent[0].Header.Get("Timeout-Ms"); got != signed || signed != "1000" {
			t.Errorf("sent %q, Prepare saw %q, want 1000", got, signed)
		}
	})
}

func TestPanicInAHedgedBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := stream("one")
		rt := &retryhttp.Transport{Hedge: always(100 * time.Millisecond), Base: tripper(func(req *http.Request) (*http.Response, error) {
			if hedge.Number(req.Context()) == 2 {
				time.Sleep(100 * time.Millisecond)
				panic("base")
			}
			time.Sleep(120 * time.Millisecond)
			return &http.Response{StatusCode: 503, Body: body}, nil
		})}
		defer func() {
			v := recover()
			if err, ok := v.(error); !ok || !strings.HasPrefix(err.Error(), "hedge: panic in a hedge: base\n") {
				t.Errorf("recovered %v, want the hedge's panic", v)
			}
			body.wantClosedOnce(t)
		}()
		_, _ = rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
	})
}

// hangs is a server that does not answer first copies, and a Transport for it that
// hedges them.
func hangs(t *testing.T, answer string) (*server, *retryhttp.Transport) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Copy") == "1" {
			<-r.Context().Done() // the loser's connection is closed
			return
		}
		w.Header().Set("From", "backend")
		_, _ = io.WriteString(w, answer)
	})
	rt := s.transport(quick)
	rt.Hedge = always(20 * time.Millisecond)
	rt.Base = tripper(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.Header.Set("Copy", strconv.Itoa(hedge.Number(req.Context())))
		return s.base.RoundTrip(req)
	})
	return s, rt
}

// Below JSON and Download the race is at the response headers: one body is read.
func TestHedgesBelowJSONAndDownload(t *testing.T) {
	s, rt := hangs(t, `{"Name":"ada"}`)
	user, err := retryhttp.JSON[struct{ Name string }](t.Context(), quick, client(rt), request(t, "GET", s.URL, nil))
	if err != nil || user.Name != "ada" {
		t.Errorf("JSON = %v, %v, want ada", user, err)
	}
	resp, err := retryhttp.Download(t.Context(), quick, client(rt), request(t, "GET", s.URL, nil))
	if err != nil {
		t.Fatalf("Download: %v", err)
	}
	if got := read(t, resp); got != `{"Name":"ada"}` {
		t.Errorf("Download: body %q", got)
	}
	if n := len(s.requests()); n > 4 { // fewer if a loser was canceled before it was sent
		t.Errorf("the server saw %d requests, want two for each", n)
	}
}

func TestReverseProxyOverHedges(t *testing.T) {
	s, rt := hangs(t, "hello")
	target, _ := url.Parse(s.URL)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: rt}
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 200 || w.Body.String() != "hello" || w.Header().Get("From") != "backend" {
		t.Errorf("%d %q %v, want the backend's answer", w.Code, w.Body, w.Header())
	}
}

// A request that is not slow starts no goroutine, though its context looks like a
// child of two.
func TestQuickRequestStartsNoGoroutine(t *testing.T) {
	during := 0
	rt := &retryhttp.Transport{Hedge: always(time.Hour), Base: tripper(func(*http.Request) (*http.Response, error) {
		during = runtime.NumGoroutine()
		return answerOf(200, "ok"), nil
	})}
	before := runtime.NumGoroutine()
	read(t, mustDo(t, rt, request(t, "GET", "http://example.com/", nil).WithContext(t.Context())))
	if during > before {
		t.Errorf("%d goroutines while it was sent, %d before", during, before)
	}
}
