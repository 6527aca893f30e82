package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/payments/ledgerpb"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retrysql"
)

const (
	accounts = 100
	opening  = 1_000_000 // of each account
)

const schema = `
CREATE TABLE IF NOT EXISTS accounts (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE IF NOT EXISTS payments (id text PRIMARY KEY, from_acct bigint NOT NULL, to_acct bigint NOT NULL, amount bigint NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (seq bigserial PRIMARY KEY, payment_id text NOT NULL, trace text NOT NULL);
INSERT INTO accounts SELECT i, $1 FROM generate_series(1, $2::bigint) i ON CONFLICT DO NOTHING`

// startup waits for what a service needs: databases and brokers start when they start.
func startup(log retry.Hooks) retry.Policy {
	return retry.Policy{Name: "startup", Hooks: log, MaxAttempts: retry.Unlimited, MaxElapsed: time.Minute,
		Backoff: retry.Exponential{Base: 50 * time.Millisecond, Max: time.Second}}
}

// ledger applies payments in PostgreSQL, each once, and publishes them after that.
type ledger struct {
	ledgerpb.UnimplementedLedgerServer
	pool           *pgxpool.Pool
	transfer, read retry.Policy
}

func runLedger(ctx context.Context, c config, listener net.Listener, log retry.Hooks) error {
	pools, err := pgxpool.ParseConfig(c.Postgres)
	if err != nil {
		return err
	}
	pools.MaxConns = 8
	pools.ConnConfig.ConnectTimeout = time.Second
	if c.Slow > 0 { // a database that can do so much, whatever the machine can
		pools.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			_, err := conn.Exec(ctx, `SELECT pg_sleep($1)`, c.Slow.Seconds())
			return err == nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), pools)
	if err != nil {
		return err
	}
	defer pool.Close()

	var postgres retry.EarnedBudget // conflicts cost it nothing, a database that is away does
	l := &ledger{
		pool: pool,
		transfer: retry.Policy{Name: "transfer", Hooks: log, Budget: &postgres,
			// Each attempt may lose to another transaction, for two seconds.
			MaxAttempts: retry.Unlimited, MaxElapsed: 2 * time.Second, AttemptTimeout: time.Second,
			Backoff:  retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond},
			Classify: retrysql.Repeatable, // the payment's id is a unique key
		},
		read: retry.Policy{Name: "read", Hooks: log, Budget: &postgres, AttemptTimeout: 200 * time.Millisecond,
			Backoff: retry.Exponential{Base: 5 * time.Millisecond, Max: 50 * time.Millisecond}},
	}
	if err := retry.Run(ctx, startup(log), func(ctx context.Context) error { return create(ctx, pool) }); err != nil {
		return err
	}
	nc, js, err := connect(c)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := retry.Run(ctx, startup(log), func(ctx context.Context) error { _, err := stream(ctx, js); return err }); err != nil {
		return err
	}
	relaying, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		relay := retry.Policy{Name: "relay", Hooks: log, MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: 50 * time.Millisecond, Max: 2 * time.Second}}
		ended <- retry.Supervise(relaying, relay, 2*time.Second, func(ctx context.Context) error { return publish(ctx, pool, js) })
	}()
	defer func() { stop(); <-ended }()

	// Requests too many are turned away, and the limits say when to come back.
	places := &retry.PerKey[limit.Adaptive]{New: func(string) *limit.Adaptive { return &limit.Adaptive{Min: 16, Max: 150} }}
	server := grpc.NewServer(append(append(
		retrygrpc.LimitServer(func(_ context.Context, method string) []retry.Guard { return []retry.Guard{places.For(method)} }),
		retrygrpc.ServerOptions()...),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithPropagators(traces))))...)
	ledgerpb.RegisterLedgerServer(server, l)
	checks := health.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	defer context.AfterFunc(ctx, func() {
		checks.Shutdown() // it is not serving, say its checks
		time.Sleep(notice)
		time.AfterFunc(grace, server.Stop)
		server.GracefulStop()
	})()
	return server.Serve(listener) // until GracefulStop has returned
}

// create makes the tables. Both ledgers may do that at once.
func create(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(1)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol, opening, accounts)
		return err
	})
}

