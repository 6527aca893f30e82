package retryhttp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

// answers is a base without a network that gives one status after the other, the
// last one from then on, and keeps the requests.
type answers struct {
	codes  []int
	header http.Header
	sent   []*http.Request
	open   atomic.Int64 // bodies
	empty  bool         // these are
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	a.sent = append(a.sent, req)
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	a.open.Add(1)
	code := a.codes[min(len(a.sent), len(a.codes))-1]
	text := fmt.Sprintf("answer %d", len(a.sent))
	if code == http.StatusNoContent || a.empty {
		text = ""
	}
	body := &counted{ReadCloser: io.NopCloser(strings.NewReader(text)), open: &a.open}
	return &http.Response{StatusCode: code, Header: a.header.Clone(), Body: body, Request: req}, nil
}

func TestNameIsTheRuns(t *testing.T) {
	p, events := recorded(quick.Named("default"))
	rt := &retryhttp.Transport{Base: &answers{codes: []int{404}}, Policy: p, Name: func(r *http.Request) string { return r.Pattern }}
	for pattern, want := range map[string]string{"GET /users/{id}": "GET /users/{id}", "": "default"} {
		req := request(t, "GET", "http://example.com/users/7", nil)
		req.Pattern = pattern
		mustDo(t, rt, req)
		if events.summary.Name != want {
			t.Errorf("the run for the pattern %q is called %q, want %q", pattern, events.summary.Name, want)
		}
	}
	_, err := retryhttp.JSON[user](t.Context(), quick.Named("json"), client(rt), request(t, "GET", "http://example.com/", nil))
	if e := wantReason(t, err, retry.ReasonPermanent); e.Name != "json" {
		t.Errorf("JSON's run is called %q", e.Name)
	}
}

func TestWithPolicyEditsInOrder(t *testing.T) {
	var order []string
	edit := func(name string, attempts int) func(retry.Policy) retry.Policy {
		return func(p retry.Policy) retry.Policy {
			order = append(order, fmt.Sprintf("%s after %s", name, p.Name))
			p.Name, p.MaxAttempts = name, attempts
			return p
		}
	}
	ctx := retryhttp.WithPolicy(t.Context(), edit("outer", 5))
	ctx = retryhttp.WithPolicy(ctx, nil)
	ctx = retryhttp.WithPolicy(ctx, edit("inner", 2))
	base := &answers{codes: []int{503}}
	rt := &retryhttp.Transport{Base: base, Policy: quick, Name: func(*http.Request) string { return "name" }}
	get := func() *http.Request { return request(t, "GET", "http://example.com/", nil).WithContext(ctx) }

	e := whyEnded(mustDo(t, rt, get()))
	if wantReason(t, e, retry.ReasonMaxAttempts); e.Name != "inner" || e.Attempts != 2 {
		t.Errorf("%v, want two attempts of inner", e)
	}
	_, err := retryhttp.JSON[user](ctx, quick.Named("name"), client(base), get())
	if e := wantReason(t, err, retry.ReasonMaxAttempts); e.Name != "inner" || e.Attempts != 2 {
		t.Errorf("JSON: %v, want two attempts of inner", e)
	}
	resp, err := retryhttp.Download(ctx, quick.Named("name"), client(base), get())
	if err != nil || whyEnded(resp).Name != "inner" {
		t.Errorf("Download: %v, %v", whyEnded(resp), err)
	}
	if want := []string{"outer after name", "inner after outer"}; !slices.Equal(order, slices.Repeat(want, 3)) {
		t.Errorf("edits %q, want %q three times", order, want)
	}
	if rt.Policy.Name != "" || rt.Policy.MaxAttempts != 0 {
		t.Errorf("the Transport's policy has become %+v", rt.Policy)
	}
}

// Edits that change the guards write to arrays of their own: two calls share none.
func TestWithPolicyMayChangeTheGuards(t *testing.T) {
	shared := make([]retry.Guard, 1, 8) // nil admits all
	edit := func(p retry.Policy) retry.Policy {
		p.Guards[0] = new(limit.Limit)
		p.Guards = append(p.Guards, new(limit.Limit))
		return p
	}
	ctx := retryhttp.WithPolicy(retryhttp.WithPolicy(t.Context(), edit), edit)
	policy := quick
	policy.Guards = shared
	_ = mustDo(t, &retryhttp.Transport{Base: &answers{codes: []int{200}}, Policy: policy}, request(t, "GET", "http://example.com/", nil).WithContext(ctx))
	if shared[0] != nil || shared[:2][1] != nil {
		t.Errorf("an edit has written %v into the Transport's guards", shared[:2])
	}
}

