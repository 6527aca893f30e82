package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// flakyServer is busy for the first two requests.
func flakyServer() *httptest.Server {
	var n atomic.Int32
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= 2 {
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"Name": "Ada"}`)
	}))
}

func ExampleTransport() {
	server := flakyServer()
	defer server.Close()
	url := server.URL
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{
			MaxAttempts:    4,
			AttemptTimeout: 2 * time.Second,
			Budget:         &retry.EarnedBudget{}, // shared by all requests of this client
		},
	}}
	resp, err := client.Get(url)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "at attempt", retry.AttemptNumber(resp.Request.Context()))
	// Output: 200 OK at attempt 3
}

func ExampleStatusError() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	req, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		panic(err)
	}
	_, err = retryhttp.JSON[struct{}](req.Context(), retry.Policy{}, server.Client(), req)
	if e, ok := errors.AsType[*retryhttp.StatusError](err); ok {
		fmt.Printf("%d: %s", e.Code, e.Body)
	}
	// Output: 404: 404 page not found
}

func ExampleFailure() {
	server := flakyServer()
	defer server.Close()
	body, err := retry.Do(context.Background(), retry.Policy{Name: "get"}, func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, retryhttp.Failure(resp)
		}
		return io.ReadAll(resp.Body)
	})
	fmt.Println(string(body), err)
	// Output: {"Name": "Ada"} <nil>
}

func ExampleParseRetryAfter() {
	h := http.Header{"Retry-After": {"Sun, 01 Mar 2026 12:01:00 GMT"}}
	fmt.Println(retryhttp.ParseRetryAfter(h, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	// Output: 1m0s true
}

func ExampleJSON() {
	type user struct{ Name string }
	server := flakyServer()
	defer server.Close()
	req, err := http.NewRequest("GET", server.URL+"/users/1?key=secret", nil)
	if err != nil {
		panic(err)
	}
	u, err := retryhttp.JSON[user](context.Background(), retry.Policy{Name: "get-user"}, http.DefaultClient, req)
	fmt.Println(u.Name, err)
	// Output: Ada <nil>
}
