package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// pairWorld is a client, and a service behind it that fails once.
type pairWorld struct {
	transport retryhttp.Transport
	policy    retry.Policy // of JSON and Download, and of the transport
	ctx       context.Context
	path      string
	redirects bool
	above     bool // another RoundTripper is above the transport
	breaks    bool // the first body of a Download breaks off
	stream    bool
	guards    []*porter
	mayFail   bool // a setting has the run end at the first failure

	mu       sync.Mutex
	requests int
	open     int // bodies that the client has not closed
}

func (w *pairWorld) guard() []retry.Guard {
	g := new(porter)
	w.guards = append(w.guards, g)
	return []retry.Guard{g}
}

// RoundTrip is the service, which takes 10 ms for a request, and a second for the first one.
func (w *pairWorld) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	redirect := w.redirects && req.URL.Path == "/old"
	w.mu.Lock()
	if !redirect {
		w.requests++
	}
	n := w.requests
	w.mu.Unlock()
	takes := 10 * time.Millisecond
	if n == 1 && !redirect {
		takes = time.Second
	}
	select {
	case <-time.After(takes):
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	code, header, body := http.StatusOK, http.Header{"Etag": {`"v1"`}}, io.Reader(strings.NewReader(`"0123456789"`))
	var at int
	_, ranged := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &at)
	switch {
	case redirect:
		code, body = http.StatusTemporaryRedirect, strings.NewReader("")
		header.Set("Location", "http://b.example/new")
	case w.breaks && ranged == nil:
		code, body = http.StatusPartialContent, strings.NewReader(`"0123456789"`[at:])
		header.Set("Content-Range", fmt.Sprintf("bytes %d-11/12", at))
	case w.breaks:
		body = io.MultiReader(strings.NewReader(`"0123`), errReader{io.ErrUnexpectedEOF})
	case n == 1:
		code = http.StatusServiceUnavailable
	case w.stream:
		header.Set("Content-Type", "text/event-stream")
		body = strings.NewReader("data: 1\n\n")
	}
	w.mu.Lock()
	w.open++
	w.mu.Unlock()
	close := sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
	})
	return &http.Response{StatusCode: code, Header: header, ContentLength: -1, Request: req, Body: pairBody{body, close}}, nil
}

type pairBody struct {
	io.Reader
	close func()
}

func (c pairBody) Close() error { c.close(); return nil }