func TestWithPolicyComesAfterTheBudget(t *testing.T) {
	rt := &retryhttp.Transport{Base: &answers{codes: []int{503}}, Policy: quick, Budget: func(string) retry.Budget { return &budget.Token{Capacity: -1} }}
	ctx := retryhttp.WithPolicy(t.Context(), func(p retry.Policy) retry.Policy { p.Budget = nil; return p })
	for want, ctx := range map[retry.Reason]context.Context{retry.ReasonBudget: t.Context(), retry.ReasonMaxAttempts: ctx} {
		resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil).WithContext(ctx))
		wantReason(t, retryhttp.GaveUp(resp), want)
	}
}

func TestIdempotent(t *testing.T) {
	key := http.Header{"Idempotency-Key": {"k"}}
	for _, tt := range []struct {
		name, method string
		header       http.Header
		says         []bool // outer first
		policy       bool   // NonIdempotent
		keys         int    // asked of IdempotencyKey
		want         int    // requests
	}{
		{name: "PROPFIND", method: "PROPFIND", says: []bool{true}, want: 3},
		{name: "POST", method: "POST", says: []bool{true}, want: 3},
		{name: "GET that must not run twice", method: "GET", says: []bool{false}, want: 1},
		{name: "the inner one counts", method: "POST", says: []bool{false, true}, want: 3},
		{name: "the inner one counts, no", method: "GET", says: []bool{true, false}, want: 1},
		{name: "a key does not help", method: "POST", header: key, says: []bool{false}, want: 1},
		{name: "the policy goes first", method: "PROPFIND", says: []bool{true}, policy: true, want: 1},
		{name: "nothing said", method: "PROPFIND", keys: 1, want: 1},
		{name: "key of the request", method: "POST", header: key, want: 3},
		{name: "empty key", method: "POST", header: http.Header{"Idempotency-Key": {""}}, keys: 1, want: 1},
		{name: "blank key", method: "POST", header: http.Header{"Idempotency-Key": {" "}}, keys: 1, want: 1},
		{name: "no values", method: "POST", header: http.Header{"Idempotency-Key": {}}, want: 3},
		{name: "another spelling", method: "POST", header: http.Header{"idempotency-key": {"k"}}, want: 3},
		{name: "another spelling of the other", method: "POST", header: http.Header{"x-IDEMPOTENCY-key": {"k"}}, want: 3},
		{name: "another spelling, empty", method: "POST", header: http.Header{"idempotency-key": {""}}, keys: 1, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, keys := &answers{codes: []int{503}}, 0
			p := quick
			p.NonIdempotent = tt.policy
			rt := &retryhttp.Transport{Base: base, Policy: p, IdempotencyKey: func(*http.Request) string { keys++; return "" }}
			ctx := t.Context()
			for _, yes := range tt.says {
				ctx = retryhttp.Idempotent(ctx, yes)
			}
			req := request(t, tt.method, "http://example.com/", nil).WithContext(ctx)
			req.Header = tt.header
			mustDo(t, rt, req)
			if len(base.sent) != tt.want || keys != tt.keys {
				t.Errorf("%d requests, want %d; IdempotencyKey called %d times, want %d", len(base.sent), tt.want, keys, tt.keys)
			}
		})
	}
}

func TestKeysThatAreAdded(t *testing.T) {
	for _, tt := range []struct{ key, want string }{ // want "": an error
		{"abc", `"abc"`},
		{`"abc"`, `"abc"`},
		{`"a\"b\\c"`, `"a\"b\\c"`},
		{`"a"b"`, `"\"a\"b\""`},
		{`"a\b"`, `"\"a\\b\""`},
		{`"a\"`, `"\"a\\\""`},
		{`"`, `"\""`},
		{`""`, `""`},
		{"a b~", `"a b~"`},
		{"a\nb", ""},
		{"a\x7f", ""},
		{"schlüssel", ""},
		{"\"a\x00\"", ""},
	} {
		base := &answers{codes: []int{503, 200}}
		rt := &retryhttp.Transport{Base: base, Policy: quick, IdempotencyKey: func(*http.Request) string { return tt.key }}
		body := stream("body")
		req := request(t, "POST", "http://example.com/", body)
		req.Header = http.Header{"idempotency-key": {""}}
		_, err := rt.RoundTrip(req)
		body.wantClosedOnce(t)
		if tt.want == "" {
			if wantReason(t, err, retry.ReasonPermanent); len(base.sent) != 0 {
				t.Errorf("%q was sent", tt.key)
			}
			continue
		}
		if err != nil || len(base.sent) != 2 {
			t.Fatalf("%q: %d requests, %v", tt.key, len(base.sent), err)
		}
		for _, r := range base.sent {
			if got := r.Header["Idempotency-Key"]; len(r.Header) != 1 || !slices.Equal(got, []string{tt.want}) {
				t.Errorf("the key %q is sent as %v, want %q", tt.key, r.Header, tt.want)
			}
		}
	}
}

func TestGaveUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		codes []int
		check error
		want  retry.Reason // ReasonNone: nil
	}{
		{"success", []int{200}, nil, retry.ReasonNone},
		{"success after retries", []int{503, 200}, nil, retry.ReasonNone},
		{"an answer", []int{404}, nil, retry.ReasonNone},
		{"an answer after retries", []int{503, 404}, nil, retry.ReasonNone},
		{"attempts", []int{503}, nil, retry.ReasonMaxAttempts},
		{"Check", []int{200}, retry.Stop(errors.New("no")), retry.ReasonPermanent},
		{"Check, again and again", []int{200}, errors.New("no"), retry.ReasonMaxAttempts},
		{"Check of an answer", []int{404}, retry.Stop(errors.New("no")), retry.ReasonPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := &answers{codes: tt.codes}
			rt := &retryhttp.Transport{Base: base, Policy: quick, Check: func(*http.Response) error { return tt.check }}
			c := client(rt)
			c.Timeout = time.Hour // which wraps the body and the context
			resp, err := c.Do(request(t, "GET", "http://example.com/", nil))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := read(t, resp), fmt.Sprintf("answer %d", len(base.sent)); got != want {
				t.Errorf("body %q, want %q", got, want)
			}
			e := retryhttp.GaveUp(resp)
			if tt.want == retry.ReasonNone {
				if e != nil {
					t.Errorf("GaveUp: %v", e)
				}
				return
			}
			if wantReason(t, e, tt.want); tt.check != nil && !errors.Is(e, errors.Unwrap(tt.check)) && !errors.Is(e, tt.check) {
				t.Errorf("GaveUp: %v, want %v in it", e, tt.check)
			}
			// A request in the context of that response is another one.
			rt.Base, rt.Check = &answers{codes: []int{200}}, nil
			other := mustDo(t, rt, request(t, "GET", "http://example.com/", nil).WithContext(context.WithoutCancel(resp.Request.Context())))
			if e := retryhttp.GaveUp(other); e != nil {
				t.Errorf("GaveUp of a later response: %v", e)
			}
		})
	}
	for name, resp := range map[string]*http.Response{"nil": nil, "no request": {}, "a plain client's": {Request: request(t, "GET", "http://x", nil)}} {
		if e := retryhttp.GaveUp(resp); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestCheckDecidesBeforeTheStatus(t *testing.T) {
	errBusy := errors.New("busy")
	for _, tt := range []struct {
		name, method string
		codes        []int
		objections   []error
		want         int // requests
		delays       []time.Duration
	}{
		{name: "200 that failed", method: "GET", codes: []int{200}, objections: []error{errBusy, nil}, want: 2, delays: []time.Duration{0}},
		{name: "with a hint", method: "GET", codes: []int{200}, objections: []error{retry.After(errBusy, time.Minute)}, want: 2, delays: []time.Duration{time.Minute}},
		{name: "a POST may have run", method: "POST", codes: []int{200}, objections: []error{errBusy}, want: 1},
		{name: "a POST that did nothing", method: "POST", codes: []int{200}, objections: []error{retry.Undone(retry.After(errBusy, time.Second))}, want: 2, delays: []time.Duration{time.Second}},
		{name: "a wait is no proof", method: "POST", codes: []int{200}, objections: []error{retry.After(errBusy, time.Second)}, want: 1},
		{name: "nor is the error of another call", method: "POST", codes: []int{200}, objections: []error{&retryhttp.StatusError{Code: 421}}, want: 1},
		{name: "permanent", method: "GET", codes: []int{503}, objections: []error{retry.Stop(errBusy)}, want: 1},
		{name: "404 that is none", method: "GET", codes: []int{404, 200}, objections: []error{errBusy}, want: 2, delays: []time.Duration{0}},
		{name: "not asked about 101", method: "GET", codes: []int{101}, objections: []error{errBusy}, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := retrytest.New(t, retry.Policy{})
			base := &answers{codes: tt.codes}
			rt := &retryhttp.Transport{Base: base, Policy: h.Policy, Check: func(resp *http.Response) error {
				if resp.Request.URL.Path != "/path" {
					t.Errorf("the response's request is for %v", resp.Request.URL)
				}
				if n := len(base.sent); n <= len(tt.objections) {
					return tt.objections[n-1]
				}
				return nil
			}}
			resp := mustDo(t, rt, request(t, tt.method, "http://example.com/path", nil))
			if body := read(t, resp); body != fmt.Sprintf("answer %d", tt.want) || len(base.sent) != tt.want || base.open.Load() != 0 {
				t.Errorf("%q after %d requests, want %d; %d bodies open", body, len(base.sent), tt.want, base.open.Load())
			}
			h.AssertDelays(tt.delays...)
		})
	}
}

// waits is an error that asks for a wait, without a mark.
type waits time.Duration

func (w waits) Error() string             { return "later" }
func (w waits) RetryAfter() time.Duration { return time.Duration(w) }

