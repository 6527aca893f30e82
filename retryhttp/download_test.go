package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// library serves a file, and breaks the connection off where its test says.
type library struct {
	content string
	header  http.Header // of each response
	modtime time.Time
	breaks  []int // bytes after which the n-th response breaks off; 0: it does not
}

func (l *library) answer(n int, w http.ResponseWriter, r *http.Request) {
	for name, values := range l.header {
		w.Header()[name] = values
	}
	out := &breaking{ResponseWriter: w, left: -1}
	if n <= len(l.breaks) && l.breaks[n-1] > 0 {
		out.left = l.breaks[n-1]
	}
	http.ServeContent(out, r, "", l.modtime, strings.NewReader(l.content))
}

// breaking panics when so many bytes are written.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left < 0 || len(p) <= b.left {
		if b.left >= 0 {
			b.left -= len(p)
		}
		return b.ResponseWriter.Write(p)
	}
	_, _ = b.ResponseWriter.Write(p[:b.left])
	_ = http.NewResponseController(b.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

func tagged() http.Header { return http.Header{"Etag": {`"v1"`}} }

// download returns what of a file gets through, and how its Body ended.
func download(t testing.TB, c *http.Client, p retry.Policy, url string) (string, *http.Response, error) {
	t.Helper()
	resp, err := retryhttp.Download(t.Context(), p, c, request(t, "GET", url, nil))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		t.Errorf("closing the body: %v", err)
	}
	return string(b), resp, err
}

func TestDownloadGoesOnAfterBreaks(t *testing.T) {
	content := strings.Repeat("0123456789", 10_000)
	modtime := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		header  http.Header
		modtime time.Time
		breaks  []int
		ranges  []string
		ifRange string
	}{
		{"nothing breaks", tagged(), modtime, nil, []string{""}, ""},
		{"one break", tagged(), modtime, []int{70_000}, []string{"", "bytes=70000-"}, `"v1"`},
		{"many breaks, each with progress", tagged(), modtime, []int{10, 20, 30, 40, 50, 60}, []string{"", "bytes=10-", "bytes=30-", "bytes=60-", "bytes=100-", "bytes=150-", "bytes=210-"}, `"v1"`},
		{"by date", nil, modtime, []int{70_000}, []string{"", "bytes=70000-"}, "Sun, 01 Mar 2026 12:00:00 GMT"},
		{"by date beside a weak tag", http.Header{"Etag": {`W/"v1"`}}, modtime, []int{70_000}, []string{"", "bytes=70000-"}, "Sun, 01 Mar 2026 12:00:00 GMT"},
		{"at the very start", tagged(), modtime, []int{1}, []string{"", "bytes=1-"}, `"v1"`},
		{"one byte before the end", tagged(), modtime, []int{99_999}, []string{"", "bytes=99999-"}, `"v1"`},
	} {
		for name, protocol := range protocols {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				s := serveAs(t, (&library{content, tt.header, tt.modtime, tt.breaks}).answer, protocol)
				p, events := recorded(quick)
				p.AttemptTimeout = time.Minute
				got, resp, err := download(t, client(s.base), p, s.URL)
				if got != content || err != nil || resp.StatusCode != 200 || whyEnded(resp) != nil || resp.ContentLength != int64(len(content)) {
					t.Errorf("%d bytes, %v, %v", len(got), err, resp.Status)
				}
				var ranges []string
				for _, r := range s.requests() {
					ranges = append(ranges, r.header.Get("Range"))
					if want := map[bool]string{true: tt.ifRange}[r.header.Get("Range") != ""]; r.header.Get("If-Range") != want || r.header.Get("Accept-Encoding") != "identity" {
						t.Errorf("the server saw %v, want If-Range %q", r.header, want)
					}
				}
				if !slices.Equal(ranges, tt.ranges) {
					t.Errorf("ranges %q, want %q", ranges, tt.ranges)
				}
				if len(events.waits) != len(tt.ranges)-1 {
					t.Errorf("%d waits, want one before each resumption", len(events.waits))
				}
			})
		}
	}
}

