package retryhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A service that has made its three attempts tells its caller so. Without Relay the
// database would get nine requests.
func ExampleRelay() {
	requests := 0
	database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer database.Close()

	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Millisecond)}
	orders := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequest("GET", database.URL, nil)
		order, err := retryhttp.JSON[string](r.Context(), policy, nil, req)
		if err != nil {
			http.Error(w, "orders are down", retryhttp.Relay(w.Header(), err))
			return
		}
		fmt.Fprint(w, order)
	}))
	defer orders.Close()

	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	resp, err := client.Get(orders.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	if e, ok := errors.AsType[*retry.Error](retryhttp.GaveUp(resp)); ok {
		fmt.Println(resp.StatusCode, e.Reason)
	}
	fmt.Println("requests to the database:", requests)
	// Output:
	// 503 refused
	// requests to the database: 3
}

// A proxy that retries tells its caller so, whether it got a response or none.
func ExampleRelay_reverseProxy() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		panic(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &retryhttp.Transport{Policy: retry.Policy{Backoff: retry.Constant(time.Millisecond)}},
		ModifyResponse: func(resp *http.Response) error {
			retryhttp.Relay(resp.Header, retryhttp.GaveUp(resp)) // nothing, if it has not given up
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.WriteHeader(retryhttp.Relay(w.Header(), err))
		},
	})
	defer proxy.Close()

	for _, what := range []string{"a response", "none"} {
		resp, err := http.Get(proxy.URL)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Printf("upstream gave %s: %d, X-Should-Retry: %s\n", what, resp.StatusCode, resp.Header.Get("X-Should-Retry"))
		upstream.Close()
	}
	// Output:
	// upstream gave a response: 502, X-Should-Retry: false
	// upstream gave none: 503, X-Should-Retry: false
}

// The caller waits for ten seconds. The handler has a tenth of a second less, so that
// its answer comes in time, and never more than half a minute.
func ExampleDeadlineHandler() {
	report := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline() // which a database call would respect
		left := time.Until(deadline)
		fmt.Fprint(w, left > 9*time.Second && left <= 9900*time.Millisecond)
	})
	handler := retryhttp.DeadlineHandler(report, "X-Timeout-Ms", 30*time.Second)
	server := httptest.NewServer(handler)
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy:        retry.Policy{AttemptTimeout: 10 * time.Second},
		TimeoutHeader: "X-Timeout-Ms",
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("the handler has 9.9 of 10 seconds: %s\n", body)
	// Output: the handler has 9.9 of 10 seconds: true
}
