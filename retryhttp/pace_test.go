package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// response returns one with a body and pairs of headers.
func response(req *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req}
}

// One hundred POSTs at once are refused for 20 s. All wait for that and up to a tenth more, and succeed then, though the
// budget has ten retries: the quota has room for them.
func TestPaceLetsAllCallsSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, requests := time.Now(), 0
		var mu sync.Mutex
		pace := &pace.Pace{Quota: 10, Burst: 100}
		client := &http.Client{Transport: &retryhttp.Transport{
			Policy: retry.Policy{Budget: &retry.EarnedBudget{}, AttemptTimeout: time.Second},
			Guards: func(*http.Request) []retry.Guard { return []retry.Guard{pace} },
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, req.Body)
				req.Body.Close()
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				requests++
				if time.Since(begin) < 20*time.Second {
					return response(req, 429, "", "Retry-After", "20"), nil
				}
				return response(req, 200, ""), nil
			}),
		}}
		var wg sync.WaitGroup
		var last time.Duration
		for i := range 100 {
			wg.Go(func() {
				ctx := retryhttp.Idempotent(t.Context(), true)
				req, _ := http.NewRequestWithContext(ctx, "POST", "http://model.example/", strings.NewReader("{}"))
				resp, err := client.Do(req)
				if err != nil {
					t.Errorf("call %d: %v", i, err)
					return
				}
				defer resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("call %d: %d: %v", i, resp.StatusCode, whyEnded(resp))
				}
				mu.Lock()
				defer mu.Unlock()
				last = max(last, time.Since(begin))
			})
		}
		wg.Wait()
		if requests != 200 || last < 21*time.Second || last > 22*time.Second+50*time.Millisecond {
			t.Errorf("%d requests, the last call ended after %v", requests, last)
		}
	})
}

// Each request has the guards that Transport.Guards returns, and then the policy's.
func TestPaceOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own, other, all pace.Pace
		transport := &retryhttp.Transport{
			Policy: retry.Policy{Guards: []retry.Guard{&all}, MaxAttempts: 1},
			Guards: func(req *http.Request) []retry.Guard {
				if req.URL.Path == "/own" {
					return []retry.Guard{&own}
				}
				return []retry.Guard{&other}
			},
			Base: tripper(func(req *http.Request) (*http.Response, error) { return response(req, 429, ""), nil }),
		}
		for _, path := range []string{"/own", "/own", "/"} {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://model.example"+path, nil)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		if own.Started() != 2 || other.Started() != 1 || all.Started() != 3 {
			t.Errorf("%d have started under the request's pace, %d under another's and %d under the policy's, want 2, 1 and 3", own.Started(), other.Started(), all.Started())
		}
	})
}

func TestPaceByHeaders(t *testing.T) {
	for _, tt := range []struct {
		header []string
		status int
		by     bool
		wait   time.Duration
	}{
		{[]string{"RateLimit", `"minute";r=0;t=20`}, 200, true, 20 * time.Second},
		{[]string{"RateLimit", `"minute";r=0;t=20`}, 404, true, 20 * time.Second},
		{[]string{"RateLimit", `"minute";r=0;t=20`}, 429, true, 0},
		{[]string{"RateLimit", `"minute";r=0;t=20`, "RateLimit-Policy", `"minute";q=10;w=60`}, 429, true, 26*time.Second + 1}, // and a tenth of a minute
		{[]string{"RateLimit", `"minute";r=0;t=20`}, 200, false, 0},
		{[]string{"RateLimit", `"minute";r=1;t=20`}, 200, true, 0},
		{[]string{"X-RateLimit-Remaining-Requests", "0", "X-RateLimit-Reset-Requests", "6s"}, 200, true, 6 * time.Second},
		{[]string{"Anthropic-RateLimit-Tokens-Remaining", "0", "Anthropic-RateLimit-Tokens-Reset", "2000-01-01T00:00:30Z"}, 200, true, 30 * time.Second},
		{[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684830"}, 200, true, 30 * time.Second},
		{[]string{"Retry-After", "20"}, 200, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var pace pace.Pace
			transport := &retryhttp.Transport{
				Policy: retry.Policy{Guards: []retry.Guard{&pace}, MaxAttempts: 1}, PaceByHeaders: tt.by,
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					return response(req, tt.status, "", tt.header...), nil
				}),
			}
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://model.example/", nil)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if d := pace.Wait(); d != tt.wait {
				t.Errorf("%v with %d: the next attempt waits %v, want %v", tt.header, tt.status, d, tt.wait)
			}
		})
	}
	transport := &retryhttp.Transport{PaceByHeaders: true, Base: tripper(func(req *http.Request) (*http.Response, error) {
		return response(req, 200, "", "RateLimit", `"minute";r=0;t=20`), nil
	})}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://model.example/", nil)
	if resp, err := transport.RoundTrip(req); err != nil || resp.StatusCode != 200 {
		t.Errorf("without a pace: %v, %v", resp, err)
	}
}

