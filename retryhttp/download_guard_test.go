package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// porter is a guard that admits all, and writes down what it sees.
type porter struct {
	wait time.Duration // before each attempt but the first

	mu      sync.Mutex
	entered []int // numbers of the attempts
	left    []string
	inside  int
}

func (p *porter) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entered = append(p.entered, e.Number)
	p.inside++
	if e.Number > 1 {
		return retry.Pass{Wait: p.wait}, nil
	}
	return retry.Pass{}, nil
}

func (p *porter) Leave(_ retry.Pass, x retry.Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside--
	what := [...]string{"not made", "returned", "expired", "canceled", "panicked"}[x.Ending]
	if x.Verdict.Err != nil {
		what += " " + x.Verdict.Class.String()
	}
	p.left = append(p.left, what)
}

func (p *porter) wantInside(t *testing.T, want int, when string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside != want {
		t.Errorf("%s: %d passes are taken, want %d", when, p.inside, want)
	}
}

// wantSeen checks which attempts have entered, and how they have left.
func (p *porter) wantSeen(t *testing.T, entered []int, left ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.entered, entered) || !slices.Equal(p.left, left) || p.inside != 0 {
		t.Errorf("entered %v, left %q, inside %d; want %v and %q, and none inside", p.entered, p.left, p.inside, entered, left)
	}
}

// chunks serves a file of twenty bytes whose n-th response breaks off after so many bytes. A
// status takes the place of a response.
func chunks(requested func(n int), breaks ...int) tripper {
	const file = "0123456789abcdefghij"
	n := 0
	return func(req *http.Request) (*http.Response, error) {
		n++
		requested(n)
		at, long, ranged := 0, len(file), false
		if n <= len(breaks) {
			long = breaks[n-1]
		}
		h := http.Header{"Etag": {`"v1"`}}
		if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &at); err == nil {
			ranged = true
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(file)-1, len(file)))
		}
		if long >= 100 {
			return response(req, long, ""), nil
		}
		resp := &http.Response{StatusCode: 200, Header: h, ContentLength: int64(len(file) - at), Request: req}
		if ranged {
			resp.StatusCode = 206
		}
		end := min(at+long, len(file))
		body := io.Reader(strings.NewReader(file[at:end]))
		if end < len(file) {
			body = io.MultiReader(body, errReader{io.ErrUnexpectedEOF})
		}
		resp.Body = io.NopCloser(body)
		return resp, nil
	}
}

// Each request is one attempt to the guards: from before it is sent until its body has ended. A
// break is not told twice, and takes no turn.
func TestGuardsOfADownloadAdmitItsRequests(t *testing.T) {
	for _, tt := range []struct {
		name    string
		breaks  []int
		entered []int
		left    []string
		ok      bool
	}{
		{"no break", nil, []int{1}, []string{"returned"}, true},
		{"at the start", []int{0}, []int{1, 2}, []string{"returned transient", "returned"}, true},
		{"in the middle", []int{7}, []int{1, 2}, []string{"returned transient", "returned"}, true},
		{"before the last byte", []int{19}, []int{1, 2}, []string{"returned transient", "returned"}, true},
		{"three times, each with progress", []int{5, 5, 5}, []int{1, 2, 2, 2}, []string{"returned transient", "returned transient", "returned transient", "returned"}, true},
		{"without progress", []int{5, 0}, []int{1, 2, 3}, []string{"returned transient", "returned transient", "returned"}, true},
		{"without progress for ever", []int{5, 0, 0}, []int{1, 2, 3}, []string{"returned transient", "returned transient", "returned transient"}, false},
		{"the server is busy", []int{5, 503}, []int{1, 2, 3}, []string{"returned transient", "returned transient", "returned"}, true},
		{"the server refuses", []int{5, 429}, []int{1, 2, 3}, []string{"returned transient", "returned throttled", "returned"}, true},
		{"the file is gone", []int{5, 404}, []int{1, 2}, []string{"returned transient", "returned permanent"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := new(porter)
				p := quick
				p.Guards = []retry.Guard{g}
				p.Hooks.Wait = func(context.Context, retry.Attempt) { g.wantInside(t, 0, "in a wait") }
				rt := chunks(func(n int) { g.wantInside(t, 1, fmt.Sprint("at request ", n)) }, tt.breaks...)
				got, _, err := download(t, client(rt), p, "http://example.com/")
				if tt.ok != (got == "0123456789abcdefghij" && err == nil) {
					t.Errorf("%q, %v", got, err)
				}
				g.wantSeen(t, tt.entered, tt.left...)
			})
		})
	}
}

// The guards of a Transport below the client are a Download's too.
func TestGuardsOfADownloadsTransport(t *testing.T) {
	first, second := new(porter), new(porter)
	rt := &retryhttp.Transport{Base: chunks(func(int) {}, 5, 0), Guards: func(*http.Request) []retry.Guard { return []retry.Guard{first} }}
	p := quick
	p.Guards = []retry.Guard{second}
	if got, _, err := download(t, client(rt), p, "http://example.com/"); len(got) != 20 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, g := range []*porter{first, second} {
		g.wantSeen(t, []int{1, 2, 3}, "returned transient", "returned transient", "returned")
	}
}

