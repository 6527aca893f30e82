package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

// The tests named after the points are the specification: ERRORS.md's "HTTP: what
// an exact retrying http.RoundTripper does".

func TestPoint1RequestIsClonedAndItsBodyClosed(t *testing.T) {
	t.Run("untouched", func(t *testing.T) {
		s := serve(t, statuses(503, 503, 200))
		rt := s.transport(quick)
		rt.AttemptHeader = "Attempt"
		rt.IdempotencyKey = func(*http.Request) string { return "k" }
		body := stream("hello")
		req := request(t, "POST", s.URL+"/a?b=c", body)
		req.Header.Set("X", "y")
		before, header := *req, req.Header.Clone()
		read(t, mustDo(t, rt, req))
		s.wantRequests(t, 3)
		if req.URL != before.URL || req.Body != before.Body || req.ContentLength != before.ContentLength || req.GetBody != nil ||
			req.Context() != before.Context() || !maps.EqualFunc(req.Header, header, slices.Equal) {
			t.Errorf("request changed: %+v, before %+v", req, &before)
		}
		body.wantClosedOnce(t)
	})
	t.Run("a hostile base changes later attempts alone", func(t *testing.T) {
		attempts := 0
		rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(req *http.Request) (*http.Response, error) {
			if attempts++; attempts > 1 {
				req.Header.Add("X", "added")
				req.URL.Path = "/changed"
			}
			return nil, errors.New("flaky")
		})}
		req := request(t, "GET", "http://example.com/", nil)
		_, err := rt.RoundTrip(req)
		wantReason(t, err, retry.ReasonMaxAttempts)
		if len(req.Header) != 0 || req.URL.Path != "/" {
			t.Errorf("header %v, path %q", req.Header, req.URL.Path)
		}
	})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		base http.RoundTripper
		want retry.Reason
	}{
		"canceled before":         {done, http.DefaultTransport, retry.ReasonCanceled},
		"transport error":         {t.Context(), closer(errors.New("no")), retry.ReasonMaxAttempts},
		"body closed by nobody":   {t.Context(), tripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no") }), retry.ReasonMaxAttempts},
		"permanent error":         {t.Context(), closer(retry.Stop(errors.New("no"))), retry.ReasonPermanent},
		"refused before the send": {t.Context(), &http.Transport{}, retry.ReasonPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			body := stream("x")
			req := request(t, "PUT", "none://example.com/", body).WithContext(tt.ctx)
			_, err := (&retryhttp.Transport{Base: tt.base, Policy: quick}).RoundTrip(req)
			wantReason(t, err, tt.want)
			body.wantClosedOnce(t)
		})
	}
	t.Run("panic", func(t *testing.T) {
		body := stream("x")
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not pass through")
			}
			body.wantClosedOnce(t)
		}()
		rt := &retryhttp.Transport{Base: tripper(func(*http.Request) (*http.Response, error) { panic("boom") })}
		_, _ = rt.RoundTrip(request(t, "PUT", "http://example.com/", body))
	})
}

// closer fails as a RoundTripper must: with the body closed.
func closer(err error) tripper {
	return func(req *http.Request) (*http.Response, error) {
		req.Body.Close()
		return nil, err
	}
}