// What the response says counts, unless Check's error says otherwise.
func TestCheckLosesNothingTheResponseSays(t *testing.T) {
	errBody, errJSON := errors.New("error: quota"), &json.SyntaxError{}
	second := http.Header{"Retry-After": {"1"}}
	for _, tt := range []struct {
		name, method string
		code         int
		header       http.Header
		err          error
		classify     retry.Classifier
		class        retry.Class
		wait         time.Duration // before the second request, or
		end          retry.Reason  // why there is none
	}{
		{name: "429 with a wait", method: "GET", code: 429, header: second, err: errBody, class: retry.Throttled, wait: time.Second},
		{name: "of a POST", method: "POST", code: 429, header: second, err: errBody, class: retry.Throttled, wait: time.Second},
		{name: "now", method: "POST", code: 429, header: http.Header{"Retry-After": {"0"}}, err: errBody, class: retry.Throttled},
		{name: "without a wait a POST has no proof", method: "POST", code: 429, err: errBody, class: retry.Throttled, end: retry.ReasonNotIdempotent},
		{name: "the error's wait is one", method: "POST", code: 429, err: retry.After(errBody, time.Second), class: retry.Throttled, wait: time.Second},
		{name: "an error that is permanent elsewhere", method: "GET", code: 503, header: second, err: errJSON, class: retry.Transient, wait: time.Second},
		{name: "504", method: "GET", code: 504, err: errBody, class: retry.TimedOut},
		{name: "421", method: "POST", code: 421, err: errBody, class: retry.Unprocessed},
		{name: "403 of a rate limit", method: "POST", code: 403, header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"2"}}, err: errBody, class: retry.Throttled, wait: 2 * time.Second},
		{name: "200 with a wait", method: "GET", code: 200, header: second, err: errBody, class: retry.Transient, wait: time.Second},
		{name: "wrapped by Undone", method: "POST", code: 200, header: second, err: retry.Undone(errBody), class: retry.Transient, wait: time.Second},
		{name: "too long a wait", method: "GET", code: 429, header: http.Header{"Retry-After": {"3600"}}, err: errBody, class: retry.Throttled, end: retry.ReasonRetryAfter},
		{name: "a poll", method: "GET", code: 202, header: second, err: retry.ErrRejected, class: retry.Transient, wait: time.Second},
		{name: "a poll that is throttled", method: "GET", code: 429, header: second, err: retry.ErrRejected, class: retry.Throttled, wait: time.Second},
		{name: "a stop", method: "GET", code: 429, header: second, err: retry.Stop(errBody), class: retry.Permanent, end: retry.ReasonPermanent},
		{name: "an answer", method: "GET", code: 503, header: second, err: retry.Answer(errBody), class: retry.Permanent, end: retry.ReasonPermanent},
		{name: "another wait", method: "GET", code: 429, header: second, err: retry.After(errBody, 2*time.Second), class: retry.Throttled, wait: 2 * time.Second},
		{name: "another wait without a mark", method: "GET", code: 429, header: second, err: waits(3 * time.Second), class: retry.Throttled, wait: 3 * time.Second},
		{name: "a wait makes a 400 one of later", method: "GET", code: 400, err: waits(3 * time.Second), class: retry.Transient, wait: 3 * time.Second},
		{name: "Classify", method: "GET", code: 429, header: second, err: errBody, classify: func(error) retry.Class { return retry.Permanent }, class: retry.Permanent, end: retry.ReasonPermanent},
		{name: "Classify without an opinion", method: "GET", code: 429, header: second, err: errBody, classify: func(error) retry.Class { return retry.Unknown }, class: retry.Throttled, wait: time.Second},
	} {
		for _, door := range []string{"Transport", "JSON"} {
			t.Run(tt.name+", "+door, func(t *testing.T) {
				h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Classify: tt.classify})
				p := h.Policy
				var got retry.Class
				p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { got = a.Class }
				rt := &retryhttp.Transport{Base: &answers{codes: []int{tt.code}, header: tt.header}, Policy: p, Check: func(*http.Response) error { return tt.err }}
				req := request(t, tt.method, "http://example.com/", nil)
				var e *retry.Error
				if door == "JSON" {
					_, err := retryhttp.JSON[user](t.Context(), p, client(rt), req)
					e, _ = errors.AsType[*retry.Error](err)
				} else {
					e = whyEnded(mustDo(t, rt, req))
				}
				want := cmp.Or(tt.end, retry.ReasonMaxAttempts)
				if e == nil || e.Reason != want || got != tt.class || !errors.Is(e, tt.err) && errors.Unwrap(tt.err) == nil {
					t.Errorf("%v, %v, want %v and %v", e, got, want, tt.class)
				}
				if tt.end == retry.ReasonNone {
					h.AssertDelays(tt.wait)
				} else {
					h.AssertDelays()
				}
			})
		}
	}
}

