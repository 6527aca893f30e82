package tasks

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	_ "modernc.org/sqlite"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrysql"
	"github.com/goretry/retry/retrytest"
)

// answer is what a server answers: a status, and a Retry-After in seconds unless it is "".
type answer struct {
	status     int
	retryAfter string
}

// server answers in turn, and then with 200 and body.
func server(t *testing.T, body string, answers ...answer) (url string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := int(requests.Add(1)); n <= len(answers) {
			if after := answers[n-1].retryAfter; after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(answers[n-1].status)
			_, _ = io.WriteString(w, body)
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

// reason returns why a run gave up, ReasonNone if err is nil.
func reason(err error) retry.Reason {
	if e, ok := errors.AsType[*retry.Error](err); ok {
		return e.Reason
	}
	return retry.ReasonNone
}

// failing fails n times, and then returns v.
func failing[T any](n int, err error, v T) (op func(context.Context) (T, error), calls *int) {
	calls = new(int)
	return func(context.Context) (none T, _ error) {
		if *calls++; *calls <= n {
			return none, err
		}
		return v, nil
	}, calls
}

const ada = `{"Name": "Ada"}`

func TestGet(t *testing.T) {
	for name, tt := range map[string]struct {
		answers  []answer
		requests int64
		reason   retry.Reason
	}{
		"a 503":                       {[]answer{{503, ""}}, 2, retry.ReasonNone},
		"a 429":                       {[]answer{{429, "0"}}, 2, retry.ReasonNone},
		"a 404":                       {[]answer{{404, ""}}, 1, retry.ReasonPermanent},
		"more than five minutes":      {[]answer{{503, "301"}}, 1, retry.ReasonRetryAfter},
		"four times the same":         {[]answer{{503, "0"}, {503, "0"}, {503, "0"}, {503, "0"}}, 4, retry.ReasonMaxAttempts},
		"a wait that passes the call": {[]answer{{503, "299"}}, 1, retry.ReasonDeadline},
	} {
		url, requests := server(t, ada, tt.answers...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		user, err := getUser(ctx, url)
		cancel()
		if reason(err) != tt.reason || requests.Load() != tt.requests || (user.Name == "Ada") != (err == nil) {
			t.Errorf("%s: %v, %v after %d requests", name, user, err, requests.Load())
		}
	}
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, ada)
	}))
	defer half.Close()
	if _, err := getUser(t.Context(), half.URL); reason(err) != retry.ReasonMaxAttempts {
		t.Errorf("bodies that break off: %v", err)
	}
	if _, err := getUser(t.Context(), "http://127.0.0.1:1"); reason(err) != retry.ReasonMaxAttempts {
		t.Errorf("refused connections: %v", err)
	}

	// What the page warns of.
	url, requests := server(t, "", answer{503, ""})
	resp, err := retry.Do(t.Context(), retry.Policy{}, func(context.Context) (*http.Response, error) { return http.Get(url) })
	if err != nil || resp.StatusCode != 503 || requests.Load() != 1 {
		t.Errorf("retry.Do around a client: %v, %v after %d requests, want the 503 of one", resp, err, requests.Load())
	}
}