func TestPoint2BodyIsSentAgain(t *testing.T) {
	file := func(t *testing.T, content string) *os.File {
		name := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	big := strings.Repeat("0123456789", 20_000)
	for _, tt := range []struct {
		name   string
		body   func(t *testing.T) io.Reader
		buffer int64
		want   string
		once   bool // not replayable
	}{
		{"GetBody", func(*testing.T) io.Reader { return strings.NewReader(big) }, -1, big, false},
		{"file", func(t *testing.T) io.Reader { return file(t, big) }, -1, big, false},
		{"file from an offset", func(t *testing.T) io.Reader {
			f := file(t, "skipped"+big)
			_, _ = f.Seek(7, io.SeekStart)
			return f
		}, -1, big, false},
		{"stream", func(*testing.T) io.Reader { return stream("hello") }, 0, "hello", false},
		{"stream of 64 KiB", func(*testing.T) io.Reader { return stream(big[:64<<10]) }, 0, big[:64<<10], false},
		{"stream of one byte more", func(*testing.T) io.Reader { return stream(big[:64<<10+1]) }, 0, big[:64<<10+1], true},
		{"stream up to MaxBuffer", func(*testing.T) io.Reader { return stream(big) }, int64(len(big)), big, false},
		{"stream above MaxBuffer", func(*testing.T) io.Reader { return stream(big) }, int64(len(big)) - 1, big, true},
		{"stream, never kept", func(*testing.T) io.Reader { return stream("x") }, -1, "x", true},
		{"empty stream, never kept", func(*testing.T) io.Reader { return stream("") }, -1, "", false},
		{"NoBody", func(*testing.T) io.Reader { return http.NoBody }, -1, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, statuses(503, 200))
			p, events := recorded(quick)
			rt := s.transport(p)
			rt.MaxBuffer = tt.buffer
			body := tt.body(t)
			resp := mustDo(t, rt, request(t, "PUT", s.URL, body))
			read(t, resp)
			if c, ok := body.(*closing); ok {
				c.wantClosedOnce(t)
			}
			if f, ok := body.(*os.File); ok {
				eventually(t, "file left open", func() bool { return errors.Is(f.Close(), os.ErrClosed) })
			}
			sent := s.requests()
			if tt.once {
				s.wantRequests(t, 1)
				if sent[0].body != tt.want || !errors.Is(events.summary.Err, retryhttp.ErrNotReplayable) || !strings.HasSuffix(events.summary.Err.Error(),
					"503 Service Unavailable; the request's body cannot be sent again: it is larger than Transport.MaxBuffer") {
					t.Errorf("hooks were told %v", events.summary.Err)
				}
				return
			}
			if resp.StatusCode != 200 || len(sent) != 2 || sent[0].body != tt.want || sent[1].body != tt.want || sent[0].length != sent[1].length {
				t.Errorf("status %d, %d requests, want two with the same body", resp.StatusCode, len(sent))
			}
		})
	}

	t.Run("not read past its end", func(t *testing.T) {
		s := serve(t, statuses(503, 200))
		read(t, mustDo(t, s.transport(quick), request(t, "PUT", s.URL, &once{t: t, s: "body"})))
		s.wantRequests(t, 2)
	})
	t.Run("unknown length, never kept", func(t *testing.T) {
		s := serve(t, statuses(503, 200))
		rt := s.transport(quick)
		rt.MaxBuffer = -1
		req := request(t, "PUT", s.URL, stream(""))
		req.ContentLength = -1
		read(t, mustDo(t, rt, req))
		s.wantRequests(t, 2)
	})
	t.Run("error of GetBody", func(t *testing.T) {
		s := serve(t, statuses(503))
		req := request(t, "PUT", s.URL, strings.NewReader("x"))
		errGone := errors.New("gone")
		req.GetBody = func() (io.ReadCloser, error) { return nil, errGone }
		if resp := mustDo(t, s.transport(quick), req); resp.StatusCode != 503 {
			t.Errorf("status %d, want that of the only response", resp.StatusCode)
		}
		_, err := (&retryhttp.Transport{Policy: quick, Base: closer(errors.New("flaky"))}).RoundTrip(req)
		if wantReason(t, err, retry.ReasonPermanent); !errors.Is(err, errGone) || !errors.Is(err, retryhttp.ErrNotReplayable) {
			t.Errorf("error %v, want it to hold %v", err, errGone)
		}
	})
	t.Run("error of GetBody is known before the decision", func(t *testing.T) {
		errGone := errors.New("gone")
		for method, want := range map[string]retry.Reason{"PUT": retry.ReasonPermanent, "POST": retry.ReasonNotIdempotent} {
			h := retrytest.New(t, retry.Policy{})
			base := &answers{codes: []int{503}}
			budget := &budget.Token{}
			p := h.Policy
			p.Budget = budget
			req := request(t, method, "http://example.com/", strings.NewReader("x"))
			asked := 0
			req.GetBody = func() (io.ReadCloser, error) { asked++; return nil, errGone }
			resp := mustDo(t, &retryhttp.Transport{Base: base, Policy: p}, req)
			if e := whyEnded(resp); e == nil || e.Reason != want || errors.Is(e, errGone) != (method == "PUT") || e != h.Summary().Err {
				t.Errorf("%s: GaveUp: %v, Summary.Err: %v", method, e, h.Summary().Err)
			}
			if base.open.Load() != 1 || read(t, resp) != "answer 1" || budget.Balance() != 1 || asked != map[string]int{"PUT": 1}[method] {
				t.Errorf("%s: balance %v; GetBody called %d times; or the response is not open", method, budget.Balance(), asked)
			}
			h.AssertDelays()
			req.Body = io.NopCloser(strings.NewReader("x"))
			_, err := retryhttp.JSON[user](t.Context(), quick, client(base), req)
			if wantReason(t, err, want); base.open.Load() != 0 {
				t.Errorf("JSON, %s: %v; %d bodies open", method, err, base.open.Load())
			}
		}
	})
	t.Run("GetBody's copy is closed if no retry follows", func(t *testing.T) {
		copied := &closing{Reader: strings.NewReader("x")}
		req := request(t, "PUT", "http://example.com/", strings.NewReader("x"))
		req.GetBody = func() (io.ReadCloser, error) { return copied, nil }
		p := quick
		p.Budget = &budget.Token{Capacity: -1}
		resp := mustDo(t, &retryhttp.Transport{Base: &answers{codes: []int{503}}, Policy: p}, req)
		wantReason(t, retryhttp.GaveUp(resp), retry.ReasonBudget)
		copied.wantClosedOnce(t)
	})
	t.Run("no time for a body where no retry can follow", func(t *testing.T) {
		for name, tt := range map[string]struct {
			method string
			code   int
			header http.Header
			change func(*retry.Policy)
			want   retry.Reason
			took   time.Duration
		}{
			"success":       {"PUT", 200, nil, func(*retry.Policy) {}, retry.ReasonNone, 0},
			"an answer":     {"PUT", 404, nil, func(*retry.Policy) {}, retry.ReasonNone, 0},
			"keyless POST":  {"POST", 503, nil, func(*retry.Policy) {}, retry.ReasonNotIdempotent, 0},
			"last attempt":  {"PUT", 503, nil, func(p *retry.Policy) { p.MaxAttempts = 1 }, retry.ReasonMaxAttempts, 0},
			"a hint":        {"PUT", 503, http.Header{"Retry-After": {"3600"}}, func(*retry.Policy) {}, retry.ReasonRetryAfter, 0},
			"one may":       {"PUT", 503, nil, func(*retry.Policy) {}, retry.ReasonPermanent, 50 * time.Millisecond},
			"one may, 421":  {"POST", 421, nil, func(*retry.Policy) {}, retry.ReasonPermanent, 50 * time.Millisecond},
			"no limit":      {"PUT", 503, nil, func(p *retry.Policy) { p.MaxElapsed = time.Hour }, retry.ReasonPermanent, 50 * time.Millisecond},
			"its class":     {"PUT", 503, nil, func(p *retry.Policy) { p.Classify = func(error) retry.Class { return retry.Permanent } }, retry.ReasonNone, 0},
			"not the class": {"PUT", 404, nil, func(p *retry.Policy) { p.Classify = func(error) retry.Class { return retry.Transient } }, retry.ReasonPermanent, 50 * time.Millisecond},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := &blocking{blocked: make(chan struct{}), closed: make(chan struct{})}
					p := retry.Policy{}
					tt.change(&p)
					rt := &retryhttp.Transport{Policy: p, Base: tripper(func(req *http.Request) (*http.Response, error) {
						go func() {
							_, _ = io.Copy(io.Discard, req.Body)
							req.Body.Close()
						}()
						<-body.blocked
						return &http.Response{StatusCode: tt.code, Header: tt.header, Body: http.NoBody}, nil
					})}
					start := time.Now()
					resp := mustDo(t, rt, request(t, tt.method, "http://example.com/", body))
					if took := time.Since(start); took != tt.took {
						t.Errorf("took %v, want %v", took, tt.took)
					}
					if e := whyEnded(resp); e == nil && tt.want != retry.ReasonNone || e != nil && e.Reason != tt.want {
						t.Errorf("GaveUp: %v, want %v", e, tt.want)
					}
					body.Close()
				})
			})
		}
	})
	t.Run("a file goes on where it was if no retry follows", func(t *testing.T) {
		p := quick
		p.Budget = &budget.Token{Capacity: -1}
		var rest []byte
		done := make(chan struct{})
		returned := make(chan struct{})
		rt := &retryhttp.Transport{Policy: p, Base: tripper(func(req *http.Request) (*http.Response, error) {
			_, _ = io.ReadFull(req.Body, make([]byte, 4))
			go func() {
				defer close(done)
				<-returned
				rest, _ = io.ReadAll(req.Body)
				req.Body.Close()
			}()
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		})}
		mustDo(t, rt, request(t, "PUT", "http://example.com/", struct {
			io.ReadSeeker
			io.Closer
		}{strings.NewReader("0123456789"), io.NopCloser(nil)}))
		close(returned)
		if <-done; string(rest) != "456789" {
			t.Errorf("the base goes on with %q, want 456789", rest)
		}
	})
	t.Run("error of GetBody under a timeout", func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second}) // fails if a timer is left
		req := request(t, "PUT", "http://example.com/", strings.NewReader("x"))
		req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		_, err := (&retryhttp.Transport{Policy: h.Policy, Base: closer(errors.New("flaky"))}).RoundTrip(req)
		wantReason(t, err, retry.ReasonPermanent)
	})
	t.Run("body that fails", func(t *testing.T) {
		s := serve(t, statuses(200))
		errBroken := errors.New("broken")
		body := &closing{Reader: io.MultiReader(strings.NewReader("x"), errReader{errBroken})}
		_, err := s.transport(quick).RoundTrip(request(t, "PUT", s.URL, body))
		if wantReason(t, err, retry.ReasonPermanent); !errors.Is(err, errBroken) || !errors.Is(err, retryhttp.ErrNotReplayable) {
			t.Errorf("error %v, want it to hold %v", err, errBroken)
		}
		body.wantClosedOnce(t)
	})
	t.Run("trailer of each attempt's body", func(t *testing.T) {
		s := serve(t, statuses(503, 200))
		req := request(t, "PUT", s.URL, nil)
		req.Trailer = http.Header{"Sum": nil}
		calls := 0
		req.GetBody = func() (io.ReadCloser, error) {
			calls++
			sum := fmt.Sprint(calls)
			return io.NopCloser(io.MultiReader(strings.NewReader("x"), funcReader(func() { req.Trailer.Set("Sum", sum) }))), nil
		}
		req.Body, _ = req.GetBody()
		read(t, mustDo(t, s.transport(quick), req))
		if sent := s.requests(); len(sent) != 2 || sent[0].trailer.Get("Sum") != "1" || sent[1].trailer.Get("Sum") != "2" {
			t.Errorf("requests %+v, want trailers 1 and 2", sent)
		}
	})
}