func (l *ledger) Transfer(ctx context.Context, req *ledgerpb.TransferRequest) (*ledgerpb.TransferReply, error) {
	if req.PaymentId == "" || req.From == req.To || req.Amount <= 0 {
		return nil, status.Error(codes.InvalidArgument, "a payment needs an id, two accounts and an amount")
	}
	serializable := func(ctx context.Context) (pgx.Tx, error) {
		return l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	}
	reply, err := retrysql.TxOf(ctx, l.transfer, serializable, func(ctx context.Context, tx pgx.Tx) (*ledgerpb.TransferReply, error) {
		return apply(ctx, tx, req)
	})
	return reply, failure(ctx, err)
}

// apply is one transaction.
func apply(ctx context.Context, tx pgx.Tx, req *ledgerpb.TransferRequest) (*ledgerpb.TransferReply, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO payments VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, req.PaymentId, req.From, req.To, req.Amount)
	if err != nil {
		return nil, err
	}
	if tag.RowsAffected() == 0 { // an earlier request, or an attempt whose COMMIT was not answered
		var same bool
		err := tx.QueryRow(ctx, `SELECT from_acct = $2 AND to_acct = $3 AND amount = $4 FROM payments WHERE id = $1`,
			req.PaymentId, req.From, req.To, req.Amount).Scan(&same)
		if err == nil && !same {
			err = status.Error(codes.AlreadyExists, "another payment has this id")
		}
		return &ledgerpb.TransferReply{AlreadyApplied: true}, err
	}
	tag, err = tx.Exec(ctx, `UPDATE accounts SET balance = balance - $2 WHERE id = $1 AND balance >= $2`, req.From, req.Amount)
	if err == nil && tag.RowsAffected() == 0 {
		err = status.Error(codes.FailedPrecondition, "insufficient funds")
	}
	if err != nil {
		return nil, err
	}
	tag, err = tx.Exec(ctx, `UPDATE accounts SET balance = balance + $2 WHERE id = $1`, req.To, req.Amount)
	if err == nil && tag.RowsAffected() == 0 {
		err = status.Error(codes.NotFound, "no such account")
	}
	if err != nil {
		return nil, err
	}
	trace := propagation.MapCarrier{}
	traces.Inject(ctx, trace)
	_, err = tx.Exec(ctx, `INSERT INTO outbox (payment_id, trace) VALUES ($1, $2)`, req.PaymentId, trace["traceparent"])
	return &ledgerpb.TransferReply{}, err
}

func (l *ledger) Balance(ctx context.Context, req *ledgerpb.BalanceRequest) (*ledgerpb.BalanceReply, error) {
	n, err := retry.Do(ctx, l.read, func(ctx context.Context) (n int64, err error) {
		return n, l.pool.QueryRow(ctx, `SELECT balance FROM accounts WHERE id = $1`, req.Account).Scan(&n)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, status.Error(codes.NotFound, "no such account")
	}
	return &ledgerpb.BalanceReply{Balance: n}, failure(ctx, err)
}

// failure returns a status that says whether to call again. The text of an answer of the
// ledger's own goes to the caller, that of the database does not.
func failure(ctx context.Context, err error) error {
	text := "the ledger cannot do it now"
	if answer, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		text = answer.GRPCStatus().Message()
	}
	return retrygrpc.Status(ctx, err, text)
}

// connect returns a connection that outlives restarts of the server.
func connect(c config) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(c.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

// stream makes the stream of payments that were applied. What the ledgers publish again
// within ten minutes it drops.
func stream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	return js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "PAYMENTS", Subjects: []string{"payments.>"}, Duplicates: 10 * time.Minute})
}

// applied is a payment in the outbox.
type applied struct{ Payment, Trace string }

// publish publishes the outbox, until an error. A crash before COMMIT publishes messages
// again, and loses none.
func publish(ctx context.Context, pool *pgxpool.Pool, js jetstream.JetStream) error {
	for {
		n := 0
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox ORDER BY seq LIMIT 200 FOR UPDATE SKIP LOCKED) RETURNING payment_id, trace`)
			if err != nil {
				return err
			}
			batch, err := pgx.CollectRows(rows, pgx.RowToStructByPos[applied])
			if err != nil {
				return err
			}
			n = len(batch)
			return publishAll(ctx, js, batch)
		})
		if err != nil {
			return err
		}
		if n == 0 {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func publishAll(ctx context.Context, js jetstream.JetStream, batch []applied) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	acks := make([]jetstream.PubAckFuture, len(batch))
	for i, a := range batch {
		msg := nats.NewMsg("payments.applied")
		msg.Data = []byte(a.Payment)
		propagation.HeaderCarrier(msg.Header).Set("traceparent", a.Trace)
		var err error
		if acks[i], err = js.PublishMsgAsync(msg, jetstream.WithMsgID(a.Payment)); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
