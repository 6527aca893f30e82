package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// ends runs f on a goroutine that f may end by a panic or Goexit.
func ends(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}

func TestHedgedResponseIsClosedWhenClassifyPanics(t *testing.T) {
	for end, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(end, func(t *testing.T) {
			body := &closing{Reader: strings.NewReader("down")}
			var sent context.Context
			rt := &retryhttp.Transport{
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					sent = req.Context()
					return &http.Response{StatusCode: 503, Body: body, Request: req}, nil
				}),
				Policy: retry.Policy{Classify: func(error) retry.Class { leave(); return retry.Unknown }},
				Hedge:  func(string) *hedge.Hedge { return &hedge.Hedge{Delay: time.Hour} },
			}
			ends(func() {
				req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://example.com", nil)
				_, _ = rt.RoundTrip(req)
			})
			if body.closed.Load() == 0 {
				t.Error("the body was not closed")
			}
			if sent.Err() == nil {
				t.Error("the request's context has not ended")
			}
		})
	}
}

// counting counts the contexts below it that were not ended.
type counting struct {
	context.Context
	done  chan struct{}
	below atomic.Int64
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.below.Add(1)
	return func() bool { c.below.Add(-1); return true }
}

// failingClock panics if it is to limit a time.
type failingClock struct{ clockx.Clock }

func (failingClock) WithTimeoutCause(context.Context, time.Duration, error) (context.Context, context.CancelFunc) {
	panic("boom")
}

func TestClockThatPanicsLeavesNoContext(t *testing.T) {
	ctx := &counting{Context: context.Background(), done: make(chan struct{})}
	rt := &retryhttp.Transport{
		Base:   tripper(func(*http.Request) (*http.Response, error) { t.Error("a request was sent"); return nil, nil }),
		Policy: retry.Policy{AttemptTimeout: time.Second, Clock: failingClock{clockx.System()}},
	}
	ends(func() {
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://example.com", nil)
		_, _ = rt.RoundTrip(req)
	})
	if n := ctx.below.Load(); n != 0 {
		t.Errorf("%d contexts have not ended", n)
	}
}

// tellingClock panics when it is read below a Transport's TimeoutHeader: after the run
// has begun.
type tellingClock struct {
	clockx.Clock
	reads int
}

func (c *tellingClock) Now() time.Time {
	if c.reads--; c.reads < 0 {
		panic("boom")
	}
	return c.Clock.Now()
}

func TestRequestIsClosedWhenTheClockPanics(t *testing.T) {
	for reads := range 6 {
		body := stream("some body")
		sent := false
		rt := &retryhttp.Transport{
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				sent = true
				req.Body.Close()
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
			}),
			Policy:        retry.Policy{AttemptTimeout: time.Second, Clock: &tellingClock{clockx.System(), reads}},
			TimeoutHeader: "X-Timeout-Ms",
		}
		ends(func() {
			req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://example.com", body)
			req.GetBody = func() (io.ReadCloser, error) { return stream("some body"), nil }
			_, _ = rt.RoundTrip(req)
		})
		if body.closed.Load() == 0 {
			t.Errorf("the clock may be read %d times: the body was not closed (sent: %v)", reads, sent)
		}
	}
}