// once must not be read after it has said that it ends.
type once struct {
	t    testing.TB
	s    string
	over bool
}

func (o *once) Read(p []byte) (int, error) {
	if o.over {
		o.t.Error("read again after its end")
	}
	n := copy(p, o.s)
	if o.s = o.s[n:]; o.s != "" {
		return n, nil
	}
	o.over = true
	return n, io.EOF
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// funcReader is called at the end of a body.
type funcReader func()

func (f funcReader) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func TestPoint3OnlyWhatMayRunTwice(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		header       http.Header
		codes        []int
		hint         string
		key          string // from IdempotencyKey
		policy       bool   // NonIdempotent
		want         int    // requests
	}{
		{name: "GET", method: "GET", codes: []int{500, 200}, want: 2},
		{name: "empty means GET", method: "", codes: []int{500, 200}, want: 2},
		{name: "HEAD", method: "HEAD", codes: []int{500, 200}, want: 2},
		{name: "OPTIONS", method: "OPTIONS", codes: []int{500, 200}, want: 2},
		{name: "TRACE", method: "TRACE", codes: []int{500, 200}, want: 2},
		{name: "PUT", method: "PUT", codes: []int{500, 200}, want: 2},
		{name: "DELETE", method: "DELETE", codes: []int{500, 200}, want: 2},
		{name: "POST", method: "POST", codes: []int{500}, want: 1},
		{name: "PATCH", method: "PATCH", codes: []int{503}, want: 1},
		{name: "PURGE", method: "PURGE", codes: []int{503}, want: 1},
		{name: "lower case is another method", method: "put", codes: []int{503}, want: 1},
		{name: "POST throttled", method: "POST", codes: []int{429}, want: 1},
		{name: "POST turned away until later", method: "POST", codes: []int{429, 403, 200}, hint: "1", want: 3},
		{name: "POST, busy until later", method: "POST", codes: []int{503}, hint: "1", want: 1},
		{name: "POST, busy gateway", method: "POST", codes: []int{504}, hint: "1", want: 1},
		{name: "POST failed, with a retry time", method: "POST", codes: []int{500}, hint: "1", want: 1},
		{name: "POST misdirected", method: "POST", codes: []int{421, 200}, want: 2},
		{name: "POST with a key", method: "POST", header: http.Header{"Idempotency-Key": {"k"}}, codes: []int{500, 200}, want: 2},
		{name: "POST with the other key", method: "POST", header: http.Header{"X-Idempotency-Key": {"k"}}, codes: []int{500, 200}, want: 2},
		{name: "POST with an unsent key", method: "POST", header: http.Header{"Idempotency-Key": nil}, codes: []int{500, 200}, want: 2},
		{name: "POST with a generated key", method: "POST", key: "k", codes: []int{500, 409, 200}, want: 3},
		{name: "POST, none generated", method: "POST", header: http.Header{}, codes: []int{500}, want: 1},
		{name: "conflict", method: "PUT", codes: []int{409}, want: 1},
		{name: "conflict with a key", method: "PUT", header: http.Header{"Idempotency-Key": {"k"}}, codes: []int{409, 200}, want: 2},
		{name: "GET under NonIdempotent", method: "GET", codes: []int{500}, policy: true, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if tt.hint != "" {
					w.Header().Set("Retry-After-Ms", tt.hint)
				}
				statuses(tt.codes...)(n, w, r)
			})
			p := quick
			p.NonIdempotent = tt.policy
			rt := s.transport(p)
			rt.IdempotencyKey = func(*http.Request) string { return tt.key }
			req := request(t, tt.method, s.URL, strings.NewReader("body"))
			maps.Copy(req.Header, tt.header)
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			s.wantRequests(t, tt.want)
			if want := tt.codes[len(tt.codes)-1]; resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
		})
	}
}

