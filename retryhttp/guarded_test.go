package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// busy answers each request with a status and a body.
func busy(status int) tripper {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("busy")), Request: req}, nil
	}
}

// The caller gets the last response even if it is a failure, and its place lasts as long as its
// body. Guards get it as a failure, once.
func TestLastFailureHoldsItsPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		policy retry.Policy
		hedged bool
		left   int // passes that were left when the response is there
	}{
		"the only attempt": {retry.Policy{MaxAttempts: 1}, false, 0},
		"the last of two":  {retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, false, 1},
		"no budget":        {retry.Policy{Budget: refusesAll{}}, false, 0},
		"no time":          {retry.Policy{MaxElapsed: 1, Backoff: retry.Constant(time.Second)}, false, 0},
		"a race":           {retry.Policy{MaxAttempts: 1}, true, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			guard := new(exits)
			tt.policy.Guards = []retry.Guard{guard}
			rt := &retryhttp.Transport{Base: busy(503), Policy: tt.policy}
			if tt.hedged {
				rt.Hedge = always(10 * time.Millisecond)
				rt.Base = tripper(func(req *http.Request) (*http.Response, error) {
					time.Sleep(20 * time.Millisecond)
					return busy(503)(req)
				})
			}
			resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil))
			if len(guard.left) != tt.left {
				t.Errorf("%s: %d passes are left before the body ends, want %d", name, len(guard.left), tt.left)
			}
			if got, _ := io.ReadAll(resp.Body); string(got) != "busy" || resp.StatusCode != 503 {
				t.Errorf("%s: %d %q", name, resp.StatusCode, got)
			}
			resp.Body.Close()
			if len(guard.left) != tt.left+1 {
				t.Errorf("%s: %d passes are left after the body, want %d", name, len(guard.left), tt.left+1)
			}
			for _, x := range guard.left {
				if x.Ending != retry.Returned || x.Verdict.Class != retry.Transient || x.Verdict.Err == nil {
					t.Errorf("%s: the guard got %+v", name, x)
				}
			}
		})
	}
}

// refusesAll is a budget that grants nothing.
type refusesAll struct{}

func (refusesAll) Withdraw(retry.Withdrawal) bool { return false }
func (refusesAll) End(retry.Outcome)              {}

// Both copies of a race are told by their own statuses and times, and expire at the attempt's.
func TestGuardsOfARaceGetEachCopy(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		plan []copyOf
		want []retry.Class
		took []time.Duration
	}{
		"429 and 503":         {[]copyOf{{50 * ms, 429, "", nil}, {20 * ms, 503, "", nil}}, []retry.Class{retry.Transient, retry.Throttled}, []time.Duration{20 * ms, 50 * ms}},
		"503, then 429":       {[]copyOf{{20 * ms, 503, "", nil}, {50 * ms, 429, "", nil}}, []retry.Class{retry.Transient, retry.Throttled}, []time.Duration{20 * ms, 50 * ms}},
		"an error and a 429":  {[]copyOf{{50 * ms, 429, "", nil}, {20 * ms, 0, "", errReset}}, []retry.Class{retry.Transient, retry.Throttled}, []time.Duration{20 * ms, 50 * ms}},
		"both take too long":  {[]copyOf{{time.Hour, 200, "", nil}, {time.Hour, 200, "", nil}}, []retry.Class{retry.TimedOut, retry.TimedOut}, []time.Duration{990 * ms, 1000 * ms}},
		"one is quick enough": {[]copyOf{{time.Hour, 200, "", nil}, {20 * ms, 404, "", nil}}, []retry.Class{retry.Unknown, retry.Unknown}, []time.Duration{20 * ms, 30 * ms}},
	} {
		synctest.Test(t, func(t *testing.T) {
			guard := new(exits)
			rt := &retryhttp.Transport{Hedge: always(10 * ms), Base: &copies{plan: tt.plan}, Policy: retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Guards: []retry.Guard{guard}}}
			resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
			if err == nil {
				read(t, resp)
			}
			slices.SortFunc(guard.left, func(a, b retry.Exit) int { return int(a.Took - b.Took) })
			var classes []retry.Class
			var took []time.Duration
			for i, x := range guard.left {
				classes, took = append(classes, x.Verdict.Class), append(took, x.Took)
				if x.Allowed != time.Second && x.Allowed != 990*ms || (x.Ending == retry.Expired) != (tt.want[i] == retry.TimedOut) {
					t.Errorf("%s: the guard got %+v", name, x)
				}
			}
			if !slices.Equal(classes, tt.want) || !slices.Equal(took, tt.took) {
				t.Errorf("%s: the guard got %v after %v, want %v after %v", name, classes, took, tt.want, tt.took)
			}
		})
	}
}