// files answers as the func says for the rest of ten bytes of which the first four
// get through.
func files(first http.Header, rest func(n int, req *http.Request) (int, http.Header, string)) (rt tripper, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	return func(req *http.Request) (*http.Response, error) {
		n := int(requests.Add(1))
		if n == 1 {
			h := http.Header{"Etag": {`"v1"`}}
			for name, values := range first {
				h[name] = values
			}
			return &http.Response{StatusCode: 200, Header: h, ContentLength: 10, Request: req, Body: io.NopCloser(io.MultiReader(strings.NewReader("0123"), errReader{io.ErrUnexpectedEOF}))}, nil
		}
		code, h, body := rest(n, req)
		resp := &http.Response{StatusCode: code, Header: h, ContentLength: -1, Request: req, Body: io.NopCloser(strings.NewReader(body))}
		return resp, nil
	}, requests
}

func TestDownloadTakesNothingThatDoesNotFit(t *testing.T) {
	h := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	const rest = "456789"
	for _, tt := range []struct {
		name   string
		first  http.Header
		code   int
		header http.Header
		body   string
		want   string // in the error; "": it goes on
	}{
		{name: "it fits", code: 206, header: h("Content-Range", "bytes 4-9/10", "ETag", `"v1"`), body: rest},
		{name: "no ETag", code: 206, header: h("Content-Range", "bytes 4-9/10"), body: rest},
		{name: "total not known", code: 206, header: h("Content-Range", "bytes 4-9/*"), body: rest},
		{name: "more than it promised", code: 206, header: h("Content-Range", "bytes 4-9/10"), body: rest + "more"},
		{name: "changed", code: 200, body: "0123456789", want: "cannot go on at byte 4: 200 OK"},
		{name: "precondition failed", code: 412, want: "412 Precondition Failed"},
		{name: "not satisfiable", code: 416, header: h("Content-Range", "bytes */4"), want: "416 Requested Range Not Satisfiable"},
		{name: "gone", code: 404, want: "404 Not Found"},
		{name: "no content", code: 204, want: "cannot go on at byte 4: 204 No Content"},
		{name: "another total", code: 206, header: h("Content-Range", "bytes 4-9/11"), body: rest, want: "but there were 10 bytes in all"},
		{name: "beyond the end", code: 206, header: h("Content-Range", "bytes 4-10/*"), body: rest, want: "but there were 10 bytes in all"},
		{name: "another ETag", code: 206, header: h("Content-Range", "bytes 4-9/10", "ETag", `"v2"`), body: rest, want: `ETag is "\"v2\"", and was "\"v1\""`},
		{name: "another date", first: h("Last-Modified", "Sun, 01 Mar 2026 12:00:00 GMT"), code: 206, header: h("Content-Range", "bytes 4-9/10", "Last-Modified", "Sun, 01 Mar 2026 12:00:01 GMT"), body: rest, want: "Last-Modified is"},
		{name: "another encoding", code: 206, header: h("Content-Range", "bytes 4-9/10", "Content-Encoding", "br"), body: rest, want: "Content-Encoding is"},
		{name: "another start", code: 206, header: h("Content-Range", "bytes 3-9/10"), body: rest, want: `Content-Range "bytes 3-9/10"`},
		{name: "no range", code: 206, body: rest, want: `Content-Range ""`},
		{name: "several ranges", code: 206, header: h("Content-Type", "multipart/byteranges; boundary=x"), body: rest, want: `Content-Range ""`},
		{name: "backwards", code: 206, header: h("Content-Range", "bytes 4-3/10"), body: rest, want: `Content-Range "bytes 4-3/10"`},
		{name: "no unit", code: 206, header: h("Content-Range", "4-9/10"), body: rest, want: `Content-Range "4-9/10"`},
		{name: "garbled", code: 206, header: h("Content-Range", "bytes 4-+9/10"), body: rest, want: `Content-Range "bytes 4-+9/10"`},
		{name: "a secret in the range", code: 206, header: h("Content-Range", "bytes secret/10"), body: rest, want: `Content-Range "bytes REDACTED/10"`},
		{name: "a secret in the ETag", code: 206, header: h("Content-Range", "bytes 4-9/10", "ETag", `"secret"`), body: rest, want: `ETag is "\"REDACTED\""`},
		{name: "a long range", code: 206, header: h("Content-Range", strings.Repeat("x", 5000)), body: rest, want: `Content-Range "` + strings.Repeat("x", 256) + `"`},
		{name: "overflowing", code: 206, header: h("Content-Range", "bytes 4-9/99999999999999999999"), body: rest, want: `Content-Range "bytes 4-9/9`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt, requests := files(tt.first, func(int, *http.Request) (int, http.Header, string) { return tt.code, tt.header, tt.body })
			got, _, err := download(t, client(rt), quick, "http://example.com/file?key=secret")
			if tt.want == "" {
				if got != "0123456789" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if e := wantReason(t, err, retry.ReasonPermanent); got != "0123" || !strings.Contains(err.Error(), tt.want) || e.Attempts != 2 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q, %v; want the first four bytes and %q", got, err, tt.want)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// All bytes of a chunked body have come, but not the chunk that ends it. The server
// says that there is no rest.
func TestDownloadWhoseEndWasLost(t *testing.T) {
	const file = "0123456789"
	content := func(now, etag string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", etag)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(now))
		}
	}
	refuse := func(length, etag string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", etag)
			w.Header().Set("Content-Range", length)
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}
	}
	for _, tt := range []struct {
		name string
		rest http.HandlerFunc
		ok   bool
	}{
		{"complete", content(file, `"v1"`), true},
		{"complete, by hand", refuse("bytes */10", `"v1"`), true},
		{"changed, of the same length", content("9876543210", `"v2"`), false},
		{"changed, by a server without If-Range", refuse("bytes */10", `"v2"`), false},
		{"shorter now", refuse("bytes */9", `"v1"`), false},
		{"of a length that is not known", refuse("bytes */*", `"v1"`), false},
		{"without a length", refuse("", `"v1"`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n > 1 {
					tt.rest(w, r)
					return
				}
				w.Header().Set("ETag", `"v1"`)
				_, _ = io.WriteString(w, file)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			got, resp, err := download(t, s.Client(), quick, s.URL)
			if resp.ContentLength >= 0 {
				t.Fatalf("the length is known: %d", resp.ContentLength)
			}
			if (err == nil) != tt.ok || got != file {
				t.Errorf("%q, %v, want that it ends well: %v", got, err, tt.ok)
			}
			s.wantRequests(t, 2)
		})
	}
}

func TestDownloadCountsWhatBringsNoByte(t *testing.T) {
	ok := http.Header{"Content-Range": {"bytes 4-9/10"}}
	for _, tt := range []struct {
		name   string
		rest   func(n int) (int, http.Header, string)
		body   string
		reason retry.Reason // ReasonNone: all came
		want   int32        // requests
	}{
		{"busy, then on", func(n int) (int, http.Header, string) {
			if n == 2 {
				return 503, nil, "busy"
			}
			return 206, ok, "456789"
		}, "0123456789", retry.ReasonNone, 3},
		{"busy for ever", func(int) (int, http.Header, string) { return 503, nil, "busy" }, "0123", retry.ReasonMaxAttempts, 3},
		{"empty for ever", func(int) (int, http.Header, string) { return 206, ok, "" }, "0123", retry.ReasonMaxAttempts, 3},
		{"a byte each time", func(n int) (int, http.Header, string) {
			at := n + 2
			return 206, http.Header{"Content-Range": {fmt.Sprintf("bytes %d-9/10", at)}}, fmt.Sprint(at)
		}, "0123456789", retry.ReasonNone, 7},
		{"a part each time", func(n int) (int, http.Header, string) {
			at := 2 * n
			return 206, http.Header{"Content-Range": {fmt.Sprintf("bytes %d-%d/10", at, at+1)}}, "0123456789"[at : at+2]
		}, "0123456789", retry.ReasonNone, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt, requests := files(nil, func(n int, _ *http.Request) (int, http.Header, string) { return tt.rest(n) })
			got, _, err := download(t, client(rt), quick, "http://example.com/file")
			if got != tt.body || requests.Load() != tt.want {
				t.Errorf("%q in %d requests, want %q in %d", got, requests.Load(), tt.body, tt.want)
			}
			if tt.reason == retry.ReasonNone {
				if err != nil {
					t.Error(err)
				}
			} else if e := wantReason(t, err, tt.reason); !errors.Is(e.Errs[0], io.ErrUnexpectedEOF) {
				t.Errorf("%v, want it to begin with the break", e.Errs)
			}
		})
	}
}

func TestDownloadThatIsAPlainGET(t *testing.T) {
	modtime := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		header  http.Header
		change  func(*http.Request)
		modtime time.Time
	}{
		"no validator":                 {nil, nil, time.Time{}},
		"a weak one":                   {http.Header{"Etag": {`W/"v1"`}}, nil, time.Time{}},
		"a date that is too young":     {nil, nil, time.Now().Add(time.Hour)},
		"a range of its own":           {tagged(), func(r *http.Request) { r.Header.Set("Range", "bytes=2-") }, modtime},
		"a body":                       {tagged(), func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("x")) }, modtime},
		"a range of its own, no bytes": {tagged(), func(r *http.Request) { r.Header["Range"] = []string{"lines=1-"} }, modtime},
	} {
		t.Run(name, func(t *testing.T) {
			answer := (&library{"0123456789", tt.header, tt.modtime, []int{4}}).answer
			s := serve(t, answer)
			req := request(t, "GET", s.URL, nil)
			if tt.change != nil {
				tt.change(req)
			}
			resp, err := retryhttp.Download(t.Context(), quick, client(s.base), req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); len(b) != 4 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q, %v; want four bytes and a break", b, err)
			}
			s.wantRequests(t, 1)
		})
	}
	for name, resp := range map[string]http.Response{
		"no ranges":                {StatusCode: 200, Header: http.Header{"Etag": {`"v1"`}, "Accept-Ranges": {"None"}}},
		"uncompressed by net/http": {StatusCode: 200, Header: tagged(), Uncompressed: true},
		"another status":           {StatusCode: 203, Header: tagged()},
	} {
		t.Run(name, func(t *testing.T) {
			rt := tripper(func(*http.Request) (*http.Response, error) {
				resp.Body = io.NopCloser(errReader{io.ErrUnexpectedEOF})
				return &resp, nil
			})
			if _, _, err := download(t, client(rt), quick, "http://example.com/"); err != io.ErrUnexpectedEOF {
				t.Errorf("%v, want that of the break", err)
			}
		})
	}
}

