package retryhttp_test

import (
	"bufio"
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
	"github.com/goretry/retry/retryhttp"
)

// firstEvent makes an attempt fail whose stream begins with an error, as a model's
// does that is overloaded: the status was 200 already. It looks at the first event and
// puts it back.
func firstEvent(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	r := bufio.NewReaderSize(resp.Body, 16<<10)
	var seen bytes.Buffer
	failed := false
	for {
		line, err := r.ReadSlice('\n')
		seen.Write(line)
		if errors.Is(err, bufio.ErrBufferFull) {
			break // a long event, and no error
		}
		if err != nil {
			return fmt.Errorf("before the first event: %w", err)
		}
		text := strings.TrimSpace(string(line))
		failed = failed || text == "event: error"
		if text == "" {
			break
		}
	}
	if failed {
		return errors.New("the stream begins with an error") // Transient
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&seen, r), resp.Body}
	return nil
}

// A completion that is streamed as server-sent events. It is asked for again until the
// first event is there; what comes after that is the caller's.
func ExampleTransport_serverSentEvents() {
	requests := 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	defer model.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Check: firstEvent,
		Policy: retry.Policy{
			MaxAttempts:    5,
			AttemptTimeout: 30 * time.Second, // up to the first event: the stream is not cut
			MaxRetryAfter:  time.Minute,
			Budget:         &retry.EarnedBudget{}, // made once, shared by all calls
			Backoff:        retry.Exponential{Base: time.Millisecond},
		},
	}}
	// A completion that runs twice costs twice, and does nothing else.
	ctx := retryhttp.Idempotent(context.Background(), true)
	req, _ := http.NewRequestWithContext(ctx, "POST", model.URL, strings.NewReader(`{"stream": true}`))
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
