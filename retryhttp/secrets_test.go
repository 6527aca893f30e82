package retryhttp_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestJSONReadsNoMoreThanMaxResponse(t *testing.T) {
	const size = 65 << 20 // 64 KiB on the wire
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		var n int
		_, _ = fmt.Sscan(r.URL.Path[1:], &n)
		_, _ = io.WriteString(z, `"`)
		_, _ = io.CopyN(z, spaces{}, int64(n-2))
		_, _ = io.WriteString(z, `"`)
		_ = z.Close()
	}))
	defer server.Close()
	for _, tt := range []struct {
		limit int64
		size  int
		ok    bool
	}{
		{0, size, false},
		{-1, 100_000, true},
		{1000, 1000, true},
		{1000, 1001, false},
		{1<<63 - 1, 1001, true},
	} {
		rt := &retryhttp.Transport{Base: server.Client().Transport, MaxResponse: tt.limit}
		got, err := retryhttp.JSON[string](t.Context(), quick, client(rt), request(t, "GET", fmt.Sprint(server.URL, "/", tt.size), nil))
		if tt.ok {
			if err != nil || len(got) != tt.size-2 {
				t.Errorf("MaxResponse %d, a body of %d: %d bytes, %v", tt.limit, tt.size, len(got), err)
			}
			continue
		}
		if e := wantReason(t, err, retry.ReasonPermanent); e.Attempts != 1 || got != "" || !strings.Contains(err.Error(), "longer than Transport.MaxResponse") {
			t.Errorf("MaxResponse %d, a body of %d: %v", tt.limit, tt.size, err)
		}
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestJSONShowsWhatCameInsteadOfJSON(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, "<html>\n<h1>Please log in to see /?%s</h1>%s", r.URL.RawQuery, strings.Repeat("x", 10_000))
	})
	_, err := retryhttp.JSON[user](t.Context(), quick, s.Client(), request(t, "GET", s.URL+"/page?token=to%20p&secret", nil))
	wantReason(t, err, retry.ReasonPermanent)
	want := "GET " + s.URL + `/page?token=REDACTED&REDACTED: 202 Accepted, text/html; charset=utf-8: invalid character '<' looking for beginning of value: ` +
		`"<html>\n<h1>Please log in to see /?token=REDACTED&REDACTED</h1>xxx`
	if got := err.Error(); !strings.Contains(got, want) || len(got) > len(want)+400 {
		t.Errorf("error %v,\nwant %v and little more", err, want)
	}
}