func TestPoint3GeneratedKeyIsTheSameOnEveryAttempt(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"abc", `"abc"`}, {`"abc"`, `"abc"`}, {`a"b\c`, `"a\"b\\c"`},
	} {
		s := serve(t, statuses(500, 500, 200))
		rt, calls := s.transport(quick), 0
		rt.IdempotencyKey = func(*http.Request) string {
			calls++
			return tt.key
		}
		read(t, mustDo(t, rt, request(t, "POST", s.URL, nil)))
		for _, r := range s.requests() {
			if got := r.header["Idempotency-Key"]; len(got) != 1 || got[0] != tt.want {
				t.Errorf("Idempotency-Key %q, want %q", got, tt.want)
			}
		}
		s.wantRequests(t, 3)
		for _, req := range []*http.Request{
			request(t, "GET", s.URL, nil),
			{Method: "POST", URL: request(t, "POST", s.URL, nil).URL, Header: http.Header{"Idempotency-Key": {"own"}}},
		} {
			read(t, mustDo(t, rt, req))
		}
		if calls != 1 {
			t.Errorf("IdempotencyKey called %d times, want once", calls)
		}
	}
}

// What cannot be proved with httptrace alone is not retried.
func TestPoint3NothingWritten(t *testing.T) {
	errOdd := errors.New("odd")
	for _, tt := range []struct {
		name   string
		report func(*httptrace.ClientTrace)
		want   int
	}{
		{"no connection was got", func(tr *httptrace.ClientTrace) { tr.GetConn("h:1") }, 3},
		{"a connection was got", func(tr *httptrace.ClientTrace) {
			tr.GetConn("h:1")
			tr.GotConn(httptrace.GotConnInfo{})
		}, 1},
		{"headers were written", func(tr *httptrace.ClientTrace) {
			tr.GetConn("h:1")
			tr.WroteHeaders()
		}, 1},
		{"base reports nothing", func(*httptrace.ClientTrace) {}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attempts, called := 0, 0
			rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(req *http.Request) (*http.Response, error) {
				attempts++
				tt.report(httptrace.ContextClientTrace(req.Context()))
				return nil, errOdd
			})}
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) { called++ }})
			_, err := rt.RoundTrip(request(t, "POST", "http://h:1/", nil).WithContext(ctx))
			if !errors.Is(err, errOdd) || attempts != tt.want {
				t.Errorf("%d attempts, want %d; %v", attempts, tt.want, err)
			}
			if tt.name != "base reports nothing" && called != attempts {
				t.Errorf("the caller's GetConn was called %d times in %d attempts", called, attempts)
			}
		})
	}
}

func TestPoint4DiscardedResponseIsClosedBeforeTheWait(t *testing.T) {
	t.Run("connection is reused", func(t *testing.T) {
		s := serve(t, statuses(503, 503, 200))
		busy := -1
		p := quick
		p.Hooks.Wait = func(context.Context, retry.Attempt) {
			eventually(t, "a connection is busy in the wait", func() bool { return s.busy() == 0 })
			busy++
		}
		read(t, mustDo(t, s.transport(p), request(t, "GET", s.URL, nil)))
		if s.wantRequests(t, 3); s.opened != 1 || busy != 1 {
			t.Errorf("%d connections opened, want 1; %d waits", s.opened, busy+1)
		}
	})
	for size, opened := range map[int]int{60 << 10: 1, 65 << 10: 3} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			s := serve(t, script(text(503, strings.Repeat("x", size)), text(503, strings.Repeat("x", size)), text(200, "")))
			read(t, mustDo(t, s.transport(quick), request(t, "GET", s.URL, nil)))
			if s.wantRequests(t, 3); int(s.opened) != opened {
				t.Errorf("%d connections opened, want %d", s.opened, opened)
			}
		})
	}
	for _, gzipped := range []bool{false, true} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(fmt.Sprintf("body hangs, %s, gzip %v", protocol, gzipped), func(t *testing.T) {
				answer := func(n int, w http.ResponseWriter, r *http.Request) {
					if n > 1 {
						return
					}
					if gzipped {
						w.Header().Set("Content-Encoding", "gzip")
					}
					w.WriteHeader(503)
					_, _ = io.WriteString(w, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
				s := serveAs(t, answer, protocols[protocol])
				start := time.Now()
				read(t, mustDo(t, s.transport(quick), request(t, "GET", s.URL, nil)))
				if took := time.Since(start); took < 50*time.Millisecond { // without a limit it would never end
					t.Errorf("took %v, want 50 ms for the body", took)
				}
			})
		}
	}
	t.Run("endless body", func(t *testing.T) {
		var read atomic.Int64
		rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: io.NopCloser(endless{&read})}, nil
		})}
		resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
		if err != nil || resp.StatusCode != 503 {
			t.Fatal(resp, err)
		}
		if n := read.Load(); n != 2*64<<10 {
			t.Errorf("%d bytes drained of two responses, want 64 KiB of each", n)
		}
	})
	t.Run("base without bodies", func(t *testing.T) {
		rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503}, nil
		})}
		if resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil)); err != nil || resp.StatusCode != 503 {
			t.Error(resp, err)
		}
	})
}