// The headers have a timeout of their own, which no context has: it is Expired all the same.
func TestGuardsGetAnAttemptTimeoutAsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := new(exits)
		hangs := tripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		})
		rt := &retryhttp.Transport{Base: hangs, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), AttemptTimeout: time.Second, Guards: []retry.Guard{guard}}}
		_, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil))
		_, err2 := retryhttp.JSON[any](t.Context(), rt.Policy, &http.Client{Transport: hangs}, request(t, "GET", "http://example.com/", nil))
		if err == nil || err2 == nil || len(guard.left) != 4 {
			t.Fatalf("%v, %v, the guard got %+v", err, err2, guard.left)
		}
		for _, x := range guard.left {
			if x.Ending != retry.Expired || x.Took != time.Second || x.Allowed != time.Second || x.Verdict.Class != retry.TimedOut {
				t.Errorf("the guard got %+v", x)
			}
		}
	})
}

// breaks is a guard whose Leave panics.
type breaks struct{ exits }

func (b *breaks) Leave(p retry.Pass, x retry.Exit) {
	b.exits.Leave(p, x)
	panic("guard")
}

// A guard that panics when the caller's context ends a body does so on a goroutine on which
// nobody can recover: the body's next method has the panic.
func TestGuardThatPanicsWhenABodyIsCanceled(t *testing.T) {
	for name, use := range map[string]func(io.ReadCloser){
		"Read":  func(body io.ReadCloser) { _, _ = io.ReadAll(body) },
		"Close": func(body io.ReadCloser) { body.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			guard := new(breaks)
			rt := &retryhttp.Transport{Base: busy(200), Policy: retry.Policy{Guards: []retry.Guard{guard}}}
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := rt.RoundTrip(request(t, "GET", "http://example.com/", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
			var recovered any
			func() {
				defer func() { recovered = recover() }()
				use(resp.Body)
			}()
			if len(guard.left) != 1 || guard.left[0].Ending != retry.Canceled || recovered != "guard" {
				t.Errorf("%s: recovered %v, the guard got %+v", name, recovered, guard.left)
			}
			resp.Body.Close() // once is enough
		})
	}
}

// A refusal uses up an attempt: then the body is not to blame that no retry follows.
func TestARefusalBeforeABodyThatCannotBeSentAgain(t *testing.T) {
	for refusals, want := range map[int]retry.Reason{0: retry.ReasonPermanent, 1: retry.ReasonPermanent, 2: retry.ReasonMaxAttempts} {
		guard := &refusingFirst{left: refusals}
		rt := &retryhttp.Transport{Base: busy(503), MaxBuffer: -1, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0), Guards: []retry.Guard{guard}}}
		rt.Base = tripper(func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			req.Body.Close()
			return busy(503)(req)
		})
		req := request(t, "PUT", "http://example.com/", io.MultiReader(bytes.NewReader([]byte("x"))))
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		e := whyEnded(resp)
		read(t, resp)
		if e == nil || e.Reason != want || errors.Is(e, retryhttp.ErrNotReplayable) != (want == retry.ReasonPermanent) {
			t.Errorf("after %d refusals: %v, want %v", refusals, e, want)
		}
	}
}

// refusingFirst refuses so many attempts.
type refusingFirst struct{ left int }

