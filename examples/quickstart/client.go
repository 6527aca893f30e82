package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// get makes one attempt at one typed call: an op for retry.Do. All it has to do
// is use the context it is given, which carries the attempt's timeout, and return
// every error as it comes, wrapped or not. What an error means, and whether there
// is to be another attempt, is the policy's business.
func get[T any](ctx context.Context, client *http.Client, url string) (T, error) {
	return send[T](ctx, client, http.MethodGet, url, nil)
}

// post is get with a body. The request is made anew in each attempt: one that has
// been sent has had its body read.
func post[T any](ctx context.Context, client *http.Client, url string, body any) (v T, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return v, err
	}
	return send[T](ctx, client, http.MethodPost, url, bytes.NewReader(b))
}

func send[T any](ctx context.Context, client *http.Client, method, url string, body io.Reader) (v T, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return v, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return v, &statusError{resp.StatusCode, retryAfter(resp.Header)}
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

// statusError is an answer other than 2xx. Its two methods are all that
// retry.DefaultClassifier needs to know about HTTP: no import, no registration.
type statusError struct {
	code int
	hint time.Duration // 0: the server named no wait
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	if e.hint > 0 {
		s += fmt.Sprintf(", Retry-After %v", e.hint)
	}
	return s
}

// StatusCode gives the error its class: 404 is permanent, 503 is transient.
func (e *statusError) StatusCode() int { return e.code }

// RetryAfter is the wait that the server asked for. The policy adds its backoff
// to it, and never comes back sooner.
func (e *statusError) RetryAfter() time.Duration { return e.hint }

// retryAfter reads the header's two forms (RFC 9110, section 10.2.3).
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	// A number too large is taken for the largest, which a Duration can hold:
	// ignored, it would have the client come back at once.
	if s, err := strconv.ParseUint(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}
