package retryhttp_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// What http.Client does around a RoundTripper works as usual.

func TestClientTimeoutIsOverAllAttempts(t *testing.T) {
	for name, code := range map[string]int{"in a wait": 503, "in an attempt": 0} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				if code == 0 {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(code)
			})
			p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(20 * time.Millisecond)}
			if code == 0 {
				p.AttemptTimeout = 20 * time.Millisecond
			}
			c := &http.Client{Transport: s.transport(p), Timeout: 100 * time.Millisecond}
			// If the timeout is not obeyed it never returns.
			resp, err := c.Get(s.URL)
			if code != 0 && err == nil { // no wait was begun that would have ended too late
				if resp.StatusCode != code {
					t.Error(resp.Status)
				}
				resp.Body.Close()
				return
			}
			if e, ok := errors.AsType[*url.Error](err); !ok || !e.Timeout() {
				t.Errorf("error %v, want a timeout", err)
			}
		})
	}
}

func TestCallersDeadlineIsATimeout(t *testing.T) {
	s := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := client(s.transport(quick)).Do(request(t, "GET", s.URL, nil).WithContext(ctx))
	if e, ok := errors.AsType[*url.Error](err); !ok || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want a timeout", err)
	}
}

func TestEachHopOfARedirectIsARun(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch {
		case n%2 == 1:
			w.WriteHeader(503)
		case r.URL.Path == "/a":
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "a"})
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
		default:
			cookie, _ := r.Cookie("seen")
			_, _ = io.WriteString(w, cookie.Value)
		}
	})
	jar, _ := cookiejar.New(nil)
	p, events := recorded(quick)
	c := &http.Client{Transport: s.transport(p), Jar: jar}
	resp, err := c.Do(request(t, "PUT", s.URL+"/a", strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, resp); body != "a" || resp.Request.URL.Path != "/b" {
		t.Errorf("%q from %s", body, resp.Request.URL)
	}
	if s.wantRequests(t, 4); len(events.attempts) != 4 {
		t.Errorf("%d attempts", len(events.attempts))
	}
	for _, r := range s.requests() {
		if r.body != "body" {
			t.Errorf("%s with body %q", r.uri, r.body)
		}
	}
}

func TestCompressedAndStreamedBodies(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			more := make(chan struct{})
			s := serveAs(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				if n == 1 {
					w.WriteHeader(503)
				}
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, "first")
				_ = z.Flush()
				_ = http.NewResponseController(w).Flush()
				if n > 1 {
					<-more
				}
				_, _ = io.WriteString(z, " second")
				_ = z.Close()
			}, protocol)
			p := quick
			p.AttemptTimeout = time.Minute
			resp := mustDo(t, s.transport(p), request(t, "GET", s.URL, nil))
			part := make([]byte, 5)
			if _, err := io.ReadFull(resp.Body, part); string(part) != "first" || err != nil {
				t.Errorf("%q, %v", part, err)
			}
			close(more)
			if rest := read(t, resp); rest != " second" || !resp.Uncompressed {
				t.Errorf("%q", rest)
			}
			if s.wantRequests(t, 2); s.opened != 1 {
				t.Errorf("%d connections, want one", s.opened)
			}
		})
	}
}

// A request and its response flow at the same time, as without a Transport.
func TestFullDuplex(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			s := serveAs(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				c := http.NewResponseController(w)
				_ = c.EnableFullDuplex()
				_ = c.Flush()
				_, _ = io.Copy(flushing{w, c}, r.Body)
			}, protocol)
			body, w := io.Pipe()
			req := request(t, "PUT", s.URL, body)
			req.Header.Set("Test-Unread", "1")
			resp := mustDo(t, s.transport(quick), req)
			for _, word := range []string{"ping", "pong"} {
				if _, err := io.WriteString(w, word); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 4)
				if _, err := io.ReadFull(resp.Body, got); string(got) != word || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
			w.Close()
			read(t, resp)
			eventually(t, "request body not closed", func() bool {
				_, err := body.Read(make([]byte, 1))
				return err == io.ErrClosedPipe
			})
		})
	}
}

