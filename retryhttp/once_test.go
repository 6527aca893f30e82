package retryhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// over returns a Set of servers at these URLs.
func over(urls ...string) *failover.Set[string] {
	s := new(failover.Set[string])
	s.Broken = func(err error) bool {
		e, ok := errors.AsType[*retryhttp.StatusError](err)
		return ok && e.Code == http.StatusUnauthorized
	}
	for i, url := range urls {
		s.Targets = append(s.Targets, &failover.Target[string]{Name: string(rune('a' + i)), Value: url})
	}
	return s
}

func serveStatus(t *testing.T, code int, header ...string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `"text"`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// nobody returns the URL of nobody.
func nobody(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// A POST that must not run twice goes elsewhere only if it did nothing.
func TestOnceElsewhere(t *testing.T) {
	good := serveStatus(t, 200)
	for name, tt := range map[string]struct {
		first  string
		method string
		want   bool
		reason retry.Reason
	}{
		"refused connection": {nobody(t), "POST", true, 0},
		"429":                {serveStatus(t, 429, "Retry-After: 20"), "POST", true, 0},
		"401":                {serveStatus(t, 401), "POST", true, 0},
		"400":                {serveStatus(t, 400), "GET", false, retry.ReasonPermanent},
		"500":                {serveStatus(t, 500), "POST", false, retry.ReasonNotIdempotent},
		"500 to a GET":       {serveStatus(t, 500), "GET", true, 0},
		"refused":            {serveStatus(t, 500, "X-Should-Retry: false"), "GET", false, retry.ReasonRefused},
		"not JSON":           {serveStatus(t, 302, "Location: /"), "POST", false, retry.ReasonPermanent},
	} {
		for _, once := range []bool{false, true} {
			if once && tt.method == "GET" {
				continue
			}
			p := retry.Policy{NonIdempotent: once, Backoff: retry.Constant(0)}
			got, err := failover.Do(t.Context(), p, over(tt.first, good), func(ctx context.Context, m *failover.Target[string]) (string, error) {
				req, err := http.NewRequest(tt.method, m.Value, strings.NewReader("body"))
				if err != nil {
					return "", err
				}
				return retryhttp.Once[string](ctx, p, nil, req)
			})
			if tt.want {
				if got != "text" || err != nil {
					t.Errorf("%s: %q, %v", name, got, err)
				}
				continue
			}
			e, ok := errors.AsType[*retry.Error](err)
			if !ok || e.Reason != tt.reason || !strings.HasPrefix(e.Last().Error(), "a: ") {
				t.Errorf("%s: %v, want %v", name, err, tt.reason)
			}
		}
	}
}

// Other runs see what they can.
func TestOnceInOtherRuns(t *testing.T) {
	for _, tt := range []struct {
		url     string
		retries int
		undone  bool
	}{
		{serveStatus(t, 429, "Retry-After: 0"), 2, true},
		{serveStatus(t, 503), 2, false},
		{serveStatus(t, 404), 0, false},
		{serveStatus(t, 503, "X-Should-Retry: false"), 0, false},
		{nobody(t), 2, true},
	} {
		_, err := retry.Do(t.Context(), retry.Policy{Backoff: retry.Constant(0)}, func(ctx context.Context) (string, error) {
			req, err := http.NewRequest("GET", tt.url, nil)
			if err != nil {
				return "", err
			}
			return retryhttp.Once[string](ctx, retry.Policy{}, nil, req)
		})
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || e.Attempts != 1+tt.retries || e.Answered {
			t.Errorf("%v, want %d retries", err, tt.retries)
		}
	}
}

// A stream goes elsewhere until its first event is good. After that it lasts as long as its request.
func TestOnceStream(t *testing.T) {
	stream := func(events ...string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range events {
				_, _ = io.WriteString(w, "data: "+e+"\n\n")
				w.(http.Flusher).Flush()
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	client := &http.Client{Transport: &retryhttp.Transport{Check: retryhttp.FirstEvent(func(_, data string) error {
		if data == "overloaded" {
			return errors.New(data)
		}
		return nil
	})}}
	caller, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := retry.Policy{AttemptTimeout: time.Minute}
	resp, err := failover.Do(caller, p, over(serveStatus(t, 503), stream("overloaded"), stream("one", "two")),
		func(ctx context.Context, m *failover.Target[string]) (*http.Response, error) {
			req, err := http.NewRequestWithContext(caller, "GET", m.Value, nil)
			if err != nil {
				return nil, err
			}
			return retryhttp.Once[*http.Response](ctx, p, client, req)
		})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			got = append(got, data)
		}
	}
	if strings.Join(got, " ") != "one two" {
		t.Errorf("the stream has %q", got)
	}
}

// The context of the request ends a body, and that of the attempt only the wait for it.
func TestOnceContexts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	caller, cancel := context.WithCancel(t.Context())
	defer cancel()
	once := func(path string) (*http.Response, error) {
		ctx, end := context.WithTimeoutCause(t.Context(), time.Second, retry.ErrAttemptTimeout)
		defer end()
		req, err := http.NewRequestWithContext(caller, "GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return retryhttp.Once[*http.Response](ctx, retry.Policy{}, nil, req)
	}
	if _, err := once("/hang"); !errors.Is(err, retry.ErrAttemptTimeout) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	resp, err := once("/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(resp.Body)
		read <- err
	}()
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the caller the body ends with %v", err)
	}
}

// The body of a 101 is its connection.
func TestOnceUpgrade(t *testing.T) {
	s := serve(t, echo)
	req := request(t, "GET", s.URL, nil)
	req.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"echo"}}
	resp, err := retryhttp.Once[*http.Response](t.Context(), retry.Policy{}, s.Client(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wantEcho(t, resp)
}

// Only a 2xx is a success, whatever the T is.
func TestOnceStatuses(t *testing.T) {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, code := range []int{300, 302, 304, 404} {
		req := request(t, "GET", serveStatus(t, code), nil)
		_, decoded := retryhttp.Once[string](t.Context(), retry.Policy{}, c, req)
		_, opened := retryhttp.Once[*http.Response](t.Context(), retry.Policy{}, c, req)
		for _, err := range []error{decoded, opened} {
			e, ok := errors.AsType[*retryhttp.StatusError](err)
			if v := (retry.Policy{}).Judge(err); !ok || e.Code != code || v.Class != retry.Permanent || v.IsAnswer() {
				t.Errorf("%d: %v, %+v", code, err, v)
			}
		}
	}
}

// The header names the time until the response headers have to be there, whoever keeps it.
func TestTimeoutHeaderOfAClientsCalls(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"":"`+r.Header.Get("X-Timeout-Ms")+`"}`)
	})
	own := &http.Client{Transport: &retryhttp.Transport{Base: s.base, TimeoutHeader: "X-Timeout-Ms"}}
	wrapped := &http.Client{Transport: tripper(own.Transport.RoundTrip)}
	p := retry.Policy{AttemptTimeout: time.Hour}
	for name, open := range map[string]func(ctx context.Context, c *http.Client, req *http.Request) (*http.Response, error){
		"Download": func(_ context.Context, c *http.Client, req *http.Request) (*http.Response, error) {
			return retryhttp.Download(t.Context(), p, c, req)
		},
		"Once": func(ctx context.Context, c *http.Client, req *http.Request) (*http.Response, error) {
			return retryhttp.Once[*http.Response](ctx, p, c, req)
		},
		"Once, decoded": func(ctx context.Context, c *http.Client, req *http.Request) (*http.Response, error) {
			body, err := retryhttp.Once[json.RawMessage](ctx, p, c, req)
			return &http.Response{Body: io.NopCloser(bytes.NewReader(body))}, err
		},
	} {
		for _, c := range []*http.Client{own, wrapped} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			resp, err := open(ctx, c, request(t, "GET", s.URL, nil))
			if err != nil {
				t.Fatal(name, err)
			}
			got := read(t, resp)
			cancel()
			if len(got) != len(`{"":"3599999"}`) {
				t.Errorf("%s, %T: %q milliseconds are left", name, c.Transport, got)
			}
		}
	}
}

// A body says why the caller has ended it, and its request goes on in the caller's context.
func TestCausesOfBodies(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	why := errors.New("why")
	for name, open := range map[string]func(*http.Request) (*http.Response, error){
		"RoundTrip":      s.base.RoundTrip,
		"AttemptTimeout": (&retryhttp.Transport{Base: s.base, Policy: retry.Policy{AttemptTimeout: time.Hour}}).RoundTrip,
		"Hedge":          (&retryhttp.Transport{Base: s.base, Hedge: func(string) *hedge.Hedge { return new(hedge.Hedge) }}).RoundTrip,
		"Once": func(req *http.Request) (*http.Response, error) {
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			return retryhttp.Once[*http.Response](ctx, retry.Policy{}, s.Client(), req)
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := open(request(t, "GET", s.URL, nil).WithContext(ctx))
		if err != nil {
			t.Fatal(name, err)
		}
		cancel(why)
		if _, err = io.ReadAll(resp.Body); !errors.Is(err, why) {
			t.Errorf("%s: the body ends with %v", name, err)
		}
		resp.Body.Close()
	}
}

// The context of the response's request is the caller's, and goes on after Close.
func TestOnceRequestContext(t *testing.T) {
	req := request(t, "GET", serveStatus(t, 200), nil)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := retryhttp.Once[*http.Response](ctx, retry.Policy{}, nil, req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if err := resp.Request.Context().Err(); err != nil {
		t.Error(err)
	}
}

// Once enters no guards, be they a Transport's, for a hedge, for a redirect, or of an edit.
func TestOnceHasNoGuards(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			http.Redirect(w, r, "/there", http.StatusFound)
		case 2:
			<-r.Context().Done() // the second copy wins
		}
		_, _ = io.WriteString(w, "{}")
	})
	guards := []retry.Guard{funcGuard(func() { t.Error("a guard is asked") })}
	c := &http.Client{Transport: &retryhttp.Transport{
		Base:   s.base,
		Guards: func(*http.Request) []retry.Guard { return guards },
		Hedge:  func(string) *hedge.Hedge { return &hedge.Hedge{Delay: time.Millisecond} },
	}}
	if _, err := retryhttp.Once[struct{}](t.Context(), retry.Policy{}, c, request(t, "GET", s.URL, nil)); err != nil {
		t.Error(err)
	}
	ctx := retryhttp.WithPolicy(t.Context(), func(p retry.Policy) retry.Policy { p.Guards = guards; return p })
	resp, err := retryhttp.Once[*http.Response](ctx, retry.Policy{}, c, request(t, "GET", s.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// No retry follows, whatever an edit says, so no body has to be kept for one.
func TestOnceKeepsNoBody(t *testing.T) {
	ctx := retryhttp.WithPolicy(retryhttp.Idempotent(t.Context(), true), func(p retry.Policy) retry.Policy { p.MaxAttempts = 5; return p })
	req := request(t, "POST", serveStatus(t, 503), io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<17))))
	if _, err := retryhttp.Once[string](ctx, retry.Policy{}, nil, req); err == nil || errors.Is(err, retryhttp.ErrNotReplayable) {
		t.Error(err)
	}
}

// The marks of an error of Check count in any run.
func TestOnceKeepsMarks(t *testing.T) {
	url := serveStatus(t, 200)
	for _, mark := range []func(error) error{retry.Stop, retry.Answer, retry.Undone, retry.Refuse} {
		want := mark(errors.New("objection"))
		c := &http.Client{Transport: &retryhttp.Transport{Check: func(*http.Response) error { return want }}}
		_, err := retryhttp.Once[string](t.Context(), retry.Policy{}, c, request(t, "GET", url, nil))
		got, wanted := retry.Policy{}.Judge(err), retry.Policy{}.Judge(want)
		if got.Err, wanted.Err = nil, nil; got != wanted {
			t.Errorf("%v: %+v, want %+v", want, got, wanted)
		}
	}
}

// A run other than failover.Do waits as the server asks, also if a Check has an error of its own.
func TestOnceKeepsTheWaitBesideACheck(t *testing.T) {
	for name, check := range map[string]error{
		"an error": errors.New("busy"),
		"After":    retry.After(errors.New("busy"), time.Hour),
	} {
		n := 0
		c := &http.Client{Transport: &retryhttp.Transport{
			Check: func(*http.Response) error { return check },
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				n++
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"3600"}}, Body: http.NoBody, Request: req}, nil
			}),
		}}
		req, _ := http.NewRequest("GET", "http://localhost", nil)
		_, err := retry.Do(t.Context(), retry.Policy{}, func(ctx context.Context) (struct{}, error) {
			return retryhttp.Once[struct{}](ctx, retry.Policy{}, c, req)
		})
		if e, _ := errors.AsType[*retry.Error](err); e == nil || e.Reason != retry.ReasonRetryAfter || n != 1 {
			t.Errorf("%s: %d requests, %v", name, n, err)
		}
	}
}
