package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/goretry/retry/retryhttp"
)

// call is a typed call with all that HTTP knows about retries: which methods may be
// sent twice, when the server wants the retry, and how to send a body again. A program
// that speaks HTTP needs no more than this.
func call[T any](ctx context.Context, t target, method string, body any) (v T, err error) {
	req, err := request(ctx, method, t.url, body)
	if err != nil {
		return v, err
	}
	return retryhttp.JSON[T](ctx, t.policy, t.client, req)
}

// send makes one attempt at such a call by itself: an op for retry.Do, as one would
// write it for any protocol. It must use the context that it gets, which has the
// attempt's timeout, and return every error, wrapped or not. The policy decides what
// an error means, and whether there is another attempt.
func send[T any](ctx context.Context, client *http.Client, method, url string, body any) (v T, err error) {
	req, err := request(ctx, method, url, body)
	if err != nil {
		return v, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// It says what the response says: the status, how long to wait, or not to
		// come back. retry.DefaultClassifier knows the errors of many client
		// libraries as well, see docs/clients.md.
		return v, retryhttp.Failure(resp)
	}
	// All of it before it is decoded: a body that breaks off is then an
	// io.ErrUnexpectedEOF, which may go better next time, and one that is whole
	// but no JSON is a *json.SyntaxError, which will not.
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return v, err
	}
	err = json.Unmarshal(b, &v)
	return v, err
}

// request makes a new request in each attempt of an op: one that has been sent has had
// its body read.
func request(ctx context.Context, method, url string, body any) (*http.Request, error) {
	if body == nil {
		return http.NewRequestWithContext(ctx, method, url, nil)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, method, url, bytes.NewReader(b))
}
