package tasks

import (
	"context"
	"database/sql"
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
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

// server answers with the statuses in turn, and then 200.
func server(t *testing.T, body string, statuses ...int) (url string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := int(requests.Add(1)); n <= len(statuses) {
			if statuses[n-1] == 429 {
				w.Header().Set("Retry-After", "0")
			}
			w.WriteHeader(statuses[n-1])
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
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

func TestHTTP(t *testing.T) {
	url, requests := server(t, `{"Name": "Ada"}`, 503)
	if user, err := getUser(t.Context(), url); err != nil || user.Name != "Ada" || requests.Load() != 2 {
		t.Errorf("%v, %v after %d requests", user, err, requests.Load())
	}

	url, requests = server(t, "", 503)
	resp, err := newPayments().Post(url, "text/plain", strings.NewReader("10 EUR"))
	if err != nil || resp.StatusCode != 503 || requests.Load() != 1 {
		t.Errorf("a POST: %v, %v after %d requests, want the 503 of one", resp, err, requests.Load())
	}
	url, requests = server(t, "", 429)
	if resp, err = newPayments().Post(url, "text/plain", strings.NewReader("10 EUR")); err != nil || resp.StatusCode != 200 || requests.Load() != 2 {
		t.Errorf("a POST that is rejected: %v, %v after %d requests", resp, err, requests.Load())
	}

	down, asked := server(t, "", 503, 503, 503)
	url, requests = server(t, `{"Name": "Ada"}`)
	replicas.Targets[0].Value, replicas.Targets[1].Value = down, url
	once := func(ctx context.Context, url string) (User, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return User{}, err
		}
		return retryhttp.Once[User](ctx, retry.Policy{}, http.DefaultClient, req)
	}
	if user, err := getFrom(t.Context(), once); err != nil || user.Name != "Ada" || asked.Load() != 1 || requests.Load() != 1 {
		t.Errorf("from the second replica: %v, %v after %d and %d requests", user, err, asked.Load(), requests.Load())
	}

	url, requests = server(t, "hello", 529, 500)
	if resp, err = complete(t.Context(), url, "Hi"); err != nil || resp.StatusCode != 200 || requests.Load() != 3 {
		t.Errorf("a completion: %v, %v after %d requests", resp, err, requests.Load())
	}
}

func TestOnlyTheseErrors(t *testing.T) {
	for err, want := range map[error]int{errBusy: 3, syscall.ECONNREFUSED: 1} {
		h := retrytest.New(t, onlyBusy)
		op, calls := failing(5, err, 0)
		if _, got := retry.Do(t.Context(), h.Policy, op); !errors.Is(got, err) || *calls != want {
			t.Errorf("%v after %d calls, want %d", got, *calls, want)
		}
	}
}

func TestGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 101 {
			_ = retry.Run(t.Context(), limited, func(context.Context) error { return nil })
		}
		if took := time.Since(began); took.Truncate(time.Second) != time.Minute {
			t.Errorf("a hundred calls after the first took %v, want a minute", took)
		}

		for range 100 {
			_ = retry.Run(t.Context(), breaking, func(context.Context) error { return errBusy })
		}
		if items := recommend(t.Context(), func(context.Context) ([]string, error) { return []string{"yours"}, nil }); items[0] != "bestseller" {
			t.Errorf("while the breaker is open: %q", items)
		}
		if wait := breaking.Guards[0].(*breaker.Breaker).Open(); wait == 0 {
			t.Error("the breaker is not open")
		}
		time.Sleep(2 * time.Minute)
		if items := recommend(t.Context(), func(context.Context) ([]string, error) { return []string{"yours"}, nil }); items[0] != "yours" {
			t.Errorf("after it: %q", items)
		}

		for range 20 {
			go func() {
				_ = retry.Run(context.Background(), bounded, func(context.Context) error { time.Sleep(time.Hour); return nil })
			}()
		}
		synctest.Wait()
		if err := retry.Run(t.Context(), bounded, func(context.Context) error { return nil }); !errors.Is(err, limit.ErrLimited) {
			t.Errorf("the 21st: %v", err)
		}
		time.Sleep(time.Hour)
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
		if o, err := wait(t.Context(), func(context.Context) (Order, error) {
			if calls++; calls < 31 {
				return Order{"paid"}, nil
			}
			return Order{"done"}, nil
		}); o.State != "done" || err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v, %v after %v", o, err, time.Since(began))
		}

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		if err := work(ctx, func(context.Context) error { return errBusy }); err != nil {
			t.Errorf("work that was asked to end returns %v", err)
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
	} {
		got := ""
		m := Message{1, time.Now().Add(-tt.age),
			func() error { got = "ack"; return nil },
			func(error) error { got = "bury"; return nil },
			func(time.Duration) error { got = "return"; return nil },
		}
		if _ = consume(t.Context(), m, func(context.Context) error { return tt.err }); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestObserved(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))
	defer otel.SetTracerProvider(before)
	for name, with := range map[string]func(*slog.Logger) retry.Policy{"logged": logged, "traced": traced} {
		var log strings.Builder
		spans.Reset()
		op, _ := failing(9, errBusy, 0)
		_, err := retry.Do(t.Context(), with(slog.New(slog.NewTextHandler(&log, nil))), op)
		if err == nil || !strings.Contains(log.String(), "gave up") || (len(spans.GetSpans()) >= 3) != (name == "traced") {
			t.Errorf("%s: %v, the log says %q, and there are %d spans", name, err, log.String(), len(spans.GetSpans()))
		}
	}
}

func TestConfiguration(t *testing.T) {
	p, err := fromText("name=get-user attempts=4 attempt_timeout=2s budget=earned")
	if err != nil || p.Name != "get-user" || p.MaxAttempts != 4 || p.AttemptTimeout != 2*time.Second || p.Budget == nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err = fromText("atempts=4"); err == nil {
		t.Error("a mistyped field is no error")
	}
}
