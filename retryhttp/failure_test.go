package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// saying are the headers of http.md, with each of their meanings.
var saying = []http.Header{
	{},
	{"Retry-After": {"0"}},
	{"Retry-After": {"3"}},
	{"Retry-After": {"Sun, 01 Mar 2026 11:59:00 GMT"}},
	{"Retry-After": {"Sun, 01 Mar 2026 12:00:03 GMT"}},
	{"Retry-After": {"garbled"}},
	{"Retry-After": {"3600"}},
	{"Retry-After-Ms": {"0"}},
	{"Retry-After-Ms": {"30"}},
	{"X-Ms-Retry-After-Ms": {"30"}},
	{"X-Amz-Retry-After": {"30"}},
	{"X-Rate-Limit-Retry-After-Seconds": {"3"}},
	{"X-Ratelimit-Retry-After": {"3"}},
	{"X-Ratelimit-Retry-After": {"0"}},
	{"Ratelimit": {`"a";r=0;t=3`}},
	{"Ratelimit": {`"a";r=0;t=0`}},
	{"Ratelimit": {`"a";r=5;t=3`}},
	{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"3"}},
	{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1772370000"}}, // in an hour
	{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1772366400"}}, // now
	{"X-Ratelimit-Remaining": {"7"}, "X-Ratelimit-Reset": {"1772370000"}},
	{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"3s"}},
	{"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-03-01T12:00:03Z"}},
	{"X-Should-Retry": {"false"}},
	{"X-Should-Retry": {"true"}},
	{"X-Should-Retry": {"false"}, "Retry-After": {"3"}},
	{"X-Should-Retry": {"true"}, "Retry-After": {"3"}},
	{"X-Should-Retry": {"true"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1772366400"}},
	{"Stripe-Should-Retry": {"false"}},
	{"Stripe-Should-Retry": {"true"}},
	{"X-Envoy-Overloaded": {"true"}},
	{"X-Envoy-Ratelimited": {"true"}},
}

// said is what an attempt means to its run.
type said struct {
	class  retry.Class
	hint   time.Duration
	now    bool
	reason retry.Reason
}

// heard makes one attempt by call, and returns what it meant.
func heard(t *testing.T, call func(retry.Policy) error) (s said, err error) {
	t.Helper()
	p, events := recorded(retry.Policy{MaxAttempts: 1, MaxRetryAfter: time.Minute})
	err = call(p)
	if len(events.attempts) != 1 {
		t.Fatalf("%d attempts, want 1", len(events.attempts))
	}
	a := events.attempts[0]
	if s = (said{a.Class, a.Hint, a.Now, events.summary.Reason}); s.reason == retry.ReasonPermanent {
		s.hint, s.now = 0, false // nobody waits
	}
	return s, err
}

// The error of a response means the same to a run as the response means to a Transport, and the
// status means the same to JSON: for each status, each header and each request.
func TestFailureSaysAllThatATransportReads(t *testing.T) {
	for code := 400; code < 600; code++ {
		for _, header := range saying {
			for _, keyed := range []bool{false, true} {
				what := fmt.Sprintf("%d %v, key %t", code, header, keyed)
				base := tripper(func(req *http.Request) (*http.Response, error) {
					h := header.Clone()
					h.Set("Date", "Sun, 01 Mar 2026 12:00:00 GMT")
					return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("sorry")), Request: req}, nil
				})
				newRequest := func() *http.Request {
					req := request(t, "GET", "http://example.com/a?b=c", nil)
					if keyed {
						req.Header.Set("Idempotency-Key", "k")
					}
					return req
				}
				want, _ := heard(t, func(p retry.Policy) error {
					resp, err := (&retryhttp.Transport{Policy: p, Base: base}).RoundTrip(newRequest())
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					return nil
				})
				answer := want.reason == retry.ReasonNone
				if answer {
					want = said{retry.Permanent, 0, false, retry.ReasonPermanent}
				}
				got, err := heard(t, func(p retry.Policy) error {
					return retry.Run(t.Context(), p, func(context.Context) error {
						resp, err := base(newRequest())
						if err != nil {
							return err
						}
						return fmt.Errorf("load: %w", retryhttp.Failure(resp))
					})
				})
				if got != want {
					t.Errorf("%s: Failure means %v, a Transport says %v", what, got, want)
				}
				e, ok := errors.AsType[*retryhttp.StatusError](err)
				if !ok || e.Code != code || e.Method != "GET" || e.URL != "http://example.com/a?b=REDACTED" || string(e.Body) != "sorry" {
					t.Errorf("%s: Failure is %+v", what, e)
				}
				got, err = heard(t, func(p retry.Policy) error {
					_, err := retryhttp.JSON[user](t.Context(), p, client(base), newRequest())
					return err
				})
				if got != want {
					t.Errorf("%s: JSON says %v, a Transport %v", what, got, want)
				}
				if run, ok := errors.AsType[*retry.Error](err); !ok || run.Answered != answer {
					t.Errorf("%s: JSON's error is %v, answered %t, want %t", what, err, run.Answered, answer)
				}
				if own, ok := errors.AsType[*retryhttp.StatusError](err); !ok || own.Error() != e.Error() || own.Hint != e.Hint || own.RetryNow() != e.RetryNow() || string(own.Body) != "sorry" {
					t.Errorf("%s: JSON's error is %+v, Failure's %+v", what, own, e)
				}
			}
		}
	}
}
