package retry_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// now is a clock for examples: they do not wait.
func now() *clockx.Virtual { return clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }

// All calls to this server share one budget. Calls that succeed earn retries, so in an
// outage the retries stop. A budget made anew for each call would limit nothing.
var greetings = &retry.EarnedBudget{}

var policy = retry.Policy{
	Name:           "fetch-greeting",
	MaxAttempts:    4,
	AttemptTimeout: 2 * time.Second,
	MaxElapsed:     10 * time.Second,
	Backoff:        retry.Exponential{Base: 20 * time.Millisecond, Max: time.Second},
	Budget:         greetings,
}

// A response other than 200. DefaultClassifier calls StatusCode to tell 404 from 503.
type statusError int

func (e statusError) Error() string   { return fmt.Sprintf("status %d", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

// The example of the README: a typed call over HTTP to a server that fails at first.
func Example() {
	server := httptest.NewServer(unwell(2))
	defer server.Close()
	ctx := context.Background()

	greeting, err := retry.Do(ctx, policy, func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return "", retry.Stop(err) // asking again will not help
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err // DefaultClassifier knows what it means
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", statusError(resp.StatusCode)
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	})
	fmt.Println(greeting, err)
	// Output: hello <nil>
}

// unwell answers 503 so many times, then says hello.
func unwell(times int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if times--; times >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "hello")
	}
}

func ExampleDo() {
	attempts := 0
	n, err := retry.Do(context.Background(), retry.Policy{Clock: now()}, func(context.Context) (int, error) {
		attempts++
		if attempts < 3 {
			return 0, errors.New("not yet")
		}
		return 42, nil
	})
	fmt.Println(n, err, "after", attempts, "attempts")
	// Output: 42 <nil> after 3 attempts
}

func ExampleRun() {
	policy := retry.Policy{Name: "save", MaxAttempts: 2, Backoff: retry.Constant(time.Second), Clock: now()}
	err := retry.Run(context.Background(), policy, func(context.Context) error {
		return errors.New("disk is busy")
	})
	fmt.Println(err)
	// Output: save: gave up after 2 attempts in 1s (max_attempts): disk is busy
}

func ExampleUntil() {
	states := []string{"pending", "pending", "done"}
	poll := func(context.Context) (string, error) {
		s := states[0]
		states = states[1:]
		return s, nil
	}
	state, err := retry.Do(context.Background(), retry.Policy{Clock: now()},
		retry.Until(poll, func(s string) bool { return s == "done" }))
	fmt.Println(state, err)
	// Output: done <nil>
}

func ExampleAttemptNumber() {
	_ = retry.Run(context.Background(), retry.Policy{Clock: now()}, func(ctx context.Context) error {
		fmt.Println("X-Attempt:", retry.AttemptNumber(ctx))
		return errors.New("again")
	})
	// Output:
	// X-Attempt: 1
	// X-Attempt: 2
	// X-Attempt: 3
}

func ExampleStop() {
	err := retry.Run(context.Background(), retry.Policy{Name: "login", Clock: now()}, func(context.Context) error {
		return retry.Stop(errors.New("wrong password"))
	})
	fmt.Println(err)
	// Output: login: gave up after 1 attempt in 0s (permanent): wrong password
}

// A cache that does not hold a key has answered. The run fails for its caller only: no
// budget, log or metric counts a failure.
func ExampleAnswer() {
	errMiss := errors.New("redis: nil") // in a program redis.Nil
	name, err := retry.Do(context.Background(), retry.Policy{Name: "get"}, func(context.Context) (string, error) {
		return "", retry.Answer(errMiss)
	})
	if errors.Is(err, errMiss) {
		name = "read from the database"
	}
	fmt.Println(name)
	// Output: read from the database
}

// A server that is overloaded may ask its callers not to try again. A run that ends
// so has failed: logs, metrics and budgets count it.
func ExampleRefuse() {
	err := retry.Run(context.Background(), retry.Policy{Name: "orders"}, func(context.Context) error {
		return retry.Refuse(errors.New("overloaded, do not retry"))
	})
	fmt.Println(err.(*retry.Error).Reason)
	// Output: refused
}