// Nothing that a server may put into a response shows up in a text of JSON's with a
// secret of a URL, or with a header's value.
func TestJSONErrorsKeepSecrets(t *testing.T) {
	for name, response := range map[string]string{
		"Location that is no URL":      "HTTP/1.1 302 Found\r\nLocation: http://user:SECRET@host/%zz?token=SECRET\r\nContent-Length: 0\r\n\r\n",
		"Location with a bad port":     "HTTP/1.1 302 Found\r\nLocation: http://user:SECRET@host:SECRET/?token=SECRET\r\nContent-Length: 0\r\n\r\n",
		"Location of another scheme":   "HTTP/1.1 302 Found\r\nLocation: ftp://SECRET:SECRET@host/?token=SECRET\r\nContent-Length: 0\r\n\r\n",
		"Location of a closed port":    "HTTP/1.1 302 Found\r\nLocation: http://SECRET:SECRET@127.0.0.1:1/?token=SECRET#SECRET\r\nContent-Length: 0\r\n\r\n",
		"Location without a host":      "HTTP/1.1 302 Found\r\nLocation: http://?token=SECRET\r\nContent-Length: 0\r\n\r\n",
		"Location that is not allowed": "HTTP/1.1 307 Temporary Redirect\r\nLocation: /no?token=SECRET\r\nContent-Length: 0\r\n\r\n",
		"header without a colon":       "HTTP/1.1 200 OK\r\nSet-Cookie SECRET\r\n\r\n",
		"header with a NUL":            "HTTP/1.1 200 OK\r\nX\x00: SECRET\r\n\r\n",
		"header that goes on":          "HTTP/1.1 200 OK\r\n Set-Cookie: SECRET\r\n\r\n",
		"header in the first line":     "Set-Cookie: SECRET\r\n\r\n",
		"odd status":                   "HTTP/1.1 SECRET OK\r\n\r\n",
		"odd encoding":                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: SECRET\r\n\r\n",
		"trailer without a colon":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nSECRET\r\n\r\n",
		"no JSON":                      "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n<html>SECRET</html>\n",
		"not found":                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
							_, _ = io.WriteString(c, response)
						}
					}()
				}
			}()
			base := &http.Transport{DisableKeepAlives: true}
			defer base.CloseIdleConnections()
			c := client(base)
			c.CheckRedirect = func(next *http.Request, _ []*http.Request) error {
				if next.URL.Path == "/no" {
					return errors.New("not allowed")
				}
				return nil
			}
			p, events := recorded(quick)
			_, err = retryhttp.JSON[user](t.Context(), p, c, request(t, "GET", "http://user:SECRET@"+l.Addr().String()+"/path?q=SECRET", nil))
			if err == nil {
				t.Fatal("no error")
			}
			texts := []error{err, events.summary.Err}
			for _, a := range events.attempts {
				for e := a.Err; e != nil; e = errors.Unwrap(e) {
					texts = append(texts, e)
				}
			}
			for _, e := range texts {
				for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e)} {
					if strings.Contains(text, "SECRET") {
						t.Errorf("%T: %s", e, text)
					}
				}
			}
			if !strings.Contains(strings.ToUpper(err.Error()), "GET ") {
				t.Errorf("error %v does not tell the request", err)
			}
		})
	}
}

// Before go1.26.4 net/http did not quote a malformed line.
func TestJSONErrorsKeepSecretsThatAreNotQuoted(t *testing.T) {
	for _, text := range []string{
		"malformed MIME header line: X\x00: SECRET",
		"malformed MIME header initial line:  Set-Cookie: SECRET",
		`malformed MIME header line: SECRET "SECRET"`,
	} {
		for _, fails := range []error{
			textproto.ProtocolError(text),
			errors.New("net/http: HTTP/1.x transport connection broken: " + text),
		} {
			base := tripper(func(*http.Request) (*http.Response, error) { return nil, fails })
			_, err := retryhttp.JSON[user](t.Context(), quick, client(base), request(t, "GET", "http://example.com/", nil))
			if err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "malformed MIME header") {
				t.Errorf("error %v", err)
			}
		}
	}
}

// One short value in the query, many times: what hides it must not be hidden again,
// which would multiply the text each time.
func TestJSONErrorOfAPageTakesLittleMemory(t *testing.T) {
	base := tripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("<html>" + strings.Repeat("RED ", 2000)))}, nil
	})
	for _, n := range []int{1, 3, 100} {
		req := request(t, "GET", "http://example.com/?"+strings.Repeat("tag=E&tag=D&", n)+"x=E&y=RED&z=RE", nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := retryhttp.JSON[user](t.Context(), quick, client(base), req)
		runtime.ReadMemStats(&after)
		wantReason(t, err, retry.ReasonPermanent)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Fatalf("%d values: %d bytes allocated", 2*n+3, used)
		}
		if !strings.Contains(err.Error(), `"<html>REDACTED REDACTED `) {
			t.Errorf("%d values: %v", 2*n+3, err)
		}
	}
}

