package retryhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
)

// JSON sends req through c until it gets a 2xx, and returns the body decoded into a T.
// An attempt lasts until the body has been read. So a body that breaks off is retried,
// and Policy.AttemptTimeout covers the body. JSON retries the same requests as a
// [Transport].
//
// After 204, 205 and HEAD the T is zero. Any other empty body is a permanent error,
// unless T says otherwise: it is struct{}, or its method UnmarshalJSON accepts no bytes,
// as that of json.RawMessage does. A body of unknown length that ends too early, also an
// empty one, counts as broken off.
//
// Every error is a *[retry.Error]. For another status it holds a *[StatusError]. The
// text of an error about a body has the status, the Content-Type and, if the body is not
// JSON, its first bytes. Texts of errors show no userinfo, no query values, and nothing
// that net/http would quote of a malformed header.
//
// A status from 400 on that is not retried, such as 404, is an answer, as to a Transport: to
// hooks, guards and budgets the run has succeeded, and Error.Answered is true. If such a status
// is to count as a failure, let Transport.Check return [retry.Stop].
//
// ctx replaces the request's context, except for what [WithPolicy] and [Idempotent] have
// set there and not in ctx. A nil c means http.DefaultClient. JSON panics if ctx or req
// is nil. The client's Timeout and redirects are part of each attempt.
//
// With a [Transport] in c, alone or below other RoundTrippers, attempts do not
// multiply: p decides, and that Transport makes one attempt, with its Prepare and
// TimeoutHeader. If it is c.Transport itself, its fields other than Policy are used
// too. A RoundTripper above it that sends requests of its own in ctx gets one attempt
// for each. Requests that Prepare or Base make in ctx have retries of their own.
func JSON[T any](ctx context.Context, p retry.Policy, c *http.Client, req *http.Request) (T, error) {
	demand(ctx, req)
	call := newClientCall(c, p, req)
	defer call.end(false)
	call.plan(settingsOf(ctx).or(settingsOf(req.Context())))
	run := call.policy.Attempts(ctx)
	call.runs(run)
	defer run.Close()
	var v T
	for run.Next() {
		v = *new(T)
		verdict := call.receive(run.Context(), &v)
		call.settle(run, &verdict)
	}
	return v, run.Err()
}

// demand panics if the caller gave nothing.
func demand(ctx context.Context, req *http.Request) {
	switch {
	case ctx == nil:
		panic("retryhttp: nil context")
	case req == nil:
		panic("retryhttp: nil request")
	}
}

