package faq_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retryhttp"
)

// A Do around a client knows nothing of statuses, and the attempt's context ends before the
// body is read. docs/http.md and docs/faq.md warn of it.
func TestDoAroundAClient(t *testing.T) {
	requests, status := 0, http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(status)
		_, _ = w.Write(bytes.Repeat([]byte("x"), 8<<20)) // more than connections hold
	}))
	defer server.Close()
	get := func() (*http.Response, error) {
		policy := retry.Policy{AttemptTimeout: time.Minute}
		//retryvet:ignore timeoutbody: the mistake that the pages warn of
		return retry.Do(t.Context(), policy, func(ctx context.Context) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
			if err != nil {
				return nil, err
			}
			return http.DefaultClient.Do(req)
		})
	}

	resp, err := get()
	if err != nil || resp.StatusCode != status || requests != 1 {
		t.Errorf("%d requests, %v; want one, whose 503 is no error", requests, err)
	}
	resp.Body.Close()

	status = http.StatusOK
	if resp, err = get(); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes and %v, want a body that is cut off", n, err)
	}
}

// accepted is a Transport.Check for a job that the server has not done yet.
func accepted(resp *http.Response) error {
	if resp.StatusCode == http.StatusAccepted {
		return retry.ErrRejected // the wait is the response's Retry-After
	}
	return nil
}

// result returns the response of a job, which the server wants to see after first again.
func result(ctx context.Context, policy retry.Policy, base http.RoundTripper, job string, first time.Duration) (*http.Response, error) {
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: policy, Check: accepted}}
	if err := clockx.System().Sleep(ctx, first); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, "GET", job, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestPollAtTheServersInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		base := tripper(func(req *http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			resp := &http.Response{StatusCode: 202, Header: http.Header{"Retry-After": {"10"}}, Body: http.NoBody, Request: req}
			if len(at) == 3 {
				resp.StatusCode = 200
			}
			return resp, nil
		})
		policy := retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Constant(0), Rand: func() float64 { return 0 }}
		resp, err := result(t.Context(), policy, base, "http://example.com/jobs/1", 5*time.Second)
		if err != nil || resp.StatusCode != 200 || !slices.Equal(at, []time.Duration{5 * time.Second, 15 * time.Second, 25 * time.Second}) {
			t.Errorf("%v, %v; requests after %v", resp, err, at)
		}
	})
}
