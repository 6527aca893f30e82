package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retryqueue"
	"github.com/goretry/retry/retrysql"
)

// outbox is a table of messages beside the tables that they tell of. A message is
// inserted in the transaction that makes it true, so that both happen or neither does.
// relay publishes it later.
type outbox struct{ db *sql.DB }

// Times are in nanoseconds since 1970.
const schema = `
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
	id         INTEGER PRIMARY KEY,
	body       TEXT    NOT NULL,
	stored     INTEGER NOT NULL,
	due        INTEGER NOT NULL,            -- when it is to be delivered next
	deliveries INTEGER NOT NULL DEFAULT 0,  -- that have begun
	dead       TEXT                         -- why it is given up
);`

// lease is how long a delivery may take. If its process dies, the message is due again
// after that.
const lease = time.Second

// writing is the policy of each transaction. It may commit twice: an order and a message
// have an id, and to settle a message twice does no harm.
var writing = retry.Policy{
	Name:        "write",
	MaxAttempts: retry.Unlimited,
	MaxElapsed:  10 * time.Second,
	Backoff:     retry.Exponential{Base: 2 * time.Millisecond, Max: 100 * time.Millisecond},
	Classify:    retrysql.Repeatable,
}

// write runs fn in a transaction.
func write[T any](ctx context.Context, db *sql.DB, fn func(context.Context, *sql.Tx) (T, error)) (T, error) {
	return retrysql.Tx(ctx, writing, db, nil, fn)
}

// order stores an order and the message that tells of it. An order that is there already
// has its message, or had it.
func (o outbox) order(ctx context.Context, id int, item string) error {
	_, err := write(ctx, o.db, func(ctx context.Context, tx *sql.Tx) (sql.Result, error) {
		inserted, err := tx.ExecContext(ctx, `INSERT INTO orders (id, item) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, item)
		if err != nil {
			return nil, err
		}
		if n, err := inserted.RowsAffected(); n == 0 || err != nil {
			return nil, err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, body, stored, due) VALUES ($1, $2, $3, $3)`, id, item, time.Now().UnixNano())
		if err == nil && item == "" {
			err = retry.Stop(errors.New("an order needs an item")) // rolls the message back, too
		}
		return nil, err
	})
	return err
}

// message is one that is to be delivered now.
type message struct {
	id       int
	body     string
	delivery retryqueue.Delivery
}

// next takes the message that has been due for longest. The delivery is counted before
// it begins, so that one that kills its process counts, too. If no message is due, the
// id is 0, and wait is how long to wait for one. After the last message both are 0.
func (o outbox) next(ctx context.Context) (m message, wait time.Duration, err error) {
	m, err = write(ctx, o.db, func(ctx context.Context, tx *sql.Tx) (m message, err error) {
		now := time.Now()
		var stored int64
		err = tx.QueryRowContext(ctx, `
			UPDATE outbox SET deliveries = deliveries + 1, due = $1
			WHERE id = (SELECT id FROM outbox WHERE dead IS NULL AND due <= $2 ORDER BY due, id LIMIT 1)
			RETURNING id, body, stored, deliveries`, now.Add(lease).UnixNano(), now.UnixNano()).
			Scan(&m.id, &m.body, &stored, &m.delivery.Number)
		m.delivery.Stored = time.Unix(0, stored)
		if errors.Is(err, sql.ErrNoRows) {
			return message{}, nil
		}
		return m, err
	})
	if err != nil || m.id != 0 {
		return m, 0, err
	}
	var due sql.NullInt64
	err = o.db.QueryRowContext(ctx, `SELECT min(due) FROM outbox WHERE dead IS NULL`).Scan(&due)
	if due.Valid {
		wait = max(time.Until(time.Unix(0, due.Int64)), time.Millisecond)
	}
	return message{}, wait, err
}

// settle stores what was decided about a message.
func (o outbox) settle(ctx context.Context, m message, d retryqueue.Decision) error {
	_, err := write(ctx, o.db, func(ctx context.Context, tx *sql.Tx) (sql.Result, error) {
		switch d.Action {
		case retryqueue.Ack:
			return tx.ExecContext(ctx, `DELETE FROM outbox WHERE id = $1`, m.id)
		case retryqueue.Retry:
			return tx.ExecContext(ctx, `UPDATE outbox SET due = $1 WHERE id = $2`, time.Now().Add(d.Delay).UnixNano(), m.id)
		case retryqueue.Dead:
			return tx.ExecContext(ctx, `UPDATE outbox SET dead = $1 WHERE id = $2`, d.Err.Error(), m.id)
		}
		return nil, nil // undecided: it is due after its lease
	})
	return err
}

// relay publishes the messages of the outbox until none is left, or ctx ends. Several
// processes may do that at once. A service does not return when the outbox is empty: it
// waits for a moment.
func (o outbox) relay(ctx context.Context, p retry.Policy, publish func(context.Context, message) error) error {
	for {
		m, wait, err := o.next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("next: %w", err)
		case m.id == 0 && wait == 0:
			return nil
		case m.id == 0:
			err = clockx.System().Sleep(ctx, wait)
		default:
			err = m.delivery.Handle(ctx, p,
				func(ctx context.Context) error { return publish(ctx, m) },
				func(ctx context.Context, d retryqueue.Decision) error { return o.settle(ctx, m, d) })
		}
		if err != nil {
			return err
		}
	}
}