// endless counts what is read.
type endless struct{ n *atomic.Int64 }

func (r endless) Read(p []byte) (int, error) {
	r.n.Add(int64(len(p)))
	return len(p), nil
}

func TestPoint5AttemptTimeoutCoversHeadersAlone(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			v := virtual()
			headers := make(chan struct{})
			answer := func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					v.Advance(time.Second)
					<-r.Context().Done()
					return
				}
				_, _ = io.WriteString(w, "slow ")
				_ = http.NewResponseController(w).Flush()
				<-headers
				v.Advance(2 * time.Second)
				_, _ = io.WriteString(w, "body")
			}
			s := serveAs(t, answer, protocol)
			p, events := recorded(quick)
			p.AttemptTimeout, p.Clock = time.Second, v
			resp := mustDo(t, s.transport(p), request(t, "GET", s.URL, nil))
			close(headers)
			if body := read(t, resp); body != "slow body" {
				t.Errorf("body %q", body)
			}
			if err := events.attempts[0].Err; err != retry.ErrAttemptTimeout {
				t.Errorf("the first attempt ended with %v, want ErrAttemptTimeout", err)
			}
		})
	}
	t.Run("close ends the attempt", func(t *testing.T) {
		for _, how := range []string{"close", "EOF", "no body"} {
			var ctx context.Context
			rt := &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Minute}, Base: tripper(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				resp := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("x"))}
				if how == "no body" {
					resp.Body = http.NoBody
				}
				return resp, nil
			})}
			resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
			if err != nil || ctx.Err() != nil && how != "no body" {
				t.Fatalf("%v; the attempt's context: %v", err, ctx.Err())
			}
			switch how {
			case "close":
				resp.Body.Close()
			case "EOF":
				_, _ = io.ReadAll(resp.Body)
			}
			if ctx.Err() == nil {
				t.Errorf("%s: the attempt's context lives on", how)
			}
			if resp.Request.Context().Err() != nil {
				t.Errorf("%s: the response's request is canceled", how)
			}
		}
	})
	t.Run("the caller's cancel hides no error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		errOdd := errors.New("odd")
		rt := &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Minute}, Base: tripper(func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, errOdd
		})}
		_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
		if wantReason(t, err, retry.ReasonCanceled); !errors.Is(err, errOdd) {
			t.Errorf("error %v, want %v in it", err, errOdd)
		}
	})
	t.Run("so does an error", func(t *testing.T) {
		var ctx context.Context
		rt := &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Minute, MaxAttempts: 1}, Base: tripper(func(req *http.Request) (*http.Response, error) {
			ctx = req.Context()
			return nil, errors.New("flaky")
		})}
		if _, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil)); err == nil || ctx.Err() == nil {
			t.Errorf("%v; the attempt's context: %v", err, ctx.Err())
		}
	})
	t.Run("no goroutine, no timer", func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Minute})
		_, _ = (&retryhttp.Transport{Policy: h.Policy, Base: canned}).RoundTrip(request(t, "GET", "http://example.com/", nil))
		if n := h.Clock.Pending(); n != 0 {
			t.Errorf("%d timers run after the headers", n)
		}
		synctest.Test(t, func(t *testing.T) {
			rt := &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Minute}, Base: canned}
			for range 100 {
				if _, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil)); err != nil {
					t.Error(err)
				}
			}
		}) // fails if a goroutine is left
	})
	t.Run("virtual clock", func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(time.Minute)})
		rt := &retryhttp.Transport{Policy: h.Policy, Base: tripper(func(req *http.Request) (*http.Response, error) {
			_ = h.Clock.Sleep(req.Context(), time.Hour)
			return nil, context.Cause(req.Context())
		})}
		_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
		wantReason(t, err, retry.ReasonMaxAttempts)
		h.AssertDelays(time.Minute, time.Minute)
		if e := h.Summary().Elapsed; e != 2*time.Minute+3*time.Second {
			t.Errorf("took %v, want 2m3s", e)
		}
	})
	t.Run("headers come too late to be read under it", func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second})
		closed := 0
		rt := &retryhttp.Transport{Policy: h.Policy, Base: tripper(func(req *http.Request) (*http.Response, error) {
			h.Clock.Advance(time.Second)
			return &http.Response{StatusCode: 200, Body: bodyFunc(func() { closed++ })}, nil
		})}
		_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
		if wantReason(t, err, retry.ReasonMaxAttempts); !errors.Is(err, retry.ErrAttemptTimeout) || closed != 3 {
			t.Errorf("%v; %d of 3 bodies closed", err, closed)
		}
	})
	t.Run("the caller's own deadline is not the attempt's", func(t *testing.T) {
		v := virtual()
		s := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			v.Advance(time.Second)
			<-r.Context().Done()
		})
		ctx, cancel := v.WithTimeoutCause(t.Context(), time.Second, nil)
		defer cancel()
		p := quick
		p.AttemptTimeout, p.Clock = time.Minute, v
		_, err := s.transport(p).RoundTrip(request(t, "GET", s.URL, nil).WithContext(ctx))
		wantReason(t, err, retry.ReasonDeadline)
		s.wantRequests(t, 1)
	})
}