// newClientCall returns a call whose base is a client.
func newClientCall(c *http.Client, p retry.Policy, req *http.Request) *call {
	if c == nil {
		c = http.DefaultClient
	}
	var t Transport
	if own, ok := c.Transport.(*Transport); ok {
		t = *own
	}
	call := newCall(&t, req, true)
	call.client = true
	following := *c
	following.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		call.redirected.Store(true)
		switch {
		case c.CheckRedirect != nil:
			return c.CheckRedirect(next, via)
		case len(via) >= 10: // as http.Client does
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	t.Base, t.Policy, t.Hedge = redirecting{&following}, p, nil // hedged below, where the headers are
	return call
}

// receive makes one attempt and decodes the body into value.
func (c *call) receive(ctx context.Context, value any) (v retry.Verdict) {
	resp := c.send(ctx, &v)
	if resp == nil {
		c.rewindBody(&v)
		return v
	}
	status := c.unwanted(resp, &v, http.StatusOK)
	if v.Err == nil {
		v = c.decode(resp, value)
	}
	c.rewindBody(&v)
	c.discardResponse(resp, status)
	return v
}

// unwanted sets v, unless Check has, if the status of resp is neither a 2xx nor good. It returns the error that
// is to get the body.
func (c *call) unwanted(resp *http.Response, v *retry.Verdict, good int) *StatusError {
	if v.Err != nil || resp.StatusCode >= 200 && resp.StatusCode <= 299 || resp.StatusCode == good {
		return nil
	}
	var answer bool
	*v, answer = c.failure(resp)
	status, _ := v.Err.(*StatusError)
	switch {
	case resp.StatusCode < 400:
		*v = permanent(&unusable{status})
	case answer:
		v.Answered, v.Marked = true, true
		status.facts = cmp.Or(status.facts, clienterr.Status(status.Code, status.Hint != 0 || status.now)) | clienterr.Answered
	}
	return status
}

// discardResponse frees a response that nobody reads. status gets the beginning of its body, if it
// is not nil.
func (c *call) discardResponse(resp *http.Response, status *StatusError) {
	// The request's body comes first, since over HTTP/2 a Close waits for it.
	if c.body.rewound {
		_ = c.body.drop()
	} else {
		c.body.finish(false)
	}
	var rest beginning
	c.drain(resp.Body, &rest)
	c.resp = nil
	if status != nil {
		status.Body = rest
	}
}

// decode decodes the body into value. An error says what the body was instead. It is
// permanent if the body is complete, and not a T by [json.Unmarshal] or a method of T. A
// body of unknown length may have been cut where its JSON ends.
func (c *call) decode(resp *http.Response, value any) retry.Verdict {
	b, err := c.readAll(resp)
	class, misfits := retry.Unknown, false
	if err == nil {
		if err = c.unmarshal(resp, b, value); err == nil {
			return retry.Verdict{}
		}
		class = retry.Permanent
		if syntax, ok := errtree.Find[*json.SyntaxError](err); ok && resp.ContentLength < 0 {
			class = retry.DefaultClassifier(syntax)
		}
		misfits = true
	}
	s := c.secrets(resp)
	if misfits {
		err = misfit(&s, b, err)
	}
	if class == retry.Permanent {
		err = &unusable{err}
	}
	kind := cmp.Or(s.hide(resp.Header.Get("Content-Type"), excerpt), "no Content-Type")
	err = fmt.Errorf("%s %s: %d %s, %s: %w", c.method(), c.url(), resp.StatusCode, http.StatusText(resp.StatusCode), kind, err)
	return c.judge(err, class)
}

// unmarshal decodes a complete body.
func (c *call) unmarshal(resp *http.Response, b []byte, value any) error {
	if len(bytes.TrimSpace(b)) > 0 {
		return json.Unmarshal(b, value)
	}
	if c.method() == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusResetContent {
		return nil
	}
	switch v := value.(type) {
	case json.Unmarshaler:
		return v.UnmarshalJSON(b)
	case *struct{}:
		return nil
	}
	return json.Unmarshal(b, value)
}

// readAll reads all of the body before it is decoded. So a body that breaks off gives
// an io.ErrUnexpectedEOF, and a complete body with half a JSON value a
// *json.SyntaxError.
func (c *call) readAll(resp *http.Response) ([]byte, error) {
	limit := cmp.Or(c.MaxResponse, 64<<20)
	tooLong := func() error {
		return &unusable{fmt.Errorf("the body is longer than Transport.MaxResponse, %d bytes", limit)}
	}
	if limit > 0 && resp.ContentLength > limit && c.method() != http.MethodHead {
		resp.Body.Close()
		resp.Body = http.NoBody
		return nil, tooLong()
	}
	body := io.Reader(resp.Body)
	if limit > 0 && limit+1 > 0 {
		body = io.LimitReader(body, limit+1)
	}
	b, err := io.ReadAll(body)
	if limit > 0 && int64(len(b)) > limit {
		return nil, tooLong()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", unquoted(err)) // a trailer may be malformed
	}
	return b, nil
}

// misfit returns the error for a complete body that is not a T.
func misfit(s *secrets, body []byte, err error) error {
	_, syntax := errtree.Find[*json.SyntaxError](err)
	err = s.hideIn(err)
	if syntax {
		err = fmt.Errorf("%w: %q", err, s.hide(string(body[:min(len(body), quoted+s.longest())]), excerpt))
	}
	return err
}

// beginning keeps the beginning of what is written to it.
type beginning []byte

func (e *beginning) Write(p []byte) (int, error) {
	*e = append(*e, p[:min(len(p), quoted-len(*e))]...)
	return len(p), nil
}

// redirecting is a client as a RoundTripper that follows redirects.
type redirecting struct{ *http.Client }

func (c redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Header = req.Header.Clone() // a Jar adds to it
	resp, err := c.Do(req)
	if err == nil {
		return resp, nil
	}
	if e, ok := err.(*url.Error); ok { // http.Client's, which shows the query
		u, err := url.Parse(e.URL)
		if err != nil {
			u = req.URL
		}
		e.URL, e.Err = redact(u), unquoted(e.Err)
	}
	if resp != nil { // the response is closed, and err is CheckRedirect's
		err = &unusable{err}
	}
	return nil, err
}

// unusable is the error of a complete answer that is of no use: a page of a proxy instead of
// JSON, or a redirect without end. It is permanent to a run. But it is not about what was
// sent, so a message that waits in a queue may succeed later.
type unusable struct{ error }

func (e *unusable) Unwrap() error   { return e.error }
func (e *unusable) Retryable() bool { return false } // so nothing blames the message: see retryqueue.Patient

// ErrorType returns the error.type of spans and metrics.
func (e *unusable) ErrorType() string {
	if status, ok := e.error.(*StatusError); ok {
		return status.ErrorType()
	}
	return "retryhttp.unusable_answer"
}

// unquoted returns an error of net/http without what it shows of a response, since a
// malformed line or a Location may hold a secret. It is in quotes, except that before
// go1.26.4 a malformed header line was not. Such errors wrap nothing that the classifier
// knows.
func unquoted(err error) error {
	text, _, quotes := strings.Cut(err.Error(), `"`)
	text, _, line := strings.Cut(text, " line: ")
	if !quotes && !line {
		return err
	}
	_, malformed := errtree.Find[textproto.ProtocolError](err)
	if malformed || strings.HasPrefix(text, "failed to parse Location header") ||
		strings.HasPrefix(text, "net/http: HTTP/1.x transport connection broken: ") {
		return errors.New(strings.TrimRight(text, ": ") + ": REDACTED")
	}
	return err
}
