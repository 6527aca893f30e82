package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hint"
)

// Download sends a GET through c and returns its response as a [Transport] would. If
// the Body breaks off, its Read requests the rest, with Range from the bytes already
// read, and with If-Range by the strong ETag or else by a Last-Modified that is at least
// a second older than the response. The answer must be a 206 that fits. Anything else
// ends the Body with an error, such as the 200 or 412 of a server whose file has changed,
// another total or another ETag. If only the end of a chunked body was lost, the server
// answers 416, and the Body ends without an error.
//
// Each break starts a new run of the policy, in which the break counts as the first
// attempt. So there is a wait before the request for the rest, and only a status that
// the policy would retry is retried. An attempt that brings no new byte has failed. An
// attempt that brings one ends the run. If a run gives up, Read returns its
// *[retry.Error]. AttemptTimeout covers each attempt up to its response headers.
//
// A Body does not continue if the response has no such validator, has Accept-Ranges:
// none or a status other than 200, or was decompressed by net/http, or if the request
// has a body or a Range of its own. So that net/http does not decompress, the request
// gets Accept-Encoding: identity, unless it has that header. A method other than GET
// is an error.
//
// ctx, c and req are used as by [JSON], which panics if ctx or req is nil. Always close the
// Body: that also ends a wait.
func Download(ctx context.Context, p retry.Policy, c *http.Client, req *http.Request) (*http.Response, error) {
	demand(ctx, req)
	own := req.WithContext(ctx)
	if _, ok := req.Header["Accept-Encoding"]; !ok {
		own.Header = req.Header.Clone()
		setHeader(own, "Accept-Encoding", "identity")
	}
	call := newClientCall(c, p, own)
	if call.method() != http.MethodGet {
		call.refusal = fmt.Errorf("retryhttp: Download makes no %s requests", call.method())
	}
	s := settingsOf(ctx).or(settingsOf(req.Context()))
	resp, err := call.roundTrip(ctx, s)
	if err != nil {
		return nil, err
	}
	if goesOn(own, resp) {
		d := &download{client: c, policy: p, settings: s, req: own, first: resp.Header.Clone(), body: resp.Body, total: resp.ContentLength}
		d.ctx, d.cancel = context.WithCancelCause(ctx)
		resp.Body = d
	}
	return resp, nil
}

// goesOn reports whether the rest of a response can be requested.
func goesOn(req *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && !resp.Uncompressed && resp.Body != http.NoBody &&
		!hasBody(req) && len(req.Header["Range"]) == 0 && validator(resp.Header) != "" &&
		!strings.EqualFold(strings.TrimSpace(resp.Header.Get("Accept-Ranges")), "none")
}

// validator returns what If-Range may name: an ETag if it is strong, else a
// Last-Modified that is at least a second older than the response, since a file may
// change twice within one (RFC 9110, sections 13.1.5 and 8.8.2.2).
func validator(h http.Header) string {
	if etag := h.Get("ETag"); len(etag) > 1 && etag[0] == '"' {
		return etag
	}
	modified, known := hint.Date(h.Get("Last-Modified"))
	sent, dated := hint.Date(h.Get("Date"))
	if known && dated && sent.Sub(modified) >= time.Second {
		return h.Get("Last-Modified")
	}
	return ""
}

// download is a Body that continues after a break. Close may be called during a Read.
type download struct {
	ctx      context.Context // ends with the Body
	cancel   context.CancelCauseFunc
	client   *http.Client
	policy   retry.Policy
	settings *settings
	req      *http.Request
	first    http.Header // of the first response

	given  int64 // bytes so far
	total  int64 // bytes in all, -1 if not known yet
	broken error // what the latest body ended with
	err    error // what Read ends with

	mu     sync.Mutex
	body   io.ReadCloser
	closed bool
}

func (d *download) Read(p []byte) (n int, err error) {
	if d.err != nil || len(p) == 0 {
		return 0, d.err
	}
	if d.broken == nil {
		body, _ := d.current()
		n = d.read(body, p)
	}
	if n == 0 && d.broken != nil && d.broken != io.EOF {
		n = d.resume(p)
	}
	if d.broken == io.EOF {
		d.err = io.EOF
		d.cancel(nil)
	}
	if n > 0 {
		return n, nil
	}
	return 0, d.err
}

// read reads from a body and counts. It sets broken to the error with which the body
// ended, which is io.EOF only after all bytes.
func (d *download) read(body io.Reader, p []byte) int {
	n, err := body.Read(p)
	d.given += int64(n)
	switch {
	case err == nil:
	case d.given == d.total, d.total < 0 && err == io.EOF:
		d.broken = io.EOF
	case err == io.EOF:
		d.broken = io.ErrUnexpectedEOF
	default:
		d.broken = err
	}
	return n
}