// bodyFunc is an empty body that calls the func when it is closed.
type bodyFunc func()

func (bodyFunc) Read([]byte) (int, error) { return 0, io.EOF }
func (f bodyFunc) Close() error {
	f()
	return nil
}

func TestPoint6LastResponseIsReturned(t *testing.T) {
	hour := http.Header{"Retry-After": {"3600"}}
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		codes  []int
		header http.Header
		want   int // requests
		reason retry.Reason
	}{
		{"attempts", quick, []int{500, 502, 503}, nil, 3, retry.ReasonMaxAttempts},
		{"one attempt", retry.Policy{MaxAttempts: 1}, []int{503}, nil, 1, retry.ReasonMaxAttempts},
		{"elapsed", retry.Policy{MaxElapsed: 1, Backoff: retry.Constant(time.Hour)}, []int{503}, nil, 1, retry.ReasonMaxElapsed},
		{"hint too long", quick, []int{429}, hour, 1, retry.ReasonRetryAfter},
		{"budget", retry.Policy{Budget: &budget.Token{Capacity: -1}}, []int{503}, nil, 1, retry.ReasonBudget},
		{"deadline in the wait", retry.Policy{Backoff: retry.Constant(2 * time.Hour)}, []int{503}, nil, 1, retry.ReasonDeadline},
		{"permanent is no failure", quick, []int{404}, nil, 1, retry.ReasonNone},
		{"so is not implemented", quick, []int{501}, nil, 1, retry.ReasonNone},
		{"classifier says no", retry.Policy{Classify: func(error) retry.Class { return retry.Permanent }}, []int{503}, nil, 1, retry.ReasonNone},
		{"classifier says yes", retry.Policy{Backoff: retry.Constant(1), Classify: locked}, []int{423, 423, 423}, nil, 3, retry.ReasonMaxAttempts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				maps.Copy(w.Header(), tt.header)
				w.Header().Set("Trailer", "Sum")
				statuses(tt.codes...)(n, w, r)
				w.Header().Set("Sum", "ok")
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			p, events := recorded(tt.policy)
			resp, err := s.transport(p).RoundTrip(request(t, "GET", s.URL, nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if body, want := read(t, resp), fmt.Sprintf("answer %d", tt.want); body != want || resp.StatusCode != tt.codes[len(tt.codes)-1] {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, body, tt.codes[len(tt.codes)-1], want)
			}
			if resp.Trailer.Get("Sum") != "ok" {
				t.Errorf("trailer %v", resp.Trailer)
			}
			if n := retry.AttemptNumber(resp.Request.Context()); n != tt.want {
				t.Errorf("AttemptNumber of the response's request = %d, want %d", n, tt.want)
			}
			s.wantRequests(t, tt.want)
			if events.summary.Reason != tt.reason {
				t.Errorf("hooks were told %v, want %v", events.summary.Reason, tt.reason)
			}
		})
	}
}

func locked(err error) retry.Class {
	if e, ok := errors.AsType[*retryhttp.StatusError](err); ok && e.Code == http.StatusLocked {
		return retry.Transient
	}
	return retry.Unknown
}

func TestPoint6TransportErrorIsARetryError(t *testing.T) {
	errOdd := errors.New("odd")
	rt := &retryhttp.Transport{Policy: quick.Named("get"), Base: tripper(func(*http.Request) (*http.Response, error) { return nil, errOdd })}
	_, err := client(rt).Get("http://example.com/x")
	e := wantReason(t, err, retry.ReasonMaxAttempts)
	if !errors.Is(err, errOdd) || e.Attempts != 3 || e.Name != "get" {
		t.Errorf("error %v", err)
	}
	rt.Base = tripper(func(*http.Request) (*http.Response, error) { return nil, nil })
	if _, err := client(rt).Get("http://example.com/x"); err == nil || !strings.Contains(err.Error(), "neither a response nor an error") {
		t.Errorf("error %v", err)
	}
}

// A response that was there when the caller's context ended could not be read.
func TestPoint6ContextEndedWithTheResponse(t *testing.T) {
	for name, end := range map[string]func(cancel func()) retry.Hooks{
		"after the attempt": func(cancel func()) retry.Hooks {
			return retry.Hooks{AttemptDone: func(context.Context, retry.Attempt) { cancel() }}
		},
		"in the wait": func(cancel func()) retry.Hooks {
			return retry.Hooks{Wait: func(context.Context, retry.Attempt) { cancel() }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			errBored := errors.New("bored")
			closed := 0
			rt := &retryhttp.Transport{Policy: retry.Policy{Hooks: end(func() { cancel(errBored) })}, Base: tripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Body: bodyFunc(func() { closed++ })}, nil
			})}
			resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
			wantReason(t, err, retry.ReasonCanceled)
			if status, ok := errors.AsType[*retryhttp.StatusError](err); !ok || status.Code != 503 || !errors.Is(err, errBored) || !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want the status and the cause", err)
			}
			if closed != 1 || resp != nil {
				t.Errorf("body closed %d times, response %v", closed, resp)
			}
		})
	}
}