// The server answers early, and reads the rest of the request while the caller has
// the response. (Over HTTP/2 net/http stops sending after a status from 300 on.)
func TestRequestGoesOnBesideTheLastResponse(t *testing.T) {
	const size = 16 << 20 // more than fits into sockets' buffers
	returned := make(chan struct{})
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		w.WriteHeader(503)
		_ = c.Flush()
		<-returned
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	body := stream("")
	req := request(t, "PUT", s.URL, struct {
		io.ReadSeeker
		io.Closer
	}{io.NewSectionReader(zeros{}, 0, size), body})
	req.Header.Set("Test-Unread", "1")
	resp := mustDo(t, s.transport(retry.Policy{MaxAttempts: 1}), req)
	close(returned)
	if got := read(t, resp); got != fmt.Sprint(size) || resp.StatusCode != 503 {
		t.Errorf("the server read %s bytes, want %d", got, size)
	}
	body.wantClosedOnce(t)
}

type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

type flushing struct {
	io.Writer
	c *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	_ = f.c.Flush()
	return n, err
}

func TestCloseIdleConnections(t *testing.T) {
	s := serve(t, statuses(200))
	c := client(s.transport(quick))
	resp, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	read(t, resp)
	c.CloseIdleConnections()
	eventually(t, "connection left open", func() bool { return s.connections() == 0 })
	(&retryhttp.Transport{Base: canned}).CloseIdleConnections() // has none
}

func TestRequestCancelEndsTheRun(t *testing.T) {
	cancel := make(chan struct{})
	s := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		close(cancel)
		<-r.Context().Done()
	})
	req := request(t, "GET", s.URL, nil)
	//lint:ignore SA1019 callers may still use it
	req.Cancel = cancel
	_, err := s.transport(quick).RoundTrip(req)
	wantReason(t, err, retry.ReasonPermanent)
	s.wantRequests(t, 1)
}

// The zero value is useful: http.DefaultTransport, three attempts.
func TestZeroTransport(t *testing.T) {
	s := serve(t, statuses(503, 503, 200))
	resp := mustDo(t, &retryhttp.Transport{}, request(t, "GET", s.URL, nil))
	if body := read(t, resp); body != "answer 3" {
		t.Errorf("body %q", body)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFileThatCannotBeRewound(t *testing.T) {
	errGone := errors.New("gone")
	s := serve(t, statuses(503))
	resp, err := s.transport(quick).RoundTrip(request(t, "PUT", s.URL, &onceSeeker{stream("body"), errGone}))
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, resp); body != "answer 1" {
		t.Errorf("the response has the body %q", body)
	}
	why := whyEnded(resp)
	if wantReason(t, why, retry.ReasonPermanent); !errors.Is(why, errGone) || !errors.Is(why, retryhttp.ErrNotReplayable) {
		t.Errorf("GaveUp: %v", why)
	}
	s.wantRequests(t, 1)
}

// onceSeeker tells where it is, and cannot go back.
type onceSeeker struct {
	*closing
	err error
}

func (s *onceSeeker) Seek(_ int64, whence int) (int64, error) {
	if whence == io.SeekCurrent {
		return 0, nil
	}
	return 0, s.err
}

// A base transport may go on reading the body of an attempt that has failed. It
// gets no byte of the next one.
func TestLateReadOfAnEarlierBody(t *testing.T) {
	var bodies []io.ReadCloser
	rt := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(1), AttemptTimeout: time.Minute}, Base: tripper(func(req *http.Request) (*http.Response, error) {
		bodies = append(bodies, req.Body)
		if len(bodies) == 1 {
			_, _ = io.ReadFull(req.Body, make([]byte, 2))
			return nil, errors.New("broken")
		}
		if n, err := bodies[0].Read(make([]byte, 9)); n != 0 || err == nil || err == io.EOF {
			t.Errorf("the first attempt's body still gives %d bytes, %v", n, err)
		}
		b, err := io.ReadAll(req.Body)
		req.Body.Close()
		if string(b) != "body" || err != nil {
			t.Errorf("the second attempt's body is %q, %v", b, err)
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})}
	body := stream("body")
	if _, err := rt.RoundTrip(request(t, "PUT", "http://example.com/", body)); err != nil {
		t.Error(err)
	}
	body.wantClosedOnce(t)
}
