package combine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// answer is what the server does with a request.
type answer struct {
	status int
	header string // "Name: value"
	err    error  // in place of a response
	broken bool   // the body ends with an error
	final  bool   // no retry may follow
	undone bool   // proof that the request did nothing
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

var answers = []answer{
	{status: 200}, {status: 200}, {status: 200}, {status: 200}, {status: 200}, {status: 200, broken: true},
	{status: 404, final: true},
	{status: 404, header: "X-Should-Retry: false", final: true},
	{status: 421, undone: true},
	{status: 429},
	{status: 429, header: "Retry-After: 0", undone: true},
	{status: 429, header: "Retry-After: 1", undone: true},
	{status: 500}, {status: 503}, {status: 503}, {status: 503, broken: true},
	{status: 503, header: "Retry-After: 1"},
	{status: 503, header: "Retry-After: 3600", final: true},
	{status: 503, header: "X-Should-Retry: false", final: true},
	{err: errRefused, undone: true}, {err: errRefused, undone: true},
	{err: io.ErrUnexpectedEOF}, {err: context.DeadlineExceeded}, {err: listed{"a"}},
}

// server is the Base of a Transport. Its one file is content.
type server struct{ *caller }

var content = bytes.Repeat([]byte("0123456789"), 30)

func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.enter(req.Context())
	o := outcome{err: errDown}
	defer func() { s.leave(o) }()
	if req.Body != nil {
		defer req.Body.Close()
		_, _ = io.CopyN(io.Discard, req.Body, int64(s.draw("reads", 40)))
	}
	s.at("op")
	s.pass(req.Context())
	if err := req.Context().Err(); err != nil {
		o = outcome{err: err}
		return nil, err
	}
	a := one(s.world, s.name+" answer", answers...)
	if a.err != nil {
		o = outcome{err: a.err, final: a.final, undone: a.undone}
		return nil, a.err
	}
	said := a.status == 503 && a.header == "X-Should-Retry: false" && s.vouches // Classify goes before that header
	o = outcome{final: a.final && !said, undone: a.undone}
	if a.status >= 400 {
		o.err = errors.New(fmt.Sprint(a.status, " ", a.header))
	}
	return s.response(req, a), nil
}

func (s server) response(req *http.Request, a answer) *http.Response {
	resp := &http.Response{StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Etag": {`"1"`}}, Request: req, ContentLength: -1}
	if name, value, ok := strings.Cut(a.header, ": "); ok {
		resp.Header.Set(name, value)
	}
	body := []byte(`"answer"`)
	if s.way.name == "Download" && a.status == 200 {
		body = content
		if from, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes="); ok {
			at, _ := strconv.Atoi(strings.TrimSuffix(from, "-"))
			resp.StatusCode = http.StatusPartialContent
			resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(content)-1, len(content)))
			body = content[at:]
		}
		resp.ContentLength = int64(len(body))
	}
	var r io.Reader = bytes.NewReader(body)
	if a.broken {
		r = io.MultiReader(io.LimitReader(r, int64(s.draw("broken", len(body)))), broken{})
	}
	resp.Body = s.body(fmt.Sprintf("the body of %s's response %d", s.name, a.status), r)
	return resp
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// request returns what the caller sends.
func (c *caller) request() *http.Request {
	var body io.Reader
	method := one(c.world, c.name+" method", "GET", "GET", "PUT", "POST")
	if method != "GET" {
		body = c.body("the body of "+c.name+"'s request", one[io.Reader](c.world, c.name+" body", strings.NewReader("some body"), strings.NewReader(strings.Repeat("long", 100))))
	}
	req, _ := http.NewRequestWithContext(c.ctx, method, "http://example.com/", body)
	if body != nil && c.draw(c.name+" again", 2) == 0 {
		req.GetBody = func() (io.ReadCloser, error) {
			c.at("getbody")
			return c.body("the body of "+c.name+"'s later request", strings.NewReader("some body")), nil
		}
	}
	if method == "POST" && c.draw(c.name+" key", 2) == 0 {
		req.Header.Set("Idempotency-Key", `"k"`)
	} else if method == "POST" {
		c.policy.NonIdempotent = true // which is what the method means: see enter
	}
	return req
}

// transport returns a Transport of the caller's.
func (c *caller) transport() *retryhttp.Transport {
	t := &retryhttp.Transport{Base: server{c}, Policy: c.policy, MaxBuffer: int64(one(c.world, "buffer", 0, 100, -1))}
	if c.draw("prepares", 3) == 0 {
		t.Prepare = func(*http.Request) error {
			c.at("prepare")
			return one(c.world, c.name+" prepare", nil, nil, nil, nil, errDown)
		}
	}
	if c.draw("checks", 3) == 0 {
		t.Check = func(resp *http.Response) error {
			c.at("check")
			err := one(c.world, c.name+" check", nil, nil, nil, nil, errDown)
			if err != nil { // what the status and the headers say counts as well
				proof := resp.StatusCode == http.StatusMisdirectedRequest || resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != ""
				c.becomes(outcome{err: err, undone: proof})
			}
			return err
		}
	}
	if c.draw("headers", 3) == 0 {
		t.TimeoutHeader, t.AttemptHeader = "X-Timeout-Ms", "X-Attempt"
	}
	if c.way.hedged {
		t.Hedge = func(string) *hedge.Hedge { return c.hedge }
	}
	return t
}

// read reads a response as a caller may: all of it, a part, or nothing.
func (c *caller) read(resp *http.Response) error {
	if resp == nil {
		return nil
	}
	defer resp.Body.Close()
	switch c.draw(c.name+" read", 3) {
	case 0:
		return nil
	case 1:
		_, err := io.CopyN(io.Discard, resp.Body, 3)
		return err
	}
	_, err := io.Copy(io.Discard, resp.Body)
	return err
}

func init() {
	sites := []string{"prepare", "check", "getbody"}
	ways = append(ways,
		way{name: "Transport", http: true, sites: sites, call: func(c *caller) error {
			req := c.request()
			resp, err := c.transport().RoundTrip(req)
			_ = c.read(resp)
			return err
		}},
		way{name: "Transport in a Client", sites: sites, call: func(c *caller) error {
			req := c.request()
			resp, err := (&http.Client{Transport: c.transport()}).Do(req)
			_ = c.read(resp)
			return err
		}},
		way{name: "hedged Transport", hedged: true, own: true, sites: append(sites, "hedged"), call: func(c *caller) error {
			req := c.request()
			resp, err := c.transport().RoundTrip(req)
			_ = c.read(resp)
			return err
		}},
		way{name: "JSON", sites: sites, call: func(c *caller) error {
			req := c.request()
			v, err := retryhttp.JSON[string](c.ctx, c.policy, &http.Client{Transport: c.transport()}, req)
			if err == nil && v != "answer" {
				c.report("%s: JSON returned %q", c.name, v)
			}
			return err
		}},
		way{name: "Download", many: true, sites: sites, most: unlimited, call: func(c *caller) error {
			req, _ := http.NewRequestWithContext(c.ctx, "GET", "http://example.com/file", nil)
			resp, err := retryhttp.Download(c.ctx, c.policy, &http.Client{Transport: server{c}}, req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if c.draw(c.name+" leaves", 6) == 0 {
				return nil
			}
			got, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode == 200 && !bytes.Equal(got, content) {
				c.report("%s: %d bytes were not those of the file", c.name, len(got))
			}
			return err
		}},
	)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
