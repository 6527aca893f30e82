package retryhttp_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		got, err := retryhttp.JSON[string](t.Context(), client(rt), quick, request(t, "GET", fmt.Sprint(server.URL, "/", tt.size), nil))
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
	_, err := retryhttp.JSON[user](t.Context(), s.Client(), quick, request(t, "GET", s.URL+"/page?token=to%20p&secret", nil))
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
			_, err = retryhttp.JSON[user](t.Context(), c, p, request(t, "GET", "http://user:SECRET@"+l.Addr().String()+"/path?q=SECRET", nil))
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