func ExampleAfter() {
	clock := now()
	start := clock.Now()
	_ = retry.Run(context.Background(), retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(5 * time.Second), Clock: clock}, func(context.Context) error {
		return retry.After(errors.New("come back later"), 30*time.Second) // what the server asked for
	})
	fmt.Println("waited", clock.Now().Sub(start))
	// Output: waited 35s
}

func ExampleError() {
	ctx, cancel := context.WithCancelCause(context.Background())
	err := retry.Run(ctx, retry.Policy{Name: "fetch"}, func(context.Context) error {
		cancel(errors.New("the user left"))
		return io.ErrUnexpectedEOF
	})
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Reason, e.Attempts, e.Last(), e.Cause)
	}
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled))
	// Output:
	// canceled 1 unexpected EOF the user left
	// true true
}

func ExampleClassifier() {
	quotaUsedUp := errors.New("daily quota used up")
	policy := retry.Policy{Name: "report", Clock: now()}
	policy.Classify = func(err error) retry.Class {
		if errors.Is(err, quotaUsedUp) {
			return retry.Permanent
		}
		return retry.Unknown // DefaultClassifier knows the rest
	}
	err := retry.Run(context.Background(), policy, func(context.Context) error { return quotaUsedUp })
	fmt.Println(err)
	// Output: report: gave up after 1 attempt in 0s (permanent): daily quota used up
}

func ExampleAlreadyRetried() {
	calls := 0
	policy := retry.Policy{Clock: now(), Classify: retry.AlreadyRetried}
	inner := func(ctx context.Context) error {
		return retry.Run(ctx, policy, func(context.Context) error { calls++; return errors.New("down") })
	}
	_ = retry.Run(context.Background(), policy, inner)
	fmt.Println(calls, "calls, not 9")
	// Output: 3 calls, not 9
}

// Ten failures are retried, the eleventh is not. Ten successes earn another retry.
func ExampleEarnedBudget() {
	budget := &retry.EarnedBudget{}
	policy := retry.Policy{MaxAttempts: 2, Clock: now(), Budget: budget}
	fail := func(context.Context) error { return errors.New("down") }
	succeed := func(context.Context) error { return nil }
	for n := 1; n <= 6; n++ {
		if n == 6 {
			for range 20 {
				_ = retry.Run(context.Background(), policy, succeed)
			}
		}
		err := retry.Run(context.Background(), policy, fail)
		if n >= 4 {
			fmt.Println(n, err.(*retry.Error).Attempts, err.(*retry.Error).Reason)
		}
	}
	// Output:
	// 4 2 max_attempts
	// 5 1 budget
	// 6 2 max_attempts
}

func ExampleExponential() {
	backoff := retry.Exponential{Base: 100 * time.Millisecond, Max: time.Second, Jitter: retry.EqualJitter}
	for n := range 5 {
		step := retry.Step{Retry: n + 1}
		low := backoff.Delay(step)
		step.Rand = 1
		fmt.Println(low, "to", backoff.Delay(step).Round(time.Millisecond))
	}
	// Output:
	// 50ms to 100ms
	// 100ms to 200ms
	// 200ms to 400ms
	// 400ms to 800ms
	// 500ms to 1s
}

func ExamplePlus() {
	b := retry.Exponential{Base: 200 * time.Millisecond, Jitter: retry.Plus(100 * time.Millisecond)}
	for _, random := range []float64{0, .5, .99} {
		fmt.Println(b.Delay(retry.Step{Retry: 1, Rand: random}))
	}
	// Output:
	// 200ms
	// 250ms
	// 299ms
}

// inRetries limits how many runs are in retries at a time, waits included: what a process spends on
// retries. It does not protect a server that hangs, as an EarnedBudget does.
type inRetries chan struct{}

func (p inRetries) Withdraw(w retry.Withdrawal) bool {
	if w.Retry > 1 {
		return true // the run has its place
	}
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p inRetries) End(o retry.Outcome) {
	if o.Retries > 0 {
		<-p
	}
}

