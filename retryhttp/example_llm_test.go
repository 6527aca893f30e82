package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// overloaded returns an error if a stream begins with one. A model that is overloaded
// sends it so, because the status was 200 already.
func overloaded(event, data string) error {
	if event == "error" || strings.HasPrefix(data, `{"error"`) {
		// Transient, not Throttled: it says nothing about the quota.
		return errors.New("the stream begins with an error")
	}
	return nil
}

// model is the pace of all calls that count against one quota: those with this key for
// this model, which its provider allows 500 times in a minute.
var model = pace.Pace{Quota: 500, Per: time.Minute, Burst: 20}

// A completion that is streamed as server-sent events. It is asked for again until the
// first event is there; what comes after that is the caller's.
func ExampleTransport_serverSentEvents() {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests {
		case 1:
			w.Header().Set("Retry-After-Ms", "1.5")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(529) // overloaded
		case 3:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: error\ndata: {\"type\": \"overloaded_error\"}\n\n")
		default:
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprint(w, "event: delta\ndata: Hello\n\n")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "event: delta\ndata: world\n\n")
		}
	}))
	defer server.Close()
	url := server.URL

	client := &http.Client{Transport: &retryhttp.Transport{
		Check: retryhttp.FirstEvent(overloaded),
		Policy: retry.Policy{
			MaxAttempts:    5,
			AttemptTimeout: 30 * time.Second, // up to the first event: the stream is not cut
			MaxRetryAfter:  time.Minute,
			Budget:         &retry.EarnedBudget{}, // made once, shared by all calls
			Guards:         []retry.Guard{&model},
		},
	}}
	client.Transport.(*retryhttp.Transport).Policy.Backoff = retry.Constant(time.Millisecond) // not to keep you waiting
	// A completion that runs twice costs twice, and does nothing else.
	ctx := retryhttp.Idempotent(context.Background(), true)
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(`{"stream": true}`))
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	for line := range bytes.Lines(must(io.ReadAll(resp.Body))) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			fmt.Print(string(data))
		}
	}
	fmt.Println("requests:", requests)
	// Output:
	// Hello
	// world
	// requests: 4
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
