package retryhttp_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// Settings in a context are for the request that they were made for, and not for a
// request for a token that is made in that context.
func TestSettingsAreForTheirOwnRequest(t *testing.T) {
	for _, by := range []string{"Prepare", "Base"} {
		for _, door := range []string{"Transport", "client", "JSON", "Download"} {
			t.Run(by+", "+door, func(t *testing.T) {
				auth := &answers{codes: []int{503}} // of tokens: POSTs and GETs
				tokens := client(&retryhttp.Transport{Base: auth, Policy: quick})
				fetch := func(req *http.Request) error {
					for _, method := range []string{"POST", "GET"} {
						resp, err := tokens.Do(request(t, method, "http://auth.example.com/", nil).WithContext(req.Context()))
						if err != nil {
							return err
						}
						resp.Body.Close()
					}
					return nil
				}
				api := &answers{codes: []int{204}}
				rt := &retryhttp.Transport{Base: api, Policy: quick}
				if by == "Prepare" {
					rt.Prepare = fetch
				} else {
					rt.Base = tripper(func(req *http.Request) (*http.Response, error) {
						if err := fetch(req); err != nil {
							return nil, err
						}
						return api.RoundTrip(req)
					})
				}
				ctx := retryhttp.Idempotent(t.Context(), true)
				ctx = retryhttp.WithPolicy(ctx, func(p retry.Policy) retry.Policy { p.MaxAttempts = 5; return p })
				req := request(t, "GET", "http://example.com/", nil).WithContext(ctx)
				var err error
				switch door {
				case "Transport":
					_, err = rt.RoundTrip(req)
				case "client":
					_, err = client(rt).Do(req)
				case "JSON":
					_, err = retryhttp.JSON[user](ctx, quick, client(rt), req)
				case "Download":
					_, err = retryhttp.Download(ctx, quick, client(rt), req)
				}
				if err != nil || len(api.sent) != 1 {
					t.Fatalf("%d requests, %v", len(api.sent), err)
				}
				var methods []string
				for _, r := range auth.sent {
					methods = append(methods, r.Method)
				}
				if want := []string{"POST", "GET", "GET", "GET"}; !slices.Equal(methods, want) {
					t.Errorf("requests for a token: %q, want %q", methods, want)
				}
			})
		}
	}
}

// JSON and Download replace the request's context, but what is set there for the
// request counts, unless their own context sets it too.
func TestSettingsOfTheRequestsOwnContext(t *testing.T) {
	named := func(ctx context.Context, name string) context.Context {
		return retryhttp.WithPolicy(ctx, func(p retry.Policy) retry.Policy { return p.Named(p.Name + name) })
	}
	bg := context.Background()
	for _, tt := range []struct {
		name     string
		own, ctx context.Context
		requests int
		run      string
	}{
		{"neither", bg, bg, 1, ""},
		{"the request's", retryhttp.Idempotent(named(bg, "own"), true), bg, 3, "own"},
		{"the call's", bg, retryhttp.Idempotent(named(bg, "call"), true), 3, "call"},
		{"one each", named(bg, "own"), retryhttp.Idempotent(bg, true), 3, "own"},
		{"the other one each", retryhttp.Idempotent(bg, true), named(bg, "call"), 3, "call"},
		{"both", retryhttp.Idempotent(named(bg, "own"), false), retryhttp.Idempotent(named(bg, "call"), true), 3, "call"},
		{"nested", bg, named(retryhttp.Idempotent(named(bg, "outer "), true), "inner"), 3, "outer inner"},
	} {
		for _, door := range []string{"JSON", "Download"} {
			t.Run(tt.name+", "+door, func(t *testing.T) {
				base := &answers{codes: []int{503}}
				p, events := recorded(quick)
				if door == "JSON" {
					_, _ = retryhttp.JSON[user](tt.ctx, p, client(base), request(t, "POST", "http://example.com/", nil).WithContext(tt.own))
				} else {
					req := request(t, "GET", "http://example.com/", nil).WithContext(tt.own)
					tt.requests = 3 // a GET needs no leave
					if resp, err := retryhttp.Download(tt.ctx, p, client(base), req); err == nil {
						resp.Body.Close()
					}
				}
				if len(base.sent) != tt.requests || events.summary.Name != tt.run {
					t.Errorf("%d requests by the run %q, want %d by %q", len(base.sent), events.summary.Name, tt.requests, tt.run)
				}
			})
		}
	}
}

