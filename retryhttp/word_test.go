package retryhttp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

// What a server says about a retry, in each way of saying it.
var words = []struct {
	header http.Header
	want   string // "yes", "no" or ""
}{
	{http.Header{}, ""},
	{http.Header{"X-Should-Retry": {"false"}}, "no"},
	{http.Header{"X-Should-Retry": {"true"}}, "yes"},
	{http.Header{"X-Should-Retry": {" FALSE\t"}}, "no"},
	{http.Header{"X-Should-Retry": {"True "}}, "yes"},
	{http.Header{"X-Should-Retry": {"0", "", "no", "true, false", "falsehood"}}, ""},
	{http.Header{"X-Should-Retry": {"true", "false"}}, "no"},
	{http.Header{"X-Should-Retry": {"never", "true"}}, "yes"},
	{http.Header{"Stripe-Should-Retry": {"false"}}, "no"},
	{http.Header{"Stripe-Should-Retry": {"maybe", "true"}}, "yes"},
	{http.Header{"Stripe-Should-Retry": {"false"}, "X-Should-Retry": {"true"}}, "no"},
	{http.Header{"Stripe-Should-Retry": {"true"}, "X-Should-Retry": {"false"}}, "no"},
	{http.Header{"X-Envoy-Overloaded": {"true"}}, "no"},
	{http.Header{"X-Envoy-Overloaded": {""}, "X-Should-Retry": {"true"}}, "no"},
	{http.Header{"X-Envoy-Overloaded": {"false"}}, "no"},
	{http.Header{"X-Envoy-Ratelimited": {"true"}}, ""},
	{http.Header{"X-Envoy-Ratelimited": {"true"}, "X-Should-Retry": {"true"}}, "yes"},
}

// Each word with each kind of status and request.
func TestServersWordOnARetry(t *testing.T) {
	const (
		answer = iota // nothing would help
		safe          // the server has done nothing
		maybe         // it may have
	)
	for _, tt := range []struct {
		code   int
		header http.Header
		keyed  bool
		kind   int
	}{
		{200, nil, false, answer}, {204, nil, false, answer}, {304, nil, false, answer}, {400, nil, false, answer}, {403, nil, false, answer},
		{404, nil, false, answer}, {409, nil, false, answer}, {409, nil, true, maybe}, {501, nil, false, answer}, {505, nil, false, answer},
		{408, nil, false, maybe}, {425, nil, false, maybe}, {421, nil, false, safe}, {429, nil, false, maybe},
		{500, nil, false, maybe}, {502, nil, false, maybe}, {503, nil, false, maybe}, {504, nil, false, maybe}, {529, nil, false, maybe}, {599, nil, false, maybe},
		{503, http.Header{"Retry-After": {"1"}}, false, maybe}, {529, http.Header{"Retry-After": {"0"}}, false, maybe},
		{429, http.Header{"Retry-After": {"1"}}, false, safe}, {429, http.Header{"Retry-After": {"0"}}, false, safe},
		{403, http.Header{"Retry-After": {"1"}}, false, safe}, {403, http.Header{"Retry-After": {"0"}}, false, safe},
	} {
		for _, w := range words {
			for _, method := range []string{"GET", "POST"} {
				repeatable := method == "GET" || tt.keyed
				requests, reason := 1, retry.ReasonNone
				switch {
				case tt.kind != answer && w.want == "no":
					reason = retry.ReasonRefused
				case tt.kind == safe, tt.kind == maybe && repeatable, tt.code >= 400 && w.want == "yes" && repeatable:
					requests, reason = 3, retry.ReasonMaxAttempts
				case tt.kind == maybe, tt.code >= 400 && w.want == "yes":
					reason = retry.ReasonNotIdempotent
				}
				h := retrytest.New(t, retry.Policy{})
				base := &answers{codes: []int{tt.code}, header: w.header.Clone()}
				for name, v := range tt.header {
					base.header[name] = v
				}
				req := request(t, method, "http://example.com/", nil)
				if tt.keyed {
					req.Header.Set("Idempotency-Key", "k")
				}
				resp, err := (&retryhttp.Transport{Base: base, Policy: h.Policy}).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s, %d %v, %v", method, tt.code, tt.header, w.header)
				if body := read(t, resp); body != fmt.Sprintf("answer %d", requests) && tt.code != 204 || len(base.sent) != requests {
					t.Errorf("%s: %d requests, body %q, want %d", what, len(base.sent), body, requests)
				}
				e := whyEnded(resp)
				if got := h.Summary().Reason; got != reason || (e == nil) != (reason == retry.ReasonNone) || e != nil && e.Reason != reason {
					t.Errorf("%s: hooks were told %v, GaveUp is %v, want %v", what, got, e, reason)
				}
				if e != nil && strings.HasSuffix(e.Last().Error(), ", do not retry") != (reason == retry.ReasonRefused) {
					t.Errorf("%s: error %v", what, e.Last())
				}
				if base.open.Load() != 0 {
					t.Errorf("%s: %d bodies are open", what, base.open.Load())
				}
			}
		}
	}
}

