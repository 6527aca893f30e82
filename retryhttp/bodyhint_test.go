package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestBodyHint(t *testing.T) {
	google := `[{"error": {"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}]}}]`
	for _, tt := range []struct {
		name, body string
		status     int
		header     []string
		want       time.Duration // -1: none
	}{
		{"Google's", google, 429, nil, 7500 * time.Millisecond},
		{"Google's, without the list", google[1 : len(google)-1], 429, nil, 7500 * time.Millisecond},
		{"Discord's", `{"message": "You are being rate limited.", "retry_after": 1.336, "global": false}`, 429, nil, 1336 * time.Millisecond},
		{"Telegram's", `{"ok": false, "parameters": {"retry_after": 35}}`, 429, nil, 35 * time.Second},
		{"camel case, as a text", `{"error": {"retryAfter": "3"}}`, 503, nil, 3 * time.Second},
		{"none to wait", `{"retry_after": 0}`, 429, nil, 0},
		{"after a header", google, 429, []string{"Retry-After", "2"}, 2 * time.Second},
		{"after a limit's header", google, 429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4"}, 4 * time.Second},
		{"beside a limit's header that a 503 does not mean", google, 503, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4"}, 7500 * time.Millisecond},
		{"of a success", google, 200, nil, -1},
		{"negative", `{"retry_after": -1}`, 429, nil, -1},
		{"too long for a Duration", `{"retry_after": 1e300}`, 429, nil, math.MaxInt64},
		{"too long for a float", `{"retry_after": 1e400}`, 429, nil, math.MaxInt64},
		{"too long, as a text", `{"retry_after": "9223372037"}`, 503, nil, math.MaxInt64},
		{"too long, as Google has it", `{"error": {"details": [{"retryDelay": "315576000000s"}]}}`, 429, nil, math.MaxInt64},
		{"the longest", `{"retry_after": 9223372036.854775807}`, 429, nil, math.MaxInt64},
		{"to the nanosecond", `{"retry_after": 0.000000001}`, 429, nil, 1},
		{"less than a nanosecond", `{"error": {"details": [{"retryDelay": "0.0000000001s"}]}}`, 429, nil, 1},
		{"with a fraction that no float has", `{"retry_after": 4.035}`, 429, nil, 4035 * time.Millisecond},
		{"long, to the nanosecond", `{"retry_after": 31536000.123456789}`, 429, nil, 365*24*time.Hour + 123456789},
		{"with an exponent", `{"retry_after": 1.5e1}`, 429, nil, 15 * time.Second},
		{"in units", `{"error": {"retry_after": "1m30s"}}`, 429, nil, 90 * time.Second},
		{"Infura's", `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "message": "daily request count exceeded, request rate limited", "data": {"rate": {"allowed_rps": 1, "backoff_seconds": 30, "current_rps": 1.43}, "see": "https://infura.io/dashboard"}}}`, 429, nil, 30 * time.Second},
		{"of a batch of JSON-RPC", `[{"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "data": {"rate": {"backoff_seconds": 24.5}}}}]`, 429, nil, 24500 * time.Millisecond},
		{"of JSON-RPC, directly", `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "data": {"backoff_seconds": 3}}}`, 429, nil, 3 * time.Second},
		{"of JSON-RPC, the longest", `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "data": {"second": {"retry_after": 1}, "minute": {"retry_after": 30}, "hour": {}}}}`, 429, nil, 30 * time.Second},
		{"of JSON-RPC, a text", `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "data": "retry_after: 3"}}`, 429, nil, -1},
		{"of a model that loads", `{"error": "Model gpt2 is currently loading", "estimated_time": 20.0}`, 503, nil, 20 * time.Second},
		{"an estimated time of another status", `{"error": "busy", "estimated_time": 20.0}`, 429, nil, -1},
		{"an estimated time deeper", `{"error": {"estimated_time": 20.0}}`, 503, nil, -1},
		{"an estimated time in a list", `[{"estimated_time": 20.0}]`, 503, nil, -1},
		{"a wait beside an estimated time", `{"estimated_time": 20.0, "retry_after": 3}`, 503, nil, 3 * time.Second},
		{"of GraphQL", `{"errors": [{"message": "no"}, {"extensions": {"code": "COMPLEXITY_BUDGET_EXHAUSTED", "retry_in_seconds": 17}}]}`, 429, nil, 17 * time.Second},
		{"garbled", `{"retry_after": "soon"}`, 429, nil, -1},
		{"an epoch", fmt.Sprintf(`{"retry_after": %d}`, time.Now().Add(-time.Hour).Unix()), 429, nil, 0},
		{"a date", `{"error": {"retryAfter": "Sun, 1 Mar 2020 12:00:00 +0000"}}`, 429, nil, 0},
		{"a date of RFC 3339", `{"retry_after": "2020-03-01T12:00Z"}`, 429, nil, 0},
		{"elsewhere", `{"data": {"retry_after": 1}}`, 429, nil, -1},
		{"of the lowest status", `{"retry_after": 1}`, 400, nil, time.Second},
		{"below the lowest status", `{"retry_after": 1}`, 399, nil, -1},
		{"of a rate limit of Google's, with no wait", `{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}`, 403, nil, -1}, // it is one: see TestBodyHintOfGooglesReasons
		{"of two rate limits of Google's", `[{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}, {}]`, 403, nil, -1},
		{"an empty list", `[]`, 403, nil, -1},
		{"four lists deep", `[[[[{"retry_after": 1}]]]]`, 429, nil, time.Second},
		{"five lists deep", `[[[[[{"retry_after": 1}]]]]]`, 429, nil, -1},
		{"four objects deep", `{"error": {"error": {"error": {"error": {"retry_after": 1}}}}}`, 429, nil, time.Second},
		{"five objects deep", `{"error": {"error": {"error": {"error": {"error": {"retry_after": 1}}}}}}`, 429, nil, -1},
		{"of JSON-RPC, two lists deep", `{"error": {"data": [[{"retry_after": 1}]]}}`, 429, nil, time.Second},
		{"of JSON-RPC, three lists deep", `{"error": {"data": [[[{"retry_after": 1}]]]}}`, 429, nil, -1},
		{"of JSON-RPC, a list deep below a name", `{"error": {"data": {"rate": [{"retry_after": 1}]}}}`, 429, nil, time.Second},
		{"of JSON-RPC, two lists deep below a name", `{"error": {"data": {"rate": [[{"retry_after": 1}]]}}}`, 429, nil, -1},
		{"no JSON", "<html>", 429, nil, -1},
		{"nothing", "", 429, nil, -1},
		{"too large", `{"retry_after": 1, "x": "` + strings.Repeat("x", 64<<10) + `"}`, 429, nil, -1},
	} {
		resp := response(nil, tt.status, tt.body, tt.header...)
		if err := retryhttp.BodyHint(resp); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if text, err := io.ReadAll(resp.Body); string(text) != tt.body || err != nil {
			t.Errorf("%s: the body is %.100q, %v", tt.name, text, err)
		}
		wait, ok := retryhttp.ParseRetryAfter(resp.Header, time.Now())
		if ok != (tt.want >= 0) || ok && wait != tt.want {
			t.Errorf("%s: wait %v, %v, want %v", tt.name, wait, ok, tt.want)
		}
	}
	broken := response(nil, 429, "")
	broken.Body = io.NopCloser(iotest.TimeoutReader(strings.NewReader(`{"retry`))) // which says so once, and EOF then
	if err := retryhttp.BodyHint(broken); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(broken.Body); string(text) != `{"retry` || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a broken body is %q, %v", text, err)
	}
	for _, resp := range []*http.Response{{StatusCode: 429}, {StatusCode: 429, Body: io.NopCloser(strings.NewReader(`{"retry_after": 1}`))}} {
		if err := retryhttp.BodyHint(resp); err != nil {
			t.Error(err)
		}
	}
}

// Each thousandth of a second is read exactly.
func TestBodyHintIsExact(t *testing.T) {
	for ms := range 1000 {
		for _, body := range []string{`{"retry_after": %d.%03d}`, `{"error": {"details": [{"retryDelay": "%d.%03ds"}]}}`} {
			resp := response(nil, 429, fmt.Sprintf(body, ms%7, ms))
			retryhttp.BodyHint(resp)
			want := time.Duration(ms%7)*time.Second + time.Duration(ms)*time.Millisecond
			if wait, ok := retryhttp.ParseRetryAfter(resp.Header, time.Now()); wait != want || !ok {
				t.Errorf(body+": %v, %v, want %v", ms%7, ms, wait, ok, want)
			}
		}
	}
}

// A wait that no Duration can hold ends the run, as one of a header does.
func TestBodyHintOfAgesEndsTheRun(t *testing.T) {
	for _, body := range []string{`{"retry_after": 9223372037}`, `{"retry_after": 1e300}`, `{"error": {"details": [{"retryDelay": "315576000000s"}]}}`} {
		requests := 0
		client := &http.Client{Transport: &retryhttp.Transport{Check: retryhttp.BodyHint, Policy: retry.Policy{Backoff: retry.Constant(0)},
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				requests++
				return response(req, 429, body), nil
			})}}
		resp, err := client.Get("http://model.example/")
		if err != nil {
			t.Fatal(err)
		}
		if why := whyEnded(resp); requests != 1 || why == nil || why.Reason != retry.ReasonRetryAfter {
			t.Errorf("%s: %d requests, %v, want 1 that ended by the wait", body, requests, why)
		}
	}
}