// Hooks.Start gets the policy that the user wrote, whatever the door knows besides.
func TestStartGetsTheUsersPolicy(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, door := range []string{"Transport", "JSON", "Download", "Download that goes on"} {
			t.Run(method+", "+door, func(t *testing.T) {
				if method == "POST" && door != "Transport" && door != "JSON" {
					t.Skip("Download makes no POST")
				}
				var got []retry.Policy
				p := retry.Policy{
					Name: "orders", MaxAttempts: 4, MaxElapsed: time.Hour, AttemptTimeout: time.Minute, Backoff: retry.Constant(time.Millisecond),
					ThrottleBackoff: retry.Constant(0), MaxRetryAfter: time.Second, Budget: &retry.EarnedBudget{}, Clock: virtual(),
				}
				p.Hooks.Start = func(ctx context.Context, p retry.Policy) context.Context { got = append(got, p); return ctx }
				base := tripper(func(req *http.Request) (*http.Response, error) {
					resp := answerOf(200, "{}")
					if door == "Download that goes on" && req.Header.Get("Range") == "" {
						resp.Header.Set("Etag", `"v1"`)
						resp.ContentLength = 10
					}
					resp.Request = req
					return resp, nil
				})
				req := request(t, method, "http://example.com/", nil)
				switch door {
				case "Transport":
					read(t, mustDo(t, &retryhttp.Transport{Base: base, Policy: p}, req))
				case "JSON":
					if _, err := retryhttp.JSON[user](t.Context(), p, client(base), req); err != nil {
						t.Fatal(err)
					}
				default:
					resp, err := retryhttp.Download(t.Context(), p, client(base), req)
					if err != nil {
						t.Fatal(err)
					}
					for buf := make([]byte, 10); err == nil; {
						_, err = resp.Body.Read(buf)
					}
					resp.Body.Close()
				}
				want := map[string]int{"Download that goes on": 2}[door]
				if len(got) != max(want, 1) {
					t.Fatalf("Start was called %d times, want %d", len(got), max(want, 1))
				}
				for _, got := range got {
					if got.Classify != nil || got.Rand != nil || got.Hooks.Attempt != nil || got.Hooks.AttemptDone != nil || got.Hooks.Wait != nil || got.Hooks.Done != nil {
						t.Errorf("Start got funcs that nobody has set: %+v", got)
					}
					got.Hooks, p.Hooks = retry.Hooks{}, retry.Hooks{}
					if !reflect.DeepEqual(got, p) {
						t.Errorf("Start got %+v, want %+v", got, p)
					}
				}
			})
		}
	}
}

// A type of this package is not what telemetry calls an error.
func TestErrorTypeIsTheCode(t *testing.T) {
	for code, word := range map[int]string{404: "true", 409: "", 503: "false"} {
		base := &answers{codes: []int{code}, header: http.Header{"X-Should-Retry": {word}}}
		req := request(t, "GET", "http://example.com/", nil)
		req.Header.Set("Idempotency-Key", "k")
		_, err := retryhttp.JSON[user](t.Context(), quick, client(base), req)
		e, _ := errors.AsType[*retry.Error](err)
		typed, ok := e.Last().(interface{ ErrorType() string })
		if !ok || typed.ErrorType() != strconv.Itoa(code) {
			t.Errorf("%d: a %T whose ErrorType is %v", code, e.Last(), typed)
		}
	}
}

// What a response proves is in the run's error, for the run around it.
func TestProofIsInTheError(t *testing.T) {
	for _, tt := range []struct {
		name   string
		base   http.RoundTripper
		undone bool
	}{
		{"429 and a time", &answers{codes: []int{429}, header: http.Header{"Retry-After-Ms": {"1"}}}, true},
		{"429 and a time that has come", &answers{codes: []int{429}, header: http.Header{"Retry-After": {"0"}}}, true},
		{"429", &answers{codes: []int{429}}, false},
		{"503 and a time", &answers{codes: []int{503}, header: http.Header{"Retry-After-Ms": {"1"}}}, false},
		{"421", &answers{codes: []int{421}}, true},
		{"421, then 503", &answers{codes: []int{421, 503}}, false},
		{"an error that calls itself undone", tripper(func(*http.Request) (*http.Response, error) { return nil, retry.Undone(errReset) }), true},
		{"an error that says nothing", tripper(func(*http.Request) (*http.Response, error) { return nil, errReset }), false},
		{"a mark of After", tripper(func(*http.Request) (*http.Response, error) { return nil, retry.After(errReset, time.Millisecond) }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := retryhttp.JSON[user](t.Context(), quick, client(tt.base), request(t, "GET", "http://example.com/", nil))
			e := wantReason(t, err, retry.ReasonMaxAttempts)
			if e.Undone != tt.undone {
				t.Errorf("Undone: %v of %v", e.Undone, e)
			}
		})
	}
}