// A semaphore around retries.
func ExampleBudget() {
	policy := retry.Policy{MaxAttempts: 2, Clock: now(), Budget: make(inRetries, 1)}
	_ = retry.Run(context.Background(), policy, func(ctx context.Context) error {
		err := retry.Run(ctx, policy, func(context.Context) error { return errors.New("down") })
		fmt.Println(retry.AttemptNumber(ctx), err.(*retry.Error).Reason)
		return err
	})
	// Output:
	// 1 max_attempts
	// 2 budget
}

// Waits of 100 ms times 1, 2, 3, 5, 8 and so on, up to ten seconds.
func ExampleBackoffFunc_fibonacci() {
	fibonacci := retry.BackoffFunc(func(s retry.Step) time.Duration {
		wait, next := 100*time.Millisecond, 200*time.Millisecond
		for n := 1; n < s.Retry && wait < 10*time.Second; n++ {
			wait, next = next, wait+next
		}
		return min(wait, 10*time.Second)
	})
	for _, n := range []int{1, 2, 3, 4, 5, 100} {
		fmt.Print(fibonacci.Delay(retry.Step{Retry: n}), " ")
	}
	// Output: 100ms 200ms 300ms 500ms 800ms 10s
}

func ExampleBackoffFunc() {
	weekly := retry.BackoffFunc(func(s retry.Step) time.Duration { return time.Duration(s.Retry) * 7 * 24 * time.Hour })
	fmt.Println(weekly.Delay(retry.Step{Retry: 2}))
	// Output: 336h0m0s
}

func ExampleHooks() {
	policy := retry.Policy{
		MaxAttempts: 2,
		Backoff:     retry.Constant(time.Second),
		Clock:       now(),
		Hooks: retry.Hooks{
			Wait: func(_ context.Context, a retry.Attempt) {
				fmt.Printf("attempt %d: %v (%v), next in %v\n", a.Number, a.Err, a.Class, a.Delay)
			},
			Done: func(_ context.Context, s retry.Summary) { fmt.Println("ended:", s.Reason) },
		},
	}
	_ = retry.Run(context.Background(), policy, func(context.Context) error { return errors.New("down") })
	// Output:
	// attempt 1: down (transient), next in 1s
	// ended: max_attempts
}

func ExampleSlogHooks() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	policy := retry.Policy{Name: "fetch", MaxAttempts: 2, Backoff: retry.Constant(time.Second), Clock: now(), Hooks: retry.SlogHooks(logger)}
	_ = retry.Run(context.Background(), policy, func(context.Context) error { return errors.New("down") })
	// Output:
	// level=WARN msg="gave up" name=fetch reason=max_attempts attempts=2 elapsed=1s waited=1s error="fetch: gave up after 2 attempts in 1s (max_attempts): down"
}

// A message queue: the wait between two attempts is spent in the queue.
func ExampleLoop() {
	policy := retry.Policy{Backoff: retry.Exponential{Base: time.Minute, Max: time.Hour, Jitter: retry.NoJitter}}
	now := time.Now()
	loop := policy.Start(now)
	for {
		err := errors.New("handler failed")
		wait, ok := loop.Next(now, err)
		if !ok {
			fmt.Println("to the dead letters:", loop.Err())
			return
		}
		fmt.Println("deliver again in", wait)
		now = now.Add(wait)
	}
	// Output:
	// deliver again in 1m0s
	// deliver again in 2m0s
	// to the dead letters: retry: gave up after 3 attempts in 3m0s (max_attempts): handler failed
}

func ExamplePolicy_Resume() {
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Minute)}
	now := time.Now()
	loop := policy.Resume(now, 4, 4*time.Minute) // as the message's headers say
	_, ok := loop.Next(now, errors.New("handler failed"))
	fmt.Println(ok, loop.Err())
	// Output: false retry: gave up after 5 attempts in 4m0s (max_attempts): handler failed
}

