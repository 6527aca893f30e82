package retryhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/retryhttp"
)

// What the header says, and how long the handler has then.
func TestHandlersTime(t *testing.T) {
	const ms, none, gone = time.Millisecond, time.Duration(-1), time.Duration(-2)
	for _, tt := range []struct {
		said   []string
		caller time.Duration // without a limit
	}{
		{nil, none}, {[]string{}, none},
		{[]string{"10000"}, 9900 * ms}, {[]string{"2000"}, 1900 * ms}, {[]string{"1999"}, 1999*ms - 1999*ms/20},
		{[]string{"100"}, 95 * ms}, {[]string{"1"}, 950 * time.Microsecond}, {[]string{" \t1000 "}, 950 * ms}, {[]string{"0000100"}, 95 * ms},
		{[]string{"0"}, gone}, {[]string{" 000"}, gone},
		{[]string{""}, none}, {[]string{" "}, none}, {[]string{"-1"}, none}, {[]string{"+5"}, none}, {[]string{"-0"}, none}, {[]string{"1.5"}, none}, {[]string{"1e3"}, none},
		{[]string{"0x10"}, none}, {[]string{"1_000"}, none}, {[]string{"1 000"}, none}, {[]string{"5ms"}, none}, {[]string{"5, 5"}, none}, {[]string{"٥"}, none}, {[]string{"5\x00"}, none},
		{[]string{"5", "5"}, none}, {[]string{"0", "0"}, none}, {[]string{"", "5"}, none},
		{[]string{"9223372036854"}, math.MaxInt64/ms*ms - 100*ms}, {[]string{"9223372036855"}, none}, {[]string{"18446744073710"}, none}, {[]string{"9223372036854775808"}, none},
		{[]string{strings.Repeat("9", 1000)}, none}, {[]string{strings.Repeat("0", 1000) + "100"}, 95 * ms},
	} {
		for _, limit := range []time.Duration{0, -1, 50 * ms, time.Minute} {
			want := tt.caller
			if limit > 0 && want != gone && (want == none || limit < want) {
				want = limit
			}
			synctest.Test(t, func(t *testing.T) {
				what := fmt.Sprintf("%q with a limit of %v", tt.said, limit)
				r := httptest.NewRequest("GET", "/", nil)
				if tt.said != nil {
					r.Header["X-Timeout-Ms"] = tt.said
				}
				r.Header.Set("Other", "x")
				sent, called := r.Header.Clone(), false
				w := httptest.NewRecorder()
				var ctx context.Context
				h := retryhttp.DeadlineHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					called, ctx = true, r.Context()
					left := none
					if deadline, ok := ctx.Deadline(); ok {
						left = time.Until(deadline)
					}
					if left != want {
						t.Errorf("%s: the handler has %v, want %v", what, left, want)
					}
					if got := r.Header["X-Timeout-Ms"]; len(got) > 0 || r.Header.Get("Other") != "x" {
						t.Errorf("%s: the handler's request has %v", what, r.Header)
					}
					r.Header.Add("Other", "y")
					w.WriteHeader(204)
				}), "x-timeout-MS", limit)
				h.ServeHTTP(w, r)
				if called == (want == gone) {
					t.Fatalf("%s: the handler was called: %v", what, called)
				}
				if code := map[bool]int{true: 204, false: 503}[called]; w.Code != code || w.Header().Get("X-Should-Retry") != "" {
					t.Errorf("%s: %d with %v, want %d without a word on a retry", what, w.Code, w.Header(), code)
				}
				if want > 0 && ctx.Err() != context.Canceled {
					t.Errorf("%s: the context goes on after the handler: %v", what, ctx.Err())
				}
				if len(tt.said) > 0 && !equalHeaders(r.Header, sent) {
					t.Errorf("%s: the caller's request has become %v", what, r.Header)
				}
			})
		}
	}
}

func TestHandlersContextEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Timeout-Ms", "1000")
		began := time.Now()
		retryhttp.DeadlineHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if took := time.Since(began); took != 950*time.Millisecond || r.Context().Err() != context.DeadlineExceeded {
				t.Errorf("the context ended after %v with %v", took, r.Context().Err())
			}
		}), "X-Timeout-Ms", time.Minute).ServeHTTP(httptest.NewRecorder(), r)
	})
}

// An empty name is never read, not even the header of that name.
func TestDeadlineHandlerWithoutAHeader(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header[""] = []string{"0"}
	called := false
	retryhttp.DeadlineHandler(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
		if called = true; got != r {
			t.Error("the handler got another request")
		}
	}), "", 0).ServeHTTP(httptest.NewRecorder(), r)
	if !called {
		t.Error("the handler was not called")
	}
	defer func() {
		if got := recover(); got != "retryhttp: nil handler" {
			t.Errorf("a nil handler: panic %v", got)
		}
	}()
	retryhttp.DeadlineHandler(nil, "", 0)
}

func TestDeadlineHandlerAllocatesNothingOfItsOwn(t *testing.T) {
	h := retryhttp.DeadlineHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "X-Timeout-Ms", 0)
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations without the header and without a limit, want 0", n)
	}
}

// wrapped are a handler alone, and below DeadlineHandler in each way that changes the
// request, within and around others.
func wrapped(h http.Handler) map[string]http.Handler {
	deadline := func(h http.Handler, limit time.Duration) http.Handler {
		return retryhttp.DeadlineHandler(h, "X-Timeout-Ms", limit)
	}
	return map[string]http.Handler{
		"alone":                    h,
		"the header":               deadline(h, 0),
		"a limit":                  deadline(h, time.Minute),
		"twice":                    deadline(deadline(h, 0), time.Minute),
		"within a TimeoutHandler":  http.TimeoutHandler(deadline(h, 0), time.Minute, ""),
		"around a TimeoutHandler":  deadline(http.TimeoutHandler(h, time.Minute, ""), time.Minute),
		"around http.StripPrefix":  deadline(http.StripPrefix("/x", h), time.Minute),
		"around a MaxBytesHandler": deadline(http.MaxBytesHandler(h, 1<<30), time.Minute),
	}
}