// A refused retry is a failure to budgets and hooks, not a success.
func TestRefusalIsAFailure(t *testing.T) {
	budget := &budget.Token{}
	for budget.Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: 1}) {
	}
	empty := budget.Balance()
	p, events := recorded(quick)
	p.Budget = budget
	rt := &retryhttp.Transport{Policy: p, Base: &answers{codes: []int{503}, header: http.Header{"Stripe-Should-Retry": {"false"}}}}
	for range 50 {
		resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil))
		wantReason(t, retryhttp.GaveUp(resp), retry.ReasonRefused)
		if a := events.attempts[len(events.attempts)-1]; a.Class != retry.Permanent || a.Err == nil || events.summary.Reason != retry.ReasonRefused {
			t.Errorf("hooks were told %+v and %+v", a, events.summary)
		}
	}
	if got := budget.Balance(); got > empty {
		t.Errorf("50 refusals have filled the budget from %v to %v", empty, got)
	}
	_, err := retryhttp.JSON[user](t.Context(), p, client(rt.Base), request(t, "GET", "http://example.com/", nil))
	e := wantReason(t, err, retry.ReasonRefused)
	if want := "GET http://example.com/: 503 Service Unavailable, do not retry"; e.Last().Error() != want || len(e.Errs) != 1 {
		t.Errorf("JSON's error is %q, want %q", e.Last(), want)
	}
	if _, ok := e.Last().(*retryhttp.StatusError); !ok {
		t.Errorf("JSON's error is a %T, want a *StatusError without a mark", e.Last())
	}
	rt.Base = &answers{codes: []int{404}, header: http.Header{"X-Should-Retry": {"false"}}}
	_, err = retryhttp.JSON[user](t.Context(), quick, client(rt), request(t, "GET", "http://example.com/", nil))
	if wantReason(t, err, retry.ReasonPermanent); strings.Contains(err.Error(), "do not retry") {
		t.Errorf("JSON's error of a 404 is %v", err)
	}
	if resp, err := retryhttp.Download(t.Context(), quick, client(&answers{codes: []int{503}, header: http.Header{"X-Should-Retry": {"false"}}}),
		request(t, "GET", "http://example.com/", nil)); err != nil || whyEnded(resp).Reason != retry.ReasonRefused {
		t.Errorf("Download: %v, %v", resp, err)
	}
}