func ExampleNewTicker() {
	ticker := retry.NewTicker(context.Background(), retry.Policy{MaxAttempts: 2, Clock: now()})
	defer ticker.Stop()
	done := make(chan struct{})
	for {
		select {
		case _, ok := <-ticker.C:
			if !ok {
				fmt.Println("over")
				return
			}
			fmt.Println("tick")
		case <-done:
			return
		}
	}
	// Output:
	// tick
	// tick
	// over
}

// A feed is connected to and read, for days. What breaks after a good while is
// connected to again soon; a server that is down is not hurried.
func ExampleSupervise() {
	clock := now()
	start := clock.Now()
	policy := retry.Policy{
		Name:    "prices",
		Backoff: retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.NoJitter},
		Clock:   clock,
	}
	lives := []time.Duration{0, 0, time.Hour, 0}
	err := retry.Supervise(context.Background(), policy, 5*time.Minute, func(ctx context.Context) error {
		fmt.Println("connect at", clock.Now().Sub(start))
		if len(lives) == 0 {
			return retry.Stop(errors.New("this version is no longer served"))
		}
		up := lives[0]
		lives = lives[1:]
		_ = clock.Sleep(ctx, up) // here messages are read
		return io.ErrUnexpectedEOF
	})
	fmt.Println(err)
	// Output:
	// connect at 0s
	// connect at 1s
	// connect at 3s
	// connect at 1h0m4s
	// connect at 1h0m5s
	// prices: gave up after 2 attempts in 2s (permanent): this version is no longer served
}

// A device that roams may be behind a captive portal, which has another certificate until somebody
// has logged in. Elsewhere such a certificate ends Supervise.
func ExampleSupervise_captivePortal() {
	portal := func(err error) retry.Class {
		_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
		_, another := errors.AsType[x509.HostnameError](err)
		if unknown || another {
			return retry.Transient
		}
		return retry.Unknown // DefaultClassifier knows the rest
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	p := retry.Policy{Name: "uplink", Classify: portal, Backoff: retry.Constant(time.Millisecond)}
	client := &http.Client{Transport: &http.Transport{}} // which does not know the portal's authority
	err := retry.Supervise(context.Background(), p, time.Minute, func(ctx context.Context) error {
		if retry.AttemptNumber(ctx) == 3 { // somebody has logged in
			client = server.Client()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println("no uplink yet")
			return err
		}
		defer resp.Body.Close()
		fmt.Println("connected")
		return nil
	})
	fmt.Println(err)
	// Output:
	// no uplink yet
	// no uplink yet
	// connected
	// <nil>
}

// Poll a job over HTTP until it is done. Answers that are errors are retried as
// anywhere.
func ExampleUntil_http() {
	states := []string{"queued", "running", "done"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, states[0])
		states = states[1:]
	}))
	defer server.Close()

	policy := retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Constant(time.Second), Clock: now()}
	state := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return "", retry.Stop(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", statusError(resp.StatusCode)
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	fmt.Println(retry.Do(context.Background(), policy, retry.Until(state, func(s string) bool { return s == "done" })))
	// Output: done <nil>
}

