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
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrydebug"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// service calls the dependency.
type service struct {
	url    string
	client *http.Client
	policy retry.Policy
	slow   *hedge.Hedge // searches may run twice at the same time
	places *limit.Limit
	orders *limit.Limit     // of them the dependency takes one at a time
	down   *breaker.Breaker // no order is sent while the dependency is down
	ended  []func() error   // what close calls

	firstTry, afterRetry, failed atomic.Int64
}

func newService(url string, page *retrydebug.Recorder) (*service, error) {
	budget := &retry.EarnedBudget{} // shared by all that call this dependency, as the limit is
	s := &service{
		url:    url,
		slow:   &hedge.Hedge{Hedged: otelretry.HedgeHook()},
		places: &limit.Limit{Max: 100},
		orders: &limit.Limit{Max: 1},
		down:   &breaker.Breaker{},
	}
	if err := s.observe(budget, page); err != nil {
		return nil, err
	}
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
		Guards:         []retry.Guard{s.places},
		Hooks:          retry.JoinHooks(otelretry.Hooks(), retry.Hooks{Done: s.count}, page.Hooks()),
	}
	return s, nil
}

// observe reports what the calls share, until close is called, and shows it on page.
func (s *service) observe(budget *retry.EarnedBudget, page *retrydebug.Recorder) error {
	page.ObserveBudget("dependency", budget)
	page.ObserveHedge("search", s.slow)
	page.ObserveLimit("dependency", s.places)
	page.ObserveBreaker("dependency", s.down)
	add := func(unregister func() error, err error) error {
		s.ended = append(s.ended, unregister)
		return err
	}
	return errors.Join(
		add(otelretry.ObserveBudget("dependency", budget)),
		add(otelretry.ObserveHedge("search", s.slow)),
		add(otelretry.ObserveLimit("dependency", s.places)),
		add(otelretry.ObserveBreaker("dependency", s.down)),
	)
}

// close ends what observe began. The metrics of s's runs end with s, so run defers close:
// the last scrape still shows them.
func (s *service) close() error {
	var err error
	for _, unregister := range s.ended {
		err = errors.Join(err, unregister())
	}
	return err
}

// call makes one call of three kinds, at random.
func (s *service) call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// The hook count gets what becomes of them.
	switch n := rand.IntN(10); {
	case n < 3:
		policy := s.policy.Named("search")
		_, _ = hedge.Do(ctx, policy, s.slow, s.sending(http.MethodGet, policy.Name))
	case n < 4:
		policy := s.policy.Named("place-order")
		policy.NonIdempotent = true
		policy.Guards = []retry.Guard{s.down, s.places, s.orders}
		_, _ = retry.Do(ctx, policy, s.sending(http.MethodPost, policy.Name))
	default:
		policy := s.policy.Named("get-user")
		_, _ = retry.Do(ctx, policy, s.sending(http.MethodGet, policy.Name))
	}
}

// sending returns what makes one attempt.
func (s *service) sending(method, name string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) { return s.send(ctx, method, "/"+name) }
}

// send makes one attempt.
func (s *service) send(ctx context.Context, method, path string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return 0, &statusError{resp.StatusCode, time.Duration(seconds) * time.Second}
	}
	return io.Copy(io.Discard, resp.Body)
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
