package retryhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/goretry/retry"
)

// JSON sends req through c until it has an answer with a status of 2xx, and
// returns its body as a T: the zero T if it is empty, as with 204. An attempt
// lasts until the body has been read, so one that breaks off is made again, and
// Policy.AttemptTimeout covers all of it. Which requests are made again, and how
// their bodies are, is as with a [Transport].
//
// Any error is a *[retry.Error]; for an answer with another status it holds a
// *[StatusError]. ctx takes the place of the request's own context. A nil c means
// http.DefaultClient. Its Timeout and its redirects are part of each attempt.
//
// With a [Transport] in c, alone or below other RoundTrippers, attempts do not
// multiply: p decides, and that Transport only passes on what it is given. If it is
// c.Transport itself, its fields other than Policy are heeded too.
func JSON[T any](ctx context.Context, c *http.Client, p retry.Policy, req *http.Request) (T, error) {
	call := newJSON(c, p, req)
	defer call.end(false)
	p = call.begin()
	return retry.Do(ctx, p, func(ctx context.Context) (v T, err error) {
		err = call.receive(context.WithValue(ctx, insideJSON{}, true), &v)
		return v, err
	})
}

// insideJSON is a context's key for requests that JSON makes.
type insideJSON struct{}

func newJSON(c *http.Client, p retry.Policy, req *http.Request) *call {
	if c == nil {
		c = http.DefaultClient
	}
	var t Transport
	if own, ok := c.Transport.(*Transport); ok {
		t = *own
	}
	call := &call{Transport: &t, req: req}
	following := *c
	following.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		call.redirected = true
		switch {
		case c.CheckRedirect != nil:
			return c.CheckRedirect(next, via)
		case len(via) >= 10: // as http.Client does
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	t.Base, t.Policy = redirecting{&following}, p
	return call
}

// unproved returns err, without what it proves if there was a redirect: nothing
// about a later request tells that the first one did nothing.
func (c *call) unproved(err error) error {
	if c.prove && c.redirected && retry.DefaultClassifier(err) != retry.Permanent {
		return &judged{err, retry.Transient}
	}
	return err
}

// receive makes one attempt and decodes the body into v.
func (c *call) receive(ctx context.Context, v any) error {
	resp, err := c.send(ctx)
	if err != nil {
		return c.again(c.unproved(err))
	}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		if err = decode(resp.Body, v); err != nil {
			err = fmt.Errorf("%s %s: %w", c.method(), c.url(), err)
		}
	case resp.StatusCode < 400:
		err = retry.Stop(c.failure(resp))
	default:
		err = c.unproved(c.failure(resp))
	}
	err = c.again(err)
	if c.body != nil {
		c.body.detach() // first, since a Close over HTTP/2 waits for the request's body
	}
	var rest excerpt
	drain(resp.Body, &rest)
	if e, ok := errors.AsType[*StatusError](err); ok {
		e.Body = rest
	}
	return err
}

// decode reads all of body first: one that breaks off is an io.ErrUnexpectedEOF,
// and half a JSON that is whole a *json.SyntaxError.
func decode(body io.Reader, v any) error {
	b, err := io.ReadAll(body)
	switch {
	case err != nil:
		return fmt.Errorf("reading the body: %w", err)
	case len(bytes.TrimSpace(b)) == 0:
		return nil
	}
	return json.Unmarshal(b, v)
}

// excerpt keeps the first 4 KiB of what is written to it.
type excerpt []byte

func (e *excerpt) Write(p []byte) (int, error) {
	*e = append(*e, p[:min(len(p), 4<<10-len(*e))]...)
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
	if e, ok := err.(*url.Error); ok { // Do's own, which shows the query
		u, err := url.Parse(e.URL)
		if err != nil {
			u = req.URL
		}
		e.URL = redact(u)
	}
	if resp != nil { // closed, and CheckRedirect's word
		err = retry.Stop(err)
	}
	return nil, err
}