// A handler whose own call has failed answers with a status that says whose fault
// it was, and when to come back.
func ExampleError_handler() {
	policy := retry.Policy{Name: "stock", MaxAttempts: 2, Clock: now()}
	handler := func(call func(context.Context) (int, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n, err := retry.Do(r.Context(), policy, call)
			var gaveUp *retry.Error
			switch {
			case err == nil:
				fmt.Fprint(w, n)
			case !errors.As(err, &gaveUp):
				http.Error(w, "internal error", http.StatusInternalServerError)
			case gaveUp.Reason == retry.ReasonCanceled:
				return // the caller has gone
			case gaveUp.Reason == retry.ReasonPermanent:
				http.Error(w, gaveUp.Last().Error(), http.StatusUnprocessableEntity)
			case gaveUp.Timeout():
				http.Error(w, "the stock service is slow", http.StatusGatewayTimeout)
			default:
				w.Header().Set("Retry-After", "5")
				http.Error(w, "the stock service is down", http.StatusServiceUnavailable)
			}
		}
	}
	for _, err := range []error{nil, retry.Stop(errors.New("no such item")), errors.New("down"), context.DeadlineExceeded} {
		w := httptest.NewRecorder()
		handler(func(context.Context) (int, error) { return 7, err })(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// 200 7
	// 422 no such item
	// 503 the stock service is down
	// 504 the stock service is slow
}

// atLeast waits as b says, or as the server says if that is longer: not the sum of
// both, as the run would without it.
type atLeast struct{ b retry.Backoff }

func (a atLeast) Delay(s retry.Step) time.Duration { return max(a.b.Delay(s)-s.Hint, 0) }

func ExampleBackoff() {
	policy := retry.Policy{Backoff: atLeast{retry.Constant(3 * time.Second)}}
	now := time.Now()
	loop := policy.Start(now)
	fmt.Println(loop.Next(now, errors.New("down")))
	wait, _ := loop.Next(now, retry.After(errors.New("busy"), 10*time.Second))
	fmt.Println(10*time.Second <= wait && wait < 11*time.Second) // up to a tenth is added
	// Output:
	// 3s true
	// true
}

// errQuota is an error of the service's own, with what it means for a retry.
type errQuota struct{ daily bool }

func (e errQuota) Error() string { return "quota used up" }

func ExampleClassifiers() {
	quota := func(err error) retry.Class {
		switch e, ok := errors.AsType[errQuota](err); {
		case !ok:
			return retry.Unknown // the next one's turn
		case e.daily:
			return retry.Permanent
		}
		return retry.Throttled
	}
	policy := retry.Policy{Classify: retry.Classifiers(quota, retry.AlreadyRetried)}
	for _, err := range []error{errQuota{}, errQuota{daily: true}, &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3}, io.ErrUnexpectedEOF} {
		c := policy.Judge(err).Class
		fmt.Println(c)
	}
	// Output:
	// throttled
	// permanent
	// permanent
	// transient
}

// A policy that is changed while the service runs: each call takes the latest.
func ExamplePolicy_hotSwap() {
	var policy atomic.Pointer[retry.Policy]
	policy.Store(&retry.Policy{MaxAttempts: 3, Clock: now()})
	call := func() (attempts int) {
		_ = retry.Run(context.Background(), *policy.Load(), func(context.Context) error {
			attempts++
			return errors.New("down")
		})
		return attempts
	}
	fmt.Println(call())
	policy.Store(&retry.Policy{MaxAttempts: 1, Clock: now()}) // from a configuration, say
	fmt.Println(call())
	// Output:
	// 3
	// 1
}

func ExamplePolicy_AttemptLimit() {
	fmt.Println(retry.Policy{}.AttemptLimit())
	fmt.Println(retry.Policy{MaxElapsed: time.Minute}.AttemptLimit()) // one per millisecond
	fmt.Println(retry.Policy{MaxAttempts: retry.Unlimited}.AttemptLimit() == math.MaxInt)
	// Output:
	// 3
	// 60000
	// true
}

// A service that gives up later than its callers works for nobody. So its policies are
// checked when it starts. Three attempts are not short by themselves, because a server may
// ask for MaxRetryAfter, five minutes by default, before each retry.
func ExamplePolicy_Longest() {
	incoming := 2 * time.Second // the AttemptTimeout of those who call this service
	policy := retry.Policy{
		Name:           "ledger",
		MaxAttempts:    3,
		AttemptTimeout: 500 * time.Millisecond,
		MaxElapsed:     time.Second,
	}
	if policy.Longest() >= incoming {
		log.Fatalf("%s: a run may take %v, but callers wait for %v", policy.Name, policy.Longest(), incoming)
	}
	fmt.Println(policy.Longest())

	policy.MaxElapsed = 0
	fmt.Println("without MaxElapsed:", policy.Longest().Round(time.Minute))
	// Output:
	// 1.5s
	// without MaxElapsed: 11m0s
}
