package retryhttp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestStatusErrorTexts(t *testing.T) {
	for want, e := range map[string]*retryhttp.StatusError{
		"GET http://h/p: 503 Service Unavailable":                 {Code: 503, Method: "GET", URL: "http://h/p"},
		"PUT http://h/p: 429 Too Many Requests, retry after 1.5s": {Code: 429, Method: "PUT", URL: "http://h/p", Hint: 1500 * time.Millisecond, Body: []byte("secret")},
		"503 Service Unavailable":                                 {Code: 503},
		"GET: 404 Not Found":                                      {Code: 404, Method: "GET"},
		"GET http://h/p: 599":                                     {Code: 599, Method: "GET", URL: "http://h/p"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error() = %q, want %q", got, want)
		}
	}
}

func TestStatusErrorIsClassifiedByTheCore(t *testing.T) {
	for code, want := range map[int]retry.Class{
		408: retry.Transient, 425: retry.Transient, 500: retry.Transient, 502: retry.Transient, 503: retry.Transient, 504: retry.TimedOut, 524: retry.TimedOut,
		429: retry.Throttled, 421: retry.Unprocessed, 400: retry.Permanent, 404: retry.Permanent, 409: retry.Permanent, 501: retry.Permanent, 505: retry.Permanent,
	} {
		if got := retry.DefaultClassifier(&retryhttp.StatusError{Code: code}); got != want {
			t.Errorf("%d is %v, want %v", code, got, want)
		}
	}
	e := &retryhttp.StatusError{Code: 429, Hint: time.Second}
	if got := retry.DefaultClassifier(e); got != retry.Throttled || e.StatusCode() != 429 || e.RetryAfter() != time.Second || e.ErrorType() != "429" {
		t.Errorf("429 with a hint is %v, want throttled", got)
	}
}

// Neither userinfo nor a value of the query gets into an error.
func TestURLIsRedacted(t *testing.T) {
	for raw, want := range map[string]string{
		"http://example.com/a/b":                        "http://example.com/a/b",
		"http://user:secret@example.com:8080/a%2Fb":     "http://example.com:8080/a%2Fb",
		"http://secret@example.com/":                    "http://example.com/",
		"http://example.com/?key=secret&b=&c=secret2":   "http://example.com/?key=REDACTED&b=REDACTED&c=REDACTED",
		"http://example.com/?secret":                    "http://example.com/?REDACTED",
		"http://example.com/?a=secret;b=secret#secret":  "http://example.com/?a=REDACTED",
		"http://example.com/?a=secret=secret&&%zz=%zzz": "http://example.com/?a=REDACTED&REDACTED&%zz=REDACTED",
	} {
		req := request(t, "", raw, nil)
		p, events := recorded(quick)
		rt := &retryhttp.Transport{Policy: p, Base: tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		})}
		if _, err := rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		e, ok := errors.AsType[*retryhttp.StatusError](events.summary.Err)
		if !ok || e.URL != want || e.Method != "GET" || strings.Contains(events.summary.Err.Error(), "secret") {
			t.Errorf("%s became %+v, want %s", raw, e, want)
		}
	}
}