// The response before a retry is closed before the retry's turn is known to come too late.
func TestPaceThatIsTooSlowForARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pace pace.Pace
		transport := &retryhttp.Transport{
			Policy: retry.Policy{Guards: []retry.Guard{&pace}, Backoff: retry.Constant(0), Rand: func() float64 { return 0 }},
			Base: tripper(func(req *http.Request) (*http.Response, error) {
				pace.Hold(time.Minute)
				return response(req, 429, ""), nil
			}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://model.example/", nil)
		resp, err := transport.RoundTrip(req)
		if e, ok := err.(*retry.Error); resp != nil || !ok || !errors.Is(err, retry.ErrPaced) || e.Attempts != 1 {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

// A call of JSON or Download uses all fields of its client's Transport but Policy.
func TestPaceByHeadersOfCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status []int // of the responses
		call   func(*testing.T, *http.Client, *http.Request)
	}{
		{"JSON", []int{200}, func(t *testing.T, c *http.Client, req *http.Request) {
			if _, err := retryhttp.JSON[[]int](t.Context(), retry.Policy{}, c, req); err != nil {
				t.Error(err)
			}
		}},
		{"an answer to JSON", []int{404}, func(t *testing.T, c *http.Client, req *http.Request) {
			if _, err := retryhttp.JSON[[]int](t.Context(), retry.Policy{}, c, req); err == nil {
				t.Error("404 is no error")
			}
		}},
		{"the rest of a Download", []int{200, 206}, func(t *testing.T, c *http.Client, req *http.Request) {
			resp, err := retryhttp.Download(t.Context(), retry.Policy{}, c, req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); string(text) != "[1]" || err != nil {
				t.Errorf("the Body is %q, %v", text, err)
			}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var pace pace.Pace
			client := &http.Client{Transport: &retryhttp.Transport{
				Guards: func(*http.Request) []retry.Guard { return []retry.Guard{&pace} }, PaceByHeaders: true,
				Base: tripper(func(req *http.Request) (*http.Response, error) {
					status := tt.status[0]
					if tt.status = tt.status[1:]; len(tt.status) > 0 {
						resp := response(req, status, "[", "ETag", `"x"`)
						resp.ContentLength = 3
						return resp, nil
					}
					body := "[1]"
					if status == 206 {
						body = "1]"
					}
					return response(req, status, body, "Content-Range", "bytes 1-2/3", "RateLimit", `"minute";r=0;t=20`), nil
				}),
			}}
			req, _ := http.NewRequest("GET", "http://model.example/", nil)
			tt.call(t, client, req)
			if d := pace.Wait(); d != 20*time.Second {
				t.Errorf("%s: the next attempt waits %v, want 20s", tt.name, d)
			}
		})
	}
}

var errCut = errors.New("cut")

func TestFirstEvent(t *testing.T) {
	var event, data string
	var calls int
	check := retryhttp.FirstEvent(func(e, d string) error {
		event, data = e, d
		calls++
		if e == "error" || strings.HasPrefix(d, `{"error"`) {
			return errors.New("overloaded")
		}
		return nil
	})
	long := strings.Repeat("x", 70<<10)
	for _, tt := range []struct {
		name, body  string
		event, data string
		calls       int
		err         string
	}{
		{"good", "event: delta\ndata: Hello\n\nevent: error\ndata: x\n\n", "delta", "Hello", 1, ""},
		{"an error", "event: error\ndata: {\"type\": \"overloaded_error\"}\n\nrest", "error", `{"type": "overloaded_error"}`, 1, "overloaded"},
		{"an error's data", "data: {\"error\": {}}\n\n", "", `{"error": {}}`, 1, "overloaded"},
		{"comments and other fields first", ": processing\n\n:\nid: 7\nretry: 1000\n\ndata:x\n\n", "", "x", 1, ""},
		{"a name without data is no event", "event: ping\n\ndata: x\n\n", "", "x", 1, ""},
		{"carriage returns", "event: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n", "a", "x", 1, ""},
		{"carriage returns alone", "event: a\rdata: x\r\rdata: y\r\r", "a", "x", 1, ""},
		{"all ends of lines", "id: 1\r\nevent: a\ndata: x\rdata: y\r\n\rdata: z\n\n", "a", "x\ny", 1, ""},
		{"a line feed after an empty line of CR", "event: a\n\r\ndata: x\n\r\n", "", "x", 1, ""},
		{"LF CR is two ends", "data: x\n\rdata: y\n\n", "", "x", 1, ""},
		{"a mark of the byte order in a later line", "event: a\n\ufeffdata: y\ndata: x\n\n", "a", "x", 1, ""},
		{"no last empty line, with CR", "data: x\r", "", "x", 1, ""},
		{"a name at the end", "event: error\n", "", "", 0, "retryhttp: before the first event: unexpected EOF"},
		{"of 64 KiB", "data: " + long[:64<<10-8] + "\n\n", "", long[:64<<10-8], 1, ""},
		{"of a byte more", "data: " + long[:64<<10-7] + "\n\n", "", "", 0, ""},
		{"of 64 KiB, with no last empty line", "data: " + long[:64<<10-6], "", long[:64<<10-6], 1, ""},
		{"several lines", "data: x\ndata\ndata:  y\n\n", "", "x\n\n y", 1, ""},
		{"a mark of the byte order", "\ufeffdata: x\n\n", "", "x", 1, ""},
		{"no last empty line", "data: x\n", "", "x", 1, ""},
		{"not even a line's end", "data: x", "", "x", 1, ""},
		{"of 60 KiB", "data: " + long[:60<<10] + "\n\n", "", long[:60<<10], 1, ""},
		{"too long", "data: " + long + "\n\ndata: y\n\n", "", "", 0, ""},
		{"too long a comment", ": " + long + "\ndata: y\n\n", "", "", 0, ""},
		{"nothing", "", "", "", 0, "retryhttp: before the first event: unexpected EOF"},
		{"only comments", ": a\n: b\n\n", "", "", 0, "retryhttp: before the first event: unexpected EOF"},
	} {
		event, data, calls = "", "", 0
		resp := response(nil, 200, tt.body, "Content-Type", "text/event-stream; charset=utf-8")
		err := check(resp)
		if event != tt.event || data != tt.data || calls != tt.calls {
			t.Errorf("%s: %d calls with %q, %.100q", tt.name, calls, event, data)
		}
		if err != nil && err.Error() != tt.err || err == nil && tt.err != "" {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
		}
		if text, err := io.ReadAll(resp.Body); string(text) != tt.body || err != nil {
			t.Errorf("%s: the body is %.100q, %v", tt.name, text, err)
		}
	}
	calls = 0
	for _, resp := range []*http.Response{
		response(nil, 200, "data: x\n\n", "Content-Type", "application/json"),
		response(nil, 200, "data: x\n\n"),
		response(nil, 300, "data: x\n\n", "Content-Type", "text/event-stream"),
		response(nil, 429, "data: x\n\n", "Content-Type", "text/event-stream"),
		{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}},
	} {
		if err := check(resp); err != nil || calls != 0 {
			t.Errorf("%v: %v, %d calls", resp, err, calls)
		}
	}
	if err := check(response(nil, 299, "data: x\n\n", "Content-Type", "text/event-stream")); err != nil || calls != 1 {
		t.Errorf("status 299: %v, %d calls, want one", err, calls)
	}
	cut := response(nil, 200, "", "Content-Type", "text/event-stream")
	cut.Body = io.NopCloser(io.MultiReader(strings.NewReader("event: a\n"), iotest.ErrReader(errCut)))
	if err := check(cut); !errors.Is(err, errCut) {
		t.Errorf("a broken stream: %v", err)
	}
	calls = 0 // half an event is none
	cut.Body = io.NopCloser(io.MultiReader(strings.NewReader("event: a\ndata: {\"err"), iotest.ErrReader(errCut)))
	if err := check(cut); !errors.Is(err, errCut) || calls != 0 {
		t.Errorf("a stream that breaks within its first event: %v, %d calls", err, calls)
	}
	if text, err := io.ReadAll(cut.Body); string(text) != "event: a\ndata: {\"err" || !errors.Is(err, errCut) {
		t.Errorf("the body of a broken stream is %q, %v", text, err)
	}
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\r"} { // which say all, so that no byte is waited for
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "event: a\ndata: x"+end) }()
		open := response(nil, 200, "", "Content-Type", "text/event-stream")
		open.Body = r
		if err := check(open); err != nil || event != "a" || data != "x" {
			t.Errorf("an open stream with %q: %v, %q, %q", end, err, event, data)
		}
	}
	slow := response(nil, 200, "", "Content-Type", "text/event-stream") // one byte at a time
	slow.Body = io.NopCloser(iotest.OneByteReader(bytes.NewReader([]byte("data: x\n\nrest"))))
	if err := check(slow); err != nil || data != "x" {
		t.Errorf("a slow stream: %v, %q", err, data)
	}
	defer func() {
		if recover() == nil {
			t.Error("FirstEvent(nil) does not panic")
		}
	}()
	retryhttp.FirstEvent(nil)
}