func TestCheckMayReadTheBody(t *testing.T) {
	s := serve(t, statuses(200))
	p := quick
	p.AttemptTimeout = time.Minute
	rt := s.transport(p)
	asked := 0
	rt.Check = func(resp *http.Response) error {
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(b))
		if asked++; asked < 3 {
			return fmt.Errorf("no good: %s", b)
		}
		return nil
	}
	if body := read(t, mustDo(t, rt, request(t, "GET", s.URL, nil))); body != "answer 3" {
		t.Errorf("body %q", body)
	}
	s.wantRequests(t, 3)
	got, err := retryhttp.JSON[user](t.Context(), quick, client(rt), request(t, "GET", s.URL, nil))
	if wantReason(t, err, retry.ReasonPermanent); asked != 4 {
		t.Errorf("%v; Check was asked %d times, want once more by JSON", got, asked)
	}
}

func TestAttemptTimeoutCoversCheckAndPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &answers{codes: []int{200}}
		rt := &retryhttp.Transport{Base: base, Policy: retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}}
		rt.Check = func(resp *http.Response) error {
			<-resp.Request.Context().Done()
			return nil
		}
		_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
		if wantReason(t, err, retry.ReasonMaxAttempts); !errors.Is(err, retry.ErrAttemptTimeout) || base.open.Load() != 0 {
			t.Errorf("%v; %d bodies left open", err, base.open.Load())
		}
		rt.Check, base.sent = nil, nil
		rt.Prepare = func(req *http.Request) error {
			<-req.Context().Done()
			return req.Context().Err()
		}
		start := time.Now()
		_, err = rt.RoundTrip(request(t, "POST", "http://example.com/", strings.NewReader("body"))) // nothing is sent, so it may be retried
		if wantReason(t, err, retry.ReasonMaxAttempts); !errors.Is(err, retry.ErrAttemptTimeout) || len(base.sent) != 0 || time.Since(start) != 3*time.Second {
			t.Errorf("%v; %d requests in %v", err, len(base.sent), time.Since(start))
		}
	})
}

func TestPrepareGetsEachAttemptsOwnClone(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprint("JSON ", json), func(t *testing.T) {
			s := serve(t, statuses(503, 503, 204))
			rt := s.transport(quick)
			rt.AttemptHeader, rt.IdempotencyKey = "Attempt", func(*http.Request) string { return "k" }
			attempts := 0
			rt.Prepare = func(req *http.Request) error {
				attempts++
				req.Header.Add("Signature", fmt.Sprintf("%d,%s,%s", attempts, req.Header.Get("Attempt"), req.Header.Get("Idempotency-Key")))
				req.URL.RawQuery = fmt.Sprint("n=", attempts)
				return nil
			}
			req := request(t, "POST", s.URL, stream("body"))
			if json {
				if _, err := retryhttp.JSON[user](t.Context(), quick, client(rt), req); err != nil {
					t.Fatal(err)
				}
			} else {
				read(t, mustDo(t, rt, req))
			}
			var got []string
			for _, r := range s.requests() {
				got = append(got, r.uri+" "+r.header.Get("Signature")+" "+r.body)
			}
			if want := []string{`/?n=1 1,,"k" body`, `/?n=2 2,2,"k" body`, `/?n=3 3,3,"k" body`}; !slices.Equal(got, want) {
				t.Errorf("the server saw %q, want %q", got, want)
			}
			if len(req.Header) != 0 || req.URL.RawQuery != "" {
				t.Errorf("the caller's request has become %v %v", req.URL, req.Header)
			}
		})
	}
}