// settings change a world. The fields of a Transport and of a Policy are among them: a new field
// needs a line here, or TestPairsOfDoorsAndSettings fails.
var settings = map[string]func(w *pairWorld){
	"Transport.Name":           func(w *pairWorld) { w.transport.Name = func(*http.Request) string { return "route" } },
	"Transport.MaxBuffer":      func(w *pairWorld) { w.transport.MaxBuffer = 100 },
	"Transport.MaxResponse":    func(w *pairWorld) { w.transport.MaxResponse = 100 },
	"Transport.IdempotencyKey": func(w *pairWorld) { w.transport.IdempotencyKey = func(*http.Request) string { return "key" } },
	"Transport.Budget":         func(w *pairWorld) { w.transport.Budget = func(string) retry.Budget { return plenty{} } },
	"Transport.Guards": func(w *pairWorld) {
		a, b := w.guard(), w.guard()
		w.transport.Guards = func(r *http.Request) []retry.Guard {
			if r.URL.Host == "b.example" {
				return b
			}
			return a
		}
	},
	"Transport.PaceByHeaders": func(w *pairWorld) { w.transport.PaceByHeaders = true },
	"Transport.Check":         func(w *pairWorld) { w.transport.Check = func(*http.Response) error { return nil } },
	"Transport.Prepare": func(w *pairWorld) {
		w.transport.Prepare = func(r *http.Request) error { r.Header.Set("Sig", "1"); return nil }
	},
	"Transport.AttemptHeader": func(w *pairWorld) { w.transport.AttemptHeader = "Attempt" },
	"Transport.Hedge": func(w *pairWorld) {
		h := &hedge.Hedge{Delay: 100 * time.Millisecond, Budget: plenty{}}
		w.transport.Hedge = func(string) *hedge.Hedge { return h }
	},
	"Transport.TimeoutHeader": func(w *pairWorld) { w.transport.TimeoutHeader = "Timeout-Ms" },
	"Transport.Dropped":       func(w *pairWorld) { w.transport.Dropped = func(context.Context, httptrace.GotConnInfo) {} },

	"Policy.Name":            func(w *pairWorld) { w.policy.Name = "name" },
	"Policy.MaxAttempts":     func(w *pairWorld) { w.policy.MaxAttempts = 4 },
	"Policy.MaxElapsed":      func(w *pairWorld) { w.policy.MaxElapsed = time.Hour },
	"Policy.AttemptTimeout":  func(w *pairWorld) { w.policy.AttemptTimeout = 500 * time.Millisecond },
	"Policy.Backoff":         func(w *pairWorld) { w.policy.Backoff = retry.Constant(0) },
	"Policy.ThrottleBackoff": func(w *pairWorld) { w.policy.ThrottleBackoff = retry.Constant(0) },
	"Policy.MaxRetryAfter":   func(w *pairWorld) { w.policy.MaxRetryAfter = time.Second },
	"Policy.Classify":        func(w *pairWorld) { w.policy.Classify = func(error) retry.Class { return retry.Unknown } },
	"Policy.NonIdempotent":   func(w *pairWorld) { w.policy.NonIdempotent, w.mayFail = true, true },
	"Policy.Budget":          func(w *pairWorld) { w.policy.Budget = plenty{} },
	"Policy.Guards":          func(w *pairWorld) { w.policy.Guards = w.guard() },
	"Policy.Hooks": func(w *pairWorld) {
		w.policy.Hooks = retry.Hooks{
			Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
			Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
			AttemptDone: func(context.Context, retry.Attempt) {},
			Wait:        func(context.Context, retry.Attempt) {},
			Guard:       func(context.Context, retry.Held) {},
			Done:        func(context.Context, retry.Summary) {},
		}
	},
	"Policy.Clock": func(w *pairWorld) { w.policy.Clock = sameClock{clockx.System()} },
	"Policy.Rand":  func(w *pairWorld) { w.policy.Rand = func() float64 { return .5 } },

	"WithPolicy": func(w *pairWorld) {
		g := w.guard()
		w.ctx = retryhttp.WithPolicy(w.ctx, func(p retry.Policy) retry.Policy { p.Guards = append(slices.Clip(p.Guards), g...); return p })
	},
	"WithPolicy without guards": func(w *pairWorld) {
		w.ctx = retryhttp.WithPolicy(w.ctx, func(p retry.Policy) retry.Policy { p.Guards = nil; return p })
	},
	"Idempotent":             func(w *pairWorld) { w.ctx = retryhttp.Idempotent(w.ctx, true) },
	"not Idempotent":         func(w *pairWorld) { w.ctx, w.mayFail = retryhttp.Idempotent(w.ctx, false), true },
	"a redirect":             func(w *pairWorld) { w.path, w.redirects = "/old", true },
	"a RoundTripper above":   func(w *pairWorld) { w.above = true },
	"a body that breaks off": func(w *pairWorld) { w.breaks = true },
}

// sameClock is another clock than the system's, with its time.
type sameClock struct{ clockx.Clock }

// plenty is a budget that grants all.
type plenty struct{}

func (plenty) Withdraw(retry.Withdrawal) bool { return true }
func (plenty) End(retry.Outcome)              {}