// The handler sees the connection, the route and the body as without DeadlineHandler.
func TestDeadlineHandlerHidesNothing(t *testing.T) {
	needHTTP2(t)
	for protocol, start := range protocols {
		var writer http.ResponseWriter
		inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if w != writer {
				t.Errorf("%s: the handler got a %T, not the server's ResponseWriter", protocol, w)
			}
			if r.PathValue("id") != "7" || r.Pattern != "POST /users/{id}" {
				t.Errorf("%s: PathValue %q, Pattern %q", protocol, r.PathValue("id"), r.Pattern)
			}
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("%s: %v", protocol, err)
			}
			if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) > 59*time.Second {
				t.Errorf("%s: a deadline at %v", protocol, deadline)
			}
			body, _ := io.ReadAll(r.Body)
			if string(body) != "body" || r.Trailer.Get("Sum") != "ok" {
				t.Errorf("%s: body %q, trailer %v", protocol, body, r.Trailer)
			}
			for i := range 3 { // a stream in pieces
				_, _ = fmt.Fprint(w, i)
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, " ")
			}
		})
		mux := http.NewServeMux()
		mux.Handle("POST /users/{id}", retryhttp.DeadlineHandler(inner, "X-Timeout-Ms", 0))
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			writer = w
			mux.ServeHTTP(w, r)
		}))
		own := &server{Server: s}
		start(own)
		req := request(t, "POST", s.URL+"/users/7", struct{ io.Reader }{strings.NewReader("body")})
		req.Header.Set("X-Timeout-Ms", "59000")
		req.Trailer = http.Header{"Sum": {"ok"}}
		resp := mustDo(t, s.Client().Transport, req)
		if got := read(t, resp); got != "0 1 2 " {
			t.Errorf("%s: body %q", protocol, got)
		}
		s.Close()
	}
}

func TestDeadlineHandlerAndAHijack(t *testing.T) {
	s := httptest.NewServer(retryhttp.DeadlineHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	}), "X-Timeout-Ms", time.Minute))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Timeout-Ms: 60000\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	if line, _ := r.ReadString('\n'); line != "hello\n" {
		t.Errorf("the connection says %q", line)
	}
}

// The server removes the temporary files of an upload whose request it knows. Those of
// a copy it does not see.
func TestDeadlineHandlerRemovesUploads(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // the last two are Windows'
		t.Setenv(name, dir)
	}
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, _ := form.CreateFormFile("file", "name")
	_, _ = part.Write(bytes.Repeat([]byte("x"), 1<<20))
	_ = form.WriteField("field", "value")
	form.Close()

	var ends error // what the handler panics with
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
			return
		}
		f, fh, err := r.FormFile("file")
		if err != nil || fh.Size != 1<<20 || r.FormValue("field") != "value" || files() != 1 {
			t.Errorf("FormFile: %v, %d files", err, files())
		}
		if err == nil {
			f.Close() // Windows removes no open file
		}
		if ends != nil {
			panic(ends)
		}
	})
	for name, h := range wrapped(h) {
		if strings.Contains(name, "within") || strings.Contains(name, "around") {
			continue // net/http's own copies of the request hide the files
		}
		for _, ends = range []error{nil, http.ErrAbortHandler} {
			if ends != nil && name == "alone" {
				continue // net/http does not remove them then
			}
			s := httptest.NewServer(h)
			req := request(t, "POST", s.URL+"/x", bytes.NewReader(body.Bytes()))
			req.Header.Set("Content-Type", form.FormDataContentType())
			req.Header.Set("X-Timeout-Ms", "60000")
			resp, err := s.Client().Do(req)
			if (err != nil) != (ends != nil) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				read(t, resp)
			}
			s.Close() // which waits for the handler
			if n := files(); n != 0 {
				t.Errorf("%s, panic %v: %d files are left", name, ends, n)
			}
		}
	}

	// A form that was parsed before is not ours to remove.
	ends = nil
	r := httptest.NewRequest("POST", "/", bytes.NewReader(body.Bytes()))
	r.Header.Set("Content-Type", form.FormDataContentType())
	if err := r.ParseMultipartForm(1); err != nil {
		t.Fatal(err)
	}
	retryhttp.DeadlineHandler(h, "", time.Minute).ServeHTTP(httptest.NewRecorder(), r)
	if n := files(); n != 1 {
		t.Errorf("%d files of the caller's form are left, want 1", n)
	}
	_ = r.MultipartForm.RemoveAll()
}

// Below and around other handlers the answers are the same.
func TestDeadlineHandlerBesideOthers(t *testing.T) {
	var want string
	for name, h := range wrapped(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X", r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
	})) {
		if strings.Contains(name, "StripPrefix") {
			continue
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/x", strings.NewReader("body"))
		r.Header.Set("X-Timeout-Ms", "60000")
		h.ServeHTTP(w, r)
		got := fmt.Sprint(w.Code, maps.Clone(w.Header()), w.Body)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestPanicPassesThroughDeadlineHandler(t *testing.T) {
	boom := errors.New("boom")
	var ctx context.Context
	h := retryhttp.DeadlineHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx = r.Context()
		panic(boom)
	}), "", time.Minute)
	func() {
		defer func() {
			if got := recover(); got != boom {
				t.Errorf("panic %v, want %v", got, boom)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}()
	if ctx.Err() != context.Canceled {
		t.Errorf("the context after a panic: %v", ctx.Err())
	}
}