func TestPoint7HintsAreObeyed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		code   int
		header http.Header
		want   []time.Duration
	}{
		{"seconds", 503, http.Header{"Retry-After": {"7"}}, []time.Duration{7 * time.Second}},
		{"zero seconds", 503, http.Header{"Retry-After": {"0"}}, []time.Duration{0}},
		{"11 days", 503, http.Header{"Retry-After": {"1000000"}}, nil},
		{"just MaxRetryAfter", 429, http.Header{"Retry-After": {"300"}}, []time.Duration{5 * time.Minute}},
		{"one more", 429, http.Header{"Retry-After": {"301"}}, nil},
		{"overflow", 429, http.Header{"Retry-After": {"9223372036854775807"}}, nil},
		{"overflowing reset", 429, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"99999999999999999999"}}, nil},
		{"rate limit beside a 502", 502, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"3600"}}, []time.Duration{0}},
		{"rate limit beside a 503", 503, http.Header{"Ratelimit": {`"a";r=0;t=3600`}}, []time.Duration{0}},
		{"rate limit beside a 503 that says when", 503, http.Header{"Ratelimit": {`"a";r=0;t=3600`}, "Retry-After": {"4"}}, []time.Duration{4 * time.Second}},
		{"rate limit of a 429", 429, http.Header{"Ratelimit": {`"a";r=0;t=60`}}, []time.Duration{time.Minute}},
		{"date", 503, http.Header{"Retry-After": {"Sun, 06 Nov 1994 08:49:37 GMT"}, "Date": {"Sun, 06 Nov 1994 08:49:30 GMT"}}, []time.Duration{7 * time.Second}},
		{"on the policy's clock", 503, http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:09 GMT"}}, []time.Duration{9 * time.Second}},
		{"GitHub", 403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1000000060"}, "Date": {"Sun, 09 Sep 2001 01:46:40 GMT"}}, []time.Duration{time.Minute}},
		{"forbidden", 403, nil, nil},
		{"Stripe says no", 503, http.Header{"Stripe-Should-Retry": {"false"}}, nil},
		{"Stripe says yes", 400, http.Header{"Stripe-Should-Retry": {"true"}}, []time.Duration{0}},
		{"Stripe says yes, and when", 409, http.Header{"Stripe-Should-Retry": {"true"}, "Retry-After": {"2"}}, []time.Duration{2 * time.Second}},
		{"Stripe says something", 503, http.Header{"Stripe-Should-Retry": {"maybe"}}, []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{MaxAttempts: 2})
			rt := &retryhttp.Transport{Policy: h.Policy, Base: tripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: tt.code, Header: tt.header, Body: http.NoBody}, nil
			})}
			resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
			if err != nil || resp.StatusCode != tt.code {
				t.Fatal(resp, err)
			}
			h.AssertDelays(tt.want...)
		})
	}
}

func TestPoint8NothingMoreOnceTheCallerHasTheResponse(t *testing.T) {
	t.Run("body breaks off", func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		})
		resp := mustDo(t, s.transport(quick), request(t, "GET", s.URL, nil))
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q, %v", b, err)
		}
		s.wantRequests(t, 1)
	})
	t.Run("switching protocols", func(t *testing.T) {
		s := serve(t, echo)
		p := quick
		p.AttemptTimeout = time.Minute
		req := request(t, "GET", s.URL, nil)
		req.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"echo"}}
		resp := mustDo(t, s.transport(p), req)
		wantEcho(t, resp)
		resp.Body.Close()
		s.wantRequests(t, 1)
	})
	t.Run("switching protocols leaves nothing in a long-lived parent", func(t *testing.T) {
		for name, body := range map[string]io.ReadCloser{"connection": &duplex{}, "that can half close": &halfDuplex{}, "no connection": io.NopCloser(strings.NewReader(""))} {
			var ctx context.Context
			rt := &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Minute}, Base: tripper(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				return &http.Response{StatusCode: 101, Body: body}, nil
			})}
			resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil))
			if conn, ok := resp.Body.(io.ReadWriteCloser); ok != (name != "no connection") {
				t.Errorf("%s: the body is a %T", name, resp.Body)
			} else if ok {
				_, _ = io.ReadAll(conn)
				if n, err := conn.Write([]byte("late")); n != 4 || err != nil || ctx.Err() != nil {
					t.Errorf("%s: writing after the end of what is read: %d, %v, context %v", name, n, err, ctx.Err())
				}
				err := conn.(interface{ CloseWrite() error }).CloseWrite()
				if errors.Is(err, errors.ErrUnsupported) != (name == "connection") {
					t.Errorf("%s: CloseWrite: %v", name, err)
				}
			}
			if resp.Body.Close(); ctx.Err() == nil {
				t.Errorf("%s: the attempt's context lives on", name)
			}
		}
	})
	for name, protocol := range protocols {
		t.Run("request body still blocks, "+name, func(t *testing.T) {
			body := &blocking{blocked: make(chan struct{}), closed: make(chan struct{})}
			s := serveAs(t, func(n int, w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex() // else the server waits for the body
				<-body.blocked
				statuses(503)(n, w, r)
			}, protocol)
			p, events := recorded(quick)
			req := request(t, "PUT", s.URL, body)
			req.Header.Set("Test-Unread", "1")
			resp, err := s.transport(p).RoundTrip(req)
			if err != nil || resp.StatusCode != 503 {
				t.Fatal(resp, err)
			}
			read(t, resp)
			if s.wantRequests(t, 1); !errors.Is(events.summary.Err, retryhttp.ErrNotReplayable) || !strings.Contains(events.summary.Err.Error(), "its Read blocks") {
				t.Errorf("hooks were told %v", events.summary.Err)
			}
			if name == "HTTP/1.1" {
				body.Close() // there net/http waits for the Read
			}
			<-body.closed
		})
	}
}

// duplex is a connection that has ended for reading.
type duplex struct{}

func (*duplex) Read([]byte) (int, error)    { return 0, io.EOF }
func (*duplex) Write(p []byte) (int, error) { return len(p), nil }
func (*duplex) Close() error                { return nil }

type halfDuplex struct{ duplex }

func (*halfDuplex) CloseWrite() error { return nil }