func TestDownloadsFirstResponseIsATransports(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusFound)
			return
		}
		statuses(503)(n, w, r)
	})
	rt := s.transport(retry.Policy{MaxAttempts: 9})
	resp, err := retryhttp.Download(t.Context(), quick, client(rt), request(t, "GET", s.URL+"/a", nil))
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, resp); resp.StatusCode != 503 || body != "answer 6" || resp.Request.URL.Path != "/b" {
		t.Errorf("%s %q from %s", resp.Status, body, resp.Request.URL)
	}
	if e := whyEnded(resp); e == nil || e.Attempts != 3 || retry.AttemptNumber(resp.Request.Context()) != 3 {
		t.Errorf("GaveUp: %v", e)
	}
	s.wantRequests(t, 6)
	// In its context a request is retried as usual.
	s2 := serve(t, statuses(503, 200))
	read(t, mustDo(t, s2.transport(quick), request(t, "GET", s2.URL, nil).WithContext(context.WithoutCancel(resp.Request.Context()))))
	s2.wantRequests(t, 2)

	_, err = retryhttp.Download(t.Context(), quick, client(rt), request(t, "HEAD", s.URL, nil))
	wantReason(t, err, retry.ReasonPermanent)
	body := stream("body")
	_, err = retryhttp.Download(t.Context(), quick, client(rt), request(t, "POST", s.URL, body))
	wantReason(t, err, retry.ReasonPermanent)
	body.wantClosedOnce(t)
	s.wantRequests(t, 6)
	down := request(t, "", "http://127.0.0.1:1/?key=secret", nil)
	if _, err = retryhttp.Download(t.Context(), quick, nil, down); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want it without the query", err)
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, requests := files(nil, func(int, *http.Request) (int, http.Header, string) { return 503, nil, "" })
		ctx, cancel := context.WithCancelCause(t.Context())
		errBored := errors.New("bored")
		resp, err := retryhttp.Download(ctx, retry.Policy{Backoff: retry.Constant(time.Hour)}, client(rt), request(t, "GET", "http://example.com/", nil))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { cancel(errBored) })
		start := time.Now()
		b, err := io.ReadAll(resp.Body)
		if e := wantReason(t, err, retry.ReasonCanceled); string(b) != "0123" || !errors.Is(e, errBored) || time.Since(start) != time.Minute || requests.Load() != 1 {
			t.Errorf("%q, %v after %v", b, err, time.Since(start))
		}
		if _, again := resp.Body.Read(make([]byte, 1)); again != err {
			t.Errorf("the next Read returns %v, want %v again", again, err)
		}
	})
}

func TestCloseOfADownloadEndsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, requests := files(nil, func(int, *http.Request) (int, http.Header, string) { return 503, nil, "" })
		resp, err := retryhttp.Download(t.Context(), retry.Policy{Backoff: retry.Constant(time.Hour)}, client(rt), request(t, "GET", "http://example.com/", nil))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { resp.Body.Close() })
		start := time.Now()
		_, err = io.ReadAll(resp.Body)
		if wantReason(t, err, retry.ReasonCanceled); time.Since(start) != time.Minute || requests.Load() != 1 || !strings.Contains(err.Error(), "the body was closed") {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	s := serve(t, (&library{"0123456789", tagged(), time.Time{}, []int{4}}).answer)
	resp, err := retryhttp.Download(t.Context(), quick, client(s.base), request(t, "GET", s.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("Read after Close: %v", err)
	}
	s.wantRequests(t, 1)
}

func TestDownloadHoldsNoConnectionWhileItWaits(t *testing.T) {
	t.Run("whatever the body is", func(t *testing.T) {
		closed, waits := 0, 0
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(1), Hooks: retry.Hooks{Wait: func(context.Context, retry.Attempt) {
			if waits++; closed != waits {
				t.Errorf("%d bodies closed before wait %d", closed, waits)
			}
		}}}
		rt := tripper(func(req *http.Request) (*http.Response, error) {
			body := struct {
				io.Reader
				io.Closer
			}{errReader{io.ErrUnexpectedEOF}, bodyFunc(func() { closed++ })}
			return &http.Response{StatusCode: 200, Header: tagged(), ContentLength: 10, Body: body, Request: req}, nil
		})
		if _, _, err := download(t, client(rt), p, "http://example.com/"); err == nil || waits != 1 {
			t.Errorf("%d waits, %v", waits, err)
		}
	})
	s := serve(t, (&library{strings.Repeat("x", 1000), tagged(), time.Time{}, []int{400, 300}}).answer)
	p, waits := quick, 0
	p.Hooks.Wait = func(context.Context, retry.Attempt) {
		eventually(t, "a connection is busy in the wait", func() bool { return s.busy() == 0 })
		waits++
	}
	if got, _, err := download(t, client(s.base), p, s.URL); len(got) != 1000 || err != nil || waits != 2 {
		t.Errorf("%d bytes, %v; %d waits", len(got), err, waits)
	}
}