func TestPost(t *testing.T) {
	bare := func(url string) (*http.Response, error) {
		return payments.Post(url, "text/plain", strings.NewReader("10 EUR"))
	}
	keyed := func(url string) (*http.Response, error) { return pay(t.Context(), url, "order-7", "10 EUR") }
	for name, tt := range map[string]struct {
		post     func(string) (*http.Response, error)
		first    answer
		status   int
		requests int64
		reason   retry.Reason
	}{
		"a 503":                     {bare, answer{503, ""}, 503, 1, retry.ReasonNotIdempotent},
		"a 503 with a wait":         {bare, answer{503, "0"}, 503, 1, retry.ReasonNotIdempotent},
		"a 429":                     {bare, answer{429, ""}, 429, 1, retry.ReasonNotIdempotent},
		"a 429 with a Retry-After":  {bare, answer{429, "0"}, 200, 2, retry.ReasonNone},
		"a 409":                     {bare, answer{409, ""}, 409, 1, retry.ReasonNone},
		"a key, and a 503":          {keyed, answer{503, ""}, 200, 2, retry.ReasonNone},
		"a key, and a 409":          {keyed, answer{409, ""}, 200, 2, retry.ReasonNone},
		"a key, and a 404":          {keyed, answer{404, ""}, 404, 1, retry.ReasonNone},
		"a key, and a 429, no wait": {keyed, answer{429, ""}, 200, 2, retry.ReasonNone},
	} {
		url, requests := server(t, "", tt.first)
		resp, err := tt.post(url)
		if err != nil || resp.StatusCode != tt.status || requests.Load() != tt.requests || reason(retryhttp.GaveUp(resp)) != tt.reason {
			t.Errorf("%s: %v, %v after %d requests, %v", name, resp, err, requests.Load(), retryhttp.GaveUp(resp))
		}
	}
	for name, post := range map[string]func(string) (*http.Response, error){"bare": bare, "keyed": keyed} {
		if _, err := post("http://127.0.0.1:1"); reason(err) != retry.ReasonMaxAttempts { // nothing was sent
			t.Errorf("refused connections, %s: %v", name, err)
		}
	}

	// A timeout, with the default client's Timeout.
	var requests atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has left
		<-r.Context().Done()
	}))
	defer slow.Close()
	limited := *payments.Transport.(*retryhttp.Transport)
	limited.Policy.AttemptTimeout = 20 * time.Millisecond
	client := &http.Client{Transport: &limited}
	if _, err := client.Post(slow.URL, "text/plain", strings.NewReader("10 EUR")); !errors.Is(err, context.DeadlineExceeded) || requests.Load() != 1 {
		t.Errorf("a timeout: %v after %d requests, want the error of one", err, requests.Load())
	}
}

func TestFailover(t *testing.T) {
	policy := retry.Policy{Name: "get-user", MaxAttempts: 4, AttemptTimeout: 10 * time.Second}
	broken := []answer{{503, ""}, {503, ""}, {503, ""}, {503, ""}, {503, ""}, {503, ""}}
	down, asked := server(t, "", broken...)
	url, requests := server(t, ada)
	targets := func(first, second string) {
		replicas = failover.Set[string]{Targets: []*failover.Target[string]{{Name: "eu", Value: first}, {Name: "us", Value: second}}}
	}
	targets(down, url)
	start := time.Now()
	for range 5 {
		if user, err := getFrom(t.Context(), policy); err != nil || user.Name != "Ada" {
			t.Errorf("from the second replica: %v, %v", user, err)
		}
	}
	if asked.Load() != 3 || requests.Load() != 5 {
		t.Errorf("after %v: %d requests to a target that fails, and %d to the other: want 3, since it rests, and 5", time.Since(start), asked.Load(), requests.Load())
	}

	down, asked = server(t, "", append(broken, append(broken, broken...)...)...)
	targets(down, down)
	if _, err := getFrom(t.Context(), policy); err == nil || asked.Load() != 4 {
		t.Errorf("with Once: %v after %d requests, want 4", err, asked.Load())
	}
	down, asked = server(t, "", append(broken, append(broken, broken...)...)...)
	targets(down, down)
	_, err := failover.Do(t.Context(), policy, &replicas, func(ctx context.Context, t *failover.Target[string]) (User, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", t.Value, nil)
		if err != nil {
			return User{}, err
		}
		return retryhttp.JSON[User](ctx, policy, nil, req)
	})
	if err == nil || asked.Load() != 16 {
		t.Errorf("with JSON: %v after %d requests, want 16", err, asked.Load())
	}

	revoked, _ := server(t, "", answer{401, ""})
	url, requests = server(t, ada)
	targets(revoked, url)
	if _, err := getFrom(t.Context(), policy); reason(err) != retry.ReasonPermanent || requests.Load() != 0 {
		t.Errorf("after a 401: %v, and %d requests to the other replica", err, requests.Load())
	}

	// The budget of a new process does not pay for a switch after a timeout: until the first replica rests.
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	targets(hangs.URL, url)
	policy.AttemptTimeout, policy.Budget = 50*time.Millisecond, new(retry.EarnedBudget)
	for range 3 {
		if _, err := getFrom(t.Context(), policy); reason(err) != retry.ReasonBudget || requests.Load() != 0 {
			t.Errorf("after a timeout: %v, and %d requests to the other replica", err, requests.Load())
		}
	}
	policy.AttemptTimeout = 10 * time.Second
	if _, err := getFrom(t.Context(), policy); err != nil || requests.Load() != 1 {
		t.Errorf("while the first replica rests: %v after %d requests", err, requests.Load())
	}
}