// Google's APIs answer 403 to requests above a rate limit, and to those above limits that
// last (developers.google.com/workspace/drive/api/guides/handle-errors).
func TestBodyHintOfGooglesReasons(t *testing.T) {
	const body = `{"error": {"code": 403, "message": "no", "errors": [{"domain": "usageLimits", "reason": "%s", "message": "no"}]}}`
	for reason, attempts := range map[string]int{"rateLimitExceeded": 3, "userRateLimitExceeded": 3, "dailyLimitExceeded": 1, "dailyLimitExceededUnreg": 1,
		"userRateLimitExceededUnreg": 1, "quotaExceeded": 1, "storageQuotaExceeded": 1, "sharingRateLimitExceeded": 1, "insufficientPermissions": 1,
		"insufficientFilePermissions": 1, "appNotAuthorizedToFile": 1, "accessNotConfigured": 1, "domainPolicy": 1, "forbidden": 1, "": 1} {
		for _, text := range []string{fmt.Sprintf(body, reason), "[" + fmt.Sprintf(body, reason) + "]"} {
			requests := 0
			var classes []retry.Class
			client := &http.Client{Transport: &retryhttp.Transport{Check: retryhttp.BodyHint,
				Policy: retry.Policy{Backoff: retry.Constant(0), Hooks: retry.Hooks{Wait: func(_ context.Context, a retry.Attempt) {
					classes = append(classes, a.Class)
					if a.Now { // nobody has said so
						t.Errorf("%s: a retry at once", reason)
					}
				}}},
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					requests++
					req.Body.Close()
					return response(req, 403, text), nil
				})}}
			resp, err := client.Post("http://storage.example/", "application/json", strings.NewReader("{}"))
			if err != nil || resp.StatusCode != 403 || requests != attempts {
				t.Errorf("%s: %v, %v, %d requests, want %d", reason, resp, err, requests, attempts)
			}
			for _, class := range classes {
				if class != retry.Throttled {
					t.Errorf("%s: class %v", reason, class)
				}
			}
		}
	}
	for _, text := range []string{`{"error": {"errors": "rateLimitExceeded"}}`, `{"errors": [{"reason": "rateLimitExceeded"}]}`, `{"reason": "rateLimitExceeded"}`} {
		resp := response(nil, 403, text)
		retryhttp.BodyHint(resp)
		if retry.DefaultClassifier(retryhttp.Failure(resp)) != retry.Permanent {
			t.Errorf("%s counts as a rate limit", text)
		}
	}
	for _, text := range []string{`{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}`, `[{"error": {"errors": [{"reason": "userRateLimitExceeded"}]}}]`} {
		resp := response(nil, 403, text)
		retryhttp.BodyHint(resp)
		if v := (retry.Policy{}).Judge(retryhttp.Failure(resp)); v.Class != retry.Throttled || v.Hint != 0 || v.Now {
			t.Errorf("%s is %+v, want Throttled", text, v)
		}
	}
	resp := response(nil, 403, `{"error": {"errors": [{"reason": "rateLimitExceeded"}], "details": [{"retryDelay": "3s"}]}}`)
	retryhttp.BodyHint(resp)
	if wait, _ := retryhttp.ParseRetryAfter(resp.Header, time.Now()); wait != 3*time.Second {
		t.Errorf("with a wait: %v, want 3s", wait)
	}
}

