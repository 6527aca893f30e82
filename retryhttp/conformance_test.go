package retryhttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// Requests that succeed at once are the same with a Transport as without: to the
// server in every byte, to the caller in all that a response shows.
func TestConformanceWithAPlainClient(t *testing.T) {
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	_, _ = io.WriteString(zip, "unzipped")
	_ = zip.Close()
	zipped := buf.String()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
	chunked := func(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }
	for _, tt := range []struct {
		name, method string
		body         func() io.Reader
		change       func(*http.Request)
		answers      []string // one per connection
	}{
		{name: "GET", method: "GET", answers: []string{ok}},
		{name: "HEAD", method: "HEAD", answers: []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"}},
		{name: "OPTIONS *", method: "OPTIONS", change: func(r *http.Request) { r.URL.Opaque, r.URL.RawQuery = "*", "" }, answers: []string{ok}},
		{name: "DELETE", method: "DELETE", answers: []string{"HTTP/1.1 204 No Content\r\n\r\n"}},
		{name: "POST", method: "POST", body: func() io.Reader { return strings.NewReader("body") }, answers: []string{ok}},
		{name: "POST without a body", method: "POST", answers: []string{ok}},
		{name: "PUT NoBody", method: "PUT", body: func() io.Reader { return http.NoBody }, answers: []string{ok}},
		{name: "PUT a stream", method: "PUT", body: func() io.Reader { return chunked("streamed") }, answers: []string{ok}},
		{name: "PUT an empty stream", method: "PUT", body: func() io.Reader { return chunked("") }, answers: []string{ok}},
		{name: "PUT a stream of known length", method: "PUT", body: func() io.Reader { return chunked("streamed") },
			change: func(r *http.Request) { r.ContentLength = 8 }, answers: []string{ok}},
		{name: "PUT with TransferEncoding", method: "PUT", body: func() io.Reader { return strings.NewReader("x") },
			change: func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, answers: []string{ok}},
		{name: "PUT with trailers", method: "PUT", body: func() io.Reader { return chunked("x") },
			change: func(r *http.Request) { r.Trailer = http.Header{"Sum": {"1"}} }, answers: []string{ok}},
		{name: "Expect: 100-continue", method: "PUT", body: func() io.Reader { return strings.NewReader("body") },
			change: func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, answers: []string{"HTTP/1.1 100 Continue\r\n\r\n" + ok}},
		{name: "Expect, not met", method: "POST", body: func() io.Reader { return chunked("body") },
			change:  func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
			answers: []string{"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}},
		{name: "user and password", method: "GET", change: func(r *http.Request) { r.SetBasicAuth("u", "p") }, answers: []string{ok}},
		{name: "odd headers", method: "GET", change: func(r *http.Request) {
			r.Header["lower-CASE"] = []string{"1", "2"}
			r.Header["User-Agent"] = nil
			r.Host = "other.example"
		}, answers: []string{ok}},
		{name: "Close", method: "GET", change: func(r *http.Request) { r.Close = true }, answers: []string{ok}},
		{name: "idempotency key", method: "POST", change: func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }, answers: []string{ok}},
		{name: "chunks and trailers", method: "GET", answers: []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n2\r\nhi\r\n0\r\nSum: 1\r\n\r\n"}},
		{name: "HTTP/1.0", method: "GET", answers: []string{"HTTP/1.0 200 OK\r\n\r\nuntil the end"}},
		{name: "gzip", method: "GET", answers: []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(zipped), zipped)}},
		{name: "gzip by request", method: "GET", change: func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") },
			answers: []string{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"}},
		{name: "range", method: "GET", change: func(r *http.Request) { r.Header.Set("Range", "bytes=0-1") },
			answers: []string{"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhi"}},
		{name: "early hints", method: "GET", answers: []string{"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok}},
		{name: "not modified", method: "GET", answers: []string{"HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n"}},
		{name: "not found", method: "GET", answers: []string{"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope"}},
		{name: "error for a POST", method: "POST", answers: []string{"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops"}},
		{name: "body breaks off", method: "GET", answers: []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"}},
		{name: "chunk breaks off", method: "GET", answers: []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhi"}},
		{name: "redirect and cookie", method: "POST", body: func() io.Reader { return strings.NewReader("form") },
			answers: []string{"HTTP/1.1 303 See Other\r\nLocation: /next\r\nSet-Cookie: a=b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", ok}},
		{name: "redirect with the body", method: "PUT", body: func() io.Reader { return strings.NewReader("form") },
			// the server closes each connection after an answer, and says so: else net/http may send the next request on it
			answers: []string{"HTTP/1.1 307 Temporary Redirect\r\nLocation: /next\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", ok}},
		{name: "redirect that a stream does not follow", method: "PUT", body: func() io.Reader { return chunked("x") },
			answers: []string{"HTTP/1.1 307 Temporary Redirect\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exchange := func(rt func(http.RoundTripper) http.RoundTripper) (sent, got string) {
				raw := listen(t, tt.answers...)
				base := &http.Transport{ExpectContinueTimeout: time.Minute, DialContext: raw.dial}
				defer base.CloseIdleConnections()
				var body io.Reader
				if tt.body != nil {
					body = tt.body()
				}
				req := request(t, tt.method, "http://example.com/path?a=b", body)
				if tt.change != nil {
					tt.change(req)
				}
				jar, _ := cookiejar.New(nil)
				resp, err := (&http.Client{Transport: rt(base), Timeout: time.Minute, Jar: jar}).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				content, err := io.ReadAll(resp.Body)
				closed := resp.Body.Close()
				base.CloseIdleConnections()
				return raw.received(), fmt.Sprintf("%s %s %v %d %v %v %v %q %v %v %v %s %v", resp.Status, resp.Proto, resp.Header, resp.ContentLength,
					resp.TransferEncoding, resp.Close, resp.Uncompressed, content, err, closed, resp.Trailer, resp.Request.URL, resp.Request.Response != nil)
			}
			plainSent, plainGot := exchange(func(rt http.RoundTripper) http.RoundTripper { return rt })
			if plainSent == "" {
				t.Error("nothing was sent")
			}
			for name, p := range map[string]retry.Policy{"": {}, ", AttemptTimeout": {AttemptTimeout: time.Minute}, ", hooks": {Hooks: retry.SlogHooks(slog.New(slog.DiscardHandler))}} {
				sent, got := exchange(func(rt http.RoundTripper) http.RoundTripper {
					return &retryhttp.Transport{Base: rt, Policy: p, AttemptHeader: "A"}
				})
				if sent != plainSent {
					t.Errorf("with a Transport%s the server saw\n%s\nwithout\n%s", name, sent, plainSent)
				}
				if got != plainGot {
					t.Errorf("with a Transport%s the caller got\n%s\nwithout\n%s", name, got, plainGot)
				}
			}
		})
	}
}

// rawServer is the other end of pipes without a name and a port, which would
// differ. It keeps what it receives byte for byte.
type rawServer struct {
	t       *testing.T
	mu      sync.Mutex
	bytes   bytes.Buffer
	answers []string
	done    sync.WaitGroup
}

func listen(t *testing.T, answers ...string) *rawServer {
	return &rawServer{t: t, answers: answers}
}

func (s *rawServer) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := "HTTP/1.1 500 One Request Too Many\r\n\r\n"
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	s.done.Go(func() { s.serve(server, answer) })
	return client, nil
}

func (s *rawServer) serve(conn net.Conn, answer string) {
	defer conn.Close()
	var b bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReaderSize(io.TeeReader(conn, &b), 16))
	if err != nil {
		s.t.Errorf("reading the request: %v", err)
		return
	}
	if rest, ok := strings.CutPrefix(answer, "HTTP/1.1 100 Continue\r\n\r\n"); ok {
		_, _ = io.WriteString(conn, strings.TrimSuffix(answer, rest))
		answer = rest
	}
	if !strings.HasPrefix(answer, "HTTP/1.1 417") {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	s.mu.Lock()
	s.bytes.Write(b.Bytes()) // before the answer, which the next request may follow at once
	s.mu.Unlock()
	_, _ = io.WriteString(conn, answer)
}

func (s *rawServer) received() string {
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes.String()
}
