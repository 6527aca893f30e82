package tasks

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retryconf"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrysql"
)

type (
	User  struct{ Name string }
	Order struct{ State string }
	Row   struct{ ID int }
)

var errNoUser = errors.New("no such user")

// Retry a GET.

func getUser(ctx context.Context, url string) (User, error) {
	policy := retry.Policy{Name: "get-user", MaxAttempts: 4}
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return User{}, err
	}
	return retryhttp.JSON[User](ctx, policy, http.DefaultClient, req)
}

// POST once.

var payments = &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Name: "pay", MaxAttempts: 4}}}

func pay(ctx context.Context, url, order, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Idempotency-Key", order) // only if the server knows this header
	return payments.Do(req)
}

// Only these errors.

var errBusy = errors.New("busy")

func only(err error) retry.Class {
	if errors.Is(err, errBusy) {
		return retry.Transient
	}
	return retry.Permanent
}

var onlyBusy = retry.Policy{Name: "reserve", Classify: only}

// Rate limit.

var limited = retry.Policy{
	Name:   "geocode",
	Guards: []retry.Guard{&pace.Pace{Quota: 100, Per: time.Minute}},
}

// Circuit breaker.

var breaking = retry.Policy{
	Name:   "recommend",
	Guards: []retry.Guard{new(breaker.Breaker)},
}

func suggest(ctx context.Context, fetch func(context.Context) ([]string, error)) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	return retry.Do(ctx, breaking, fetch)
}

// Bulkhead.

type shedding struct{ *limit.Limit }

func (s shedding) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	pass, err := s.Limit.Enter(ctx, e)
	return pass, retry.Stop(err)
}

var bounded = retry.Policy{
	Name:   "render",
	Guards: []retry.Guard{shedding{&limit.Limit{Max: 20}}}, // or &limit.Limit{Max: 20}, to try three times
}

// Fallback.

func recommend(ctx context.Context, fetch func(context.Context) ([]string, error)) ([]string, error) {
	items, err := suggest(ctx, fetch)
	if e, ok := errors.AsType[*retry.Error](err); ok && e.Temporary() {
		return []string{"bestseller"}, nil
	}
	return items, err
}

// Failover.

var replicas = failover.Set[string]{Targets: []*failover.Target[string]{
	{Name: "eu", Value: "https://eu.example.com/user"},
	{Name: "us", Value: "https://us.example.com/user"},
}}

func getFrom(ctx context.Context, policy retry.Policy) (User, error) { // one with an AttemptTimeout
	return failover.Do(ctx, policy, &replicas, func(ctx context.Context, t *failover.Target[string]) (User, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", t.Value, nil)
		if err != nil {
			return User{}, err
		}
		return retryhttp.Once[User](ctx, policy, http.DefaultClient, req)
	})
}

// Hedge.

var slowest = new(hedge.Hedge) // it measures, so it is made once

func lookUp(ctx context.Context, find func(context.Context) (string, error)) (string, error) {
	return hedge.Do(ctx, retry.Policy{Name: "find"}, slowest, find)
}

// Timeout.

func report(ctx context.Context, op func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	policy := retry.Policy{Name: "report", AttemptTimeout: 2 * time.Second}
	return retry.Do(ctx, policy, op)
}

// Poll.

func wait(ctx context.Context, get func(context.Context) (Order, error)) (Order, error) {
	policy := retry.Policy{
		Name:           "wait-for-order",
		MaxElapsed:     5 * time.Minute,
		AttemptTimeout: 10 * time.Second,
		Backoff:        retry.Constant(2 * time.Second),
	}
	return retry.Do(ctx, policy, retry.Until(get, func(o Order) bool { return o.State == "done" }))
}

// Batch.

func save(ctx context.Context, rows []Row, put func(context.Context, []Row) map[int]error) error {
	policy := retry.Policy{Name: "put-rows", MaxAttempts: 5}
	return retrybatch.Run(ctx, policy, rows, func(ctx context.Context, rows []Row) error {
		return retrybatch.Partial(put(ctx, rows)) // by the position in this call's rows
	})
}

// Transaction.

func rename(ctx context.Context, db *sql.DB, id int, name string) error {
	policy := retry.Policy{Name: "rename", MaxAttempts: 5}
	_, err := retrysql.Tx(ctx, policy, db, nil, func(ctx context.Context, tx *sql.Tx) (n int64, err error) {
		result, err := tx.ExecContext(ctx, "UPDATE users SET name = ? WHERE id = ?", name, id)
		if err != nil {
			return 0, err
		}
		if n, err = result.RowsAffected(); err == nil && n == 0 {
			err = retry.Stop(errNoUser)
		}
		return n, err
	})
	return err
}

// Queue.

var mails = retry.Policy{Name: "send-mail", MaxElapsed: 24 * time.Hour, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}}

func consume(ctx context.Context, m Message, handle func(context.Context) error) error {
	return retryqueue.Delivery{Number: m.Deliveries, Stored: m.Stored}.Handle(ctx, mails, handle,
		func(_ context.Context, d retryqueue.Decision) error {
			switch d.Action {
			case retryqueue.Ack:
				return m.Ack()
			case retryqueue.Dead:
				return m.Bury(d.Err)
			}
			return m.Return(d.Delay) // Retry; or Undecided, with no delay: ctx has ended
		})
}

// Message is what a queue's client has.
type Message struct {
	Deliveries int
	Stored     time.Time
	Ack        func() error
	Bury       func(error) error
	Return     func(time.Duration) error
}

// Log.

func logged(logger *slog.Logger) retry.Policy {
	eachRetry := retry.Hooks{Wait: func(ctx context.Context, a retry.Attempt) {
		logger.InfoContext(ctx, "retry", "name", a.Name, "after", a.Number, "error", a.Err, "delay", a.Delay)
	}}
	return retry.Policy{Name: "get-user", Hooks: retry.JoinHooks(retry.SlogHooks(logger), eachRetry)}
}

// Trace.

func traced(logger *slog.Logger) retry.Policy {
	return retry.Policy{
		Name:  "get-user",
		Hooks: retry.JoinHooks(otelretry.Hooks(), retry.SlogHooks(logger)),
	}
}

// Configuration.

func fromText(text string) (retry.Policy, error) {
	var p retryconf.Policy
	err := p.UnmarshalText([]byte(text)) // "name=get-user attempts=4 attempt_timeout=2s"
	return p.Policy, err
}

// Graceful shutdown.

func work(ctx context.Context, connect func(context.Context) error) error {
	err := retry.Supervise(ctx, retry.Policy{Name: "consume"}, time.Minute, connect)
	if ctx.Err() != nil {
		return nil // the program was asked to end
	}
	return err
}

// LLM.

var model = &http.Client{Transport: &retryhttp.Transport{Check: retryhttp.BodyHint, Policy: retry.Policy{
	Name: "complete", MaxAttempts: 5, AttemptTimeout: time.Minute, MaxRetryAfter: time.Minute,
	Budget: &retry.EarnedBudget{},
	Guards: []retry.Guard{&pace.Pace{Quota: 500, Per: time.Minute}},
}}}

func complete(ctx context.Context, url, prompt string) (*http.Response, error) {
	ctx = retryhttp.Idempotent(ctx, true) // to run twice only costs twice
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(prompt))
	if err != nil {
		return nil, err
	}
	return model.Do(req)
}
