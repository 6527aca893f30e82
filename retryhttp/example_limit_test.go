package retryhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
)

// One limit for each host: every attempt takes a place until its body has been read.
func ExampleTransport_guards() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "Ada") }))
	defer server.Close()
	hosts := retry.PerKey[limit.Limit]{New: func(string) *limit.Limit { return &limit.Limit{Max: 100} }}
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Millisecond)},
		Guards: func(r *http.Request) []retry.Guard { return []retry.Guard{hosts.For(r.URL.Host)} },
	}}

	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	for _, l := range hosts.All() {
		fmt.Println(resp.Status, l.InFlight(), "in flight")
	}
	_, _ = io.ReadAll(resp.Body) // which gives the place back
	for _, l := range hosts.All() {
		fmt.Println(l.InFlight(), "in flight")
	}
	// Output:
	// 200 OK 1 in flight
	// 0 in flight
}

// A server that takes a second request while it has room for one.
func ExampleLimitHandler() {
	guards := []retry.Guard{&limit.Limit{Max: 1}}
	entered, leave := make(chan bool), make(chan bool)
	mux := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- true; <-leave })
	server := httptest.NewServer(retryhttp.DeadlineHandler( // whose deadlines tell the limit what is too slow
		retryhttp.LimitHandler(mux, func(*http.Request) []retry.Guard { return guards }), "X-Timeout-Ms", 30*time.Second))
	defer server.Close()

	first := make(chan string)
	go func() {
		resp, err := http.Get(server.URL)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		first <- resp.Status
	}()
	<-entered
	resp, err := http.Get(server.URL)
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	fmt.Println(resp.Status, "after", resp.Header.Get("Retry-After"), "s")
	leave <- true
	fmt.Println(<-first)
	// Output:
	// 429 Too Many Requests after 1 s
	// 200 OK
}