// The wait of a body is the server's word on the attempt, for a POST too.
func TestBodyHintOfATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, requests := time.Now(), 0
		client := &http.Client{Transport: &retryhttp.Transport{
			Check:  retryhttp.BodyHint,
			Policy: retry.Policy{Backoff: retry.Constant(0), Rand: func() float64 { return 0 }},
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				if requests++; requests == 1 {
					return response(req, 429, `{"retry_after": 12.5}`), nil
				}
				return response(req, 200, ""), nil
			}),
		}}
		resp, err := client.Post("http://model.example/", "application/json", strings.NewReader("{}"))
		if err != nil || resp.StatusCode != 200 || time.Since(begin) != 12500*time.Millisecond {
			t.Errorf("%v, %v after %v", resp, err, time.Since(begin))
		}
	})
}

// A quota of money is not one of time. A run without BodyHint cannot tell them apart.
func TestBodyHintOfAQuotaThatIsSpent(t *testing.T) {
	for name, tt := range map[string]struct {
		body     string
		status   int
		header   string
		check    func(*http.Response) error
		requests int
		reason   retry.Reason
	}{
		"by its code":         {`{"error": {"message": "no", "type": "requests", "code": "insufficient_quota"}}`, 429, "", retryhttp.BodyHint, 1, retry.ReasonRefused},
		"by its type":         {`{"error": {"type": "insufficient_quota", "code": null}}`, 429, "", retryhttp.BodyHint, 1, retry.ReasonRefused},
		"without BodyHint":    {`{"error": {"code": "insufficient_quota"}}`, 429, "", nil, 3, retry.ReasonMaxAttempts},
		"another code":        {`{"error": {"code": "rate_limit_exceeded", "type": "requests"}}`, 429, "", retryhttp.BodyHint, 3, retry.ReasonMaxAttempts},
		"not in error":        {`{"code": "insufficient_quota"}`, 429, "", retryhttp.BodyHint, 3, retry.ReasonMaxAttempts},
		"a text":              {`{"error": "insufficient_quota"}`, 429, "", retryhttp.BodyHint, 3, retry.ReasonMaxAttempts},
		"of another status":   {`{"error": {"code": "insufficient_quota"}}`, 503, "", retryhttp.BodyHint, 3, retry.ReasonMaxAttempts},
		"beside a wait":       {`{"error": {"code": "insufficient_quota"}, "retry_after": 0.001}`, 429, "", retryhttp.BodyHint, 3, retry.ReasonMaxAttempts},
		"a header goes first": {`{"error": {"code": "insufficient_quota"}}`, 429, "1", retryhttp.BodyHint, 3, retry.ReasonMaxAttempts},
	} {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			if tt.header != "" {
				w.Header().Set("Retry-After-Ms", tt.header)
			}
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})
		rt := s.transport(quick)
		rt.Check = tt.check
		resp := mustDo(t, rt, request(t, "GET", s.URL, nil))
		e, ok := errors.AsType[*retry.Error](retryhttp.GaveUp(resp))
		if body := read(t, resp); body != tt.body || !ok || e.Reason != tt.reason {
			t.Errorf("%s: %q, %v, want the reason %v", name, body, e, tt.reason)
		}
		s.wantRequests(t, tt.requests)
	}
}