// A secret is hidden whole, wherever it is in the page, and so are those that overlap.
func TestJSONErrorShowsNoPartOfASecret(t *testing.T) {
	secret := ""
	for i := range 300 {
		secret += fmt.Sprintf("s3c%dr3t", i)
	}
	for name, tt := range map[string]struct{ userinfo, query, page string }{
		"at 4 KiB":               {"", "token=" + secret, "<html>" + strings.Repeat(secret, 4) + "end"},
		"at 256 bytes":           {"", "token=s3cr3t", "<" + strings.Repeat("x", 252) + "s3cr3t"},
		"a password":             {"u:" + "s3cr3t" + "@", "", "<html>" + strings.Repeat("x", 246) + "s3cr3t"},
		"a password, as it is":   {"u:s3cr%403t@", "", "<html>http://u:s3cr%403t@h s3cr@3t"},
		"a name, as it is":       {"s3cr%403t:u@", "", "<html>http://s3cr%403t:u@h"},
		"where redirects led to": {"", "elsewhere=1", "<html>s3cr3t"},
		"a query, as it is":      {"", "q=s3cr%2B3t", "<html>q=s3cr%2B3t s3cr+3t"},
		"overlapping itself":     {"", "q=s3cs3c", "<html>s3cs3cs3c s3cs3cs3cs3c"},
		"overlapping each other": {"", "a=s3cr3t&b=t-s3cr", "<html>s3cr3t-s3cr t-s3cr3t"},
		"one in the other":       {"", "a=s3&b=s3cr3t", "<html>s3cr3t s3 "},
	} {
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.RawQuery == "elsewhere=1" {
				return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/?token=s3cr3t"}}, Body: http.NoBody}, nil
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(tt.page)), Request: req}, nil
		})
		_, err := retryhttp.JSON[user](t.Context(), quick, client(base), request(t, "GET", "http://"+tt.userinfo+"example.com/?"+tt.query, nil))
		wantReason(t, err, retry.ReasonPermanent)
		if text := err.Error(); strings.Contains(text, "s3c") || strings.Contains(text, "3t") || strings.Contains(text, "cr") || !strings.Contains(text, "RE") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A redirect chooses how many values there are to look for. Beyond some, looking for
// them would take longer than the caller waits: then nothing of the page is shown.
func TestJSONErrorShowsNothingIfThereAreManySecrets(t *testing.T) {
	many := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "&a=%0*d", size, i)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		query string
		shown bool
	}{
		"the same value":   {strings.Repeat("&a=zzz", 100_000), true},
		"200 values":       {many(200, 4), true},
		"201 values":       {many(201, 4), false},
		"64 KiB":           {many(1, 64<<10), true},
		"a byte more":      {many(1, 64<<10+1), false},
		"a million values": {many(1_000_000, 7), false},
	} {
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/" {
				return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/x?" + tt.query}}, Body: http.NoBody}, nil
			}
			h := http.Header{"Content-Type": {"text/html"}}
			return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader("<html>zzz")), Request: req}, nil
		})
		_, err := retryhttp.JSON[user](t.Context(), quick, client(base), request(t, "GET", "http://example.com/", nil))
		wantReason(t, err, retry.ReasonPermanent)
		if _, ok := errors.AsType[*json.SyntaxError](err); !ok {
			t.Errorf("%s: %v holds no SyntaxError", name, err)
		}
		if text := err.Error(); strings.Contains(text, "<html>") != tt.shown || !tt.shown && !strings.HasSuffix(text, `200 OK, REDACTED: *json.SyntaxError: "REDACTED"`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A server may repeat a query's value in a header too, and a header may be long.
func TestJSONErrorShowsNoSecretOfAHeader(t *testing.T) {
	base := tripper(func(req *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"text/html; " + req.URL.Query().Get("token") + strings.Repeat("x", 5000)}}
		return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader("<html>")), Request: req}, nil
	})
	_, err := retryhttp.JSON[user](t.Context(), quick, client(base), request(t, "GET", "http://example.com/?token=s3cr3t", nil))
	wantReason(t, err, retry.ReasonPermanent)
	if want := "200 OK, text/html; REDACTED" + strings.Repeat("x", 256-len("text/html; REDACTED")) + ": "; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
}