func (r *refusingFirst) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if r.left > 0 {
		r.left--
		return retry.Pass{}, errors.New("full")
	}
	return retry.Pass{}, nil
}
func (*refusingFirst) Leave(retry.Pass, retry.Exit) {}

// What guards cost a response with a body that is held.
func TestHeldBodyAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := request(t, "GET", "http://example.com/", nil).WithContext(ctx)
	measure := func(rt http.RoundTripper) float64 {
		return testing.AllocsPerRun(1000, func() { resp, _ := rt.RoundTrip(req); read(t, resp) })
	}
	plain := &retryhttp.Transport{Base: busy(200)}
	paced := &retryhttp.Transport{Base: busy(200), Policy: retry.Policy{Budget: &budget.Token{}, Guards: []retry.Guard{new(pace.Pace)}}}
	if got := measure(paced) - measure(plain); got > 6 {
		t.Errorf("a pace costs %v allocations, want at most 6", got)
	}
}

// A redirect to another host passes the guards of that host too, once, and each until its body
// has ended.
func TestRedirectsPassTheGuardsOfTheirHost(t *testing.T) {
	type want struct{ first, second, shared int } // how often each admits
	for name, tt := range map[string]struct {
		to     string
		status int // of the redirect's target
		edit   func(retry.Policy) retry.Policy
		want   want
	}{
		"another host":             {"http://second.example/", 200, nil, want{1, 1, 1}},
		"the same host":            {"http://first.example/b", 200, nil, want{1, 0, 1}},
		"a failure":                {"http://second.example/", 503, nil, want{1, 1, 1}},
		"an edit without guards":   {"http://second.example/", 200, func(p retry.Policy) retry.Policy { p.Guards = nil; return p }, want{0, 0, 0}},
		"another host, a download": {"http://second.example/", 200, nil, want{1, 1, 1}},
	} {
		var first, second, shared porter
		rt := &retryhttp.Transport{
			Guards: func(req *http.Request) []retry.Guard {
				if req.URL.Host == "first.example" {
					return []retry.Guard{&first, &shared}
				}
				return []retry.Guard{&second, &shared}
			},
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				if req.URL.String() == "http://first.example/" {
					return &http.Response{StatusCode: 302, Header: http.Header{"Location": {tt.to}}, Body: http.NoBody, Request: req}, nil
				}
				if strings.Contains(tt.to, "second") && tt.edit == nil {
					second.wantInside(t, 1, name)
				}
				return &http.Response{StatusCode: tt.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
			}),
		}
		ctx, c := t.Context(), &http.Client{Transport: rt}
		if tt.edit != nil {
			ctx = retryhttp.WithPolicy(ctx, tt.edit)
		}
		p, req := retry.Policy{MaxAttempts: 1}, request(t, "GET", "http://first.example/", nil)
		var err error
		if strings.Contains(name, "download") {
			var resp *http.Response
			if resp, err = retryhttp.Download(ctx, p, c, req); err == nil {
				read(t, resp)
			}
		} else {
			_, err = retryhttp.JSON[any](ctx, p, c, req)
		}
		got := want{len(first.entered), len(second.entered), len(shared.entered)}
		if (err == nil) != (tt.status == 200) || got != tt.want || first.inside+second.inside+shared.inside != 0 {
			t.Errorf("%s: %v, the guards admitted %+v, want %+v; inside are %d, %d and %d", name, err, got, tt.want, first.inside, second.inside, shared.inside)
		}
		if tt.want.second > 0 {
			if failed := strings.HasPrefix(second.left[0], "returned transient"); failed != (tt.status == 503) {
				t.Errorf("%s: the second host's guard got %q", name, second.left)
			}
		}
	}
}

// funcGuard is a guard that cannot be compared.
type funcGuard func()

func (f funcGuard) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	f()
	return retry.Pass{}, nil
}
func (funcGuard) Leave(retry.Pass, retry.Exit) {}

