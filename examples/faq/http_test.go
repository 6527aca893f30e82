package faq_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/goretry/retry"
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
