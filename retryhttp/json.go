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
	call, p := newJSON(c, p, req)
	defer call.end(false)
	ctx = context.WithValue(ctx, insideJSON{}, true)
	return retry.Do(ctx, p, func(ctx context.Context) (v T, err error) {
		err = call.receive(ctx, &v)
		return v, err
	})
}

// insideJSON is a context's key for requests that JSON makes.
type insideJSON struct{}

func newJSON(c *http.Client, p retry.Policy, req *http.Request) (*call, retry.Policy) {
	if c == nil {
		c = http.DefaultClient
	}
	var t Transport
	if own, ok := c.Transport.(*Transport); ok {
		t = *own
	}
	t.Base, t.Policy = redirecting{c}, p
	return t.begin(req)
}

// receive makes one attempt and decodes the body into v.
func (c *call) receive(ctx context.Context, v any) error {
	resp, err := c.send(ctx)
	if err != nil {
		// After a redirect, nothing about a later request proves that the first
		// one did nothing.
		if c.wire != nil && c.wire.got.Load() && retry.DefaultClassifier(err) != retry.Permanent {
			err = &judged{err, retry.Transient}
		}
		return c.again(err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		err = decode(resp.Body, v)
		if err != nil {
			err = fmt.Errorf("%s %s: %w", c.method(), c.url(), err)
		}
	} else {
		err = c.rejected(resp)
	}
	err = c.again(err)
	if c.body != nil {
		c.body.detach() // first, since a Close over HTTP/2 waits for the request's body
	}
	drain(resp.Body)
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

// rejected returns the error for a status other than 2xx.
func (c *call) rejected(resp *http.Response) error {
	err := c.failure(resp)
	status, _ := errors.AsType[*StatusError](err)
	status.Body, _ = io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	switch {
	case resp.StatusCode < 400:
		return retry.Stop(err)
	case c.prove && resp.Request.Response != nil && retry.DefaultClassifier(err) != retry.Permanent:
		return &judged{err, retry.Transient} // redirected, see receive
	}
	return err
}

// redirecting is a client as a RoundTripper that follows redirects.
type redirecting struct{ *http.Client }

func (c redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.Do(req)
	if err == nil {
		return resp, nil
	}
	if e, ok := err.(*url.Error); ok { // Do's own, which shows the query
		if u, err := url.Parse(e.URL); err == nil {
			e.URL = redact(u)
		}
	}
	return nil, err // a response beside it is closed
}