// Whatever the server says about the rest, the Body gives the file's bytes and
// nothing else.
func FuzzDownload(f *testing.F) {
	f.Add(206, "bytes 4-9/10", `"v1"`, "456789", 206, "bytes 9-9/10", "9")
	f.Add(206, "bytes 4-5/10", "", "45", 206, "bytes 6-9/10", "6789")
	f.Add(503, "", "", "", 206, "bytes 4-9/10", "456789")
	f.Add(200, "", `"v2"`, "0123456789", 200, "", "")
	f.Add(206, "bytes 4-9/*", "", "45678", 206, "bytes 4-3/9", "x")
	f.Fuzz(func(t *testing.T, code int, content, etag, body string, code2 int, content2, body2 string) {
		rt, requests := files(nil, func(n int, _ *http.Request) (int, http.Header, string) {
			if n == 2 {
				h := http.Header{"Content-Range": {content}}
				if etag != "" {
					h.Set("Etag", etag)
				}
				return code, h, body
			}
			return code2, http.Header{"Content-Range": {content2}}, body2
		})
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}
		resp, err := retryhttp.Download(t.Context(), p, client(rt), request(t, "GET", "http://example.com/", nil))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !bytes.HasPrefix(got, []byte("0123")) || len(got) > 10 || err == nil && len(got) != 10 {
			t.Errorf("%q, %v", got, err)
		}
		if requests.Load() > 20 {
			t.Errorf("%d requests", requests.Load())
		}
	})
}
