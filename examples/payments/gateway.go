package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // clients that watch it
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/payments/ledgerpb"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

// gateway is the HTTP API.
type gateway struct {
	ledger ledgerpb.LedgerClient
	cache  *redis.Client
	redis  retry.Policy // a cache may fail: short, and once more
}

func runGateway(ctx context.Context, c config, listener net.Listener, log retry.Hooks) error {
	var page retrydebug.Recorder
	var sent sent
	hooks := retry.JoinHooks(log, page.Hooks())
	conn, err := dialLedgers(c.Ledgers, append(sent.dialOptions(), clients[c.Client](hooks, &page)...))
	if err != nil {
		return err
	}
	defer conn.Close()
	g := &gateway{
		ledger: ledgerpb.NewLedgerClient(conn),
		// Without ContextTimeoutEnabled the client would ignore the attempt's timeout.
		cache: redis.NewClient(&redis.Options{Network: "unix", Addr: c.Redis, MaxRetries: -1, ContextTimeoutEnabled: true}),
		redis: retry.Policy{Name: "redis", Hooks: hooks, Budget: new(retry.EarnedBudget), MaxAttempts: 2, AttemptTimeout: 50 * time.Millisecond,
			Backoff: retry.Exponential{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond}},
	}
	defer g.cache.Close()
	var leaving atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", g.pay)
	mux.HandleFunc("GET /accounts/{id}/balance", g.balance)
	mux.Handle("GET /debug/retry", &page)
	mux.Handle("GET /debug/sent", &sent)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if leaving.Load() { // and not if ledgers are away: each gateway would be taken out
			http.Error(w, "leaving", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: retryhttp.DeadlineHandler(mux, "X-Timeout-Ms", 3*time.Second)}
	return serve(ctx, server, listener, func() { leaving.Store(true) })
}

// dialLedgers returns a connection to all ledgers. Retries and second copies go to the
// other ledger.
func dialLedgers(addresses []string, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	ledgers := manual.NewBuilderWithScheme("ledgers")
	var state resolver.State
	for _, a := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	ledgers.InitialState(state)
	return grpc.NewClient("ledgers:///", append(opts,
		grpc.WithResolvers(ledgers),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithPropagators(traces))),
		// A ledger that is leaving says so by its health.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+retrygrpc.Balancer+`": {}}], "healthCheckConfig": {"serviceName": ""}}`),
		grpc.WithConnectParams(grpc.ConnectParams{ // a second after a ledger is back is late
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: .2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}))...)
}

// payment is the body of a request. Its id is the Idempotency-Key.
type payment struct {
	From   int64 `json:"from"`
	To     int64 `json:"to"`
	Amount int64 `json:"amount"`
}

func (g *gateway) pay(w http.ResponseWriter, r *http.Request) {
	key := strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
	var p payment
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&p)
	if key == "" || err != nil {
		http.Error(w, "a payment needs an Idempotency-Key and a body of JSON", http.StatusBadRequest)
		return
	}
	// A client that hangs up must not cut a COMMIT.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 3*time.Second)
	defer cancel()
	ctx = traces.Extract(ctx, propagation.HeaderCarrier(r.Header))
	// The ledger decides what was applied. The cache only saves it repeats.
	if saved, err := g.get(ctx, "pay:"+key); err == nil && saved == fmt.Sprint(p) {
		answer(w, map[string]any{"payment": key, "replayed": true})
		return
	}
	reply, err := g.ledger.Transfer(ctx, &ledgerpb.TransferRequest{PaymentId: key, From: p.From, To: p.To, Amount: p.Amount})
	if err != nil {
		fail(w, err)
		return
	}
	_ = retry.Run(ctx, g.redis, func(ctx context.Context) error {
		pipe := g.cache.Pipeline()
		pipe.Set(ctx, "pay:"+key, fmt.Sprint(p), time.Hour)
		pipe.Del(ctx, fmt.Sprint("balance:", p.From), fmt.Sprint("balance:", p.To))
		_, err := pipe.Exec(ctx)
		return err
	})
	answer(w, map[string]any{"payment": key, "replayed": reply.AlreadyApplied})
}

func (g *gateway) balance(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		http.Error(w, "no such account", http.StatusNotFound)
		return
	}
	key := fmt.Sprint("balance:", id)
	if cached, err := g.get(r.Context(), key); err == nil {
		answer(w, map[string]any{"account": id, "balance": json.Number(cached)})
		return
	}
	reply, err := g.ledger.Balance(r.Context(), &ledgerpb.BalanceRequest{Account: id})
	if err != nil {
		fail(w, err)
		return
	}
	_ = retry.Run(r.Context(), g.redis, func(ctx context.Context) error {
		return g.cache.Set(ctx, key, reply.Balance, time.Second).Err()
	})
	answer(w, map[string]any{"account": id, "balance": reply.Balance})
}

func (g *gateway) get(ctx context.Context, key string) (string, error) {
	return retry.Do(ctx, g.redis, func(ctx context.Context) (string, error) {
		value, err := g.cache.Get(ctx, key).Result()
		if errors.Is(err, redis.Nil) {
			err = retry.Answer(err) // Redis is well
		}
		return value, err
	})
}

// fail answers for a ledger that did not do it, and says whether to call again.
func fail(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	code := map[codes.Code]int{
		codes.InvalidArgument:    http.StatusBadRequest,
		codes.NotFound:           http.StatusNotFound,
		codes.AlreadyExists:      http.StatusUnprocessableEntity,
		codes.FailedPrecondition: http.StatusUnprocessableEntity,
	}[s.Code()]
	if code != 0 {
		http.Error(w, s.Message(), code)
		return
	}
	code = cmp.Or(retryhttp.Relay(w.Header(), err), http.StatusServiceUnavailable)
	http.Error(w, "the ledger is not available: repeat with the same Idempotency-Key", code)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