// JSON takes a redirect that it does not follow for an answer, whatever the server says.
func TestWordOfARedirectCountsForNothing(t *testing.T) {
	base := &answers{codes: []int{304}, header: http.Header{"X-Should-Retry": {"true"}}}
	_, err := retryhttp.JSON[user](t.Context(), quick, client(base), request(t, "GET", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonPermanent)
	if len(base.sent) != 1 {
		t.Errorf("%d requests, want 1", len(base.sent))
	}
}

// Marks and Classify go before the server's word, and that before an error of Check without one.
func TestCheckAndClassifyGoBeforeTheWord(t *testing.T) {
	says := func(c retry.Class) retry.Classifier { return func(error) retry.Class { return c } }
	for _, tt := range []struct {
		name, word string
		code       int
		classify   retry.Classifier
		check      error
		want       retry.Reason
	}{
		{"Check of a yes", "true", 503, nil, retry.Stop(io.ErrNoProgress), retry.ReasonPermanent},
		{"Check of a no", "false", 503, nil, io.ErrNoProgress, retry.ReasonRefused},
		{"a mark of Check, of a no", "false", 503, nil, retry.After(io.ErrNoProgress, 0), retry.ReasonMaxAttempts},
		{"Classify of Check's error and a no", "false", 503, says(retry.Transient), io.ErrNoProgress, retry.ReasonMaxAttempts},
		{"Check of a no for what is no answer", "false", 200, nil, io.ErrNoProgress, retry.ReasonRefused},
		{"Check of a yes for a bad body", "true", 404, nil, &json.SyntaxError{}, retry.ReasonMaxAttempts},
		{"Classify of a no", "false", 503, says(retry.Transient), nil, retry.ReasonMaxAttempts},
		{"Classify of a no, for an answer", "false", 503, says(retry.Permanent), nil, retry.ReasonNone},
		{"Classify of a yes", "true", 404, says(retry.Permanent), nil, retry.ReasonNone},
		{"Classify without an opinion on a no", "false", 503, says(retry.Unknown), nil, retry.ReasonRefused},
		{"Classify without an opinion on a yes", "true", 404, says(retry.Unknown), nil, retry.ReasonMaxAttempts},
		{"Classify with a class that there is not", "false", 503, says(retry.Unprocessed + 1), nil, retry.ReasonRefused},
	} {
		p := quick
		p.Classify = tt.classify
		rt := &retryhttp.Transport{Policy: p, Check: func(*http.Response) error { return tt.check },
			Base: &answers{codes: []int{tt.code}, header: http.Header{"X-Should-Retry": {tt.word}}}}
		e := whyEnded(mustDo(t, rt, request(t, "GET", "http://example.com/", nil)))
		if tt.want == retry.ReasonNone {
			if e != nil {
				t.Errorf("%s: %v, want an answer", tt.name, e)
			}
			continue
		}
		if e == nil || e.Reason != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, e, tt.want)
		}
	}
}

// A copy whose server refuses a retry does not end the other copy, which may be at
// another server.
func TestRefusalInARace(t *testing.T) {
	for name, tt := range map[string]struct {
		plan []copyOf
		want string
		gave bool
	}{
		"the first refused, the second answers": {[]copyOf{{200, 503, "no", nil}, {300, 200, "yes", nil}}, "yes", false},
		"the second refused, the first answers": {[]copyOf{{400, 200, "yes", nil}, {100, 503, "no", nil}}, "yes", false},
		"both refused":                          {[]copyOf{{200, 503, "no", nil}, {300, 503, "no, too", nil}}, "no, too", true},
		"one refused, the other breaks off":     {[]copyOf{{200, 503, "no", nil}, {300, 0, "", errReset}}, "no", true},
		"one breaks off, the other refused":     {[]copyOf{{200, 0, "", errReset}, {300, 503, "no", nil}}, "no", true},
		"one refused, the other fails":          {[]copyOf{{200, 503, "no", nil}, {300, 500, "perhaps", nil}}, "no", true},
		"one fails, the other refused":          {[]copyOf{{200, 500, "perhaps", nil}, {300, 503, "no", nil}}, "no", true},
		"the hedge refused, the first fails":    {[]copyOf{{400, 500, "perhaps", nil}, {100, 503, "no", nil}}, "no", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for i := range tt.plan {
					tt.plan[i].after *= time.Millisecond
				}
				base := &copies{plan: tt.plan}
				rt := &retryhttp.Transport{Hedge: func(string) *hedge.Hedge { return &hedge.Hedge{Delay: 100 * time.Millisecond} },
					Base: tripper(func(req *http.Request) (*http.Response, error) {
						resp, err := base.RoundTrip(req)
						if resp != nil && resp.StatusCode == 503 {
							resp.Header.Set("X-Should-Retry", "false")
						}
						return resp, err
					})}
				resp := mustDo(t, rt, request(t, "GET", "http://example.com/", nil))
				e := whyEnded(resp)
				if body := read(t, resp); body != tt.want || (e != nil) != tt.gave || len(base.sent) != 2 {
					t.Errorf("body %q, GaveUp %v, %d copies, want %q, %v and two", body, e, len(base.sent), tt.want, tt.gave)
				}
				if e != nil && e.Reason != retry.ReasonRefused {
					t.Errorf("GaveUp: %v, want refused", e)
				}
				for _, b := range base.bodies {
					b.wantClosedOnce(t)
				}
			})
		})
	}
}