// Each hop of a redirect is signed for itself, also within one attempt of JSON, and
// by a Transport that is not the client's own.
func TestPrepareSignsEachHop(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	rt := s.transport(quick)
	rt.Prepare = func(req *http.Request) error { req.Header.Set("Signed", req.URL.Path); return nil }
	for _, c := range []*http.Client{client(rt), client(tripper(rt.RoundTrip))} {
		if _, err := retryhttp.JSON[user](t.Context(), quick, c, request(t, "GET", s.URL+"/a", nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.requests() {
		if got := r.header["Signed"]; !slices.Equal(got, []string{r.uri}) {
			t.Errorf("%s is signed for %q", r.uri, got)
		}
	}
	s.wantRequests(t, 4)
}

// closes counts how often a body is closed.
type closes struct {
	io.Reader
	n *int
}

func (c closes) Close() error { *c.n++; return nil }

// A RoundTripper closes the request's body also if it sends nothing.
func TestBodyIsClosedIfPrepareFails(t *testing.T) {
	for _, panics := range []bool{false, true} {
		closed := 0
		rt := &retryhttp.Transport{Base: tripper(func(*http.Request) (*http.Response, error) { panic("sent") }), Prepare: func(*http.Request) error {
			if panics {
				panic(io.EOF)
			}
			return retry.Stop(io.EOF)
		}}
		req := request(t, "PUT", "http://example.com/", nil)
		req.Body = closes{strings.NewReader("body"), &closed}
		func() {
			defer func() { _ = recover() }()
			resp, err := rt.RoundTrip(req)
			if resp != nil || !errors.Is(err, io.EOF) {
				t.Errorf("%v, %v, want Prepare's error", resp, err)
			}
		}()
		if closed == 0 {
			t.Errorf("panics: %v: the body is open", panics)
		}
	}
}

// tally is a budget that grants everything and notes its calls.
type tally struct{ calls []string }

func (b *tally) Withdraw(w retry.Withdrawal) bool {
	b.calls = append(b.calls, fmt.Sprint("Withdraw ", w.Class, w.Retry))
	return true
}
func (b *tally) End(o retry.Outcome) {
	b.calls = append(b.calls, fmt.Sprint("End ", o.Retried, o.OK))
}

// A budget gets the same calls from a Transport as from a run.
func TestBudgetGetsEveryCall(t *testing.T) {
	b := new(tally)
	p := quick
	p.Budget = b
	n := 0
	rt := &retryhttp.Transport{Policy: p, Base: tripper(func(req *http.Request) (*http.Response, error) {
		n++
		return &http.Response{StatusCode: map[int]int{1: 503, 2: 504}[n] + map[int]int{3: 200}[n], Body: http.NoBody, Request: req}, nil
	})}
	if _, err := client(rt).Do(request(t, "GET", "http://example.com/", nil)); err != nil {
		t.Fatal(err)
	}
	want := []string{"Withdraw transient 1", "Withdraw timed_out 2", "End timed_out true"}
	if !slices.Equal(b.calls, want) {
		t.Errorf("the budget got %q, want %q", b.calls, want)
	}
}

func TestErrorOfPrepareProvesThatNothingWasSent(t *testing.T) {
	errToken := errors.New("no token")
	classify := func(c retry.Class) retry.Classifier { return func(error) retry.Class { return c } }
	for _, tt := range []struct {
		name     string
		err      error
		classify retry.Classifier
		attempts int
		reason   retry.Reason
	}{
		{"unknown", errToken, nil, 3, retry.ReasonMaxAttempts},
		{"transient by Classify", errToken, classify(retry.Transient), 3, retry.ReasonMaxAttempts},
		{"permanent by Classify", errToken, classify(retry.Permanent), 1, retry.ReasonPermanent},
		{"permanent by a mark", retry.Stop(errToken), nil, 1, retry.ReasonPermanent},
		{"a hint too long", retry.After(errToken, time.Hour), nil, 1, retry.ReasonRetryAfter},
	} {
		for _, json := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, JSON %v", tt.name, json), func(t *testing.T) {
				base, called := &answers{codes: []int{200}}, 0
				p := quick
				p.Classify = tt.classify
				rt := &retryhttp.Transport{Base: base, Policy: p, Prepare: func(*http.Request) error { called++; return tt.err }}
				body := stream("body")
				req := request(t, "POST", "http://example.com/", body)
				var err error
				if json {
					_, err = retryhttp.JSON[user](t.Context(), p, client(rt), req)
				} else {
					_, err = rt.RoundTrip(req)
				}
				if e := wantReason(t, err, tt.reason); !errors.Is(err, errToken) || e.Attempts != tt.attempts || called != tt.attempts || len(base.sent) != 0 {
					t.Errorf("%v; Prepare called %d times, %d requests sent; want %d attempts", err, called, len(base.sent), tt.attempts)
				}
				body.wantClosedOnce(t)
			})
		}
	}
}

func TestTimeoutHeader(t *testing.T) {
	const none = "none"
	for _, tt := range []struct {
		name             string
		attempt, callers time.Duration // 0: none
		want             []string
	}{
		{"neither", 0, 0, []string{none, none}},
		{"the attempt's", 1500 * time.Millisecond, 0, []string{"1500", "1500"}},
		{"the caller's", 0, 10 * time.Second, []string{"10000", "6000"}},
		{"the sooner one", 5 * time.Second, 8 * time.Second, []string{"5000", "4000"}},
		{"rounded down", 1999 * time.Microsecond, 0, []string{"1", "1"}},
		{"less than a millisecond", 999 * time.Microsecond, 0, []string{"0", "0"}},
	} {
		for _, call := range []string{"Transport", "JSON", "Download"} {
			t.Run(tt.name+", "+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					if tt.callers > 0 {
						ctx, cancel = context.WithTimeout(ctx, tt.callers)
					}
					defer cancel()
					base := &answers{codes: []int{503, 204}}
					p := retry.Policy{AttemptTimeout: tt.attempt, Backoff: retry.Constant(4 * time.Second)}
					rt := &retryhttp.Transport{Base: base, Policy: p, TimeoutHeader: "Timeout-Ms"}
					var err error
					switch req := request(t, "GET", "http://example.com/", nil).WithContext(ctx); call {
					case "Transport":
						_, err = rt.RoundTrip(req)
					case "JSON":
						_, err = retryhttp.JSON[user](ctx, p, client(rt), req)
					case "Download":
						_, err = retryhttp.Download(ctx, p, client(rt), req)
					}
					if err != nil {
						t.Fatal(err)
					}
					var got []string
					for _, r := range base.sent {
						value := none
						if v := r.Header["Timeout-Ms"]; len(v) > 0 {
							value = v[0]
						}
						got = append(got, value)
					}
					if !slices.Equal(got, tt.want) {
						t.Errorf("the header is %q, want %q", got, tt.want)
					}
				})
			})
		}
	}
	t.Run("on the policy's clock, signed", func(t *testing.T) {
		h := retrytest.New(t, retry.Policy{AttemptTimeout: time.Second})
		signed := ""
		rt := &retryhttp.Transport{Base: &answers{codes: []int{200}}, Policy: h.Policy, TimeoutHeader: "Timeout-Ms",
			Prepare: func(req *http.Request) error { signed = req.Header.Get("Timeout-Ms"); return nil }}
		if mustDo(t, rt, request(t, "GET", "http://example.com/", nil)); signed != "1000" {
			t.Errorf("Prepare saw %q, want 1000", signed)
		}
	})
}