// A guard that cannot be compared is another one.
func TestRedirectsPassGuardsThatAreFuncs(t *testing.T) {
	entered := map[string]int{}
	rt := &retryhttp.Transport{
		Guards: func(req *http.Request) []retry.Guard {
			return []retry.Guard{funcGuard(func() { entered[req.URL.Host]++ })}
		},
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "first.example" {
				return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"http://second.example/"}}, Body: http.NoBody, Request: req}, nil
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
		}),
	}
	_, err := retryhttp.JSON[any](t.Context(), quick, &http.Client{Transport: rt}, request(t, "GET", "http://first.example/", nil))
	if err != nil || entered["first.example"] != 1 || entered["second.example"] != 1 {
		t.Errorf("%v, the guards admitted %v", err, entered)
	}
}

// Policy.Classify is not for the errors of guards, those of a redirect included.
func TestClassifyDoesNotGetARefusal(t *testing.T) {
	full := refusing{errors.New("full")}
	for name, guards := range map[string]func(*http.Request) []retry.Guard{
		"at once": func(*http.Request) []retry.Guard { return []retry.Guard{full} },
		"of a redirect": func(req *http.Request) []retry.Guard {
			if req.URL.Host == "first.example" {
				return nil
			}
			return []retry.Guard{full}
		},
	} {
		p := quick
		p.Classify = func(err error) retry.Class {
			t.Errorf("%s: Classify gets %v", name, err)
			return retry.Permanent
		}
		rt := &retryhttp.Transport{Guards: guards, Base: tripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"http://second.example/"}}, Body: http.NoBody, Request: req}, nil
		})}
		_, err := retryhttp.JSON[any](t.Context(), p, &http.Client{Transport: rt}, request(t, "GET", "http://first.example/", nil))
		if e, ok := errors.AsType[*retry.Error](err); !ok || e.Reason != retry.ReasonMaxAttempts && e.Reason != retry.ReasonGuard {
			t.Errorf("%s: %v, want all attempts", name, err)
		}
	}
}

// A redirect whose guard refuses it is not sent, and the attempt has failed.
func TestRedirectThatAGuardRefuses(t *testing.T) {
	sent := 0
	rt := &retryhttp.Transport{
		Guards: func(req *http.Request) []retry.Guard {
			if req.URL.Host == "first.example" {
				return nil
			}
			return []retry.Guard{refusing{retry.After(errReset, time.Hour)}}
		},
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"http://second.example/"}}, Body: http.NoBody, Request: req}, nil
		}),
	}
	_, err := retryhttp.JSON[any](t.Context(), retry.Policy{}, &http.Client{Transport: rt}, request(t, "GET", "http://first.example/", nil))
	if wantReason(t, err, retry.ReasonRetryAfter); sent != 1 || !errors.Is(err, errReset) {
		t.Errorf("%v after %d requests", err, sent)
	}
}

// The guards of a redirect's host get how the request to it has ended, and what it took.
func TestWhatTheGuardsOfARedirectGet(t *testing.T) {
	for name, tt := range map[string]struct {
		answer        func(*http.Request) (*http.Response, error)
		ending        retry.Ending
		class         retry.Class
		took, allowed time.Duration
	}{
		"an error": {func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return nil, errReset
		}, retry.Returned, retry.Transient, time.Second, time.Minute},
		"no body": {func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 204, Body: http.NoBody, Request: req}, nil
		}, retry.Returned, retry.Unknown, 0, time.Minute},
		"the deadline": {func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}, retry.Expired, retry.Unknown, time.Minute, time.Minute},
		"a panic": {func(*http.Request) (*http.Response, error) { panic("p") }, retry.Panicked, retry.Unknown, 0, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var second exits
			rt := &retryhttp.Transport{
				Guards: func(req *http.Request) []retry.Guard {
					if req.URL.Host == "first.example" {
						return nil
					}
					return []retry.Guard{&second}
				},
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					if req.URL.Host == "first.example" {
						return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"http://second.example/"}}, Body: http.NoBody, Request: req}, nil
					}
					return tt.answer(req)
				}),
			}
			func() {
				defer func() { _ = recover() }()
				p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Minute}
				_, err := retryhttp.JSON[any](t.Context(), p, &http.Client{Transport: rt}, request(t, "GET", "http://first.example/", nil))
				if name == "an error" && !errors.Is(err, errReset) {
					t.Errorf("the error is %v", err)
				}
			}()
			if len(second.left) != 1 {
				t.Fatalf("%s: %d exits, want 1", name, len(second.left))
			}
			x := second.left[0]
			if x.Ending != tt.ending || x.Verdict.Class != tt.class || x.Took != tt.took || x.Allowed != tt.allowed {
				t.Errorf("%s: %+v, want %v, %v after %v of %v", name, x, tt.ending, tt.class, tt.took, tt.allowed)
			}
		})
	}
}