// doors are what a program calls, or serves with. Each returns the body, or why there is none.
var doors = map[string]func(w *pairWorld) (string, error){
	"Transport": func(w *pairWorld) (string, error) { return w.fetch(http.MethodGet, "") },
	"Transport, POST": func(w *pairWorld) (string, error) {
		w.mayFail = true
		return w.fetch(http.MethodPost, "body")
	},
	"FirstEvent": func(w *pairWorld) (string, error) {
		w.stream = true
		check, bad := w.transport.Check, retryhttp.FirstEvent(func(_, data string) error { return nil })
		w.transport.Check = func(r *http.Response) error {
			if check != nil {
				return check(r)
			}
			return bad(r)
		}
		return w.fetch(http.MethodGet, "")
	},
	"JSON": func(w *pairWorld) (string, error) {
		req, _ := http.NewRequest(http.MethodGet, "http://a.example"+w.path, nil)
		got, err := retryhttp.JSON[string](w.ctx, w.policy, w.client(), req)
		return `"` + got + `"`, err
	},
	"Download": func(w *pairWorld) (string, error) {
		req, _ := http.NewRequest(http.MethodGet, "http://a.example"+w.path, nil)
		resp, err := retryhttp.Download(w.ctx, w.policy, w.client(), req)
		return bodyOf(resp, err)
	},
	"Relay": func(w *pairWorld) (string, error) {
		h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			got, err := w.fetch(http.MethodGet, "")
			if err != nil {
				rw.WriteHeader(retryhttp.Relay(rw.Header(), err))
			}
			fmt.Fprint(rw, got)
		})
		return w.serve(h)
	},
	"LimitHandler, DeadlineHandler": func(w *pairWorld) (string, error) {
		g := w.guard()
		h := retryhttp.LimitHandler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.ctx = mergedContext{r.Context(), w.ctx}
			got, err := w.fetch(http.MethodGet, "")
			if err != nil {
				rw.WriteHeader(retryhttp.Relay(rw.Header(), err))
			}
			fmt.Fprint(rw, got)
		}), func(*http.Request) []retry.Guard { return g })
		return w.serve(retryhttp.DeadlineHandler(h, "Timeout-Ms", time.Minute))
	},
}

// mergedContext ends with one context, and has the values of another.
type mergedContext struct {
	context.Context
	values context.Context
}

func (c mergedContext) Value(key any) any { return c.values.Value(key) }

func (w *pairWorld) client() *http.Client {
	if w.above {
		return &http.Client{Transport: tripper(w.transport.RoundTrip)}
	}
	return &http.Client{Transport: &w.transport}
}

func (w *pairWorld) fetch(method, body string) (string, error) {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, _ := http.NewRequestWithContext(w.ctx, method, "http://a.example"+w.path, content)
	resp, err := w.client().Do(req)
	return bodyOf(resp, err)
}

func (w *pairWorld) serve(h http.Handler) (string, error) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
	if rec.Code != http.StatusOK {
		return "", fmt.Errorf("status %d", rec.Code)
	}
	return rec.Body.String(), nil
}

func bodyOf(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return string(got), err
}

// Every door works with every pair of settings: the caller gets the whole body, nothing panics, no
// body is left open, and no guard has a place that nobody gives back.
func TestPairsOfDoorsAndSettings(t *testing.T) {
	for _, of := range []any{retryhttp.Transport{}, retry.Policy{}} {
		for f := range reflect.TypeOf(of).Fields() {
			name := reflect.TypeOf(of).Name() + "." + f.Name
			if f.IsExported() && settings[name] == nil && name != "Transport.Base" && name != "Transport.Policy" {
				t.Errorf("no setting for %s", name)
			}
		}
	}
	names := slices.Sorted(maps.Keys(settings))
	for door, open := range doors {
		for i, first := range names {
			for _, second := range names[i:] {
				synctest.Test(t, func(t *testing.T) {
					w := &pairWorld{ctx: t.Context(), path: "/new", policy: retry.Policy{Backoff: retry.Constant(time.Millisecond)}}
					w.transport.Base = w
					settings[first](w)
					if second != first {
						settings[second](w)
					}
					w.transport.Policy = w.policy
					w.breaks = w.breaks && door == "Download" // no other door can go on
					want := `"0123456789"`
					if door == "FirstEvent" {
						want = "data: 1\n\n"
					}
					w.check(t, fmt.Sprintf("%s with %s and %s", door, first, second), want, func() (string, error) { return open(w) })
				})
			}
		}
	}
}

func (w *pairWorld) check(t *testing.T, what, want string, open func() (string, error)) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	got, err := open()
	if err != nil && !w.mayFail || err == nil && got != want {
		t.Errorf("%s: %q, %v", what, got, err)
	}
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != 0 {
		t.Errorf("%s: %d bodies are open", what, w.open)
	}
	for i, g := range w.guards {
		g.wantInside(t, 0, fmt.Sprintf("%s: guard %d", what, i))
	}
}