// A nil pointer is no budget: then the policy's counts, which must not be lost because a
// PerKey is nil or has nothing for a host.
func TestNilBudgetOfAHostIsThePolicys(t *testing.T) {
	var none *retry.PerKey[retry.EarnedBudget]
	for name, hosts := range map[string]func(string) retry.Budget{
		"nil":                         func(string) retry.Budget { return nil },
		"a nil PerKey":                func(host string) retry.Budget { return none.For(host) },
		"a nil budget of the library": func(string) retry.Budget { return (*budget.Token)(nil) },
		"a nil budget of others":      func(string) retry.Budget { return (*someBudget)(nil) },
	} {
		budget := &budget.Token{Capacity: 1, Cost: 1}
		base := &answers{codes: []int{503}}
		rt := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0), Budget: budget}, Budget: hosts}
		if mustDo(t, rt, request(t, "GET", "http://example.com/", nil)); budget.Balance() != 0 {
			t.Errorf("%s: the policy's budget has %v left, want 0", name, budget.Balance())
		}
	}
}

// someBudget has no methods of its own: a nil one panics.
type someBudget struct{ retry.Budget }

func TestHostOfABudgetHasOneName(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Example.COM:8080/": "example.com:8080",
		"http://example.com":       "example.com",
		"http://example.com.":      "example.com",
		"http://example.com:80":    "example.com",
		"http://example.com.:80":   "example.com",
		"http://example.com.:8080": "example.com:8080",
		"http://example.com:":      "example.com",
		"http://example.com:443":   "example.com:443",
		"https://example.com:443":  "example.com",
		"https://example.com:80":   "example.com:80",
		"http://u:p@example.com":   "example.com",
		"http://[::1]:80":          "[::1]",
		"http://[::1]:81":          "[::1]:81",
	} {
		var got string
		rt := &retryhttp.Transport{Base: canned, Budget: func(h string) retry.Budget { got = h; return nil }}
		if mustDo(t, rt, request(t, "GET", raw, nil)); got != want {
			t.Errorf("%s: the budget is asked for by %q, want %q", raw, got, want)
		}
	}
}

func TestStripeShouldRetryIsNoProof(t *testing.T) {
	for _, tt := range []struct {
		method, word string
		code         int
		hint         string
		want         int
	}{
		{"GET", "true", 400, "", 3},
		{"POST", "true", 400, "", 1},
		{"POST", "true", 500, "", 1},
		{"POST", "true", 429, "1", 3}, // it was proved without
		{"GET", "false", 503, "", 1},
		{"GET", "", 503, "", 3},
	} {
		base := &answers{codes: []int{tt.code}, header: http.Header{"Stripe-Should-Retry": {tt.word}}}
		if tt.hint != "" {
			base.header.Set("Retry-After-Ms", tt.hint)
		}
		mustDo(t, &retryhttp.Transport{Base: base, Policy: quick}, request(t, tt.method, "http://example.com/", nil))
		if len(base.sent) != tt.want {
			t.Errorf("%s, %d, Stripe-Should-Retry: %q: %d requests, want %d", tt.method, tt.code, tt.word, len(base.sent), tt.want)
		}
	}
}