// If JSON's attempt ends while it reads the body that a race has won, guards hear of that end.
func TestGuardsHearHowABodyOfARaceEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		caller time.Duration // its deadline
		ending retry.Ending
		class  retry.Class
	}{
		"the attempt's deadline": {time.Hour, retry.Expired, retry.TimedOut},
		"the caller's deadline":  {time.Second, retry.Expired, retry.Unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g exits
			h := &hedge.Hedge{Delay: time.Millisecond, Budget: &budget.Token{Cost: -1}}
			rt := &retryhttp.Transport{
				Hedge: func(string) *hedge.Hedge { return h },
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					time.Sleep(5 * time.Millisecond) // until then there are two
					body, w := io.Pipe()
					context.AfterFunc(req.Context(), func() { w.CloseWithError(errReset) })
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: req}, nil
				}),
			}
			ctx, cancel := context.WithTimeout(t.Context(), tt.caller)
			defer cancel()
			p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Minute, Guards: []retry.Guard{&g}}
			_, _ = retryhttp.JSON[any](ctx, p, &http.Client{Transport: rt}, request(t, "GET", "http://first.example/", nil))
			last := g.left[len(g.left)-1]
			if len(g.left) != 2 || last.Ending != tt.ending || last.Verdict.Class != tt.class {
				t.Errorf("%s: %+v, want %v and %v at last", name, g.left, tt.ending, tt.class)
			}
		})
	}
}

// Two races in one attempt, before and after a redirect, leave all that guards have admitted.
func TestRacesBesideARedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g porter
		h := &hedge.Hedge{Delay: time.Millisecond, Budget: &budget.Token{Cost: -1}}
		rt := &retryhttp.Transport{
			Hedge: func(string) *hedge.Hedge { return h },
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				time.Sleep(5 * time.Millisecond) // until then there are two
				if req.URL.Path == "/a" {
					return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/b"}}, Body: http.NoBody}, nil
				}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			}),
		}
		p := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{&g}}
		if _, err := retryhttp.JSON[any](t.Context(), p, &http.Client{Transport: rt}, request(t, "GET", "http://first.example/a", nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g.wantInside(t, 0, "after the attempt")
		if len(g.left) != 3 {
			t.Errorf("the guard is left with %q, want the attempt and two hedges", g.left)
		}
	})
}

// closed is a body that says that it was closed.
type closed struct {
	io.Reader
	yes *bool
}

func (c closed) Close() error { *c.yes = true; return nil }

// The body of a redirect that a guard refuses is closed, as a RoundTripper must.
func TestARefusedRedirectClosesItsBody(t *testing.T) {
	last := new(bool)
	req := request(t, "POST", "http://first.example/", strings.NewReader("x"))
	req.GetBody = func() (io.ReadCloser, error) {
		last = new(bool)
		return closed{strings.NewReader("x"), last}, nil
	}
	rt := &retryhttp.Transport{
		Guards: func(req *http.Request) []retry.Guard {
			if req.URL.Host == "first.example" {
				return nil
			}
			return []retry.Guard{refusing{retry.Stop(errReset)}}
		},
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"http://second.example/"}}, Body: http.NoBody, Request: req}, nil
		}),
	}
	_, err := retryhttp.JSON[any](t.Context(), retry.Policy{MaxAttempts: 1}, &http.Client{Transport: rt}, req)
	if !errors.Is(err, errReset) || !*last {
		t.Errorf("%v; the body is closed: %v", err, *last)
	}
}