// blocking is a request body whose second Read blocks until it is closed.
type blocking struct {
	reads           int
	blocked, closed chan struct{}
	once            sync.Once
}

func (b *blocking) Read(p []byte) (int, error) {
	if b.reads++; b.reads == 1 {
		return copy(p, "part"), nil
	}
	close(b.blocked)
	<-b.closed
	return 0, io.ErrClosedPipe
}

func (b *blocking) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// net/http sends a GET again by itself if the reused connection turns out to be
// dead. That is one attempt, and the server sees no more than it would.
func TestPoint9NothingIsDoneTwiceWithNetHTTP(t *testing.T) {
	for method, want := range map[string]int{"GET": 3, "POST": 2} {
		t.Run(method, func(t *testing.T) {
			s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n == 2 {
					abort(w)
				}
			})
			p, events := recorded(quick)
			rt := s.transport(p)
			read(t, mustDo(t, rt, request(t, "GET", s.URL, nil)))
			resp, err := rt.RoundTrip(request(t, method, s.URL, nil))
			if method == "GET" {
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
			} else {
				wantReason(t, err, retry.ReasonNotIdempotent)
			}
			if n := len(events.attempts); n != 2 {
				t.Errorf("%d attempts in two calls, want 2", n)
			}
			s.wantRequests(t, want)
		})
	}
}

// abort breaks the connection off with a reset.
func abort(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	conn.Close()
}

func TestPoint10AttemptNumberIsInTheRequestsContext(t *testing.T) {
	var numbers []int
	rt := &retryhttp.Transport{Policy: quick, Base: tripper(func(req *http.Request) (*http.Response, error) {
		numbers = append(numbers, retry.AttemptNumber(req.Context()))
		return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
	})}
	_ = retry.Run(t.Context(), quick, func(ctx context.Context) error {
		_, _ = rt.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
		return errors.New("again") // the inner run counts for itself
	})
	if want := []int{1, 2, 3, 1, 2, 3, 1, 2, 3}; !slices.Equal(numbers, want) {
		t.Errorf("attempt numbers %v, want %v", numbers, want)
	}
}

func TestPoint11BudgetPerHostAndAttemptHeader(t *testing.T) {
	s := serve(t, statuses(503))
	budgets := map[string]*budget.Token{}
	p, events := recorded(retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(1), Budget: &budget.Token{Capacity: -1}})
	rt := s.transport(p)
	rt.AttemptHeader = "x-attempt"
	rt.Budget = func(host string) retry.Budget {
		if host == "127.0.0.1" {
			return nil
		}
		budgets[host] = &budget.Token{Capacity: 2, Cost: 1}
		return budgets[host]
	}
	read(t, mustDo(t, rt, request(t, "GET", s.URL, nil)))
	if events.summary.Reason != retry.ReasonBudget || len(budgets) != 1 || budgets[s.Listener.Addr().String()] == nil {
		t.Errorf("ended by %v with budgets %v", events.summary.Reason, budgets)
	}
	var header []string
	for _, r := range s.requests() {
		header = append(header, r.header.Get("X-Attempt"))
	}
	if want := []string{"", "2", "3"}; !slices.Equal(header, want) {
		t.Errorf("attempt headers %q, want %q", header, want)
	}
	rt.Base = tripper(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, nil })
	if _, err := rt.RoundTrip(request(t, "GET", "http://127.0.0.1/", nil)); err != nil || events.summary.Attempts != 1 {
		t.Errorf("%d attempts without a budget for the host, want 1 by Policy.Budget; %v", events.summary.Attempts, err)
	}
}

func TestPoint11EarlyHintsAndExpectContinue(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		statuses(503, 200)(n, w, r)
	})
	s.base.ExpectContinueTimeout = time.Minute
	var hints, continues atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ nettextHeader) error {
			if code == http.StatusEarlyHints {
				hints.Add(1)
			}
			return nil
		},
		Got100Continue: func() { continues.Add(1) },
	})
	req := request(t, "PUT", s.URL, bytes.NewReader([]byte("body"))).WithContext(ctx)
	req.Header.Set("Expect", "100-continue")
	read(t, mustDo(t, s.transport(quick), req))
	if s.wantRequests(t, 2); hints.Load() != 2 || continues.Load() != 2 {
		t.Errorf("%d early hints and %d continues in two attempts", hints.Load(), continues.Load())
	}
	for _, r := range s.requests() {
		if r.body != "body" || r.length != 4 {
			t.Errorf("the server saw %+v", r)
		}
	}
}

// A poll is a Check that returns ErrRejected: no budget is checked for it, and what is
// not accepted is discarded as any other response, before the wait.
func TestPollByCheckDiscardsWhatItRejects(t *testing.T) {
	for _, json := range []bool{false, true} {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-State", "pending")
			if n == 4 {
				w.Header().Set("X-State", "done")
			}
			_, _ = io.WriteString(w, `"`+strings.Repeat("x", 5_000)+`"`)
		})
		p := quick
		p.MaxAttempts = 5
		p.Budget = &budget.Token{Capacity: -1} // grants nothing
		rt := s.transport(p)
		rt.Check = func(resp *http.Response) error {
			if resp.Header.Get("X-State") == "pending" {
				return fmt.Errorf("the job: %w", retry.ErrRejected)
			}
			return nil
		}
		if json {
			got, err := retryhttp.JSON[string](t.Context(), p, &http.Client{Transport: rt}, request(t, "GET", s.URL, nil))
			if err != nil || len(got) != 5_000 {
				t.Errorf("JSON() = %d bytes, %v", len(got), err)
			}
		} else {
			resp, err := rt.RoundTrip(request(t, "PUT", s.URL, strings.NewReader("body")))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		s.wantRequests(t, 4)
		if s.opened != 1 {
			t.Errorf("JSON: %v, %d connections were opened for 4 responses, want one", json, s.opened)
		}
	}
}