// A body that is whole and does not fit T will not fit it next time, whoever says so.
func TestJSONBodyThatDoesNotFitIsPermanent(t *testing.T) {
	get := func(query, body string, into func(context.Context, *http.Client, retry.Policy, *http.Request) error) (int, error) {
		requests := 0
		base := tripper(func(req *http.Request) (*http.Response, error) {
			requests++
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
		})
		err := into(t.Context(), client(base), quick, request(t, "GET", "http://example.com/?"+query, nil))
		return requests, err
	}
	for name, tt := range map[string]struct {
		body string
		into func(context.Context, *http.Client, retry.Policy, *http.Request) error
	}{
		"UnmarshalJSON of time":   {`{"At":"tok3n"}`, as[struct{ At time.Time }]},
		"UnmarshalJSON of ours":   {`{"At":"tok3n"}`, as[struct{ At picky }]},
		"UnmarshalText of ours":   {`{"tok3n":"x"}`, as[map[pickyText]string]},
		"a number for a string":   {`{"At": 70331}`, as[struct{ At string }]},
		"a number that overflows": {`{"At": 70331}`, as[struct{ At int8 }]},
		"no JSON":                 {`{"At": tok3n}`, as[struct{ At string }]},
	} {
		n, err := get("token=tok3n&id=70331", tt.body, tt.into)
		wantReason(t, err, retry.ReasonPermanent)
		if n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, "tok3n") || strings.Contains(text, "70331") {
				t.Errorf("%s: %s", name, text)
			}
			if last, ok := e.(*retry.Error); ok {
				e = fmt.Errorf("%w", last.Last())
			}
		}
	}

	_, err := get("token=tok3n", `{"At":"tok3n"}`, as[struct{ At time.Time }])
	if e, ok := errors.AsType[*time.ParseError](err); !ok || e.Value != `"tok3n"` && e.Value != "tok3n" {
		t.Errorf("errors.As finds %v in %v, want the *time.ParseError", e, err)
	}
	if _, err = get("", `{"At":"x"}`, as[struct{ At picky }]); !errors.Is(err, errPicky) {
		t.Errorf("errors.Is does not find in %v what UnmarshalJSON returned", err)
	}
}

func as[T any](ctx context.Context, c *http.Client, p retry.Policy, req *http.Request) error {
	_, err := retryhttp.JSON[T](ctx, p, c, req)
	return err
}

var errPicky = errors.New("picky")

type picky struct{}

func (*picky) UnmarshalJSON(b []byte) error { return fmt.Errorf("%w: %s", errPicky, b) }

type pickyText string

func (pickyText) UnmarshalText(b []byte) error { return fmt.Errorf("%w: %s", errPicky, b) }

// peeked is a body that tells whether it was read.
type peeked struct {
	io.Reader
	read   atomic.Bool
	closed atomic.Int32
}

func (p *peeked) Read(b []byte) (int, error) {
	p.read.Store(true)
	return p.Reader.Read(b)
}

func (p *peeked) Close() error {
	p.closed.Add(1)
	return nil
}

// A body whose length is known to be too much is not read at all.
func TestJSONReadsNothingOfABodyThatIsTooLong(t *testing.T) {
	body := &peeked{Reader: strings.NewReader(strings.Repeat(" ", 1001))}
	base := tripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ContentLength: 1001, Body: body}, nil
	})
	rt := &retryhttp.Transport{Base: base, MaxResponse: 1000}
	_, err := retryhttp.JSON[string](t.Context(), quick, client(rt), request(t, "GET", "http://example.com/", nil))
	wantReason(t, err, retry.ReasonPermanent)
	if !strings.Contains(err.Error(), "longer than Transport.MaxResponse, 1000 bytes") || body.read.Load() || body.closed.Load() == 0 {
		t.Errorf("%v; read %v, closed %d times", err, body.read.Load(), body.closed.Load())
	}

	s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1001") })
	rt.Base = s.base
	if _, err := retryhttp.JSON[string](t.Context(), quick, client(rt), request(t, "HEAD", s.URL, nil)); err != nil {
		t.Errorf("a HEAD, whose answer has a length and no body: %v", err)
	}
}
