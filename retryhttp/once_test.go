package retryhttp_test

import (
	"bufio"
	"context"
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