// resume makes a run that requests the rest, until its first bytes are in p. If the
// run gives up, resume sets err.
func (d *download) resume(p []byte) int {
	body, closed := d.current()
	if closed {
		d.err = d.broken
		return 0
	}
	body.Close() // nothing is held in a wait
	rest := d.req.Clone(d.ctx)
	rest.Header.Set("Range", "bytes="+strconv.FormatInt(d.given, 10)+"-")
	rest.Header.Set("If-Range", validator(d.first))
	c := newClientCall(d.client, d.policy, rest)
	defer c.end(false)
	c.plan(d.settings)
	run := c.policy.Attempts(d.ctx)
	c.runs(run)
	c.untimed(run)
	run.Resumed()
	defer run.Close()
	n := 0
	for run.Next() {
		var v retry.Verdict
		if c.attempts == 0 { // it was the one that broke off
			c.attempts, c.ctx = 1, run.Context()
			v = c.judge(d.broken, retry.Unknown)
		} else {
			n, v = d.again(run, c, p)
		}
		c.settle(run, &v)
	}
	if d.err = run.Err(); d.err != nil {
		d.cancel(nil)
	}
	return n
}

// again makes one attempt at the rest.
func (d *download) again(run *retry.Attempts, c *call, p []byte) (n int, v retry.Verdict) {
	resp := c.send(run.Context(), &v)
	if resp == nil {
		return 0, v
	}
	if v.Err == nil && d.isComplete(resp) {
		d.broken = io.EOF
		return 0, v
	}
	if v.Err == nil {
		v = d.fit(c, resp)
	}
	if v.Err != nil {
		return 0, v // settle drains the response, or end closes it
	}
	c.guardBody(run, resp) // whatever Read comes to, the guards get it
	d.broken = nil
	for n == 0 && d.broken == nil {
		n = d.read(resp.Body, p)
	}
	if n == 0 && d.broken != io.EOF {
		return 0, c.judge(d.broken, retry.Unknown)
	}
	c.resp = nil
	d.replace(resp.Body)
	return n, v
}

// isComplete reports whether resp says that there is no rest: all bytes of a chunked
// body had arrived, and only its end was lost.
func (d *download) isComplete(resp *http.Response) bool {
	length, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes */")
	all, known := parseCount(length)
	return resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && ok && known && all == d.given && d.total < 0 && d.changed(resp) == ""
}

// changed returns the header that says that resp is not of the same file as the first
// response, or "" if it is.
func (d *download) changed(resp *http.Response) string {
	for _, name := range []string{"ETag", "Last-Modified", "Content-Encoding"} {
		was, is := d.first.Get(name), resp.Header.Get(name)
		if was != is && (is != "" && was != "" || name == "Content-Encoding" && is != "") {
			return name
		}
	}
	return ""
}

// fit returns the verdict on a resp that is not the rest.
func (d *download) fit(c *call, resp *http.Response) retry.Verdict {
	if resp.StatusCode >= 400 {
		v, _ := c.failure(resp)
		return v
	}
	misfit := func(format string, args ...any) retry.Verdict {
		return permanent(fmt.Errorf("%s %s: cannot go on at byte %d: %s", c.method(), c.url(), d.given, fmt.Sprintf(format, args...)))
	}
	if resp.StatusCode != http.StatusPartialContent {
		return misfit("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	secrets := c.secrets(resp)
	shown := func(h http.Header, name string) string { return secrets.hide(h.Get(name), excerpt) }
	content := shown(resp.Header, "Content-Range")
	start, end, total, ok := parseContentRange(resp.Header.Get("Content-Range"))
	switch {
	case !ok || start != d.given:
		return misfit("Content-Range %q", content)
	case total < 0 && d.total < 0:
		return misfit("Content-Range %q does not say where the end is", content)
	case total >= 0 && d.total >= 0 && total != d.total, total < 0 && end >= d.total:
		return misfit("Content-Range %q, but there were %d bytes in all", content, d.total)
	case resp.ContentLength >= 0 && resp.ContentLength != end-start+1:
		return misfit("Content-Range %q, but %d bytes", content, resp.ContentLength)
	case resp.Uncompressed:
		return misfit("it was compressed")
	}
	if name := d.changed(resp); name != "" {
		return misfit("%s is %q, and was %q", name, shown(resp.Header, name), shown(d.first, name))
	}
	if total >= 0 {
		d.total = total
	}
	resp.Body = readCloser{io.LimitReader(resp.Body, end-start+1), resp.Body} // no more than the 206 has promised
	return retry.Verdict{}
}

// parseContentRange reads "bytes 5-9/10", or with a total of -1 "bytes 5-9/*".
func parseContentRange(s string) (start, end, total int64, ok bool) {
	s, bytes := strings.CutPrefix(s, "bytes ")
	s, all, slash := strings.Cut(s, "/")
	from, to, dash := strings.Cut(s, "-")
	start, ok1 := parseCount(from)
	end, ok2 := parseCount(to)
	total, ok3 := parseCount(all)
	if all == "*" {
		total, ok3 = -1, true
	}
	ok = bytes && slash && dash && ok1 && ok2 && ok3 && start <= end && (total < 0 || end < total)
	return start, end, total, ok
}

// parseCount parses digits only.
func parseCount(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil && n < math.MaxInt64
}

func (d *download) current() (body io.ReadCloser, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.body, d.closed
}

// replace replaces the body that broke off by the rest.
func (d *download) replace(rest io.ReadCloser) {
	d.mu.Lock()
	d.body = rest
	closed := d.closed
	d.mu.Unlock()
	if closed {
		rest.Close()
	}
}

// Close closes the current body, and ends a run that is underway.
func (d *download) Close() error {
	d.mu.Lock()
	d.closed = true
	body := d.body
	d.mu.Unlock()
	defer d.cancel(errors.New("the body was closed")) // later: to guards a body that is closed is no canceled one
	return body.Close()
}