// A request takes one turn of a pace: those after a break come a turn apart, and no more.
func TestDownloadTakesOneTurnForEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := &pace.Pace{Quota: 1, Per: 3 * time.Second}
		var requests []time.Time
		guard := new(porter)
		p := retry.Policy{Backoff: retry.Constant(0), Guards: []retry.Guard{pace, guard}}
		rt := chunks(func(int) { requests = append(requests, time.Now()) }, 3, 3, 3)
		begin := time.Now()
		got, _, err := download(t, client(rt), p, "http://example.com/")
		if len(got) != 20 || err != nil || len(requests) != 4 {
			t.Fatalf("%q, %v, %d requests", got, err, len(requests))
		}
		if took := requests[3].Sub(begin); took < 9*time.Second || took > 9*time.Second+3 { // a turn is rounded up
			t.Errorf("four requests took %v, want three turns of three seconds", took)
		}
		guard.wantSeen(t, []int{1, 2, 2, 2}, "returned transient", "returned transient", "returned transient", "returned")
	})
}

// The rest of a download has the place of a limit that the break gave back. If another has taken
// it, the attempt at the rest is refused: the break itself needs no place.
func TestDownloadUnderALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limit.Limit{Max: 1}
		runs, refusals := 0, 0
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second), Guards: []retry.Guard{l}}
		p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context {
			if runs++; runs == 2 { // that of the rest
				take(t, l)
			}
			return ctx
		}
		p.Hooks.Guard = func(_ context.Context, h retry.Held) {
			if refusals++; h.Number != 2 || h.Err != limit.ErrLimited {
				t.Errorf("a guard has refused %+v", h)
			}
			give(l)
		}
		rt := chunks(func(n int) { wantInFlight(t, l, 1, fmt.Sprint("at request ", n)) }, 7)
		resp, err := retryhttp.Download(t.Context(), p, client(rt), request(t, "GET", "http://example.com/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 4)
		for at := 0; at < 20; at += 4 {
			if _, err := io.ReadFull(resp.Body, buf); err != nil {
				t.Fatal(err)
			}
			wantInFlight(t, l, 1, fmt.Sprint("after ", at+4, " bytes"))
		}
		if n, err := resp.Body.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
		wantInFlight(t, l, 0, "at the end")
		if refusals != 1 {
			t.Errorf("%d refusals, want 1", refusals)
		}
	})
}

// A Download whose body is closed gives everything back, wherever it is.
func TestDownloadThatIsClosedEarlyLeavesItsGuards(t *testing.T) {
	type step func(t *testing.T, body io.ReadCloser)
	read := func(n int) step {
		return func(t *testing.T, body io.ReadCloser) {
			if _, err := io.ReadFull(body, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// closedMeanwhile reads on, and closes the body in the middle of a wait.
	closedMeanwhile := func(t *testing.T, body io.ReadCloser) {
		time.AfterFunc(time.Minute, func() { body.Close() })
		begin := time.Now()
		if _, err := body.Read(make([]byte, 1)); err == nil || err == io.EOF || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	}
	for _, tt := range []struct {
		name    string
		backoff time.Duration
		wait    time.Duration // of the guard
		steps   []step
		entered []int
		left    []string
	}{
		{"unread", 0, 0, nil, []int{1}, []string{"returned"}},
		{"before the break", 0, 0, []step{read(4)}, []int{1}, []string{"returned"}},
		{"at the break", 0, 0, []step{read(7)}, []int{1}, []string{"returned"}},
		{"in the rest", 0, 0, []step{read(12)}, []int{1, 2}, []string{"returned transient", "returned"}},
		{"at the end", 0, 0, []step{read(20)}, []int{1, 2}, []string{"returned transient", "returned"}},
		{"in the backoff", time.Hour, 0, []step{read(7), closedMeanwhile}, []int{1}, []string{"returned transient"}},
		{"in a guard's wait", 0, time.Hour, []step{read(7), closedMeanwhile}, []int{1, 2}, []string{"returned transient", "not made"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &porter{wait: tt.wait}
				p := retry.Policy{Backoff: retry.Constant(tt.backoff), Guards: []retry.Guard{g}}
				resp, err := retryhttp.Download(t.Context(), p, client(chunks(func(int) {}, 7)), request(t, "GET", "http://example.com/", nil))
				if err != nil {
					t.Fatal(err)
				}
				for _, step := range tt.steps {
					step(t, resp.Body)
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				g.wantSeen(t, tt.entered, tt.left...)
			})
		})
	}
}

// If the caller's context ends, so do the passes, without a Close.
func TestDownloadThatIsCanceledLeavesItsGuards(t *testing.T) {
	for _, n := range []int{4, 12} { // in the first response, and in the rest
		synctest.Test(t, func(t *testing.T) {
			g := new(porter)
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := retryhttp.Download(ctx, retry.Policy{Backoff: retry.Constant(0), Guards: []retry.Guard{g}}, client(chunks(func(int) {}, 7)), request(t, "GET", "http://example.com/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
			g.wantInside(t, 0, "after the end of the context")
			if last := g.left[len(g.left)-1]; !strings.HasPrefix(last, "canceled") {
				t.Errorf("after %d bytes it has left %q", n, last)
			}
		})
	}
}

// What is known to be wrong is not sent, and so no guard is asked.
func TestNoGuardIsAskedForWhatIsNeverSent(t *testing.T) {
	g := new(porter)
	p := quick
	p.Guards = []retry.Guard{g}
	rt := tripper(func(req *http.Request) (*http.Response, error) {
		t.Error("a request was sent")
		return response(req, 200, "{}"), nil
	})
	_, err := retryhttp.Download(t.Context(), p, client(rt), request(t, "POST", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonPermanent)

	keyed := &retryhttp.Transport{Base: rt, Policy: p, IdempotencyKey: func(*http.Request) string { return "kéy" }}
	_, err = keyed.RoundTrip(request(t, "POST", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonPermanent)
	_, err = retryhttp.JSON[int](t.Context(), p, client(keyed), request(t, "POST", "http://example.com/", nil))
	if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts != 1 || errors.Is(err, retry.ErrPaced) {
		t.Error(err)
	}
	g.wantSeen(t, nil)
}
