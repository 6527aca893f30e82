package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// service is what calls the dependency.
type service struct {
	url    string
	client *http.Client
	policy retry.Policy
	close  func() error

	firstTry, afterRetry, failed atomic.Int64
}

func newService(url string) (*service, error) {
	budget := &retry.TokenBudget{} // shared by all that call this dependency
	unregister, err := otelretry.ObserveBudget("dependency", budget)
	if err != nil {
		return nil, err
	}
	s := &service{url: url, close: unregister}
	s.client = &http.Client{
		// Below the retry, so that each attempt has a client span of its own. Without
		// keep-alive, since net/http repeats some requests on connections that it kept
		// and finds broken: here every attempt is to be seen.
		Transport: otelhttp.NewTransport(&http.Transport{DisableKeepAlives: true}),
	}
	s.policy = retry.Policy{
		MaxAttempts:    4,
		AttemptTimeout: 300 * time.Millisecond,
		Backoff:        retry.Exponential{Base: 100 * time.Millisecond, Max: time.Second},
		Budget:         budget,
		Hooks:          retry.JoinHooks(otelretry.Hooks(), retry.Hooks{Done: s.count}),
	}
	return s, nil
}

// call makes one call of three kinds, at random.
func (s *service) call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	name, method, policy := "get-user", http.MethodGet, s.policy
	switch n := rand.IntN(10); {
	case n < 3:
		name = "search"
	case n < 4:
		name, method, policy.NonIdempotent = "place-order", http.MethodPost, true
	}
	_ = retry.Run(ctx, policy.Named(name), func(ctx context.Context) error {
		return s.send(ctx, method, "/"+name)
	}) // what became of it, count is told
}

// send makes one attempt.
func (s *service) send(ctx context.Context, method, path string) error {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &statusError{resp.StatusCode, time.Duration(seconds) * time.Second}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// statusError is an answer other than 200. By its methods retry knows what it
// means, and otelretry what to call it.
type statusError struct {
	code int
	hint time.Duration
}

func (e *statusError) Error() string             { return fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)) }
func (e *statusError) StatusCode() int           { return e.code }
func (e *statusError) RetryAfter() time.Duration { return e.hint }
func (e *statusError) ErrorType() string         { return strconv.Itoa(e.code) }

// count counts a call at its end.
func (s *service) count(_ context.Context, sum retry.Summary) {
	switch {
	case sum.Err != nil:
		s.failed.Add(1)
	case sum.Attempts > 1:
		s.afterRetry.Add(1)
	default:
		s.firstTry.Add(1)
	}
}

// report says how the calls ended. It is an error if they showed no retries.
func (s *service) report(w io.Writer) error {
	first, retried, failed := s.firstTry.Load(), s.afterRetry.Load(), s.failed.Load()
	fmt.Fprintf(w, "%d calls: %d succeeded at once, %d after retries, %d failed.\n", first+retried+failed, first, retried, failed)
	if retried == 0 {
		return errors.New("no call succeeded after a retry: there is nothing to see; try a longer -duration")
	}
	return nil
}