func TestLLM(t *testing.T) {
	url, requests := server(t, "hello", answer{529, ""}, answer{429, "0"})
	if resp, err := complete(t.Context(), url, "Hi"); err != nil || resp.StatusCode != 200 || requests.Load() != 3 {
		t.Errorf("a completion: %v, %v after %d requests", resp, err, requests.Load())
	}
	spent := `{"error": {"type": "insufficient_quota"}}`
	url, requests = server(t, spent, answer{429, ""}, answer{429, ""})
	if resp, err := complete(t.Context(), url, "Hi"); err != nil || resp.StatusCode != 429 || requests.Load() != 1 {
		t.Errorf("without money: %v, %v after %d requests, want the 429 of one", resp, err, requests.Load())
	}
	url, requests = server(t, spent, answer{429, "1"})
	if resp, err := complete(t.Context(), url, "Hi"); err != nil || resp.StatusCode != 200 || requests.Load() != 2 {
		t.Errorf("without money, with a wait: %v, %v after %d requests, want it sent again", resp, err, requests.Load())
	}

	// A timeout is tried again once ten calls have succeeded.
	synctest.Test(t, func(t *testing.T) {
		was := model
		defer func() { model = was }()
		mine, calls, slow := *model.Transport.(*retryhttp.Transport), 0, false
		mine.Policy.Budget = new(retry.EarnedBudget)
		mine.Policy.Guards = []retry.Guard{&pace.Pace{Quota: 500, Per: time.Minute}}
		mine.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			if calls++; slow {
				slow = false
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		model = &http.Client{Transport: &mine}
		call := func() error { _, err := complete(t.Context(), "http://model", "Hi"); return err }
		slow = true
		if err := call(); reason(err) != retry.ReasonBudget || calls != 1 {
			t.Errorf("the first call's timeout: %v after %d attempts", err, calls)
		}
		start := time.Now()
		for range 11 {
			if err := call(); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took.Round(time.Millisecond) != 10*120*time.Millisecond {
			t.Errorf("eleven calls took %v, want ten times 120 ms", took)
		}
		slow, calls = true, 0
		if err := call(); err != nil || calls != 2 {
			t.Errorf("a later call's timeout: %v after %d attempts", err, calls)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestOnlyTheseErrors(t *testing.T) {
	for err, want := range map[error]int{errBusy: 3, syscall.ECONNREFUSED: 1} {
		h := retrytest.New(t, onlyBusy)
		if got := retry.Run(t.Context(), h.Policy, func(context.Context) error { return err }); !errors.Is(got, err) {
			t.Error(got)
		}
		h.AssertAttempts(want)
	}
}

// What the classifier of onlyBusy says, and what goes before it.
func TestTheClassifierDecides(t *testing.T) {
	for name, tt := range map[string]struct {
		op    func(ctx context.Context, h *retrytest.Harness) error
		calls int
	}{
		"an AttemptTimeout": {func(ctx context.Context, h *retrytest.Harness) error { return h.Clock.Sleep(ctx, time.Hour) }, 1},
		"a mark":            {func(context.Context, *retrytest.Harness) error { return retry.After(io.EOF, time.Second) }, 3},
		"an answer":         {func(context.Context, *retrytest.Harness) error { return retry.Answer(errBusy) }, 1},
		"a refusal":         {func(context.Context, *retrytest.Harness) error { return retry.Refuse(errBusy) }, 1},
		"undone":            {func(context.Context, *retrytest.Harness) error { return retry.Undone(io.EOF) }, 1},
	} {
		p := onlyBusy
		p.AttemptTimeout = time.Second
		h := retrytest.New(t, p)
		if err := retry.Run(t.Context(), h.Policy, func(ctx context.Context) error { return tt.op(ctx, h) }); err == nil {
			t.Errorf("%s: no error", name)
		}
		h.AssertAttempts(tt.calls)
	}
	p := onlyBusy
	p.Classify = func(error) retry.Class { return retry.Unknown }
	h := retrytest.New(t, p)
	_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return syscall.ECONNREFUSED })
	h.AssertAttempts(3)
}

var works = func(context.Context) error { return nil }

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := limited.Guards[0].(*pace.Pace)
		limited.Guards = []retry.Guard{&pace.Pace{Quota: was.Quota, Per: was.Per}} // another bubble's time is not this one's
		began := time.Now()
		var starts []time.Duration
		for range 101 {
			_ = retry.Run(t.Context(), limited, func(context.Context) error { starts = append(starts, time.Since(began)); return nil })
		}
		for i, at := range starts {
			if at.Round(time.Millisecond) != time.Duration(i)*600*time.Millisecond {
				t.Fatalf("attempt %d started after %v, want one every 600 ms", i+1, at)
			}
		}
		for deadline, fails := range map[time.Duration]bool{1100 * time.Millisecond: true, 1300 * time.Millisecond: false} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			start := time.Now()
			if err := retry.Run(ctx, limited, works); errors.Is(err, retry.ErrPaced) != fails || fails && time.Since(start) > 20*time.Millisecond {
				t.Errorf("with a deadline of %v: %v after %v", deadline, err, time.Since(start))
			}
			cancel()
			time.Sleep(600 * time.Millisecond)
			_ = retry.Run(t.Context(), limited, works)
		}
	})
}

func TestBreakerAndFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func(context.Context) ([]string, error) { return nil, errBusy }
		up := func(context.Context) ([]string, error) { return []string{"yours"}, nil }
		opens := new(breaker.Breaker) // another bubble's time is not this one's
		breaking.Guards = []retry.Guard{opens}
		attempts := 0
		for opens.Open() == 0 {
			_, _ = suggest(t.Context(), func(context.Context) ([]string, error) { attempts++; return nil, errBusy })
		}
		if attempts != 20 {
			t.Errorf("it opened after %d failures, want 20", attempts)
		}
		for n, least := range []time.Duration{800, 1600, 3200, 6400, 12800, 25600, 48000, 48000} { // a fifth less than 1 s, 2 s, …, 1 min; the call may go on for half a second
			least *= time.Millisecond
			if wait := opens.Open(); wait < least-500*time.Millisecond || wait > min(least*3/2+time.Millisecond, 72*time.Second) {
				t.Errorf("the wait %d is %v, want at least %v", n+1, wait, least)
			}
			start := time.Now()
			if _, err := suggest(t.Context(), up); !errors.Is(err, breaker.ErrOpen) || time.Since(start) > 0 {
				t.Errorf("while it is open: %v after %v, want an error at once", err, time.Since(start))
			}
			time.Sleep(opens.Open())
			_, _ = suggest(t.Context(), down) // one is tried
		}
		start, wait := time.Now(), opens.Open()
		if _, err := retry.Do(t.Context(), breaking, up); err != nil || time.Since(start) < wait {
			t.Errorf("without a deadline: %v after %v, want it to wait for %v", err, time.Since(start), wait)
		}
		for opens.Open() == 0 {
			_, _ = suggest(t.Context(), down)
		}
		once := breaking
		once.MaxAttempts = 1
		start = time.Now()
		if _, err := retry.Do(t.Context(), once, up); !errors.Is(err, breaker.ErrOpen) || time.Since(start) > 0 {
			t.Errorf("without a second attempt: %v after %v, want an error at once", err, time.Since(start))
		}
		time.Sleep(opens.Open())
		if _, err := suggest(t.Context(), up); err != nil {
			t.Error(err)
		}

		for name, tt := range map[string]struct {
			fetch func(context.Context) ([]string, error)
			items string
		}{
			"a success":      {up, "yours"},
			"all fail":       {down, "bestseller"},
			"time is up":     {func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }, "bestseller"},
			"a 404":          {func(context.Context) ([]string, error) { return nil, retry.Answer(errNoUser) }, ""},
			"a mistake":      {func(context.Context) ([]string, error) { return nil, retry.Stop(errNoUser) }, ""},
			"a wrong answer": {func(context.Context) ([]string, error) { return nil, &json.SyntaxError{} }, ""},
		} {
			items, err := recommend(t.Context(), tt.fetch)
			if strings.Join(items, "") != tt.items || (err == nil) != (tt.items != "") {
				t.Errorf("%s: %q, %v, want %q", name, items, err, tt.items)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if items, err := recommend(ctx, up); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancel: %q, %v", items, err)
		}
		for opens.Open() == 0 {
			_, _ = recommend(t.Context(), down)
		}
		if items, err := recommend(t.Context(), up); err != nil || items[0] != "bestseller" {
			t.Errorf("while the breaker is open: %q, %v", items, err)
		}
	})
}

func TestBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := bounded
		waits.Guards = []retry.Guard{bounded.Guards[0].(shedding).Limit}
		for range 20 {
			go func() {
				_ = retry.Run(context.Background(), bounded, func(context.Context) error { time.Sleep(time.Hour); return nil })
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := retry.Run(t.Context(), bounded, works); !errors.Is(err, limit.ErrLimited) || time.Since(start) > 0 {
			t.Errorf("the 21st: %v after %v, want it refused at once", err, time.Since(start))
		}
		tries := 0
		waits.Hooks.Guard = func(context.Context, retry.Held) { tries++ }
		if err := retry.Run(t.Context(), waits, works); !errors.Is(err, limit.ErrLimited) || time.Since(start) == 0 || tries != 3 {
			t.Errorf("the 22nd, without shedding: %v after %v and %d tries, want it to have waited between three", err, time.Since(start), tries)
		}
		time.Sleep(time.Hour)
		if err := retry.Run(t.Context(), bounded, works); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowest = new(hedge.Hedge) // another bubble's timers are not this one's
		var copies atomic.Int64
		if v, err := lookUp(t.Context(), func(ctx context.Context) (string, error) {
			if copies.Add(1) == 1 {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "found", nil
		}); v != "found" || err != nil || copies.Load() != 2 {
			t.Errorf("beside an attempt that hangs: %q, %v after %d calls", v, err, copies.Load())
		}

		calls := 0
		if v, err := report(t.Context(), func(ctx context.Context) (string, error) {
			if calls++; calls == 1 {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "made", nil
		}); v != "made" || err != nil || calls != 2 {
			t.Errorf("after an attempt that hangs: %q, %v after %d calls", v, err, calls)
		}

		began, calls := time.Now(), 0
		hung := false
		if o, err := wait(t.Context(), func(ctx context.Context) (Order, error) {
			if calls == 0 && !hung {
				hung, began = true, began.Add(12*time.Second) // the AttemptTimeout, and one wait
				<-ctx.Done()
				return Order{}, ctx.Err()
			}
			if calls++; calls < 31 {
				return Order{"paid"}, nil
			}
			return Order{"done"}, nil
		}); o.State != "done" || err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v, %v after %v", o, err, time.Since(began))
		}
		paid := func(context.Context) (Order, error) { return Order{"paid"}, nil }
		began = time.Now()
		if _, err := wait(t.Context(), paid); reason(err) != retry.ReasonMaxElapsed || time.Since(began) != 5*time.Minute {
			t.Errorf("an order that is never done: %v after %v", err, time.Since(began))
		}
		for limit, want := range map[int]time.Duration{0: 4 * time.Second, retry.Unlimited: 58 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began = time.Now()
			p := retry.Policy{MaxAttempts: limit, Backoff: retry.Constant(2 * time.Second)}
			_, err := retry.Do(ctx, p, retry.Until(paid, func(o Order) bool { return o.State == "done" }))
			if err == nil || time.Since(began) != want {
				t.Errorf("a deadline and MaxAttempts %d: %v after %v, want %v", limit, err, time.Since(began), want)
			}
			cancel()
		}

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		if err := work(ctx, func(context.Context) error { return errBusy }); err != nil {
			t.Errorf("work that was asked to end returns %v", err)
		}
		for _, closed := range []error{errBusy, nil} {
			began = time.Now()
			if err := work(t.Context(), func(context.Context) error { return retry.Stop(closed) }); !errors.Is(err, closed) || time.Since(began) > 0 {
				t.Errorf("a session that ends with %v: %v after %v, want that at once", closed, err, time.Since(began))
			}
		}
	})
}