// The classes that hooks are told come from this package where it sees the response.
func TestClassOfAStatus(t *testing.T) {
	for _, tt := range []struct {
		code int
		hint bool
		want retry.Class
	}{
		{408, false, retry.Transient}, {425, false, retry.Transient}, {500, false, retry.Transient}, {502, true, retry.Transient},
		{503, false, retry.Transient}, {503, true, retry.Transient}, {504, false, retry.TimedOut}, {504, true, retry.TimedOut}, {520, true, retry.Transient},
		{429, false, retry.Throttled}, {429, true, retry.Throttled}, {403, true, retry.Throttled}, {421, false, retry.Unprocessed},
	} {
		base := &answers{codes: []int{tt.code}, header: http.Header{}}
		if tt.hint {
			base.header.Set("Retry-After-Ms", "1")
		}
		p, events := recorded(quick)
		mustDo(t, &retryhttp.Transport{Base: base, Policy: p}, request(t, "GET", "http://example.com/", nil))
		for _, a := range events.attempts {
			if a.Class != tt.want || (a.Hint > 0) != tt.hint {
				t.Errorf("%d, hint %v: hooks were told %v and %v, want %v", tt.code, tt.hint, a.Class, a.Hint, tt.want)
			}
		}
	}
}

// An attempt that takes too long is TimedOut, whatever Classify and redirects make of
// it, and so is a 504. Neither proves anything.
func TestTimedOut(t *testing.T) {
	hang := func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, errors.New("hidden")
	}
	gateway := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 504, Header: http.Header{}, Body: http.NoBody}, nil
	}
	refuse := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	transient := func(error) retry.Class { return retry.Transient }
	for _, tt := range []struct {
		name     string
		answer   tripper
		classify retry.Classifier
		want     retry.Class
	}{
		{"hangs", hang, nil, retry.TimedOut},
		{"hangs, and Classify says Transient", hang, transient, retry.TimedOut},
		{"504", gateway, nil, retry.TimedOut},
		{"504 in time, and Classify says Transient", gateway, transient, retry.Transient},
	} {
		for _, door := range []string{"Transport", "JSON", "JSON behind a redirect"} {
			t.Run(tt.name+", "+door, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					answer := tt.answer
					if door == "JSON behind a redirect" {
						answer = redirected(answer)
					}
					p, events := recorded(quick)
					p.AttemptTimeout, p.Classify = time.Second, tt.classify
					req := request(t, "POST", "http://example.com/a", strings.NewReader("body"))
					if door == "Transport" {
						if resp, err := (&retryhttp.Transport{Base: answer, Policy: p}).RoundTrip(req); err == nil {
							resp.Body.Close()
						}
					} else {
						_, _ = retryhttp.JSON[user](t.Context(), p, client(answer), req)
					}
					if len(events.attempts) != 1 || events.attempts[0].Class != tt.want || events.summary.Reason != retry.ReasonNotIdempotent {
						t.Errorf("%d attempts, the first is %v; %v", len(events.attempts), events.attempts[0].Class, events.summary.Reason)
					}
				})
			})
		}
	}
	p, events := recorded(quick)
	_, _ = retryhttp.JSON[user](t.Context(), p, client(redirected(refuse)), request(t, "POST", "http://example.com/a", strings.NewReader("body")))
	if got := events.attempts[0].Class; got != retry.Transient {
		t.Errorf("a failed dial behind a redirect is %v, want transient", got)
	}
}

// redirected is a base where every path but /b redirects there.
func redirected(base tripper) tripper {
	return func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/b" {
			return base(req)
		}
		return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"/b"}}, Body: http.NoBody, Request: req}, nil
	}
}

// A proxy's 407 to CONNECT will not change, and has no type.
func TestProxyThatWantsAPassword(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	defer proxy.Close()
	base := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }}
	defer base.CloseIdleConnections()
	for _, method := range []string{"GET", "POST"} {
		req := request(t, method, "https://example.com/", nil)
		_, err := (&retryhttp.Transport{Base: base, Policy: quick}).RoundTrip(req)
		if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts != 1 {
			t.Errorf("%s: %v", method, err)
		}
		_, err = retryhttp.JSON[user](t.Context(), quick, client(base), req)
		if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts != 1 {
			t.Errorf("JSON, %s: %v", method, err)
		}
	}
}

func TestBodyOfAnotherLengthIsPermanent(t *testing.T) {
	for name, protocol := range protocols {
		for _, length := range []int64{3, 10} {
			if length == 10 && name != "HTTP/1.1" {
				continue // over HTTP/2 it is the server who notices
			}
			t.Run(fmt.Sprintf("%s, %d", name, length), func(t *testing.T) {
				s := serveAs(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, protocol) // an answer might come first
				for method, json := range map[string]bool{"PUT": false, "POST": true} {
					req := request(t, method, s.URL, stream("hello"))
					req.ContentLength = length
					var err error
					if json {
						_, err = retryhttp.JSON[user](t.Context(), quick, client(s.base), req)
					} else {
						_, err = s.transport(quick).RoundTrip(req)
					}
					// Rarely net/http reports first that its reader finds the connection closed.
					if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts != 1 && !errors.Is(e.Errs[0], net.ErrClosed) {
						t.Errorf("%v", err)
					}
				}
			})
		}
	}
}