// A server that names a time has done nothing, also if that time is now. If it asks for that time,
// the run does not wait. The reset of a limit asks for nothing.
func TestTimeThatHasComeIsATime(t *testing.T) {
	date := "Sun, 01 Mar 2026 12:00:00 GMT" // 1772366400
	reset := func(at string) http.Header {
		return http.Header{"Date": {date}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {at}}
	}
	for _, tt := range []struct {
		code   int
		header http.Header
		class  retry.Class
		want   int // requests, of a POST
		now    bool
	}{
		{429, http.Header{"Retry-After": {"0"}}, retry.Throttled, 3, true},
		{429, http.Header{"Retry-After-Ms": {"0.0"}}, retry.Throttled, 3, true},
		{429, http.Header{"Date": {date}, "Retry-After": {date}}, retry.Throttled, 3, true},
		{403, http.Header{"Retry-After": {"0"}}, retry.Throttled, 3, true},
		{403, reset("1772366400"), retry.Throttled, 3, false},
		{403, reset("1772366399"), retry.Throttled, 3, false},
		{403, reset("1772366399"), retry.Throttled, 3, false},
		{429, reset("1772366399"), retry.Throttled, 3, false},
		{403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"soon"}}, retry.Permanent, 1, false},
		{403, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"0"}}, retry.Permanent, 1, false},
		{403, http.Header{"Retry-After": {"-1"}}, retry.Permanent, 1, false},
		{429, http.Header{"Retry-After": {"-1"}}, retry.Throttled, 1, false},
		{503, http.Header{"Retry-After": {"0"}}, retry.Transient, 1, true},
		{529, http.Header{"Retry-After": {"0"}}, retry.Throttled, 1, true},
		{529, http.Header{"Retry-After": {"1"}}, retry.Throttled, 1, false},
	} {
		for _, classify := range []retry.Classifier{nil, func(error) retry.Class { return retry.Unknown }} {
			h := retrytest.New(t, retry.Policy{Backoff: retry.Constant(time.Second), ThrottleBackoff: retry.Constant(time.Minute), Classify: classify})
			rt := &retryhttp.Transport{Policy: h.Policy, Base: &answers{codes: []int{tt.code}, header: tt.header}}
			mustDo(t, rt, request(t, "POST", "http://example.com/", nil))
			var delays []time.Duration
			switch {
			case tt.want == 3 && tt.now:
				delays = []time.Duration{0, 0}
			case tt.want == 3:
				delays = []time.Duration{time.Minute, time.Minute} // the backoff alone
			}
			h.AssertDelays(delays...)
			a := h.Attempts()[0]
			if a.Err == nil && tt.class == retry.Permanent {
				continue // an answer
			}
			if a.Class != tt.class || a.Hint != 0 && tt.code != 529 || a.Now != tt.now || len(h.Attempts()) != tt.want {
				t.Errorf("%d %v: %v with a hint of %v, now: %v, %d attempts, want %v and %d", tt.code, tt.header, a.Class, a.Hint, a.Now, len(h.Attempts()), tt.class, tt.want)
			}
		}
	}
}