// A hedge adds one call in twenty at most, and the call waits for an attempt that has lost.
func TestHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowest = new(hedge.Hedge)
		const calls = 2000
		var attempts atomic.Int64
		for n := range calls {
			var copies atomic.Int64
			_, _ = lookUp(t.Context(), func(context.Context) (string, error) {
				attempts.Add(1)
				if copies.Add(1) == 1 && n%5 == 0 { // four times as many as there are hedges for
					time.Sleep(time.Second)
				}
				time.Sleep(10 * time.Millisecond)
				return "found", nil
			})
		}
		if extra := int(attempts.Load()) - calls; extra < calls/40 || extra > calls/20+calls/100 {
			t.Errorf("%d calls had %d more attempts, want about one in twenty", calls, extra)
		}

		slowest = new(hedge.Hedge)
		var copies atomic.Int64
		start := time.Now()
		if _, err := lookUp(t.Context(), func(context.Context) (string, error) {
			if copies.Add(1) == 1 {
				time.Sleep(time.Hour) // whatever becomes of its context
			}
			return "found", nil
		}); err != nil || copies.Load() != 2 || time.Since(start) != time.Hour {
			t.Errorf("an attempt that ignores its context: %v with %d copies after %v, want an hour", err, copies.Load(), time.Since(start))
		}
	})
}

func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent [][]Row
		err := save(t.Context(), []Row{{1}, {2}, {3}}, func(_ context.Context, rows []Row) map[int]error {
			if sent = append(sent, rows); len(sent) == 1 {
				return map[int]error{1: errBusy}
			}
			return nil
		})
		if err != nil || len(sent) != 2 || len(sent[1]) != 1 || sent[1][0] != (Row{2}) {
			t.Errorf("%v, sent %v", err, sent)
		}
		sent = nil
		if err = save(t.Context(), []Row{{1}, {2}}, func(_ context.Context, rows []Row) map[int]error {
			sent = append(sent, rows)
			return map[int]error{0: retry.Stop(errBusy)}
		}); err == nil || len(sent) != 1 {
			t.Errorf("a row whose error is permanent: %v, sent %v", err, sent)
		}
	})
}

func TestTransaction(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "users"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err = db.Exec("CREATE TABLE users (id INTEGER, name TEXT); INSERT INTO users VALUES (1, 'Ada')"); err != nil {
		t.Fatal(err)
	}
	name := ""
	if err = rename(t.Context(), db, 1, "Grace"); err != nil {
		t.Error(err)
	}
	if err = db.QueryRow("SELECT name FROM users WHERE id = 1").Scan(&name); err != nil || name != "Grace" {
		t.Errorf("%q, %v", name, err)
	}

	// What runs again, and what does not.
	if err = rename(t.Context(), db, 2, "Grace"); !errors.Is(err, errNoUser) || reason(err) != retry.ReasonPermanent {
		t.Errorf("an error of one's own: %v", err)
	}
	runs := 0
	_, err = retrysql.Tx(t.Context(), retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}, db, nil,
		func(context.Context, *sql.Tx) (int, error) { runs++; return 0, errNoUser })
	if err == nil || runs != 5 {
		t.Errorf("the same without Stop: %v after %d runs, want 5", err, runs)
	}
}

func TestQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		age  time.Duration
		want string
	}{
		"a success":       {nil, 0, "ack"},
		"a failure":       {errBusy, 0, "return"},
		"a late failure":  {errBusy, 25 * time.Hour, "bury"},
		"a bad message":   {retry.Stop(errBusy), 0, "bury"},
		"an old delivery": {nil, 25 * time.Hour, "ack"},
		"a shutdown":      {context.Canceled, 0, "return at once"},
	} {
		got := ""
		m := Message{1, time.Now().Add(-tt.age),
			func() error { got = "ack"; return nil },
			func(error) error { got = "bury"; return nil },
			func(d time.Duration) error {
				if got = "return"; d == 0 && tt.err == context.Canceled {
					got = "return at once"
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		handle := func(context.Context) error {
			if tt.err == context.Canceled {
				cancel()
			}
			return tt.err
		}
		if _ = consume(ctx, m, handle); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}

	// How often a message comes that always fails.
	def := mails
	def.Backoff = nil
	for _, tt := range []struct {
		policy      retry.Policy
		least, most int
	}{{mails, 55, 65}, {def, 4000, 40000}} {
		tt.policy.Rand = func() float64 { return .5 }
		stored := time.Now()
		n, now := 0, stored
		for {
			n++
			d := retryqueue.Delivery{Number: n, Stored: stored, Now: now}.After(tt.policy, errBusy)
			if d.Action == retryqueue.Dead {
				break
			}
			now = now.Add(d.Delay)
		}
		if n < tt.least || n > tt.most {
			t.Errorf("%d deliveries in %v with %v", n, now.Sub(stored), tt.policy.Backoff)
		}
		t.Logf("%d deliveries with %v", n, tt.policy.Backoff)
	}
}

func TestObserved(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))
	defer otel.SetTracerProvider(before)
	for name, tt := range map[string]struct {
		with   func(*slog.Logger) retry.Policy
		level  slog.Level
		err    error
		counts map[string]int
		spans  int
	}{
		"logged":            {logged, slog.LevelInfo, errBusy, map[string]int{`msg="gave up"`: 1, "level=WARN": 1, "msg=retry": 2, "msg=attempt": 0}, 0},
		"logged at debug":   {logged, slog.LevelDebug, errBusy, map[string]int{`msg="gave up"`: 1, "level=DEBUG": 3, "msg=attempt": 3}, 0},
		"a permanent error": {logged, slog.LevelInfo, retry.Stop(errBusy), map[string]int{`msg="gave up"`: 1, "level=INFO": 1, "level=WARN": 0}, 0},
		"traced":            {traced, slog.LevelInfo, errBusy, map[string]int{`msg="gave up"`: 1}, 6}, // the run, three attempts, two waits
	} {
		var log strings.Builder
		spans.Reset()
		op, _ := failing(9, tt.err, 0)
		_, err := retry.Do(t.Context(), tt.with(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: tt.level}))), op)
		if err == nil || len(spans.GetSpans()) != tt.spans {
			t.Errorf("%s: %v, and %d spans, want %d", name, err, len(spans.GetSpans()), tt.spans)
		}
		for text, n := range tt.counts {
			if got := strings.Count(log.String(), text); got != n {
				t.Errorf("%s: %d lines have %s, want %d:\n%s", name, got, text, n, log.String())
			}
		}
	}
}

func TestConfiguration(t *testing.T) {
	p, err := fromText("name=get-user attempts=4 attempt_timeout=2s budget=earned")
	if err != nil || p.Name != "get-user" || p.MaxAttempts != 4 || p.AttemptTimeout != 2*time.Second || p.Budget == nil {
		t.Errorf("%+v, %v", p, err)
	}
	for text, says := range map[string]string{
		"atempts=4":     "did you mean attempts?",
		"timeout=2s":    "did you mean attempt_timeout?",
		"budget=erned":  "did you mean earned?",
		"colour=orange": "want one of name, attempts,",
	} {
		if _, err = fromText(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want it to say %q", text, err, says)
		}
	}
}
